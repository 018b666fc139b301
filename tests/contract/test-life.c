/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one sandbox over one resource: what commit, undo, rollback and removal promise, for every strategy. */
#include <fts.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "contract.h"

static struct atoll_result *result;
static struct atoll_error err;

static char *resource_text(bool stage)
{
	struct atoll_info *info = NULL;
	char *text;

	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	text = strdup(stage ? info->resources[0].stage : info->resources[0].workspace);
	atoll_info_free(info);
	return text;
}

static size_t files_of(const char *top, struct stat *ret, size_t max)
{
	char *const tops[] = { (char *)top, NULL };
	FTS *fts = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	size_t n = 0;

	CHECK(fts != NULL);
	for (FTSENT *e = fts_read(fts); e; e = fts_read(fts))
		if (e->fts_info != FTS_D && e->fts_info != FTS_DP && n < max)
			ret[n++] = *e->fts_statp;
	fts_close(fts);
	return n;
}

/* A file that the original and the workspace share would be written to by the next command, without a commit. */
static int check_apart(int r)
{
	static struct stat original[256], inside[256];
	AUTO_FREE char *workspace = NULL;
	size_t n, m;

	if (r < 0 || !has(STRATEGY_ISOLATES))
		return r;
	workspace = resource_text(false);
	n = files_of("original", original, ARRAY_SIZE(original));
	m = files_of(workspace, inside, ARRAY_SIZE(inside));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			CHECK(original[i].st_dev != inside[k].st_dev || original[i].st_ino != inside[k].st_ino);
	return r;
}

static int commit_with(const char *message)
{
	result = atoll_result_free(result);
	err = (struct atoll_error){ 0 };
	return check_apart(atoll_commit(a, "box", &(struct atoll_commit_options){ .message = message }, &result, &err));
}

static int undo(void)
{
	result = atoll_result_free(result);
	err = (struct atoll_error){ 0 };
	return check_apart(atoll_undo(a, "box", NULL, &result, &err));
}

static int rollback(void)
{
	result = atoll_result_free(result);
	err = (struct atoll_error){ 0 };
	return check_apart(atoll_rollback(a, "box", NULL, &result, &err));
}

static int rollback_landed(void)
{
	result = atoll_result_free(result);
	return check_apart(atoll_rollback(a, "box", &(struct atoll_undo_options){ .landed = true }, &result, &err));
}

static void begin(void)
{
	scene_open();
	scene_tree("original");
	scene_new("original");
}

static bool has_item(enum atoll_item_kind kind, enum atoll_change_kind change, const char *path)
{
	for (size_t i = 0; i < result->n_items; i++)
		if (result->items[i].kind == kind && result->items[i].change == change &&
		    strcmp(result->items[i].path, path) == 0)
			return true;
	return false;
}

static bool has_conflict(const char *path)
{
	for (size_t i = 0; i < result->n_items; i++)
		if (result->items[i].kind == ATOLL_ITEM_CONFLICT && strcmp(result->items[i].path, path) == 0)
			return true;
	return false;
}

static void check_no_changes(void)
{
	CHECK_EQ(scene_pending(), 0);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_EQ(result->commit, 0);
	CHECK_EQ(result->n_items, 0);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_UNCHANGED);
}

/* */
CONTRACT_ISOLATING(a_rolled_back_sandbox_can_be_run_and_committed_again)
{
	begin();
	scene_run("echo dropped > original/one");
	CHECK_DONE(rollback(), err);
	scene_run("test \"$(cat original/one)\" = one; echo kept > original/two");
	CHECK_EQ(scene_state(), ATOLL_ACTIVE);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "one\n");
	CHECK_STR(tap_read(tap_dirfd, "original/two"), "kept\n");
}

