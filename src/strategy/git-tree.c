/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a commit of everything tracked inside would be, as a tree.
 *
 * Most often the index says it: what is listed was committed or staged, and no file was written since. But whoever is inside writes the index, and has
 * a configuration of its own: of the files that were written, git says whether they are what the tree has, by the original's configuration.
 * Otherwise a copy of the index is brought up to date, in the quarantine, and written.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

#define GITLINK 0160000

static int failed(const struct git_work *w, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, w->operation, w->r->row.path, "cannot read the index of \"%s\" in the sandbox",
			 w->r->row.path);
}

static bool is_content(const struct change *c)
{
	return c->has_after && (S_ISREG(c->after.mode) || S_ISLNK(c->after.mode)) && c->kind != ATOLL_DELETED;
}

static bool is_attributes(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, ".gitattributes") == 0;
}

/* ---- as the index says it ---- */

static bool has_edits(const struct git_work *w)
{
	for (size_t i = 0; i < w->files->n; i++) {
		const struct change *c = &w->files->v[i];
		const struct git_entry *e = git_entries_find(&w->tracked, c->path);

		if (e && e->mode != GITLINK && !git_sparse_hides(c, e) &&
		    !(is_content(c) && git_index_file_knows(&w->file, e, &c->after)))
			return true;
	}
	return false;
}

/* The commit that says what the layer below the workspace has. On another branch that is the original's. */
static const struct git_id *commit_below(const struct git_work *w)
{
	return w->elsewhere ? &w->head : &w->base;
}

/* The original's branch may have gone back: an undo of another sandbox, a reset. Its files are gone
 * then, and no command inside has removed them. */
static int find_lost(struct git_work *w, struct atoll_error *err)
{
	const struct git_id *under = *w->state.under.hex ? &w->state.under : &w->state.base;
	const struct git_call call = git_work_call(w);

	return git_id_equal(commit_below(w), under)
		       ? 0
		       : git_entries_between(&call, commit_below(w), under, NULL, &w->lost, err);
}

static bool is_lost(const struct git_work *w, const char *path)
{
	const struct git_entry *e = git_entries_find(&w->lost, path);

	return e && e->mode;
}

/* Added inside and removed again: it has left no trace in the upper layer. The index lists it, and it is nowhere, though no sparse checkout says so. */
static bool has_vanished(const struct git_work *w, const struct git_entry *old, const struct git_entry *new)
{
	AUTO_FD there = -EBADF;
	struct stat st;

	if (old->mode || new->mode == GITLINK || changes_find(w->files, new->path) ||
	    resource_is_others(w->r, new->path) || git_sparse_is_marked(w, new->path) || is_lost(w, new->path))
		return false;
	there = fd_open_beneath(w->r->root_fd, new->path, O_PATH);
	return there == -ENOENT || there == -ENOTDIR || (there >= 0 && fstat(there, &st) == 0 && S_ISDIR(st.st_mode));
}

/* Files that were written, as the tree has them, and what says how files are to be read. -ENOENT: the tree does not know one of them as changed. */
static int collect_written(const struct git_work *w, struct git_entries *ret)
{
	int rc = 0;

	for (size_t i = 0; i < w->tracked.n && rc >= 0; i++) {
		const struct git_entry *e = &w->tracked.v[i], *to;
		const struct change *c = changes_find(w->files, e->path);
		bool written = e->mode != GITLINK && c && !git_sparse_hides(c, e);

		if (!written && !is_attributes(e->path))
			continue;
		to = written ? git_entries_find(&w->base_new, e->path) : e;
		rc = to && to->mode ? git_entries_add(ret, to->path, to->mode, &to->id, 0) : -ENOENT;
	}
	return rc;
}

static bool has_attributes(const struct git_work *w)
{
	for (size_t i = 0; i < w->tracked.n; i++)
		if (is_attributes(w->tracked.v[i].path))
			return true;
	return false;
}

