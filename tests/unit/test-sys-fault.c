/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite's own calls behind the seam; tests/unit/test-sys.c has the rest. */
#include "tap.h"

#include <sqlite3.h>

#include "base/sys.h"

#ifndef ATOLL_FAULTS

TEST(a_release_build_leaves_sqlite_as_it_is)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL), before = *vfs;

	sys_fault_hook_sqlite(vfs);
	CHECK(memcmp(vfs, &before, sizeof(before)) == 0);
}

#else

/* Instead of tests, in a copy of this program that is given faults: a table and two rows. Exit status 0 if all was well. */
__attribute__((constructor)) static void play(void)
{
	sqlite3 *db = NULL;
	bool good;

	if (!getenv("PLAY"))
		return;
	sys_fault_hook_sqlite(sqlite3_vfs_find(NULL));
	sys_fault_hook_sqlite(sqlite3_vfs_find(NULL)); /* twice is once */
	good = sqlite3_open("db", &db) == SQLITE_OK &&
	       sqlite3_exec(db,
			    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN; CREATE TABLE t(a); INSERT INTO t "
			    "VALUES (1), (2); COMMIT",
			    NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_close(db);
	exit(good ? 0 : 1);
}

static int play_with(const char *fault)
{
	static const char *const files[] = { "db", "db-wal", "db-shm", "db-journal", "trace" };
	pid_t pid;
	int status;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(tap_dirfd, files[i], 0);
	pid = fork();
	if (pid == 0) {
		setenv("PLAY", "1", 1);
		setenv("ATOLL_FAULT", fault, 1);
		setenv("ATOLL_FAULT_COUNT", "count", 1);
		setenv("ATOLL_FAULT_TRACE", "trace", 1);
		execl("/proc/self/exe", "play", (char *)NULL);
		_exit(126);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* How many rows there are: 0 also if there is no table yet. */
static int rows(void)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *query = NULL;
	int n = 0;

	CHECK_EQ(sqlite3_open("db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, "PRAGMA integrity_check", NULL, NULL, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &query, NULL) == SQLITE_OK &&
	    sqlite3_step(query) == SQLITE_ROW)
		n = sqlite3_column_int(query, 0);
	sqlite3_finalize(query);
	sqlite3_close(db);
	return n;
}

static int count(void)
{
	CHECK_EQ(play_with("count"), 0);
	CHECK_EQ(rows(), 2);
	return atoi(tap_read(tap_dirfd, "count"));
}

TEST(every_kind_of_write_of_sqlite_is_counted)
{
	CHECK(count() > 10);
	CHECK_CONTAINS(tap_read(tap_dirfd, "trace"), " sqlite open\n");
	CHECK_CONTAINS(tap_read(tap_dirfd, "trace"), " sqlite pwrite");
	CHECK_CONTAINS(tap_read(tap_dirfd, "trace"), " sqlite fsync database\n");
	CHECK_CONTAINS(tap_read(tap_dirfd, "trace"), " sqlite unlink\n");
}

TEST(only_calls_of_the_name_asked_for_are_counted)
{
	int all = count();

	setenv("ATOLL_FAULT_ONLY", "fsync log", 1);
	CHECK(count() > 0 && count() < all);
	CHECK(!strstr(tap_read(tap_dirfd, "trace"), "pwrite"));
	unsetenv("ATOLL_FAULT_ONLY");
}

TEST(killed_at_any_write_sqlite_has_both_rows_or_none)
{
	int n = count(), with = 0;

	for (int i = 1; i <= n; i++) {
		char fault[24];

		snprintf(fault, sizeof(fault), "%d:kill", i);
		CHECK(WIFSIGNALED(play_with(fault)));
		CHECK(rows() == 0 || rows() == 2);
		with += rows() == 2;
	}
	CHECK(with > 0 && with < n);
}

TEST(a_write_that_fails_once_is_reported_or_harmless)
{
	int n = count(), reported = 0;

	for (int i = 1; i <= n; i++) {
		char fault[24];
		int status;

		snprintf(fault, sizeof(fault), "%d:EIO", i);
		status = play_with(fault);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
		reported += WEXITSTATUS(status);
		CHECK(rows() == 2 || (rows() == 0 && WEXITSTATUS(status) == 1));
	}
	CHECK(reported > 0);
}

#endif