/* A-04, B-17: from both states, and what is written afterwards is again private. */
static void roll_back(bool committed)
{
	AUTO_FREE char *old = NULL;
	AUTO_FREE char *landed = NULL;

	begin();
	old = manifest("original");
	scene_run("echo x > original/one; rm -r original/dir; ln -s two original/new; chmod 700 original");
	if (committed) {
		CHECK_DONE(commit_with(NULL), err);
		landed = manifest("original");
		CHECK_CODE(rollback(), -ATOLL_REFUSED, err);
		check_manifest("original", landed);
		CHECK_EQ(scene_state(), ATOLL_COMMITTED);
	}
	CHECK_DONE(committed ? rollback_landed() : rollback(), err);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_ROLLED_BACK);
	CHECK(!result->resources[0].workspace_dirty);
	check_manifest("original", old);
	check_no_changes();
	scene_run(
		"test \"$(cat original/one)\" = one; test -f original/dir/inner; test ! -e original/new; echo later > original/later");
	check_manifest("original", old);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/later"), "later\n");
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "one\n");
}

CONTRACT_ISOLATING(rollback_of_edits_leaves_the_original_and_a_fresh_workspace)
{
	roll_back(false);
}

CONTRACT_ISOLATING(rollback_of_a_commit_restores_the_original_and_leaves_a_fresh_workspace)
{
	roll_back(true);
}

CONTRACT_ISOLATING(undo_restores_the_original_and_keeps_the_edits_which_land_again)
{
	AUTO_FREE char *old = NULL;
	AUTO_FREE char *landed = NULL;

	begin();
	old = manifest("original");
	scene_run(
		"echo x > original/one; rm -r original/dir; mkdir -p original/a/b; echo deep > original/a/b/c; chmod 600 original/two");
	CHECK_DONE(commit_with(NULL), err);
	landed = manifest("original");
	for (int i = 0; i < 2; i++) {
		CHECK_DONE(undo(), err);
		check_manifest("original", old);
		scene_run("test \"$(cat original/one)\" = x; test ! -e original/dir; test -f original/a/b/c");
		CHECK_DONE(commit_with(NULL), err);
		check_manifest("original", landed);
	}
}

CONTRACT_ISOLATING(edits_made_after_a_commit_survive_its_undo)
{
	begin();
	scene_run("echo first > original/one; echo first > original/added; rm original/dir/inner");
	CHECK_DONE(commit_with(NULL), err);
	scene_run("echo second > original/added; echo second > original/two; chmod 700 original");
	CHECK_DONE(undo(), err);
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "one\n");
	CHECK_STR(tap_read(tap_dirfd, "original/two"), "two\n");
	scene_run(
		"test \"$(cat original/one original/added original/two)\" = \"$(printf 'first\\nsecond\\nsecond')\"; test ! -e original/dir/inner;"
		"test \"$(stat -c %a original)\" = 700");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/added"), "second\n");
	CHECK_STR(tap_read(tap_dirfd, "original/two"), "second\n");
}

CONTRACT_ISOLATING(two_commits_are_taken_back_one_after_the_other)
{
	AUTO_FREE char *old = NULL;
	AUTO_FREE char *first = NULL;

	begin();
	old = manifest("original");
	scene_run("echo 1 > original/one; mkdir original/m");
	CHECK_DONE(commit_with("first"), err);
	CHECK_EQ(result->commit, 1);
	first = manifest("original");
	scene_run("echo 2 > original/one; echo x > original/m/x; rm original/two");
	CHECK_DONE(commit_with("second"), err);
	CHECK_EQ(result->commit, 2);
	CHECK_DONE(undo(), err);
	CHECK_EQ(result->commit, 2);
	check_manifest("original", first);
	CHECK_DONE(undo(), err);
	CHECK_EQ(result->commit, 1);
	check_manifest("original", old);
	CHECK_CODE(undo(), -ATOLL_NOT_FOUND, err);
	scene_run("test \"$(cat original/one)\" = 2; test ! -e original/two; test -f original/m/x");
}

/* What this sandbox itself put back is no foreign change; what somebody else did to an earlier commit's files still is one. */
CONTRACT_ISOLATING(a_foreign_edit_between_two_commits_is_not_hidden_by_the_undo_of_the_second)
{
	AUTO_FREE char *foreign = NULL;

	begin();
	scene_run("echo 1 > original/one; mkdir original/m; echo x > original/m/x");
	CHECK_DONE(commit_with(NULL), err);
	scene_run("echo 2 > original/two; echo 2 > original/m/y");
	tap_write(tap_dirfd, "original/one", "foreign\n");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_DONE(undo(), err);
	foreign = manifest("original");
	CHECK_CODE(undo(), -ATOLL_CONFLICT, err);
	CHECK(has_conflict("one"));
	check_manifest("original", foreign);
}

