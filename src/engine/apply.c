/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving all steps of an op to one side. Forward: entries in the order of the plan, then the workspace layer, then metadata, then
 * times. Backward: metadata, the layer, entries in reverse, then times. Ends with a sync of every directory touched.
 *
 * An operation in progress stops at the first step that fails, and is taken back. The way back and recovery do not stop: one step that
 * cannot be moved (another process has made its directory read-only) must not leave all others half-way. Only steps that depend on it wait
 * for the next recovery.
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
	bool left; /* something was left as it is, and reported */
	size_t done;
	struct store_step **by_path; /* of the resource, sorted; made when the first step is stuck */
	size_t n_by_path;
	size_t stuck;             /* steps of the resource that could not be moved */
	struct atoll_error first; /* why the first of them could not */
	struct atoll_error *err;
};

static bool is_entry(const struct store_step *step)
{
	return step->kind != STORE_STEP_META && step->kind != STORE_STEP_TIME;
}

/* The step is settled by leaving things as they are. Takes `kept`. */
static int leave(struct run *run, struct store_step *step, struct resource *r, enum atoll_item_kind kind,
		 const char *note, char *kept)
{
	struct atoll_item *item = result_add(run->op->result, kind, r->row.seq, step->path, note);
	struct atoll_resource_result *line;

	if (!item) {
		free(kept);
		return error_oom(run->err, "recover");
	}
	item->change = step->change;
	item->kept = kept;
	line = result_resource(run->op->result, &r->row, ATOLL_OUTCOME_ROLLBACK_FAILED);
	if (!line)
		return error_oom(run->err, "recover");
	/* Why it was to be taken back is told by the error; why it is not wholly back, by this item. */
	free(line->cause);
	line->cause = NULL;
	step->dropped = !part_is_undo_record(run->op, step);
	run->left = true;
	return 0;
}

static int cannot_keep(struct run *run, const struct store_step *step, int rc)
{
	return error_sys(run->err, rc, "recover", step->path, "cannot set aside the other version of \"%s\"",
			 step->path);
}

static int keep_foreign(struct run *run, struct store_step *step, struct resource *r)
{
	char *kept = NULL;
	int rc = is_entry(step) && step->kind != STORE_STEP_RETIRE ? step_keep_other(run->site, step, &kept) : 0;

	if (rc < 0)
		return cannot_keep(run, step, rc);
	if (is_entry(step) && step->kind != STORE_STEP_PART && step_has_no_place(run->site, step))
		return leave(run, step, r, ATOLL_ITEM_FOREIGN,
			     kept ? "has no place to go to: another process has removed or replaced its directory"
				  : "is left as it is: another process has removed or replaced its directory",
			     kept);
	return leave(run, step, r, ATOLL_ITEM_FOREIGN, "was changed by somebody else meanwhile and is left as it is",
		     kept);
}

static int keep_lost(struct run *run, struct store_step *step, struct resource *r)
{
	char *kept = NULL;
	int rc = step_set_aside(run->site, step, run->direction, &kept);

	if (rc < 0)
		return cannot_keep(run, step, rc);
	run->op->lost = true;
	return leave(run, step, r, ATOLL_ITEM_LOST,
		     kept ? "was taken out again, but its place in the sandbox was removed by somebody"
			  : "is left as it is: somebody has removed the other version from Atoll's area",
		     kept);
}

static int report_conflict(struct run *run, const struct store_step *step, struct resource *r, bool in_use)
{
	bool part = step->kind == STORE_STEP_PART;
	enum atoll_code code = in_use && part ? ATOLL_BUSY : ATOLL_CONFLICT;
	bool told = part && run->site->why.code == code && *run->site->why.message;
	const char *why = told     ? run->site->why.message
			  : in_use ? part ? "is in use by somebody else" : "is open for writing by somebody else"
				   : "was changed by somebody else at this very moment";

	if (!result_add(run->op->result, in_use && part ? ATOLL_ITEM_BUSY : ATOLL_ITEM_CONFLICT, r->row.seq, step->path,
			why))
		return error_oom(run->err, "commit");
	return error_set(run->err, code, in_use ? EAGAIN : ESTALE, "commit", step->path,
			 told ? "\"%s\" in \"%s\": %s" : "\"%s\" in \"%s\" %s", step->path, r->row.path, why);
}

