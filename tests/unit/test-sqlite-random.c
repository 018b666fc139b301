/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated edits, inside and outside at once. Where no row was changed by both, the outcome is what both scripts give when they are run on one
 * database; where one was, it is a conflict and nothing changes.
 */
#include "database-scene.h"

#define SCHEMA                                                                                          \
	"CREATE TABLE a(id INTEGER PRIMARY KEY, v, w);"                                                 \
	"CREATE TABLE b(id TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, v, w);"                            \
	"CREATE TABLE c(id INTEGER NOT NULL, z TEXT NOT NULL, v, w, PRIMARY KEY(z, id)) WITHOUT ROWID;" \
	"CREATE TABLE d(id INTEGER PRIMARY KEY AUTOINCREMENT, v REAL, w TEXT, g AS (w || v));"          \
	"CREATE INDEX ai ON a(v, w); CREATE INDEX di ON d(w);"

static unsigned seed;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void add_value(struct strbuf *s)
{
	switch (draw(6)) {
	case 0:
		strbuf_adds(s, "NULL");
		break;
	case 1:
		strbuf_addf(s, "%d", (int)draw(5) - 2);
		break;
	case 2:
		strbuf_addf(s, "%u.0", draw(4));
		break;
	case 3:
		strbuf_addf(s, "x'0%u'", draw(4));
		break;
	case 4:
		strbuf_addf(s, "'%c'", "aAbB"[draw(4)]);
		break;
	default:
		strbuf_addf(s, "'%u'", draw(4));
	}
}

static void add_key(struct strbuf *s, char table, unsigned id)
{
	if (table == 'b')
		strbuf_addf(s, "'%c%u'", "kK"[draw(2)], id);
	else
		strbuf_addf(s, "%u", id);
}

/* Rows of which the number leaves `rest` when divided by `by`. */
static void add_statement(struct strbuf *s, unsigned by, unsigned rest)
{
	char table = "abcd"[draw(4)];
	unsigned id = draw(20) * by + rest;

	switch (draw(4)) {
	case 0:
	case 1:
		strbuf_addf(s, "INSERT OR REPLACE INTO %c(id, %sv, w) VALUES(", table, table == 'c' ? "z, " : "");
		add_key(s, table, id);
		strbuf_adds(s, table == 'c' ? ", 'z', " : ", ");
		add_value(s);
		strbuf_adds(s, ", ");
		add_value(s);
		strbuf_adds(s, ");");
		break;
	case 2:
		strbuf_addf(s, "DELETE FROM %c WHERE id=", table);
		add_key(s, table, id);
		strbuf_addc(s, ';');
		break;
	default:
		strbuf_addf(s, "UPDATE %c SET %c=", table, "vw"[draw(2)]);
		add_value(s);
		strbuf_adds(s, " WHERE id=");
		add_key(s, table, id);
		strbuf_addc(s, ';');
	}
}

static void make_script(struct strbuf *s, unsigned n, unsigned by, unsigned rest)
{
	strbuf_truncate(s, 0);
	while (n-- > 0)
		add_statement(s, by, rest);
}

/* The keys of the rows in which two databases differ. */
static char *changed(const char *name, const char *than)
{
	struct strbuf s = STRBUF_INIT;
	sqlite3 *db = db_open(name);
	AUTO_FREE char *attach = str_format("ATTACH '%s' AS o", than);

	db_sql(db, attach);
	for (const char *t = "abcd"; *t; t++) {
		AUTO_FREE char *sql = str_format(
			"SELECT DISTINCT '%c' || lower(id) FROM (SELECT * FROM (SELECT typeof(v), typeof(w), v COLLATE BINARY, w, id COLLATE BINARY"
			" AS id FROM main.%c EXCEPT SELECT typeof(v), typeof(w), v, w, id FROM o.%c) UNION ALL SELECT * FROM (SELECT typeof(v),"
			" typeof(w), v COLLATE BINARY, w, id COLLATE BINARY FROM o.%c EXCEPT SELECT typeof(v), typeof(w), v, w, id FROM main.%c))",
			*t, *t, *t, *t, *t);

		db_add_query(&s, db, sql);
	}
	sqlite3_close(db);
	return s.size ? strbuf_take(&s) : strdup("");
}

static bool have_common(char *a, const char *b)
{
	char *save = NULL;

	for (char *key = strtok_r(a, ";", &save); key; key = strtok_r(NULL, ";", &save))
		if (strstr(b, key))
			return true;
	return false;
}

static void one_round(unsigned number, bool apart, int counts[2])
{
	AUTO_STRBUF script = STRBUF_INIT;
	struct atoll_error err = { 0 };
	int kind, r;

	seed = number * 7919 + apart;
	unlink("orig.db");
	unlink("both.db");
	db_run("orig.db", number % 2 ? SCHEMA : "PRAGMA journal_mode=WAL;" SCHEMA);
	make_script(&script, 40, 1, 0);
	db_run("orig.db", strbuf_str(&script));
	db_fork("orig.db");
	CHECK_EQ(system("cp base.db both.db"), 0);
	make_script(&script, 1 + draw(12), apart ? 2 : 1, 0);
	db_run("clone.db", strbuf_str(&script));
	db_run("both.db", strbuf_str(&script));
	make_script(&script, 1 + draw(12), apart ? 2 : 1, apart);
	db_run("orig.db", strbuf_str(&script));
	db_run("both.db", strbuf_str(&script));
	AUTO_FREE char *inside = changed("clone.db", "base.db");
	AUTO_FREE char *outside = changed("orig.db", "base.db");
	AUTO_FREE char *before = db_dump("orig.db");
	kind = db_edits();
	CHECK_EQ(kind, *inside ? SQLITE_EDITS_ROWS : SQLITE_EDITS_NONE);
	if (!kind)
		return;
	r = db_move(true, NULL, &err);
	AUTO_FREE char *after = db_dump("orig.db");
	if (have_common(inside, outside)) {
		/* Both may have done the same to all of them. */
		CHECK(r == -ATOLL_CONFLICT || (r == 0 && strcmp(before, after) == 0));
		CHECK_STR(after, before);
		counts[1]++;
		return;
	}
	CHECK_DONE(r, err);
	CHECK_EQ(db_side(), SQLITE_NEW);
	/* A statement that found nothing to do outside may find something after those from inside. */
	AUTO_FREE char *wanted = db_dump(apart ? "both.db" : "orig.db");
	CHECK_STR(after, wanted);
	CHECK(db_is_sound("orig.db"));
	CHECK_DONE(db_move(false, NULL, &err), err);
	AUTO_FREE char *back = db_dump("orig.db");
	CHECK_STR(back, before);
	counts[0]++;
}

static unsigned rounds(void)
{
	return getenv("ATOLL_TORTURE") ? 2000 : 60;
}

TEST(edits_of_different_rows_give_what_both_give_on_one_database)
{
	int counts[2] = { 0 };

	for (unsigned i = 0; i < rounds(); i++)
		one_round(i, true, counts);
	CHECK(counts[0] > (int)rounds() / 2 && counts[1] == 0);
}

TEST(edits_of_the_same_row_conflict)
{
	int counts[2] = { 0 };

	for (unsigned i = 0; i < rounds(); i++)
		one_round(i, false, counts);
	printf("# %d landed, %d conflicts\n", counts[0], counts[1]);
	CHECK(counts[0] > 0 && counts[1] > 0);
}
