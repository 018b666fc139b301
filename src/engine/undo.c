/* SPDX-License-Identifier: Apache-2.0 */
/* Undo takes the latest commit back and keeps its edits. A rollback of a commit does the same, and then drops them (rollback.c). */
#include "engine/step.h"

#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/exclusion.h"

int undo_find_latest(struct session *s, struct store_op *ret, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	size_t n = 0;
	int r = store_op_list(s->store, s->box.id, &ops, &n, err);

	if (r < 0)
		return r;
	r = error_set(err, ATOLL_NOT_FOUND, 0, "undo", s->box.name, "the sandbox \"%s\" has no commit to take back",
		      s->box.name);
	for (size_t i = 0; i < n; i++)
		if (ops[i].kind == STORE_OP_COMMIT && ops[i].phase == STORE_DONE && !ops[i].taken_back) {
			*ret = ops[i];
			ops[i] = (struct store_op){ 0 };
			r = 0;
			break;
		}
	store_ops_free(ops, n);
	return r;
}

static bool is_another(int dir_fd, const char *name, const struct tree_id *then)
{
	struct tree_stat st;
	struct tree_id id;

	return tree_stat(dir_fd, name, &st) >= 0 && tree_identify(dir_fd, name, &st, &id) >= 0 &&
	       !tree_id_equal(&id, then);
}

/* Whether a copy has taken the place of the workspace's layer, or of an entry that the commit
 * removed. Undo recognises both by inode, and would take the wrong layer for the one with the
 * edits. */
static bool is_copied(const struct op *op, size_t index)
{
	const struct resource *r = &op->s->resources[index];
	AUTO_FD dir = op_dir(op, r, true);

	if (op->resources[index].switches &&
	    is_another(r->work_fd, resource_workspace_name(r), &op->resources[index].fresh))
		return true;
	/* All removed entries were copied together, so the first one tells. */
	for (size_t i = 0; dir >= 0 && i < op->n; i++) {
		const struct store_step *step = &op->steps[i];

		if (step->kind == STORE_STEP_TAKE && step->resource == r->row.id && !step->dropped && step->slot)
			return is_another(dir, step->slot, &step->before.id);
	}
	return false;
}

static int check_undo_data(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		AUTO_FD fd = op->resources[i].op ? op_dir(op, &op->s->resources[i], true) : -EBADF;

		if (op->resources[i].op && fd < 0)
			return error_set(err, ATOLL_STATE, -fd, "undo", op->s->resources[i].row.path,
					 "the undo data of \"%s\" is gone from \"%s\"; the commit cannot be taken back",
					 op->s->resources[i].row.path, op->s->resources[i].row.stage);
		if (op->resources[i].op && is_copied(op, i))
			return error_set(err, ATOLL_STATE, 0, "undo", op->s->resources[i].row.path,
					 "the undo data of \"%s\" was copied or restored since, with its state "
					 "directory; the commit cannot be taken back",
					 op->s->resources[i].row.path);
	}
	return 0;
}

/* ---- some of the resources alone ---- */

static bool is_named(const struct resource *r, const char *name)
{
	AUTO_FREE char *real = realpath(name, NULL);
	char number[16];

	snprintf(number, sizeof number, "%d", r->row.seq);
	return strcmp(name, number) == 0 || strcmp(name, r->row.path) == 0 || (real && strcmp(real, r->row.path) == 0);
}

static bool is_wanted(const struct resource *r, const struct atoll_undo_options *options)
{
	for (size_t i = 0; i < options->n_only; i++)
		if (is_named(r, options->only[i]))
			return true;
	return options->n_only == 0;
}

static int check_names(struct op *op, const struct atoll_undo_options *options, struct atoll_error *err)
{
	for (size_t k = 0; k < options->n_only; k++) {
		bool found = false;

		for (size_t i = 0; i < op->s->n; i++)
			found |= op->resources[i].op && is_named(&op->s->resources[i], options->only[k]);
		if (!found)
			return error_set(
				err, ATOLL_NOT_FOUND, 0, "undo", options->only[k],
				"\"%s\" is no resource that had a part in the commit; atoll show %s lists them",
				options->only[k], op->s->box.name);
	}
	return 0;
}

/* The others have no part in this op. That they stay for good is on record with the decision. */
static int leave_others(struct op *op, const struct atoll_undo_options *options, struct atoll_error *err)
{
	int r = check_names(op, options, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++) {
		struct resource *res = &op->s->resources[i];
		const char *path;

		if (!op->resources[i].op || is_wanted(res, options))
			continue;
		op->resources[i].op = 0;
		/* Paths of a file resource are relative to the directory that holds the file. */
		path = res->row.kind == ATOLL_KIND_FILE ? res->only : "";
		if (!result_add(op->result, ATOLL_ITEM_NOTE, res->row.seq, path, "stays committed: it was not named"))
			return error_oom(err, "undo");
	}
	return r;
}

