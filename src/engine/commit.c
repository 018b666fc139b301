/* SPDX-License-Identifier: Apache-2.0 */
/* Commit: from the changes to the decision, as protocol.h describes it. */
#include "engine/step.h"

#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/sys.h"
#include "engine/exclusion.h"
#include "engine/recount.h"

/* ---- gathering ---- */

/* What was asked for is no longer skipped. */
static void take_requested(struct changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		if (changes->v[i].on_request)
			changes->v[i].kind = changes->v[i].what ? ATOLL_MODIFIED : ATOLL_ADDED;
}

static int gather(struct op *op, struct atoll_error *err)
{
	op->resources = calloc(op->s->n ? op->s->n : 1, sizeof *op->resources);
	op->changes = calloc(op->s->n ? op->s->n : 1, sizeof *op->changes);
	if (!op->resources || !op->changes)
		return error_oom(err, "commit");
	for (size_t i = 0; i < op->s->n; i++) {
		op->s->resources[i].lands = !op->options->dry_run;
		op->changes[i] = strategy_changes(&op->s->resources[i], false, err);
		if (!op->changes[i])
			return -(int)MAX(err->code, ATOLL_FAILED);
		if (op->options->refs)
			take_requested(op->changes[i]);
		if (changes_find_renames(&op->s->resources[i], op->changes[i], err) < 0)
			return -(int)MAX(err->code, ATOLL_FAILED);
	}
	return selection_for(&op->options->selection, op->s, &op->selections, err);
}

/* The first change of a file at or below the path; NULL if there is none. */
static const struct change *first_below(const struct changes *c, const char *path)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (path_compare(c->v[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < c->n && path_is_below(c->v[low].path, path); low++)
		if (!c->v[low].part)
			return &c->v[low];
	return NULL;
}

/* Whether the sandbox removed or replaced the path together with a directory above it. */
static bool went_with_directory(const struct changes *c, const char *path)
{
	AUTO_FREE char *at = strdup(path);

	while (at && *at) {
		const struct change *above = changes_find(c, at);

		if (above && !above->part &&
		    (above->kind == ATOLL_DELETED || above->kind == ATOLL_TYPE || above->opaque))
			return true;
		at[path_parent_size(at)] = 0;
	}
	return false;
}

static bool has_part(const struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].part)
			return true;
	return false;
}

/* Whether a selected path stands for a change. */
static bool is_of_use(const struct op *op, size_t index, const char *path, bool whole)
{
	const struct changes *c = op->changes[index];

	return !*path || (c && (whole || first_below(c, path) || went_with_directory(c, path)));
}

/* A selected path without a change is the caller's mistake, not an empty commit. */
static int check_selected(const struct op *op, size_t index, struct atoll_error *err)
{
	const struct selection *v = &op->selections[index];
	bool whole = v->n > 0 && op->changes[index] && part_is_selected(&op->s->resources[index], v) &&
		     has_part(op->changes[index]);

	for (size_t k = 0; k < v->n; k++)
		if (!is_of_use(op, index, v->paths[k], whole))
			return error_set(err, ATOLL_NOT_FOUND, 0, "commit", v->given[k],
					 "\"%s\" has no changes in the sandbox \"%s\"", v->given[k], op->s->box.name);
	return 0;
}

static int check_selection(struct op *op, struct atoll_error *err)
{
	int r = selection_check(op->selections, op->s, op->changes, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		r = check_selected(op, i, err);
	return r < 0 || !op->selections ? r
					: selection_check_patterns(op->selections, op->s, op->changes, "commit", err);
}

static int skip_idle(struct op *op, struct atoll_error *err)
{
	bool ours = op->options->on_conflict == ATOLL_ON_CONFLICT_OURS;
	int r = 0;

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		r = plan_skip_idle(op->changes[i], &op->selections[i], ours);
	return r < 0 ? error_oom(err, "commit") : 0;
}

static bool is_selected(const struct op *op, size_t index, const struct change *c)
{
	const struct selection *v = &op->selections[index];

	return c->part ? part_is_selected(&op->s->resources[index], v) : selection_has(v, c->path);
}

static int list_change(struct op *op, struct atoll_resource_result *res, const struct change *c,
		       enum atoll_change_kind kind)
{
	AUTO_FREE char *note = c->old_path ? str_format("renamed from \"%s\"", c->old_path) : NULL;
	struct atoll_item *item;

	result_count(res, kind);
	if (kind == ATOLL_SKIPPED || op->options->dry_run)
		return 0;
	item = result_add(op->result, ATOLL_ITEM_CHANGE, res->seq, c->path, note);
	if (!item)
		return -ENOMEM;
	item->change = kind;
	return 0;
}

static int list_of_resource(struct op *op, size_t index, struct atoll_resource_result *res)
{
	const struct changes *changes = op->changes[index];
	enum atoll_change_kind kind;
	struct recount recount;
	int r = 0;

	recount_begin(&recount, &op->s->resources[index], changes);
	for (size_t k = 0; k < changes->n && r >= 0; k++)
		if (is_selected(op, index, &changes->v[k]) && recount_change(&recount, &changes->v[k], &kind))
			r = list_change(op, res, &changes->v[k], kind);
	recount_end(&recount);
	op->row.added += res->added;
	op->row.modified += res->modified;
	op->row.deleted += res->deleted;
	op->row.meta += res->meta;
	return r;
}

/* Lists what is selected, and fills the counts of each resource and of the op. */
static int list_changes(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		const struct resource *r = &op->s->resources[i];
		struct atoll_resource_result *res = result_resource(op->result, &r->row,
								    resource_isolates(r) ? ATOLL_OUTCOME_NOT_ATTEMPTED
											 : ATOLL_OUTCOME_NOT_ISOLATED);

		if (!res || list_of_resource(op, i, res) < 0)
			return error_oom(err, "commit");
	}
	return 0;
}

