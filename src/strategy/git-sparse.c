/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse checkouts, of the inside and of the original: an entry of the index that is marked skip-worktree, and whose file is not there, is what the
 * index says, and not a deletion. Git itself treats it so.
 *
 * A merge inside may change such an entry: the commit has a new content of which there is no file. It lands where the original does not have the
 * file checked out either; its index gets the entry, with the mark. Everywhere else the checkout of the original would lack what was committed.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

/* ---- inside ---- */

bool git_sparse_is_marked(const struct git_work *w, const char *path)
{
	const struct git_entry *e = git_entries_find(&w->tracked, path);

	return e && (e->marks & GIT_MARK_SKIP);
}

bool git_sparse_hides(const struct change *c, const struct git_entry *e)
{
	return (e->marks & GIT_MARK_SKIP) && !c->has_after;
}

int git_sparse_find(struct git_work *w)
{
	int rc = 0;

	for (size_t i = 0; i < w->tracked.n && rc >= 0; i++) {
		const struct git_entry *e = &w->tracked.v[i];
		const struct change *c = e->marks & GIT_MARK_SKIP ? changes_find(w->files, e->path) : NULL;

		if (c && git_sparse_hides(c, e))
			rc = git_entries_add(&w->hidden, e->path, e->mode, &e->id, 0);
	}
	return rc;
}

static bool is_away(const struct resource *r, const char *path)
{
	AUTO_FD there = fd_open_beneath(r->root_fd, path, O_PATH | O_NOFOLLOW);

	return there == -ENOENT || there == -ENOTDIR;
}

bool git_sparse_is_nowhere(const struct resource *r, int upper_fd, const char *path)
{
	int layer = git_refs_layer(&(struct git_refs){ upper_fd, r->root_fd, resource_marks(r) }, path);

	return layer == -ENOENT || (layer == r->root_fd && is_away(r, path));
}

/* ---- in the original ---- */

/* 1 or 0. The patterns stay when a sparse checkout is ended. */
static int is_sparse(const struct git_call *how, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = *how;
	int rc;

	call.output = &out;
	rc = git_call(&call, err,
		      (const char *const[]){ "config", "--type=bool", "--default=false", "--get", "core.sparseCheckout",
					     NULL });
	return rc < 0 ? rc : strncmp(strbuf_str(&out), "true", 4) == 0;
}

/* Puts the list into an index of its own, whose entries git then marks by the patterns. Git has no file to remove: the
 * work tree is an empty directory. */
static int mark_by_patterns(const struct git_call *how, const struct git_entries *list, struct git_entries *ret,
			    struct atoll_error *err)
{
	AUTO_STRBUF info = STRBUF_INIT;
	struct git_call call = *how;
	int rc;

	git_entries_format(list, strlen(list->v[0].id.hex), &info);
	if (info.failed)
		return error_oom(err, how->operation);
	call.input = info.data;
	call.input_size = info.size;
	rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	/* A sparse index would need trees of these entries, which are in no store. */
	if (rc >= 0)
		rc = git_call(how, err,
			      (const char *const[]){ "-c", "index.sparse=false", "sparse-checkout", "reapply", NULL });
	return rc < 0 ? rc : git_entries_of_index(how, ret, err);
}

int git_sparse_leaves_out(struct resource *r, const struct git_call *how, const char *place, struct git_entries *list,
			  struct atoll_error *err)
{
	AUTO_FREE char *below = str_format("%s/tree", place);
	AUTO_FREE char *tree = str_format("%s/%s/tree", r->row.work, place);
	AUTO_FREE char *index = str_format("%s/%s/index", r->row.work, place);
	AUTO_GIT_ENTRIES marked = { 0 };
	AUTO_FD made = -EBADF;
	struct git_call call = *how;
	int rc = !list->n ? 0 : below && tree && index ? is_sparse(how, err) : error_oom(err, how->operation);

	if (rc <= 0)
		return rc;
	rc = tree_remove(r->work_fd, place);
	made = rc < 0 && rc != -ENOENT ? rc : fd_make_path(r->work_fd, below);
	if (made < 0)
		return error_sys(err, made, how->operation, tree, "cannot make the directory \"%s\"", tree);
	call.work_tree = tree;
	call.index = index;
	rc = mark_by_patterns(&call, list, &marked, err);
	for (size_t i = 0; i < list->n && rc >= 0; i++) {
		const struct git_entry *e = git_entries_find(&marked, list->v[i].path);

		list->v[i].marks |= e ? e->marks & GIT_MARK_SKIP : 0;
	}
	(void)tree_remove(r->work_fd, place);
	return MIN(rc, 0);
}

static int mark_new(const struct git_work *w, struct git_landing *l, struct git_entries *new, struct atoll_error *err)
{
	AUTO_FREE char *place = str_format("%s/sparse", w->name);
	const struct git_call call = git_work_call(w);
	int rc = place ? git_sparse_leaves_out(w->r, &call, place, new, err) : error_oom(err, w->operation);

	for (size_t i = 0; i < l->to.n && rc >= 0; i++) {
		const struct git_entry *e = git_entries_find(new, l->to.v[i].path);

		l->to.v[i].marks |= e ? e->marks : 0;
	}
	return rc;
}

int git_sparse_mark(const struct git_work *w, struct git_landing *l, const struct git_entries *index,
		    struct atoll_error *err)
{
	AUTO_GIT_ENTRIES new = { 0 };

	for (size_t i = 0; i < l->to.n; i++) {
		struct git_entry *to = &l->to.v[i];
		const struct git_entry *e = git_entries_find(index, to->path);

		if (!to->mode || !git_sparse_is_marked(w, to->path) || !is_away(w->r, to->path))
			continue;
		if (e && (e->marks & GIT_MARK_SKIP))
			to->marks |= GIT_MARK_SKIP;
		else if (!e && git_entries_add(&new, to->path, to->mode, &to->id, 0) < 0)
			return error_oom(err, w->operation);
	}
	return new.n ? mark_new(w, l, &new, err) : 0;
}
