/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision, and what follows it. The decision is one durable transaction: the op becomes DECIDED and, with it, every resource gets
 * its new state and its new base for conflicts. What follows only tidies up and may be repeated any number of times.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

static int drop_steps(struct op *op, struct atoll_error *err)
{
	int64_t owner = op->row.kind == STORE_OP_UNDO ? op->row.commit_op : op->row.id;
	bool any = false;
	int r = 0;

	for (size_t i = 0; i < op->n; i++)
		any |= op->steps[i].dropped;
	if (any)
		r = store_steps_forget(op->s->store, owner, err);
	if (any && r >= 0)
		r = store_steps_put(op->s->store, owner, op->steps, op->n, err);
	return r;
}

static int reload_stamps(struct session *s, struct resource *r, struct atoll_error *err)
{
	store_stamps_free(r->stamps, r->n_stamps);
	r->stamps = NULL;
	r->n_stamps = 0;
	if (r->ops->release)
		r->ops->release(r);
	return store_stamp_list(s->store, r->row.id, &r->stamps, &r->n_stamps, err);
}

/* The fresh layer's root looks like the original's, to the last bit of its times. */
static int match_root_times(struct resource *r)
{
	AUTO_FD fd = resource_workspace(r);
	struct tree_stat st;
	int rc = fd < 0 ? fd : tree_stat(r->root_fd, "", &st);

	if (rc >= 0) {
		const struct timespec times[2] = { tree_atime(&st), tree_mtime(&st) };

		rc = sys_utimens(fd, "", times);
	}
	return rc < 0 ? rc : merge_begin_root(r, fd, &st);
}

/* A whiteout stays behind where a FIFO, socket or device has the place of a file that was deleted inside. */
static bool keeps_whiteout(const struct resource *r, const struct store_step *step)
{
	return step->resource == r->row.id && step->kind == STORE_STEP_RETIRE && S_ISCHR(step->before.mode);
}

/* The layer is fresh, and so is all that is known, but for files that stay deleted inside: they are not what is there now. */
static int forget_touches(struct op *op, struct resource *r, struct atoll_error *err)
{
	struct store_touch *list = NULL;
	size_t n = 0, kept = 0;
	int rc = 0;

	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		if (!keeps_whiteout(r, &op->steps[i]))
			continue;
		if (!list)
			rc = store_touch_list(op->s->store, r->row.id, &list, &n, err);
		for (size_t k = kept; k < n && rc >= 0; k++) {
			struct store_touch t = list[k];

			if (strcmp(t.path, op->steps[i].path) != 0)
				continue;
			list[k] = list[kept];
			list[kept++] = t;
		}
	}
	if (rc >= 0)
		rc = store_touch_put(op->s->store, r->row.id, list, kept, err);
	store_touches_free(list, n);
	return rc;
}

static int rebase_whole(struct op *op, struct resource *r, int64_t stamp, struct atoll_error *err)
{
	int rc = match_root_times(r);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot renew the workspace of \"%s\"", r->row.path);
	r->row.stamp = stamp;
	r->row.clock_offset = clock_offset_ns();
	rc = forget_touches(op, r, err);
	if (rc >= 0)
		rc = op_clear_stamps(op->s, r, op->row.id, err);
	if (rc >= 0)
		rc = reload_stamps(op->s, r, err);
	if (rc >= 0 && r->ops->ran)
		rc = r->ops->ran(r, err);
	return rc;
}

static int land_resource(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	struct store_op_resource *how = &op->resources[index];
	int rc = tree_stamp(r->stage_fd, &how->landed_at);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot take the time on the filesystem of \"%s\"",
				 r->row.path);
	how->op = op->row.id;
	rc = store_op_resource_put(op->s->store, how, err);
	if (rc >= 0)
		rc = how->switches ? rebase_whole(op, r, how->landed_at, err)
				   : rebase_paths(op, r, how->landed_at, err);
	if (rc >= 0 && r->row.state == ATOLL_CREATED)
		rc = state_move(&r->row, ATOLL_ACTIVE, "commit", err);
	if (rc >= 0 && !how->stays_active)
		rc = state_move(&r->row, ATOLL_COMMITTED, "commit", err);
	return rc < 0 ? rc : store_resource_update(op->s->store, &r->row, err);
}

