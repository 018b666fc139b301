/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts: what a resource lands by its own doing (rows of a database, a branch). To the protocol a part is one step among the others, the last one of its
 * resource: prepared with the rest, journaled with the plan, moved to one side or the other, recognised after a crash. Its directory
 * in the op's is all that the strategy needs for that.
 */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"

static const char *name_of(const struct resource *r)
{
	return r->ops->part_name ? r->ops->part_name : r->only ? r->only : "";
}

/* ---- planning ---- */

struct teller {
	struct op *op;
	struct resource *r;
};

static int tell(void *arg, enum atoll_item_kind kind, const char *path, const char *why)
{
	struct teller *t = arg;

	return op_tell(t->op, kind, t->r, path, why);
}

static int refuse_selection(struct op *op, const struct resource *r, struct atoll_error *err)
{
	return result_add(op->result, ATOLL_ITEM_REFUSED, r->row.seq, name_of(r),
			  "lands as a whole; name the whole resource, or nothing of it")
		       ? 0
		       : error_oom(err, "commit");
}

bool part_is_changed(const struct changes *c, bool refs)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].part && (refs || c->v[i].blocking || c->v[i].kind != ATOLL_SKIPPED))
			return true;
	return false;
}

bool part_is_selected(const struct resource *r, const struct selection *v)
{
	return v->all || selection_cover(v, r->only ? r->only : "");
}

static bool is_landing(const struct change *c, const void *selection)
{
	return !c->part && c->kind != ATOLL_SKIPPED && selection_has(selection, c->path);
}

/*
 * Files land without the part only if the strategy agrees, whether the caller named them by paths
 * or by patterns: the part that stays inside must still fit the files there. A pattern that matches
 * no file of this resource means files of another one.
 */
static int plan_files_alone(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	struct teller teller = { op, r };
	const struct part_request q = { .dry = op->options->dry_run,
					.ours = op->options->on_conflict == ATOLL_ON_CONFLICT_OURS,
					.changes = op->changes[index],
					.tell = tell,
					.tell_arg = &teller };
	int rc = r->ops->files_alone ? r->ops->files_alone(r, &q, is_landing, &op->selections[index], err) : 0;

	return rc == 0 ? refuse_selection(op, r, err) : MIN(rc, 0);
}

int part_plan(struct op *op, size_t index, bool has_steps, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	const struct selection *v = &op->selections[index];
	struct store_step *step;

	if (!(r->ops->capabilities & STRATEGY_PART))
		return 0;
	if (!part_is_selected(r, v))
		return v->n || has_steps ? plan_files_alone(op, index, err) : 0;
	if (!part_is_changed(op->changes[index], op->options->refs))
		return 0;
	step = op_add_step(op, r, STORE_STEP_PART, name_of(r));
	if (!step)
		return error_oom(err, "commit");
	step->change = ATOLL_MODIFIED;
	step->slot = str_format("p%lld", (long long)step->seq);
	return step->slot ? 0 : error_oom(err, "commit");
}

/* ---- preparing ---- */

static int open_slot(const struct op *op, const struct resource *r, const char *slot)
{
	AUTO_FD dir = op_dir(op, r, true);

	return dir < 0 ? dir : fd_open_beneath(dir, slot, O_RDONLY | O_DIRECTORY);
}

static int make_slot(struct op *op, struct resource *r, const char *slot, int *ret, struct atoll_error *err)
{
	AUTO_FD dir = op_dir(op, r, true);
	int rc = dir < 0 ? dir : sys_mkdir(dir, slot, 0700);

	if (rc >= 0)
		rc = *ret = fd_open_beneath(dir, slot, O_RDONLY | O_DIRECTORY);
	if (rc >= 0)
		rc = tree_sync_add(op->syncs[r - op->s->resources], dir, "", 0);
	if (rc >= 0)
		rc = tree_sync_add(op->syncs[r - op->s->resources], *ret, "", 0);
	return rc < 0 ? error_sys(err, rc, "commit", r->row.path, "cannot stage the changes of \"%s\" in \"%s\"",
				  r->row.path, r->row.stage)
		      : 0;
}

static int prepare_one(struct op *op, struct store_step *step, struct atoll_error *err)
{
	struct resource *r = session_resource(op->s, step->resource);
	struct teller teller = { op, r };
	const struct part_request q = { .message = op->options->message,
					.dry = op->options->dry_run,
					.refs = op->options->refs,
					.ours = op->options->on_conflict == ATOLL_ON_CONFLICT_OURS,
					.changes = op->changes[r - op->s->resources],
					.sync = op->syncs ? op->syncs[r - op->s->resources] : NULL,
					.tell = tell,
					.tell_arg = &teller };
	AUTO_FD dir = -EBADF;
	int rc = q.dry ? 0 : make_slot(op, r, step->slot, &dir, err);

	if (rc >= 0)
		rc = r->ops->part_prepare(r, dir, &q, err);
	if (rc < 0)
		return rc;
	step->dropped = rc == 0;
	return 0;
}

int part_prepare_all(struct op *op, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < op->n && r >= 0; i++)
		if (op->steps[i].kind == STORE_STEP_PART)
			r = prepare_one(op, &op->steps[i], err);
	return r;
}

