/* SPDX-License-Identifier: Apache-2.0 */
/* A participant whose own commit is the decision, here one that notes it in the file "ledger": whoever dies around it, all of them stand on one side. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "engine/engine.h"
#include "store-scene.h"

enum fate { FATE_FINE, FATE_REFUSED, FATE_FAILS, FATE_UNKNOWN, FATE_DIES_BEFORE, FATE_DIES_AFTER, FATE_UNREACHABLE };

static struct strategy_ops mine;
static struct atoll *a;
static struct atoll_error err;
/* Shared with the child that commits for an ordinary user. */
static struct seen {
	enum fate fate;
	bool file_first;
	int ended, committed;
} * seen;

static struct changes *changes_with_rows(struct resource *r, bool exact, struct atoll_error *e)
{
	struct changes *c = changes_new();
	struct change *rows = c ? changes_add(c, "table people", ATOLL_MODIFIED) : NULL;

	CHECK(rows != NULL);
	rows->part = true;
	return c;
}

static int prepare(struct resource *r, const char *token, struct atoll_error *e)
{
	return seen->fate == FATE_REFUSED ? error_set(e, ATOLL_REFUSED, 0, "commit", "ledger", "a constraint") : 0;
}

static int commit_it(struct resource *r, const char *token, struct atoll_error *e)
{
	seen->file_first = strcmp(tap_read(tap_dirfd, "tree/file"), "new") == 0;
	if (seen->fate == FATE_DIES_BEFORE)
		_exit(9);
	if (seen->fate == FATE_FAILS)
		return error_set(e, ATOLL_FAILED, 0, "commit", "ledger", "could not serialize");
	tap_write(tap_dirfd, "ledger", token);
	if (seen->fate == FATE_DIES_AFTER)
		_exit(9);
	if (seen->fate == FATE_UNKNOWN)
		return error_set(e, ATOLL_IN_DOUBT, 0, "commit", "ledger", "the connection was lost");
	return 0;
}

static int outcome(struct resource *r, const char *token, struct atoll_error *e)
{
	if (seen->fate == FATE_UNREACHABLE)
		return error_set(e, ATOLL_IN_DOUBT, 0, "recover", "ledger", "it cannot be reached");
	return strcmp(tap_read(tap_dirfd, "ledger"), token) == 0;
}

static int end(struct resource *r, const char *token, bool committed, struct atoll_error *e)
{
	seen->ended++;
	seen->committed += committed;
	return 0;
}

static void register_decider(void)
{
	mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);
	mine.name = "mine";
	mine.strength--;
	mine.capabilities |= STRATEGY_DECIDES;
	mine.changes = changes_with_rows;
	mine.decide_prepare = prepare;
	mine.decide_commit = commit_it;
	mine.decide_outcome = outcome;
	mine.decide_end = end;
	CHECK_EQ(strategy_register(&mine), -EINVAL); /* what is final is not taken back */
	mine.capabilities &= ~(unsigned)STRATEGY_UNDO_AFTER;
	CHECK_EQ(strategy_register(&mine), 0);
}

