/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing what a crash left. For each thing that can be left half-done there is a mark on record, made before it began:
 *
 *	resource PENDING        new did not finish: everything it made is removed
 *	sandbox removing        rm did not finish: it goes on
 *	commit PREPARED         taken back                 commit DECIDED   finished
 *	undo PREPARED           the commit is put back     undo DECIDED     finished
 *	resource dirty          its workspace is made fresh again
 *	op directory, no op     staging that never was prepared: removed
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"
#include "engine/exclusion.h"
#include "engine/leftovers.h"
#include "engine/sandbox.h"

static bool never_finished(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].row.state == ATOLL_PENDING)
			return true;
	return s->n == 0;
}

bool recover_is_removal(const struct session *s)
{
	return s->box.removing || never_finished(s);
}

bool recover_is_needed(struct session *s, struct atoll_error *err)
{
	struct store_op op = { 0 };
	bool needed = recover_is_removal(s);

	for (size_t i = 0; i < s->n && !needed; i++)
		needed = s->resources[i].row.dirty;
	if (!needed)
		needed = store_op_unfinished(s->store, s->box.id, &op, err) != 0;
	store_op_release(&op);
	return needed;
}

bool recover_concerns_originals(struct session *s)
{
	struct store_op op = { 0 };
	int r = store_op_unfinished(s->store, s->box.id, &op, NULL);
	bool concerns = r < 0 || (r > 0 && (op.phase == STORE_PREPARED || vote_is_on_record(s, &op)));

	store_op_release(&op);
	return concerns;
}

/* ---- ops ---- */

#define NAMED_PATHS 3

/* The paths that were left, for those who see no more of the report than its message. */
static void add_left(struct strbuf *out, const struct atoll_result *result)
{
	size_t n = 0;

	for (size_t i = 0; i < result->n_items; i++) {
		const struct atoll_item *item = &result->items[i];

		if (item->kind != ATOLL_ITEM_FOREIGN && item->kind != ATOLL_ITEM_LOST)
			continue;
		if (n++ >= NAMED_PATHS)
			continue;
		strbuf_addf(out, "%s\"%s\"", n > 1 ? ", " : "", item->path);
		if (item->kept)
			strbuf_addf(out, " (the other version is at \"%s\")", item->kept);
	}
	if (n > NAMED_PATHS)
		strbuf_addf(out, " and %zu more", n - NAMED_PATHS);
}

static int in_doubt(struct op *op, struct atoll_error *err)
{
	AUTO_STRBUF paths = STRBUF_INIT;

	add_left(&paths, op->result);
	return error_set(
		err, ATOLL_IN_DOUBT, 0, "recover", op->s->box.name,
		op->lost ? "recovered \"%s\", but for what somebody removed from Atoll's areas: %s"
			 : "recovered \"%s\", but for paths that somebody else changed meanwhile, which are left as "
			   "they are: %s",
		op->s->box.name, strbuf_str(&paths));
}

/* Who decides is asked how it ended, and that is put on record: 1, or 0 if it has not. */
static int ask_decider(struct op *op, struct atoll_error *err)
{
	int r = decide_outcome(op, err);

	if (r < 0)
		op_set_outcomes(op, ATOLL_OUTCOME_ROLLBACK_FAILED);
	if (r <= 0)
		return r;
	r = finish_decide_commit(op, err);
	return r < 0 ? r : 1;
}

static int settle_commit(struct op *op, struct atoll_error *err)
{
	int decided = op->row.phase == STORE_PREPARED ? ask_decider(op, err) : 1;
	bool back = decided == 0;
	bool left = false;
	int r;

	if (decided < 0)
		return decided;
	/* Once decided everything is in place and on disk; what others did to it since is theirs. */
	r = back ? apply(op, BACKWARD, true, &left, err) : 0;
	op_set_outcomes(op, back ? ATOLL_OUTCOME_ROLLED_BACK : ATOLL_OUTCOME_COMMITTED);
	if (r >= 0)
		r = salvage_mark_lost(op, err);
	if (r >= 0)
		r = back ? finish_failed(op, err) : finish_commit(op, err);
	if (r < 0)
		return r;
	op->result->commit = back ? 0 : op->row.number;
	return left || op->lost || op->contradicted ? in_doubt(op, err) : 0;
}

