/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign keys. Edits land with their enforcement off: what a key does to other rows was done where the edits were made, and is part of them.
 * But a row that somebody else added meanwhile may refer to one that the edits remove. So what leads nowhere is noted before and after.
 */
#include "database/private.h"

/* Notes the rows of a table that refer by one foreign key to no row of the parent table. `key` is a
 * row of the query in note_by_key(): the id of the foreign key, its parent table, an SQL expression
 * that names a row of the table (alias c), the condition that the row's columns are not null, and
 * the condition that finds the parent's row (alias p). */
static int note_key(struct sqlite_db *d, const char *schema, const char *table, const char *when, sqlite3_stmt *key,
		    struct atoll_error *err)
{
	const char *parent = (const char *)sqlite3_column_text(key, 1), *id = (const char *)sqlite3_column_text(key, 2),
		   *from = (const char *)sqlite3_column_text(key, 3), *to = (const char *)sqlite3_column_text(key, 4);
	char *exists;
	int64_t n = 0;
	int r = sqlite_int(d, &n, err,
			   "SELECT count(*) FROM \"%w\".sqlite_schema WHERE type='table' AND name=%Q COLLATE NOCASE",
			   schema, parent);

	if (r < 0)
		return r;
	exists = n ? sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" p WHERE 1%s", schema, parent, to)
		   : sqlite3_mprintf("SELECT 1 WHERE 0");
	r = !exists ? error_oom(err, "database")
		    : sqlite_execute(d, err,
				     "INSERT INTO temp.broken SELECT %Q, %Q, %s, %Q, %lld FROM \"%w\".\"%w\" c"
				     " WHERE 1%s AND NOT EXISTS(%s)",
				     when, table, id, parent, (long long)sqlite3_column_int64(key, 0), schema, table,
				     from, exists);
	sqlite3_free(exists);
	return r;
}

/* Notes the rows by the table's primary key: of a table WITHOUT ROWID, SQLite reports only how many
 * rows refer to no row of the parent, not which. The comparison uses the parent's collation and
 * affinity, as SQLite does. */
static int note_by_key(struct sqlite_db *d, const char *schema, const char *table, const char *when,
		       struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(
		d, &stmt, err,
		"SELECT f.id, f.\"table\", (SELECT group_concat(printf('%%Q || quote(c.\"%%w\")', name || '=', name), ' || '' '' || ')"
		" FROM pragma_table_info(%Q, %Q) WHERE pk),"
		" group_concat(printf(' AND c.\"%%w\" IS NOT NULL', f.\"from\"), ''),"
		" group_concat(printf(' AND p.\"%%w\" = +c.\"%%w\"', coalesce(f.\"to\", (SELECT name"
		" FROM pragma_table_info(f.\"table\", %Q) WHERE pk = f.seq + 1)), f.\"from\"), '')"
		" FROM pragma_foreign_key_list(%Q, %Q) f GROUP BY f.id",
		table, schema, schema, table, schema);

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0)
		r = note_key(d, schema, table, when, stmt, err);
	return r;
}

static int note_table(struct sqlite_db *d, const char *schema, const char *table, const char *when,
		      struct atoll_error *err)
{
	int64_t nameless = 0;
	int r = sqlite_execute(d, err,
			       "INSERT INTO temp.broken SELECT %Q, \"table\", \"rowid\", parent, fkid"
			       " FROM pragma_foreign_key_check(%Q, %Q)",
			       when, table, schema);

	if (r >= 0)
		r = sqlite_int(d, &nameless, err,
			       "SELECT count(*) FROM temp.broken WHERE at=%Q AND name=%Q AND id IS NULL", when, table);
	if (r < 0 || !nameless)
		return r;
	r = sqlite_execute(d, err, "DELETE FROM temp.broken WHERE at=%Q AND name=%Q", when, table);
	return r < 0 ? r : note_by_key(d, schema, table, when, err);
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
		strbuf_adds(&why, "the row ");
		if (sqlite3_column_type(stmt, 1) == SQLITE_TEXT)
			strbuf_adds(&why, (const char *)sqlite3_column_text(stmt, 1));
		else
			strbuf_addf(&why, "rowid=%lld", (long long)sqlite3_column_int64(stmt, 1));
		strbuf_addf(&why, " would refer to no row of \"%s\" any more",
			    (const char *)sqlite3_column_text(stmt, 2));
		if (sqlite_say(tell, strbuf_str(&object), strbuf_str(&why)) != 0)
			break;
	}
	return r < 0 ? r : found;
}
