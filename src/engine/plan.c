/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From changes to steps. The list made here is the one that is journaled, executed, and printed by a dry run.
 *
 * Slots, names in the op's own directory, tell by their first letter how they are filled:
 *
 *	c  a staged copy of the workspace entry, with everything below it
 *	h  a staged copy of a workspace file, with the content that the caller gave (content.c); the file itself stays
 *	   in the workspace
 *	d  a fresh directory without content, made like the workspace's
 *	m  the workspace entry itself, put there by a RETIRE step
 *	k  a workspace entry that has served (an edit that was staged as a copy, a whiteout), kept for undo; or one that does not land (a FIFO),
 *	   while the layer is exchanged for a fresh one
 *	t  what a TAKE step took from the original
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

struct planner {
	struct op *op;
	struct resource *r;
	struct store_op_resource *how;
	const struct selection *selection;
	struct changes *changes;
	struct peer original, workspace;
	const char *cover; /* everything below it lands or leaves with it */
	char **parents;    /* directories whose times the steps disturb */
	size_t n_parents, parents_capacity;
	char **made; /* directories that the steps make or put in the place of something else, without their content */
	size_t n_made, made_capacity;
	bool has_skipped;
	bool has_shared;
	bool retires; /* entries leave the workspace one by one */
	bool ours;    /* what somebody else changed is overridden */
	struct atoll_error *err;
};

static int no_memory(struct planner *p)
{
	return error_oom(p->err, "commit");
}

static int cannot_look(struct planner *p, const char *path, int r)
{
	return error_sys(p->err, r, "commit", path, "cannot look at \"%s\" of \"%s\"", path, p->r->row.path);
}

static int look_before(struct planner *p, struct change *c, struct store_step *step)
{
	int r = change_look(c, &p->original, &step->before);

	step->seen = c->before;
	return r < 0 ? cannot_look(p, c->path, r) : 0;
}

static int look_after(struct planner *p, const char *path, const struct tree_stat *st, struct store_look *ret)
{
	int dir = peer_dir(&p->workspace, path, path_parent_size(path));
	int r = dir < 0 ? dir : resource_look(dir, path_base_name(path), st, ret);

	return r < 0 ? cannot_look(p, path, r) : 0;
}

static int look_landing(struct planner *p, struct change *c, struct store_look *ret)
{
	if (c->after_id.size) {
		*ret = store_look_of(&c->after, &c->after_id);
		return 0;
	}
	return look_after(p, c->path, &c->after, ret);
}

static int add_path(struct planner *p, char ***list, size_t *n, size_t *capacity, const char *path, size_t size)
{
	if (*n == *capacity) {
		size_t more = *capacity ? *capacity * 2 : 16;
		char **grown = reallocarray(*list, more, sizeof *grown);

		if (!grown)
			return no_memory(p);
		*list = grown;
		*capacity = more;
	}
	(*list)[*n] = strndup(path, size);
	return (*list)[*n] ? (int)((*n)++, 0) : no_memory(p);
}

static int note_parent(struct planner *p, const char *path)
{
	size_t size = path_parent_size(path);
	const char *last = p->n_parents ? p->parents[p->n_parents - 1] : NULL;

	if (last && strlen(last) == size && memcmp(last, path, size) == 0)
		return 0;
	return add_path(p, &p->parents, &p->n_parents, &p->parents_capacity, path, size);
}

static int give_slot(struct planner *p, struct store_step *step, char letter)
{
	step->slot = str_format("%c%lld", letter, (long long)step->seq);
	return step->slot ? 0 : no_memory(p);
}

static int refuse(struct planner *p, const char *path, const char *why)
{
	return result_add(p->op->result, ATOLL_ITEM_REFUSED, p->r->row.seq, path, why) ? 0 : no_memory(p);
}

/* Whether a directory of the original holds what belongs to another resource, so that it cannot leave as a whole; refused then, by name. 1, 0
 * or a failure. */
static int refuse_holder(struct planner *p, const struct change *c)
{
	const char *held = c->has_before && S_ISDIR(c->before.mode) ? resource_excluded_below(p->r, c->path) : NULL;
	AUTO_FREE char *why = NULL;
	int r;

	if (!held)
		return 0;
	why = str_format("was removed or replaced, and holds \"%s\", which is not this resource's; put it back inside",
			 held);
	r = why ? refuse(p, c->path, why) : no_memory(p);
	return r < 0 ? r : 1;
}

static bool is_covered(const struct planner *p, const char *path)
{
	return p->cover && path_is_below(path, p->cover);
}

