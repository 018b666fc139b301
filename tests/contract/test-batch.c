/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox over several resources: all of it or nothing, in which order, and what is refused. For every strategy. */
#include <pthread.h>

#include "contract.h"
#include "store/store.h"

static struct atoll_result *result;
static struct atoll_error err;

static int commit_with(const struct atoll_commit_options *options)
{
	result = atoll_result_free(result);
	err = (struct atoll_error){ 0 };
	return atoll_commit(a, "box", options, &result, &err);
}

static int try_batch(size_t n, const char *const *paths, const char *const *strategies)
{
	struct atoll_resource_spec specs[8];

	for (size_t i = 0; i < n; i++)
		specs[i] = (struct atoll_resource_spec){ ATOLL_KIND_DIR, paths[i],
							 strategies ? strategies[i] : tap_variant };
	return atoll_new(a, &(struct atoll_new_options){ .name = "box", .resources = specs, .n_resources = n }, NULL,
			 &err);
}

static void begin_three(void)
{
	scene_open();
	scene_tree("x");
	scene_tree("y");
	scene_tree("z");
	CHECK_DONE(try_batch(3, (const char *const[]){ "x", "y", "z" }, NULL), err);
}

static void check_each_once(size_t n)
{
	CHECK_EQ(result->n_resources, n);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(result->resources[i].seq, i + 1);
}

/* C-01, C-06, C-15: a conflict in any one of them, then its cause is taken away and the same call again. */
CONTRACT_ISOLATING(a_conflict_in_one_resource_stops_all_and_a_second_commit_lands_all)
{
	static const char *const names[] = { "x/one", "y/one", "z/one" };
	static const char *const asides[] = { "x/aside", "y/aside", "z/aside" };
	static const char *const trees[] = { "x", "y", "z" };

	begin_three();
	for (size_t bad = 0; bad < 3; bad++) {
		char *before[3];

		scene_run("for t in x y z; do echo edit >> $t/one; rm -f $t/two; mkdir -p $t/new; done");
		/* Somebody else replaces the file; afterwards the very inode is put back. */
		CHECK_OK(rename(names[bad], asides[bad]));
		tap_write(tap_dirfd, names[bad], "foreign");
		for (size_t i = 0; i < 3; i++)
			before[i] = manifest(trees[i]);
		CHECK_CODE(commit_with(NULL), -ATOLL_CONFLICT, err);
		CHECK(!result->success);
		check_each_once(3);
		for (size_t i = 0; i < 3; i++) {
			CHECK(result->resources[i].outcome != ATOLL_OUTCOME_COMMITTED);
			check_manifest(trees[i], before[i]);
			free(before[i]);
		}
		CHECK_OK(unlink(names[bad]));
		CHECK_OK(rename(asides[bad], names[bad]));
	}
	/* The names came and went: what was put back is still not what the sandbox began with, so it is said or landed, never lost. */
	if (commit_with(NULL) == -ATOLL_CONFLICT)
		CHECK_DONE(commit_with(&(struct atoll_commit_options){ .on_conflict = ATOLL_ON_CONFLICT_OURS }), err);
	check_each_once(3);
	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ(result->resources[i].outcome, ATOLL_OUTCOME_COMMITTED);
		CHECK_CONTAINS(tap_read(tap_dirfd, names[i]), "edit");
	}
}

/* C-15, with a cause that leaves no trace: a writer in one workspace. */
CONTRACT_ISOLATING(after_a_failed_commit_the_same_call_lands_everything_once_the_cause_is_gone)
{
	struct atoll_info *info = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *before = NULL;
	AUTO_FD writer = -EBADF;

	begin_three();
	scene_run("for t in x y z; do echo edit > $t/one; done");
	before = manifest("x");
	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	path = str_format("%s/one", info->resources[1].workspace);
	atoll_info_free(info);
	writer = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_OK(writer);
	CHECK_CODE(commit_with(NULL), -ATOLL_BUSY, err);
	check_each_once(3);
	check_manifest("x", before);
	writer = fd_close(writer);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "edit\n");
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "edit\n");
	CHECK_STR(tap_read(tap_dirfd, "z/one"), "edit\n");
}