int finish_decide_commit(struct op *op, struct atoll_error *err)
{
	int r = store_begin(op->s->store, true, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (op->resources[i].op)
			r = land_resource(op, i, err);
	if (r >= 0)
		r = own_add_stamps(op, err);
	if (r >= 0)
		r = drop_steps(op, err);
	if (r >= 0)
		r = store_op_set_phase(op->s->store, op->row.id, STORE_DECIDED, clock_realtime_ns(), err);
	if (r >= 0)
		r = store_sandbox_touch(op->s->store, op->s->box.id, clock_realtime_ns(), err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

/* Workspaces that recovery has found to be gone: it makes them fresh, now or after the next crash. */
static int mark_dirty(struct op *op, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; op->lost && i < op->s->n && r >= 0; i++)
		if (op->s->resources[i].row.dirty)
			r = store_resource_update(op->s->store, &op->s->resources[i].row, err);
	return r;
}

static int set_phase_lazily(struct op *op, enum store_op_phase phase, struct atoll_error *err)
{
	int r = store_begin(op->s->store, false, err);

	if (r >= 0)
		r = store_op_set_phase(op->s->store, op->row.id, phase, clock_realtime_ns(), err);
	if (r >= 0)
		r = mark_dirty(op, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

static int record_touched(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int rc = reload_stamps(op->s, r, err);

	if (rc < 0 || !r->ops->ran || r->row.dirty)
		return rc;
	rc = store_begin_late(op->s->store, err); /* the strategy may have begun one */
	if (rc >= 0)
		rc = r->ops->ran(r, err);
	if (rc >= 0)
		rc = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return rc;
}

/* Those in which nothing was edited, as this very op has found. */
static void tell_moved(const struct op *op, const struct resource *host)
{
	for (size_t i = 0; i < op->s->n && op->changes; i++) {
		struct resource *r = &op->s->resources[i];

		if (r->host == host && r->ops->moved && op->changes[i] && op->changes[i]->n == 0)
			r->ops->moved(r);
	}
}

/* What guests have in the layer that was put aside goes on in the one that took its place. */
static int bring_guests(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FREE char *layer = op_layer(op);
	AUTO_FD from = -EBADF, to = -EBADF;
	int rc;

	if (!op->resources[index].op || !op->resources[index].switches || !r->n_claimed || r->row.dirty)
		return 0;
	if (!layer)
		return error_oom(err, "commit");
	from = fd_open_beneath(r->work_fd, layer, O_RDONLY | O_DIRECTORY);
	if (from == -ENOENT)
		return 0;
	to = resource_workspace(r);
	rc = MIN(from, to);
	if (rc >= 0)
		rc = guest_follow(r, from, to);
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot renew the workspace of \"%s\"", r->row.path);
	tell_moved(op, r);
	return record_touched(op, index, err);
}

/* What stays behind (a FIFO) left the old layer for a slot, and goes on in the fresh one. */
static int bring_skipped(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FD slots = -EBADF, to = -EBADF;
	bool any = false;
	int rc = 0;

	for (size_t i = 0; i < op->n; i++)
		any |= op->steps[i].resource == r->row.id && op->steps[i].kind == STORE_STEP_RETIRE;
	if (!any || !op->resources[index].op || !op->resources[index].switches || r->row.dirty)
		return 0;
	slots = op_dir(op, r, false);
	if (slots == -ENOENT) /* removed by somebody */
		return 0;
	to = resource_workspace(r);
	rc = MIN(slots, to);
	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		const struct store_step *step = &op->steps[i];

		if (step->resource == r->row.id && step->kind == STORE_STEP_RETIRE && !step->dropped)
			rc = guest_bring(r, slots, step->slot, to, step->path);
	}
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot renew the workspace of \"%s\"", r->row.path);
	return record_touched(op, index, err);
}

int finish_commit(struct op *op, struct atoll_error *err)
{
	int ended = part_end_all(op, err);
	int told = vote_end_all(op, true, ended < 0 ? NULL : err);

	ended = MIN(ended, told);
	if (ended >= 0)
		ended = decide_end(op, true, err);
	for (size_t i = 0; i < op->s->n && ended >= 0; i++)
		ended = bring_guests(op, i, err);
	for (size_t i = 0; i < op->s->n && ended >= 0; i++)
		ended = bring_skipped(op, i, err);
	if (ended < 0)
		return ended;
	for (size_t i = 0; i < op->s->n; i++) {
		struct resource *r = &op->s->resources[i];
		int rc = op->resources[i].op && r->ops->landed && !r->row.dirty
				 ? r->ops->landed(r, op->steps, op->n, err)
				 : 0;

		if (rc < 0)
			return rc;
	}
	return set_phase_lazily(op, STORE_DONE, err);
}

/* ---- undo ---- */

static int return_resource(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int64_t stamp;
	int rc = tree_stamp(r->stage_fd, &stamp);

	if (rc < 0)
		return error_sys(err, rc, "undo", r->row.path, "cannot take the time on the filesystem of \"%s\"",
				 r->row.path);
	rc = rebase_paths(op, r, stamp, err);
	if (rc >= 0)
		rc = state_move(&r->row, ATOLL_ACTIVE, "undo", err);
	if (rc >= 0 && op->row.rollback)
		r->row.dirty = true; /* and recovery resets it, if we do not get to it */
	return rc < 0 ? rc : store_resource_update(op->s->store, &r->row, err);
}

/* A rollback is of the whole sandbox; one that had no part in the commit, and no edits, has nothing to lose. */
static int roll_back_unchanged(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int rc = state_move(&r->row, ATOLL_ROLLED_BACK, "rollback", err);

	return rc < 0 ? rc : store_resource_update(op->s->store, &r->row, err);
}

/* What was not to be taken back stays as it is, and can be no longer. */
static int settle_others(struct op *op, struct atoll_error *err)
{
	AUTO_FREE struct store_op_resource *list = NULL;
	size_t n = 0;
	int r = store_op_resource_list(op->s->store, op->row.commit_op, &list, &n, err);

	for (size_t i = 0; i < op->n; i++)
		op->steps[i].dropped |= !op_resource(op, op->steps[i].resource)->op;
	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct store_op_resource *known = op_resource(op, list[i].resource);

		if (known && !known->op)
			r = store_op_resource_delete(op->s->store, op->row.commit_op, list[i].resource, err);
	}
	return r;
}