/* Whether something below the i-th change must stay behind, so that it cannot move as a whole. */
static bool is_divided(const struct planner *p, size_t i)
{
	const char *top = p->changes->v[i].path;

	if (!p->has_skipped)
		return false;
	for (size_t k = i + 1; k < p->changes->n && path_is_below(p->changes->v[k].path, top); k++)
		if (p->changes->v[k].kind == ATOLL_SKIPPED)
			return true;
	return false;
}

/* Whether the i-th change, or something that lands with it, shares its inode with a name that stays in the workspace. */
static bool is_shared(const struct planner *p, size_t i)
{
	const char *top = p->changes->v[i].path;

	for (size_t k = i; p->has_shared && k < p->changes->n && path_is_below(p->changes->v[k].path, top); k++)
		if (p->changes->v[k].shared)
			return true;
	return false;
}

/* The workspace entry at path leaves it for the slot. */
static int add_retire(struct planner *p, const struct change *c, const char *slot, char letter)
{
	struct store_step *step = op_add_step(p->op, p->r, STORE_STEP_RETIRE, c->path);
	struct tree_stat st;
	int dir, r;

	if (!step)
		return no_memory(p);
	step->change = c->kind;
	step->slot = slot ? strdup(slot) : NULL;
	if (slot ? !step->slot : give_slot(p, step, letter) < 0)
		return no_memory(p);
	dir = peer_dir(&p->workspace, c->path, path_parent_size(c->path));
	r = dir < 0 ? dir : tree_stat(dir, path_base_name(c->path), &st);
	if (r < 0)
		return error_sys(p->err, r, "commit", c->path, "cannot look at \"%s\" in the workspace", c->path);
	return look_after(p, c->path, &st, &step->before);
}

/* INSTALL or EXCHANGE of one entry. whole: with everything below it. shared: an inode of it stays in the workspace too. */
static int add_landing(struct planner *p, struct change *c, enum store_step_kind kind, bool whole, bool shared)
{
	bool split = S_ISDIR(c->after.mode) && !whole;
	bool copied = !split && (p->how->source == STORE_SOURCE_COPY || shared || c->content);
	struct store_step *step;
	int r = note_parent(p, c->path);

	if (r >= 0 && split && p->ours)
		r = add_path(p, &p->made, &p->n_made, &p->made_capacity, c->path, strlen(c->path));
	if (r < 0)
		return r;
	if (p->retires && !split && !copied) {
		/* The slot is named by the landing step, which follows. */
		AUTO_FREE char *slot = str_format("m%zu", p->op->n + 2);

		r = slot ? add_retire(p, c, slot, 0) : no_memory(p);
		if (r < 0)
			return r;
	}
	step = op_add_step(p->op, p->r, kind, c->path);
	if (!step)
		return no_memory(p);
	step->change = c->kind;
	step->single = !S_ISDIR(c->after.mode) && c->after.nlink == 1;
	if (c->has_before)
		r = look_before(p, c, step);
	if (r >= 0)
		r = look_landing(p, c, &step->after);
	if (r < 0)
		return r;
	if (split || copied || p->how->source == STORE_SOURCE_RETIRE)
		r = give_slot(p, step, split ? 'd' : c->content ? 'h' : copied ? 'c' : 'm');
	if (r >= 0 && p->retires && copied && !c->content)
		r = add_retire(p, c, NULL, 'k');
	return r;
}

static bool is_made(const struct planner *p, const char *path)
{
	for (size_t i = p->n_made; i-- > 0;)
		if (strcmp(p->made[i], path) == 0)
			return true;
	return false;
}

/* The directory is made again, like the workspace's. What somebody else has put in its place is kept for undo. */
static int make_again(struct planner *p, char *path)
{
	AUTO_FD fd = fd_open_beneath(p->workspace.root_fd, path, O_PATH | O_DIRECTORY);
	struct change c = { .path = path, .kind = ATOLL_ADDED, .has_after = true };
	int dir = peer_dir(&p->original, path, path_parent_size(path));
	int r = fd < 0 ? fd : tree_stat(fd, "", &c.after);

	if (r < 0)
		return error_sys(p->err, r, "commit", path, "cannot look at \"%s\" in the workspace", path);
	r = dir < 0 ? dir : tree_stat(dir, path_base_name(path), &c.before);
	if (r < 0 && !is_absent(r))
		return cannot_look(p, path, r);
	c.has_before = r >= 0;
	return add_landing(p, &c, c.has_before ? STORE_STEP_EXCHANGE : STORE_STEP_INSTALL, false, false);
}