static int record(struct op *op, struct atoll_error *err)
{
	int r = store_begin(op->s->store, true, err);

	if (r >= 0)
		r = store_op_add(op->s->store, &op->row, err);
	if (r >= 0 && op->revised)
		r = store_steps_forget(op->s->store, op->row.commit_op, err);
	if (r >= 0 && op->revised)
		r = store_steps_put(op->s->store, op->row.commit_op, op->steps, op->n, err);
	if (r >= 0)
		r = store_commit(op->s->store, err);
	store_abort(op->s->store);
	return r;
}

/* An undo that failed half-way: the commit stands again. */
static int put_back(struct op *op, int cause, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	bool left = false;
	int r = apply(op, FORWARD, true, &left, &why);

	if (r >= 0)
		r = finish_failed(op, &why);
	op_set_outcomes(op, ATOLL_OUTCOME_NOT_ATTEMPTED);
	if (r < 0)
		return error_set(err, ATOLL_IN_DOUBT, why.sys_errno, "undo", op->s->box.name,
				 "the undo of \"%s\" failed and is incomplete (%s); run atoll recover", op->s->box.name,
				 why.message);
	if (left)
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "undo", op->s->box.name,
			"the undo of \"%s\" failed; the commit stands, but for paths that somebody else changed meanwhile",
			op->s->box.name);
	return cause;
}

static int list_returned(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->n; i++) {
		const struct store_step *step = &op->steps[i];
		struct resource *r = session_resource(op->s, step->resource);
		struct atoll_item *item;

		if (step->kind == STORE_STEP_RETIRE || step->kind == STORE_STEP_TIME ||
		    !op_resource(op, step->resource)->op)
			continue;
		item = result_add(op->result, ATOLL_ITEM_CHANGE, r->row.seq, step->path, NULL);
		if (!item)
			return error_oom(err, "undo");
		item->change = step->change;
		result_count(result_find(op->result, r->row.seq), step->change);
	}
	return 0;
}

static void set_counts(struct atoll_resource_result *res, const struct store_counts *counts)
{
	res->added = counts->added;
	res->modified = counts->modified;
	res->deleted = counts->deleted;
	res->meta = counts->meta;
}

/* Takes the commit's own counts for each resource that is undone, since a step stands for
 * everything below it. A commit of an older version recorded only the sum, which is exact if it had
 * one resource; if it had several, count the steps. */
static void count_returned(struct op *op)
{
	const struct store_counts all = { op->row.added, op->row.modified, op->row.deleted, op->row.meta };
	struct store_counts sum = { 0 };
	bool counted = true;

	for (size_t i = 0; i < op->s->n; i++) {
		const struct store_op_resource *how = &op->resources[i];

		if (!how->op)
			continue;
		counted &= how->counted;
		if (how->counted || op->s->n == 1)
			set_counts(result_find(op->result, op->s->resources[i].row.seq),
				   how->counted ? &how->counts : &all);
		sum.added += how->counts.added;
		sum.modified += how->counts.modified;
		sum.deleted += how->counts.deleted;
		sum.meta += how->counts.meta;
	}
	if (!counted)
		return;
	op->row.added = sum.added;
	op->row.modified = sum.modified;
	op->row.deleted = sum.deleted;
	op->row.meta = sum.meta;
}

static int check_reversible(struct op *op, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < op->s->n; i++) {
		const struct resource *res = &op->s->resources[i];

		if (!op->resources[i].op || resource_can_undo(res))
			continue;
		result_resource(op->result, &res->row, ATOLL_OUTCOME_IRREVERSIBLE);
		if (r == 0)
			r = error_set(
				err, ATOLL_UNSUPPORTED, 0, "undo", res->row.path,
				"the commit cannot be taken back: what landed in \"%s\" by %s is irreversible; --only takes back the others",
				res->row.path, res->ops->name);
	}
	return r;
}

static int check(struct op *op, const struct atoll_undo_options *options, struct atoll_error *err)
{
	int r = leave_others(op, options, err);

	if (r >= 0)
		r = check_reversible(op, err);
	if (r >= 0)
		r = check_undo_data(op, err);
	return r < 0 ? r : check_undo(op, err);
}

/* Under the locks that others know, so that what is checked stays so until it is taken back. */
static int lock_and_record(struct op *op, struct atoll_error *err)
{
	struct atoll_error ignored;
	int r = part_lock_all(op, err);

	if (r >= 0)
		r = conflict_check_undo(op, err);
	if (r >= 0)
		r = list_returned(op, err);
	if (r >= 0)
		count_returned(op);
	if (r >= 0)
		r = record(op, err);
	if (r < 0 && !store_is_in_doubt(op->s->store))
		(void)part_drop_left(op->s, &ignored);
	return r;
}