CONTRACT_ISOLATING(undo_refuses_to_remove_a_directory_that_somebody_else_changed_or_filled)
{
	begin();
	scene_run("mkdir original/d original/e; echo x > original/d/x; echo x > original/e/x");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_OK(chmod("original/d", 0700));
	CHECK_CODE(undo(), -ATOLL_CONFLICT, err);
	CHECK(has_conflict("d") && !has_conflict("e"));
	tap_write(tap_dirfd, "original/e/foreign", "foreign");
	CHECK_CODE(undo(), -ATOLL_CONFLICT, err);
	CHECK_STR(tap_read(tap_dirfd, "original/e/foreign"), "foreign");
	CHECK_STR(tap_read(tap_dirfd, "original/e/x"), "x\n");
}

CONTRACT_ISOLATING(a_commit_can_be_taken_back_after_later_edits_were_rolled_back)
{
	AUTO_FREE char *old = NULL;
	AUTO_FREE char *landed = NULL;

	begin();
	old = manifest("original");
	scene_run("echo 1 > original/one; rm original/two; mkdir original/m; echo x > original/m/x");
	CHECK_DONE(commit_with(NULL), err);
	landed = manifest("original");
	for (int i = 0; i < 2; i++) {
		scene_run("echo dropped > original/one; echo dropped > original/dropped");
		CHECK_DONE(rollback(), err);
		check_manifest("original", landed);
	}
	CHECK_DONE(undo(), err);
	check_manifest("original", old);
	scene_run(
		"test \"$(cat original/one)\" = 1; test ! -e original/two; test -f original/m/x; test ! -e original/dropped");
	CHECK_DONE(commit_with(NULL), err);
	check_manifest("original", landed);
}

CONTRACT_ISOLATING(commits_of_the_same_file_are_taken_back_whatever_else_was_done_between)
{
	AUTO_FREE char *old = NULL;

	begin();
	old = manifest("original");
	scene_run("echo 1 > original/one; mkdir original/m; echo 1 > original/m/x");
	CHECK_DONE(commit_with(NULL), err);
	scene_run("echo 2 > original/one; echo 2 > original/m/x; echo 2 > original/m/y");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_DONE(rollback_landed(), err);
	scene_run("echo 3 > original/two");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_DONE(undo(), err);
	CHECK_DONE(rollback(), err);
	CHECK_STR(tap_read(tap_dirfd, "original/m/x"), "1\n");
	CHECK_DONE(undo(), err);
	check_manifest("original", old);
}

CONTRACT_ISOLATING(rollback_of_what_has_landed_after_a_run_without_edits_takes_the_commit_back_once)
{
	AUTO_FREE char *old = NULL;
	AUTO_FREE char *first = NULL;

	begin();
	old = manifest("original");
	scene_run("echo 1 > original/one");
	CHECK_DONE(commit_with(NULL), err);
	first = manifest("original");
	scene_run("echo 2 > original/two");
	CHECK_DONE(commit_with(NULL), err);
	scene_run(":");
	CHECK_DONE(rollback_landed(), err);
	check_manifest("original", first);
	CHECK_EQ(scene_state(), ATOLL_ROLLED_BACK);
	CHECK_DONE(rollback_landed(), err);
	CHECK_DONE(rollback(), err);
	check_manifest("original", first);
	scene_run(":");
	CHECK_CODE(rollback(), -ATOLL_REFUSED, err);
	check_manifest("original", first);
	CHECK_DONE(rollback_landed(), err);
	check_manifest("original", old);
}

/* */
CONTRACT_ISOLATING(the_message_is_returned_and_kept_and_none_differs_from_an_empty_one)
{
	static const char *const messages[] = { "odd \n\"\\ \xff message", "", NULL };
	struct atoll_log_entry *log = NULL;
	size_t n = 0;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		scene_run(i == 0   ? "echo 0 > original/one"
			  : i == 1 ? "echo 1 > original/one"
				   : "echo 2 > original/one");
		CHECK_DONE(commit_with(messages[i]), err);
		CHECK_STR(result->message, messages[i]);
	}
	CHECK_DONE(atoll_log(a, "box", &log, &n, &err), err);
	CHECK_EQ(n, 3);
	for (size_t i = 0; i < n; i++) {
		CHECK_STR(log[i].message, messages[2 - i]);
		CHECK_EQ(log[i].number, 3 - (int64_t)i);
		CHECK_STR(log[i].status, "landed");
	}
	atoll_log_free(log, n);
}

