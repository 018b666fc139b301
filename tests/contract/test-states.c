/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation in every state, for every strategy, from one table: what it answers, the state after it, and what became of the
 * original and of the edits. A strategy that accepts or refuses differently from the table fails.
 */
#include "base/fd.h"
#include "contract.h"

enum state { CREATED, ACTIVE, COMMITTED, ROLLED_BACK, UNDONE, STATES };
enum operation { RUN, DIFF, COMMIT, UNDO, ROLLBACK, ROLLBACK_LANDED, REMOVE, REMOVE_BY_FORCE, NEW, OPERATIONS };
enum content { OLD, NEW_CONTENT };

#define GONE ATOLL_STATE_COUNT /* there is no sandbox any more */

struct row {
	enum atoll_code code;
	enum atoll_state after;
	enum content original; /* of the file "one" in the original afterwards */
	bool edits;            /* undecided changes afterwards */
};

static const enum atoll_state state_of[STATES] = {
	[CREATED] = ATOLL_CREATED,         [ACTIVE] = ATOLL_ACTIVE, [COMMITTED] = ATOLL_COMMITTED,
	[ROLLED_BACK] = ATOLL_ROLLED_BACK, [UNDONE] = ATOLL_ACTIVE,
};

/* Strategies that isolate. RUN changes nothing here; NEW is a second creation under the same name. */
static const struct row isolated[STATES][OPERATIONS] = {
	[CREATED] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, OLD, false },
		[DIFF] = { ATOLL_OK, ATOLL_CREATED, OLD, false },
		[COMMIT] = { ATOLL_OK, ATOLL_CREATED, OLD, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_CREATED, OLD, false },
		[ROLLBACK] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[ROLLBACK_LANDED] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[REMOVE] = { ATOLL_OK, GONE, OLD, false },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, OLD, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_CREATED, OLD, false },
	},
	[ACTIVE] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, OLD, true },
		[DIFF] = { ATOLL_OK, ATOLL_ACTIVE, OLD, true },
		[COMMIT] = { ATOLL_OK, ATOLL_COMMITTED, NEW_CONTENT, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_ACTIVE, OLD, true },
		[ROLLBACK] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[ROLLBACK_LANDED] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[REMOVE] = { ATOLL_REFUSED, ATOLL_ACTIVE, OLD, true },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, OLD, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_ACTIVE, OLD, true },
	},
	[COMMITTED] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, NEW_CONTENT, false },
		[DIFF] = { ATOLL_OK, ATOLL_COMMITTED, NEW_CONTENT, false },
		[COMMIT] = { ATOLL_OK, ATOLL_COMMITTED, NEW_CONTENT, false },
		[UNDO] = { ATOLL_OK, ATOLL_ACTIVE, OLD, true },
		[ROLLBACK] = { ATOLL_REFUSED, ATOLL_COMMITTED, NEW_CONTENT, false },
		[ROLLBACK_LANDED] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[REMOVE] = { ATOLL_OK, GONE, NEW_CONTENT, false },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, NEW_CONTENT, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_COMMITTED, NEW_CONTENT, false },
	},
	[ROLLED_BACK] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, OLD, false },
		[DIFF] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[COMMIT] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_ROLLED_BACK, OLD, false },
		[ROLLBACK] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[ROLLBACK_LANDED] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[REMOVE] = { ATOLL_OK, GONE, OLD, false },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, OLD, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_ROLLED_BACK, OLD, false },
	},
	[UNDONE] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, OLD, true },
		[DIFF] = { ATOLL_OK, ATOLL_ACTIVE, OLD, true },
		[COMMIT] = { ATOLL_OK, ATOLL_COMMITTED, NEW_CONTENT, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_ACTIVE, OLD, true },
		[ROLLBACK] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[ROLLBACK_LANDED] = { ATOLL_OK, ATOLL_ROLLED_BACK, OLD, false },
		[REMOVE] = { ATOLL_REFUSED, ATOLL_ACTIVE, OLD, true },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, OLD, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_ACTIVE, OLD, true },
	},
};