static int list_steps(struct op *op, struct atoll_error *err)
{
	static const char *const names[STORE_STEP_KIND_COUNT] = {
		[STORE_STEP_RETIRE] = "take from the workspace",
		[STORE_STEP_EXCHANGE] = "exchange",
		[STORE_STEP_INSTALL] = "install",
		[STORE_STEP_TAKE] = "remove, keeping it for undo",
		[STORE_STEP_META] = "set mode, owner or attributes",
		[STORE_STEP_TIME] = "set times",
		[STORE_STEP_PART] = "land as a whole",
	};

	for (size_t i = 0; i < op->n; i++) {
		struct resource *r = session_resource(op->s, op->steps[i].resource);
		struct atoll_item *item = result_add(op->result, ATOLL_ITEM_STEP, r->row.seq, op->steps[i].path,
						     names[op->steps[i].kind]);

		if (!item)
			return error_oom(err, "commit");
		item->change = op->steps[i].change;
	}
	return 0;
}

/* ---- the journal ---- */

/* On record with the plan: recovery, which may have to make the decision, knows no selection. */
static bool stays_active(const struct op *op, size_t index)
{
	const struct changes *changes = op->changes[index];

	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = &changes->v[i];

		if (c->content)
			return true;
		if (is_selected(op, index, c))
			continue;
		/* A part that stays inside, even what no commit lands of it, keeps the workspace as it is. */
		if (c->part || (!c->implied && c->kind != ATOLL_SKIPPED))
			return true;
	}
	return false;
}

/* Stores the counts of each resource, so that an undo, also of some resources only, reports the
 * same numbers. */
static void keep_counts(struct op *op, size_t index)
{
	const struct atoll_resource_result *res = result_find(op->result, op->s->resources[index].row.seq);

	op->resources[index].counted = res;
	if (res)
		op->resources[index].counts =
			(struct store_counts){ res->added, res->modified, res->deleted, res->meta };
}