/* "2026-01-02T03:04:05.678901Z" */
static void check_time(const char *text)
{
	int at = 0, part[7];

	CHECK(text != NULL);
	CHECK_EQ(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &part[0], &part[1], &part[2], &part[3], &part[4],
			&part[5], &part[6], &at),
		 7);
	CHECK_EQ((size_t)at, strlen(text));
}

/* */
CONTRACT_ISOLATING(a_result_says_everything_about_a_commit)
{
	begin();
	scene_run(
		"echo x > original/one; rm original/two; echo n > original/n; chmod 600 original/dir/inner; mkfifo original/fifo");
	CHECK_DONE(commit_with("m"), err);
	CHECK(result->success && result->atomic && !result->dry_run);
	CHECK_STR(result->operation, "commit");
	CHECK_STR(result->sandbox, "box");
	CHECK_EQ(result->commit, 1);
	CHECK_EQ(result->error.code, ATOLL_OK);
	check_time(result->started_at);
	check_time(result->ended_at);
	CHECK(strcmp(result->started_at, result->ended_at) <= 0);
	CHECK_EQ(result->n_resources, 1);
	CHECK_EQ(result->resources[0].seq, 1);
	CHECK_EQ(result->resources[0].outcome, ATOLL_OUTCOME_COMMITTED);
	CHECK_EQ(result->resources[0].added, 1);
	CHECK_EQ(result->resources[0].modified, 1);
	CHECK_EQ(result->resources[0].deleted, 1);
	CHECK_EQ(result->resources[0].meta, 1);
	CHECK_EQ(result->resources[0].skipped, 1);
	CHECK(has_item(ATOLL_ITEM_CHANGE, ATOLL_MODIFIED, "one") && has_item(ATOLL_ITEM_CHANGE, ATOLL_DELETED, "two"));
	CHECK(has_item(ATOLL_ITEM_CHANGE, ATOLL_ADDED, "n") && has_item(ATOLL_ITEM_CHANGE, ATOLL_META, "dir/inner"));
	CHECK_EQ(faccessat(tap_dirfd, "original/fifo", F_OK, 0), -1);
}

/* A-19, J-12 */
CONTRACT_ISOLATING(a_commit_without_changes_makes_no_record_and_its_rollback_touches_nothing)
{
	struct atoll_log_entry *log = NULL;
	struct stat before, after;
	AUTO_FREE char *old = NULL;
	size_t n = 1;

	begin();
	scene_run("cat original/one > /dev/null");
	old = manifest("original");
	CHECK_OK(fstatat(tap_dirfd, "original", &before, 0));
	check_no_changes();
	CHECK_DONE(atoll_log(a, "box", &log, &n, &err), err);
	CHECK_EQ(n, 0);
	atoll_log_free(log, n);
	CHECK_DONE(rollback(), err);
	CHECK_OK(fstatat(tap_dirfd, "original", &after, 0));
	check_manifest("original", old);
	CHECK_EQ(before.st_ino, after.st_ino);
	CHECK(before.st_ctim.tv_sec == after.st_ctim.tv_sec && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
}

/* */
CONTRACT_ISOLATING(a_commit_whose_undo_data_is_gone_is_not_taken_back_and_nothing_is_touched)
{
	AUTO_FREE char *stage = NULL;
	AUTO_FREE char *command = NULL;
	AUTO_FREE char *landed = NULL;

	begin();
	scene_run("echo x > original/one");
	CHECK_DONE(commit_with(NULL), err);
	landed = manifest("original");
	stage = resource_text(true);
	command = str_format("rm -rf '%s'/op-*", stage);
	CHECK_EQ(system(command), 0);
	CHECK_CODE(undo(), -ATOLL_STATE, err);
	check_manifest("original", landed);
	CHECK_CODE(rollback_landed(), -ATOLL_STATE, err);
	check_manifest("original", landed);
	CHECK_EQ(scene_state(), ATOLL_COMMITTED);
}

/* */
CONTRACT_ISOLATING(a_workspace_that_is_gone_is_a_state_error_and_the_sandbox_can_be_removed)
{
	AUTO_FREE char *stage = NULL;
	AUTO_FREE char *command = NULL;
	AUTO_FREE char *old = NULL;

	begin();
	old = manifest("original");
	stage = resource_text(true);
	command = str_format("rm -rf '%s'", stage);
	CHECK_EQ(system(command), 0);
	CHECK_CODE(scene_try_run(":", &err), -ATOLL_STATE, err);
	CHECK_CODE(commit_with(NULL), -ATOLL_STATE, err);
	CHECK_CODE(rollback(), -ATOLL_STATE, err);
	CHECK_DONE(atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err), err);
	check_manifest("original", old);
}

