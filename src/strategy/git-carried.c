/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was uncommitted in the original when a sandbox was made with it. The inside begins with it, staged or not, so that `git status` says the same
 * inside as outside. But it is the work of the owner of the original, not of the sandboxed command: it lands only if the command commits or edits it.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

int git_carried_drop(struct resource *r)
{
	int rc = sys_unlink(r->work_fd, GIT_CARRIED, 0);

	return rc == -ENOENT ? 0 : rc;
}

static int save(struct resource *r, const char *name, const struct git_entries *e, size_t hex_size)
{
	AUTO_STRBUF text = STRBUF_INIT;

	git_entries_format(e, hex_size, &text);
	return text.failed ? -ENOMEM : git_put_file(r->work_fd, name, strbuf_str(&text), text.size);
}

static int load(struct resource *r, const char *name, struct git_entries *ret)
{
	int rc = git_entries_load(r->work_fd, name, ret);

	return rc == -ENOENT ? 0 : rc;
}

/* ---- marked files: assume-unchanged, skip-worktree ---- */

static bool wants_none(const char *path, const void *arg)
{
	return false;
}

static int read_marked(const struct git_call *outside, size_t hex_size, struct git_entries *ret,
		       struct atoll_error *err)
{
	const struct git_index_filter none = { wants_none };
	AUTO_GIT_INDEX_FILE file = { 0 };
	int rc = git_index_file_load(outside->repo->dir_fd, "index", &file);

	if (rc >= 0)
		rc = git_index_file_parse(&file, hex_size, &none);
	if (rc == -ENOENT)
		return 0;
	if (rc == -ENOMEM)
		return error_oom(err, outside->operation);
	if (rc < 0)
		return git_entries_of_index(outside, ret, err);
	*ret = file.entries;
	file.entries = (struct git_entries){ 0 };
	return 0;
}

/* Whether a sparse checkout leaves the file out of the working tree. Such a file has no edits. */
static bool is_left_out(const struct resource *r, const struct git_entry *e)
{
	AUTO_FD there = e->marks & GIT_MARK_SKIP ? fd_open_beneath(r->root_fd, e->path, O_PATH | O_NOFOLLOW) : -EBADF;

	return there == -ENOENT || there == -ENOTDIR;
}

/* Adds the index entries of the original's marked files that have local edits. */
static int find_marked(struct resource *r, const struct git_call *outside, size_t hex_size, struct git_entries *ret,
		       struct atoll_error *err)
{
	AUTO_GIT_ENTRIES all = { 0 }, marked = { 0 };
	AUTO_FREE char *index = str_format("%s/" GIT_INDEX, r->row.work);
	struct git_call call = *outside;
	int rc = index ? read_marked(outside, hex_size, &all, err) : error_oom(err, outside->operation);

	for (size_t i = 0; i < all.n && rc >= 0; i++) {
		const struct git_entry *e = &all.v[i];

		if (e->marks && !e->stage && !is_left_out(r, e) &&
		    git_entries_add(&marked, e->path, e->mode, &e->id, 0) < 0)
			return error_oom(err, outside->operation);
	}
	if (rc < 0 || !marked.n)
		return rc;
	(void)tree_remove(r->work_fd, GIT_INDEX_LOCK);
	(void)tree_remove(r->work_fd, GIT_INDEX);
	call.index = index;
	rc = git_entries_edited(&call, &marked, ret, err);
	(void)tree_remove(r->work_fd, GIT_INDEX);
	return rc;
}

static int cannot_save(struct resource *r, int rc, const char *operation, struct atoll_error *err)
{
	return error_sys(err, rc, operation, r->row.path, "cannot write to \"%s\"", r->row.work);
}

int git_carried_save_marked(struct resource *r, const struct git_repo *repo, const struct git_id *base,
			    const char *operation, struct atoll_error *err)
{
	const struct git_call outside = { .repo = repo, .operation = operation };
	AUTO_GIT_ENTRIES marked = { 0 };
	int rc = find_marked(r, &outside, strlen(base->hex), &marked, err);

	if (rc < 0)
		return rc;
	rc = marked.n ? save(r, GIT_UNCOMMITTED, &marked, strlen(base->hex))
		      : sys_unlink(r->work_fd, GIT_UNCOMMITTED, 0);
	return rc < 0 && rc != -ENOENT ? cannot_save(r, rc, operation, err) : 0;
}

