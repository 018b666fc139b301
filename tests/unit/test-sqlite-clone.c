/* SPDX-License-Identifier: Apache-2.0 */
#include "database-scene.h"

static int clone_to(const char *from, const char *to, struct atoll_error *err)
{
	struct sqlite_file source = db_file(from), target = db_file(to);

	return sqlite_clone(&source, &target, err);
}

static void check_clone(void)
{
	struct atoll_error err = { 0 };

	CHECK_DONE(clone_to("orig.db", "copy.db", &err), err);
	AUTO_FREE char *a = db_dump("orig.db");
	AUTO_FREE char *b = db_dump("copy.db");
	CHECK_STR(b, a);
	CHECK(db_is_sound("copy.db"));
}

#define ROWS                                                                                                      \
	"CREATE TABLE t(id INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n" \
	" WHERE i<8000) INSERT INTO t SELECT i, randomblob(400) FROM n;"

TEST(a_database_is_cloned)
{
	db_run("orig.db", ROWS);
	check_clone();
}

TEST(an_empty_file_is_an_empty_database)
{
	tap_write(tap_dirfd, "orig.db", "");
	check_clone();
}

TEST(what_stands_in_the_log_only_is_cloned)
{
	sqlite3 *db = db_open("orig.db");

	db_sql(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES(1),(2)");
	check_clone();
	sqlite3_close(db);
}

TEST(an_open_write_is_not_cloned)
{
	struct atoll_error err = { 0 };
	sqlite3 *db = db_open("orig.db");

	db_sql(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES(1)");
	db_sql(db, "BEGIN; INSERT INTO t VALUES(2)");
	CHECK_DONE(clone_to("orig.db", "copy.db", &err), err);
	sqlite3_close(db);
	AUTO_FREE char *got = db_query("copy.db", "SELECT count(*) FROM t");
	CHECK_STR(got, "1;");
}

/* Two counters that are always equal, and enough pages for several steps. */
static void write_for_ever(void)
{
	sqlite3 *db = db_open("orig.db");

	for (;;)
		db_sql(db,
		       "BEGIN IMMEDIATE; UPDATE pair SET n=n+1 WHERE id=1; UPDATE pair SET n=n+1 WHERE id=2; COMMIT");
}

static void clone_while_written(const char *mode)
{
	struct atoll_error err = { 0 };
	struct sqlite_file original = { tap_dirfd, "orig.db", NULL, 20000 };
	AUTO_FREE char *sql =
		str_format("PRAGMA journal_mode=%s; PRAGMA synchronous=OFF;" ROWS
			   "CREATE TABLE pair(id INTEGER PRIMARY KEY, n); INSERT INTO pair VALUES(1,0),(2,0)",
			   mode);
	pid_t pid;

	db_run("orig.db", sql);
	pid = fork();
	if (pid == 0)
		write_for_ever();
	for (int i = 0; i < 4; i++) {
		AUTO_FREE char *name = str_format("copy%d.db", i);
		struct sqlite_file copy = db_file(name);

		CHECK_DONE(sqlite_clone(&original, &copy, &err), err);
		CHECK(db_is_sound(name));
		AUTO_FREE char *got = db_query(name, "SELECT count(DISTINCT n), (SELECT count(*) FROM t) FROM pair");
		CHECK_STR(got, "1|8000;");
		unlink(name);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(a_clone_is_consistent_while_somebody_writes_with_a_journal)
{
	clone_while_written("DELETE");
}

TEST(a_clone_is_consistent_while_somebody_writes_with_a_log)
{
	clone_while_written("WAL");
}

/* ---- what cannot be cloned ---- */

static void refuses(const char *name, int code, const char *text)
{
	struct atoll_error err = { 0 };
	struct sqlite_file file = db_file(name);

	CHECK_EQ(sqlite_probe(&file, true, &err), -code);
	CHECK_CONTAINS(err.message, text);
	CHECK_EQ(clone_to(name, "copy.db", &err), -code);
	CHECK(access("copy.db", F_OK) < 0);
}

TEST(what_is_no_database_is_refused)
{
	char noise[8192];

	refuses("none.db", ATOLL_NOT_FOUND, "there is no database \"none.db\"");
	memset(noise, 'x', sizeof noise);
	noise[sizeof noise - 1] = 0;
	tap_write(tap_dirfd, "text.db", noise);
	refuses("text.db", ATOLL_REFUSED, "is not a SQLite database, or is an encrypted one");
	mkdir("dir.db", 0755);
	refuses("dir.db", ATOLL_REFUSED, "is not a regular file");
	mkfifo("pipe.db", 0644);
	refuses("pipe.db", ATOLL_REFUSED, "is not a regular file");
	db_run("orig.db", "CREATE TABLE t(a)");
	CHECK_EQ(symlink("orig.db", "link.db"), 0);
	refuses("link.db", ATOLL_REFUSED, "is not a regular file");
}

TEST(a_database_that_is_locked_is_busy)
{
	sqlite3 *db = db_open("orig.db");

	db_sql(db, "CREATE TABLE t(a); BEGIN EXCLUSIVE");
	refuses("orig.db", ATOLL_BUSY, "is locked by another process");
	sqlite3_close(db);
}

TEST(a_file_that_may_not_be_written_is_read)
{
	struct atoll_error err = { 0 };
	struct sqlite_file file = db_file("orig.db");

	db_run("orig.db", "CREATE TABLE t(a)");
	chmod("orig.db", 0444);
	if (geteuid() == 0 && (chown("orig.db", 1, 1) < 0 || chmod(".", 0755) < 0 || setresuid(2, 2, 2) < 0))
		tap_skip("cannot become another user");
	CHECK_DONE(sqlite_probe(&file, false, &err), err);
	CHECK_EQ(sqlite_probe(&file, true, &err), -ATOLL_REFUSED);
	CHECK_CONTAINS(err.message, "may not be written");
}

/* ---- what a killed process left ---- */

/* A writer that is killed in the middle of a transaction that was too large for its memory. */
static void leave_hot(const char *mode)
{
	AUTO_FREE char *sql = str_format("PRAGMA journal_mode=%s; PRAGMA cache_size=5;" ROWS, mode);
	pid_t pid;

	db_run("clone.db", sql);
	pid = fork();
	if (pid == 0) {
		sqlite3 *db = db_open("clone.db");

		db_sql(db, "PRAGMA cache_size=5; INSERT INTO t VALUES(-1,0); BEGIN; UPDATE t SET v=x'00'");
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, NULL, 0);
}

static void settle_hot(const char *mode, const char *beside)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };
	struct stat before, after;

	leave_hot(mode);
	CHECK_EQ(stat(beside, &before), 0);
	CHECK(before.st_size > 0);
	CHECK_DONE(sqlite_settle(&clone, &new, &err), err);
	CHECK_EQ(stat(beside, &after), 0);
	CHECK_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	CHECK(access("new.db-journal", F_OK) < 0);
	CHECK(access("new.db-wal", F_OK) < 0);
	AUTO_FREE char *got = db_query("new.db", "SELECT count(*), sum(v=x'00') FROM t");
	CHECK_STR(got, "8001|0;");
	CHECK(db_is_sound("new.db"));
}

TEST(a_journal_left_by_a_killed_writer_is_rolled_back_in_the_copy)
{
	settle_hot("DELETE", "clone.db-journal");
}

TEST(a_log_left_by_a_killed_writer_is_written_back_in_the_copy)
{
	settle_hot("WAL", "clone.db-wal");
}

/* As somebody does who uses it through another view, so that no lock of his is seen: in two steps, and each is a state of its own. */
static void write_past_locks(const char *name)
{
	for (;;) {
		sqlite3 *db = NULL;

		sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE, "unix-none");
		db_sql(db, "PRAGMA synchronous=OFF; PRAGMA cache_size=5; BEGIN; UPDATE t SET v=v+1; COMMIT");
		sqlite3_close(db);
		usleep(10000);
	}
}

TEST(one_that_is_written_to_is_copied_in_a_pause)
{
	struct sqlite_file clone = { tap_dirfd, "clone.db", NULL, 20000 }, new = db_file("new.db");
	struct atoll_error err = { 0 };
	pid_t pid;

	db_run("clone.db",
	       "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n"
	       " WHERE i<3000) INSERT INTO t SELECT i, 0, zeroblob(400) FROM n");
	pid = fork();
	if (pid == 0)
		write_past_locks("clone.db");
	for (int i = 0; i < 30; i++) {
		CHECK_EQ(sqlite_settle(&clone, &new, &err), 1);
		CHECK(db_is_sound("new.db"));
		AUTO_FREE char *got = db_query("new.db", "SELECT count(DISTINCT v), count(*) FROM t");
		CHECK_STR(got, "1|3000;");
		unlink("new.db");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(what_is_beside_it_and_no_file_is_not_the_databases)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };

	db_run("clone.db", "CREATE TABLE t(a)");
	CHECK_EQ(symlink("/etc/passwd", "clone.db-wal"), 0);
	CHECK_EQ(mkfifo("clone.db-journal", 0644), 0);
	CHECK_EQ(sqlite_settle(&clone, &new, &err), 1);
	CHECK(db_is_sound("new.db"));
	unlink("clone.db");
	CHECK_EQ(symlink("new.db", "clone.db"), 0);
	clone.name = "clone.db";
	new.name = "other.db";
	CHECK_EQ(sqlite_settle(&clone, &new, &err), 0);
}

/* A journal names the file that holds together a transaction over several databases: at its end length, sum, magic; before them the name. */
static void name_victim(const char *journal, const char *victim)
{
	static const unsigned char magic[] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
	int fd = open(journal, O_WRONLY | O_APPEND);
	unsigned sum = 0, size = (unsigned)strlen(victim);
	unsigned char tail[12] = { 0 };

	for (unsigned i = 0; i < size; i++)
		sum += (unsigned)(signed char)victim[i];
	for (int i = 0; i < 4; i++) {
		tail[4 + i] = (unsigned char)(size >> (24 - 8 * i));
		tail[8 + i] = (unsigned char)(sum >> (24 - 8 * i));
	}
	CHECK_EQ(write(fd, tail, 4), 4);
	CHECK_EQ(write(fd, victim, size), (ssize_t)size);
	CHECK_EQ(write(fd, tail + 4, 8), 8);
	CHECK_EQ(write(fd, magic, 8), 8);
	close(fd);
}

TEST(a_journal_that_names_a_file_does_not_remove_it)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	AUTO_FREE char *victim = str_format("%s/victim", tap_dir);
	struct atoll_error err = { 0 };

	tap_write(tap_dirfd, "victim", "precious");
	leave_hot("DELETE");
	name_victim("clone.db-journal", victim);
	(void)sqlite_settle(&clone, &new, &err);
	CHECK_STR(tap_read(tap_dirfd, "victim"), "precious");
	/* That is what SQLite does by itself: else this test would prove nothing. */
	free(db_query("clone.db", "SELECT count(*) FROM t"));
	CHECK(access("victim", F_OK) < 0);
}