/* B-12: writes in place, through a second name, a mapping's worth of data, truncation. */
CONTRACT_ISOLATING(nothing_written_inside_reaches_the_original_before_the_commit)
{
	AUTO_FREE char *old = NULL;

	begin();
	old = manifest("original");
	scene_run(
		"printf x | dd of=original/one conv=notrunc 2>/dev/null; ln original/two original/second; echo y >> original/second; : > original/dir/inner;"
		"touch -d @5 original/link original; chmod 0 original/dir/inner; chmod 0700 original/dir");
	check_manifest("original", old);
	CHECK_DONE(rollback(), err);
	check_manifest("original", old);
}

static char *active_at(void)
{
	struct atoll_info *info = NULL;
	char *text;

	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	text = strdup(info->active_at);
	atoll_info_free(info);
	return text;
}

CONTRACT_ISOLATING(a_run_that_touches_nothing_for_the_first_time_counts_as_activity_and_writes_no_record)
{
	AUTO_FREE char *first = NULL;
	AUTO_FREE char *second = NULL;
	struct stat before, after;

	begin();
	scene_run("echo once > original/one; echo new > original/new");
	CHECK_OK(stat("state/atoll.db-wal", &before));
	first = active_at();
	scene_run("sleep 0.05; echo twice > original/one; echo more >> original/new; cat original/two");
	CHECK_OK(stat("state/atoll.db-wal", &after));
	second = active_at();
	CHECK(strcmp(first, second) < 0);
	CHECK_EQ(before.st_size, after.st_size);
	CHECK_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	CHECK_EQ(scene_pending(), 2);
}

/* B-20 */
CONTRACT_ISOLATING(the_view_shows_the_original_after_a_commit_and_after_an_undo)
{
	begin();
	scene_run(
		"rm original/two; mkdir original/two; echo x > original/two/x; rm -r original/dir; echo file > original/dir");
	CHECK_DONE(commit_with(NULL), err);
	scene_run("test -f original/two/x; test -f original/dir; rm -r original/two; echo again > original/two");
	CHECK_DONE(commit_with(NULL), err);
	scene_run("test \"$(cat original/two)\" = again");
	CHECK_STR(tap_read(tap_dirfd, "original/two"), "again\n");
	CHECK_DONE(undo(), err);
	CHECK_STR(tap_read(tap_dirfd, "original/two/x"), "x\n");
	scene_run("test \"$(cat original/two)\" = again");
}

/* J-24: nested paths, binary content, names of any bytes. */
CONTRACT_ISOLATING(nested_paths_binary_files_and_odd_names_land_and_come_back)
{
	AUTO_FREE char *old = NULL;

	begin();
	old = manifest("original");
	scene_run(
		"cd original; mkdir -p 'a b/-c/d,e:f'; printf '\\000\\377\\n\\000' > 'a b/-c/d,e:f/\\back\"quote'; n=$(printf 'new\\nline\\377x');"
		"printf '\\001' > \"$n\"; ln -s \"$n\" ./-link; mkdir empty");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_EQ(faccessat(tap_dirfd, "original/new\nline\xffx", F_OK, 0), 0);
	CHECK_EQ(faccessat(tap_dirfd, "original/a b/-c/d,e:f/\\back\"quote", F_OK, 0), 0);
	CHECK_EQ(faccessat(tap_dirfd, "original/empty", F_OK, 0), 0);
	CHECK_DONE(undo(), err);
	check_manifest("original", old);
}