/* What somebody else changed is overridden: the directories above that they have removed or replaced are made again first. */
static int restore_parents(struct planner *p, const char *path)
{
	AUTO_FREE char *at = p->ours ? strdup(path) : NULL;
	int r = p->ours && !at ? no_memory(p) : 0;

	for (char *slash = at ? strchr(at, '/') : NULL; slash && r >= 0; slash = strchr(slash + 1, '/')) {
		AUTO_FD fd = -EBADF;

		*slash = 0;
		fd = fd_open_beneath(p->r->root_fd, at, O_PATH | O_DIRECTORY);
		if (fd < 0 && !is_absent(fd))
			r = cannot_look(p, at, fd);
		else if (fd < 0 && !is_made(p, at))
			r = make_again(p, at);
		*slash = '/';
	}
	return r;
}

static int add_taking(struct planner *p, struct change *c)
{
	struct store_step *step;
	int r = note_parent(p, c->path);

	/* Below a directory that stays in the original, though its whiteout hides all of it, an entry has no whiteout of its own. */
	if (r >= 0 && p->retires && !c->below)
		r = add_retire(p, c, NULL, 'k');
	if (r < 0)
		return r;
	step = op_add_step(p->op, p->r, STORE_STEP_TAKE, c->path);
	if (!step)
		return no_memory(p);
	step->change = c->kind;
	r = give_slot(p, step, 't');
	return r < 0 ? r : look_before(p, c, step);
}

static int read_xattrs(struct planner *p, int root_fd, const char *path, char **ret, size_t *ret_size)
{
	AUTO_FD fd = fd_open_beneath(root_fd, path, O_PATH | O_DIRECTORY);
	int r = fd < 0 ? fd : tree_xattrs_encoded(fd, "", resource_marks(p->r), ret, ret_size);

	return r < 0 ? error_sys(p->err, r, "commit", path, "cannot read the attributes of \"%s\"", path) : 0;
}

/* Both sides are on record also where the sandbox left the attributes alone: then those of the original are not to change meanwhile. */
static int add_xattrs(struct planner *p, const struct change *c, struct store_step *step)
{
	int r = read_xattrs(p, p->r->root_fd, c->path, &step->xattrs_before, &step->xattrs_before_size);

	if (r < 0)
		return r;
	if (c->what & ATOLL_WHAT_XATTR)
		return read_xattrs(p, p->workspace.root_fd, c->path, &step->xattrs_after, &step->xattrs_after_size);
	step->xattrs_after = malloc(step->xattrs_before_size + 1);
	if (!step->xattrs_after)
		return no_memory(p);
	memcpy(step->xattrs_after, step->xattrs_before, step->xattrs_before_size);
	step->xattrs_after_size = step->xattrs_before_size;
	return 0;
}

static int add_meta(struct planner *p, struct change *c)
{
	struct store_step *step;
	int r = 0;

	if (c->what & ~(unsigned)ATOLL_WHAT_TIME) {
		step = op_add_step(p->op, p->r, STORE_STEP_META, c->path);
		if (!step)
			return no_memory(p);
		step->change = ATOLL_META;
		r = look_before(p, c, step);
		if (r >= 0)
			r = look_after(p, c->path, &c->after, &step->after);
		/* What was not changed here keeps the value it has there. */
		if (!(c->what & ATOLL_WHAT_MODE))
			step->after.mode = step->before.mode;
		if (!(c->what & ATOLL_WHAT_OWNER))
			step->after.uid = step->before.uid, step->after.gid = step->before.gid;
		if (r >= 0)
			r = add_xattrs(p, c, step);
	}
	if (r >= 0 && (c->what & ATOLL_WHAT_TIME)) {
		/* Its own times, through the list of directories to be set at the end. */
		AUTO_FREE char *child = str_format("%s/x", c->path);

		r = child ? note_parent(p, *c->path ? child : "x") : no_memory(p);
	}
	return r;
}

static int land(struct planner *p, size_t i, enum store_step_kind kind, bool whole)
{
	struct change *c = &p->changes->v[i];
	int r = restore_parents(p, c->path);

	return r < 0 ? r : add_landing(p, c, kind, whole, is_shared(p, i));
}

static int plan_directory(struct planner *p, size_t i, bool selected)
{
	struct change *c = &p->changes->v[i];
	enum store_step_kind kind = c->has_before ? STORE_STEP_EXCHANGE : STORE_STEP_INSTALL;
	/* Where somebody else has removed the directory, the workspace may hold more of it than was changed. */
	bool whole = selected && !is_divided(p, i) && !c->gone && !c->displaced;

	if (!selected && !selection_has_below(p->selection, p->changes, c->path))
		return 0;
	if (whole)
		p->cover = c->path;
	return land(p, i, kind, whole);
}

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

