/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits that are found by the pages that differ are those that are found by comparing all rows: over generated databases of every page size,
 * encoding and journal mode, with tables of every kind, large values, indexes, and everything that moves pages about.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "database-scene.h"

static unsigned seed;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

/* Tables: a rowid as the key, a text as the key, no rowid, no key, and one for values that need further pages. */
#define SCHEMA                                                                                                   \
	"CREATE TABLE a(id INTEGER PRIMARY KEY, v, w);"                                                          \
	"CREATE TABLE b(id TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, v, w);"                                     \
	"CREATE TABLE c(id INTEGER NOT NULL, z TEXT NOT NULL, v, w, PRIMARY KEY(z, id)) WITHOUT ROWID;"          \
	"CREATE TABLE d(id INTEGER, v, w);"                                                                      \
	"CREATE TABLE e(id INTEGER PRIMARY KEY AUTOINCREMENT, v, w, g AS (v || 1), _rowid_, rowid, oid UNIQUE);" \
	"CREATE INDEX av ON a(v); CREATE INDEX bw ON b(w, v); CREATE INDEX ew ON e(w) WHERE v IS NOT NULL;"

static void add_value(struct strbuf *s)
{
	switch (draw(8)) {
	case 0:
		strbuf_adds(s, "NULL");
		break;
	case 1:
		strbuf_addf(s, "%d", (int)draw(100000) - 50000);
		break;
	case 2:
		strbuf_addf(s, "%u.5", draw(1000));
		break;
	case 3:
		strbuf_addf(s, "zeroblob(%u)", draw(200));
		break;
	case 4: /* on overflow pages, and alike but for the end */
		strbuf_addf(s, "printf('%%.*c', %u, 'x') || '%u'", 3000 + 3000 * draw(3), draw(10));
		break;
	case 5:
		strbuf_addf(s, "randomblob(%u)", 1 + draw(9000));
		break;
	default:
		strbuf_addf(s, "'text %u'", draw(1000));
	}
}

static void add_row(struct strbuf *s, char table, unsigned id)
{
	strbuf_addf(s, "INSERT OR REPLACE INTO %c(id, %sv, w) VALUES(", table, table == 'c' ? "z, " : "");
	strbuf_addf(s, table == 'b' ? "'k%u', " : table == 'c' ? "%u, 'z', " : "%u, ", id);
	add_value(s);
	strbuf_adds(s, ", ");
	add_value(s);
	strbuf_adds(s, ");");
}

/* n rows at once, so that trees have several levels. */
static void add_rows(struct strbuf *s, char table, unsigned n)
{
	const char *id = table == 'b' ? "'k' || i" : table == 'c' ? "i, 'z'" : "i";

	strbuf_addf(
		s,
		"WITH RECURSIVE n(i) AS (SELECT %u UNION ALL SELECT i+1 FROM n LIMIT %u) INSERT OR REPLACE INTO %c(id, %sv, w)"
		" SELECT %s, 'value ' || i, printf('%%.*c', i %% %u, 'y') FROM n;",
		1 + draw(5000), n, table, table == 'c' ? "z, " : "", id, 1 + draw(400));
}