/* A transaction over several databases that was cut off: whether the file that holds it together is there decides. */
TEST(a_journal_of_several_databases_is_rolled_back_while_their_common_file_is_there)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	AUTO_FREE char *super = str_format("%s/clone.db-mj0123456789", tap_dir);
	struct atoll_error err = { 0 };

	tap_write(tap_dirfd, "clone.db-mj0123456789", "clone.db-journal");
	leave_hot("DELETE");
	name_victim("clone.db-journal", super);
	CHECK_DONE(sqlite_settle(&clone, &new, &err), err);
	AUTO_FREE char *cut_off = db_query("new.db", "SELECT count(*), sum(v=x'00') FROM t");
	CHECK_STR(cut_off, "8001|0;");
	CHECK(db_is_sound("new.db"));
	CHECK_EQ(unlink("new.db"), 0);
	CHECK_EQ(unlink("clone.db-mj0123456789"), 0);
	CHECK_DONE(sqlite_settle(&clone, &new, &err), err);
	CHECK(access("new.db-journal", F_OK) < 0);
	AUTO_FREE char *ended = db_query("new.db", "SELECT sum(v=x'00') > 0 FROM t");
	CHECK_STR(ended, "1;");
}

TEST(a_journal_whose_common_file_is_in_another_directory_is_refused)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };

	leave_hot("DELETE");
	name_victim("clone.db-journal", "/elsewhere/other.db-mj0123456789");
	CHECK_EQ(sqlite_settle(&clone, &new, &err), -ATOLL_REFUSED);
	CHECK_CONTAINS(err.message, "several directories");
}

TEST(a_damaged_database_is_refused)
{
	struct sqlite_file clone = db_file("clone.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };
	char noise[4096 * 5];
	int fd;

	db_run("clone.db", ROWS);
	memset(noise, 0x5a, sizeof noise);
	fd = open("clone.db", O_WRONLY);
	CHECK_EQ(pwrite(fd, noise, sizeof noise, 4096 * 4), (ssize_t)sizeof noise);
	close(fd);
	CHECK_EQ(sqlite_settle(&clone, &new, &err), -ATOLL_REFUSED);
	CHECK_CONTAINS(err.message, "is damaged");
}