/* ---- what cannot be removed ---- */

static int set_immutable(const char *path, bool on)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	int flags = 0;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -errno;
	flags = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0 ? -errno : 0;
}

static void need_immutable(const char *path)
{
	if (set_immutable(path, true) < 0)
		tap_skip("no immutable files here");
}

/* B-11 */
CONTRACT_ISOLATING(an_undeletable_leftover_neither_fails_a_rollback_nor_survives_in_the_workspace)
{
	AUTO_FREE char *stage = NULL;
	AUTO_FREE char *command = NULL;
	AUTO_FREE char *workspace = NULL;
	AUTO_FREE char *stuck = NULL;
	int r;

	begin();
	scene_run("mkdir original/stuck; echo x > original/stuck/file");
	workspace = resource_text(false);
	stage = resource_text(true);
	stuck = str_format("%s/stuck/file", workspace);
	need_immutable(stuck);
	r = rollback();
	command = str_format("chattr -R -i '%s' 2>/dev/null || true", stage);
	if (r == 0)
		scene_run("test ! -e original/stuck; echo y > original/fresh");
	CHECK_EQ(system(command), 0);
	CHECK_DONE(r, err);
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/fresh"), "y\n");
	CHECK_DONE(atoll_remove(a, "box", NULL, &err), err);
}

/* A rollback that could not begin has dropped nothing, and no later command does it in its place. */
CONTRACT_ISOLATING(a_rollback_that_cannot_begin_leaves_the_edits)
{
	AUTO_FREE char *area = NULL;
	int failed;

	begin();
	scene_run("echo x > original/one");
	area = resource_text(false);
	*strrchr(area, '/') = 0;
	need_immutable(area);
	failed = rollback();
	CHECK_EQ(set_immutable(area, false), 0);
	CHECK(failed < 0 && failed != -ATOLL_IN_DOUBT);
	CHECK(result->n_resources == 1 && result->resources[0].outcome == ATOLL_OUTCOME_NOT_ATTEMPTED &&
	      !result->resources[0].workspace_dirty && result->resources[0].cause);
	scene_run("test \"$(cat original/one)\" = x");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "x\n");
}

/* In the area of the workspace, beside it: what a fresh one needs to replace. */
static char *beside_workspace(void)
{
	AUTO_FREE char *workspace = resource_text(false);
	int size = (int)(strrchr(workspace, '/') - workspace);
	char *path = str_format("%.*s/work", size, workspace);

	if (access(path, F_OK) == 0)
		return path;
	free(path);
	return str_format("%.*s/baseline", size, workspace);
}

/* the original is safe, the workspace is dirty, nothing else is allowed until the same call succeeds. */
CONTRACT_ISOLATING(a_workspace_that_cannot_be_reset_is_dirty_and_blocks_until_rollback_succeeds)
{
	AUTO_FREE char *stage = NULL;
	AUTO_FREE char *old = NULL;
	struct atoll_info *info = NULL;
	int failed, blocked;
	bool dirty;

	begin();
	old = manifest("original");
	scene_run("echo x > original/one");
	stage = beside_workspace();
	need_immutable(stage);
	failed = rollback();
	dirty = result->n_resources == 1 && result->resources[0].workspace_dirty;
	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	dirty &= info->resources[0].dirty;
	atoll_info_free(info);
	blocked = commit_with(NULL);
	CHECK_EQ(set_immutable(stage, false), 0);
	CHECK(failed < 0 && blocked < 0 && dirty);
	check_manifest("original", old);
	CHECK_DONE(rollback(), err);
	check_no_changes();
	scene_run("test \"$(cat original/one)\" = one");
}

