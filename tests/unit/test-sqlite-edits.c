/* SPDX-License-Identifier: Apache-2.0 */
#include "database-scene.h"

#define PEOPLE                                                                                          \
	"CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, mail TEXT UNIQUE, age);" \
	"INSERT INTO people VALUES(1,'ann','a@x',1),(2,'bob','b@x',2),(3,'cid','c@x',3);"

static int add_line(void *arg, enum sqlite_what what, const char *object, const char *note)
{
	strbuf_addf(arg, "%c %s: %s\n", "AMD"[what], object, note);
	return 0;
}

static const char *summary(void)
{
	static struct strbuf s;
	struct sqlite_file edits = db_file("edits.db");
	struct atoll_error err = { 0 };

	strbuf_truncate(&s, 0);
	CHECK_DONE(sqlite_edits_summary(&edits, add_line, &s, &err), err);
	return strbuf_str(&s);
}

static const char *reason(void)
{
	static char *text;
	struct sqlite_file edits = db_file("edits.db");
	struct atoll_error err = { 0 };

	free(text);
	text = NULL;
	CHECK_DONE(sqlite_edits_reason(&edits, &text, &err), err);
	return text;
}

/* Forks, edits the clone, and lands it in the original, in which somebody else did something meanwhile. */
static void land(const char *schema, const char *inside, const char *outside, const char *expected)
{
	struct atoll_error err = { 0 };

	db_run("orig.db", schema);
	db_fork("orig.db");
	db_run("clone.db", inside);
	if (outside)
		db_run("orig.db", outside);
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	AUTO_FREE char *before = db_dump("orig.db");
	CHECK_EQ(db_side(), SQLITE_OLD);
	CHECK_DONE(db_move(true, NULL, &err), err);
	CHECK_EQ(db_side(), SQLITE_NEW);
	db_run("expected.db", schema);
	db_run("expected.db", inside);
	if (expected)
		db_run("expected.db", expected);
	AUTO_FREE char *wanted = db_dump("expected.db");
	AUTO_FREE char *got = db_dump("orig.db");
	CHECK_STR(got, wanted);
	CHECK(db_is_sound("orig.db"));
	CHECK_DONE(db_move(true, NULL, &err), err); /* once more changes nothing */
	CHECK_DONE(db_move(false, NULL, &err), err);
	CHECK_EQ(db_side(), SQLITE_OLD);
	AUTO_FREE char *back = db_dump("orig.db");
	CHECK_STR(back, before);
	CHECK(db_is_sound("orig.db"));
}

TEST(rows_land_and_go_back)
{
	land(PEOPLE,
	     "UPDATE people SET age=20 WHERE id=2; DELETE FROM people WHERE id=1; INSERT INTO people VALUES(9,'new',NULL,x'00ff')",
	     NULL, NULL);
	CHECK_STR(summary(), "M table people: 1 inserted, 1 updated, 1 deleted\n");
}

TEST(rows_of_others_stay)
{
	land(PEOPLE, "UPDATE people SET age=20 WHERE id=2",
	     "UPDATE people SET age=30 WHERE id=3; INSERT INTO people VALUES(4,'dan','d@x',4); DELETE FROM people WHERE id=1",
	     "UPDATE people SET age=30 WHERE id=3; INSERT INTO people VALUES(4,'dan','d@x',4); DELETE FROM people WHERE id=1");
}

TEST(an_edit_that_the_collation_calls_equal_lands)
{
	land(PEOPLE, "UPDATE people SET name='BOB' WHERE id=2", NULL, NULL);
}

TEST(a_number_that_changes_its_type_lands)
{
	land(PEOPLE, "UPDATE people SET age=2.0 WHERE id=2; UPDATE people SET age='3' WHERE id=3", NULL, NULL);
}

TEST(a_key_that_changes_its_case_lands)
{
	land("CREATE TABLE t(k TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, v); INSERT INTO t VALUES('a',1),('b',2)",
	     "UPDATE t SET k='A' WHERE k='a'", NULL, NULL);
}

