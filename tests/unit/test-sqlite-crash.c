/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killed at every write, and others at work meanwhile. The kill is at a chosen call of SQLite's own table of system calls, which is there for
 * tests.
 */
#include <sys/types.h>

#include "database-scene.h"

/* ---- killed at the n-th call ---- */

static int calls_left;

static void count_call(void)
{
	if (--calls_left == 0)
		kill(getpid(), SIGKILL);
}

static ssize_t counted_pwrite(int fd, const void *data, size_t size, off_t at)
{
	count_call();
	return pwrite(fd, data, size, at);
}

/* Of the directory from which a journal was removed: what makes that last. */
static int (*open_directory)(const char *path, int *ret);

static int counted_open_directory(const char *path, int *ret)
{
	count_call();
	return open_directory(path, ret);
}

static int counted_truncate(int fd, off_t size)
{
	count_call();
	return ftruncate(fd, size);
}

static int counted_unlink(const char *path)
{
	count_call();
	return unlink(path);
}

static void count_calls(int n)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	calls_left = n;
	vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)counted_pwrite);
	vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)counted_pwrite);
	open_directory = (int (*)(const char *, int *))vfs->xGetSystemCall(vfs, "openDirectory");
	vfs->xSetSystemCall(vfs, "openDirectory", (sqlite3_syscall_ptr)counted_open_directory);
	vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)counted_truncate);
	vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)counted_unlink);
}

static int move_image(bool forward, struct atoll_error *err)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");

	return sqlite_image_move(&original, forward ? &old : &new, forward ? &new : &old, NULL, err);
}

static int move_rows(bool forward, struct atoll_error *err)
{
	return db_move(forward, NULL, err);
}

static int image_side(void)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };
	int side = sqlite_image_side(&original, &old, &new, &err);

	CHECK_DONE(side, err);
	return side;
}

struct mover {
	int (*move)(bool forward, struct atoll_error *err);
	int (*side)(void);
};
static const struct mover rows_mover = { move_rows, db_side }, image_mover = { move_image, image_side };

/* True if it was killed. */
static bool killed_at(const struct mover *m, bool forward, int n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct atoll_error err = { 0 };

		count_calls(n);
		CHECK_DONE(m->move(forward, &err), err);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void check_nothing_is_left_beside(void)
{
	AUTO_STRBUF command = STRBUF_INIT;

	strbuf_adds(&command, "! ls | grep -q -e -mj");
	CHECK_EQ(system(strbuf_str(&command)), 0);
}

static void kill_everywhere(const struct mover *m, bool forward)
{
	AUTO_FREE char *from = db_dump("orig.db");
	struct atoll_error err = { 0 };
	int at = 1, old = 0, new = 0;

	for (;; at++) {
		bool killed = killed_at(m, forward, at);
		int side = m->side();
		AUTO_FREE char *now = db_dump("orig.db");

		CHECK(side == SQLITE_OLD || side == SQLITE_NEW);
		CHECK_EQ(strcmp(now, from) == 0, side == (forward ? SQLITE_OLD : SQLITE_NEW));
		CHECK(db_is_sound("orig.db"));
		check_nothing_is_left_beside();
		if (!killed)
			break;
		*(side == (forward ? SQLITE_OLD : SQLITE_NEW) ? &old : &new) += 1;
		CHECK_DONE(m->move(!forward, &err), err);
	}
	CHECK(at > 4 && old > 0 && new > 0);
	printf("# %d points, %d before it, %d after it\n", at - 1, old, new);
}

#define ROWS                                                                      \
	"CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE, w); CREATE TABLE k(a);" \
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<300) INSERT INTO t SELECT i, i, randomblob(90) FROM n;"

static void start(const char *mode, const char *inside)
{
	AUTO_FREE char *schema = str_format("PRAGMA journal_mode=%s;" ROWS, mode);

	db_run("orig.db", schema);
	db_fork("orig.db");
	db_run("clone.db", inside);
	db_edits();
}

static void kill_rows(const char *mode)
{
	start(mode,
	      "UPDATE t SET w=x'00' WHERE id%60=0; DELETE FROM t WHERE id%70=0; INSERT INTO t VALUES(1000,1000,1)");
	kill_everywhere(&rows_mover, true);
	kill_everywhere(&rows_mover, false);
}

