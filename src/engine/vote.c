/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several participants whose own commits are final: a two-phase commit in which the last one decides. All but one vote: when everything else is
 * in place each is made ready, so that it will commit or roll back, as it is told, whatever dies meanwhile. Then the one that is left commits,
 * which is the decision (I3), and the others are told. Recovery asks the one, and tells the others again; one that cannot be told leaves the op
 * unfinished, and itself in doubt.
 *
 * One that has voted does not get back to where it was: if the commit comes to nothing its edits are lost, and it says so. That is why all that could
 * go wrong is looked for beforehand, and why one that cannot vote (its server is not set up for it) becomes the one that decides.
 */
#include "engine/protocol.h"

#include <string.h>

bool vote_is_cast_by(const struct op *op, size_t index)
{
	return op->resources[index].source == STORE_SOURCE_VOTES;
}

bool vote_is_on_record(struct session *s, const struct store_op *row)
{
	AUTO_FREE struct store_op_resource *list = NULL;
	size_t n = 0;

	if (row->kind != STORE_OP_COMMIT)
		return false;
	if (store_op_resource_list(s->store, row->id, &list, &n, NULL) < 0)
		return true;
	for (size_t i = 0; i < n; i++)
		if (list[i].source == STORE_SOURCE_VOTES)
			return true;
	return false;
}

/* ---- what waits though it is over ---- */

struct past {
	struct store_op *ops;
	size_t n;
};

static int how_it_ended(void *arg, const char *token)
{
	const struct past *past = arg;

	for (size_t i = 0; i < past->n; i++) {
		const struct store_op *op = &past->ops[i];

		if (op->kind == STORE_OP_COMMIT && strcmp(op->dir, token) == 0)
			return op->phase == STORE_DONE ? 1 : op->phase == STORE_FAILED ? 0 : -1;
	}
	return -1;
}

void vote_sweep(struct session *s)
{
	struct atoll_error ignored;
	struct past past = { 0 };
	bool any = false;

	if (store_op_list(s->store, s->box.id, &past.ops, &past.n, &ignored) < 0)
		return;
	for (size_t i = 0; i < past.n && !any; i++)
		any = vote_is_on_record(s, &past.ops[i]);
	for (size_t i = 0; i < s->n && any; i++) {
		struct resource *r = &s->resources[i];

		if (r->ops && r->ops->vote_sweep)
			(void)r->ops->vote_sweep(r, how_it_ended, &past, &ignored);
	}
	store_ops_free(past.ops, past.n);
}

/* ---- who decides ---- */

struct voter {
	struct resource *r;
	struct strategy_room room;
};

static int ask_room(struct voter *v, struct atoll_error *err)
{
	if (v->r->ops->capabilities & STRATEGY_VOTES)
		return v->r->ops->vote_room(v->r, &v->room, err);
	snprintf(v->room.why, sizeof v->room.why, "%s has no two-phase commit", v->r->ops->name);
	return 0;
}

/* Whether there is room for this one beside the others that would vote at its place. */
static bool has_room(const struct voter *list, size_t n, size_t decider, size_t index)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += i != decider && strcmp(list[i].room.place, list[index].room.place) == 0;
	return used <= list[index].room.room;
}

static bool can_decide(const struct voter *list, size_t n, size_t decider)
{
	for (size_t i = 0; i < n; i++)
		if (i != decider && (!list[i].room.room || !has_room(list, n, decider, i)))
			return false;
	return true;
}

/* Every one that has no room is named, and what to change. */
static int refuse(struct op *op, const struct voter *list, size_t n, struct atoll_error *err)
{
	AUTO_STRBUF why = STRBUF_INIT;

	for (size_t i = 0; i < n; i++) {
		const struct strategy_room *room = &list[i].room;

		if (room->room && has_room(list, n, n, i))
			continue;
		strbuf_addf(&why, "%s\"%s\": %s", why.size ? "; " : "", list[i].r->row.path, room->why);
		if (!result_add(op->result, ATOLL_ITEM_REFUSED, list[i].r->row.seq, "transaction", room->why))
			return error_oom(err, "commit");
	}
	return error_set(
		err, ATOLL_REFUSED, 0, "commit", op->s->box.name,
		"all but one of several databases must be prepared for a commit together, and these cannot (%s); change that, or commit them one after the other",
		strbuf_str(&why));
}