static int write_plan(struct op *op, struct atoll_error *err)
{
	int r = store_begin(op->s->store, true, err);

	op->row.phase = STORE_PREPARED;
	if (r >= 0)
		r = store_op_add(op->s->store, &op->row, err);
	for (size_t i = 0; i < op->s->n && r >= 0; i++) {
		if (!op->resources[i].op)
			continue;
		op->resources[i].op = op->row.id;
		op->resources[i].stays_active = stays_active(op, i);
		keep_counts(op, i);
		r = store_op_resource_put(op->s->store, &op->resources[i], err);
	}
	if (r >= 0)
		r = store_steps_put(op->s->store, op->row.id, op->steps, op->n, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

static int name_op(struct op *op, struct atoll_error *err)
{
	unsigned char unique[8];

	random_bytes(unique, sizeof unique);
	op->row.dir = str_format("op-%02x%02x%02x%02x%02x%02x%02x%02x", unique[0], unique[1], unique[2], unique[3],
				 unique[4], unique[5], unique[6], unique[7]);
	op->row.message = op->options->message ? strdup(op->options->message) : NULL;
	if (!op->row.dir || (op->options->message && !op->row.message))
		return error_oom(err, "commit");
	op->row.sandbox = op->s->box.id;
	op->row.kind = STORE_OP_COMMIT;
	op->row.started_ns = clock_realtime_ns();
	return 0;
}

/* Nothing is on record: nothing is left. */
static void remove_staged(struct op *op)
{
	struct atoll_error ignored;

	(void)part_end_all(op, &ignored);
	(void)decide_end(op, false, &ignored);
	for (size_t i = 0; i < op->s->n; i++)
		if (op->resources[i].op)
			op_remove_dirs(op, &op->s->resources[i]);
}

/* ---- after PREPARED ---- */

/* Takes back what was applied and keeps the cause. What cannot be taken back now stays PREPARED, for recovery. */
static int take_back(struct op *op, int cause, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	bool left = false;
	int r = apply(op, BACKWARD, true, &left, &why);

	op_set_outcomes(op, ATOLL_OUTCOME_ROLLED_BACK);
	if (r >= 0)
		r = finish_failed(op, &why);
	if (r < 0)
		return error_set(err, ATOLL_IN_DOUBT, why.sys_errno, "commit", op->s->box.name,
				 "the commit of \"%s\" failed and could not be taken back (%s); run atoll recover",
				 op->s->box.name, why.message);
	/* What was left is theirs, and named; nothing remains to be done. */
	if (left || op->contradicted)
		return error_set(err, ATOLL_IN_DOUBT, 0, "commit", op->s->box.name,
				 "the commit of \"%s\" was taken back, but for %s that somebody else changed meanwhile",
				 op->s->box.name, left ? "paths" : "a database");
	return cause;
}

/* -ATOLL_IN_DOUBT: there is no way back from here, and perhaps none forward just now. */
static int decide(struct op *op, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int r = decide_commit(op, err);

	if (r == -ATOLL_IN_DOUBT)
		op_set_outcomes(op, ATOLL_OUTCOME_ROLLBACK_FAILED);
	if (r < 0)
		return r;
	r = finish_decide_commit(op, &why);
	if (r < 0 && op->decider) {
		op_set_outcomes(op, ATOLL_OUTCOME_COMMITTED);
		(void)vote_end_all(op, true, NULL);
		return error_set(
			err, ATOLL_IN_DOUBT, why.sys_errno, "commit", op->s->box.name,
			"everything of \"%s\" has landed, but that could not be recorded (%s); run atoll recover",
			op->s->box.name, why.message);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

/* Everything has landed and is durable, except in a database that voted and was not told. What fails here is repeated by the next
 * command; until then the op is unfinished, and a flush that failed must not be reported as success. */
static int finish(struct op *op, struct atoll_error *err)
{
	struct atoll_error later = { 0 };

	op_set_outcomes(op, ATOLL_OUTCOME_COMMITTED);
	op->result->commit = op->row.number;
	if (finish_commit(op, &later) < 0) {
		if (op->untold)
			return error_set(err, ATOLL_IN_DOUBT, later.sys_errno, "commit", op->s->box.name,
					 "the commit of \"%s\" is decided, but %s", op->s->box.name, later.message);
		return error_set(err, ATOLL_IN_DOUBT, later.sys_errno, "commit", op->s->box.name,
				 "the commit of \"%s\" has landed, but could not be finished (%s); run atoll recover",
				 op->s->box.name, later.message);
	}
	if (op->contradicted)
		return error_set(err, ATOLL_IN_DOUBT, 0, "commit", op->s->box.name,
				 "the commit of \"%s\" has landed, but for a database that somebody else rolled back",
				 op->s->box.name);
	return 0;
}

static int land(struct op *op, struct atoll_error *err)
{
	int r;

	sys_fault_mark("apply");
	r = apply(op, FORWARD, false, NULL, err);
	if (r >= 0) {
		sys_fault_mark("decide");
		r = decide(op, err);
	}
	if (r == -ATOLL_IN_DOUBT)
		return r;
	if (r < 0 && store_is_in_doubt(op->s->store)) {
		op_set_outcomes(op, ATOLL_OUTCOME_ROLLBACK_FAILED);
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "commit", op->s->box.name,
			"whether the commit of \"%s\" was decided cannot be told, the state database failed; run atoll recover",
			op->s->box.name);
	}
	if (r < 0)
		return take_back(op, r, err);
	sys_fault_mark("finish");
	return finish(op, err);
}

static int stage_and_land(struct op *op, struct atoll_error *err)
{
	int r;

	sys_fault_mark("stage");
	r = stage_all(op, err);
	if (r >= 0)
		r = part_prepare_all(op, err);
	/* One flush for what was staged and what the parts have written. */
	if (r >= 0)
		r = stage_flush_all(op, err);
	if (r >= 0)
		r = part_prepared_all(op, err);
	if (r >= 0)
		r = decide_prepare(op, err);
	/* Last, so that nobody is kept from writing for long. */
	if (r >= 0)
		r = conflict_check_use(op, err);
	if (r >= 0) {
		sys_fault_mark("journal");
		r = write_plan(op, err);
	}
	if (r < 0) {
		if (!store_is_in_doubt(op->s->store))
			remove_staged(op);
		return r;
	}
	return land(op, err);
}

static int check_dry(struct op *op, struct atoll_error *err)
{
	int r = part_prepare_all(op, err);

	if (r >= 0)
		r = decide_prepare(op, err);
	return r < 0 ? r : conflict_check_use(op, err);
}

static int commit_planned(struct op *op, struct atoll_error *err)
{
	sigset_t before;
	int r = op->options->dry_run ? 0 : name_op(op, err);

	if (r < 0)
		return r;
	step_leases_begin(&before);
	if (!op->options->dry_run)
		r = stage_and_land(op, err);
	else
		r = check_dry(op, err);
	op_release_held(op);
	step_leases_end(&before);
	return r < 0 || !op->options->dry_run ? r : list_steps(op, err);
}

/* A dry run changes nothing, the sandbox neither. */
static int merge_others(struct op *op, struct atoll_error *err)
{
	int r = 0;

	if (op->options->on_conflict != ATOLL_ON_CONFLICT_MERGE || op->options->dry_run)
		return 0;
	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (op->s->resources[i].ops->merge)
			r = op->s->resources[i].ops->merge(&op->s->resources[i], op->options->message, err);
	return r;
}

/* There is no commit: what was listed is on both sides already, as where both have removed it, or stays inside. */
static void count_nothing(struct atoll_result *result)
{
	for (size_t i = 0; i < result->n_resources; i++) {
		struct atoll_resource_result *r = &result->resources[i];

		r->added = r->modified = r->deleted = r->meta = 0;
	}
}

/* A database of which commands have only read holds a transaction all the same, and its locks. */
static void end_unchanged(struct op *op)
{
	for (size_t i = 0; i < op->s->n && !op->options->dry_run; i++) {
		struct resource *r = &op->s->resources[i];

		if (r->ops->unchanged && part_is_selected(r, &op->selections[i]) &&
		    !part_is_changed(op->changes[i], false))
			r->ops->unchanged(r);
	}
}

static int commit_session(struct op *op, struct atoll_error *err)
{
	/* A dry run changes nothing, and may see a commit of another sandbox half-way, as any reader may. */
	int r = op->options->dry_run ? 0 : exclusion_take(op->s, op->options->wait_ms, op->result, err);

	if (r >= 0)
		r = merge_others(op, err);
	if (r >= 0)
		r = gather(op, err);
	if (r >= 0)
		r = check_selection(op, err);
	if (r >= 0)
		r = skip_idle(op, err);
	if (r >= 0)
		r = content_assign(op, err);
	if (r >= 0)
		r = list_changes(op, err);
	if (r >= 0)
		r = plan_make(op, err);
	if (r >= 0)
		r = decide_plan(op, err);
	if (r >= 0)
		r = check_plan(op, err);
	if (r >= 0)
		r = conflict_check(op, err);
	if (r < 0)
		return r;
	if (op->n == 0 && !op->decider) {
		op_set_outcomes(op, ATOLL_OUTCOME_UNCHANGED);
		count_nothing(op->result);
	} else {
		r = commit_planned(op, err);
	}
	if (r >= 0)
		end_unchanged(op);
	return r;
}

/* ---- the public call ---- */

static int commit_work(struct operation *o, struct atoll_error *err)
{
	const struct atoll_commit_options *options = o->options;
	struct session s = { .lock_fd = -EBADF };
	struct op op = { .s = &s,
			 .options = options,
			 .telling = PTHREAD_MUTEX_INITIALIZER,
			 .progress = options->progress,
			 .progress_arg = options->progress_arg };
	int r;

	o->result = result_new("commit", o->name);
	if (!o->result)
		return error_oom(err, "commit");
	o->result->message = options->message ? strdup(options->message) : NULL;
	o->result->dry_run = options->dry_run;
	op.result = o->result;
	r = session_open(o->a, o->name, LOCK_CHANGE, options->wait_ms, &s, err);
	if (r >= 0) {
		free(o->result->sandbox);
		o->result->sandbox = strdup(s.box.name);
		r = commit_session(&op, err);
		op_release(&op);
	}
	session_release(&s);
	result_sort(o->result);
	return result_finish(o->result, r, err);
}

int atoll_commit(struct atoll *a, const char *name, const struct atoll_commit_options *options,
		 struct atoll_result **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	static const struct atoll_commit_options none;
	struct operation op = { .a = a, .name = name, .options = options ? options : &none, .fn = commit_work };

	if (!a)
		return error_set(err, ATOLL_INVALID, 0, "commit", NULL, "no handle was given");
	return operation_run(&op, ret, err);
}