static int settle_undo(struct op *op, struct atoll_error *err)
{
	bool forward = op->row.phase == STORE_PREPARED;
	bool left = false;
	int r = 0;

	/* Once decided, the steps are back and the newer edits are being put on top: only that is left. */
	if (forward)
		r = apply(op, FORWARD, true, &left, err);
	op_set_outcomes(op, forward ? ATOLL_OUTCOME_COMMITTED : ATOLL_OUTCOME_ROLLED_BACK);
	if (r >= 0)
		r = salvage_mark_lost(op, err);
	if (r >= 0)
		r = forward ? finish_failed(op, err) : finish_undo(op, err);
	if (r < 0)
		return r;
	return left || op->lost ? in_doubt(op, err) : 0;
}

static int settle_op(struct session *s, const struct store_op *row, struct atoll_result *result,
		     struct atoll_error *err)
{
	struct op op = { 0 };
	int r = op_load(s, row, &op, err);

	if (r < 0)
		return r;
	op.result = result;
	op.salvage = true;
	result->message = row->message ? strdup(row->message) : NULL;
	r = row->kind == STORE_OP_COMMIT ? settle_commit(&op, err) : settle_undo(&op, err);
	op_release(&op);
	return r;
}

/* ---- one sandbox ---- */

static int open_all(struct session *s, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		r = resource_open(s, &s->resources[i], err);
	return r < 0 ? r : resource_set_excluded(s, err);
}

/* Another sandbox may be changing the same trees just now. */
static int lock_originals(struct session *s, struct atoll_error *err)
{
	return recover_concerns_originals(s) ? exclusion_take(s, 0, NULL, err) : 0;
}

static int settle_session(struct session *s, struct atoll_result *result, struct atoll_error *err)
{
	struct store_op row = { 0 };
	int doubt = 0;
	int r = salvage_open_all(s, err);

	if (r >= 0)
		r = lock_originals(s, err);
	if (r >= 0)
		r = store_op_unfinished(s->store, s->box.id, &row, err);
	if (r > 0)
		r = settle_op(s, &row, result, err);
	store_op_release(&row);
	exclusion_release(s);
	if (r == -ATOLL_IN_DOUBT)
		doubt = r;
	else if (r < 0)
		return r;
	r = reset_dirty(s, result, err);
	if (r >= 0)
		r = leftovers_remove(s, err);
	return doubt < 0 ? doubt : r;
}

int recover_session(struct session *s, struct atoll_result **ret, struct atoll_error *err)
{
	struct atoll_result *result = result_new("recover", s->box.name);
	int r;

	if (!result)
		return error_oom(err, "recover");
	*ret = result;
	sys_fault_mark("recover");
	if (recover_is_removal(s)) {
		AUTO_FREE char *name = strdup(s->box.name);

		r = sandbox_remove_everything(s, err);
		if (r >= 0 && !result->sandbox)
			result->sandbox = TAKE_PTR(name);
	} else {
		r = settle_session(s, result, err);
	}
	return result_finish(result, r, err);
}

/* Whether the record of a sandbox that somebody uses, who has settled it or is about to, has anything to recover. */
static bool is_left(struct operation *o)
{
	struct session s = { .lock_fd = -EBADF };
	bool left = session_peek(o->a, o->name, &s, NULL) < 0 || recover_is_needed(&s, NULL);

	session_release(&s);
	return left;
}

int recover_work(struct operation *o, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	const struct atoll_recover_options *options = o->options;
	int r = session_open_raw(o->a, o->name, options->wait_ms, false, &s, err);

	if (r == -ATOLL_BUSY && !is_left(o))
		return 0;
	if (r >= 0 && recover_is_needed(&s, err)) {
		r = recover_session(&s, &o->result, err);
	} else if (r >= 0) {
		struct atoll_error ignored;

		/* Nothing is on record; staging that a crash left before that may still lie there. */
		if (open_all(&s, &ignored) >= 0)
			r = leftovers_remove(&s, err);
		if (r >= 0)
			r = part_drop_left(&s, err);
	}
	if (r >= 0)
		vote_sweep(&s);
	session_release(&s);
	return r;
}

/* What is left of a crash is found by opening; hardly ever is there anything, so that it is not looked for beforehand. */
int sandbox_open(struct atoll *a, const char *name, enum lock_mode mode, int wait_ms, struct session *ret,
		 struct atoll_error *err)
{
	struct atoll_result **results = NULL;
	struct atoll_error doubt = { 0 };
	size_t n = 0;
	int r = session_open(a, name, mode, wait_ms, ret, &doubt);

	if (r != -ATOLL_IN_DOUBT) {
		if (r < 0 && err)
			*err = doubt;
		return r;
	}
	r = atoll_recover(a, name, &(struct atoll_recover_options){ .wait_ms = wait_ms }, &results, &n, err);
	atoll_result_list_free(results, n);
	return r < 0 ? r : session_open(a, name, mode, wait_ms, ret, err);
}
