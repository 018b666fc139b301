/* SPDX-License-Identifier: Apache-2.0 */
#include "database-scene.h"

/* Images "old.db" of the original and "new.db" of the clone, as for a commit. */
static void make_images(void)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };

	unlink("old.db");
	CHECK_EQ(db_edits(), SQLITE_EDITS_WHOLE);
	CHECK_DONE(sqlite_clone(&original, &old, &err), err);
	CHECK_DONE(sqlite_adapt(&old, &original, &err), err);
	CHECK_DONE(sqlite_adapt(&new, &original, &err), err);
}

static int move(bool forward, struct strbuf *told, struct atoll_error *err)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");
	struct sqlite_tell tell = { db_add_told, told };

	return sqlite_image_move(&original, forward ? &old : &new, forward ? &new : &old, told ? &tell : NULL, err);
}

static int side(void)
{
	struct sqlite_file original = db_file("orig.db"), old = db_file("old.db"), new = db_file("new.db");
	struct atoll_error err = { 0 };
	int r = sqlite_image_side(&original, &old, &new, &err);

	CHECK_DONE(r, err);
	return r;
}

static void land(const char *schema, const char *inside)
{
	struct atoll_error err = { 0 };

	db_run("orig.db", schema);
	db_fork("orig.db");
	db_run("clone.db", inside);
	AUTO_FREE char *before = db_dump("orig.db");
	AUTO_FREE char *wanted = db_dump("clone.db");
	make_images();
	CHECK_EQ(side(), SQLITE_OLD);
	CHECK_DONE(move(true, NULL, &err), err);
	CHECK_EQ(side(), SQLITE_NEW);
	AUTO_FREE char *got = db_dump("orig.db");
	CHECK_STR(got, wanted);
	CHECK_DONE(move(true, NULL, &err), err);
	CHECK_DONE(move(false, NULL, &err), err);
	CHECK_EQ(side(), SQLITE_OLD);
	AUTO_FREE char *back = db_dump("orig.db");
	CHECK_STR(back, before);
	CHECK(db_is_sound("orig.db"));
}

#define TABLES \
	"CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1,1),(2,2); CREATE TABLE k(a); INSERT INTO k VALUES(1);"

TEST(a_counter_never_goes_back)
{
	struct atoll_error err = { 0 };

	db_run("orig.db", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO t(v) VALUES(1),(2);"
			  "CREATE TABLE u(id INTEGER PRIMARY KEY AUTOINCREMENT)");
	db_fork("orig.db");
	db_run("clone.db", "CREATE TABLE more(a); INSERT INTO t(v) VALUES(3)");
	db_run("orig.db",
	       "INSERT INTO t VALUES(7,7); DELETE FROM t WHERE id=7; INSERT INTO u VALUES(9); DELETE FROM u");
	make_images();
	CHECK_DONE(move(true, NULL, &err), err);
	AUTO_FREE char *landed = db_query("orig.db", "SELECT name, seq FROM sqlite_sequence ORDER BY name");
	CHECK_STR(landed, "'t'|7;'u'|9;");
	CHECK_EQ(side(), SQLITE_NEW);
	db_run("orig.db", "INSERT INTO t VALUES(20,0); DELETE FROM t WHERE id=20");
	CHECK_DONE(move(false, NULL, &err), err);
	AUTO_FREE char *back = db_query("orig.db", "SELECT name, seq FROM sqlite_sequence ORDER BY name");
	CHECK_STR(back, "'t'|20;'u'|9;");
	CHECK_EQ(side(), SQLITE_OLD);
	CHECK(db_is_sound("orig.db"));
}

TEST(a_schema_lands_and_goes_back)
{
	land(TABLES,
	     "ALTER TABLE t ADD COLUMN w DEFAULT 7; CREATE INDEX ti ON t(w); DROP TABLE k; PRAGMA user_version=5");
}

TEST(a_table_without_a_key_lands_and_goes_back)
{
	land(TABLES, "INSERT INTO k SELECT a+1 FROM k; UPDATE t SET v=9");
}

TEST(a_search_index_lands_and_goes_back)
{
	land("CREATE VIRTUAL TABLE f USING fts5(t); INSERT INTO f VALUES('hello')", "INSERT INTO f VALUES('world')");
}