/* Strategies that do not: edits are in the original at once, and nothing is ever taken back. */
static const struct row unisolated[STATES][OPERATIONS] = {
	[CREATED] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, OLD, false },
		[DIFF] = { ATOLL_OK, ATOLL_CREATED, OLD, false },
		[COMMIT] = { ATOLL_OK, ATOLL_CREATED, OLD, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_CREATED, OLD, false },
		[ROLLBACK] = { ATOLL_UNSUPPORTED, ATOLL_CREATED, OLD, false },
		[ROLLBACK_LANDED] = { ATOLL_UNSUPPORTED, ATOLL_CREATED, OLD, false },
		[REMOVE] = { ATOLL_OK, GONE, OLD, false },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, OLD, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_CREATED, OLD, false },
	},
	[ACTIVE] = {
		[RUN] = { ATOLL_OK, ATOLL_ACTIVE, NEW_CONTENT, false },
		[DIFF] = { ATOLL_OK, ATOLL_ACTIVE, NEW_CONTENT, false },
		[COMMIT] = { ATOLL_OK, ATOLL_ACTIVE, NEW_CONTENT, false },
		[UNDO] = { ATOLL_NOT_FOUND, ATOLL_ACTIVE, NEW_CONTENT, false },
		[ROLLBACK] = { ATOLL_UNSUPPORTED, ATOLL_ACTIVE, NEW_CONTENT, false },
		[ROLLBACK_LANDED] = { ATOLL_UNSUPPORTED, ATOLL_ACTIVE, NEW_CONTENT, false },
		[REMOVE] = { ATOLL_OK, GONE, NEW_CONTENT, false },
		[REMOVE_BY_FORCE] = { ATOLL_OK, GONE, NEW_CONTENT, false },
		[NEW] = { ATOLL_EXISTS, ATOLL_ACTIVE, NEW_CONTENT, false },
	},
};

static void bring_to(enum state state)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	scene_open();
	scene_tree("original");
	scene_new("original");
	if (state == CREATED)
		return;
	scene_run("echo new > original/one; rm original/two; mkdir original/fresh");
	if (state == ACTIVE)
		return;
	if (state == ROLLED_BACK) {
		CHECK_DONE(atoll_rollback(a, "box", NULL, &result, &err), err);
		atoll_result_free(result);
		return;
	}
	scene_commit();
	if (state == COMMITTED)
		return;
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
}

static int ignore_change(const struct atoll_change *change, void *arg)
{
	CHECK(change->path && change->resource_path);
	++*(int *)arg;
	return 0;
}

static int operate(enum operation operation, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int seen = 0, r;

	switch (operation) {
	case RUN:
		return scene_try_run(":", err);
	case DIFF:
		return atoll_changes(a, "box", NULL, ignore_change, &seen, err);
	case REMOVE:
		return atoll_remove(a, "box", NULL, err);
	case REMOVE_BY_FORCE:
		return atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, err);
	case NEW:
		return scene_try_new("box", "original", tap_variant, err);
	case COMMIT:
		r = atoll_commit(a, "box", NULL, &result, err);
		break;
	case UNDO:
		r = atoll_undo(a, "box", NULL, &result, err);
		break;
	case ROLLBACK_LANDED:
		r = atoll_rollback(a, "box", &(struct atoll_undo_options){ .landed = true }, &result, err);
		break;
	case ROLLBACK:
	case OPERATIONS:
	default:
		r = atoll_rollback(a, "box", NULL, &result, err);
		break;
	}
	CHECK(result != NULL);
	CHECK_EQ(result->success, r == 0);
	CHECK_EQ(result->error.code, r == 0 ? ATOLL_OK : err->code);
	CHECK_EQ(result->n_resources, 1);
	atoll_result_free(result);
	return r;
}

static void check_after(const struct row *wanted, const char *old)
{
	struct atoll_info *info = NULL;
	struct atoll_error err = { 0 };

	CHECK_STR(tap_read(tap_dirfd, "original/one"), wanted->original == OLD ? "one\n" : "new\n");
	CHECK_EQ(faccessat(tap_dirfd, "original/two", F_OK, 0), wanted->original == OLD ? 0 : -1);
	CHECK_EQ(faccessat(tap_dirfd, "original/fresh", F_OK, 0), wanted->original == OLD ? -1 : 0);
	if (wanted->original == OLD)
		check_manifest("original", old);
	if (wanted->after == GONE) {
		CHECK_CODE(atoll_show(a, "box", &info, &err), -ATOLL_NOT_FOUND, err);
		return;
	}
	CHECK_STR(atoll_state_name(scene_state()), atoll_state_name(wanted->after));
	CHECK_EQ(scene_pending() > 0, wanted->edits);
}

static void try_pair(enum state state, enum operation operation)
{
	const struct row *wanted = has(STRATEGY_ISOLATES) ? &isolated[state][operation] : &unisolated[state][operation];
	AUTO_FREE char *old = NULL;
	struct atoll_error err = { 0 };

	/* The manifest of the original, from a second tree made in the same way. */
	scene_tree("twin");
	old = manifest("twin");
	bring_to(state);
	CHECK_EQ(scene_state(), state_of[state]);
	CHECK_CODE(operate(operation, &err), -(int)wanted->code, err);
	if (wanted->code != ATOLL_OK)
		CHECK(err.message[0] && err.operation[0] && !strchr(err.message, '\n'));
	check_after(wanted, old);
	atoll_close(a);
}