/* ---- what comes along ---- */

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct git_entry *)a)->path, ((const struct git_entry *)b)->path);
}

/* Adds the entries whose paths are missing in a sorted list, and keeps it sorted. */
static int add_missing(struct git_entries *list, const struct git_entries *more)
{
	size_t n = list->n;
	int rc = 0;

	for (size_t i = 0; i < more->n && rc >= 0; i++) {
		const struct git_entries sorted = { .v = list->v, .n = n };

		if (!git_entries_find(&sorted, more->v[i].path))
			rc = git_entries_add(list, more->v[i].path, more->v[i].mode, &more->v[i].id, 0);
	}
	if (list->n > n)
		qsort(list->v, list->n, sizeof *list->v, compare_paths);
	return rc;
}

int git_carried_save(struct resource *r, const struct git_call *how, const struct git_id *base, struct atoll_error *err)
{
	const struct git_call outside = { .repo = how->repo, .operation = how->operation };
	AUTO_GIT_ENTRIES staged = { 0 }, uncommitted = { 0 }, marked = { 0 };
	bool any;
	int rc = git_entries_since(how, base, NULL, &staged, err);

	if (rc >= 0)
		rc = git_entries_uncommitted(&outside, &uncommitted, &any, err);
	if (rc >= 0)
		rc = find_marked(r, &outside, strlen(base->hex), &marked, err);
	if (rc < 0)
		return rc;
	rc = add_missing(&uncommitted, &marked);
	if (rc >= 0)
		rc = staged.n ? save(r, GIT_CARRIED, &staged, strlen(base->hex)) : git_carried_drop(r);
	if (rc >= 0)
		rc = save(r, GIT_STAGED, &staged, strlen(base->hex));
	if (rc >= 0)
		rc = save(r, GIT_UNCOMMITTED, &uncommitted, strlen(base->hex));
	return rc < 0 ? cannot_save(r, rc, how->operation, err) : 0;
}

/* Whether the original's file is as the sandbox knows it. What the user edits after the sandbox has
 * begun, or after files have landed, is the user's alone. */
static bool is_known(const struct resource *r, const char *path)
{
	AUTO_FD there = fd_open_beneath(r->root_fd, path, O_PATH | O_NOFOLLOW);
	struct tree_stat st;

	return there < 0 || tree_stat(there, "", &st) < 0 || st.ctime < resource_stamp(r, path);
}

static int keep_known(const struct resource *r, struct git_entries *list)
{
	AUTO_GIT_ENTRIES kept = { 0 }, all = *list;
	int rc = 0;

	for (size_t i = 0; i < all.n && rc >= 0; i++)
		if (is_known(r, all.v[i].path))
			rc = git_entries_add(&kept, all.v[i].path, all.v[i].mode, &all.v[i].id, 0);
	*list = kept;
	kept = (struct git_entries){ 0 };
	return rc;
}

int git_carried_renew(struct resource *r, const struct git_repo *repo, const struct git_id *base, const char *operation,
		      struct atoll_error *err)
{
	const struct git_call outside = { .repo = repo, .operation = operation };
	AUTO_GIT_ENTRIES uncommitted = { 0 }, marked = { 0 }, before = { 0 };
	bool any;
	int rc = git_entries_uncommitted(&outside, &uncommitted, &any, err);

	if (rc >= 0)
		rc = find_marked(r, &outside, strlen(base->hex), &marked, err);
	if (rc < 0)
		return rc;
	rc = load(r, GIT_UNCOMMITTED, &before);
	if (rc >= 0)
		rc = keep_known(r, &uncommitted);
	/* Also what the user has committed since: a command inside may have reverted it before. */
	if (rc >= 0)
		rc = add_missing(&uncommitted, &before);
	if (rc >= 0)
		rc = add_missing(&uncommitted, &marked);
	if (rc >= 0)
		rc = save(r, GIT_UNCOMMITTED, &uncommitted, strlen(base->hex));
	return rc < 0 ? cannot_save(r, rc, operation, err) : 0;
}

int git_carried_load(struct resource *r, struct git_entries *ret_staged, struct git_entries *ret_uncommitted)
{
	int rc = load(r, GIT_CARRIED, ret_staged);

	return rc < 0 ? rc : load(r, GIT_UNCOMMITTED, ret_uncommitted);
}

