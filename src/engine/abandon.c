/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox is removed though its commit could not be recovered: on which side each of its resources stands is found as far as that is possible, because
 * nobody will ever be able to ask again.
 */
#include "engine/protocol.h"

#include <string.h>

static void tell(struct atoll_result *result, const struct resource *r, enum atoll_outcome side, const char *cause)
{
	struct atoll_resource_result *line = result_resource(result, &r->row, side);

	if (!line)
		return;
	free(line->cause);
	line->cause = cause && *cause ? strdup(cause) : NULL;
}

/* By where its steps stand. Times alone are not recognised, and tell nothing. */
static enum atoll_outcome side_of_files(struct op *op, struct resource *r, const char **ret_cause)
{
	struct atoll_error ignored = { 0 };
	struct step_site *site = step_site_new(op, r, &ignored);
	size_t old = 0, new = 0, other = 0;

	for (size_t i = 0; site && i < op->n; i++) {
		const struct store_step *step = &op->steps[i];
		int state = step->resource != r->row.id || step->kind == STORE_STEP_TIME ? -1 : step_state(site, step);

		old += state == STEP_OLD;
		new += state == STEP_NEW;
		other += step->resource == r->row.id && step->kind != STORE_STEP_TIME && state != STEP_OLD &&
			 state != STEP_NEW;
	}
	*ret_cause = !site ? "it cannot be looked at" : "some of it is as before the commit, and some as after it";
	if (site)
		step_site_free(site);
	if (!site || other || (old && new))
		return ATOLL_OUTCOME_IN_DOUBT;
	*ret_cause = NULL;
	return new ? ATOLL_OUTCOME_COMMITTED : ATOLL_OUTCOME_ROLLED_BACK;
}

/* decided: 1, 0, or it is not known, and why. One that has voted is told, if it can be reached. */
static void tell_voter(struct op *op, struct resource *r, int decided, const char *why)
{
	struct atoll_error err = { 0 };
	int rc = decided < 0 ? decided : r->ops->vote_end(r, op->row.dir, decided, &err);
	enum atoll_outcome side = decided ? ATOLL_OUTCOME_COMMITTED : ATOLL_OUTCOME_ROLLED_BACK;
	enum atoll_outcome otherwise = decided ? ATOLL_OUTCOME_ROLLED_BACK : ATOLL_OUTCOME_COMMITTED;

	AUTO_STRBUF cause = STRBUF_INIT;

	if (decided < 0) {
		strbuf_adds(&cause, why);
		if (r->ops->vote_name) {
			strbuf_adds(&cause, "; if it was prepared, then as ");
			r->ops->vote_name(r, op->row.dir, &cause);
		}
		tell(op->result, r, ATOLL_OUTCOME_IN_DOUBT, strbuf_str(&cause));
	} else if (rc == -ATOLL_CONFLICT)
		tell(op->result, r, otherwise, err.message);
	else
		tell(op->result, r, rc < 0 ? ATOLL_OUTCOME_IN_DOUBT : side, err.message);
}

static int how_decided(struct op *op, struct atoll_error *err)
{
	return op->row.phase == STORE_PREPARED ? decide_outcome(op, err) : 1;
}

static void find_sides(struct op *op)
{
	struct atoll_error why = { 0 };
	bool commit = op->row.kind == STORE_OP_COMMIT; /* what decided or voted has no part in an undo */
	int decided = commit && op->decider ? how_decided(op, &why) : 0;

	for (size_t i = 0; i < op->s->n; i++) {
		struct resource *r = &op->s->resources[i];
		const char *cause = NULL;
		enum atoll_outcome side;

		if (!op->resources[i].op || (!commit && !resource_can_undo(r)))
			continue;
		if (vote_is_cast_by(op, i)) {
			tell_voter(op, r, decided, why.message);
		} else if (op->decider == i + 1) {
			side = decided > 0 ? ATOLL_OUTCOME_COMMITTED : ATOLL_OUTCOME_ROLLED_BACK;
			tell(op->result, r, decided < 0 ? ATOLL_OUTCOME_IN_DOUBT : side, why.message);
		} else {
			side = side_of_files(op, r, &cause);
			tell(op->result, r, side, cause);
		}
	}
}

static int find_unfinished(struct session *s, const struct store_op *row, struct atoll_result *result,
			   struct atoll_error *err)
{
	struct op op = { 0 };
	int r = op_load(s, row, &op, err);

	if (r < 0)
		return r;
	op.result = result;
	op.salvage = true;
	find_sides(&op);
	op_release(&op);
	return 0;
}

int abandon_session(struct session *s, struct atoll_result **ret, struct atoll_error *err)
{
	struct atoll_result *recovered = NULL, *result;
	struct store_op row = { 0 };
	struct atoll_error ignored = { 0 };
	int r;

	if (!recover_concerns_originals(s))
		return 0;
	r = recover_session(s, &recovered, &ignored);
	atoll_result_free(recovered);
	if (r >= 0)
		return 0;
	result = result_new("rm", s->box.name);
	if (!result)
		return error_oom(err, "rm");
	if (store_op_unfinished(s->store, s->box.id, &row, &ignored) > 0)
		(void)find_unfinished(s, &row, result, &ignored);
	store_op_release(&row);
	*ret = result;
	return result_finish(result, 0, err);
}