TEST(a_key_that_compares_otherwise_than_its_column_names_each_row)
{
	static const char *const ends[] = { "", " WITHOUT ROWID" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		AUTO_FREE char *schema =
			str_format("CREATE TABLE t(k TEXT COLLATE NOCASE NOT NULL, v, PRIMARY KEY(k COLLATE BINARY))%s;"
				   "INSERT INTO t VALUES('a',1),('A',2),('b',3)",
				   ends[i]);

		land(schema,
		     "UPDATE t SET v=9 WHERE k='a' COLLATE BINARY; DELETE FROM t WHERE k='b'; INSERT INTO t VALUES('c',4)",
		     "INSERT INTO t VALUES('C',5); UPDATE t SET v=6 WHERE k='A' COLLATE BINARY",
		     "INSERT INTO t VALUES('C',5); UPDATE t SET v=6 WHERE k='A' COLLATE BINARY");
		CHECK_STR(summary(), "M table t: 1 inserted, 1 updated, 1 deleted\n");
		for (const char *const *name =
			     (const char *const[]){ "orig.db", "expected.db", "clone.db", "edits.db", NULL };
		     *name; name++)
			unlink(*name);
	}
	land("CREATE TABLE t(k TEXT NOT NULL, v, PRIMARY KEY(k COLLATE NOCASE)); INSERT INTO t VALUES('a',1),('b',2)",
	     "UPDATE t SET k='A' WHERE k='a'; UPDATE t SET v=3 WHERE k='b'", NULL, NULL);
	CHECK_STR(summary(), "M table t: 2 updated\n");
}

TEST(two_rows_exchange_a_unique_value)
{
	land(PEOPLE,
	     "UPDATE people SET mail='?' WHERE id=1; UPDATE people SET mail='a@x' WHERE id=2; UPDATE people SET mail='b@x' WHERE id=1",
	     NULL, NULL);
}

TEST(rowids_stay_with_their_rows)
{
	land("CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, v); INSERT INTO t(_rowid_,k,v) VALUES(7,'a',1),(9,'b',2),(11,'c',3)",
	     "UPDATE t SET v=10 WHERE k='a'; DELETE FROM t WHERE k='c'; INSERT INTO t(_rowid_,k,v) VALUES(50,'d',4)",
	     NULL, NULL);
	AUTO_FREE char *got = db_query("orig.db", "SELECT _rowid_, k FROM t ORDER BY 1");
	CHECK_STR(got, "7|'a';9|'b';11|'c';");
}

TEST(a_rowid_that_somebody_took_meanwhile_is_no_conflict)
{
	struct atoll_error err = { 0 };

	db_run("orig.db", "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, v); INSERT INTO t VALUES('a',1)");
	db_fork("orig.db");
	db_run("clone.db", "INSERT INTO t VALUES('ours',2)");
	db_run("orig.db", "INSERT INTO t VALUES('theirs',3)");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	CHECK_DONE(db_move(true, NULL, &err), err);
	AUTO_FREE char *got = db_query("orig.db", "SELECT _rowid_, k FROM t ORDER BY 1");
	CHECK_STR(got, "1|'a';2|'theirs';3|'ours';");
}

TEST(odd_tables_land)
{
	land("CREATE TABLE \"a \"\"b\"(\"x'y\" BLOB NOT NULL, n, v, g AS (v+1), s AS (v+2) STORED, PRIMARY KEY(n, \"x'y\")) WITHOUT ROWID;"
	     "INSERT INTO \"a \"\"b\" VALUES(x'00',1,1),(x'0001',1,2),(x'00',2,3);"
	     "CREATE TABLE r(rowid TEXT PRIMARY KEY NOT NULL, oid, _rowid_); INSERT INTO r VALUES('k',1,2),('l',3,4);"
	     "CREATE TABLE d(id INTEGER PRIMARY KEY DESC, v); INSERT INTO d VALUES(5,1);"
	     "CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, v REAL, t TEXT) STRICT; INSERT INTO q(v,t) VALUES(1,'1');"
	     "CREATE INDEX qi ON q(v+1) WHERE v > 0; CREATE VIEW w AS SELECT * FROM q",
	     "UPDATE \"a \"\"b\" SET v=v*10; DELETE FROM r WHERE rowid='k'; UPDATE r SET oid=9; UPDATE d SET v=2;"
	     "INSERT INTO q(v,t) VALUES(2.5,NULL); UPDATE q SET v=7 WHERE id=1; PRAGMA user_version=7; PRAGMA application_id=99",
	     NULL, NULL);
	CHECK_CONTAINS(summary(), "M pragma user_version: 7, was 0\n");
}