/* What the files that were written are as objects, by the original's configuration; asked before it is known what they should be. */
static void hash_written(struct git_work *w)
{
	struct git_call call = git_work_call(w);
	AUTO_STRBUF paths = STRBUF_INIT;

	for (size_t i = 0; i < w->files->n; i++) {
		const struct change *c = &w->files->v[i];
		const struct git_entry *e = git_entries_find(&w->tracked, c->path);

		if (!e || git_sparse_hides(c, e))
			continue;
		/* It reads through links, and lines. */
		if (!is_content(c) || !S_ISREG(c->after.mode) || strpbrk(c->path, "\"\n"))
			return;
		strbuf_addf(&paths, "%s\n", c->path);
	}
	call.work_tree = w->upper;
	call.input = paths.data;
	call.input_size = paths.size;
	call.output = &w->hashes;
	if (paths.size && !paths.failed && !has_attributes(w))
		(void)git_call_start(&call, &w->hashing, NULL,
				     (const char *const[]){ "-C", w->upper, "hash-object", "--stdin-paths", NULL });
}

/* 1, 0 or -EAGAIN if it was not asked. */
static int are_hashes_true(struct git_work *w)
{
	const char *line;

	if (!w->hashing.started)
		return -EAGAIN;
	if (git_call_finish(&w->hashing, NULL) < 0)
		return 0;
	line = strbuf_str(&w->hashes);
	for (size_t i = 0; i < w->files->n && line; i++) {
		const struct change *c = &w->files->v[i];
		const struct git_entry *e = git_entries_find(&w->tracked, c->path);
		const struct git_entry *to = git_entries_find(&w->base_new, c->path);
		struct git_id id;

		if (!e || git_sparse_hides(c, e))
			continue;
		if (!to || !git_mode_is(to->mode, c->after.mode) || !git_id_parse(line, &id) ||
		    !git_id_equal(&to->id, &id))
			return 0;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 1;
}

/* Slower, and for everything: by an index of their own. */
static bool are_entries_true(const struct git_work *w)
{
	AUTO_GIT_ENTRIES written = { 0 }, others = { 0 };
	AUTO_FREE char *index = str_format("%s/written", w->quarantine);
	struct git_call call = git_work_call(w);

	if (!index || collect_written(w, &written) < 0)
		return false;
	call.index = index;
	call.work_tree = w->upper;
	if (written.n && git_entries_edited(&call, &written, &others, NULL) < 0)
		return false;
	/* Attributes that were not written are only in the layer below. */
	for (size_t i = 0; i < others.n; i++)
		if (changes_find(w->files, others.v[i].path))
			return false;
	return true;
}

static bool is_true(struct git_work *w)
{
	int hashed = are_hashes_true(w);

	return hashed == -EAGAIN ? are_entries_true(w) : hashed;
}

/* Most often the original's branch has not moved, and is what the sandbox builds on. Whether that is so is asked meanwhile. */
static void compare_ahead(struct git_work *w)
{
	struct git_call call = git_work_call(w);

	call.output = &w->ahead_said;
	if (!git_id_equal(&w->head, &w->tip))
		(void)git_entries_between_start(&call, &w->head, &w->file.tree, &w->ahead, NULL);
}

static int compare_with_base(struct git_work *w)
{
	const struct git_call call = git_work_call(w);

	if (git_id_equal(&w->base, &w->tip) && git_id_equal(&w->file.tree, &w->tip_tree))
		return 0;
	if (w->ahead.started && git_id_equal(&w->base, &w->head))
		return git_entries_between_finish(&w->ahead, &w->base_old, &w->base_new, NULL);
	return git_entries_between(&call, &w->base, &w->file.tree, &w->base_old, &w->base_new, NULL);
}

/* 1 if it is so, with what differs from the base. */
static int take_tree(struct git_work *w)
{
	bool known = w->settled && compare_with_base(w) >= 0;

	for (size_t i = 0; i < w->base_new.n && known; i++)
		known = !has_vanished(w, &w->base_old.v[i], &w->base_new.v[i]);
	if (!known || !is_true(w)) {
		git_entries_release(&w->base_old);
		git_entries_release(&w->base_new);
		return 0;
	}
	w->tree = w->file.tree;
	w->compared = true;
	return 1;
}

/* ---- computed ---- */

static bool is_same(const struct git_entry *a, const struct git_entry *b)
{
	return a->mode == b->mode && (!a->mode || git_id_equal(&a->id, &b->id));
}

static bool came_along(const struct git_work *w, const struct git_entry *e)
{
	const struct git_entry *carried = git_entries_find(&w->carried, e->path);

	return carried && is_same(carried, e);
}

/* An entry of the index that differs from HEAD inside, and whose file was written: git_work_make() looks whether that differs too. */
static bool is_staged_alone(const struct git_work *w, const struct git_entry *new)
{
	const struct change *c = new->mode &&new->mode != GITLINK ? changes_find(w->files, new->path) : NULL;

	return c && is_content(c) && !came_along(w, new);
}

/* An entry of the index that HEAD inside does not have, and whose file was removed again. */
static bool is_discarded(const struct git_work *w, const struct git_entry *old, const struct git_entry *new)
{
	const struct change *c = changes_find(w->files, new->path);

	if (!new->mode || new->mode == GITLINK || came_along(w, new))
		return false;
	return c ? !is_content(c) && !old->mode : has_vanished(w, old, new);
}

static int collect_staged(struct git_work *w, const struct git_entries *old, const struct git_entries *new)
{
	int rc = 0;

	for (size_t i = 0; i < new->n &&rc >= 0; i++) {
		const struct git_entry *e = &new->v[i];

		if (is_staged_alone(w, e))
			rc = git_entries_add(&w->staged, e->path, e->mode, &e->id, 0);
		else if (is_discarded(w, &old->v[i], e))
			rc = git_entries_add(&w->discarded, e->path, e->mode, &e->id, 0);
	}
	return rc;
}

/* Edits from two commits to the index: from the commit below the workspace, and from HEAD inside if
 * that is another commit. */
struct index_edits {
	bool committed; /* HEAD is another commit */
	struct git_entries old, new, tip_old, tip_new;
};

static void index_edits_release(struct index_edits *e)
{
	git_entries_release(&e->old);
	git_entries_release(&e->new);
	git_entries_release(&e->tip_old);
	git_entries_release(&e->tip_new);
}

static int find_index_edits(const struct git_work *w, struct index_edits *ret, struct atoll_error *err)
{
	struct git_call call = git_work_call(w);
	int rc;

	call.index = w->index;
	rc = git_entries_since(&call, commit_below(w), &ret->old, &ret->new, err);
	ret->committed = !git_id_equal(commit_below(w), &w->tip);
	if (rc < 0 || !ret->committed || !ret->new.n)
		return rc;
	return git_entries_since(&call, &w->tip, &ret->tip_old, &ret->tip_new, err);
}

/* Whether HEAD inside has a file that the commit below the workspace lacks. */
static bool is_in_tip(const struct index_edits *e, const char *path)
{
	const struct git_entry *old = git_entries_find(&e->tip_old, path);

	return e->committed && (!old || old->mode);
}

/* The sandbox did not remove a file that was committed inside and then removed outside. */
static int collect_vanished(const struct git_work *w, const struct index_edits *e, struct git_entries *list)
{
	AUTO_GIT_ENTRIES vanished = { 0 }, outside = { 0 };
	int rc = 0;

	for (size_t i = 0; i < e->new.n &&rc >= 0; i++)
		if (has_vanished(w, &e->old.v[i], &e->new.v[i]))
			rc = git_entries_add(&vanished, e->new.v[i].path, 0, &e->new.v[i].id, 0);
	if (rc >= 0 && vanished.n && e->committed)
		rc = git_outside_find_removed(w, &vanished, &outside);
	for (size_t i = 0; i < vanished.n && rc >= 0; i++) {
		const struct git_entry *v = &vanished.v[i];

		if (!is_in_tip(e, v->path) || !git_entries_find(&outside, v->path))
			rc = git_entries_add(list, v->path, 0, &v->id, 0);
	}
	return rc;
}

/* What was staged in the original, and is in the index inside as it came along, is not the sandbox's doing: it is as HEAD has it. If the file was
 * edited inside, its content is, and so is that a file gave way to a directory, or the other way round, if something was edited there. */
static int collect_carried(const struct git_work *w, const struct git_entries *edited, struct git_entries *list,
			   struct atoll_error *err)
{
	AUTO_GIT_ENTRIES old = { 0 }, new = { 0 };
	struct git_call call = git_work_call(w);
	int rc;

	call.index = w->index;
	rc = w->carried.n ? git_entries_since(&call, &w->tip, &old, &new, err) : 0;
	for (size_t i = 0; i < new.n &&rc >= 0; i++) {
		const struct git_entry *e = git_entries_find(&w->carried, new.v[i].path);

		if (!e || !is_same(e, &new.v[i]) || (e->mode && git_entries_find(edited, e->path)) ||
		    git_entries_clash(edited, e->path))
			continue;
		if (git_entries_add(list, e->path, old.v[i].mode, &old.v[i].id, 0) < 0)
			return error_oom(err, w->operation);
	}
	return rc;
}

/* What is unmerged cannot be committed, but is to be seen with everything else that was edited: as the file is, or, where only the original has
 * it, as HEAD has it. */
static int add_unmerged(const struct git_work *w, struct git_entries *list)
{
	int rc = 0;

	for (size_t i = 0; i < w->tracked.n && rc >= 0;) {
		const char *path = w->tracked.v[i].path;
		const struct git_entry *own = NULL;
		bool unmerged = w->tracked.v[i].stage;

		for (; i < w->tracked.n && strcmp(w->tracked.v[i].path, path) == 0; i++)
			if (w->tracked.v[i].stage == 2)
				own = &w->tracked.v[i];
		if (unmerged && !changes_find(w->files, path))
			rc = git_entries_add(list, path, own ? own->mode : 0, own ? &own->id : &w->tip, 0);
	}
	return rc;
}

/* Whether a written file is as it came along, and so is its entry of the index. staged: where that differs from the base. */
static bool is_as_carried(const struct git_work *w, int upper_fd, const struct git_entries *staged,
			  const struct change *c)
{
	const struct git_entry *now = git_entries_find(staged, c->path);
	const struct git_entry *carried = now ? git_entries_find(&w->carried, c->path) : NULL;

	return (!now || (carried && is_same(carried, now))) && git_carried_is_same(w, upper_fd, c);
}

/* Puts the tracked files that a command inside has edited into ret, mode 0 for those that are gone. */
static int collect_edited(const struct git_work *w, const struct git_entries *staged, struct git_entries *ret)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	int rc = MIN(upper, 0);

	for (size_t i = 0; i < w->tracked.n && rc >= 0; i++) {
		const struct git_entry *e = &w->tracked.v[i];
		const struct change *c = e->mode != GITLINK ? changes_find(w->files, e->path) : NULL;
		bool again = i > 0 && strcmp(w->tracked.v[i - 1].path, e->path) == 0; /* unmerged */

		if (c && !again && !git_sparse_hides(c, e) && !is_as_carried(w, upper, staged, c))
			rc = git_entries_add(ret, e->path, is_content(c) ? e->mode : 0, &e->id, 0);
	}
	return rc;
}