#define PAIRS(state, word)                          \
	CONTRACT(run_on_##word)                     \
	{                                           \
		try_pair(state, RUN);               \
	}                                           \
	CONTRACT(diff_of_##word)                    \
	{                                           \
		try_pair(state, DIFF);              \
	}                                           \
	CONTRACT(commit_of_##word)                  \
	{                                           \
		try_pair(state, COMMIT);            \
	}                                           \
	CONTRACT(undo_of_##word)                    \
	{                                           \
		try_pair(state, UNDO);              \
	}                                           \
	CONTRACT(rollback_of_##word)                \
	{                                           \
		try_pair(state, ROLLBACK);          \
	}                                           \
	CONTRACT(rollback_of_what_landed_in_##word) \
	{                                           \
		try_pair(state, ROLLBACK_LANDED);   \
	}                                           \
	CONTRACT(removal_of_##word)                 \
	{                                           \
		try_pair(state, REMOVE);            \
	}                                           \
	CONTRACT(forced_removal_of_##word)          \
	{                                           \
		try_pair(state, REMOVE_BY_FORCE);   \
	}                                           \
	CONTRACT(second_creation_beside_##word)     \
	{                                           \
		try_pair(state, NEW);               \
	}

#define PAIRS_ISOLATING(state, word)                          \
	CONTRACT_ISOLATING(run_on_##word)                     \
	{                                                     \
		try_pair(state, RUN);                         \
	}                                                     \
	CONTRACT_ISOLATING(diff_of_##word)                    \
	{                                                     \
		try_pair(state, DIFF);                        \
	}                                                     \
	CONTRACT_ISOLATING(commit_of_##word)                  \
	{                                                     \
		try_pair(state, COMMIT);                      \
	}                                                     \
	CONTRACT_ISOLATING(undo_of_##word)                    \
	{                                                     \
		try_pair(state, UNDO);                        \
	}                                                     \
	CONTRACT_ISOLATING(rollback_of_##word)                \
	{                                                     \
		try_pair(state, ROLLBACK);                    \
	}                                                     \
	CONTRACT_ISOLATING(rollback_of_what_landed_in_##word) \
	{                                                     \
		try_pair(state, ROLLBACK_LANDED);             \
	}                                                     \
	CONTRACT_ISOLATING(removal_of_##word)                 \
	{                                                     \
		try_pair(state, REMOVE);                      \
	}                                                     \
	CONTRACT_ISOLATING(forced_removal_of_##word)          \
	{                                                     \
		try_pair(state, REMOVE_BY_FORCE);             \
	}                                                     \
	CONTRACT_ISOLATING(second_creation_beside_##word)     \
	{                                                     \
		try_pair(state, NEW);                         \
	}

PAIRS(CREATED, a_created_sandbox)
PAIRS(ACTIVE, an_active_sandbox)
PAIRS_ISOLATING(COMMITTED, a_committed_sandbox)
PAIRS_ISOLATING(ROLLED_BACK, a_rolled_back_sandbox)
PAIRS_ISOLATING(UNDONE, an_undone_sandbox)

/* Whatever was done before, a removed sandbox is in no listing and has left nothing. */
CONTRACT(after_removal_nothing_is_left_and_the_name_is_free)
{
	struct atoll_info **list = NULL;
	struct atoll_error err = { 0 };
	AUTO_FREE char *left = NULL;
	size_t n = 1;

	bring_to(ACTIVE);
	CHECK_DONE(operate(REMOVE_BY_FORCE, &err), err);
	CHECK_CODE(operate(REMOVE, &err), -ATOLL_NOT_FOUND, err);
	CHECK_DONE(atoll_list(a, &list, &n, &err), err);
	CHECK_EQ(n, 0);
	atoll_info_list_free(list, n);
	left = manifest("state/boxes");
	CHECK(strchr(left, '\n')[1] == 0);
	free(left);
	left = manifest("state/locks");
	CHECK(strchr(left, '\n')[1] == 0);
	CHECK_DONE(operate(NEW, &err), err);
	CHECK_DONE(operate(REMOVE_BY_FORCE, &err), err);
	atoll_close(a);
}

/* The strategies that serve no directory have the same contract, asked by another suite: none is without. */
TEST(every_strategy_that_serves_no_directory_is_in_the_contract_of_kinds)
{
	AUTO_FREE char *path = str_format("%s/tests/contract/kinds.py", getenv("SRC") ? getenv("SRC") : ".");
	AUTO_FREE char *text = NULL;

	CHECK_OK(fd_read_file(AT_FDCWD, path, 1 << 20, &text, NULL));
	for (size_t i = 0; atoll_strategy_name(i); i++) {
		AUTO_FREE char *quoted = str_format("\"%s\"", atoll_strategy_name(i));

		if (!strategy_find(atoll_strategy_name(i), ATOLL_KIND_DIR))
			CHECK_CONTAINS(text, quoted);
	}
}