static void kill_image(const char *mode)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };

	start(mode, "CREATE TABLE more AS SELECT * FROM t WHERE id<40; DROP TABLE k; DELETE FROM t WHERE id>100");
	CHECK_DONE(sqlite_clone(&original, &old, &err), err);
	CHECK_DONE(sqlite_adapt(&old, &original, &err), err);
	CHECK_DONE(sqlite_adapt(&new, &original, &err), err);
	kill_everywhere(&image_mover, true);
	kill_everywhere(&image_mover, false);
}

TEST(rows_killed_anywhere_stand_on_one_side_with_a_journal)
{
	kill_rows("DELETE");
}

TEST(rows_killed_anywhere_stand_on_one_side_with_a_log)
{
	kill_rows("WAL");
}

TEST(rows_killed_anywhere_stand_on_one_side_with_a_truncated_journal)
{
	kill_rows("TRUNCATE");
}

TEST(a_whole_killed_anywhere_stands_on_one_side_with_a_journal)
{
	kill_image("DELETE");
}

TEST(a_whole_killed_anywhere_stands_on_one_side_with_a_log)
{
	kill_image("WAL");
}

/* ---- others at work ---- */

#define ROUNDS 12

/* Adds to its own row and its own table until told to stop, and says how often it did. */
static void write_until_told(int me, int stop_fd, int answer_fd)
{
	sqlite3 *db = db_open("orig.db");
	AUTO_FREE char *sql = str_format(
		"BEGIN IMMEDIATE; UPDATE t SET w=w+1 WHERE id=%d; INSERT INTO log(who) VALUES(%d); COMMIT", me, me);
	int64_t n = 0;
	char c;

	while (read(stop_fd, &c, 1) < 0) {
		db_sql(db, sql);
		n++;
		usleep(500);
	}
	sqlite3_close(db);
	CHECK_EQ(write(answer_fd, &n, sizeof n), (ssize_t)sizeof n);
	_exit(0);
}

/* Two rows are always changed together by Atoll. */
static void read_until_told(int stop_fd, int answer_fd)
{
	sqlite3 *db = db_open("orig.db");
	int64_t n = 0;
	char c;

	while (read(stop_fd, &c, 1) < 0) {
		AUTO_STRBUF s = STRBUF_INIT;

		db_add_query(&s, db, "SELECT count(DISTINCT w) FROM t WHERE id IN (101, 102)");
		CHECK_STR(strbuf_str(&s), "1;");
		n++;
		usleep(300);
	}
	sqlite3_close(db);
	CHECK_EQ(write(answer_fd, &n, sizeof n), (ssize_t)sizeof n);
	_exit(0);
}

struct helper {
	pid_t pid;
	int stop, answer;
};

static struct helper begin(int me)
{
	struct helper h;
	int stop[2], answer[2];

	CHECK_EQ(pipe2(stop, O_CLOEXEC | O_NONBLOCK), 0);
	CHECK_EQ(pipe(answer), 0);
	h = (struct helper){ fork(), stop[1], answer[0] };
	if (h.pid == 0) {
		close(stop[1]);
		if (me)
			write_until_told(me, stop[0], answer[1]);
		else
			read_until_told(stop[0], answer[1]);
	}
	close(stop[0]);
	close(answer[1]);
	return h;
}

static int64_t end(struct helper *h)
{
	int64_t n = -1;
	int status;

	CHECK_EQ(write(h->stop, "x", 1), 1);
	CHECK_EQ(read(h->answer, &n, sizeof n), (ssize_t)sizeof n);
	CHECK_EQ(waitpid(h->pid, &status, 0), h->pid);
	CHECK_EQ(status, 0);
	return n;
}

