/* SPDX-License-Identifier: Apache-2.0 */
/* The database file: whose it is, its version, damage, transactions, and two connections at once. */
#include <sqlite3.h>

#include "store-scene.h"

/* Runs SQL on the file without the store's help. */
static void sql(const char *text)
{
	sqlite3 *db = NULL;
	char *why = NULL;

	if (sqlite3_open("atoll.db", &db) != SQLITE_OK || sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "%s: %s", text, why ? why : "cannot open");
	sqlite3_close(db);
}

static enum atoll_code open_code(struct atoll_error *err)
{
	AUTO_STORE *s = NULL;
	int r = store_open(tap_dir, &s, err);

	CHECK_EQ(r, r < 0 ? -(int)err->code : 0);
	CHECK_EQ(s == NULL, r < 0);
	return r < 0 ? err->code : ATOLL_OK;
}

static size_t count_boxes(struct store *s)
{
	struct store_sandbox *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_sandbox_list(s, &list, &n, &err), err);
	for (size_t i = 0; i < n; i++)
		store_sandbox_release(&list[i]);
	free(list);
	return n;
}

TEST(a_store_is_made_where_there_is_none_and_found_again)
{
	store_close(scene_store());
	{
		AUTO_STORE *s = scene_store();

		scene_box(s, "kept");
	}
	{
		AUTO_STORE *s = scene_store();

		CHECK_EQ(count_boxes(s), 1);
	}
}

TEST(closing_nothing_is_fine)
{
	CHECK(store_close(NULL) == NULL);
	store_abort(NULL);
}

TEST(an_empty_file_becomes_a_store)
{
	tap_write(tap_dirfd, "atoll.db", "");
	{
		AUTO_STORE *s = scene_store();

		CHECK_EQ(count_boxes(s), 0);
	}
}

TEST(a_newer_version_is_refused_and_nothing_changed)
{
	struct atoll_error err = { 0 };

	store_close(scene_store());
	sql("PRAGMA user_version=1000");
	CHECK_EQ(open_code(&err), ATOLL_CORRUPT);
	CHECK_CONTAINS(err.message, "1000");
	CHECK_CONTAINS(err.object, "atoll.db");
	sql("PRAGMA user_version=10");
	CHECK_EQ(open_code(&err), ATOLL_OK);
}

TEST(an_older_version_is_brought_up_and_keeps_its_content)
{
	struct atoll_error err = { 0 };

	store_close(scene_store());
	sql("DROP INDEX op_unfinished; DROP TABLE plan; DROP TABLE base; CREATE TABLE step(op,seq); CREATE TABLE touch(resource,path); CREATE TABLE stamp(resource,path);"
	    "ALTER TABLE sandbox DROP COLUMN settings; DROP TABLE owner; PRAGMA user_version=1;"
	    "ALTER TABLE op_resource DROP COLUMN stays_active;" DROP_COUNTS DROP_PRUNABLE
	    "INSERT INTO sandbox(uuid,name,created,active,durable) VALUES('u',CAST('old' AS BLOB),1,1,0)");
	CHECK_EQ(open_code(&err), ATOLL_OK);
	{
		AUTO_STORE *s = scene_store();
		struct store_sandbox box = { 0 };

		CHECK_EQ(store_sandbox_find(s, "old", &box, &err), 0);
		CHECK_STR(box.settings, NULL);
		store_sandbox_release(&box);
	}
}

TEST(a_database_of_another_program_is_refused)
{
	struct atoll_error err = { 0 };

	sql("PRAGMA user_version=7; PRAGMA application_id=1234; CREATE TABLE theirs(x)");
	CHECK_EQ(open_code(&err), ATOLL_CORRUPT);
}

TEST(a_database_of_another_program_without_a_version_is_refused_and_left_as_it_is)
{
	struct atoll_error err = { 0 };

	sql("CREATE TABLE theirs(x)");
	CHECK_EQ(open_code(&err), ATOLL_CORRUPT);
	/* No table of ours may have come into it. */
	sql("CREATE TABLE sandbox(x)");
}

TEST(a_file_that_is_no_database_is_refused_and_left_as_it_is)
{
	struct atoll_error err = { 0 };
	char text[4096];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	tap_write(tap_dirfd, "atoll.db", text);
	CHECK_EQ(open_code(&err), ATOLL_CORRUPT);
	CHECK_STR(tap_read(tap_dirfd, "atoll.db"), text);
}

static void overwrite(off_t at, size_t size)
{
	int fd = openat(tap_dirfd, "atoll.db", O_WRONLY | O_CLOEXEC);
	char bytes[4096];

	memset(bytes, 0xa5, sizeof bytes);
	for (size_t done = 0; done < size; done += sizeof bytes)
		CHECK_EQ(pwrite(fd, bytes, sizeof bytes, at + (off_t)done), sizeof bytes);
	close(fd);
}

TEST(damaged_pages_are_told_as_damage)
{
	struct store_sandbox *list = NULL;
	struct atoll_error err = { 0 };
	struct store *s = scene_store();
	size_t n = 0;
	int r;

	scene_box(s, "a");
	store_close(s);
	sql("PRAGMA wal_checkpoint(TRUNCATE)");
	overwrite(4096, 65536);
	r = store_open(tap_dir, &s, &err);
	if (r == 0) {
		r = store_sandbox_list(s, &list, &n, &err);
		store_close(s);
	}
	CHECK_EQ(r, -ATOLL_CORRUPT);
	CHECK_EQ(err.code, ATOLL_CORRUPT);
}