/* */
CONTRACT_ISOLATING(a_removal_that_fails_says_so_and_the_next_one_goes_on)
{
	AUTO_FREE char *stuck = NULL;
	AUTO_FREE char *workspace = NULL;
	struct atoll_info *info = NULL;
	int r;

	begin();
	scene_run("echo x > original/stuck");
	workspace = resource_text(false);
	stuck = str_format("%s/..", workspace);
	need_immutable(stuck);
	r = atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err);
	CHECK_EQ(set_immutable(stuck, false), 0);
	CHECK(r < 0 && err.code == (enum atoll_code) - r);
	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	atoll_info_free(info);
	CHECK_DONE(atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err), err);
	CHECK_CODE(atoll_show(a, "box", &info, &err), -ATOLL_NOT_FOUND, err);
	CHECK_EQ(access(workspace, F_OK), -1);
}

/* B-32 */
CONTRACT(a_commit_says_whether_the_resource_is_isolated)
{
	begin();
	scene_run("echo x > original/one");
	CHECK_STR(tap_read(tap_dirfd, "original/one"), has(STRATEGY_ISOLATES) ? "one\n" : "x\n");
	CHECK_DONE(commit_with(NULL), err);
	CHECK(result->success);
	CHECK_EQ(result->resources[0].outcome,
		 has(STRATEGY_ISOLATES) ? ATOLL_OUTCOME_COMMITTED : ATOLL_OUTCOME_NOT_ISOLATED);
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "x\n");
	if (!has(STRATEGY_UNDO_BEFORE)) {
		CHECK_CODE(rollback(), -ATOLL_UNSUPPORTED, err);
		CHECK(!result->success);
		CHECK_STR(tap_read(tap_dirfd, "original/one"), "x\n");
	}
}

static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

CONTRACT(a_program_that_uses_the_library_for_long_has_no_more_descriptors_open)
{
	int before;

	begin();
	scene_run("echo x > original/one");
	CHECK_DONE(commit_with(NULL), err);
	before = count_descriptors();
	for (int i = 0; i < 20; i++) {
		AUTO_FREE char *script = str_format("echo %d > original/one", i);

		scene_run(script);
		atoll_result_free(result);
		result = NULL;
		CHECK_DONE(commit_with(NULL), err);
		(void)scene_pending();
	}
	CHECK_EQ(count_descriptors(), before);
}

/* A program with a listening socket starts a run that outlives the socket: its port must be free, and the peer of a
 * connection must see the end, at once. */
CONTRACT_ISOLATING(a_detached_run_holds_no_file_of_the_program_that_started_it)
{
	static const int kinds[] = { SOCK_CLOEXEC, 0 };
	char *const argv[] = { (char *)"sleep", (char *)"600", NULL };
	const struct atoll_run_options options = { .argv = argv, .cwd = tap_dir };
	int64_t run;
	size_t n;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct pollfd peer = { .events = POLLIN };
		int pair[2];
		char byte;

		CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | kinds[i], 0, pair));
		CHECK_DONE(atoll_start(a, "box", &options, &run, &err), err);
		CHECK_OK(close(pair[0]));
		peer.fd = pair[1];
		CHECK_EQ(poll(&peer, 1, 20000), 1);
		CHECK_EQ(read(pair[1], &byte, 1), 0);
		CHECK_OK(close(pair[1]));
	}
	CHECK_DONE(atoll_kill(a, "box", &(struct atoll_kill_options){ 0 }, &n, &err), err);
	CHECK_EQ(n, 2);
	CHECK_DONE(atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true, .wait_ms = 20000 }, &err),
		   err);
}

/* G-07 */
CONTRACT(a_program_that_ends_takes_none_of_its_sandboxes_along)
{
	struct atoll_info *info = NULL;
	int status;
	pid_t pid;

	scene_tree("original");
	scene_open();
	pid = fork();
	if (pid == 0) {
		struct atoll_error error = { 0 };
		AUTO_FREE char *path = scene_path("original");
		AUTO_FREE char *state = scene_path("state");

		a = atoll_close(a);
		if (atoll_open(&(struct atoll_options){ state }, &a, &error) < 0)
			_exit(1);
		exit(scene_try_new("box", path, tap_variant, &error) < 0 ? 2 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	atoll_info_free(info);
	scene_run("echo x > original/one");
	CHECK_DONE(commit_with(NULL), err);
	CHECK_STR(tap_read(tap_dirfd, "original/one"), "x\n");
}
