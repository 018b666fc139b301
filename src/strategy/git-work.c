/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sandbox has made of the repository: what HEAD is inside, and, as a tree, what a commit of everything tracked would be. It is computed
 * from files that a command inside may have written (HEAD, refs, index, objects), by the original's configuration, in a quarantine that is
 * removed afterwards.
 *
 * Uncommitted is what the index inside has and, of the paths it lists, what the upper layer has. A file that merely shines through from
 * the original is not looked at: what somebody edits there meanwhile is theirs.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"

#define GITLINK 0160000
#define INDEX_MAX ((size_t)1 << 30)

void git_work_release(struct git_work *w)
{
	if (w->name)
		tree_remove(w->r->work_fd, w->name);
	git_repo_release(&w->repo);
	git_state_release(&w->state);
	changes_free(w->files);
	free(w->quarantine);
	free(w->name);
	free(w->objects);
	free(w->index);
	free(w->upper);
	git_entries_release(&w->tracked);
	git_entries_release(&w->base_old);
	git_entries_release(&w->base_new);
	git_entries_release(&w->head_old);
	git_entries_release(&w->head_new);
}

struct git_call git_work_call(const struct git_work *w)
{
	return (struct git_call){ .repo = &w->repo, .operation = w->operation, .quarantine = w->objects };
}

static int failed(const struct git_work *w, int rc, const char *what, struct atoll_error *err)
{
	return error_sys(err, rc, w->operation, w->r->row.path, "cannot read %s of \"%s\" in the sandbox", what,
			 w->r->row.path);
}

/* ---- the quarantine ---- */

static int name_places(struct git_work *w)
{
	char unique[37];

	random_uuid(unique);
	w->name = str_format(GIT_QUARANTINE "%s", unique);
	w->quarantine = w->name ? str_format("%s/%s", w->r->row.work, w->name) : NULL;
	w->objects = w->quarantine ? str_format("%s/objects", w->quarantine) : NULL;
	w->index = w->quarantine ? str_format("%s/index", w->quarantine) : NULL;
	w->upper = str_format("%s/%s", w->r->row.work, OVERLAY_UPPER);
	return w->objects && w->index && w->upper ? 0 : -ENOMEM;
}

static int make_quarantine(struct git_work *w)
{
	AUTO_FREE char *below = NULL;
	AUTO_FD from = fd_open_beneath(w->r->work_fd, GIT_OBJECTS, O_RDONLY | O_DIRECTORY);
	AUTO_FD to = -EBADF;
	int rc = from < 0 ? from : name_places(w);

	if (rc < 0)
		return rc;
	below = str_format("%s/objects", w->name);
	to = below ? fd_make_path(w->r->work_fd, below) : -ENOMEM;
	return to < 0 ? to : git_objects_import(from, to);
}

/* ---- what is inside ---- */

/* Two lines, each an object's name. */
static int ask_two(const struct git_work *w, const char *first, const char *second, struct git_id *ret_a,
		   struct git_id *ret_b, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	call.output = &out;
	rc = git_call(&call, err, (const char *const[]){ "rev-parse", first, second, NULL });
	if (rc < 0)
		return rc;
	if (!git_id_parse(strbuf_str(&out), ret_a) || !strchr(out.data, '\n') ||
	    !git_id_parse(strchr(out.data, '\n') + 1, ret_b))
		return error_set(err, ATOLL_FAILED, 0, w->operation, w->r->row.path,
				 "what git says of \"%s\" is not understood", w->r->row.path);
	return 0;
}