TEST(another_size_of_pages_does_not_matter)
{
	land("PRAGMA page_size=1024; PRAGMA journal_mode=WAL;" TABLES,
	     "PRAGMA journal_mode=DELETE; PRAGMA page_size=8192; VACUUM; INSERT INTO k VALUES(5)");
	AUTO_FREE char *got = db_query("orig.db", "PRAGMA page_size");
	CHECK_STR(got, "1024;");
	AUTO_FREE char *mode = db_query("orig.db", "PRAGMA journal_mode");
	CHECK_STR(mode, "'wal';");
}

TEST(the_kind_of_journal_stays_the_originals)
{
	land("PRAGMA journal_mode=DELETE;" TABLES, "PRAGMA journal_mode=WAL; INSERT INTO k VALUES(5)");
	AUTO_FREE char *mode = db_query("orig.db", "PRAGMA journal_mode");
	CHECK_STR(mode, "'delete';");
}

TEST(a_connection_that_is_open_sees_it_at_once)
{
	struct atoll_error err = { 0 };
	AUTO_STRBUF s = STRBUF_INIT;
	sqlite3 *db;

	db_run("orig.db", TABLES);
	db_fork("orig.db");
	db_run("clone.db", "CREATE TABLE more(a); INSERT INTO more VALUES(3)");
	make_images();
	db = db_open("orig.db");
	db_sql(db, "SELECT * FROM t");
	CHECK_DONE(move(true, NULL, &err), err);
	db_add_query(&s, db, "SELECT * FROM more");
	CHECK_STR(strbuf_str(&s), "3;");
	db_sql(db, "INSERT INTO more VALUES(4)");
	sqlite3_close(db);
	CHECK_EQ(side(), SQLITE_NEITHER);
	CHECK_EQ(move(false, NULL, &err), -ATOLL_CONFLICT);
}

static void clash(const char *outside, const char *what)
{
	struct atoll_error err = { 0 };
	AUTO_STRBUF told = STRBUF_INIT;

	db_run("orig.db", TABLES);
	db_fork("orig.db");
	db_run("clone.db", "CREATE TABLE more(a)");
	make_images();
	db_run("orig.db", outside);
	AUTO_FREE char *before = db_dump("orig.db");
	CHECK_EQ(move(true, &told, &err), -ATOLL_CONFLICT);
	CHECK_CONTAINS(strbuf_str(&told), what);
	AUTO_FREE char *after = db_dump("orig.db");
	CHECK_STR(after, before);
}

TEST(any_row_of_somebody_else_conflicts)
{
	clash("UPDATE t SET v=3 WHERE id=1", "table t: its rows were changed by somebody else");
}

TEST(a_row_without_key_of_somebody_else_conflicts)
{
	clash("INSERT INTO k VALUES(1)", "table k: its rows were changed by somebody else");
}

TEST(a_schema_of_somebody_else_conflicts)
{
	clash("CREATE TABLE theirs(a)", "schema: it was changed by somebody else");
}

TEST(a_database_that_is_locked_is_busy_and_unchanged)
{
	struct atoll_error err = { 0 };
	sqlite3 *db;

	db_run("orig.db", TABLES);
	db_fork("orig.db");
	db_run("clone.db", "CREATE TABLE more(a)");
	make_images();
	db = db_open("orig.db");
	db_sql(db, "BEGIN IMMEDIATE");
	CHECK_EQ(move(true, NULL, &err), -ATOLL_BUSY);
	sqlite3_close(db);
	CHECK_EQ(side(), SQLITE_OLD);
}

TEST(equal_databases_are_the_same_whatever_their_pages)
{
	struct sqlite_file a = db_file("a.db"), b = db_file("b.db");
	struct atoll_error err = { 0 };

	db_run("a.db", "PRAGMA page_size=512;" TABLES);
	db_run("b.db", "CREATE TABLE junk(a); DROP TABLE junk;" TABLES "ANALYZE");
	CHECK_EQ(sqlite_same(&a, &b, NULL, &err), 1);
	db_run("b.db", "UPDATE t SET v='1' WHERE id=1");
	CHECK_EQ(sqlite_same(&a, &b, NULL, &err), 0);
}
