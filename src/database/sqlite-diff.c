/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows in which one table differs between two databases, and writes them into the edits. */
#include <string.h>

#include "database/private.h"

/* ---- a table of which the definition differs ---- */

static const struct sqlite_column *find_column(const struct sqlite_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (sqlite3_stricmp(t->columns[i].name, name) == 0)
			return &t->columns[i];
	return NULL;
}

/* Links each column to the column of the same name in the old definition. A column at the place of
 * one that is gone counts as that column, renamed. If a command inside did not rename it, the rows
 * are listed with both values all the same. */
static void link_columns(struct sqlite_table *new, const struct sqlite_table *old)
{
	for (size_t i = 0; i < new->n; i++) {
		struct sqlite_column *c = &new->columns[i];

		c->was = find_column(old, c->name);
		if (!c->was && i < old->n && !find_column(new, old->columns[i].name))
			c->was = &old->columns[i];
	}
}

static bool is_same_key(const struct sqlite_column *a, const struct sqlite_column *b)
{
	return b && a->key == b->key && sqlite3_stricmp(a->type, b->type) == 0 && !a->collation == !b->collation &&
	       (!a->collation || sqlite3_stricmp(a->collation, b->collation) == 0);
}

/* Whether a key means the same row in both definitions. */
static bool has_same_key(const struct sqlite_table *new, const struct sqlite_table *old)
{
	if (new->n_keys != old->n_keys || new->key_is_rowid != old->key_is_rowid)
		return false;
	for (size_t i = 0; i < new->n; i++)
		if (new->columns[i].key && !is_same_key(&new->columns[i], new->columns[i].was))
			return false;
	return true;
}

static bool is_number(const char *s)
{
	return *s && strchr("+-.0123456789", *s) && !s[strspn(s, "+-.0123456789abcdefxABCDEFX")];
}

/* The clone's schema is not trusted: of its defaults only literals become part of a statement. */
static bool is_literal(const char *s)
{
	if (is_number(s) || sqlite3_stricmp(s, "true") == 0 || sqlite3_stricmp(s, "false") == 0)
		return true;
	s += *s == 'x' || *s == 'X';
	if (*s != '\'')
		return false;
	for (s++; *s; s++)
		if (*s == '\'' && *++s != '\'')
			return !*s;
	return false;
}

/* A row that was there before the column was added has the column's default. The new value stands
 * for it where both are equal, because only that one has the type that the column gives it. */
static void add_initial(struct strbuf *s, const struct sqlite_column *c)
{
	const char *initial = c->initial && is_literal(c->initial) ? c->initial : "NULL";

	strbuf_adds(s, "CASE WHEN n.");
	sqlite_add_name(s, c->name);
	strbuf_addf(s, " IS +%s THEN n.", initial); /* without the +, IS TRUE would be another operator */
	sqlite_add_name(s, c->name);
	strbuf_addf(s, " ELSE %s END", initial);
}

/* ---- statements over two places of one table ---- */

/* alias: "o" for the old side, "n" for the new one. */
static void add_column(struct strbuf *s, const char *alias, const struct sqlite_column *c)
{
	if (*alias == 'o' && !c->was) {
		add_initial(s, c);
		return;
	}
	strbuf_addf(s, "%s.", alias);
	sqlite_add_name(s, *alias == 'o' ? c->was->name : c->name);
}

static void add_columns(struct strbuf *s, const char *alias, const struct sqlite_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(s, ", ");
		if (alias)
			add_column(s, alias, &t->columns[i]);
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
		add_column(s, alias, first_key(t));
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
		add_column(s, with_alias, &t->columns[i]);
		strbuf_adds(s, " = ");
		add_column(s, from_alias, &t->columns[i]);
		sqlite_add_collation(s, &t->columns[i]);
		and = " AND ";
	}
}