static int read_tip(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	AUTO_FREE char *ref = NULL, *commit = NULL, *tree = NULL;
	struct atoll_error said = { 0 };
	int rc = git_refs_head(inside, &ref, &w->tip);

	if (rc >= 0 && ref)
		rc = git_refs_read(inside, ref, &w->tip);
	if (rc == -ENOENT)
		return error_set(err, ATOLL_REFUSED, 0, w->operation, w->r->row.path,
				 "HEAD of \"%s\" in the sandbox leads to no commit; check out a branch inside",
				 w->r->row.path);
	if (rc < 0)
		return failed(w, rc, "HEAD", err);
	commit = str_format("%s^{commit}", w->tip.hex);
	tree = str_format("%s^{tree}", w->tip.hex);
	if (!commit || !tree)
		return error_oom(err, w->operation);
	if (ask_two(w, commit, tree, &w->tip, &w->tip_tree, &said) < 0)
		return error_set(err, ATOLL_REFUSED, 0, w->operation, w->r->row.path,
				 "HEAD of \"%s\" in the sandbox is no commit that can be read: %s", w->r->row.path,
				 said.message);
	return 0;
}

/* A copy of the index inside, and what it lists. */
static int read_index(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	struct git_call call = git_work_call(w);
	AUTO_FD dir = fd_open_beneath(w->r->work_fd, w->name, O_RDONLY | O_DIRECTORY);
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	int rc = git_refs_file(inside, "index", INDEX_MAX, &data, &size);

	if (rc >= 0)
		rc = dir < 0 ? dir : git_put_file(dir, "index", data, size);
	if (rc < 0)
		return failed(w, rc, "the index", err);
	call.index = w->index;
	rc = git_entries_of_index(&call, &w->tracked, err);
	for (size_t i = 0; i < w->tracked.n && !w->unmerged; i++)
		if (w->tracked.v[i].stage)
			w->unmerged = w->tracked.v[i].path;
	return rc;
}

/* ---- what is uncommitted inside ---- */

static bool is_content(const struct change *c)
{
	return c->has_after && (S_ISREG(c->after.mode) || S_ISLNK(c->after.mode)) && c->kind != ATOLL_DELETED;
}

/* What was added inside and removed again has left no trace in the upper layer: the index lists it, and it is nowhere. */
static int collect_vanished(const struct git_work *w, struct git_entries *list, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES old = { 0 }, new = { 0 };
	struct git_call call = git_work_call(w);
	int rc;

	call.index = w->index;
	rc = git_entries_since(&call, &w->base, &old, &new, err);
	for (size_t i = 0; i < new.n &&rc >= 0; i++) {
		const char *path = new.v[i].path;
		AUTO_FD there = -EBADF;

		if (old.v[i].mode || new.v[i].mode == GITLINK || changes_find(w->files, path) ||
		    resource_is_others(w->r, path))
			continue;
		there = fd_open_beneath(w->r->root_fd, path, O_PATH);
		if ((there == -ENOENT || there == -ENOTDIR) && git_entries_add(list, path, 0, &new.v[i].id, 0) < 0)
			return error_oom(err, w->operation);
	}
	return rc;
}

/* Entries as they are, without what was known of the file, so that its content is looked at; or, where none is left, gone. */
static int collect(const struct git_work *w, struct strbuf *info, struct strbuf *paths, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES list = { 0 };
	int vanished;

	for (size_t i = 0; i < w->files->n; i++) {
		const struct change *c = &w->files->v[i];
		const struct git_entry *e = git_entries_find(&w->tracked, c->path);
		int rc;

		if (!e || e->mode == GITLINK)
			continue;
		rc = git_entries_add(&list, e->path, is_content(c) ? e->mode : 0, &e->id, 0);
		if (rc < 0)
			return error_oom(err, w->operation);
		if (is_content(c))
			strbuf_add(paths, c->path, strlen(c->path) + 1);
	}
	vanished = collect_vanished(w, &list, err);
	git_entries_format(&list, strlen(w->tip.hex), info);
	return vanished < 0 ? vanished : info->failed || paths->failed ? error_oom(err, w->operation) : 0;
}

static int update_index(const struct git_work *w, struct atoll_error *err)
{
	AUTO_STRBUF info = STRBUF_INIT, paths = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc = collect(w, &info, &paths, err);

	if (rc < 0)
		return rc;
	call.index = w->index;
	call.work_tree = w->upper;
	call.input = info.data;
	call.input_size = info.size;
	if (info.size)
		rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	call.input = paths.data;
	call.input_size = paths.size;
	if (rc >= 0 && paths.size)
		rc = git_call(&call, err,
			      (const char *const[]){ "update-index", "--add", "--remove", "-z", "--stdin", NULL });
	return rc;
}