TEST(a_counter_never_goes_back)
{
	struct atoll_error err = { 0 };

	land("CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO q(v) VALUES(1)",
	     "INSERT INTO q(v) VALUES(2),(3),(4); DELETE FROM q WHERE id=4", NULL, NULL);
	AUTO_FREE char *got = db_query("orig.db", "SELECT * FROM sqlite_sequence");
	CHECK_STR(got, "'q'|4;");
	CHECK_DONE(db_move(true, NULL, &err), err);
}

TEST(a_counter_alone_is_no_change)
{
	db_run("orig.db", "CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO q(v) VALUES(1)");
	db_fork("orig.db");
	db_run("clone.db", "INSERT INTO q(v) VALUES(2); DELETE FROM q WHERE v=2");
	CHECK_EQ(db_edits(), SQLITE_EDITS_NONE);
	db_run("clone.db", "UPDATE sqlite_sequence SET seq=1000");
	CHECK_EQ(db_edits(), SQLITE_EDITS_NONE);
}

TEST(triggers_do_not_run_again)
{
	land(PEOPLE "CREATE TABLE log(id INTEGER PRIMARY KEY, what);"
		    "CREATE TRIGGER t AFTER UPDATE ON people BEGIN INSERT INTO log(what) VALUES(new.name); END;"
		    "CREATE TRIGGER u AFTER DELETE ON people BEGIN SELECT RAISE(ABORT, 'no'); END",
	     "UPDATE people SET age=8 WHERE id=1", NULL, NULL);
}

TEST(nothing_changed_gives_no_edits)
{
	db_run("orig.db", PEOPLE "CREATE TABLE k(a); INSERT INTO k VALUES(1)");
	db_fork("orig.db");
	CHECK_EQ(db_edits(), SQLITE_EDITS_NONE);
	db_run("clone.db", "UPDATE people SET age=age; VACUUM; ANALYZE");
	CHECK_EQ(db_edits(), SQLITE_EDITS_NONE);
}

/* ---- conflicts ---- */

static void clash(const char *schema, const char *inside, const char *outside, const char *what)
{
	struct atoll_error err = { 0 };
	AUTO_STRBUF told = STRBUF_INIT;

	db_run("orig.db", schema);
	db_fork("orig.db");
	db_run("clone.db", inside);
	db_run("orig.db", outside);
	AUTO_FREE char *before = db_dump("orig.db");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	CHECK_EQ(db_move(true, &told, &err), -ATOLL_CONFLICT);
	CHECK_CONTAINS(strbuf_str(&told), what);
	AUTO_FREE char *after = db_dump("orig.db");
	CHECK_STR(after, before);
}

TEST(a_row_that_somebody_changed_in_another_column_conflicts)
{
	clash(PEOPLE, "UPDATE people SET age=20 WHERE id=2", "UPDATE people SET mail='z@x' WHERE id=2",
	      "table people: the row id=2 was changed by somebody else\n");
}

TEST(a_row_that_somebody_removed_conflicts)
{
	clash(PEOPLE, "UPDATE people SET age=20 WHERE id=2", "DELETE FROM people WHERE id=2",
	      "table people: the row id=2 was removed by somebody else\n");
}

TEST(a_row_that_somebody_inserted_conflicts)
{
	clash(PEOPLE, "INSERT INTO people VALUES(4,'o','o@x',1)", "INSERT INTO people VALUES(4,'t','t@x',1)",
	      "table people: the row id=4 was inserted by somebody else\n");
}

TEST(a_removed_row_that_somebody_changed_conflicts)
{
	clash(PEOPLE, "DELETE FROM people WHERE id=2", "UPDATE people SET name='Bob' WHERE id=2",
	      "table people: the row id=2 was changed by somebody else\n");
}

TEST(a_unique_value_that_somebody_gave_away_conflicts)
{
	clash(PEOPLE, "INSERT INTO people VALUES(4,'o','o@x',1)", "INSERT INTO people VALUES(5,'t','o@x',1)",
	      "the row id=4 has a unique value that somebody else gave to another row");
}

