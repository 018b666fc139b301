/* SPDX-License-Identifier: Apache-2.0 */
/* The base of single paths after an op: from when on they are judged, and what is no longer known of them. */
#include "engine/protocol.h"

#include <string.h>

static bool is_of_directory(const struct store_step *step)
{
	return step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME;
}

/* Whether the step puts a file into the original, or takes one, or changes a directory: a workspace or a part has no stamp. */
static bool concerns_files(const struct store_step *step)
{
	return step->kind != STORE_STEP_RETIRE && step->kind != STORE_STEP_PART;
}

/* The steps of one resource that put something into the original, sorted by path. */
struct landed {
	const struct store_step **v;
	size_t n;
};

static void release_landed(struct landed *l)
{
	free(l->v);
}

static int compare_steps(const void *a, const void *b)
{
	return strcmp((*(const struct store_step *const *)a)->path, (*(const struct store_step *const *)b)->path);
}

static int find_landed(const struct op *op, const struct resource *r, struct landed *ret)
{
	ret->n = 0;
	ret->v = reallocarray(NULL, op->n ? op->n : 1, sizeof *ret->v);
	if (!ret->v)
		return -ENOMEM;
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id && concerns_files(&op->steps[i]))
			ret->v[ret->n++] = &op->steps[i];
	qsort(ret->v, ret->n, sizeof *ret->v, compare_steps);
	return 0;
}

/* The first step at the path, or where it would be. */
static size_t find_first(const struct landed *l, const char *path)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(l->v[middle]->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a step put something at the path; whole: with everything below. */
static bool landed_at(const struct landed *l, const char *path, bool whole)
{
	for (size_t i = find_first(l, path); i < l->n && strcmp(l->v[i]->path, path) == 0; i++)
		if (!whole ||
		    (!is_of_directory(l->v[i]) && (S_ISDIR(l->v[i]->before.mode) || S_ISDIR(l->v[i]->after.mode))))
			return true;
	return false;
}

static int landed_above(const struct landed *l, const char *path)
{
	AUTO_FREE char *above = strdup(path);
	char *slash;

	if (!above)
		return -ENOMEM;
	while ((slash = strrchr(above, '/'))) {
		*slash = 0;
		if (landed_at(l, above, true))
			return 1;
	}
	return 0;
}

/* What a step set on a directory that stays is what is known of it. What the step did not set stays known as it was: a change that another
 * process makes to it is still that process's. */
static int renew_touch(struct store_touch *t, const struct store_step *step, bool undone)
{
	const struct store_look *look = undone ? &step->before : &step->after;
	const char *xattrs = undone ? step->xattrs_before : step->xattrs_after;
	size_t size = undone ? step->xattrs_before_size : step->xattrs_after_size;
	char *copy;

	if (step->kind == STORE_STEP_TIME) {
		store_look_copy_times(&t->look, look);
		return 0;
	}
	t->look.id = step->before.id;
	t->look.mode = look->mode;
	t->look.uid = look->uid;
	t->look.gid = look->gid;
	t->trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY;
	if (!xattrs)
		return 0;
	copy = malloc(size + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, xattrs, size);
	free(t->xattrs);
	t->xattrs = copy;
	t->xattrs_size = size;
	return 0;
}

/* 1: the touch stays, renewed; 0: it is of the past; or -ENOMEM. */
static int keep_touch(const struct op *op, const struct landed *landed, struct store_touch *t)
{
	int r = landed_above(landed, t->path);

	if (r != 0)
		return MIN(r, 0);
	if (!S_ISDIR(t->look.mode))
		return !landed_at(landed, t->path, false);
	for (size_t i = find_first(landed, t->path); i < landed->n && strcmp(landed->v[i]->path, t->path) == 0; i++) {
		const struct store_step *step = landed->v[i];

		if (step->overrides && op->row.kind == STORE_OP_UNDO)
			return 0;
		if (!is_of_directory(step) || (step->kind == STORE_STEP_TIME && !step->before.mode))
			return 0;
		r = step->dropped ? 0 : renew_touch(t, step, op->row.kind == STORE_OP_UNDO);
		if (r < 0)
			return r;
	}
	return 1;
}

/* What was known of the originals at the steps' paths is of the past, but for directories that stay. */
static int renew_touches(struct op *op, struct resource *r, struct atoll_error *err)
{
	CLEANUP(release_landed) struct landed landed = { 0 };
	struct store_touch *list = NULL;
	size_t n = 0, kept = 0;
	int rc = store_touch_list(op->s->store, r->row.id, &list, &n, err);

	if (rc < 0 || !n)
		return rc;
	rc = find_landed(op, r, &landed);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		struct store_touch t;

		rc = keep_touch(op, &landed, &list[i]);
		if (rc <= 0)
			continue;
		t = list[i];
		list[i] = list[kept];
		list[kept++] = t;
	}
	rc = rc < 0 ? error_oom(err, "commit") : store_touch_put(op->s->store, r->row.id, list, kept, err);
	store_touches_free(list, n);
	return rc;
}

/* The stamps that a list of steps leaves. */
struct stamps {
	struct store_stamp *v;
	size_t n, capacity;
};

static void release_stamps(struct stamps *s)
{
	store_stamps_free(s->v, s->n);
}

