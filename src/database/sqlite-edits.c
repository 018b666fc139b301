/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leads from one database to another, kept as a database of its own, so that it is as durable and as readable as they are:
 *
 *	meta(name, old, new)             user_version, application_id; whole: why rows alone do not do it; loose: foreign keys are not kept
 *	object(type, name, old, new)     what differs in the schema, as SQL
 *	tab(id, name, sql, note, …)      the tables that differ, with their SQL; note: of those without a table of rows
 *	col(tab, i, name, key)           their columns
 *	eID(kind, old_rowid, new_rowid, o0…, n0…)  their rows: I inserted, U updated, D deleted
 *	sequence(name, seq)              counters of AUTOINCREMENT, which only grow
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "database/private.h"

static const char schema[] =
	"CREATE TABLE meta(name TEXT PRIMARY KEY, old, new);"
	"CREATE TABLE object(type TEXT, name TEXT, old TEXT, new TEXT);"
	"CREATE TABLE tab(id INTEGER PRIMARY KEY, name TEXT, sql TEXT, note TEXT, rowid_name TEXT, has_rows INTEGER);"
	"CREATE TABLE col(tab INTEGER, i INTEGER, name TEXT, key INTEGER, PRIMARY KEY(tab, i));"
	"CREATE TABLE sequence(name TEXT PRIMARY KEY, seq INTEGER);";

/* ---- what is not in tables ---- */

/* new_schema: the table that holds the schema of the new side. */
static int compare_objects(struct sqlite_db *d, const char *new_schema, struct atoll_error *err)
{
	static const char sql[] =
		"INSERT INTO main.object SELECT coalesce(o.type, n.type), coalesce(o.name, n.name), o.sql, n.sql"
		" FROM %s %s LEFT JOIN %s %s ON o.type=n.type AND o.name=n.name AND o.tbl_name=n.tbl_name"
		" WHERE coalesce(o.name, n.name) NOT LIKE 'sqlite\\_stat%%' ESCAPE '\\' AND (%s)";
	int64_t n = 0;
	int r = sqlite_execute(d, err, sql, "old.sqlite_schema", "o", new_schema, "n",
			       "n.name IS NULL OR o.sql IS NOT n.sql");

	if (r >= 0)
		r = sqlite_execute(d, err, sql, new_schema, "n", "old.sqlite_schema", "o", "o.name IS NULL");
	if (r >= 0)
		r = sqlite_int(d, &n, err, "SELECT count(*) FROM main.object");
	return r >= 0 && n ? sqlite_diff_need_whole(d, "the schema differs%s", "", err) : r;
}

/* The new side is the database `name` of the connection n. */
static int compare_numbers(struct sqlite_db *d, struct sqlite_db *n, const char *name, struct atoll_error *err)
{
	static const char *const names[] = { "user_version", "application_id" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r >= 0; i++) {
		int64_t old = 0, new = 0;

		r = sqlite_int(d, &old, err, "PRAGMA old.%s", names[i]);
		if (r >= 0)
			r = sqlite_int(n, &new, err, "PRAGMA %s.%s", name, names[i]);
		if (r >= 0 && old != new)
			r = sqlite_execute(d, err, "INSERT INTO main.meta VALUES(%Q, %lld, %lld)", names[i],
					   (long long)old, (long long)new);
	}
	return r;
}

/* A counter lands with rows of its table only: by itself it is no change. */
static int note_sequences(struct sqlite_db *d, struct atoll_error *err)
{
	int64_t n = 0;
	int r = sqlite_int(d, &n, err, "SELECT count(*) FROM new.sqlite_schema WHERE name='sqlite_sequence'");

	if (r < 0 || !n)
		return r;
	return sqlite_execute(d, err,
			      "INSERT OR IGNORE INTO main.sequence SELECT name, seq FROM new.sqlite_sequence"
			      " WHERE name IN (SELECT name FROM main.tab) AND typeof(seq)='integer'");
}

/* In a database whose programs do not look at foreign keys the edits need not either. One whose keys cannot be followed is such a one. */
static int note_foreign_keys(struct sqlite_db *d, struct atoll_error *err)
{
	struct atoll_error ignored = { 0 };
	int r = sqlite_foreign_note(d, "main", "old", "before", &ignored);

	if (r >= 0)
		r = sqlite_foreign_note(d, "main", "new", "after", &ignored);
	if (r >= 0)
		r = sqlite_foreign_compare(d, NULL, &ignored);
	return r != 0 ? sqlite_execute(d, err, "INSERT INTO main.meta VALUES('loose', 0, 1)") : 0;
}

/* ---- all of it ---- */

/* recoded: the new side, if it has another encoding. */
static int compare_tables(struct sqlite_db *d, struct sqlite_db *recoded, const struct sqlite_trees *trees,
			  struct atoll_error *err)
{
	char **names = NULL;
	size_t n = 0;
	int r = sqlite_table_names(d, "old", &names, &n, err);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = recoded ? sqlite_diff_recoded(d, recoded, names[i], err)
			    : sqlite_diff_table(d, names[i], trees, err);
	sqlite_names_free(names, n);
	return r;
}

static int compare_all(struct sqlite_db *d, const struct sqlite_trees *trees, struct atoll_error *err)
{
	int r = compare_objects(d, "new.sqlite_schema", err);

	if (r >= 0)
		r = compare_numbers(d, d, "new", err);
	if (r >= 0)
		r = compare_tables(d, NULL, trees, err);
	if (r >= 0)
		r = note_sequences(d, err);
	return r < 0 ? r : note_foreign_keys(d, err);
}