/* Entries as they are, without what was known of the file, so that its content is looked at; or, where none is left, gone. */
static int collect(struct git_work *w, struct strbuf *info, struct strbuf *paths, struct atoll_error *err)
{
	CLEANUP(index_edits_release) struct index_edits e = { 0 };
	AUTO_GIT_ENTRIES edited = { 0 }, list = { 0 };
	int rc = find_index_edits(w, &e, err);

	if (rc < 0)
		return rc;
	rc = collect_edited(w, &e.new, &edited);
	if (rc < 0)
		return failed(w, rc, err);
	for (size_t i = 0; i < edited.n; i++)
		if (edited.v[i].mode)
			strbuf_add(paths, edited.v[i].path, strlen(edited.v[i].path) + 1);
	if (git_entries_copy(&edited, &list) < 0 || add_unmerged(w, &list) < 0 ||
	    collect_staged(w, e.committed ? &e.tip_old : &e.old, e.committed ? &e.tip_new : &e.new) < 0)
		return error_oom(err, w->operation);
	rc = collect_vanished(w, &e, &list);
	rc = rc < 0 ? failed(w, rc, err) : collect_carried(w, &edited, &list, err);
	git_entries_format(&list, strlen(w->tip.hex), info);
	return rc < 0 ? rc : info->failed || paths->failed ? error_oom(err, w->operation) : 0;
}