/* Takes the path. */
static int add(struct stamps *s, char *path, int64_t stamp)
{
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 64;
		struct store_stamp *grown = path ? reallocarray(s->v, capacity, sizeof *grown) : NULL;

		if (!grown) {
			free(path);
			return -ENOMEM;
		}
		s->v = grown;
		s->capacity = capacity;
	}
	if (!path)
		return -ENOMEM;
	s->v[s->n++] = (struct store_stamp){ path, stamp };
	return 0;
}

/* The directory alone, whatever is below it. */
static int add_self(struct stamps *s, const struct store_step *step, int64_t stamp)
{
	return add(s, str_format("%s%s.", step->path, *step->path ? "/" : ""), stamp);
}

static int add_stamp(struct stamps *s, const struct store_step *step, int64_t stamp)
{
	return is_of_directory(step) ? add_self(s, step, stamp) : add(s, strdup(step->path), stamp);
}

/* The moment before the first step, or `end` where steps of this op have worked within directories that they moved. */
static int64_t began_at(const struct op *op, const struct resource *r, int64_t end)
{
	const struct store_op_resource *how = op_resource((struct op *)op, r->row.id);

	if (op->row.kind == STORE_OP_UNDO)
		return how->undo_began ? how->undo_began : end;
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id && op->steps[i].kind == STORE_STEP_RETIRE)
			return end;
	return how->prepared_at ? how->prepared_at : end;
}

/* Whether the original still has the file as the step has put it there. Another process may have
 * changed it between the rename and the moment at which the op was complete. */
static bool is_as_put(struct peer *peer, const struct store_step *step, const struct store_look *look)
{
	int dir = peer_dir(peer, step->path, path_parent_size(step->path));
	struct tree_stat st;
	int r = dir < 0 ? dir : tree_stat(dir, path_base_name(step->path), &st);

	if (r < 0)
		return is_absent(r) && !look->mode;
	return st.mode == look->mode && st.uid == look->uid && st.gid == look->gid && st.mtime == look->mtime &&
	       st.size == look->size;
}

/*
 * `end` is the moment at which the op was complete. A change that another process makes after it
 * conflicts by its ctime. The process may also make a change earlier, after the rename of the step:
 *
 *   - A file is looked at once more. If it is not as the step has put it there, it gets no stamp, and
 *     so conflicts.
 *   - No step touches what is below a directory that was moved as a whole. So its content gets the
 *     moment before the first step as stamp.
 */
static int stamp_moved(struct op *op, const struct resource *r, struct peer *peer, const struct store_step *step,
		       int64_t end, struct stamps *ret)
{
	bool undone = op->row.kind == STORE_OP_UNDO;
	const struct store_look *look = undone ? &step->before : &step->after;
	bool split = step->slot && step->slot[0] == 'd';
	int rc;

	if (!look->mode || split || (step->slot && step->slot[0] == 'h'))
		return add_stamp(ret, step, end);
	if (!S_ISDIR(look->mode))
		return is_as_put(peer, step, look) ? add_stamp(ret, step, end) : 0;
	rc = add(ret, strdup(step->path), began_at(op, r, end));
	return rc < 0 ? rc : add_self(ret, step, end);
}

int rebase_paths(struct op *op, struct resource *r, int64_t stamp, struct atoll_error *err)
{
	CLEANUP(release_stamps) struct stamps stamps = { 0 };
	struct peer peer = { r->root_fd, NULL, -EBADF };
	int rc = 0;

	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		const struct store_step *step = &op->steps[i];

		if (step->resource != r->row.id || !concerns_files(step))
			continue;
		/* The other side's version is back, and the sandbox still wants to replace it. */
		if (step->overrides && op->row.kind == STORE_OP_UNDO)
			continue;
		rc = is_of_directory(step) ? add_stamp(&stamps, step, stamp)
					   : stamp_moved(op, r, &peer, step, stamp, &stamps);
	}
	peer_release(&peer);
	if (rc < 0)
		return error_oom(err, "commit");
	rc = store_stamp_add(op->s->store, r->row.id, stamps.v, stamps.n, err);
	return rc < 0 ? rc : renew_touches(op, r, err);
}

/*
 * Whether the earlier stamps go on judging the entry after an op that failed. They do so if this process
 * has not moved the entry, since Atoll has then moved no ctime of it. They must do so if the failed
 * commit was to override a conflict there, or met another process's change.
 */
static bool stays_judged(const struct op *op, const struct store_step *step)
{
	if (op->row.kind == STORE_OP_UNDO)
		return false;
	if (step->overrides || step->contested)
		return true;
	return !op->salvage && !is_of_directory(step) && !step->moved;
}

int rebase_intact(struct op *op, struct resource *r, struct step_site *site, int64_t stamp, struct atoll_error *err)
{
	enum direction side = op->row.kind == STORE_OP_UNDO ? FORWARD : BACKWARD;
	CLEANUP(release_stamps) struct stamps stamps = { 0 };
	int rc = 0;

	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		const struct store_step *step = &op->steps[i];

		if (step->resource != r->row.id || !concerns_files(step) || step->dropped || stays_judged(op, step))
			continue;
		rc = step_is_intact(site, step, side);
		if (rc < 0)
			return error_sys(err, rc, "commit", step->path, "cannot look at \"%s\" of \"%s\"", step->path,
					 r->row.path);
		if (rc && add_stamp(&stamps, step, stamp) < 0)
			return error_oom(err, "commit");
	}
	return store_stamp_add(op->s->store, r->row.id, stamps.v, stamps.n, err);
}