TEST(a_missing_directory_and_a_directory_in_the_files_place_are_refused)
{
	struct atoll_error err = { 0 };
	struct store *s = NULL;

	CHECK_EQ(store_open("/nonexistent/state", &s, &err), -ATOLL_REFUSED);
	CHECK_OK(mkdirat(tap_dirfd, "atoll.db", 0700));
	CHECK_EQ(open_code(&err), ATOLL_REFUSED);
}

TEST(what_was_not_committed_is_gone_after_an_abort_and_after_a_close)
{
	struct store_sandbox box = { .uuid = "u", .name = (char *)"gone" };
	struct atoll_error err = { 0 };
	struct store *s = scene_store();

	scene_begin(s);
	CHECK_DONE(store_sandbox_add(s, &box, &err), err);
	store_abort(s);
	store_abort(s);
	CHECK_EQ(count_boxes(s), 0);
	scene_begin(s);
	CHECK_DONE(store_sandbox_add(s, &box, &err), err);
	store_close(s);
	s = scene_store();
	CHECK_EQ(count_boxes(s), 0);
	store_close(s);
}

TEST(a_transaction_can_follow_an_aborted_one)
{
	AUTO_STORE *s = scene_store();

	scene_begin(s);
	store_abort(s);
	scene_box(s, "after");
	CHECK_EQ(count_boxes(s), 1);
}

TEST(two_connections_see_each_others_commits_and_nothing_before_them)
{
	struct store_sandbox box = { .uuid = "u", .name = (char *)"shared" };
	AUTO_STORE *a = scene_store();
	AUTO_STORE *b = scene_store();
	struct atoll_error err = { 0 };

	scene_begin(a);
	CHECK_DONE(store_sandbox_add(a, &box, &err), err);
	CHECK_EQ(count_boxes(b), 0);
	scene_commit(a);
	CHECK_EQ(count_boxes(b), 1);
}

static void add_boxes(const char *prefix, int n)
{
	AUTO_STORE *s = scene_store();

	for (int i = 0; i < n; i++) {
		char name[32];

		snprintf(name, sizeof name, "%s-%d", prefix, i);
		scene_box(s, name);
	}
}

TEST(processes_that_write_at_the_same_time_wait_for_each_other)
{
	AUTO_STORE *s = scene_store();
	int status, good = 0;

	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		CHECK_OK(pid);
		if (pid == 0) {
			const char prefix[2] = { (char)('a' + i), 0 };

			add_boxes(prefix, 25);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		good += status == 0;
	CHECK_EQ(good, 4);
	CHECK_EQ(count_boxes(s), 100);
}

TEST(what_a_killed_writer_had_not_committed_is_gone)
{
	AUTO_STORE *s = scene_store();
	int ready[2], status;
	char c;
	pid_t pid;

	CHECK_OK(pipe(ready));
	pid = fork();
	CHECK_OK(pid);
	if (pid == 0) {
		struct store_sandbox box = { .uuid = "u", .name = (char *)"half" };
		struct store *own = scene_store();
		struct atoll_error err = { 0 };

		scene_begin(own);
		CHECK_DONE(store_sandbox_add(own, &box, &err), err);
		(void)!write(ready[1], "x", 1);
		pause();
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(count_boxes(s), 0);
	scene_box(s, "next");
	CHECK_EQ(count_boxes(s), 1);
}

#ifdef ATOLL_FAULTS

/* Instead of tests, in a copy of this program that is given faults: one transaction of two sandboxes. */
__attribute__((constructor)) static void play(void)
{
	struct store_sandbox one = { .uuid = "1", .name = (char *)"one" }, two = { .uuid = "2", .name = (char *)"two" };
	struct atoll_error err = { 0 };
	struct store *s = NULL;
	int r;

	if (!getenv("PLAY"))
		return;
	r = store_open(".", &s, &err);
	if (r == 0)
		r = store_begin(s, true, &err);
	if (r == 0)
		r = store_sandbox_add(s, &one, &err);
	if (r == 0)
		r = store_sandbox_add(s, &two, &err);
	if (r == 0)
		r = store_commit(s, &err);
	store_close(s);
	exit(r == 0 ? 0 : err.code == (enum atoll_code) - r && err.message[0] ? 10 : 11);
}

static int play_with(const char *fault)
{
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		setenv("PLAY", "1", 1);
		setenv("ATOLL_FAULT", fault, 1);
		setenv("ATOLL_FAULT_COUNT", "count", 1);
		execl("/proc/self/exe", "play", (char *)NULL);
		_exit(126);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void start_over(void)
{
	static const char *const files[] = { "atoll.db", "atoll.db-wal", "atoll.db-shm" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlinkat(tap_dirfd, files[i], 0);
}

/* One play for each call there is. */
static void play_all(const char *how)
{
	int total, bad = 0;

	CHECK_EQ(play_with("count"), 0);
	total = atoi(tap_read(tap_dirfd, "count"));
	CHECK(total > 5);
	start_over();
	for (int n = 1; n <= total; n++) {
		char fault[32];
		bool good;
		int status;

		snprintf(fault, sizeof fault, "%d:%s", n, how);
		status = play_with(fault);
		good = status == 0;
		CHECK(good || (WIFEXITED(status) && WEXITSTATUS(status) == 10) ||
		      (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		bad += !good;
		{
			AUTO_STORE *s = scene_store();
			size_t boxes = count_boxes(s);

			CHECK(boxes == 2 || (boxes == 0 && !good));
		}
		start_over();
	}
	CHECK(bad > total / 2);
}

TEST(a_failed_write_or_sync_leaves_all_of_a_transaction_or_nothing)
{
	play_all("ENOSPC");
	play_all("EIO");
}

TEST(a_kill_at_any_write_or_sync_leaves_all_of_a_transaction_or_nothing)
{
	play_all("kill");
	play_all("kill-after");
}

#endif
