/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows in which one table differs between two databases, and writes them into the edits. */
#include <string.h>

#include "database/private.h"

/* ---- statements over two places of one table ---- */

static void add_column(struct strbuf *s, const char *alias, const char *name)
{
	strbuf_addf(s, "%s.", alias);
	sqlite_add_name(s, name);
}

static void add_columns(struct strbuf *s, const char *alias, const struct sqlite_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(s, ", ");
		if (alias)
			add_column(s, alias, t->columns[i].name);
		else
			strbuf_adds(s, "NULL");
	}
}

static const struct sqlite_column *first_key(const struct sqlite_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->columns[i].key)
			return &t->columns[i];
	return NULL;
}

/* The name by which the rowid is reached, quoted where it is the key's. */
static void add_rowid_name(struct strbuf *s, const char *alias, const struct sqlite_table *t)
{
	if (t->rowid)
		strbuf_addf(s, "%s.%s", alias, t->rowid);
	else
		add_column(s, alias, first_key(t)->name);
}

/* The key compares as the table's own index does. near: only of the rows that temp.near names. */
static void add_join(struct strbuf *s, const char *from, const char *from_alias, const char *with,
		     const char *with_alias, const struct sqlite_table *t, bool near)
{
	const char *and = " ON ";

	strbuf_addf(s, " FROM %s%s.", near ? "temp.near r CROSS JOIN " : "", from);
	sqlite_add_name(s, t->name);
	strbuf_addf(s, " %s", from_alias);
	if (near) {
		strbuf_adds(s, " ON ");
		add_rowid_name(s, from_alias, t);
		strbuf_adds(s, " = r.id");
	}
	strbuf_addf(s, " LEFT JOIN %s.", with);
	sqlite_add_name(s, t->name);
	strbuf_addf(s, " %s", with_alias);
	for (size_t i = 0; i < t->n; i++) {
		if (!t->columns[i].key)
			continue;
		strbuf_adds(s, and);
		add_column(s, with_alias, t->columns[i].name);
		strbuf_adds(s, " = ");
		add_column(s, from_alias, t->columns[i].name);
		sqlite_add_collation(s, &t->columns[i]);
		and = " AND ";
	}
}

/* Rows themselves are compared exactly: 1 is not 1.0, and 'a' is not 'A' whatever the collation. */
static void add_same(struct strbuf *s, const struct sqlite_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(s, i ? " AND " : "");
		add_column(s, "o", t->columns[i].name);
		strbuf_adds(s, " IS ");
		add_column(s, "n", t->columns[i].name);
		strbuf_adds(s, " COLLATE BINARY AND typeof(");
		add_column(s, "o", t->columns[i].name);
		strbuf_adds(s, ") = typeof(");
		add_column(s, "n", t->columns[i].name);
		strbuf_addc(s, ')');
	}
}

static void add_rowids(struct strbuf *s, const struct sqlite_table *t, bool old, bool new)
{
	strbuf_adds(s, ", ");
	strbuf_addf(s, old && t->rowid ? "o.%s" : "NULL", t->rowid);
	strbuf_adds(s, ", ");
	strbuf_addf(s, new && t->rowid ? "n.%s" : "NULL", t->rowid);
}

static int find_changed(struct sqlite_db *d, const struct sqlite_table *t, int64_t id, bool near,
			struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	AUTO_STRBUF gone = STRBUF_INIT;

	add_column(&gone, "n", first_key(t)->name);
	strbuf_adds(&gone, " IS NULL");
	strbuf_addf(&sql, "INSERT INTO main.e%lld SELECT CASE WHEN %s THEN 'D' ELSE 'U' END", (long long)id,
		    strbuf_str(&gone));
	add_rowids(&sql, t, true, true);
	add_columns(&sql, "o", t);
	add_columns(&sql, "n", t);
	add_join(&sql, "old", "o", "new", "n", t, near);
	strbuf_addf(&sql, " WHERE %s OR NOT (", strbuf_str(&gone));
	add_same(&sql, t);
	strbuf_addc(&sql, ')');
	return sql.failed || gone.failed ? error_oom(err, "database") : sqlite_execute(d, err, "%s", strbuf_str(&sql));
}

static int find_inserted(struct sqlite_db *d, const struct sqlite_table *t, int64_t id, bool near,
			 struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "INSERT INTO main.e%lld SELECT 'I'", (long long)id);
	add_rowids(&sql, t, false, true);
	add_columns(&sql, NULL, t);
	add_columns(&sql, "n", t);
	add_join(&sql, "new", "n", "old", "o", t, near);
	strbuf_adds(&sql, " WHERE ");
	add_column(&sql, "o", first_key(t)->name);
	strbuf_adds(&sql, " IS NULL");
	return sql.failed ? error_oom(err, "database") : sqlite_execute(d, err, "%s", strbuf_str(&sql));
}

static int make_rows_table(struct sqlite_db *d, const struct sqlite_table *t, int64_t id, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "CREATE TABLE main.e%lld(kind, old_rowid, new_rowid", (long long)id);
	for (size_t i = 0; i < t->n; i++)
		strbuf_addf(&sql, ", o%zu", i);
	for (size_t i = 0; i < t->n; i++)
		strbuf_addf(&sql, ", n%zu", i);
	strbuf_addc(&sql, ')');
	return sql.failed ? error_oom(err, "database") : sqlite_execute(d, err, "%s", strbuf_str(&sql));
}

/* ---- one table ---- */

