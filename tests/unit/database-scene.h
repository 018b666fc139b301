/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of databases share: files in the test's own directory, SQL run in them, and their content as text. */
#ifndef TESTS_DATABASE_SCENE_H
#define TESTS_DATABASE_SCENE_H

#include <sqlite3.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "database/sqlite.h"
#include "tap.h"

#define CHECK_DONE(got, err)                                                                                        \
	do {                                                                                                        \
		int _code = (got);                                                                                  \
		if (_code < 0)                                                                                      \
			tap_fail(__FILE__, __LINE__, "%s is %d (%s: %s)", #got, _code, atoll_code_name((err).code), \
				 (err).message);                                                                    \
	} while (0)

TAP_UNUSED static struct sqlite_file db_file(const char *name)
{
	return (struct sqlite_file){ tap_dirfd, name, NULL, 300 };
}

TAP_UNUSED static sqlite3 *db_open(const char *name)
{
	sqlite3 *db = NULL;

	if (sqlite3_open(name, &db) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "cannot open %s: %s", name, sqlite3_errmsg(db));
	sqlite3_busy_timeout(db, 20000);
	return db;
}

TAP_UNUSED static void db_sql(sqlite3 *db, const char *sql)
{
	char *message = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "%s: %s", sql, message);
}

TAP_UNUSED static void db_run(const char *name, const char *sql)
{
	sqlite3 *db = db_open(name);

	db_sql(db, sql);
	sqlite3_close(db);
}

/* All that a query gives, as text: columns by bars, rows by semicolons. Types are told apart. */
TAP_UNUSED static void db_add_query(struct strbuf *s, sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			int type = sqlite3_column_type(stmt, i);

			strbuf_adds(s, i ? "|" : "");
			if (type == SQLITE_BLOB)
				strbuf_addc(s, 'x');
			if (type == SQLITE_NULL)
				strbuf_adds(s, "null");
			else if (type == SQLITE_BLOB)
				for (int k = 0; k < sqlite3_column_bytes(stmt, i); k++)
					strbuf_addf(s, "%02x",
						    ((const unsigned char *)sqlite3_column_blob(stmt, i))[k]);
			else
				strbuf_addf(s, type == SQLITE_TEXT ? "'%s'" : "%s",
					    (const char *)sqlite3_column_text(stmt, i));
		}
		strbuf_addc(s, ';');
	}
	if (sqlite3_finalize(stmt) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
}

TAP_UNUSED static char *db_query(const char *name, const char *sql)
{
	struct strbuf s = STRBUF_INIT;
	sqlite3 *db = db_open(name);

	db_add_query(&s, db, sql);
	sqlite3_close(db);
	return s.size ? strbuf_take(&s) : strdup("");
}

/* Schema, numbers and all rows, but for SQLite's own tables. */
TAP_UNUSED static char *db_dump(const char *name)
{
	struct strbuf s = STRBUF_INIT;
	sqlite3 *db = db_open(name);
	sqlite3_stmt *stmt = NULL;

	db_add_query(&s, db, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
	db_add_query(&s, db, "PRAGMA user_version");
	db_add_query(&s, db, "PRAGMA application_id");
	sqlite3_prepare_v2(db,
			   "SELECT name FROM sqlite_schema WHERE type='table' AND rootpage>0"
			   " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
			   -1, &stmt, NULL);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		char *sql = sqlite3_mprintf("SELECT *, * FROM \"%w\" ORDER BY 1, 2", sqlite3_column_text(stmt, 0));

		strbuf_addf(&s, "[%s]", (const char *)sqlite3_column_text(stmt, 0));
		db_add_query(&s, db, sql);
		sqlite3_free(sql);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return strbuf_take(&s);
}

TAP_UNUSED static bool db_is_sound(const char *name)
{
	AUTO_FREE char *answer = db_query(name, "PRAGMA integrity_check");

	return strcmp(answer, "'ok';") == 0;
}

/* Clones "orig.db" as "base.db" and "clone.db". */
TAP_UNUSED static void db_fork(const char *from)
{
	struct sqlite_file original = db_file(from), base = db_file("base.db"), clone = db_file("clone.db");
	struct atoll_error err = { 0 };

	unlink("base.db");
	unlink("clone.db");
	CHECK_DONE(sqlite_clone(&original, &base, &err), err);
	CHECK_DONE(sqlite_clone(&original, &clone, &err), err);
}

/* What leads from "base.db" to "clone.db", as "edits.db". */
TAP_UNUSED static int db_edits(void)
{
	struct sqlite_file base = db_file("base.db"), clone = db_file("clone.db"), new = db_file("new.db"),
			   edits = db_file("edits.db");
	struct atoll_error err = { 0 };
	int kind;

	unlink("new.db");
	unlink("edits.db");
	CHECK_DONE(sqlite_settle(&clone, &new, &err), err);
	kind = sqlite_edits_make(&base, &new, &edits, &err);
	CHECK_DONE(kind, err);
	return kind;
}

TAP_UNUSED static int db_add_told(void *arg, const char *object, const char *why)
{
	strbuf_addf(arg, "%s: %s\n", object, why);
	return 0;
}

TAP_UNUSED static int db_move(bool forward, struct strbuf *told, struct atoll_error *err)
{
	struct sqlite_file original = db_file("orig.db"), edits = db_file("edits.db");
	struct sqlite_tell tell = { db_add_told, told };

	return sqlite_edits_move(&original, &edits, forward, false, told ? &tell : NULL, err);
}

TAP_UNUSED static int db_side(void)
{
	struct sqlite_file original = db_file("orig.db"), edits = db_file("edits.db");
	struct atoll_error err = { 0 };
	int side = sqlite_edits_side(&original, &edits, &err);

	CHECK_DONE(side, err);
	return side;
}

#endif