static void commit_among_others(const char *mode)
{
	AUTO_FREE char *schema = str_format(
		"PRAGMA journal_mode=%s; CREATE TABLE t(id INTEGER PRIMARY KEY, w); CREATE TABLE log(id INTEGER PRIMARY KEY, who);"
		"INSERT INTO t VALUES(1,0),(2,0),(101,0),(102,0)",
		mode);
	struct sqlite_file original = { tap_dirfd, "orig.db", NULL, 20000 }, edits = db_file("edits.db");
	struct atoll_error err = { 0 };
	struct helper a, b, r;

	db_run("orig.db", schema);
	a = begin(1);
	b = begin(2);
	r = begin(0);
	for (int i = 0; i < ROUNDS; i++) {
		struct sqlite_file base = db_file("base.db"), clone = db_file("clone.db");

		unlink("base.db");
		unlink("clone.db");
		CHECK_DONE(sqlite_clone(&original, &base, &err), err);
		CHECK_EQ(system("cp base.db clone.db"), 0);
		(void)clone;
		db_run("clone.db", "UPDATE t SET w=w+1 WHERE id>100");
		CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
		CHECK_DONE(sqlite_edits_move(&original, &edits, true, false, NULL, &err), err);
	}
	int64_t n = end(&a), m = end(&b);
	AUTO_FREE char *expected =
		str_format("1|%lld;2|%lld;101|%d;102|%d;", (long long)n, (long long)m, ROUNDS, ROUNDS);
	CHECK(end(&r) > 0);
	CHECK(n > 0 && m > 0);
	AUTO_FREE char *got = db_query("orig.db", "SELECT * FROM t ORDER BY id");
	CHECK_STR(got, expected);
	AUTO_FREE char *count = str_format("%lld;", (long long)(n + m));
	AUTO_FREE char *logged = db_query("orig.db", "SELECT count(*) FROM log");
	CHECK_STR(logged, count);
	CHECK(db_is_sound("orig.db"));
}

TEST(nobody_loses_a_write_and_nobody_sees_half_of_one_with_a_journal)
{
	commit_among_others("DELETE");
}

TEST(nobody_loses_a_write_and_nobody_sees_half_of_one_with_a_log)
{
	commit_among_others("WAL");
}

/* The whole content lands only if nobody wrote since: whoever did keeps it. */
static void replace_among_others(const char *mode)
{
	AUTO_FREE char *schema = str_format(
		"PRAGMA journal_mode=%s; CREATE TABLE t(id INTEGER PRIMARY KEY, w); CREATE TABLE log(id INTEGER PRIMARY KEY, who);"
		"CREATE TABLE k(a); INSERT INTO t VALUES(1,0),(101,0),(102,0)",
		mode);
	struct sqlite_file original = { tap_dirfd, "orig.db", NULL, 20000 }, old = db_file("old.db"),
			   new = db_file("new.db");
	struct atoll_error err = { 0 };
	int landed = 0, r;
	struct helper a;

	db_run("orig.db", schema);
	a = begin(1);
	for (int i = 0; i < ROUNDS; i++) {
		unlink("old.db");
		unlink("new.db");
		CHECK_DONE(sqlite_clone(&original, &old, &err), err);
		CHECK_DONE(sqlite_adapt(&old, &original, &err), err);
		CHECK_EQ(system("cp old.db new.db"), 0);
		db_run("new.db", "INSERT INTO k VALUES(1)");
		r = sqlite_image_move(&original, &old, &new, NULL, &err);
		CHECK(r == 0 || r == -ATOLL_CONFLICT);
		landed += r == 0;
	}
	int64_t n = end(&a);
	AUTO_FREE char *expected = str_format("%lld|%lld|%d;", (long long)n, (long long)n, landed);
	AUTO_FREE char *got = db_query(
		"orig.db", "SELECT (SELECT w FROM t WHERE id=1), (SELECT count(*) FROM log), (SELECT count(*) FROM k)");
	CHECK_STR(got, expected);
	CHECK(db_is_sound("orig.db"));
}

TEST(a_whole_never_takes_the_place_of_a_newer_write_with_a_journal)
{
	replace_among_others("DELETE");
}

TEST(a_whole_never_takes_the_place_of_a_newer_write_with_a_log)
{
	replace_among_others("WAL");
}

/* ---- locked ---- */

static void busy(const char *mode, const char *lock)
{
	struct atoll_error err = { 0 };
	sqlite3 *db;

	start(mode, "UPDATE t SET w=1 WHERE id=1");
	db = db_open("orig.db");
	db_sql(db, lock);
	CHECK_EQ(db_move(true, NULL, &err), -ATOLL_BUSY);
	sqlite3_close(db);
	CHECK_EQ(db_side(), SQLITE_OLD);
	CHECK_DONE(db_move(true, NULL, &err), err);
}

TEST(a_writer_keeps_edits_waiting_and_then_they_are_busy)
{
	busy("DELETE", "BEGIN IMMEDIATE");
}

TEST(a_writer_with_a_log_keeps_edits_waiting_and_then_they_are_busy)
{
	busy("WAL", "BEGIN IMMEDIATE; INSERT INTO k VALUES(1)");
}

TEST(a_reader_that_does_not_end_keeps_edits_from_landing)
{
	busy("DELETE", "BEGIN; SELECT * FROM t");
}