static void add_statement(struct strbuf *s)
{
	static const char *const odd[] = {
		"VACUUM;",
		"PRAGMA incremental_vacuum(7);",
		"REINDEX;",
		"ANALYZE;",
		"PRAGMA user_version=7;",
		"CREATE TABLE IF NOT EXISTS more(id INTEGER PRIMARY KEY, v); INSERT INTO more(v) VALUES(1);",
		"CREATE INDEX IF NOT EXISTS aw ON a(w);",
		"DROP INDEX IF EXISTS av;",
		"ALTER TABLE a ADD COLUMN x DEFAULT 5;",
		"PRAGMA journal_mode=WAL;",
		"PRAGMA journal_mode=DELETE;",
		"PRAGMA page_size=1024; VACUUM;",
		"DELETE FROM a;",
		"UPDATE a SET v=v WHERE id % 7 = 0;",
	};
	char table = "aabbcde"[draw(7)];

	switch (draw(12)) {
	case 0:
		strbuf_adds(s, odd[draw(ARRAY_SIZE(odd))]);
		break;
	case 1:
	case 2:
		strbuf_addf(s, "DELETE FROM %c WHERE id %s %s%u%s;", table, table == 'b' ? "=" : "BETWEEN",
			    table == 'b' ? "'k" : "1 AND ", draw(table == 'b' ? 5000 : 300), table == 'b' ? "'" : "");
		break;
	case 3:
		add_rows(s, table, 1 + draw(60));
		break;
	case 4:
	case 5:
	case 6:
		strbuf_addf(s, "UPDATE %c SET w=", table);
		add_value(s);
		strbuf_addf(s, " WHERE v LIKE '%%%u';", draw(1000));
		break;
	default:
		add_row(s, table, 1 + draw(6000));
	}
}

/* Everything that edits hold, in an order of its own. */
static char *edits_text(const char *name)
{
	struct strbuf s = STRBUF_INIT;
	sqlite3 *db = db_open(name);
	sqlite3_stmt *stmt = NULL;

	db_add_query(&s, db, "SELECT * FROM meta ORDER BY name");
	db_add_query(&s, db, "SELECT * FROM object ORDER BY 1, 2");
	db_add_query(&s, db, "SELECT * FROM sequence ORDER BY 1");
	sqlite3_prepare_v2(db, "SELECT id, name, note, has_rows FROM tab ORDER BY name", -1, &stmt, NULL);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		AUTO_FREE char *rows =
			str_format("SELECT * FROM e%d ORDER BY 1, 2, 3, 4, 5, 6, 7", sqlite3_column_int(stmt, 0));
		const char *note = (const char *)sqlite3_column_text(stmt, 2);

		strbuf_addf(&s, "[%s: %s]", (const char *)sqlite3_column_text(stmt, 1), note ? note : "");
		if (sqlite3_column_int(stmt, 3))
			db_add_query(&s, db, rows);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return s.size ? strbuf_take(&s) : strdup("");
}

/* Finds the edits in one way: their kind, and their text. */
static int find(bool all_rows, char **ret_text, bool *ret_by_pages)
{
	struct sqlite_file base = db_file("base.db"), clone = db_file("clone.db"), new = db_file("new.db"),
			   edits = db_file("edits.db");
	struct sqlite_find how = { .all_rows = all_rows };
	struct atoll_error err = { 0 };
	int kind;

	CHECK_EQ(system("rm -f new.db*"), 0);
	unlink("edits.db");
	kind = sqlite_edits_find(&base, &clone, &new, &edits, &how, &err);
	CHECK_DONE(kind, err);
	*ret_by_pages = how.by_pages;
	*ret_text = edits_text("edits.db");
	return kind;
}