int finish_decide_undo(struct op *op, struct atoll_error *err)
{
	int r = store_begin(op->s->store, true, err);

	if (r >= 0)
		r = settle_others(op, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (op->resources[i].op)
			r = return_resource(op, i, err);
		else if (op->row.rollback)
			r = roll_back_unchanged(op, i, err);
	if (r >= 0)
		r = own_add_stamps(op, err);
	if (r >= 0)
		r = drop_steps(op, err);
	if (r >= 0)
		r = store_op_set_phase(op->s->store, op->row.id, STORE_DECIDED, clock_realtime_ns(), err);
	if (r >= 0)
		r = store_op_set_taken_back(op->s->store, op->row.commit_op, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

static bool sets_root_time(const struct op *op, const struct resource *r)
{
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id && op->steps[i].kind == STORE_STEP_TIME && !*op->steps[i].path)
			return true;
	return false;
}

/* Edits made since the commit lie in the layer that was put aside; they go on top of those that came back. */
static int merge_layers(struct op *op, size_t index)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FREE char *layer = op_layer(op);
	AUTO_FD newer = -EBADF, older = -EBADF;

	if (!op->resources[index].switches)
		return 0;
	if (!layer)
		return -ENOMEM;
	newer = fd_open_beneath(r->work_fd, layer, O_RDONLY | O_DIRECTORY);
	if (newer == -ENOENT)
		return 0;
	older = resource_workspace(r);
	return newer < 0 || older < 0 ? MIN(newer, older) : merge_newer(r, newer, older, sets_root_time(op, r));
}

/* What a partial commit took from the workspace one by one, and found its place taken on the way back. */
static int merge_retired(struct op *op, size_t index)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FD workspace = resource_workspace(r);
	AUTO_FD stage = op_dir(op, r, true);
	AUTO_FD work = op_dir(op, r, false);
	int rc = 0;

	if (!(r->ops->capabilities & STRATEGY_LAYERED) || op->resources[index].switches)
		return 0;
	/* Removed already, by an attempt that was cut off. */
	if (stage == -ENOENT || work == -ENOENT)
		return 0;
	if (workspace < 0 || stage < 0 || work < 0)
		return MIN(workspace, MIN(stage, work));
	for (size_t i = 0; i < op->n && rc >= 0; i++) {
		const struct store_step *step = &op->steps[i];

		if (step->resource == r->row.id && !step->dropped && step->kind == STORE_STEP_META)
			rc = merge_metadata(r, workspace, step, work);
		if (step->resource != r->row.id || step->dropped || !step->slot || rc < 0)
			continue;
		/* A directory that was divided: the workspace has it still, unless it was dropped meanwhile. */
		if (step->kind == STORE_STEP_RETIRE || step->slot[0] == 'd')
			rc = merge_beneath(r, workspace, step->path, step->slot[0] == 'k' ? work : stage, step->slot);
	}
	return rc;
}

static int remove_undo_data(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int rc = op_remove_dirs(op, r);

	return rc < 0 ? error_sys(err, rc, op->row.rollback ? "rollback" : "undo", r->row.path,
				  "cannot remove the undo data of \"%s\"", r->row.path)
		      : 0;
}