static int update_index(struct git_work *w, struct atoll_error *err)
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

/* Not for long: nobody misses it after a crash. */
static int put_copy(struct git_work *w)
{
	int rc;

	AUTO_FD dir = fd_open_beneath(w->r->work_fd, w->name, O_RDONLY | O_DIRECTORY);
	AUTO_FD fd = dir < 0 ? dir : sys_open(dir, "index", O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (w->has_index)
		return 0;
	rc = fd < 0 ? fd : sys_write(fd, w->file.data, w->file.size);
	w->has_index = rc >= 0;
	return rc;
}

static int write_tree(struct git_work *w, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc = update_index(w, err);

	if (rc < 0)
		return rc;
	call.index = w->index;
	call.output = &out;
	rc = git_call(&call, err, (const char *const[]){ "write-tree", NULL });
	if (rc >= 0 && !git_id_parse(strbuf_str(&out), &w->tree))
		return failed(w, -EINVAL, err);
	return rc;
}

/* ---- both ---- */

/* Of the others nobody will ask. */
static bool is_touched(const char *path, const void *files)
{
	return changes_find(files, path) != NULL || is_attributes(path);
}

/* 1 if it was read here, 0 if git has read it. */
static int list_tracked(struct git_work *w, struct atoll_error *err)
{
	const struct git_index_filter touched = { is_touched, w->files };
	struct git_call call = git_work_call(w);
	int rc = git_index_file_parse(&w->file, strlen(w->tip.hex), &touched);

	if (rc == -ENOMEM)
		return error_oom(err, w->operation);
	if (rc >= 0) {
		w->tracked = w->file.entries;
		w->file.entries = (struct git_entries){ 0 };
		return 1;
	}
	call.index = w->index;
	rc = put_copy(w);
	return rc < 0 ? failed(w, rc, err) : git_entries_of_index(&call, &w->tracked, err);
}

static bool find_unmerged(struct git_work *w)
{
	for (size_t i = 0; i < w->tracked.n; i++)
		if (w->tracked.v[i].stage) {
			w->unmerged = w->tracked.v[i].path;
			return true;
		}
	return false;
}

/* Takes the index that `git reset` would make inside: HEAD's. All edits of files are found with it.
 * Which paths a command inside had staged is not known, so no commit is made. */
static int replace_index(struct git_work *w, struct atoll_error *err)
{
	AUTO_FD dir = fd_open_beneath(w->r->work_fd, w->name, O_RDONLY | O_DIRECTORY);
	struct git_call call = git_work_call(w);
	struct atoll_error said = { 0 };
	int rc;

	w->lost_index = true;
	git_entries_release(&w->tracked);
	git_index_file_release(&w->file);
	(void)sys_unlink(dir, "index", 0);
	call.index = w->index;
	if (git_call(&call, &said, (const char *const[]){ "read-tree", w->tip.hex, NULL }) < 0)
		return error_set(err, ATOLL_REFUSED, 0, w->operation, w->r->row.path,
				 "neither the index nor HEAD of \"%s\" in the sandbox can be read: %s", w->r->row.path,
				 said.message);
	w->has_index = true;
	rc = dir < 0 ? dir : git_index_file_load(dir, "index", &w->file);
	return rc < 0 ? failed(w, rc, err) : 0;
}

/* A command inside may have removed the index, or written anything in its place. As list_tracked(). */
static int read_index(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	struct atoll_error unread = { 0 };
	int layer = git_refs_layer(inside, "index");
	int rc = layer < 0 ? layer : git_index_file_load(layer, "index", &w->file);

	if (rc == -ENOMEM)
		return error_oom(err, w->operation);
	if (rc >= 0)
		rc = list_tracked(w, &unread);
	if (rc >= 0)
		return rc;
	rc = replace_index(w, err);
	return rc < 0 ? rc : list_tracked(w, err);
}

int git_tree_read(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	int rc = read_index(w, inside, err);

	if (rc < 0)
		return rc;
	if (git_sparse_find(w) < 0)
		return error_oom(err, w->operation);
	if (git_carried_load(w->r, &w->carried, &w->uncommitted) < 0)
		return failed(w, -EINVAL, err);
	w->settled = !find_unmerged(w) && !w->carried.n && !w->elsewhere && rc && *w->file.tree.hex && !has_edits(w);
	if (w->settled) {
		compare_ahead(w);
		hash_written(w);
		git_pack_start_early(w);
	}
	return 0;
}

int git_tree_make(struct git_work *w, struct atoll_error *err)
{
	int rc = find_lost(w, err);

	if (rc < 0 || take_tree(w) > 0)
		return rc;
	rc = put_copy(w);
	return rc < 0 ? failed(w, rc, err) : write_tree(w, err);
}

int git_tree_need_index(struct git_work *w, struct atoll_error *err)
{
	int rc = put_copy(w);

	return rc < 0 ? failed(w, rc, err) : 0;
}