TEST(a_table_that_somebody_made_anew_conflicts)
{
	clash(PEOPLE, "UPDATE people SET age=20 WHERE id=2", "ALTER TABLE people ADD COLUMN extra",
	      "table people: it was made anew or removed by somebody else");
}

TEST(a_number_that_somebody_changed_conflicts)
{
	clash(PEOPLE, "PRAGMA user_version=3", "PRAGMA user_version=2",
	      "pragma user_version: it was changed by somebody else");
}

#define FAMILY                                                                                  \
	"CREATE TABLE parent(id INTEGER PRIMARY KEY, v); INSERT INTO parent VALUES(1,1),(2,2);" \
	"CREATE TABLE child(id INTEGER PRIMARY KEY, p REFERENCES parent(id) ON DELETE CASCADE); INSERT INTO child VALUES(1,1);"

TEST(a_row_that_would_refer_to_nothing_conflicts)
{
	clash(FAMILY, "PRAGMA foreign_keys=ON; DELETE FROM parent WHERE id=1", "INSERT INTO child VALUES(2,1)",
	      "table child: the row rowid=2 would refer to no row of \"parent\" any more");
}

TEST(foreign_keys_that_another_process_made_useless_conflict)
{
	struct atoll_error err = { 0 };

	db_run("orig.db",
	       "CREATE TABLE parent(id INTEGER PRIMARY KEY, k); CREATE UNIQUE INDEX i ON parent(k); INSERT INTO parent VALUES(1,1);"
	       "CREATE TABLE child(id INTEGER PRIMARY KEY, k REFERENCES parent(k))");
	db_fork("orig.db");
	db_run("clone.db", "INSERT INTO child VALUES(1,1)");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	db_run("orig.db", "DROP INDEX i");
	CHECK_EQ(db_move(true, NULL, &err), -ATOLL_CONFLICT);
	CHECK_CONTAINS(err.message, "foreign keys cannot be checked");
	db_run("orig.db", "CREATE UNIQUE INDEX i ON parent(k)");
	CHECK_DONE(db_move(true, NULL, &err), err);
}

/* Inside one such row is removed: as many lead nowhere afterwards as before. */
TEST(a_row_without_rowid_that_would_refer_to_nothing_conflicts)
{
	clash("CREATE TABLE parent(k TEXT COLLATE NOCASE, n, v, PRIMARY KEY(n, k)); INSERT INTO parent VALUES('a',1,1),('b',2,2);"
	      "CREATE TABLE child(\"i'd\" TEXT, j, x, y, PRIMARY KEY(j, \"i'd\"), FOREIGN KEY(y, x) REFERENCES Parent) WITHOUT ROWID;"
	      "INSERT INTO child VALUES('p',1,'A',1),('q',1,'zz',9),('r',1,NULL,9)",
	      "DELETE FROM parent WHERE n=2; DELETE FROM child WHERE x='zz'",
	      "INSERT INTO child VALUES('it''s',7,'B',2)",
	      "table child: the row i'd='it''s' j=7 would refer to no row of \"Parent\" any more\n");
}

TEST(what_a_foreign_key_removed_inside_is_removed)
{
	land(FAMILY, "PRAGMA foreign_keys=ON; DELETE FROM parent WHERE id=1", "INSERT INTO child VALUES(2,2)",
	     "INSERT INTO child VALUES(2,2)");
}

TEST(a_database_that_does_not_keep_its_foreign_keys_is_let_alone)
{
	land(FAMILY "INSERT INTO child VALUES(7,99);", "DELETE FROM parent WHERE id=2; INSERT INTO child VALUES(8,98)",
	     NULL, NULL);
}

TEST(an_undo_that_would_lose_somebody_elses_work_conflicts)
{
	struct atoll_error err = { 0 };
	AUTO_STRBUF told = STRBUF_INIT;

	land(PEOPLE, "UPDATE people SET age=20 WHERE id=2; INSERT INTO people VALUES(4,'o','o@x',1)", NULL, NULL);
	CHECK_DONE(db_move(true, NULL, &err), err);
	db_run("orig.db", "UPDATE people SET age=21 WHERE id=2");
	CHECK_EQ(db_side(), SQLITE_NEITHER);
	CHECK_EQ(db_move(false, &told, &err), -ATOLL_CONFLICT);
	CHECK_STR(strbuf_str(&told), "table people: the row id=2 was changed by somebody else\n");
}

