/* SPDX-License-Identifier: Apache-2.0 */
/* Parts: what a strategy lands by its own doing takes its place in the protocol, here for one whose part is the file "value". */
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "engine/engine.h"
#include "store-scene.h"

static struct strategy_ops mine;
static struct atoll *a;
static struct atoll_error err;
static int fail_prepare, fail_move; /* a code to answer with */
/* Shared with the child that commits for an ordinary user. */
static struct seen {
	bool file_first, locked;
	int ended;
} * seen;

static struct changes *changes_with_part(struct resource *r, bool exact, struct atoll_error *e)
{
	struct changes *c = strategy_find("copy_on_write", ATOLL_KIND_DIR)->changes(r, exact, e);

	CHECK(c && changes_add_part(c, "value of it", ATOLL_MODIFIED, tap_read(tap_dirfd, "value")));
	return c;
}

static int prepare(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *e)
{
	if (fail_prepare) {
		CHECK_EQ(q->tell(q->tell_arg, ATOLL_ITEM_CONFLICT, "value of it", "is somebody else's"), 0);
		return error_set(e, fail_prepare, 0, "commit", "value", "not now");
	}
	CHECK_EQ(q->dry, dir_fd < 0);
	if (q->dry)
		return 1;
	seen->locked = true;
	tap_write(dir_fd, "new", q->message ? q->message : "nothing");
	tap_write(dir_fd, "old", tap_read(tap_dirfd, "value"));
	return 1;
}

static int side(struct resource *r, int dir_fd, struct atoll_error *e)
{
	AUTO_FREE char *now = strdup(tap_read(tap_dirfd, "value"));

	if (strcmp(now, tap_read(dir_fd, "new")) == 0)
		return PART_NEW;
	if (strcmp(now, tap_read(dir_fd, "old")) == 0)
		return PART_OLD;
	(void)error_set(e, ATOLL_CONFLICT, 0, "commit", "value", "is %s", now);
	return PART_FOREIGN;
}

static int move(struct resource *r, int dir_fd, bool forward, struct atoll_error *e)
{
	if (forward)
		seen->file_first = strcmp(tap_read(tap_dirfd, "tree/file"), "new") == 0;
	if (forward && fail_move)
		return error_set(e, fail_move, 0, "commit", "value", "cannot");
	tap_write(tap_dirfd, "value", tap_read(dir_fd, forward ? "new" : "old"));
	return 0;
}

static int end(struct resource *r, int dir_fd, struct atoll_error *e)
{
	seen->ended++;
	seen->locked = false;
	return 0;
}

static bool left(struct resource *r)
{
	return seen->locked;
}

/* A directory "tree" by copy_on_write and, beside it, the part; with an edit of the file in the sandbox. */
static void begin(void)
{
	const struct atoll_resource_spec spec = { ATOLL_KIND_DIR, "tree", "mine" };
	const struct atoll_new_options options = { .name = "box", .resources = &spec, .n_resources = 1 };
	struct atoll_info *info = NULL;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
	mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);
	mine.name = "mine";
	mine.strength--;
	mine.capabilities |= STRATEGY_PART;
	CHECK_EQ(strategy_register(&mine), -EINVAL); /* it lacks what a part must provide */
	mine.part_name = "value";
	mine.changes = changes_with_part;
	mine.part_prepare = prepare;
	mine.part_side = side;
	mine.part_move = move;
	mine.part_end = end;
	mine.part_left = left;
	CHECK_EQ(strategy_register(&mine), 0);
	CHECK_OK(mkdir("state", 0755));
	CHECK_OK(mkdir("tree", 0755));
	tap_write(tap_dirfd, "tree/file", "old");
	tap_write(tap_dirfd, "value", "1");
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_DONE(atoll_new(a, &options, &info, &err), err);
	{
		AUTO_FD fd = open(info->resources[0].workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK_OK(fd);
		tap_write(fd, "file", "new");
	}
	atoll_info_free(info);
}

static int commit(const char *message, struct atoll_result **ret)
{
	err = (struct atoll_error){ 0 };
	return atoll_commit(a, "box", &(struct atoll_commit_options){ .message = message }, ret, &err);
}

static void check_state(const char *file, const char *value)
{
	CHECK_STR(tap_read(tap_dirfd, "tree/file"), file);
	CHECK_STR(tap_read(tap_dirfd, "value"), value);
	CHECK(!seen->locked);
}