/* In a transaction of its own: once the newer edits are merged, the layer that came back no longer tells. */
static int know_again(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int rc = 0;

	if (!r->ops->returning || !op->resources[index].switches)
		return 0;
	rc = r->ops->returning(r, op->steps, op->n, err);
	if (rc >= 0 && store_is_begun(op->s->store))
		rc = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return rc;
}

static int tidy_returned(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	int rc;

	if (r->row.dirty)
		return 0;
	rc = know_again(op, index, err);
	if (rc < 0)
		return rc;
	rc = merge_layers(op, index);
	if (rc >= 0)
		rc = merge_retired(op, index);
	if (rc < 0)
		return error_sys(err, rc, "undo", r->row.path, "cannot put the newer edits of \"%s\" on top",
				 r->row.path);
	rc = r->ops->returned ? r->ops->returned(r, op->steps, op->n, err) : 0;
	if (rc >= 0)
		rc = record_touched(op, index, err);
	store_abort(op->s->store);
	return rc;
}

static void report_untidy(struct op *op, size_t index, const struct atoll_error *why)
{
	struct atoll_resource_result *line = result_find(op->result, op->s->resources[index].row.seq);

	if (!line)
		return;
	line->workspace_dirty = true;
	free(line->cause);
	line->cause = strdup(why->message);
}

static void tidy_one(struct op *op, size_t index, int (*fn)(struct op *op, size_t index, struct atoll_error *err),
		     struct atoll_error *first)
{
	struct atoll_error why = { 0 };

	if (!op->resources[index].op)
		return;
	if (fn(op, index, &why) < 0)
		report_untidy(op, index, &why);
	if (!first->code)
		*first = why;
}

/* One that fails never stops the others. The undo data goes when nobody needs it any more: several may share it, and what is missing has done
 * its duty. If the edits are dropped, their layer goes with the workspace, which is reset next. */
static int tidy_all(struct op *op, struct atoll_error *err)
{
	struct atoll_error first = { 0 };

	for (size_t i = 0; i < op->s->n && !op->row.rollback; i++)
		tidy_one(op, i, tidy_returned, &first);
	for (size_t i = 0; i < op->s->n && !first.code; i++)
		tidy_one(op, i, remove_undo_data, &first);
	if (first.code && err)
		*err = first;
	return -(int)first.code;
}

int finish_undo(struct op *op, struct atoll_error *err)
{
	int r = part_end_all(op, err);

	if (r >= 0)
		r = tidy_all(op, err);

	if (op->row.rollback) {
		struct atoll_error *unless_known = r < 0 ? NULL : err;
		int reset = reset_dirty(op->s, op->result, unless_known);

		r = r < 0 ? r : reset;
	}
	if (r < 0)
		return r;
	r = store_begin(op->s->store, false, err);
	if (r >= 0)
		r = store_steps_forget(op->s->store, op->row.commit_op, err);
	if (r >= 0)
		r = store_op_set_phase(op->s->store, op->row.id, STORE_DONE, clock_realtime_ns(), err);
	if (r >= 0)
		r = mark_dirty(op, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

/* ---- an op that did not get to its decision: everything is back ---- */

static int rebase_failed(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	struct step_site *site;
	int64_t stamp;
	int rc = tree_stamp(r->stage_fd, &stamp);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot take the time on the filesystem of \"%s\"",
				 r->row.path);
	site = step_site_new(op, r, err);
	if (!site)
		return -(int)err->code;
	rc = rebase_intact(op, r, site, stamp, err);
	step_site_free(site);
	return rc;
}

int finish_failed(struct op *op, struct atoll_error *err)
{
	bool commit = op->row.kind == STORE_OP_COMMIT;
	int r = part_end_all(op, err);
	int told = commit ? vote_end_all(op, false, r < 0 ? NULL : err) : 0;

	r = MIN(r, told);
	if (r >= 0 && commit)
		r = decide_end(op, false, err);
	if (r >= 0)
		r = store_begin(op->s->store, true, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (op->resources[i].op)
			r = rebase_failed(op, i, err);
	if (r >= 0)
		r = own_add_stamps(op, err);
	if (r >= 0)
		r = store_op_set_phase(op->s->store, op->row.id, STORE_FAILED, clock_realtime_ns(), err);
	if (r >= 0)
		r = commit ? store_steps_forget(op->s->store, op->row.id, err) : drop_steps(op, err);
	if (r >= 0)
		r = mark_dirty(op, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	for (size_t i = 0; i < op->s->n && r >= 0; i++) {
		if (!op->resources[i].op)
			continue;
		r = record_touched(op, i, err);
		if (commit)
			op_remove_dirs(op, &op->s->resources[i]); /* what is left is found and removed by recovery */
	}
	return r;
}