/* What stays behind when the whole layer is exchanged for a fresh one is brought there when the commit is decided (finish.c). */
static int plan_skipped(struct planner *p, const struct change *c)
{
	/* A directory of both sides is merged: only what is in it can stay behind. */
	bool merged = c->has_before && S_ISDIR(c->before.mode) && S_ISDIR(c->after.mode);

	if (!p->how->switches || !c->has_after || merged)
		return 0;
	/* Of what the whiteout of a directory hides, a part may be deleted. */
	if (!is_whiteout(&c->after))
		p->cover = c->path;
	return add_retire(p, c, NULL, 'k');
}

/* Part of a directory that hides its whole original cannot land alone: the rest of the original would stay hidden, or come back. */
static int plan_opaque_part(struct planner *p, size_t i, bool selected)
{
	const struct change *c = &p->changes->v[i];

	if (!selected && !selection_has_below(p->selection, p->changes, c->path))
		return 0;
	if (c->kind == ATOLL_DELETED)
		p->cover = c->path;
	return refuse(p, c->path,
		      "lies in a directory that was replaced as a whole; commit everything, or leave it out");
}

static int plan_change(struct planner *p, size_t i)
{
	struct change *c = &p->changes->v[i];
	bool selected = selection_has(p->selection, c->path);
	int held;

	if (is_covered(p, c->path) || c->part || (c->gone && !(p->ours && c->has_after)))
		return 0;
	if (p->retires && c->kind != ATOLL_SKIPPED && (c->in_opaque || c->opaque))
		return plan_opaque_part(p, i, selected);
	switch (c->kind) {
	case ATOLL_SKIPPED:
		return plan_skipped(p, c);
	case ATOLL_RENAMED:
		return 0;
	case ATOLL_DELETED:
		p->cover = c->path;
		if (!selected && selection_has_below(p->selection, p->changes, c->path))
			return refuse(p, c->path, "was deleted as a whole; commit the directory, not a part of it");
		held = selected ? refuse_holder(p, c) : 0;
		return selected && !held ? add_taking(p, c) : MIN(held, 0);
	case ATOLL_ADDED:
	case ATOLL_TYPE:
		held = selected ? refuse_holder(p, c) : 0;
		if (held) {
			p->cover = c->path;
			return MIN(held, 0);
		}
		if (S_ISDIR(c->after.mode))
			return plan_directory(p, i, selected);
		if (c->has_before && S_ISDIR(c->before.mode))
			p->cover = c->path;
		if (!selected && selection_has_below(p->selection, p->changes, c->path))
			return refuse(p, c->path, "was replaced as a whole; commit it, not a part of what it was");
		return selected ? land(p, i, c->has_before ? STORE_STEP_EXCHANGE : STORE_STEP_INSTALL, true) : 0;
	case ATOLL_MODIFIED:
	case ATOLL_META:
	default:
		if (S_ISDIR(c->after.mode))
			return selected ? add_meta(p, c) : 0;
		return selected ? land(p, i, STORE_STEP_EXCHANGE, true) : 0;
	}
}