/* A directory "tree" with an edit, and one or two that decide. */
static void begin(size_t deciders)
{
	const struct atoll_resource_spec specs[] = { { ATOLL_KIND_DIR, "one", "mine", false },
						     { ATOLL_KIND_DIR, "tree", "copy_on_write", false },
						     { ATOLL_KIND_DIR, "two", "mine", false } };
	const struct atoll_new_options options = { .name = "box", .resources = specs, .n_resources = 1 + deciders };
	struct atoll_info *info = NULL;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
	register_decider();
	CHECK_OK(mkdir("state", 0755));
	CHECK_OK(mkdir("tree", 0755));
	CHECK_OK(mkdir("one", 0755));
	CHECK_OK(mkdir("two", 0755));
	tap_write(tap_dirfd, "tree/file", "old");
	tap_write(tap_dirfd, "ledger", "nothing");
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_DONE(atoll_new(a, &options, &info, &err), err);
	{
		AUTO_FD fd = open(info->resources[1].workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK_OK(fd);
		tap_write(fd, "file", "new");
	}
	atoll_info_free(info);
}

static int commit(enum fate fate, struct atoll_result **ret)
{
	seen->fate = fate;
	err = (struct atoll_error){ 0 };
	return atoll_commit(a, "box", NULL, ret, &err);
}

/* In a child, which dies on the way. */
static void commit_and_die(enum fate fate)
{
	pid_t pid = fork();
	int status;

	CHECK_OK(pid);
	if (pid == 0) {
		struct atoll_result *result = NULL;

		(void)commit(fate, &result);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
}

static int recover(enum fate fate)
{
	struct atoll_result **results = NULL;
	size_t n = 0;
	int r;

	seen->fate = fate;
	err = (struct atoll_error){ 0 };
	r = atoll_recover(a, "box", NULL, &results, &n, &err);
	atoll_result_list_free(results, n);
	return r;
}

static bool is_committed(void)
{
	return strcmp(tap_read(tap_dirfd, "ledger"), "nothing") != 0;
}

TEST(it_decides_when_all_else_is_in_place_and_cannot_be_taken_back)
{
	struct atoll_result *result = NULL;

	begin(1);
	CHECK_DONE(commit(FATE_FINE, &result), err);
	atoll_result_free(result);
	CHECK(seen->file_first);
	CHECK(is_committed());
	CHECK_EQ(seen->ended, 1);
	CHECK_EQ(seen->committed, 1);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	CHECK_EQ(atoll_undo(a, "box", NULL, &result, &err), -ATOLL_UNSUPPORTED);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	atoll_close(a);
}

static int undo_only(const char *name, struct atoll_result **ret)
{
	err = (struct atoll_error){ 0 };
	return atoll_undo(a, "box", &(struct atoll_undo_options){ .only = &name, .n_only = 1 }, ret, &err);
}

TEST(what_landed_with_it_is_taken_back_alone_if_that_is_asked_for)
{
	struct atoll_result *result = NULL;

	begin(1);
	CHECK_DONE(commit(FATE_FINE, &result), err);
	atoll_result_free(result);
	CHECK_EQ(undo_only("nothing of the kind", &result), -ATOLL_NOT_FOUND);
	atoll_result_free(result);
	CHECK_EQ(undo_only("1", &result), -ATOLL_UNSUPPORTED);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	CHECK_DONE(undo_only("tree", &result), err);
	CHECK_EQ(result->resources[1].outcome, ATOLL_OUTCOME_ROLLED_BACK);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK(is_committed());
	/* The edits are there again, and that commit is none to be taken back any more. */
	CHECK_EQ(atoll_undo(a, "box", NULL, &result, &err), -ATOLL_NOT_FOUND);
	atoll_result_free(result);
	CHECK_DONE(commit(FATE_FINE, &result), err);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	atoll_close(a);
}

TEST(a_refusal_or_a_failed_commit_of_it_leaves_everything_as_it_was_and_can_be_repeated)
{
	static const enum fate fates[] = { FATE_REFUSED, FATE_FAILS };
	struct atoll_result *result = NULL;

	begin(1);
	for (size_t i = 0; i < ARRAY_SIZE(fates); i++) {
		CHECK(commit(fates[i], &result) < 0);
		atoll_result_free(result);
		CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
		CHECK(!is_committed());
		CHECK_EQ(seen->committed, 0);
	}
	CHECK_DONE(commit(FATE_FINE, &result), err);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	atoll_close(a);
}

TEST(dead_before_it_has_decided_everything_goes_back)
{
	begin(1);
	commit_and_die(FATE_DIES_BEFORE);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new"); /* applied, and not decided */
	CHECK_DONE(recover(FATE_FINE), err);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK(!is_committed());
	CHECK_DONE(recover(FATE_FINE), err);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	atoll_close(a);
}

TEST(dead_after_it_has_decided_everything_goes_forward)
{
	begin(1);
	commit_and_die(FATE_DIES_AFTER);
	CHECK(is_committed());
	CHECK_DONE(recover(FATE_FINE), err);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	CHECK_EQ(seen->committed, 1);
	CHECK_DONE(recover(FATE_FINE), err);
	CHECK_EQ(seen->committed, 1);
	atoll_close(a);
}

TEST(while_it_cannot_be_asked_the_commit_is_in_doubt_and_nothing_is_guessed)
{
	struct atoll_result *result = NULL;

	begin(1);
	CHECK_EQ(commit(FATE_UNKNOWN, &result), -ATOLL_IN_DOUBT);
	atoll_result_free(result);
	CHECK_EQ(recover(FATE_UNREACHABLE), -ATOLL_IN_DOUBT);
	CHECK_EQ(commit(FATE_UNREACHABLE, &result), -ATOLL_IN_DOUBT);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	CHECK_EQ(seen->ended, 0);
	CHECK_DONE(recover(FATE_FINE), err);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "new");
	CHECK_EQ(seen->committed, 1);
	atoll_close(a);
}

TEST(of_two_with_changes_none_can_decide_alone_and_the_commit_is_refused)
{
	struct atoll_result *result = NULL;

	begin(2);
	CHECK_EQ(commit(FATE_FINE, &result), -ATOLL_REFUSED);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), "old");
	CHECK(!is_committed());
	atoll_close(a);
}
