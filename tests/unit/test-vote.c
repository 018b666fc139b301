/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several participants whose own commits are final: one decides, the others vote. Here each has a ledger: a file of its name with "nothing",
 * "ready", "committed" or "rolled back". Whoever dies, all of them end on one side.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "engine/engine.h"
#include "store-scene.h"

enum { ONE, TWO, THREE, MANY };
enum fate {
	FATE_FINE,
	FATE_VOTE_REFUSED,
	FATE_VOTE_DIES,
	FATE_DECISION_FAILS,
	FATE_DECISION_DIES_BEFORE,
	FATE_DECISION_DIES_AFTER,
	FATE_UNREACHABLE,
	FATE_CONTRADICTED,
	FATE_OVERTAKEN
};

static const char *const names[MANY] = { "one", "two", "three" };
static struct strategy_ops mine;
static struct atoll *a;
static struct atoll_error err;
/* Shared with the child that commits for an ordinary user. */
static struct seen {
	unsigned room[MANY];
	const char *place[MANY];
	enum fate fate[MANY];
	bool files_first, voted_first;
	int ends;
} * seen;

static int index_of(const struct resource *r)
{
	for (int i = 0; i < MANY; i++)
		if (strcmp(path_base_name(r->row.path), names[i]) == 0)
			return i;
	return -1;
}

static enum fate fate_of(const struct resource *r)
{
	return seen->fate[index_of(r)];
}

static void note(const struct resource *r, const char *what)
{
	char name[40];

	snprintf(name, sizeof name, "ledger-%s", names[index_of(r)]);
	tap_write(tap_dirfd, name, what);
}

static bool stands(int index, const char *what)
{
	char name[40];

	snprintf(name, sizeof name, "ledger-%s", names[index]);
	return strcmp(tap_read(tap_dirfd, name), what) == 0;
}

static struct changes *changes_with_rows(struct resource *r, bool exact, struct atoll_error *e)
{
	struct changes *c = changes_new();

	CHECK(changes_add_part(c, "table people", ATOLL_MODIFIED, "rows") != NULL);
	return c;
}

/* OVERTAKEN: somebody replaces the original after it was checked, and before its step. */
static int prepare(struct resource *r, const char *token, struct atoll_error *e)
{
	if (fate_of(r) == FATE_OVERTAKEN) {
		tap_write(tap_dirfd, "other", "theirs");
		CHECK_OK(rename("other", "tree/file"));
	}
	return 0;
}

static int room(struct resource *r, struct strategy_room *ret, struct atoll_error *e)
{
	*ret = (struct strategy_room){ .room = seen->room[index_of(r)] };
	snprintf(ret->place, sizeof ret->place, "%s", seen->place[index_of(r)]);
	snprintf(ret->why, sizeof ret->why, "a setting of %s", names[index_of(r)]);
	return 0;
}

static int vote(struct resource *r, const char *token, struct atoll_error *e)
{
	seen->files_first = strcmp(tap_read(tap_dirfd, "tree/file"), "new") == 0;
	if (fate_of(r) == FATE_VOTE_REFUSED) {
		note(r, "rolled back");
		return error_set(e, ATOLL_REFUSED, 0, "commit", "ledger", "no");
	}
	note(r, "ready");
	if (fate_of(r) == FATE_VOTE_DIES)
		_exit(9);
	return 0;
}

static int decide(struct resource *r, const char *token, struct atoll_error *e)
{
	seen->voted_first = true;
	for (int i = 0; i < MANY; i++)
		seen->voted_first &= i == index_of(r) || stands(i, "ready");
	if (fate_of(r) == FATE_DECISION_DIES_BEFORE)
		_exit(9);
	if (fate_of(r) == FATE_DECISION_FAILS)
		return error_set(e, ATOLL_FAILED, 0, "commit", "ledger", "could not serialize");
	note(r, "committed");
	if (fate_of(r) == FATE_DECISION_DIES_AFTER)
		_exit(9);
	return 0;
}

static int outcome(struct resource *r, const char *token, struct atoll_error *e)
{
	return stands(index_of(r), "committed");
}

static int vote_end(struct resource *r, const char *token, bool committed, struct atoll_error *e)
{
	bool ready = stands(index_of(r), "ready");

	seen->ends++;
	if (fate_of(r) == FATE_UNREACHABLE)
		return error_set(e, ATOLL_IN_DOUBT, 0, "commit", "ledger", "it cannot be reached");
	if (fate_of(r) == FATE_CONTRADICTED) {
		note(r, "rolled back");
		return error_set(e, ATOLL_CONFLICT, 0, "commit", "ledger", "somebody else has rolled it back");
	}
	if (ready)
		note(r, committed ? "committed" : "rolled back");
	return ready && !committed;
}

