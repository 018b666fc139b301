/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a commit back: what a strategy of the program's own does not declare is not attempted. */
#include "engine/engine.h"
#include "store-scene.h"

static struct strategy_ops mine;
static struct atoll *a;
static struct atoll_error err;

/* copy_on_write in everything but the capability. */
static void register_irreversible(void)
{
	mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);
	mine.name = "mine";
	mine.strength--;
	mine.capabilities &= ~(unsigned)STRATEGY_UNDO_AFTER;
	CHECK_EQ(strategy_register(&mine), 0);
}

static void edit(const struct atoll_resource_info *info)
{
	AUTO_FD fd = open(info->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	tap_write(fd, "file", "new");
}

/* Two directories, the first by the strategy named, with an edit in each, committed. */
static void begin(const char *strategy)
{
	const struct atoll_resource_spec specs[] = { { ATOLL_KIND_DIR, "one", strategy },
						     { ATOLL_KIND_DIR, "two", "copy_on_write" } };
	const struct atoll_new_options options = { .name = "box", .resources = specs, .n_resources = 2 };
	struct atoll_result *result = NULL;
	struct atoll_info *info = NULL;

	CHECK_OK(mkdir("state", 0755));
	CHECK_OK(mkdir("one", 0755));
	CHECK_OK(mkdir("two", 0755));
	tap_write(tap_dirfd, "one/file", "old");
	tap_write(tap_dirfd, "two/file", "old");
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_DONE(atoll_new(a, &options, &info, &err), err);
	edit(&info->resources[0]);
	edit(&info->resources[1]);
	atoll_info_free(info);
	CHECK_DONE(atoll_commit(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "one/file"), "new");
	CHECK_STR(tap_read(tap_dirfd, "two/file"), "new");
}

static void check_refused(int (*call)(struct atoll *, const char *, const struct atoll_undo_options *,
				      struct atoll_result **, struct atoll_error *))
{
	struct atoll_result *result = NULL;

	err = (struct atoll_error){ 0 };
	CHECK_EQ(call(a, "box", &(struct atoll_undo_options){ .landed = true }, &result, &err), -ATOLL_UNSUPPORTED);
	CHECK(!result->success);
	CHECK_EQ(result->n_resources, 2);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_IRREVERSIBLE);
	CHECK_EQ(result->resources[1].outcome, ATOLL_OUTCOME_NOT_ATTEMPTED);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "one/file"), "new");
	CHECK_STR(tap_read(tap_dirfd, "two/file"), "new");
}

TEST(what_does_not_declare_that_it_can_be_undone_is_irreversible_and_nothing_is_touched)
{
	register_irreversible();
	begin("mine");
	check_refused(atoll_undo);
	check_refused(atoll_rollback);
	atoll_close(a);
}

TEST(the_same_with_the_capability_is_undone)
{
	struct atoll_result *result = NULL;

	begin("copy_on_write");
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
	CHECK_STR(tap_read(tap_dirfd, "one/file"), "old");
	CHECK_STR(tap_read(tap_dirfd, "two/file"), "old");
	atoll_close(a);
}
