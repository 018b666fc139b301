/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving all steps of an op to one side. Forward: entries in the order of the plan, then the workspace layer, then metadata, then
 * times. Backward: metadata, the layer, entries in reverse, then times. Ends with a sync of every directory touched.
 */
#include "engine/step.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/sys.h"

struct run {
	struct op *op;
	struct step_site *site;
	enum direction direction;
	bool tolerate;
	bool foreign;
	size_t done;
	struct atoll_error *err;
};

static bool is_entry(const struct store_step *step)
{
	return step->kind != STORE_STEP_META && step->kind != STORE_STEP_TIME;
}

static int keep_foreign(struct run *run, struct store_step *step, struct resource *r)
{
	AUTO_FREE char *kept = NULL;
	struct atoll_resource_result *line;
	struct atoll_item *item;
	int rc = is_entry(step) && step->kind != STORE_STEP_RETIRE ? step_keep_other(run->site, step, &kept) : 0;

	if (rc < 0)
		return error_sys(run->err, rc, "recover", step->path, "cannot set aside the other version of \"%s\"",
				 step->path);
	item = result_add(run->op->result, ATOLL_ITEM_FOREIGN, r->row.seq, step->path,
			  "was changed by somebody else meanwhile and is left as it is");
	if (!item)
		return error_oom(run->err, "recover");
	item->change = step->change;
	item->kept = TAKE_PTR(kept);
	line = result_find(run->op->result, r->row.seq);
	if (line)
		line->outcome = ATOLL_OUTCOME_ROLLBACK_FAILED;
	step->dropped = true;
	run->foreign = true;
	return 0;
}

static int report_conflict(struct run *run, const struct store_step *step, struct resource *r, bool in_use)
{
	const char *why = in_use ? "is open for writing by somebody else"
				 : "was changed by somebody else at this very moment";

	if (!result_add(run->op->result, ATOLL_ITEM_CONFLICT, r->row.seq, step->path, why))
		return error_oom(run->err, "commit");
	return error_set(run->err, ATOLL_CONFLICT, in_use ? EAGAIN : ESTALE, "commit", step->path,
			 "\"%s\" in \"%s\" %s", step->path, r->row.path, why);
}

static int move_one(struct run *run, struct store_step *step, struct resource *r)
{
	int rc;

	if (step->dropped)
		return 0;
	rc = step_move(run->site, step, run->direction, !run->tolerate);
	if (rc >= 0) {
		if ((++run->done & 0xff) == 0)
			op_progress(run->op, run->direction == FORWARD ? "applying" : "taking back", run->done,
				    run->op->n);
		return 0;
	}
	if (rc == -ESTALE && run->tolerate)
		return keep_foreign(run, step, r);
	if (rc == -ESTALE || rc == -EAGAIN)
		return report_conflict(run, step, r, rc == -EAGAIN);
	return error_sys(run->err, rc, "commit", step->path, "cannot put \"%s\" of \"%s\" in place", step->path,
			 r->row.path);
}

static int move_switch(struct run *run, struct resource *r)
{
	int rc = step_site_switch(run->site, run->direction);

	if (rc < 0)
		return error_sys(run->err, rc, "commit", r->row.path, "cannot switch the workspace of \"%s\"",
				 r->row.path);
	return 0;
}

static int move_kind(struct run *run, struct resource *r, bool (*wanted)(const struct store_step *step), bool reverse)
{
	struct op *op = run->op;

	for (size_t i = 0; i < op->n; i++) {
		struct store_step *step = &op->steps[reverse ? op->n - 1 - i : i];
		int rc;

		if (step->resource != r->row.id || !wanted(step))
			continue;
		rc = move_one(run, step, r);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool is_meta(const struct store_step *step)
{
	return step->kind == STORE_STEP_META;
}

static bool is_time(const struct store_step *step)
{
	return step->kind == STORE_STEP_TIME;
}

static int move_resource(struct run *run, struct resource *r)
{
	int rc;

	if (run->direction == FORWARD) {
		rc = move_kind(run, r, is_entry, false);
		if (rc >= 0)
			rc = move_switch(run, r);
		if (rc >= 0)
			rc = move_kind(run, r, is_meta, true);
	} else {
		rc = move_kind(run, r, is_meta, false);
		if (rc >= 0)
			rc = move_switch(run, r);
		if (rc >= 0)
			rc = move_kind(run, r, is_entry, true);
	}
	if (rc >= 0)
		rc = move_kind(run, r, is_time, false);
	if (rc >= 0) {
		rc = step_site_sync(run->site);
		if (rc < 0)
			return error_sys(run->err, rc, "commit", r->row.path, "cannot make \"%s\" durable",
					 r->row.path);
	}
	return rc;
}

static int apply_resource(struct run *run, size_t index)
{
	struct resource *r = &run->op->s->resources[index];
	int rc;

	if (!run->op->resources[index].op)
		return 0;
	run->site = step_site_new(run->op, r, run->err);
	if (!run->site)
		return -(int)run->err->code;
	rc = move_resource(run, r);
	run->site = step_site_free(run->site);
	return rc;
}

/* Each resource that could not be moved says why in its own line of the report. */
static void note_failure(struct run *run, size_t index)
{
	struct atoll_resource_result *line =
		result_resource(run->op->result, &run->op->s->resources[index].row,
				run->tolerate ? ATOLL_OUTCOME_ROLLBACK_FAILED : ATOLL_OUTCOME_NOT_ATTEMPTED);

	if (line) {
		free(line->cause);
		line->cause = strdup(run->err->message);
	}
}

int apply(struct op *op, enum direction direction, bool tolerate, bool *ret_foreign, struct atoll_error *err)
{
	struct run run = { .op = op, .direction = direction, .tolerate = tolerate, .err = err };
	struct atoll_error local;
	AUTO_FREE size_t *order = NULL;
	sigset_t before;
	int first = 0, r;

	if (!err)
		run.err = &local;
	r = session_order(op->s, &order, run.err);
	if (r < 0)
		return r;
	step_leases_begin(&before);
	for (size_t i = 0; i < op->s->n; i++) {
		size_t index = order[direction == FORWARD ? i : op->s->n - 1 - i];
		struct atoll_error saved = *run.err;

		r = apply_resource(&run, index);
		if (r < 0)
			note_failure(&run, index);
		if (r < 0 && first < 0)
			*run.err = saved; /* the first failure is the cause */
		first = first < 0 ? first : r;
		/* On the way back one that fails never stops the others. */
		if (r < 0 && !tolerate)
			break;
	}
	step_leases_end(&before);
	if (ret_foreign)
		*ret_foreign = run.foreign;
	return first;
}