static int write_tree(struct git_work *w, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	/* Before it is resolved nobody can say what would be committed. */
	if (w->unmerged) {
		w->tree = w->tip_tree;
		return 0;
	}
	rc = update_index(w, err);
	if (rc < 0)
		return rc;
	call.index = w->index;
	call.output = &out;
	rc = git_call(&call, err, (const char *const[]){ "write-tree", NULL });
	if (rc >= 0 && !git_id_parse(strbuf_str(&out), &w->tree))
		return failed(w, -EINVAL, "the index", err);
	return rc;
}

/* ---- against the original ---- */

static int find_base(struct git_work *w, struct atoll_error *err)
{
	const struct git_refs outside = { -EBADF, w->repo.dir_fd };
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc = git_refs_read(&outside, w->state.branch, &w->head);

	if (rc == -ENOENT)
		w->head = w->state.base;
	else if (rc < 0)
		return error_sys(err, rc, w->operation, w->repo.top, "cannot read \"%s\" of \"%s\"", w->state.branch,
				 w->repo.top);
	if (git_id_equal(&w->head, &w->tip)) {
		w->base = w->head;
		return 0;
	}
	call.output = &out;
	call.also = 1;
	rc = git_call(&call, err, (const char *const[]){ "merge-base", w->head.hex, w->tip.hex, NULL });
	if (rc < 0)
		return rc;
	w->unrelated = !git_id_parse(strbuf_str(&out), &w->base);
	if (w->unrelated)
		w->base = w->state.base;
	return 0;
}

static int compare(struct git_work *w, struct atoll_error *err)
{
	const struct git_call call = git_work_call(w);
	int rc = git_entries_between(&call, &w->base, &w->tree, &w->base_old, &w->base_new, err);

	if (rc < 0 || git_id_equal(&w->base, &w->head))
		return rc;
	return git_entries_between(&call, &w->head, &w->tree, &w->head_old, &w->head_new, err);
}

const struct git_entry *git_work_original(const struct git_work *w, const char *path)
{
	bool moved = !git_id_equal(&w->base, &w->head);

	return git_entries_find(moved ? &w->head_old : &w->base_old, path);
}

bool git_work_lands(const struct git_work *w, const char *path, bool *ret_judged)
{
	const struct git_entry *before = git_work_original(w, path);

	*ret_judged = before && before->mode;
	if (git_entries_find(&w->base_new, path))
		return before != NULL;
	*ret_judged = false;
	return !git_entries_find(&w->tracked, path);
}

bool git_work_touches(const struct changes *changes, const char *path)
{
	for (size_t i = 0; i < changes->n; i++)
		if (!changes->v[i].part && !changes->v[i].implied && path_is_below(changes->v[i].path, path))
			return true;
	return false;
}

int git_work_make(struct resource *r, const char *operation, bool exact, struct git_work *ret, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	struct git_refs inside = { upper, -EBADF };
	int rc;

	*ret = (struct git_work){ .r = r, .operation = operation, .repo = { .dir_fd = -EBADF } };
	rc = git_repo_reopen(r->row.path, operation, &ret->repo, err);
	if (rc >= 0)
		rc = git_state_load(r, &ret->state, err);
	if (rc < 0)
		return rc;
	inside.lower_fd = ret->repo.dir_fd;
	ret->files = overlay_changes(r, exact, err);
	if (!ret->files)
		return -(int)MAX(err->code, ATOLL_FAILED);
	changes_sort(ret->files);
	rc = upper < 0 ? upper : make_quarantine(ret);
	if (rc < 0)
		return failed(ret, rc, "the objects", err);
	rc = read_tip(ret, &inside, err);
	if (rc >= 0)
		rc = read_index(ret, &inside, err);
	if (rc >= 0)
		rc = find_base(ret, err);
	if (rc >= 0)
		rc = write_tree(ret, err);
	return rc < 0 ? rc : compare(ret, err);
}