int git_carried_load_staged(struct resource *r, struct git_entries *ret)
{
	return load(r, GIT_STAGED, ret);
}

/* ---- what others have committed meanwhile ---- */

static bool has_touched(const struct git_work *w)
{
	for (size_t i = 0; i < w->files->n; i++) {
		const struct change *c = &w->files->v[i];

		if (c->gone ||
		    (c->has_before && !S_ISDIR(c->before.mode) && c->before.ctime >= resource_stamp(w->r, c->path)))
			return true;
	}
	return false;
}

/* After an undo, the base has commits that the original's branch has not. */
static int find_theirs(struct git_work *w, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w), ask = call;
	struct git_id since;
	int rc;

	ask.output = &out;
	ask.also = 1;
	rc = git_call(&ask, err, (const char *const[]){ "merge-base", w->state.base.hex, w->head.hex, NULL });
	if (rc < 0 || !git_id_parse(strbuf_str(&out), &since))
		return MIN(rc, 0);
	return git_entries_between(&call, &since, &w->head, NULL, &w->theirs, err);
}

int git_carried_find(struct git_work *w, struct atoll_error *err)
{
	const struct git_call call = git_work_call(w);
	int rc = 0;

	if (w->elsewhere || w->unrelated)
		return 0;
	if (!git_work_is_clean(w))
		rc = git_entries_between(&call, &w->tip_tree, &w->tree, NULL, &w->edited, err);
	if (rc >= 0 && !git_id_equal(&w->state.base, &w->head) && has_touched(w))
		rc = find_theirs(w, err);
	return rc;
}

bool git_carried_is_for_commits(const struct git_work *w, const char *path)
{
	return git_entries_find(&w->theirs, path) && !git_entries_find(&w->edited, path);
}

/* ---- what a command inside has written over it ---- */

static bool has_same_content(const struct resource *r, int upper_fd, const struct change *c)
{
	AUTO_FD inside = -EBADF, outside = -EBADF;
	const char *inside_name, *outside_name;

	if (S_ISLNK(c->after.mode))
		return !(c->what & ATOLL_WHAT_TARGET);
	if (!(c->what & ATOLL_WHAT_CONTENT))
		return true;
	return c->before.size == c->after.size && fd_open_parent(upper_fd, c->path, &inside, &inside_name) >= 0 &&
	       fd_open_parent(r->root_fd, c->path, &outside, &outside_name) >= 0 &&
	       tree_same_content(inside, inside_name, outside, outside_name) > 0;
}

bool git_carried_is_like_original(const struct git_work *w, int upper_fd, const struct change *c)
{
	return c->has_before && c->has_after && !S_ISDIR(c->after.mode) &&
	       !((c->before.mode ^ c->after.mode) & (S_IFMT | S_IXUSR)) && has_same_content(w->r, upper_fd, c);
}

bool git_carried_is_same(const struct git_work *w, int upper_fd, const struct change *c)
{
	return w->state.carried && c->kind != ATOLL_DELETED && c->has_before &&
	       c->before.ctime < resource_stamp(w->r, c->path) && git_carried_is_like_original(w, upper_fd, c);
}

/* Not so if the index inside has another commit's entry by now: then the work that came along has landed, or something else was committed. */
static bool came_along(const struct git_work *w, const char *path)
{
	const struct git_entry *then = git_entries_find(&w->uncommitted, path),
			       *now = git_entries_find(&w->tracked, path);

	return then && now &&
	       (git_entries_find(&w->carried, path) || (then->mode == now->mode && git_id_equal(&then->id, &now->id)));
}

/* Whether the file was written inside before the original's file got what it has now, and a commit
 * would raise no conflict for that: a landing has renewed the time by which the user's edits are known. */
static bool is_older(const struct git_work *w, const struct change *c)
{
	return c->has_before && c->before.ctime < resource_stamp(w->r, c->path) && c->after.mtime < c->before.mtime &&
	       c->after.ctime < c->before.ctime;
}

bool git_carried_is_reverted(const struct git_work *w, int upper_fd, const struct change *c)
{
	return c->has_after && c->kind != ATOLL_DELETED && !git_entries_find(&w->base_new, c->path) &&
	       came_along(w, c->path) && !is_older(w, c) && !git_carried_is_like_original(w, upper_fd, c);
}