int part_prepared_all(struct op *op, struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		struct resource *r = session_resource(op->s, op->steps[i].resource);

		if (op->steps[i].kind == STORE_STEP_PART && r->ops->part_prepared)
			rc = r->ops->part_prepared(r, err);
	}
	return rc;
}

/* ---- an undo ---- */

int part_lock_all(struct op *op, struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		const struct store_step *step = &op->steps[i];
		struct resource *r = session_resource(op->s, step->resource);
		AUTO_FD dir = -EBADF;

		if (step->kind != STORE_STEP_PART || !op_resource(op, step->resource)->op || !r->ops->part_lock)
			continue;
		dir = open_slot(op, r, step->slot);
		rc = dir < 0 ? error_sys(err, dir, "undo", r->row.path, "cannot read the undo data of \"%s\" in \"%s\"",
					 r->row.path, r->row.stage)
			     : r->ops->part_lock(r, dir, err);
	}
	return rc;
}

/* ---- moving ---- */

/* As steps answer; what cannot be told by that is kept with the site. */
static int answer(struct step_site *site, int code)
{
	switch (-code) {
	case ATOLL_OK:
		return 0;
	case ATOLL_CONFLICT:
		return -ESTALE;
	case ATOLL_BUSY:
		return -EAGAIN;
	case ATOLL_NO_SPACE:
		return -ENOSPC;
	default:
		return site->why.sys_errno > 0 ? -site->why.sys_errno : -EIO;
	}
}

int part_open(struct step_site *site, const struct store_step *step)
{
	return fd_open_beneath(site->stage_op_fd, step->slot, O_RDONLY | O_DIRECTORY);
}

int part_state(struct step_site *site, const struct store_step *step)
{
	static const int states[] = { [PART_OLD] = STEP_OLD, [PART_NEW] = STEP_NEW, [PART_FOREIGN] = STEP_FOREIGN };
	AUTO_FD dir = part_open(site, step);
	int side;

	site->why = (struct atoll_error){ 0 };
	if (dir < 0)
		return dir == -ENOENT && site->op->salvage ? -ENODATA : dir;
	side = site->r->ops->part_side(site->r, dir, &site->why);
	return side < 0 ? answer(site, side) : states[side];
}

static int move_it(struct step_site *site, const struct store_step *step, enum direction direction)
{
	AUTO_FD dir = -EBADF;
	int r = part_state(site, step);

	if (r < 0)
		return r;
	if (r == (direction == FORWARD ? STEP_NEW : STEP_OLD))
		return 0;
	if (r == STEP_FOREIGN)
		return -ESTALE;
	dir = part_open(site, step);
	if (dir < 0)
		return dir;
	r = site->r->ops->part_move(site->r, dir, direction == FORWARD, &site->why);
	return r < 0 ? answer(site, r) : 1;
}

int part_move(struct step_site *site, struct store_step *step, enum direction direction)
{
	int r = move_it(site, step, direction);

	/* -ESTALE: another process has changed the part, and the strategy has left it alone. After any
	 * other failure the strategy may have moved some of it. */
	step->reached |= r != -ESTALE;
	return r;
}

bool part_is_unmoved(const struct op *op, const struct store_step *step)
{
	return step->kind == STORE_STEP_PART && !op->salvage && !step->reached;
}

bool part_is_undo_record(const struct op *op, const struct store_step *step)
{
	return step->kind == STORE_STEP_PART && op->row.kind == STORE_OP_UNDO;
}

int part_copy_record(struct step_site *site, const struct store_step *step, int to_dir, const char *name)
{
	struct tree_copy_report report = { 0 };
	AUTO_FD from = part_open(site, step), to = -EBADF;
	/* A recovery that was killed may have left a piece of it. */
	int r = from < 0 ? from : tree_remove(to_dir, name);

	if (r >= 0)
		r = to = fd_make_path(to_dir, name);
	return r < 0 ? r : tree_copy(from, to, 0, NULL, &report, NULL);
}

int part_sync(struct step_site *site, const struct store_step *step, struct tree_sync *sync)
{
	AUTO_FD dir = -EBADF;

	if (step->dropped || !site->r->ops->part_touched)
		return 0;
	dir = part_open(site, step);
	if (dir < 0)
		return dir == -ENOENT && site->op->salvage ? 0 : dir;
	return site->r->ops->part_touched(site->r, dir, sync);
}

/* ---- the end ---- */

/* One that fails never stops the others; it is tried again by the next who opens the sandbox. */
int part_end_all(struct op *op, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; i < op->n; i++) {
		struct resource *r = session_resource(op->s, op->steps[i].resource);
		AUTO_FD dir = -EBADF;
		int rc;

		if (op->steps[i].kind != STORE_STEP_PART || !r || !r->ops->part_end)
			continue;
		dir = open_slot(op, r, op->steps[i].slot);
		rc = r->ops->part_end(r, MAX(dir, -EBADF), first < 0 ? NULL : err);
		first = first < 0 ? first : rc;
	}
	return first;
}

int part_drop_left(struct session *s, struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < s->n && rc >= 0; i++) {
		struct resource *r = &s->resources[i];

		if (r->root_fd >= 0 && r->ops->part_left && r->ops->part_left(r) && r->ops->part_end)
			rc = r->ops->part_end(r, -EBADF, err);
	}
	return rc;
}