TEST(force_puts_rows_on_a_side_from_anywhere)
{
	struct sqlite_file original = db_file("orig.db"), edits = db_file("edits.db");
	struct atoll_error err = { 0 };

	db_run("orig.db", PEOPLE);
	db_fork("orig.db");
	db_run("clone.db",
	       "UPDATE people SET age=20 WHERE id=2; DELETE FROM people WHERE id=3; INSERT INTO people VALUES(4,'o','o@x',1)");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	db_run("orig.db",
	       "DELETE FROM people WHERE id=2; UPDATE people SET age=9 WHERE id=3; INSERT INTO people VALUES(4,'t','t@x',1)");
	CHECK_DONE(sqlite_edits_move(&original, &edits, true, true, NULL, &err), err);
	CHECK_EQ(db_side(), SQLITE_NEW);
}

/* ---- what rows cannot tell ---- */

static void whole(const char *schema, const char *inside, const char *why)
{
	db_run("orig.db", schema);
	db_fork("orig.db");
	db_run("clone.db", inside);
	CHECK_EQ(db_edits(), SQLITE_EDITS_WHOLE);
	CHECK_CONTAINS(reason(), why);
}

TEST(a_table_without_a_key_lands_as_a_whole)
{
	whole("CREATE TABLE k(a); INSERT INTO k VALUES(1)", "INSERT INTO k VALUES(2)", "has no primary key");
	CHECK_STR(summary(), "M table k: 2 rows, 1 before\n");
}

TEST(a_key_that_is_null_names_no_row)
{
	whole("CREATE TABLE k(a TEXT PRIMARY KEY, b); INSERT INTO k VALUES(NULL,1),(NULL,2)", "UPDATE k SET b=3",
	      "does not name each row");
}

TEST(another_schema_lands_as_a_whole)
{
	whole(PEOPLE, "CREATE TABLE x(a\n\tINTEGER); DROP TABLE people; CREATE INDEX xi ON x(a)", "the schema differs");
	CHECK_STR(
		summary(),
		"D schema people: DROP table; was: CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE,"
		" mail TEXT UNIQUE, age)\nA schema x: CREATE TABLE x(a INTEGER)\nA schema xi: CREATE INDEX xi ON x(a)\n");
}

TEST(a_search_index_lands_as_a_whole)
{
	whole("CREATE VIRTUAL TABLE f USING fts5(t); INSERT INTO f VALUES('hello')", "INSERT INTO f VALUES('world')",
	      "belongs to a virtual table");
}

TEST(what_a_virtual_table_of_an_unknown_module_keeps_lands_as_a_whole)
{
	db_run("orig.db",
	       "CREATE TABLE v_data(id INTEGER PRIMARY KEY, block); CREATE TABLE vector(id INTEGER PRIMARY KEY, a);"
	       "CREATE VIRTUAL TABLE f USING fts5(x); CREATE TABLE f_notes(id INTEGER PRIMARY KEY, a);"
	       "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema"
	       " VALUES('table','v','v',0,'CREATE VIRTUAL TABLE v USING module_of_a_program(x)')");
	db_fork("orig.db");
	db_run("clone.db", "INSERT INTO vector VALUES(1,2); INSERT INTO f_notes VALUES(1,2)");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	db_run("clone.db", "INSERT INTO v_data VALUES(1,x'00')");
	CHECK_EQ(db_edits(), SQLITE_EDITS_WHOLE);
	CHECK_STR(reason(), "the table \"v_data\" belongs to a virtual table");
}

TEST(another_encoding_lands_as_a_whole)
{
	db_run("orig.db", PEOPLE);
	db_fork("orig.db");
	unlink("clone.db");
	db_run("clone.db", "PRAGMA encoding='UTF-16le';" PEOPLE);
	CHECK_EQ(db_edits(), SQLITE_EDITS_WHOLE);
	CHECK_STR(reason(), "the text encoding differs");
	CHECK_STR(summary(), "M pragma encoding: UTF-16le, was UTF-8\n");
}

