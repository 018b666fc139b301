/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A participant whose own commit is final, a database: it cannot be taken back, so it lands last, and its commit is the decision (I3). Before it
 * everything else was applied and is durable; after it the journal only notes what was decided. Who dies in between asks the participant, by the
 * op's own name, how it ended. One that cannot be asked leaves the op in doubt: nothing is guessed, and it is asked again. Where several take
 * part, one decides and the others vote (vote.c).
 */
#include "engine/protocol.h"

#include <string.h>

static struct resource *decider(const struct op *op)
{
	return op->decider ? &op->s->resources[op->decider - 1] : NULL;
}

static bool must_decide(const struct op *op, size_t index)
{
	const struct resource *r = &op->s->resources[index];

	return (r->ops->capabilities & STRATEGY_DECIDES) && part_is_selected(r, &op->selections[index]) &&
	       part_is_changed(op->changes[index], false);
}

int decide_plan(struct op *op, struct atoll_error *err)
{
	AUTO_FREE size_t *several = calloc(op->s->n ? op->s->n : 1, sizeof *several);
	size_t n = 0;

	if (!several)
		return error_oom(err, "commit");
	for (size_t i = 0; i < op->s->n; i++)
		if (must_decide(op, i))
			several[n++] = i;
	if (n > 1)
		return vote_plan(op, several, n, err);
	if (n == 1) {
		op->decider = several[0] + 1;
		op->resources[several[0]].source = STORE_SOURCE_DECIDES;
	}
	return 0;
}

void decide_load(struct op *op)
{
	op->voting = true;
	for (size_t i = 0; i < op->s->n; i++)
		if (op->resources[i].op && op->resources[i].source == STORE_SOURCE_DECIDES)
			op->decider = i + 1;
}

int decide_prepare(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);
	int rc = r ? r->ops->decide_prepare(r, op->options->dry_run ? NULL : op->row.dir, err) : 0;

	return rc < 0 ? rc : vote_prepare(op, err);
}

int decide_commit(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);
	int rc = vote_all(op, err);

	return rc < 0 || !r ? rc : r->ops->decide_commit(r, op->row.dir, err);
}

int decide_outcome(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);

	return r ? r->ops->decide_outcome(r, op->row.dir, err) : 0;
}

/* One that fails never stops the others. */
int decide_end(struct op *op, bool committed, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; i < op->s->n; i++) {
		struct resource *r = &op->s->resources[i];
		int rc;

		if ((op->decider != i + 1 && !vote_is_cast_by(op, i)) || !r->ops->decide_end)
			continue;
		rc = r->ops->decide_end(r, op->row.dir, committed, first < 0 ? NULL : err);
		first = first < 0 ? first : MIN(rc, 0);
	}
	return first;
}
