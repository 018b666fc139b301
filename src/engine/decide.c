/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A participant whose own commit is final, a database: it cannot be taken back, so it lands last, and its commit is the decision (I3). Before it
 * everything else was applied and is durable; after it the journal only notes what was decided. Who dies in between asks the participant, by the
 * op's own name, how it ended. One that cannot be asked leaves the op in doubt: nothing is guessed, and it is asked again.
 */
#include "engine/protocol.h"

#include <string.h>

static struct resource *decider(const struct op *op)
{
	return op->decider ? &op->s->resources[op->decider - 1] : NULL;
}

int decide_plan(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		const struct resource *r = &op->s->resources[i];

		if (!(r->ops->capabilities & STRATEGY_DECIDES) || !part_is_selected(r, &op->selections[i]) ||
		    !part_is_changed(op->changes[i], false))
			continue;
		if (op->decider)
			return error_set(
				err, ATOLL_REFUSED, 0, "commit", r->row.path,
				"\"%s\" and \"%s\" both have changes, and only one of them can decide; commit them one after the other",
				decider(op)->row.path, r->row.path);
		op->decider = i + 1;
		op->resources[i].source = STORE_SOURCE_DECIDES;
	}
	return 0;
}

void decide_load(struct op *op)
{
	for (size_t i = 0; i < op->s->n; i++)
		if (op->resources[i].op && op->resources[i].source == STORE_SOURCE_DECIDES)
			op->decider = i + 1;
}

int decide_prepare(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);

	return r ? r->ops->decide_prepare(r, op->options->dry_run ? NULL : op->row.dir, err) : 0;
}

int decide_commit(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);

	return r ? r->ops->decide_commit(r, op->row.dir, err) : 0;
}

int decide_outcome(struct op *op, struct atoll_error *err)
{
	struct resource *r = decider(op);

	return r ? r->ops->decide_outcome(r, op->row.dir, err) : 0;
}

int decide_end(struct op *op, bool committed, struct atoll_error *err)
{
	struct resource *r = decider(op);

	return r && r->ops->decide_end ? r->ops->decide_end(r, op->row.dir, committed, err) : 0;
}