#define GREEKS "CREATE TABLE g(k TEXT PRIMARY KEY, v); INSERT INTO g VALUES('\xce\xb1',1),('\xf0\x9f\x98\x80',NULL);"

TEST(what_differs_under_another_encoding_is_told)
{
	db_run("orig.db", PEOPLE GREEKS "CREATE TABLE gone(a); CREATE TABLE k(a); INSERT INTO k VALUES(1)");
	db_fork("orig.db");
	unlink("clone.db");
	db_run("clone.db",
	       "PRAGMA encoding='UTF-16be';" PEOPLE GREEKS
	       "CREATE TABLE k(a, b); UPDATE people SET name='forged' WHERE id=3; DELETE FROM people WHERE id=1;"
	       "CREATE VIEW w AS SELECT 1; PRAGMA user_version=5");
	CHECK_EQ(db_edits(), SQLITE_EDITS_WHOLE);
	CHECK_STR(reason(), "the text encoding differs");
	CHECK_STR(summary(), "D schema gone: DROP table; was: CREATE TABLE gone(a)\nM schema k: CREATE TABLE k(a, b)\n"
			     "A schema w: CREATE VIEW w AS SELECT 1\n"
			     "M pragma encoding: UTF-16be, was UTF-8\nM pragma user_version: 5, was 0\n"
			     "M table k: 0 rows, 1 before; not compared, for the definition of the table differs\n"
			     "M table people: 2 rows, 3 before\n");
}

TEST(a_database_of_another_encoding_is_served)
{
	land("PRAGMA encoding='UTF-16be';" PEOPLE, "UPDATE people SET name='\xc3\xa4\xe2\x82\xac' WHERE id=2", NULL,
	     NULL);
}

static int add_row(const struct atoll_row *row, void *arg)
{
	for (size_t i = 0; i < row->n_columns; i++)
		strbuf_addf(arg, "%s%s%s=%s>%s ", row->kind == ATOLL_ADDED ? "+" : "", row->keys[i] ? "*" : "",
			    row->columns[i], row->old_values ? row->old_values[i] : "-",
			    row->new_values ? row->new_values[i] : "-");
	strbuf_addf(arg, "(%s)\n", row->table);
	return 0;
}

TEST(rows_are_told_with_their_values)
{
	struct sqlite_file edits = db_file("edits.db");
	struct atoll_error err = { 0 };
	AUTO_STRBUF s = STRBUF_INIT;

	db_run("orig.db", PEOPLE);
	db_fork("orig.db");
	db_run("clone.db",
	       "UPDATE people SET name='O''B' WHERE id=2; DELETE FROM people WHERE id=3; INSERT INTO people VALUES(4,NULL,x'0a',1.5)");
	CHECK_EQ(db_edits(), SQLITE_EDITS_ROWS);
	CHECK_DONE(sqlite_edits_rows(&edits, NULL, add_row, &s, &err), err);
	CHECK_STR(strbuf_str(&s), "*id=2>2 name='bob'>'O''B' mail='b@x'>'b@x' age=2>2 (people)\n"
				  "*id=3>- name='cid'>- mail='c@x'>- age=3>- (people)\n"
				  "+*id=->4 +name=->NULL +mail=->x'0a' +age=->1.5 (people)\n");
	strbuf_truncate(&s, 0);
	CHECK_EQ(sqlite_edits_rows(&edits, "none", add_row, &s, &err), 0);
	CHECK_STR(strbuf_str(&s), "");
}

/* ---- a table of which the definition differs ---- */

/* Which table lines and rows the edits list. */
static const char *altered(const char *schema, const char *inside)
{
	static struct strbuf s;
	struct sqlite_file edits = db_file("edits.db");
	struct atoll_error err = { 0 };
	const char *lines;

	for (const char *const *name = (const char *const[]){ "orig.db", "clone.db", "edits.db", NULL }; *name; name++)
		unlink(*name);
	whole(schema, inside, "the schema differs");
	lines = strstr(summary(), "M table");
	strbuf_truncate(&s, 0);
	strbuf_adds(&s, lines ? lines : "");
	CHECK_DONE(sqlite_edits_rows(&edits, NULL, add_row, &s, &err), err);
	return strbuf_str(&s);
}

