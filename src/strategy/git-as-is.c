/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository taken as it is: files that a command inside edits land as files, and neither the
 * branch nor the index of the original has them. So a commit may land some of these files alone.
 * Two kinds of work inside would be lost, so a commit reports them: content that only the index
 * inside has, and git's own configuration and hooks.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define GITLINK 0160000
#define PRIVATE_MAX ((size_t)1 << 24)
#define COMMITTED_INSIDE "is part of a commit made inside, and commits land together; commit everything, or other paths"

static bool is_entry(const struct git_entry *a, const struct git_entry *b)
{
	return a && a->mode == b->mode && (!a->mode || git_id_equal(&a->id, &b->id));
}

bool git_as_is_is_committed(const struct git_work *w, const struct git_entry *e)
{
	return !w->state.as_is || is_entry(git_entries_find(&w->committed, e->path), e);
}

bool git_as_is_is_edited(const struct git_work *w, const char *path)
{
	return w->state.as_is && (git_entries_find(&w->base_new, path) || git_entries_find(&w->edited, path));
}

/* Whether no other process has changed the original's file since the sandbox knows it. */
static bool is_as_known(const struct git_work *w, const struct change *c)
{
	return c->has_before ? c->before.ctime < resource_stamp(w->r, c->path) : !c->gone;
}

bool git_as_is_edits_file(const struct git_work *w, int upper_fd, const struct change *c)
{
	const struct git_entry *there = git_work_original(w, c->path);

	if (!w->state.as_is || w->elsewhere || !c->has_after || S_ISDIR(c->after.mode) || !is_as_known(w, c) ||
	    git_carried_is_like_original(w, upper_fd, c))
		return false;
	/* The inside does not track a new file that landed: its index has become that of HEAD. */
	if (there)
		return there->mode && !git_entries_find(&w->tracked, c->path) &&
		       !git_entries_find(&w->base_new, c->path);
	return git_entries_find(&w->base_new, c->path);
}

static bool is_there(const struct git_work *w, const char *path)
{
	AUTO_FD there = fd_open_beneath(w->r->root_fd, path, O_PATH | O_NOFOLLOW);

	return there >= 0;
}

/* Collects staged entries that are in no commit and in no file that a command inside wrote. */
static int collect_staged(struct git_work *w, struct git_entries *ret)
{
	int rc = 0;

	for (size_t i = 0; i < w->base_new.n && rc >= 0; i++) {
		const struct git_entry *e = &w->base_new.v[i];

		if (e->mode == GITLINK || git_as_is_is_committed(w, e) || changes_find(w->files, e->path) ||
		    resource_is_others(w->r, e->path))
			continue;
		if (e->mode)
			rc = git_entries_add(ret, e->path, e->mode, &e->id, 0);
		else if (is_there(w, e->path))
			rc = git_entries_add(&w->staged, e->path, 0, &e->id, 0);
	}
	return rc;
}

/* Entries whose file has the staged content are not lost with the index. */
static int add_lost(struct git_work *w, const struct git_entries *staged, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES lost = { 0 };
	AUTO_FREE char *index = str_format("%s/as-is", w->quarantine);
	struct git_call call = git_work_call(w);
	int rc = index ? 0 : -ENOMEM;

	if (rc < 0)
		return error_oom(err, w->operation);
	call.index = index;
	rc = git_entries_edited(&call, staged, &lost, err);
	for (size_t i = 0; i < lost.n && rc >= 0; i++)
		if (git_entries_add(&w->staged, lost.v[i].path, lost.v[i].mode, &lost.v[i].id, 0) < 0)
			return error_oom(err, w->operation);
	return rc;
}

int git_as_is_find(struct git_work *w, struct atoll_error *err)
{
	const struct git_call call = git_work_call(w);
	AUTO_GIT_ENTRIES staged = { 0 };
	int rc;

	if (!w->state.as_is || w->elsewhere)
		return 0;
	rc = git_entries_between(&call, &w->base, &w->tip_tree, NULL, &w->committed, err);
	if (rc < 0)
		return rc;
	if (collect_staged(w, &staged) < 0)
		return error_oom(err, w->operation);
	return staged.n ? add_lost(w, &staged, err) : 0;
}

/* ---- some of the files ---- */

/* Whether the path lands: by its own change, or with a directory that the commit adds, replaces or
 * removes. If memory is short: true, so that the commit is refused. */
static bool is_landing(const struct changes *list, const char *path,
		       bool (*lands)(const struct change *c, const void *arg), const void *arg)
{
	AUTO_FREE char *at = strdup(path);

	while (at) {
		const struct change *c = changes_find(list, at);
		bool stays = c && c->has_before && c->has_after && S_ISDIR(c->before.mode) && S_ISDIR(c->after.mode);

		if (c && !stays && lands(c, arg))
			return true;
		if (!path_parent_size(at))
			return false;
		at[path_parent_size(at)] = '\0';
	}
	return true;
}

static bool lands_below(const struct changes *list, const char *dir,
			bool (*lands)(const struct change *c, const void *arg), const void *arg)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_is_below(list->v[i].path, dir) && lands(&list->v[i], arg))
			return true;
	return false;
}

