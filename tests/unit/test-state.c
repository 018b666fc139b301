/* SPDX-License-Identifier: Apache-2.0 */
/* All 49 pairs of states, from a table that was written from the requirements and not from the code. */
#include "engine/engine.h"
#include "tap.h"

/* Rows: from; columns: to, both in the order of enum atoll_state. */
static const char *const table[] = {
	/*               P C A M R E U */
	/* pending     */ ".x...xx",
	/* created     */ "..xxxxx",
	/* active      */ "...xxxx",
	/* committed   */ "..x.xxx",
	/* rolled back */ "..x..xx",
	/* errored     */ "....x.x",
	/* cleaned up  */ ".......",
};

/* Moves that are none: an operation that finds the state it leads to (a second run, an empty commit, a second rollback). */
static bool stays(int from, int to)
{
	return from == to && (to == ATOLL_ACTIVE || to == ATOLL_COMMITTED || to == ATOLL_ROLLED_BACK);
}

TEST(the_table_is_complete)
{
	CHECK_EQ(ARRAY_SIZE(table), ATOLL_STATE_COUNT);
	for (int from = 0; from < ATOLL_STATE_COUNT; from++)
		CHECK_EQ(strlen(table[from]), ATOLL_STATE_COUNT);
}

TEST(every_pair_is_allowed_or_not_as_the_table_says)
{
	for (int from = 0; from < ATOLL_STATE_COUNT; from++) {
		for (int to = 0; to < ATOLL_STATE_COUNT; to++) {
			bool wanted = table[from][to] == 'x';

			if (state_may_move((enum atoll_state)from, (enum atoll_state)to) != wanted)
				tap_fail(__FILE__, __LINE__, "%s -> %s should be %s",
					 atoll_state_name((enum atoll_state)from),
					 atoll_state_name((enum atoll_state)to), wanted ? "allowed" : "refused");
		}
	}
}

TEST(a_move_changes_the_state_or_gives_a_state_error_and_changes_nothing)
{
	for (int from = 0; from < ATOLL_STATE_COUNT; from++) {
		for (int to = 0; to < ATOLL_STATE_COUNT; to++) {
			struct store_resource r = { .state = (enum atoll_state)from, .path = (char *)"/a\nb" };
			struct atoll_error err = { .message = "untouched" };
			bool wanted = table[from][to] == 'x' || stays(from, to);
			int code = state_move(&r, (enum atoll_state)to, "probe", &err);

			CHECK_EQ(code, wanted ? 0 : -ATOLL_STATE);
			CHECK_EQ(r.state, wanted ? to : from);
			if (wanted) {
				CHECK_STR(err.message, "untouched");
				continue;
			}
			CHECK_EQ(err.code, ATOLL_STATE);
			CHECK_STR(err.operation, "probe");
			CHECK_CONTAINS(err.message, atoll_state_name((enum atoll_state)from));
			CHECK_CONTAINS(err.message, atoll_state_name((enum atoll_state)to));
			CHECK(!strchr(err.message, '\n'));
		}
	}
}

TEST(values_that_are_no_states_are_refused)
{
	CHECK(!state_may_move(ATOLL_STATE_COUNT, ATOLL_ACTIVE));
	CHECK(!state_may_move(ATOLL_ACTIVE, ATOLL_STATE_COUNT));
	CHECK(!state_may_move((enum atoll_state) - 1, ATOLL_ACTIVE));
	CHECK_STR(atoll_state_name(ATOLL_STATE_COUNT), "unknown");
	CHECK_STR(atoll_phase_name((enum atoll_phase)9), "unknown");
}

TEST(every_state_and_phase_has_a_name_of_its_own)
{
	for (int a = 0; a < ATOLL_STATE_COUNT; a++) {
		CHECK(atoll_state_name((enum atoll_state)a)[0]);
		for (int b = 0; b < a; b++)
			CHECK(strcmp(atoll_state_name((enum atoll_state)a), atoll_state_name((enum atoll_state)b)) !=
			      0);
	}
	CHECK_STR(atoll_phase_name(ATOLL_PHASE_NONE), "none");
	CHECK_STR(atoll_phase_name(ATOLL_PHASE_PREPARED), "prepared");
	CHECK_STR(atoll_phase_name(ATOLL_PHASE_DECIDED), "decided");
	CHECK_STR(atoll_phase_name(ATOLL_PHASE_IN_DOUBT), "in doubt");
}