TEST(a_part_lands_after_the_files_and_an_undo_takes_both_back)
{
	struct atoll_result *result = NULL;

	begin();
	CHECK_DONE(commit("2", &result), err);
	CHECK(seen->file_first);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_COMMITTED);
	atoll_result_free(result);
	check_state("new", "2");
	CHECK_EQ(seen->ended, 1);
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
	check_state("old", "1");
	CHECK_DONE(commit("3", &result), err);
	atoll_result_free(result);
	check_state("new", "3");
	atoll_close(a);
}

TEST(a_part_that_refuses_leaves_everything_as_it_was_and_drops_its_locks)
{
	struct atoll_result *result = NULL;

	begin();
	fail_prepare = ATOLL_CONFLICT;
	CHECK_EQ(commit("2", &result), -ATOLL_CONFLICT);
	CHECK_EQ(result->n_items > 0, true);
	atoll_result_free(result);
	check_state("old", "1");
	fail_prepare = 0;
	CHECK_DONE(commit("2", &result), err);
	atoll_result_free(result);
	check_state("new", "2");
	atoll_close(a);
}

TEST(a_part_that_cannot_be_moved_takes_the_files_back_and_tells_why)
{
	static const int codes[] = { ATOLL_FAILED, ATOLL_CONFLICT, ATOLL_BUSY, ATOLL_NO_SPACE };
	struct atoll_result *result = NULL;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		fail_move = codes[i];
		CHECK_EQ(commit("2", &result), -codes[i]);
		CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_ROLLED_BACK);
		atoll_result_free(result);
		check_state("old", "1");
	}
	fail_move = 0;
	CHECK_DONE(commit("2", &result), err);
	atoll_result_free(result);
	check_state("new", "2");
	atoll_close(a);
}

TEST(what_somebody_else_made_of_it_since_the_commit_is_not_taken_back)
{
	struct atoll_result *result = NULL;

	begin();
	CHECK_DONE(commit("2", &result), err);
	atoll_result_free(result);
	tap_write(tap_dirfd, "value", "theirs");
	CHECK_EQ(atoll_undo(a, "box", NULL, &result, &err), -ATOLL_CONFLICT);
	CHECK_EQ(result->n_items, 1);
	CHECK_STR(result->items[0].path, "value");
	CHECK_STR(result->items[0].note, "is theirs");
	atoll_result_free(result);
	check_state("new", "theirs");
	atoll_close(a);
}

static int note_words(const struct atoll_change *change, void *arg)
{
	if (strcmp(change->path, "value of it") == 0)
		snprintf(arg, 16, "%s", change->note);
	return 0;
}

TEST(whoever_asks_for_the_changes_is_told_in_the_words_of_the_part)
{
	char words[16] = "";

	begin();
	CHECK_DONE(atoll_changes(a, "box", NULL, note_words, words, &err), err);
	CHECK_STR(words, "1");
	atoll_close(a);
}

TEST(a_dry_run_prepares_nothing_and_lists_the_part)
{
	struct atoll_result *result = NULL;
	bool listed = false;

	begin();
	CHECK_DONE(atoll_commit(a, "box", &(struct atoll_commit_options){ .dry_run = true }, &result, &err), err);
	for (size_t i = 0; i < result->n_items; i++)
		listed |= result->items[i].kind == ATOLL_ITEM_STEP && strcmp(result->items[i].path, "value") == 0;
	CHECK(listed);
	atoll_result_free(result);
	check_state("old", "1");
	CHECK_EQ(seen->ended, 0);
	atoll_close(a);
}

TEST(a_lock_that_a_killed_commit_left_is_dropped_by_whoever_opens_the_sandbox_next)
{
	struct atoll_result *result = NULL;

	begin();
	seen->locked = true;
	CHECK_DONE(atoll_rollback(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
	check_state("old", "1");
	atoll_close(a);
}

TEST(a_part_of_a_resource_with_a_part_cannot_be_chosen)
{
	struct atoll_result *result = NULL;
	const char *path = "tree/file";

	begin();
	CHECK_EQ(atoll_commit(a, "box", &(struct atoll_commit_options){ .selection = { &path, 1 } }, &result, &err),
		 -ATOLL_REFUSED);
	atoll_result_free(result);
	check_state("old", "1");
	atoll_close(a);
}
