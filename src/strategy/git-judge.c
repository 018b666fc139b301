/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a commit: files of the original that another process has touched since the sandbox began, and that still hold what is committed.
 * So it is when a branch was checked out and left again, or when the command merged what was committed outside. Landing on those loses nothing.
 *
 * `git status` is not asked: by a mark in the index, or by the user's configuration, it leaves edits out. The contents are compared, and what
 * git knows nothing of, permissions, owner and attributes, has to be what the sandbox has, or had found.
 *
 * Before an undo: files that landed, and that git has written anew since, or a process has touched.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

static bool was_touched(const struct git_work *w, const struct change *c)
{
	return c->has_before && c->before.ctime >= resource_stamp(w->r, c->path);
}

static bool has_known_mode(const struct git_work *w, const struct change *c)
{
	struct store_touch base;
	bool known = overlay_base(w->r, c->path, &base, NULL) > 0 && (base.trusted & STORE_TRUST_META);

	if (c->has_after && c->before.mode == c->after.mode && !(c->what & ATOLL_WHAT_OWNER))
		return true;
	if (!known)
		return !c->has_after;
	return c->before.mode == base.look.mode && c->before.uid == base.look.uid && c->before.gid == base.look.gid;
}

static bool has_known_attributes(const struct git_work *w, int upper_fd, const struct change *c)
{
	AUTO_FD inside = -EBADF, outside = -EBADF, file = -EBADF;
	struct tree_xattrs x = { 0 };
	const char *ours, *theirs;
	bool none;

	if (fd_open_parent(w->r->root_fd, c->path, &outside, &theirs) < 0)
		return false;
	if (c->has_after)
		return fd_open_parent(upper_fd, c->path, &inside, &ours) >= 0 &&
		       tree_xattrs_same(inside, ours, outside, theirs, resource_marks(w->r)) > 0;
	if (S_ISLNK(c->before.mode))
		return true;
	file = fd_open_beneath(outside, theirs, O_PATH);
	none = file >= 0 && tree_xattrs_read(file, resource_marks(w->r), &x) >= 0 && x.n == 0;
	tree_xattrs_release(&x);
	return none;
}

/* As far as it can be said without reading it. */
static int collect(const struct git_work *w, struct changes *list, struct git_entries *ret)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	int rc = MIN(upper, 0);

	for (size_t i = 0; i < list->n && rc >= 0; i++) {
		struct change *c = &list->v[i];
		const struct git_entry *e = c->judged ? git_work_original(w, c->path) : NULL;

		/* The original's branch has removed the file, too: commits decide whether it comes back. */
		if (e && !e->mode && !c->has_before)
			c->gone = c->judged = false;
		c->judged = e && c->judged && was_touched(w, c) && has_known_mode(w, c) &&
			    has_known_attributes(w, upper, c);
		if (c->judged)
			rc = git_entries_add(ret, e->path, e->mode, &e->id, 0);
	}
	return rc;
}

int git_judge(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES touched = { 0 }, edited = { 0 };
	AUTO_FREE char *index = str_format("%s/touched", w->quarantine);
	struct git_call call = git_work_call(w);
	int rc = index ? collect(w, list, &touched) : -ENOMEM;

	if (rc < 0)
		return error_sys(err, rc, w->operation, w->r->row.path, "cannot look at the files of \"%s\"",
				 w->r->row.path);
	if (!touched.n)
		return 0;
	call.index = index;
	rc = git_entries_edited(&call, &touched, &edited, err);
	for (size_t i = 0; i < list->n && rc >= 0; i++)
		if (list->v[i].judged && git_entries_find(&edited, list->v[i].path))
			list->v[i].judged = false;
	return rc;
}

/* ---- before an undo ---- */

#define GITLINK 0160000

/* Of what landed, the paths in question. */
static int select_landed(int dir_fd, const char *const *paths, size_t n, struct git_entries *ret)
{
	AUTO_GIT_ENTRIES landed = { 0 };
	AUTO_FREE bool *wanted = NULL;
	int rc = git_index_landed(dir_fd, &landed);

	wanted = calloc(landed.n ? landed.n : 1, sizeof *wanted);
	if (rc >= 0 && !wanted)
		rc = -ENOMEM;
	for (size_t i = 0; i < n && rc >= 0; i++) {
		const struct git_entry *e = git_entries_find(&landed, paths[i]);

		if (e && e->mode && e->mode != GITLINK)
			wanted[e - landed.v] = true;
	}
	for (size_t i = 0; i < landed.n && rc >= 0; i++)
		if (wanted[i])
			rc = git_entries_add(ret, landed.v[i].path, landed.v[i].mode, &landed.v[i].id, 0);
	return rc;
}

int git_judge_landed(struct resource *r, int dir_fd, const char *const *paths, size_t n, bool *same,
		     struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_ENTRIES landed = { 0 }, edited = { 0 };
	AUTO_FREE char *index = str_format("%s/" GIT_INDEX, r->row.work);
	struct git_call call = { .repo = &repo, .operation = "undo", .index = index };
	int rc = index ? select_landed(dir_fd, paths, n, &landed) : -ENOMEM;

	if (rc < 0)
		return error_sys(err, rc, "undo", r->row.path, "the record of the commit of \"%s\" cannot be read",
				 r->row.path);
	if (!landed.n)
		return 0;
	(void)tree_remove(r->work_fd, GIT_INDEX_LOCK);
	(void)tree_remove(r->work_fd, GIT_INDEX);
	rc = git_repo_reopen(r->row.path, "undo", &repo, err);
	if (rc >= 0)
		rc = git_entries_edited(&call, &landed, &edited, err);
	(void)tree_remove(r->work_fd, GIT_INDEX);
	for (size_t i = 0; i < n && rc >= 0; i++)
		same[i] = git_entries_find(&landed, paths[i]) && !git_entries_find(&edited, paths[i]);
	return rc;
}
