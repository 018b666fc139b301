/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a resource: one table, one function that moves.
 *
 *	PENDING --new--> CREATED --run--> ACTIVE --commit--> COMMITTED --run, undo--> ACTIVE
 *	                                  ACTIVE, COMMITTED --rollback--> ROLLED_BACK --run--> ACTIVE
 *	any --failure--> ERRORED          any --rm--> CLEANED_UP
 */
#include "engine/engine.h"

#define TO(s) (1u << ATOLL_##s)

static const unsigned allowed[ATOLL_STATE_COUNT] = {
	[ATOLL_PENDING] = TO(CREATED) | TO(ERRORED) | TO(CLEANED_UP),
	[ATOLL_CREATED] = TO(ACTIVE) | TO(COMMITTED) | TO(ROLLED_BACK) | TO(ERRORED) | TO(CLEANED_UP),
	[ATOLL_ACTIVE] = TO(COMMITTED) | TO(ROLLED_BACK) | TO(ERRORED) | TO(CLEANED_UP),
	[ATOLL_COMMITTED] = TO(ACTIVE) | TO(ROLLED_BACK) | TO(ERRORED) | TO(CLEANED_UP),
	[ATOLL_ROLLED_BACK] = TO(ACTIVE) | TO(ERRORED) | TO(CLEANED_UP),
	[ATOLL_ERRORED] = TO(ROLLED_BACK) | TO(CLEANED_UP),
	[ATOLL_CLEANED_UP] = 0,
};

static const char *const names[ATOLL_STATE_COUNT] = {
	[ATOLL_PENDING] = "pending",       [ATOLL_CREATED] = "created",         [ATOLL_ACTIVE] = "active",
	[ATOLL_COMMITTED] = "committed",   [ATOLL_ROLLED_BACK] = "rolled back", [ATOLL_ERRORED] = "errored",
	[ATOLL_CLEANED_UP] = "cleaned up",
};

bool state_may_move(enum atoll_state from, enum atoll_state to)
{
	return (unsigned)from < ATOLL_STATE_COUNT && (unsigned)to < ATOLL_STATE_COUNT && (allowed[from] & (1u << to));
}

int state_move(struct store_resource *r, enum atoll_state to, const char *operation, struct atoll_error *err)
{
	if (r->state == to && (to == ATOLL_ACTIVE || to == ATOLL_COMMITTED || to == ATOLL_ROLLED_BACK))
		return 0;
	if (!state_may_move(r->state, to))
		return error_set(err, ATOLL_STATE, 0, operation, r->path, "\"%s\" is %s and cannot become %s", r->path,
				 atoll_state_name(r->state), atoll_state_name(to));
	r->state = to;
	return 0;
}

const char *atoll_kind_name(enum atoll_kind kind)
{
	static const char *const kinds[ATOLL_KIND_COUNT] = { [ATOLL_KIND_DIR] = "directory",
							     [ATOLL_KIND_FILE] = "file",
							     [ATOLL_KIND_GIT] = "git",
							     [ATOLL_KIND_SQLITE] = "sqlite",
							     [ATOLL_KIND_POSTGRES] = "postgresql" };

	return (unsigned)kind < ATOLL_KIND_COUNT ? kinds[kind] : "unknown";
}

const char *atoll_state_name(enum atoll_state state)
{
	return (unsigned)state < ATOLL_STATE_COUNT ? names[state] : "unknown";
}

const char *atoll_phase_name(enum atoll_phase phase)
{
	static const char *const phases[] = { "none", "prepared", "decided", "in doubt" };

	return (unsigned)phase < ARRAY_SIZE(phases) ? phases[phase] : "unknown";
}
