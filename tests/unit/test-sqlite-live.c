/* SPDX-License-Identifier: Apache-2.0 */
/* What tells a database from another file, and one in use from one that is not, without opening it as one. */
#include "database-scene.h"

#include "base/fd.h"

static int open_file(const char *name)
{
	int fd = openat(tap_dirfd, name, O_RDONLY | O_CLOEXEC);

	CHECK_OK(fd);
	return fd;
}

/* In a process of its own: locks are between processes. Ends when `go` is closed. */
static pid_t hold(const char *name, const char *sql, int *ret_go)
{
	int go[2], ready[2];
	char byte;
	pid_t pid;

	CHECK_OK(pipe(go));
	CHECK_OK(pipe(ready));
	pid = fork();
	if (pid == 0) {
		sqlite3 *db;

		close(go[1]);
		db = db_open(name);
		db_sql(db, sql);
		CHECK_EQ(write(ready[1], "x", 1), 1);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	CHECK_OK(pid);
	close(go[0]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	*ret_go = go[1];
	return pid;
}

static void let_go(pid_t pid, int go)
{
	close(go);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_database_is_told_by_its_header)
{
	AUTO_FD db = -EBADF, text = -EBADF, cut = -EBADF;
	struct stat st;

	db_run("x.db", "CREATE TABLE t(a)");
	db = open_file("x.db");
	CHECK_OK(fstat(db, &st));
	CHECK(sqlite_live_is_database(db) && sqlite_live_is_likely((uint64_t)st.st_size));
	text = openat(tap_dirfd, "text", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(write(text, "SQLite format 4 and more", 24), 24);
	CHECK(!sqlite_live_is_database(text) && !sqlite_live_is_likely(24) && !sqlite_live_is_likely(0));
	cut = openat(tap_dirfd, "cut", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(write(cut, "SQLite format 3", 15), 15);
	CHECK(!sqlite_live_is_database(cut));
}

TEST(a_transaction_is_seen_by_its_locks)
{
	AUTO_FD fd = -EBADF;
	pid_t pid;
	int go;

	db_run("x.db", "CREATE TABLE t(a)");
	fd = open_file("x.db");
	CHECK(!sqlite_live_is_locked(fd, tap_dirfd, "x.db"));
	pid = hold("x.db", "BEGIN; SELECT * FROM t", &go);
	CHECK(sqlite_live_is_locked(fd, tap_dirfd, "x.db"));
	let_go(pid, go);
	CHECK(!sqlite_live_is_locked(fd, tap_dirfd, "x.db"));
}

TEST(an_idle_connection_with_a_log_is_seen_and_so_is_the_log)
{
	AUTO_FD fd = -EBADF;
	pid_t pid;
	int go;

	db_run("x.db", "PRAGMA journal_mode=WAL; CREATE TABLE t(a)");
	fd = open_file("x.db");
	CHECK(!sqlite_live_is_locked(fd, tap_dirfd, "x.db") && !sqlite_live_has_log(tap_dirfd, "x.db"));
	pid = hold("x.db", "INSERT INTO t VALUES(1)", &go);
	CHECK(sqlite_live_is_locked(fd, tap_dirfd, "x.db") && sqlite_live_has_log(tap_dirfd, "x.db"));
	let_go(pid, go); /* it ended without closing: the log stays, the lock does not */
	CHECK(!sqlite_live_is_locked(fd, tap_dirfd, "x.db") && sqlite_live_has_log(tap_dirfd, "x.db"));
}

TEST(names_beside_a_database_lead_to_it)
{
	CHECK_EQ(sqlite_live_stem("a/x.db-wal"), strlen("a/x.db"));
	CHECK_EQ(sqlite_live_stem("a/x.db-shm"), strlen("a/x.db"));
	CHECK_EQ(sqlite_live_stem("x-journal"), 1);
	CHECK_EQ(sqlite_live_stem("a/x.db"), 0);
	CHECK_EQ(sqlite_live_stem("-wal"), 0);
	CHECK_EQ(sqlite_live_stem(""), 0);
}