static int compare_strings(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

static int add_time(struct planner *p, const char *path)
{
	AUTO_FD before_fd = fd_open_beneath(p->r->root_fd, path, O_PATH | O_DIRECTORY);
	AUTO_FD after_fd = fd_open_beneath(p->workspace.root_fd, path, O_PATH | O_DIRECTORY);
	struct tree_stat before = { 0 }, after;
	struct store_step *step;
	int r = 0;

	if (is_absent(after_fd))
		return 0;
	r = after_fd < 0 ? after_fd : tree_stat(after_fd, "", &after);
	if (r >= 0 && before_fd < 0 && !is_absent(before_fd))
		r = before_fd;
	if (r < 0)
		return error_sys(p->err, r, "commit", path, "cannot look at the directory \"%s\"", path);
	if (before_fd >= 0) {
		r = tree_stat(before_fd, "", &before);
		/* Somebody else put something there meanwhile: its time is what the filesystem makes it. */
		if (r >= 0 && before.ctime >= resource_dir_stamp(p->r, path))
			return 0;
	}
	step = op_add_step(p->op, p->r, STORE_STEP_TIME, path);
	if (!step)
		return no_memory(p);
	step->change = ATOLL_META;
	step->before.mode = before.mode; /* 0: it was not there */
	store_look_set_times(&step->before, &before);
	store_look_set_times(&step->after, &after);
	return 0;
}

/* Deepest first, once each, after all else. */
static int add_times(struct planner *p)
{
	if (p->n_parents)
		qsort(p->parents, p->n_parents, sizeof *p->parents, compare_strings);
	for (size_t i = p->n_parents; i-- > 0;) {
		int r;

		if (i + 1 < p->n_parents && strcmp(p->parents[i], p->parents[i + 1]) == 0)
			continue;
		if (p->r->only && !*p->parents[i])
			continue;
		r = add_time(p, p->parents[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What stays behind, and times that moved because of it, are nothing to commit. */
static bool has_substance(const struct planner *p, size_t first)
{
	for (size_t i = first; i < p->op->n; i++)
		if (p->op->steps[i].kind != STORE_STEP_TIME && p->op->steps[i].kind != STORE_STEP_RETIRE)
			return true;
	for (size_t i = 0; i < p->changes->n; i++)
		if (p->changes->v[i].kind == ATOLL_META && !p->changes->v[i].implied && !p->changes->v[i].part &&
		    selection_has(p->selection, p->changes->v[i].path))
			return true;
	return false;
}

static void drop_steps_from(struct op *op, size_t first)
{
	while (op->n > first)
		store_step_release(&op->steps[--op->n]);
}

static void choose_source(struct planner *p)
{
	bool layered = p->r->ops->capabilities & STRATEGY_LAYERED;
	bool full = selection_has(p->selection, "") && !p->r->only;

	for (size_t i = 0; i < p->changes->n; i++) {
		p->has_skipped |= p->changes->v[i].kind == ATOLL_SKIPPED && !p->changes->v[i].part;
		full &= !p->changes->v[i].content;
	}
	p->retires = layered && !full;
	p->how->switches = layered && full;
	p->how->source = p->r->row.copies ? STORE_SOURCE_COPY : full ? STORE_SOURCE_MOVE : STORE_SOURCE_RETIRE;
}

/* With a part selected: a rename lands with both its ends or not at all. */
static int refuse_half_renames(struct planner *p)
{
	int r = p->selection->all ? 0 : changes_find_renames(p->r, p->changes, p->err);

	for (size_t i = 0; i < p->changes->n && r >= 0 && !p->selection->all; i++) {
		const struct change *c = &p->changes->v[i];
		AUTO_FREE char *why = NULL;

		if (!c->old_path || selection_has(p->selection, c->path) == selection_has(p->selection, c->old_path))
			continue;
		why = str_format("was renamed from \"%s\"; commit both or neither", c->old_path);
		r = why ? refuse(p, c->path, why) : no_memory(p);
	}
	return r;
}

static void free_paths(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static int plan_resource(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	struct planner p = { .op = op,
			     .r = r,
			     .how = &op->resources[index],
			     .selection = &op->selections[index],
			     .changes = op->changes[index],
			     .err = err };
	AUTO_FD workspace = resource_workspace(r);
	size_t first = op->n;
	int rc = 0;

	if (workspace < 0)
		return error_sys(err, workspace, "commit", r->row.path, "the workspace of \"%s\" cannot be opened",
				 r->row.path);
	p.original = (struct peer){ r->root_fd, NULL, -EBADF };
	p.workspace = (struct peer){ workspace, NULL, -EBADF };
	p.ours = op->options->on_conflict == ATOLL_ON_CONFLICT_OURS;
	choose_source(&p);
	plan_identify(p.changes, p.selection, r->root_fd, workspace);
	rc = plan_find_shared(p.changes, p.selection, p.ours);
	p.has_shared = rc > 0;
	rc = rc < 0 ? no_memory(&p) : refuse_half_renames(&p);
	for (size_t i = 0; i < p.changes->n && rc >= 0; i++)
		rc = plan_change(&p, i);
	if (rc >= 0)
		rc = add_times(&p);
	if (rc >= 0 && !has_substance(&p, first)) {
		drop_steps_from(op, first);
		/* What stays behind stays where it is. */
		p.how->switches &= !p.has_skipped;
	}
	if (rc >= 0)
		rc = part_plan(op, index, op->n > first, err);
	peer_release(&p.original);
	peer_release(&p.workspace);
	free_paths(p.parents, p.n_parents);
	free_paths(p.made, p.n_made);
	return rc;
}

int plan_make(struct op *op, struct atoll_error *err)
{
	AUTO_FREE size_t *order = NULL;
	int r = session_order(op->s, &order, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (resource_isolates(&op->s->resources[order[i]]))
			r = plan_resource(op, order[i], err);
	return r;
}