static void register_voter(void)
{
	mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);
	mine.name = "mine";
	mine.strength--;
	mine.capabilities = (mine.capabilities | STRATEGY_VOTES) & ~(unsigned)STRATEGY_UNDO_AFTER;
	mine.changes = changes_with_rows;
	mine.decide_prepare = prepare;
	mine.decide_commit = decide;
	mine.decide_outcome = outcome;
	mine.vote_prepare = prepare;
	mine.vote_room = room;
	mine.vote = vote;
	mine.vote_end = vote_end;
	CHECK_EQ(strategy_register(&mine), -EINVAL); /* who votes must be able to decide */
	mine.capabilities |= STRATEGY_DECIDES;
	mine.vote_end = NULL;
	CHECK_EQ(strategy_register(&mine), -EINVAL);
	mine.vote_end = vote_end;
	CHECK_EQ(strategy_register(&mine), 0);
}

static void begin(void)
{
	const struct atoll_resource_spec specs[] = { { ATOLL_KIND_DIR, "one", "mine", false },
						     { ATOLL_KIND_DIR, "tree", "copy_on_write", false },
						     { ATOLL_KIND_DIR, "two", "mine", false },
						     { ATOLL_KIND_DIR, "three", "mine", false } };
	const struct atoll_new_options options = { .name = "box",
						   .resources = specs,
						   .n_resources = ARRAY_SIZE(specs) };
	struct atoll_info *info = NULL;

	seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
	register_voter();
	CHECK_OK(mkdir("state", 0755));
	CHECK_OK(mkdir("tree", 0755));
	for (int i = 0; i < MANY; i++) {
		char name[40];

		CHECK_OK(mkdir(names[i], 0755));
		snprintf(name, sizeof name, "ledger-%s", names[i]);
		tap_write(tap_dirfd, name, "nothing");
		seen->room[i] = 5;
		seen->place[i] = "here";
	}
	tap_write(tap_dirfd, "tree/file", "old");
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_DONE(atoll_new(a, &options, &info, &err), err);
	{
		AUTO_FD fd = open(info->resources[1].workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK_OK(fd);
		tap_write(fd, "file", "new");
	}
	atoll_info_free(info);
}

static int commit(struct atoll_result **ret)
{
	err = (struct atoll_error){ 0 };
	return atoll_commit(a, "box", NULL, ret, &err);
}

/* In a child, which dies on the way. */
static void commit_and_die(void)
{
	pid_t pid = fork();
	int status;

	CHECK_OK(pid);
	if (pid == 0) {
		struct atoll_result *result = NULL;

		(void)commit(&result);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < MANY; i++)
		seen->fate[i] = FATE_FINE;
}

static int recover(void)
{
	struct atoll_result **results = NULL;
	size_t n = 0;
	int r;

	err = (struct atoll_error){ 0 };
	r = atoll_recover(a, "box", NULL, &results, &n, &err);
	atoll_result_list_free(results, n);
	return r;
}

static bool all_stand(const char *file, const char *what)
{
	return strcmp(tap_read(tap_dirfd, "tree/file"), file) == 0 && stands(ONE, what) && stands(TWO, what) &&
	       stands(THREE, what);
}

TEST(the_last_one_decides_when_all_others_have_voted_and_the_files_are_in_place)
{
	struct atoll_result *result = NULL;

	begin();
	CHECK_DONE(commit(&result), err);
	CHECK(seen->files_first);
	CHECK(seen->voted_first);
	CHECK(all_stand("new", "committed"));
	CHECK_EQ(result->n_resources, 4);
	for (size_t i = 0; i < 4; i++)
		CHECK_EQ(result->resources[i].outcome, ATOLL_OUTCOME_COMMITTED);
	atoll_result_free(result);
	atoll_close(a);
}

TEST(one_that_cannot_vote_decides_and_two_of_them_are_refused_by_name)
{
	struct atoll_result *result = NULL;

	begin();
	seen->room[ONE] = seen->room[TWO] = 0;
	CHECK_EQ(commit(&result), -ATOLL_REFUSED);
	CHECK(strstr(err.message, "a setting of one") && strstr(err.message, "a setting of two"));
	CHECK(!strstr(err.message, "a setting of three"));
	atoll_result_free(result);
	CHECK(all_stand("old", "nothing"));
	seen->room[TWO] = 2;
	CHECK_DONE(commit(&result), err);
	CHECK(seen->voted_first);
	CHECK(all_stand("new", "committed"));
	atoll_result_free(result);
	atoll_close(a);
}

TEST(those_of_one_place_share_its_room)
{
	struct atoll_result *result = NULL;

	begin();
	seen->room[ONE] = seen->room[TWO] = seen->room[THREE] = 1;
	CHECK_EQ(commit(&result), -ATOLL_REFUSED);
	atoll_result_free(result);
	CHECK(all_stand("old", "nothing"));
	/* One here and one there can vote, so that the other one here can decide. */
	seen->place[THREE] = "there";
	CHECK_DONE(commit(&result), err);
	CHECK(all_stand("new", "committed"));
	atoll_result_free(result);
	atoll_close(a);
}

TEST(a_vote_that_is_refused_rolls_everything_back)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[TWO] = FATE_VOTE_REFUSED;
	CHECK_EQ(commit(&result), -ATOLL_REFUSED);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK(stands(ONE, "rolled back") && stands(TWO, "rolled back") && stands(THREE, "nothing"));
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_ROLLED_BACK);
	CHECK(result->resources[0].cause != NULL); /* it had voted: its edits are lost */
	CHECK(result->resources[3].cause == NULL);
	atoll_result_free(result);
	seen->fate[TWO] = FATE_FINE;
	CHECK_DONE(commit(&result), err);
	CHECK(all_stand("new", "committed"));
	atoll_result_free(result);
	atoll_close(a);
}