CONTRACT_ISOLATING(a_batch_is_committed_undone_and_rolled_back_as_one_and_each_is_reported_once)
{
	AUTO_FREE char *old = NULL;

	begin_three();
	old = manifest("z");
	scene_run("echo 1 > x/one; rm z/two");
	CHECK_DONE(commit_with(NULL), err);
	check_each_once(3);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_COMMITTED);
	CHECK_EQ(result->resources[1].outcome, ATOLL_OUTCOME_UNCHANGED);
	CHECK_EQ(result->resources[2].outcome, ATOLL_OUTCOME_COMMITTED);
	result = atoll_result_free(result);
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	check_each_once(3);
	check_manifest("z", old);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "one\n");
	CHECK_DONE(commit_with(NULL), err);
	result = atoll_result_free(result);
	CHECK_CODE(atoll_rollback(a, "box", NULL, &result, &err), -ATOLL_REFUSED, err);
	check_each_once(3);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "1\n");
	result = atoll_result_free(result);
	CHECK_DONE(atoll_rollback(a, "box", &(struct atoll_undo_options){ .landed = true }, &result, &err), err);
	check_each_once(3);
	check_manifest("z", old);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "one\n");
	CHECK_EQ(scene_pending(), 0);
}

CONTRACT_ISOLATING(a_commit_of_one_resource_leaves_the_others_edits_for_the_next)
{
	const char *const paths[] = { "x" };

	begin_three();
	scene_run("echo 1 > x/one; echo 1 > y/one");
	CHECK_DONE(commit_with(&(struct atoll_commit_options){ .selection = { paths, 1 } }), err);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "1\n");
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "one\n");
	CHECK_EQ(scene_pending(), 1);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "1\n");
	result = atoll_result_free(result);
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "1\n");
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "one\n");
}

/* C-13: rollback after only a part was committed still covers every resource. */
CONTRACT_ISOLATING(rollback_covers_committed_and_active_resources_alike)
{
	const char *const paths[] = { "x" };

	begin_three();
	scene_run("echo 1 > x/one; echo 1 > y/one");
	CHECK_DONE(commit_with(&(struct atoll_commit_options){ .selection = { paths, 1 } }), err);
	result = atoll_result_free(result);
	CHECK_DONE(atoll_rollback(a, "box", NULL, &result, &err), err);
	check_each_once(3);
	CHECK_EQ(scene_pending(), 0);
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "one\n");
	scene_run("test \"$(cat y/one)\" = one");
}

/* C-09, K-13 */
CONTRACT_ISOLATING(beside_one_that_is_not_isolated_commit_is_refused_unless_permissive)
{
	const char *const strategies[] = { tap_variant, "none" };
	AUTO_FREE char *before = NULL;

	scene_open();
	scene_tree("x");
	scene_tree("y");
	before = manifest("x");
	CHECK_DONE(try_batch(2, (const char *const[]){ "x", "y" }, strategies), err);
	scene_run("echo 1 > x/one; echo 1 > y/one");
	CHECK_CODE(commit_with(NULL), -ATOLL_REFUSED, err);
	check_manifest("x", before);
	CHECK_DONE(commit_with(&(struct atoll_commit_options){ .permissive = true }), err);
	CHECK(!result->atomic);
	check_each_once(2);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_COMMITTED);
	CHECK_EQ(result->resources[1].outcome, ATOLL_OUTCOME_NOT_ISOLATED);
	CHECK_STR(tap_read(tap_dirfd, "x/one"), "1\n");
}

/* C-10, C-11: read from the journal, for two orders of creation. */
static void check_journal_order(const int *wanted, size_t n)
{
	struct store_step *steps = NULL;
	struct store_op *ops = NULL;
	struct store *s = NULL;
	size_t n_ops = 0, n_steps = 0, at = 0;
	struct store_resource *rows = NULL;
	size_t n_rows = 0;

	CHECK_DONE(store_open(atoll_state_dir(a), &s, &err), err);
	CHECK_DONE(store_op_list(s, 0, &ops, &n_ops, &err), err);
	CHECK_EQ(n_ops, 1);
	CHECK_DONE(store_resource_list(s, ops[0].sandbox, &rows, &n_rows, &err), err);
	CHECK_DONE(store_steps_list(s, ops[0].id, &steps, &n_steps, &err), err);
	/* The order in which the resources first appear. */
	for (size_t i = 0; i < n_steps; i++) {
		int seq = 0;

		for (size_t k = 0; k < n_rows; k++)
			if (rows[k].id == steps[i].resource)
				seq = rows[k].seq;
		if (at < n && seq == wanted[at])
			at++;
		else if (at == 0 || seq != wanted[at - 1])
			tap_fail(__FILE__, __LINE__, "resource %d has its turn at step %zu", seq, i);
	}
	CHECK_EQ(at, n);
	for (size_t k = 0; k < n_rows; k++)
		store_resource_release(&rows[k]);
	free(rows);
	store_steps_free(steps, n_steps);
	store_ops_free(ops, n_ops);
	store_close(s);
}