static int move_one(struct run *run, struct store_step *step, struct resource *r)
{
	int rc;

	if (step->dropped || (run->tolerate && part_is_unmoved(run->op, step)))
		return 0;
	rc = step_move(run->site, step, run->direction, !run->tolerate);
	step->contested |= rc == -ESTALE && run->direction == FORWARD;
	if (rc >= 0) {
		if ((++run->done & 0xff) == 0)
			op_progress(run->op, run->direction == FORWARD ? "applying" : "taking back", run->done,
				    run->op->n);
		return 0;
	}
	if (rc == -ESTALE && run->tolerate)
		return keep_foreign(run, step, r);
	if (rc == -ENODATA && run->tolerate)
		return keep_lost(run, step, r);
	if (rc == -ESTALE || rc == -EAGAIN)
		return report_conflict(run, step, r, rc == -EAGAIN);
	if (step->kind == STORE_STEP_PART && run->site->why.code) {
		*run->err = run->site->why;
		return -(int)run->err->code;
	}
	return error_sys(run->err, rc, "commit", step->path, "cannot put \"%s\" of \"%s\" in place",
			 *step->path ? step->path : ".", r->row.path);
}

static int move_switch(struct run *run, struct resource *r)
{
	int rc = step_site_switch(run->site, run->direction);

	if (rc < 0)
		return error_sys(run->err, rc, "commit", r->row.path, "cannot switch the workspace of \"%s\"",
				 r->row.path);
	return 0;
}

/* ---- steps that are stuck ---- */

static int compare_paths(const void *a, const void *b)
{
	return strcmp((*(struct store_step *const *)a)->path, (*(struct store_step *const *)b)->path);
}

static int sort_by_path(struct run *run, const struct resource *r)
{
	struct op *op = run->op;

	if (run->by_path)
		return 0;
	run->by_path = reallocarray(NULL, op->n, sizeof *run->by_path);
	if (!run->by_path)
		return error_oom(run->err, "recover");
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id)
			run->by_path[run->n_by_path++] = &op->steps[i];
	qsort(run->by_path, run->n_by_path, sizeof *run->by_path, compare_paths);
	return 0;
}

/* Marks the steps at a path; prefix: those of which the path begins with it. */
static void mark_stuck(struct run *run, const char *path, bool prefix)
{
	size_t low = 0, high = run->n_by_path, size = strlen(path);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(run->by_path[middle]->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < run->n_by_path && strncmp(run->by_path[low]->path, path, size) == 0 &&
	       (prefix || !run->by_path[low]->path[size]);
	     low++)
		run->by_path[low]->stuck = true;
}

/* Steps at the same path, above and below are moved in their order, or an entry ends in another one's place. Metadata and times depend on
 * nothing. */
static int hold_dependents(struct run *run, const struct resource *r, const struct store_step *step)
{
	AUTO_FREE char *path = str_format("%s/", step->path);
	int rc = path ? sort_by_path(run, r) : error_oom(run->err, "recover");

	if (rc < 0)
		return rc;
	mark_stuck(run, path, true);
	for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
		*slash = 0;
		mark_stuck(run, path, false);
	}
	return 0;
}

/* Whether the other steps of the resource may be moved all the same: 0, or the failure. What is no file is the strategy's, and comes first on the
 * way back: the files wait for it. */
static int pass_over(struct run *run, const struct resource *r, const struct store_step *step, int rc)
{
	struct atoll_error why = *run->err;

	if (!run->tolerate || step->kind == STORE_STEP_PART)
		return rc;
	if (is_entry(step) && hold_dependents(run, r, step) < 0)
		return -(int)run->err->code;
	if (!run->stuck++)
		run->first = why;
	return 0;
}

static int tell_stuck(struct run *run, const struct resource *r)
{
	AUTO_FREE char *more = run->stuck > 1 ? str_format(" (and %zu more)", run->stuck - 1) : strdup("");

	if (!run->stuck)
		return 0;
	return error_set(run->err, run->first.code, run->first.sys_errno, "recover", r->row.path,
			 "%s%s; everything else is settled: remove the cause and recover again", run->first.message,
			 more ? more : "");
}

static int move_kind(struct run *run, struct resource *r, bool (*wanted)(const struct store_step *step), bool reverse)
{
	struct op *op = run->op;

	for (size_t i = 0; i < op->n; i++) {
		struct store_step *step = &op->steps[reverse ? op->n - 1 - i : i];
		int rc;

		if (step->resource != r->row.id || !wanted(step) || step->stuck)
			continue;
		rc = move_one(run, step, r);
		if (rc < 0)
			rc = pass_over(run, r, step, rc);
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
		/* The next recovery flushes all of it. */
		if (rc < 0 && run->stuck)
			rc = 0;
		if (rc < 0)
			return error_sys(run->err, rc, "commit", r->row.path, "cannot make \"%s\" durable",
					 r->row.path);
	}
	return rc < 0 ? rc : tell_stuck(run, r);
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
	run->stuck = run->n_by_path = 0;
	rc = move_resource(run, r);
	free(run->by_path);
	run->by_path = NULL;
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

int apply(struct op *op, enum direction direction, bool tolerate, bool *ret_left, struct atoll_error *err)
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
	if (ret_left)
		*ret_left = run.left;
	return first;
}