/* A clone without closing the connection that writes to it: its log, or its hot journal, is beside it. */
static void run_and_die(const char *name, const char *sql)
{
	pid_t pid = fork();

	if (pid == 0) {
		sqlite3 *db = db_open(name);

		sqlite3_exec(db, "PRAGMA synchronous=OFF; PRAGMA cache_size=5", NULL, NULL, NULL);
		sqlite3_exec(db, sql, NULL, NULL, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

struct counts {
	unsigned by_pages, by_rows, none, rows, whole;
};

static void one_round(unsigned number, struct counts *counts)
{
	static const unsigned sizes[] = { 512, 1024, 4096, 8192, 65536 };
	static const char *const encodings[] = { "UTF-8", "UTF-16le", "UTF-16be" };
	struct sqlite_file original = db_file("orig.db"), base = db_file("base.db");
	struct atoll_error err = { 0 };
	AUTO_STRBUF script = STRBUF_INIT;
	bool by_pages, ignored;
	int kind;

	seed = number * 7919 + 17;
	unlink("orig.db");
	unlink("base.db");
	strbuf_addf(
		&script,
		"PRAGMA synchronous=OFF; PRAGMA page_size=%u; PRAGMA encoding='%s'; PRAGMA auto_vacuum=%u; PRAGMA journal_mode=%s;",
		sizes[draw(ARRAY_SIZE(sizes))], encodings[draw(3) ? 0 : draw(3)], draw(2) ? 0 : draw(3),
		draw(3) ? "DELETE" : "WAL");
	strbuf_adds(&script, SCHEMA);
	for (const char *t = "abcde"; *t; t++)
		add_rows(&script, *t, 10 + draw(draw(3) ? 300 : 6000));
	for (unsigned i = 0; i < 10; i++)
		add_row(&script, "abcde"[draw(5)], 1 + draw(6000));
	db_run("orig.db", strbuf_str(&script));
	CHECK_DONE(sqlite_clone(&original, &base, &err), err);
	CHECK_DONE(sqlite_adapt(&base, &base, &err), err);
	CHECK_EQ(system("rm -f clone.db-wal clone.db-shm clone.db-journal; cp base.db clone.db"), 0);
	strbuf_truncate(&script, 0);
	for (unsigned i = draw(5); i > 0; i--)
		add_statement(&script);
	if (draw(4) == 0) {
		AUTO_FREE char *begun = str_format("%s; %s %s", strbuf_str(&script),
						   draw(2) ? "PRAGMA journal_mode=WAL;" : "",
						   draw(2) ? "BEGIN; UPDATE a SET w=randomblob(50);" : "");

		run_and_die("clone.db", begun);
	} else {
		sqlite3 *db = db_open("clone.db");

		sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
		sqlite3_exec(db, strbuf_str(&script), NULL, NULL, NULL);
		sqlite3_close(db);
	}
	AUTO_FREE char *wanted = NULL;
	AUTO_FREE char *got = NULL;
	kind = find(true, &wanted, &ignored);
	CHECK(!ignored);
	CHECK_EQ(find(false, &got, &by_pages), kind);
	CHECK_STR(got, wanted);
	if (strcmp(got, wanted) != 0)
		printf("# round %u: %s\n", number, strbuf_str(&script));
	*(by_pages ? &counts->by_pages : &counts->by_rows) += 1;
	*(kind == SQLITE_EDITS_NONE ? &counts->none : kind == SQLITE_EDITS_ROWS ? &counts->rows : &counts->whole) += 1;
}

static void rounds(unsigned part)
{
	struct counts counts = { 0 };
	unsigned n = getenv("ATOLL_TORTURE") ? 600 : 40;

	for (unsigned i = 0; i < n; i++)
		one_round(part * 100000 + i, &counts);
	printf("# %u by pages, %u by rows; %u without edits, %u rows, %u whole\n", counts.by_pages, counts.by_rows,
	       counts.none, counts.rows, counts.whole);
	CHECK(counts.by_pages > n / 4);
	CHECK(counts.none > 0 && counts.rows > n / 8 && counts.whole > 0);
}

TEST(pages_tell_the_same_edits_as_all_rows)
{
	rounds(0);
}

TEST(pages_tell_the_same_edits_of_others)
{
	rounds(1);
}

TEST(pages_tell_the_same_edits_of_more)
{
	rounds(2);
}

TEST(pages_tell_the_same_edits_of_yet_more)
{
	rounds(3);
}

/* ---- what is not as it should be ---- */

static void begin_large(void)
{
	unlink("orig.db");
	db_run("orig.db",
	       "CREATE TABLE a(id INTEGER PRIMARY KEY, v);"
	       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 20000) INSERT INTO a SELECT i, 'value ' || i FROM n");
	db_fork("orig.db");
}

TEST(one_row_of_many_is_found_by_its_page)
{
	bool by_pages = false;

	begin_large();
	db_run("clone.db", "UPDATE a SET v='other' WHERE id=7777");
	AUTO_FREE char *text = NULL;
	CHECK_EQ(find(false, &text, &by_pages), SQLITE_EDITS_ROWS);
	CHECK(by_pages);
	CHECK(strstr(text, "'U'|null|null|7777|'value 7777'|7777|'other'"));
}

TEST(rows_of_an_altered_table_are_found_where_no_page_of_it_differs)
{
	bool by_pages = false;

	begin_large();
	db_run("clone.db", "ALTER TABLE a RENAME COLUMN v TO x; ALTER TABLE a ADD COLUMN v DEFAULT 5");
	AUTO_FREE char *text = NULL;
	CHECK_EQ(find(false, &text, &by_pages), SQLITE_EDITS_WHOLE);
	CHECK(by_pages);
	CHECK(strstr(text, "'U'|null|null|7777|null|'value 7777'|7777|'value 7777'|5"));
}

TEST(a_large_value_that_changes_in_its_middle_is_found)
{
	bool by_pages = true;

	unlink("orig.db");
	db_run("orig.db",
	       "CREATE TABLE a(id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES(1, zeroblob(100000)), (2, 'x')");
	db_fork("orig.db");
	/* SQLite writes the one page alone on which the bytes lie. */
	sqlite3 *db = db_open("clone.db");
	sqlite3_blob *blob = NULL;
	CHECK_EQ(sqlite3_blob_open(db, "main", "a", "v", 1, 1, &blob), SQLITE_OK);
	CHECK_EQ(sqlite3_blob_write(blob, "abc", 3, 50000), SQLITE_OK);
	sqlite3_blob_close(blob);
	sqlite3_close(db);
	AUTO_FREE char *text = NULL;
	CHECK_EQ(find(false, &text, &by_pages), SQLITE_EDITS_ROWS);
	CHECK(!by_pages);
	CHECK(strstr(text, "616263"));
}

/* Bytes of a clone, overwritten one page at a time: it is refused as damaged, or the edits are those that all rows tell. */
TEST(damage_is_found_or_harmless)
{
	struct sqlite_file base = db_file("base.db"), clone = db_file("clone.db"), new = db_file("new.db"),
			   edits = db_file("edits.db");
	unsigned refused = 0, equal = 0, n = getenv("ATOLL_TORTURE") ? 2000 : 120;

	begin_large();
	for (unsigned i = 0; i < n; i++) {
		struct sqlite_find how = { 0 }, all = { .all_rows = true };
		struct atoll_error err = { 0 }, also = { 0 };
		unsigned char junk[16];
		int kind, full, fd;

		seed = i * 31 + 5;
		CHECK_EQ(system("cp base.db clone.db"), 0);
		fd = open("clone.db", O_RDWR);
		for (size_t k = 0; k < sizeof junk; k++)
			junk[k] = (unsigned char)draw(256);
		CHECK(pwrite(fd, junk, 1 + draw(16), 100 + (off_t)draw(400000)) > 0);
		close(fd);
		CHECK_EQ(system("rm -f new.db*"), 0);
		unlink("edits.db");
		full = sqlite_edits_find(&base, &clone, &new, &edits, &all, &also);
		AUTO_FREE char *wanted = full >= 0 ? edits_text("edits.db") : NULL;
		CHECK_EQ(system("rm -f new.db*"), 0);
		unlink("edits.db");
		kind = sqlite_edits_find(&base, &clone, &new, &edits, &how, &err);
		if (kind < 0) {
			CHECK_EQ(err.code, ATOLL_REFUSED);
			CHECK(full < 0);
			refused++;
			continue;
		}
		AUTO_FREE char *got = edits_text("edits.db");
		if (wanted)
			CHECK_STR(got, wanted);
		equal += wanted != NULL;
	}
	printf("# %u refused, %u told alike\n", refused, equal);
	CHECK(refused > n / 10 && equal > n / 10);
}