static void commit_nested(const char *const *paths, const int *order)
{
	AUTO_FREE char *old = NULL;

	scene_open();
	scene_tree("p");
	scene_tree("p/c");
	scene_tree("q");
	old = manifest("p");
	CHECK_DONE(try_batch(3, paths, NULL), err);
	scene_run("echo 1 > p/one; echo 2 > p/c/one; echo 3 > q/one");
	check_manifest("p", old);
	CHECK_DONE(commit_with(NULL), err);
	check_each_once(3);
	CHECK_STR(tap_read(tap_dirfd, "p/one"), "1\n");
	CHECK_STR(tap_read(tap_dirfd, "p/c/one"), "2\n");
	CHECK_STR(tap_read(tap_dirfd, "q/one"), "3\n");
	check_journal_order(order, 3);
	result = atoll_result_free(result);
	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	check_manifest("p", old);
}

CONTRACT_ISOLATING(a_nested_resource_lands_before_the_one_around_it)
{
	commit_nested((const char *const[]){ "p", "q", "p/c" }, (const int[]){ 3, 1, 2 });
}

CONTRACT_ISOLATING(a_nested_resource_named_first_lands_first)
{
	commit_nested((const char *const[]){ "q", "p/c", "p" }, (const int[]){ 1, 2, 3 });
}

/* C-21 */
CONTRACT(the_same_original_twice_is_refused_and_nothing_is_left)
{
	struct atoll_info **list = NULL;
	size_t n = 1;

	scene_open();
	scene_tree("x");
	CHECK_CODE(try_batch(2, (const char *const[]){ "x", "x/../x" }, NULL), -ATOLL_REFUSED, err);
	CHECK_DONE(atoll_list(a, &list, &n, &err), err);
	CHECK_EQ(n, 0);
	atoll_info_list_free(list, n);
}

/* A-13, B-05, J-24: each failure of creation leaves nothing, and the name can be used. */
CONTRACT(a_creation_that_fails_leaves_nothing)
{
	AUTO_FREE char *left = NULL;
	AUTO_FREE char *before = NULL;

	scene_open();
	scene_tree("x");
	before = manifest("x");
	CHECK_CODE(try_batch(2, (const char *const[]){ "x", "missing" }, NULL), -ATOLL_NOT_FOUND, err);
	CHECK_CODE(try_batch(2, (const char *const[]){ "x", "x/one" }, NULL), -ATOLL_REFUSED, err);
	CHECK_CODE(try_batch(2, (const char *const[]){ "x", "" }, NULL), -ATOLL_INVALID, err);
	CHECK_CODE(try_batch(1, (const char *const[]){ "/" }, NULL), -ATOLL_REFUSED, err);
	CHECK_CODE(try_batch(2, (const char *const[]){ "x", "state" }, NULL), -ATOLL_REFUSED, err);
	CHECK_CODE(try_batch(0, NULL, NULL), -ATOLL_INVALID, err);
	CHECK_CODE(try_batch(1, (const char *const[]){ "x" }, (const char *const[]){ "magic" }), -ATOLL_INVALID, err);
	for (size_t i = 0; atoll_strategy_name(i); i++)
		CHECK_CONTAINS(err.message, atoll_strategy_name(i));
	left = manifest("state/boxes");
	CHECK(strchr(left, '\n')[1] == 0);
	free(left);
	left = manifest("state/locks");
	CHECK(strchr(left, '\n')[1] == 0);
	check_manifest("x", before);
	CHECK_DONE(try_batch(1, (const char *const[]){ "x" }, NULL), err);
}

struct committer {
	struct atoll_result *result;
	int code;
};

static void *commit_waiting(void *arg)
{
	struct committer *c = arg;

	c->code = atoll_commit(a, "box", &(struct atoll_commit_options){ .wait_ms = -1 }, &c->result, NULL);
	return NULL;
}

/* C-18 */
CONTRACT_ISOLATING(of_two_commits_at_the_same_time_one_does_it_and_the_other_finds_nothing_left)
{
	struct committer both[2] = { 0 };
	pthread_t threads[2];
	int64_t commits = 0;

	begin_three();
	scene_run("for t in x y z; do echo edit > $t/one; done");
	for (size_t i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, commit_waiting, &both[i]), 0);
	for (size_t i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
		CHECK_EQ(both[i].code, 0);
		CHECK(both[i].result && both[i].result->success);
		commits += both[i].result->commit;
		atoll_result_free(both[i].result);
	}
	CHECK_EQ(commits, 1);
	CHECK_STR(tap_read(tap_dirfd, "y/one"), "edit\n");
	CHECK_EQ(scene_pending(), 0);
}