int vote_plan(struct op *op, const size_t *several, size_t n, struct atoll_error *err)
{
	AUTO_FREE struct voter *list = calloc(n, sizeof *list);
	size_t decider = n;
	int rc = list ? 0 : error_oom(err, "commit");

	for (size_t i = 0; i < n && rc >= 0; i++) {
		list[i].r = &op->s->resources[several[i]];
		rc = ask_room(&list[i], err);
	}
	if (rc < 0)
		return rc;
	/* The last of those that can; one that cannot vote is the only one that can decide. */
	while (decider > 0 && !can_decide(list, n, decider - 1))
		decider--;
	if (decider == 0)
		return refuse(op, list, n, err);
	for (size_t i = 0; i < n; i++)
		op->resources[several[i]].source = i + 1 == decider ? STORE_SOURCE_DECIDES : STORE_SOURCE_VOTES;
	op->decider = several[decider - 1] + 1;
	return 0;
}

/* ---- the vote ---- */

static int each(struct op *op, int (*fn)(struct op *op, struct resource *r, struct atoll_error *err),
		struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < op->s->n && rc >= 0; i++)
		if (vote_is_cast_by(op, i))
			rc = fn(op, &op->s->resources[i], err);
	return MIN(rc, 0);
}

static int prepare_one(struct op *op, struct resource *r, struct atoll_error *err)
{
	return r->ops->vote_prepare(r, op->options->dry_run ? NULL : op->row.dir, err);
}

int vote_prepare(struct op *op, struct atoll_error *err)
{
	return each(op, prepare_one, err);
}

/* That one may or may not have voted is no doubt yet: nothing is decided, and it will be told. */
static int vote_one(struct op *op, struct resource *r, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int rc = r->ops->vote(r, op->row.dir, &why);

	if (rc >= 0)
		return 0;
	return error_set(err, rc == -ATOLL_IN_DOUBT ? ATOLL_FAILED : why.code, why.sys_errno, "commit", r->row.path,
			 "\"%s\" could not be prepared: %s", r->row.path, why.message);
}

int vote_all(struct op *op, struct atoll_error *err)
{
	op->voting = true;
	return each(op, vote_one, err);
}

/* ---- the end ---- */

static void set_line(struct op *op, const struct resource *r, enum atoll_outcome outcome, const char *cause)
{
	struct atoll_resource_result *line = result_resource(op->result, &r->row, outcome);

	if (!line)
		return;
	free(line->cause);
	line->cause = strdup(cause);
}

/* Like an edit by somebody else: it stays, it is named, and nothing more can be done. */
static int contradict(struct op *op, const struct resource *r, bool committed, const char *why, struct atoll_error *err)
{
	op->contradicted = true;
	set_line(op, r, committed ? ATOLL_OUTCOME_ROLLED_BACK : ATOLL_OUTCOME_COMMITTED, why);
	return op_tell(op, ATOLL_ITEM_FOREIGN, r, "transaction", why) < 0 ? error_oom(err, "commit") : 0;
}

static int end_one(struct op *op, struct resource *r, bool committed, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int rc = r->ops->vote_end(r, op->row.dir, committed, &why);

	if (rc == -ATOLL_CONFLICT)
		return contradict(op, r, committed, why.message, err);
	if (rc > 0)
		set_line(
			op, r, ATOLL_OUTCOME_ROLLED_BACK,
			"its edits are lost: once it is to be prepared, a transaction cannot go on after a commit that did not land");
	if (rc >= 0)
		return 0;
	op->untold = true;
	set_line(op, r, ATOLL_OUTCOME_IN_DOUBT, why.message);
	return error_set(
		err, ATOLL_IN_DOUBT, why.sys_errno, "commit", r->row.path,
		"\"%s\" is to %s, and could not be told (%s); that is tried again by the next command, or atoll recover",
		r->row.path, committed ? "commit" : "roll back", why.message);
}

int vote_end_all(struct op *op, bool committed, struct atoll_error *err)
{
	int first = 0;

	op->untold = false;
	for (size_t i = 0; i < op->s->n && op->voting; i++) {
		int rc = vote_is_cast_by(op, i) ? end_one(op, &op->s->resources[i], committed, first < 0 ? NULL : err)
						: 0;

		first = first < 0 ? first : rc;
	}
	return first;
}