TEST(a_decision_that_fails_rolls_back_those_that_have_voted)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[THREE] = FATE_DECISION_FAILS;
	CHECK_EQ(commit(&result), -ATOLL_FAILED);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK(stands(ONE, "rolled back") && stands(TWO, "rolled back") && stands(THREE, "nothing"));
	atoll_close(a);
}

TEST(where_nobody_was_asked_to_vote_nobody_is_told)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[ONE] = FATE_OVERTAKEN;
	CHECK_EQ(commit(&result), -ATOLL_CONFLICT);
	atoll_result_free(result);
	CHECK_EQ(seen->ends, 0);
	CHECK(all_stand("theirs", "nothing"));
	CHECK_DONE(recover(), err);
	atoll_close(a);
}

TEST(dead_before_the_decision_everything_goes_back)
{
	static const struct {
		int who;
		enum fate fate;
	} deaths[] = { { ONE, FATE_VOTE_DIES }, { TWO, FATE_VOTE_DIES }, { THREE, FATE_DECISION_DIES_BEFORE } };

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(deaths); i++) {
		seen->fate[deaths[i].who] = deaths[i].fate;
		commit_and_die();
		CHECK(stands(ONE, "ready"));
		CHECK_DONE(recover(), err);
		CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
		CHECK(stands(ONE, "rolled back") && !stands(TWO, "ready") && stands(THREE, "nothing"));
		CHECK_DONE(recover(), err);
	}
	atoll_close(a);
}

TEST(dead_after_the_decision_everything_goes_forward)
{
	begin();
	seen->fate[THREE] = FATE_DECISION_DIES_AFTER;
	commit_and_die();
	CHECK(stands(ONE, "ready") && stands(TWO, "ready") && stands(THREE, "committed"));
	CHECK_DONE(recover(), err);
	CHECK(all_stand("new", "committed"));
	CHECK_DONE(recover(), err);
	CHECK(all_stand("new", "committed"));
	atoll_close(a);
}

TEST(one_that_cannot_be_told_is_in_doubt_until_it_is_and_the_others_are_told)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[ONE] = FATE_UNREACHABLE;
	CHECK_EQ(commit(&result), -ATOLL_IN_DOUBT);
	CHECK_CONTAINS(err.message, "is decided, but");
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_IN_DOUBT);
	CHECK_EQ(result->resources[1].outcome, ATOLL_OUTCOME_COMMITTED);
	CHECK_EQ(result->resources[2].outcome, ATOLL_OUTCOME_COMMITTED);
	atoll_result_free(result);
	CHECK(stands(ONE, "ready") && stands(TWO, "committed") && stands(THREE, "committed"));
	CHECK_EQ(recover(), -ATOLL_IN_DOUBT);
	CHECK_EQ(commit(&result), -ATOLL_IN_DOUBT);
	atoll_result_free(result);
	seen->fate[ONE] = FATE_FINE;
	CHECK_DONE(recover(), err);
	CHECK(all_stand("new", "committed"));
	atoll_close(a);
}

TEST(one_that_cannot_be_told_to_roll_back_is_told_later)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[ONE] = FATE_UNREACHABLE;
	seen->fate[THREE] = FATE_DECISION_FAILS;
	CHECK_EQ(commit(&result), -ATOLL_IN_DOUBT);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_IN_DOUBT);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK_EQ(recover(), -ATOLL_IN_DOUBT);
	seen->fate[ONE] = seen->fate[THREE] = FATE_FINE;
	CHECK_DONE(recover(), err);
	CHECK(stands(ONE, "rolled back") && stands(TWO, "rolled back") && stands(THREE, "nothing"));
	atoll_close(a);
}

TEST(what_somebody_else_has_ended_otherwise_is_named_once_and_nothing_waits_for_it)
{
	struct atoll_result *result = NULL;

	begin();
	seen->fate[ONE] = FATE_CONTRADICTED;
	CHECK_EQ(commit(&result), -ATOLL_IN_DOUBT);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_ROLLED_BACK);
	CHECK_EQ(result->resources[3].outcome, ATOLL_OUTCOME_COMMITTED);
	atoll_result_free(result);
	CHECK(stands(ONE, "rolled back") && stands(TWO, "committed") && stands(THREE, "committed"));
	CHECK_DONE(recover(), err);
	atoll_close(a);
}
