/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign keys. Edits land with their enforcement off: what a key does to other rows was done where the edits were made, and is part of them.
 * But a row that somebody else added meanwhile may refer to one that the edits remove. So what leads nowhere is noted before and after.
 */
#include "database/private.h"

static int note_table(struct sqlite_db *d, const char *schema, const char *table, const char *when,
		      struct atoll_error *err)
{
	return sqlite_execute(d, err,
			      "INSERT INTO temp.broken SELECT %Q, \"table\", \"rowid\", parent, fkid"
			      " FROM pragma_foreign_key_check(%Q, %Q)",
			      when, table, schema);
}

int sqlite_foreign_note(struct sqlite_db *d, const char *edits, const char *schema, const char *when,
			struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_execute(d, err, "CREATE TABLE IF NOT EXISTS temp.broken(at, name, id, parent, key)");
	int found = 0;

	if (r >= 0)
		r = sqlite_prepare(
			d, &stmt, err,
			"SELECT DISTINCT s.name FROM \"%w\".sqlite_schema s, pragma_foreign_key_list(s.name, %Q) f"
			" WHERE s.type='table' AND s.rootpage > 0 AND (s.name IN (SELECT name FROM \"%w\".tab)"
			" OR f.\"table\" COLLATE NOCASE IN (SELECT name FROM \"%w\".tab))",
			schema, schema, edits, edits);
	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		found = 1;
		r = note_table(d, schema, (const char *)sqlite3_column_text(stmt, 0), when, err);
	}
	return r < 0 ? r : found;
}

/* By their number: rows of a table WITHOUT ROWID have no rowid to be told by. */
int sqlite_foreign_compare(struct sqlite_db *d, const struct sqlite_tell *tell, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int found = 0;
	int r = sqlite_prepare(d, &stmt, err,
			       "SELECT name, id, parent, key FROM temp.broken GROUP BY name, id, parent, key"
			       " HAVING sum(at='after') > sum(at='before')");

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		AUTO_STRBUF object = STRBUF_INIT;
		AUTO_STRBUF why = STRBUF_INIT;

		found++;
		strbuf_addf(&object, "table %s", (const char *)sqlite3_column_text(stmt, 0));
		strbuf_adds(&why, "the row rowid=");
		sqlite_add_cell(&why, stmt, 1);
		strbuf_addf(&why, " would refer to no row of \"%s\" any more",
			    (const char *)sqlite3_column_text(stmt, 2));
		if (sqlite_say(tell, strbuf_str(&object), strbuf_str(&why)) != 0)
			break;
	}
	return r < 0 ? r : found;
}
