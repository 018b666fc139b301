/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit protocol in several threads of one process, without a command inside: for the thread sanitizer, whose own thread keeps a process from
 * entering user namespaces. The edits are written into the workspace of a copy, which is a plain directory.
 */
#include <pthread.h>
#include <stdatomic.h>

#define TAP_SECONDS 240
#include "../contract/contract.h"
#include "base/fork-gate.h"

#define ROUNDS 6

/* Replaces one file of a sandbox's copy, and adds one. For an ordinary user a commit is done by a child; one that another thread forks just
 * now would have the file open for writing too. */
static void edit(const char *name, int round)
{
	struct atoll_error err = { 0 };
	struct atoll_info *info = NULL;
	char text[32];

	CHECK_DONE(atoll_show(a, name, &info, &err), err);
	AUTO_FD fd = open(info->resources[0].workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	snprintf(text, sizeof text, "round %d\n", round);
	fork_gate_enter();
	tap_write(fd, "one", text);
	tap_write(fd, "dir/added", text);
	fork_gate_leave();
	atoll_info_free(info);
}

static int count_change(const struct atoll_change *change, void *arg)
{
	(void)change;
	++*(int *)arg;
	return 0;
}

static void check_changes(const char *name, bool any)
{
	struct atoll_error err = { 0 };
	int n = 0;

	CHECK_DONE(atoll_changes(a, name, NULL, count_change, &n, &err), err);
	CHECK_EQ(n > 0, any);
}

/* A sandbox is made, committed, taken back, committed again, rolled back and removed. */
static void *live(void *arg)
{
	const char *name = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct atoll_error err = { 0 };
		struct atoll_result *result = NULL;

		CHECK_DONE(scene_try_new(name, name, "copy_on_write", &err), err);
		edit(name, i);
		check_changes(name, true);
		CHECK_DONE(atoll_commit(a, name, NULL, &result, &err), err);
		result = atoll_result_free(result);
		check_changes(name, false);
		CHECK_DONE(atoll_undo(a, name, NULL, &result, &err), err);
		result = atoll_result_free(result);
		check_changes(name, true);
		CHECK_DONE(atoll_commit(a, name, NULL, &result, &err), err);
		result = atoll_result_free(result);
		CHECK_DONE(atoll_rollback(a, name, &(struct atoll_undo_options){ .landed = true }, &result, &err), err);
		result = atoll_result_free(result);
		CHECK_DONE(atoll_remove(a, name, &(struct atoll_remove_options){ .force = true }, &err), err);
	}
	return NULL;
}

TEST(threads_with_sandboxes_of_their_own_commit_at_the_same_time)
{
	static char names[3][8] = { "first", "second", "third" };
	AUTO_FREE char *old = NULL;
	pthread_t threads[ARRAY_SIZE(names)];

	scene_open();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		scene_tree(names[i]);
	old = manifest("first");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, live, names[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check_manifest(names[i], old);
	atoll_close(a);
}

static atomic_int landed, returned;

/* Commits and takes back in turn; whoever has the sandbox just now keeps the others waiting, or busy. */
static void *contend(void *arg)
{
	for (int i = 0; i < ROUNDS * 2; i++) {
		struct atoll_commit_options options = { .wait_ms = i % 2 ? 5000 : 0 };
		struct atoll_undo_options undo = { .wait_ms = options.wait_ms };
		struct atoll_result *result = NULL;
		struct atoll_info *info = NULL;
		struct atoll_error err = { 0 };
		int r = atoll_commit(a, "box", &options, &result, &err);

		CHECK(r == 0 || r == -ATOLL_BUSY);
		landed += r == 0 && result->commit > 0;
		result = atoll_result_free(result);
		r = atoll_undo(a, "box", &undo, &result, &err);
		CHECK(r == 0 || r == -ATOLL_BUSY || r == -ATOLL_NOT_FOUND);
		returned += r == 0;
		atoll_result_free(result);
		CHECK_DONE(atoll_show(a, "box", &info, &err), err);
		atoll_info_free(info);
	}
	return arg;
}

TEST(threads_with_one_sandbox_land_and_take_back_one_after_the_other)
{
	struct atoll_error err = { 0 };
	struct atoll_result *result = NULL;
	AUTO_FREE char *old = NULL;
	pthread_t threads[3];

	scene_open();
	scene_tree("original");
	old = manifest("original");
	CHECK_DONE(scene_try_new("box", "original", "copy_on_write", &err), err);
	edit("box", 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, contend, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(landed > 0 && landed - returned >= 0 && landed - returned <= 1);
	if (landed > returned)
		CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
	check_manifest("original", old);
	CHECK_DONE(atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err), err);
	atoll_close(a);
}