static int read_encoding(const struct sqlite_file *file, const char *vfs, char ret[16], struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	AUTO_STMT *stmt = NULL;
	int r = sqlite_open_vfs(file, 0, vfs, &d, err);

	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "PRAGMA encoding");
	if (r >= 0)
		r = sqlite_next(d, stmt, err);
	if (r >= 0)
		snprintf(ret, 16, "%s", r ? (const char *)sqlite3_column_text(stmt, 0) : "UTF-8");
	return MIN(r, 0);
}

/* 1, or 0 if what the patch has does not tell which rows may differ. */
static int compare_both(struct sqlite_db *d, const struct sqlite_patch *patch, struct atoll_error *err)
{
	CLEANUP(sqlite_trees_release) struct sqlite_trees trees = { 0 };
	int r = sqlite_execute(d, err, "BEGIN");

	if (r >= 0)
		r = patch ? sqlite_trees_find(d, patch, &trees, err) : 1;
	if (r <= 0)
		return r;
	r = compare_all(d, patch ? &trees : NULL, err);
	if (r >= 0)
		r = sqlite_execute(d, err, "COMMIT");
	return r < 0 ? r : 1;
}

/* ---- a new side of another encoding ---- */

static int copy_schema(struct sqlite_db *d, struct sqlite_db *n, struct atoll_error *err)
{
	AUTO_STMT *from = NULL;
	AUTO_STMT *to = NULL;
	int r = sqlite_execute(d, err, "CREATE TABLE temp.recoded(type, name, tbl_name, sql)");

	if (r >= 0)
		r = sqlite_prepare(d, &to, err, "INSERT INTO temp.recoded VALUES(?1, ?2, ?3, ?4)");
	if (r >= 0)
		r = sqlite_prepare(n, &from, err, "SELECT type, name, tbl_name, sql FROM sqlite_schema");
	while (r >= 0 && (r = sqlite_next(n, from, err)) > 0) {
		for (int i = 0; i < 4; i++)
			sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
		r = sqlite_next(d, to, err);
		sqlite3_reset(to);
	}
	return r;
}

/* SQLite attaches databases of one encoding only: the new side has a connection of its own. */
static int compare_recoded(struct sqlite_db *d, const struct sqlite_file *new, const char *vfs, struct atoll_error *err)
{
	AUTO_DB *n = NULL;
	int r = sqlite_open_vfs(new, 0, vfs, &n, err);

	if (r >= 0)
		r = sqlite_diff_need_whole(d, "the text encoding differs%s", "", err);
	if (r >= 0)
		r = copy_schema(d, n, err);
	if (r >= 0)
		r = compare_objects(d, "temp.recoded", err);
	if (r >= 0)
		r = compare_numbers(d, n, "main", err);
	if (r >= 0)
		r = compare_tables(d, n, NULL, err);
	return r < 0 ? r : 1;
}

static int compare(struct sqlite_db *d, const struct sqlite_file *old, const struct sqlite_file *new,
		   const struct sqlite_patch *patch, struct atoll_error *err)
{
	const char *vfs = patch ? patch->name : NULL;
	char before[16] = "", after[16] = "";
	int r = read_encoding(old, vfs, before, err);

	if (r >= 0)
		r = read_encoding(new, vfs, after, err);
	if (r >= 0)
		r = sqlite_execute(
			d, err,
			"PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA encoding=%Q; BEGIN; %s; COMMIT",
			before, schema);
	if (r >= 0)
		r = sqlite_attach(d, old, "old", err);
	if (r >= 0 && strcmp(before, after) != 0) {
		r = sqlite_execute(d, err, "INSERT INTO meta VALUES('encoding', %Q, %Q)", before, after);
		return r < 0 ? r : compare_recoded(d, new, vfs, err);
	}
	if (r >= 0)
		r = sqlite_attach(d, new, "new", err);
	return r < 0 ? r : compare_both(d, patch, err);
}

static int classify(struct sqlite_db *d, struct atoll_error *err)
{
	int64_t whole = 0, any = 0;
	int r = sqlite_int(d, &whole, err, "SELECT count(*) FROM main.meta WHERE name='whole'");

	if (r >= 0)
		r = sqlite_int(
			d, &any, err,
			"SELECT (SELECT count(*) FROM main.tab) + (SELECT count(*) FROM main.meta WHERE name<>'loose')");
	if (r < 0)
		return r;
	return whole ? SQLITE_EDITS_WHOLE : any ? SQLITE_EDITS_ROWS : SQLITE_EDITS_NONE;
}

int sqlite_edits_flush(const struct sqlite_file *file, int kind, struct atoll_error *err)
{
	AUTO_FD fd = -EBADF;
	int r;

	if (kind == SQLITE_EDITS_NONE)
		return kind;
	r = fd = fd_open_beneath(file->dirfd, file->name, O_RDWR);
	if (r >= 0)
		r = sys_fsync(fd);
	if (r >= 0)
		r = sys_fsync(file->dirfd);
	return r < 0 ? error_sys(err, r, "database", file->name, "cannot make the edits durable") : kind;
}

int sqlite_edits_compare(const struct sqlite_file *old, const struct sqlite_file *new, const struct sqlite_file *to,
			 const struct sqlite_patch *patch, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int r = sqlite_open_vfs(to, SQLITE_DB_WRITE | SQLITE_DB_CREATE, patch ? patch->name : NULL, &d, err);

	if (r >= 0)
		r = compare(d, old, new, patch, err);
	if (r <= 0)
		return r;
	r = classify(d, err);
	return r < 0 ? r : 1 + r;
}

int sqlite_edits_make(const struct sqlite_file *old, const struct sqlite_file *new, const struct sqlite_file *to,
		      struct atoll_error *err)
{
	int r = sqlite_edits_compare(old, new, to, NULL, err);

	return r < 0 ? r : sqlite_edits_flush(to, r - 1, err);
}