static bool returns_directory(const struct op *op, const struct resource *r)
{
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id && S_ISDIR(op->steps[i].before.mode) &&
		    (op->steps[i].kind == STORE_STEP_EXCHANGE || op->steps[i].kind == STORE_STEP_TAKE))
			return true;
	return false;
}

/* What is below a directory that comes back is judged by this moment: rebase_paths(). */
static int note_beginning(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		const struct resource *r = &op->s->resources[i];
		int rc = op->resources[i].op && returns_directory(op, r)
				 ? tree_stamp(r->stage_fd, &op->resources[i].undo_began)
				 : 0;

		if (rc < 0)
			return error_sys(err, rc, "undo", r->row.path,
					 "cannot take the time on the filesystem of \"%s\"", r->row.path);
	}
	return 0;
}

static int run_undo(struct op *op, const struct atoll_undo_options *options, struct atoll_error *err)
{
	struct atoll_error later = { 0 };
	int r = check(op, options, err);

	if (r >= 0)
		r = note_beginning(op, err);

	if (r >= 0)
		r = lock_and_record(op, err);
	if (r < 0)
		return r;
	sys_fault_mark("apply");
	r = apply(op, BACKWARD, false, NULL, err);
	if (r >= 0) {
		sys_fault_mark("decide");
		r = finish_decide_undo(op, err);
	}
	if (r < 0 && store_is_in_doubt(op->s->store)) {
		op_set_outcomes(op, ATOLL_OUTCOME_ROLLBACK_FAILED);
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "undo", op->s->box.name,
			"whether the undo of \"%s\" was decided cannot be told, the state database failed; run atoll recover",
			op->s->box.name);
	}
	if (r < 0)
		return put_back(op, r, err);
	sys_fault_mark("finish");
	op_set_outcomes(op, ATOLL_OUTCOME_ROLLED_BACK);
	op->result->commit = op->row.number;
	if (finish_undo(op, &later) < 0)
		return error_set(
			err, ATOLL_IN_DOUBT, later.sys_errno, "undo", op->s->box.name,
			"the commit of \"%s\" is taken back, but the workspace could not be put in order (%s); run atoll recover",
			op->s->box.name, later.message);
	return 0;
}

int undo_latest(struct session *s, bool rollback, const struct atoll_undo_options *options, struct atoll_result *result,
		struct atoll_error *err)
{
	struct store_op commit = { 0 };
	struct op op = { 0 };
	int r = exclusion_take(s, options->wait_ms, result, err);

	if (r >= 0)
		r = undo_find_latest(s, &commit, err);
	if (r < 0)
		return r;
	r = op_load(s, &commit, &op, err);
	if (r >= 0) {
		sigset_t before;

		op.result = result;
		op.progress = options->progress;
		op.progress_arg = options->progress_arg;
		op.row.kind = STORE_OP_UNDO;
		op.row.commit_op = commit.id;
		op.row.phase = STORE_PREPARED;
		op.row.rollback = rollback;
		op.row.started_ns = clock_realtime_ns();
		op.row.ended_ns = 0;
		step_leases_begin(&before);
		r = run_undo(&op, options, err);
		op_release_held(&op);
		step_leases_end(&before);
		op_release(&op);
	}
	store_op_release(&commit);
	return r;
}

/* ---- the public calls ---- */

int undo_open(struct operation *o, const char *name, const struct atoll_undo_options *options, struct session *s,
	      struct atoll_error *err)
{
	int r;

	o->result = result_new(name, o->name);
	if (!o->result)
		return error_oom(err, name);
	r = session_open(o->a, o->name, LOCK_CHANGE, options->wait_ms, s, err);
	if (r >= 0)
		r = boot_renew(s, err);
	if (r < 0)
		return r;
	free(o->result->sandbox);
	o->result->sandbox = strdup(s->box.name);
	for (size_t i = 0; i < s->n; i++)
		if (!result_resource(o->result, &s->resources[i].row, ATOLL_OUTCOME_NOT_ATTEMPTED))
			return error_oom(err, name);
	return 0;
}

static int undo_work(struct operation *o, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	int r = undo_open(o, "undo", o->options, &s, err);

	if (r >= 0)
		r = undo_latest(&s, false, o->options, o->result, err);
	session_release(&s);
	if (!o->result)
		return r;
	result_sort(o->result);
	return result_finish(o->result, r, err);
}

int atoll_undo(struct atoll *a, const char *name, const struct atoll_undo_options *options, struct atoll_result **ret,
	       struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	static const struct atoll_undo_options none;
	struct operation op = { .a = a, .name = name, .options = options ? options : &none, .fn = undo_work };

	if (!a)
		return error_set(err, ATOLL_INVALID, 0, "undo", NULL, "no handle was given");
	return operation_run(&op, ret, err);
}