#define SMALL "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES(1,'a'),(2,'b'),(3,'c');"

TEST(rows_of_an_altered_table_are_compared)
{
	CHECK_STR(altered(SMALL, "ALTER TABLE t ADD COLUMN w; DELETE FROM t WHERE id<3; UPDATE t SET v='forged'"),
		  "M table t: 1 updated, 2 deleted\n*id=1>- v='a'>- w=NULL>- (t)\n*id=2>- v='b'>- w=NULL>- (t)\n"
		  "*id=3>3 v='c'>'forged' w=NULL>NULL (t)\n");
	CHECK_STR(altered(SMALL, "ALTER TABLE t ADD COLUMN w"), "");
	CHECK_STR(altered(SMALL, "ALTER TABLE t DROP COLUMN v; INSERT INTO t VALUES(9)"),
		  "M table t: 1 inserted\n+*id=->9 (t)\n");
	CHECK_STR(altered(SMALL,
			  "CREATE TABLE n(id INTEGER PRIMARY KEY, w, v TEXT); INSERT INTO n SELECT id, NULL, v FROM t;"
			  "DROP TABLE t; ALTER TABLE n RENAME TO t; UPDATE t SET v='x' WHERE id=2"),
		  "M table t: 1 updated\n*id=2>2 w=NULL>NULL v='b'>'x' (t)\n");
}

TEST(a_column_that_was_added_differs_where_it_has_not_its_default)
{
	static const char *const defaults[] = { "REAL DEFAULT 0", "TEXT DEFAULT 'it''s'", "DEFAULT x'00ff'",
						"BOOL DEFAULT TRUE", "INTEGER DEFAULT '-5'" };

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		AUTO_FREE char *add = str_format("ALTER TABLE t ADD COLUMN w %s", defaults[i]);
		AUTO_FREE char *write = str_format("%s; UPDATE t SET w=7 WHERE id=2", add);

		CHECK_STR(altered(SMALL, add), "");
		CHECK_CONTAINS(altered(SMALL, write), "M table t: 1 updated\n*id=2>2 v='b'>'b' w=");
	}
	CHECK_STR(altered(SMALL, "ALTER TABLE t ADD COLUMN w; UPDATE t SET w=7 WHERE id=2"),
		  "M table t: 1 updated\n*id=2>2 v='b'>'b' w=NULL>7 (t)\n");
}

TEST(a_column_that_was_renamed_keeps_its_values)
{
	CHECK_STR(altered(SMALL, "ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t RENAME COLUMN id TO k"), "");
	CHECK_STR(altered(SMALL, "ALTER TABLE t RENAME COLUMN v TO w; UPDATE t SET w='x' WHERE id=1"),
		  "M table t: 1 updated\n*id=1>1 w='a'>'x' (t)\n");
	/* No page of the table differs, but the values of the column that is now called v do. */
	CHECK_STR(altered(SMALL "DELETE FROM t WHERE id>1",
			  "ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t ADD COLUMN v"),
		  "M table t: 1 updated\n*id=1>1 w=NULL>'a' v='a'>NULL (t)\n");
}

TEST(rows_of_a_table_with_another_key_are_counted)
{
	static const char *const makes[] = { "n(id INTEGER, v TEXT PRIMARY KEY)", "n(id TEXT PRIMARY KEY, v TEXT)",
					     "n(id INTEGER PRIMARY KEY, v TEXT) WITHOUT ROWID", "n(id INTEGER, v TEXT)",
					     "n(id INTEGER, v TEXT, PRIMARY KEY(id, v))" };

	for (size_t i = 0; i < ARRAY_SIZE(makes); i++) {
		AUTO_FREE char *script = str_format("CREATE TABLE %s; INSERT INTO n SELECT * FROM t WHERE id<3;"
						    "DROP TABLE t; ALTER TABLE n RENAME TO t",
						    makes[i]);

		CHECK_STR(altered(SMALL, script),
			  "M table t: 2 rows, 3 before; not compared, for the definition of the table differs\n");
	}
	CHECK_STR(altered("CREATE TABLE t(a); INSERT INTO t VALUES(1)", "ALTER TABLE t ADD COLUMN b"),
		  "M table t: 1 rows, 1 before; not compared, for the definition of the table differs\n");
}