/* Returns the number of paths that cannot land alone, or -ENOMEM. */
static int tell_together(const struct git_work *w, const struct part_request *q,
			 bool (*lands)(const struct change *c, const void *arg), const void *arg)
{
	int n = 0, rc = 0;

	for (size_t i = 0; i < w->committed.n && rc >= 0; i++) {
		if (!is_landing(q->changes, w->committed.v[i].path, lands, arg))
			continue;
		rc = q->tell(q->tell_arg, ATOLL_ITEM_REFUSED, w->committed.v[i].path, COMMITTED_INSIDE);
		n++;
	}
	for (size_t i = 0; i < w->tracked.n && rc >= 0; i++) {
		if (w->tracked.v[i].mode != GITLINK || resource_is_others(w->r, w->tracked.v[i].path) ||
		    !lands_below(q->changes, w->tracked.v[i].path, lands, arg))
			continue;
		rc = q->tell(q->tell_arg, ATOLL_ITEM_REFUSED, w->tracked.v[i].path,
			     "is a submodule, and was changed; a submodule can be a resource of its own");
		n++;
	}
	return rc < 0 ? rc : n;
}

static int check_alone(const struct git_work *w, const struct part_request *q,
		       bool (*lands)(const struct change *c, const void *arg), const void *arg, struct atoll_error *err)
{
	int n = git_part_check_inside(w, true, true, err);

	if (n >= 0)
		n = tell_together(w, q, lands, arg);
	else
		return n;
	if (n < 0)
		return error_oom(err, "commit");
	return n ? error_set(err, ATOLL_REFUSED, 0, "commit", w->repo.top,
			     "%d path%s of the repository \"%s\" cannot be committed; nothing was", n,
			     n == 1 ? "" : "s", w->repo.top)
		 : 1;
}

int git_files_alone(struct resource *r, const struct part_request *q,
		    bool (*lands)(const struct change *c, const void *arg), const void *arg, struct atoll_error *err)
{
	AUTO_GIT_WORK w = { .repo = { .dir_fd = -EBADF } };
	int rc = git_work_take(r, "commit", &w, err);

	if (rc < 0)
		return rc;
	rc = w.state.as_is ? check_alone(&w, q, lands, arg, err) : 0;
	git_work_keep(&w);
	return rc;
}

/* ---- after a commit ---- */

int git_as_is_landed(struct resource *r, const struct git_repo *repo, struct git_state *s, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { upper, repo->dir_fd, resource_marks(r) };
	AUTO_FREE char *on = NULL;
	struct git_id id;

	s->outdated = true;
	/* Only some files have landed: HEAD and index inside belong to the edits that remain. */
	if (r->row.state != ATOLL_COMMITTED)
		return git_state_save(r, s, err);
	/* If HEAD inside is on another branch, only its commits have landed: that branch stays
	 * checked out inside. */
	if (upper < 0 || git_refs_head(&inside, &on, &id) < 0 || !on || strcmp(on, s->own) != 0)
		return git_settle_files(r, repo, s, "commit", err);
	s->restaged = true;
	return git_state_save(r, s, err);
}

/* ---- git's own configuration and hooks ---- */

struct search {
	int original; /* the directory of the same name, or a negative errno */
	bool found;
};

/* Whether a file of the git directory inside differs from the original's. A whiteout does not count
 * as a file. */
static bool is_other(int upper_fd, const char *path, int original_fd)
{
	AUTO_FREE char *inside = NULL, *outside = NULL;
	size_t inside_size = 0, outside_size = 0;

	if (fd_read_file(upper_fd, path, PRIVATE_MAX, &inside, &inside_size) < 0 || original_fd < 0 ||
	    fd_read_file(original_fd, path, PRIVATE_MAX, &outside, &outside_size) < 0)
		return true;
	return inside_size != outside_size || memcmp(inside, outside, inside_size) != 0;
}

static int look_at(const struct tree_entry *e, void *arg)
{
	struct search *s = arg;
	AUTO_FREE char *parent = NULL;
	AUTO_FD original = -EBADF;
	const char *slash = strrchr(e->path, '/');

	if (S_ISDIR(e->stat.mode))
		return 0;
	parent = slash ? strndup(e->path, (size_t)(slash - e->path)) : strdup("");
	if (!parent)
		return -ENOMEM;
	original = s->original < 0 ? -ENOENT : fd_open_beneath(s->original, parent, O_RDONLY | O_DIRECTORY);
	s->found = is_other(e->dirfd, e->name, original);
	return s->found ? TREE_WALK_STOP : 0;
}

/* 1, 0 or -errno. */
static int is_changed(const struct git_work *w, int upper_fd, const char *name)
{
	AUTO_FD there = fd_open_beneath(upper_fd, name, O_PATH | O_NOFOLLOW);
	AUTO_FD dir = fd_open_beneath(upper_fd, name, O_RDONLY | O_DIRECTORY);
	AUTO_FD original = fd_open_beneath(w->repo.dir_fd, name, O_RDONLY | O_DIRECTORY);
	struct search s = { .original = original };
	int rc;

	if (there < 0)
		return there == -ENOENT ? 0 : there;
	if (dir < 0)
		return is_other(upper_fd, name, w->repo.dir_fd);
	rc = tree_walk(dir, TREE_WALK_NO_ROOT, look_at, &s, NULL);
	return rc < 0 ? rc : s.found;
}

int git_as_is_add_private(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	static const char *const names[] = { "config", "config.worktree", "description", "hooks", "info" };
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; i < ARRAY_SIZE(names) && w->state.as_is; i++) {
		AUTO_FREE char *label = str_format(".git/%s", names[i]);
		int rc = upper < 0 ? upper : is_changed(w, upper, names[i]);
		struct change *c;

		if (rc < 0)
			return git_work_cannot_read(w, rc, label ? label : names[i], err);
		if (rc == 0)
			continue;
		c = label ? changes_add_part(list, label, ATOLL_SKIPPED, "was changed inside, and stays there") : NULL;
		if (!c)
			return error_oom(err, w->operation);
		c->note_fact = strlen("was changed inside");
	}
	return 0;
}