static int put_table(struct sqlite_db *d, const struct sqlite_table *t, const char *note, struct atoll_error *err)
{
	int64_t id = 0;
	int r = sqlite_execute(d, err,
			       "INSERT INTO main.tab(name, sql, note, rowid_name, has_rows) VALUES(%Q,%Q,%Q,%Q,%d)",
			       t->name, t->sql, note, t->rowid, note == NULL);

	if (r >= 0)
		id = sqlite3_last_insert_rowid(d->db);
	for (size_t i = 0; i < t->n && r >= 0; i++)
		r = sqlite_execute(d, err, "INSERT INTO main.col VALUES(%lld, %d, %Q, %d)", (long long)id, (int)i,
				   t->columns[i].name, t->columns[i].key);
	return r;
}

int sqlite_diff_need_whole(struct sqlite_db *d, const char *why, const char *name, struct atoll_error *err)
{
	AUTO_FREE char *reason = str_format(why, name);

	if (!reason)
		return error_oom(err, "database");
	return sqlite_execute(d, err, "INSERT OR IGNORE INTO main.meta VALUES('whole', NULL, %Q)", reason);
}

/* Rows of a table without a key: only whether they are the same. */
static int compare_whole(struct sqlite_db *d, const struct sqlite_table *t, const char *why, struct atoll_error *err)
{
	int64_t before = 0, after = 0;
	AUTO_FREE char *note = NULL;
	int r = sqlite_same_rows(d, "old", d, "new", t, err);

	if (r != 0)
		return MIN(r, 0);
	r = sqlite_int(d, &before, err, "SELECT count(*) FROM old.\"%w\"", t->name);
	if (r >= 0)
		r = sqlite_int(d, &after, err, "SELECT count(*) FROM new.\"%w\"", t->name);
	if (r < 0)
		return r;
	note = str_format("%lld rows, %lld before", (long long)after, (long long)before);
	if (!note)
		return error_oom(err, "database");
	r = put_table(d, t, note, err);
	if (r >= 0)
		r = sqlite_diff_need_whole(d, why, t->name, err);
	return r;
}

/* Whether rows can be written without what only the database's own programs have: functions, collations. */
static bool can_be_written(struct sqlite_db *d, const struct sqlite_table *t)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	AUTO_STMT *stmt = NULL;

	strbuf_adds(&sql, "INSERT INTO old.");
	sqlite_add_name(&sql, t->name);
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(&sql, i ? ", " : "(");
		sqlite_add_name(&sql, t->columns[i].name);
	}
	strbuf_adds(&sql, ") SELECT NULL");
	for (size_t i = 1; i < t->n; i++)
		strbuf_adds(&sql, ", NULL");
	return !sql.failed && sqlite3_prepare_v2(d->db, strbuf_str(&sql), -1, &stmt, NULL) == SQLITE_OK;
}

/* Writes down which rows may differ: 1, or 0 if all may. */
static int note_near(struct sqlite_db *d, const struct sqlite_table *t, const struct sqlite_tree *tree,
		     struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r;

	if (!tree || !tree->is_table || (!t->rowid && !t->key_is_rowid))
		return 0;
	r = sqlite_execute(d, err,
			   "CREATE TABLE IF NOT EXISTS temp.near(id INTEGER PRIMARY KEY); DELETE FROM temp.near");
	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "INSERT OR IGNORE INTO temp.near VALUES(?1)");
	for (size_t i = 0; i < tree->n && r >= 0; i++) {
		sqlite3_bind_int64(stmt, 1, tree->rows[i]);
		r = sqlite_next(d, stmt, err);
		sqlite3_reset(stmt);
	}
	return r < 0 ? r : 1;
}

static int compare_rows(struct sqlite_db *d, const struct sqlite_table *t, const struct sqlite_tree *tree,
			struct atoll_error *err)
{
	int64_t id = 0, n = 0;
	int near = note_near(d, t, tree, err);
	int r = near < 0 ? near : put_table(d, t, NULL, err);

	if (r >= 0)
		r = sqlite_int(d, &id, err, "SELECT max(id) FROM main.tab");
	if (r >= 0)
		r = make_rows_table(d, t, id, err);
	if (r >= 0)
		r = find_changed(d, t, id, near, err);
	if (r >= 0)
		r = find_inserted(d, t, id, near, err);
	if (r >= 0)
		r = sqlite_int(d, &n, err, "SELECT EXISTS(SELECT 1 FROM main.e%lld)", (long long)id);
	if (r >= 0 && !n)
		r = sqlite_execute(
			d, err,
			"DROP TABLE main.e%lld; DELETE FROM main.tab WHERE id=%lld; DELETE FROM main.col WHERE tab=%lld",
			(long long)id, (long long)id, (long long)id);
	return r;
}

static const char *why_whole(const struct sqlite_table *old, const struct sqlite_table *new)
{
	if (old->is_shadow)
		return "the table \"%s\" belongs to a virtual table";
	if (!old->n_keys)
		return "the table \"%s\" has no primary key";
	return old->has_key && new->has_key ? NULL : "the primary key of the table \"%s\" does not name each row";
}

/* A table that is new, gone or of another make is part of what differs in the schema. */
int sqlite_diff_table(struct sqlite_db *d, const char *name, const struct sqlite_trees *trees, struct atoll_error *err)
{
	const struct sqlite_tree *tree = sqlite_trees_get(trees, name);
	AUTO_TABLE *old = NULL;
	AUTO_TABLE *new = NULL;
	const char *why;
	int r = tree && !tree->is_touched ? 0 : sqlite_table_load(d, "old", name, &old, err);

	if (r > 0)
		r = sqlite_table_load(d, "new", name, &new, err);
	if (r <= 0 || strcmp(old->sql, new->sql) != 0)
		return MIN(r, 0);
	why = why_whole(old, new);
	if (!why && !can_be_written(d, old))
		why = "the table \"%s\" needs functions or collations that its own programs bring along";
	return why ? compare_whole(d, old, why, err) : compare_rows(d, old, tree, err);
}