/* Rows themselves are compared exactly: 1 is not 1.0, and 'a' is not 'A' whatever the collation. */
static void add_same(struct strbuf *s, const struct sqlite_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(s, i ? " AND " : "");
		add_column(s, "o", &t->columns[i]);
		strbuf_adds(s, " IS ");
		add_column(s, "n", &t->columns[i]);
		strbuf_adds(s, " COLLATE BINARY AND typeof(");
		add_column(s, "o", &t->columns[i]);
		strbuf_adds(s, ") = typeof(");
		add_column(s, "n", &t->columns[i]);
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

	add_column(&gone, "n", first_key(t));
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
	add_column(&sql, "o", first_key(t));
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

/* Of a table without a list of rows: how many there are. n and schema: where the new side is. */
static int put_counts(struct sqlite_db *d, struct sqlite_db *n, const char *schema, const struct sqlite_table *t,
		      const char *more, struct atoll_error *err)
{
	int64_t before = 0, after = 0;
	AUTO_FREE char *note = NULL;
	int r = sqlite_int(d, &before, err, "SELECT count(*) FROM old.\"%w\"", t->name);

	if (r >= 0)
		r = sqlite_int(n, &after, err, "SELECT count(*) FROM \"%w\".\"%w\"", schema, t->name);
	if (r < 0)
		return r;
	note = str_format("%lld rows, %lld before%s", (long long)after, (long long)before, more);
	return note ? put_table(d, t, note, err) : error_oom(err, "database");
}

/* Only whether the rows are the same: 1 if they are not, and then they are counted. */
static int compare_unlisted(struct sqlite_db *d, struct sqlite_db *n, const char *schema, const struct sqlite_table *t,
			    struct atoll_error *err)
{
	int r = sqlite_same_rows(d, "old", n, schema, t, err);

	if (r != 0)
		return MIN(r, 0);
	r = put_counts(d, n, schema, t, "", err);
	return r < 0 ? r : 1;
}

/* Rows of a table without a key. */
static int compare_whole(struct sqlite_db *d, const struct sqlite_table *t, const char *why, struct atoll_error *err)
{
	int r = compare_unlisted(d, d, "new", t, err);

	return r > 0 ? sqlite_diff_need_whole(d, why, t->name, err) : r;
}

/* Whether rows can be written without what only the database's own programs have: functions, collations. */
static bool can_be_written(struct sqlite_db *d, const char *schema, const struct sqlite_table *t)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	AUTO_STMT *stmt = NULL;

	strbuf_addf(&sql, "INSERT INTO %s.", schema);
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

static const char *why_whole(struct sqlite_db *d, const struct sqlite_table *old, const struct sqlite_table *new)
{
	if (old->is_shadow)
		return "the table \"%s\" belongs to a virtual table";
	if (!old->n_keys)
		return "the table \"%s\" has no primary key";
	if (!old->has_key || !new->has_key)
		return "the primary key of the table \"%s\" does not name each row";
	return can_be_written(d, "old", old)
		       ? NULL
		       : "the table \"%s\" needs functions or collations that its own programs bring along";
}

static const char not_compared[] = "; not compared, for the definition of the table differs";

/* The database lands as a whole then; rows are compared to be listed. Pages do not tell which: a
 * row on a page that is the same may have other values by the new definition. */
static int compare_altered(struct sqlite_db *d, const struct sqlite_table *old, struct sqlite_table *new,
			   struct atoll_error *err)
{
	if (why_whole(d, old, new) || !can_be_written(d, "new", new) || !has_same_key(new, old))
		return put_counts(d, d, "new", new, not_compared, err);
	new->rowid = NULL;
	return compare_rows(d, new, NULL, err);
}

/* Whether none of its rows can differ: all of its pages are the same, and so is its definition. */
static int is_untouched(struct sqlite_db *d, const char *name, const struct sqlite_tree *tree, struct atoll_error *err)
{
	int64_t altered = 0;
	int r;

	if (!tree || tree->is_touched)
		return 0;
	r = sqlite_int(d, &altered, err, "SELECT count(*) FROM main.object WHERE type='table' AND name=%Q", name);
	return r < 0 ? r : !altered;
}

/* A table that is new or gone is part of what differs in the schema. */
int sqlite_diff_table(struct sqlite_db *d, const char *name, const struct sqlite_trees *trees, struct atoll_error *err)
{
	const struct sqlite_tree *tree = sqlite_trees_get(trees, name);
	AUTO_TABLE *old = NULL;
	AUTO_TABLE *new = NULL;
	const char *why;
	int r = is_untouched(d, name, tree, err);

	if (r != 0)
		return MIN(r, 0);
	r = sqlite_table_load(d, "old", name, &old, err);
	if (r > 0)
		r = sqlite_table_load(d, "new", name, &new, err);
	if (r <= 0)
		return r;
	link_columns(new, old);
	if (strcmp(old->sql, new->sql) != 0)
		return compare_altered(d, old, new, err);
	why = why_whole(d, old, new);
	return why ? compare_whole(d, new, why, err) : compare_rows(d, new, tree, err);
}

int sqlite_diff_recoded(struct sqlite_db *d, struct sqlite_db *n, const char *name, struct atoll_error *err)
{
	AUTO_TABLE *old = NULL;
	AUTO_TABLE *new = NULL;
	int r = sqlite_table_load(d, "old", name, &old, err);

	if (r > 0)
		r = sqlite_table_load(n, "main", name, &new, err);
	if (r <= 0)
		return r;
	return strcmp(old->sql, new->sql) != 0 ? put_counts(d, n, "main", new, not_compared, err)
					       : compare_unlisted(d, n, "main", new, err);
}
