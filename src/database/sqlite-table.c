/* SPDX-License-Identifier: Apache-2.0 */
/* What a table looks like: its columns, its key, and how its values are compared and shown. */
#include <string.h>

#include "database/private.h"

/* Beyond it a statement that compares two rows would be refused by SQLite. */
#define COLUMNS_MAX 400

struct sqlite_table *sqlite_table_free(struct sqlite_table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n; i++) {
		free(t->columns[i].name);
		free(t->columns[i].collation);
		free(t->columns[i].type);
		free(t->columns[i].initial);
	}
	free(t->columns);
	free(t->name);
	free(t->sql);
	free(t);
	return NULL;
}

void sqlite_names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int add_name(char ***names, size_t *n, const char *name)
{
	char **grown = reallocarray(*names, *n + 1, sizeof *grown);

	if (!grown)
		return -1;
	*names = grown;
	grown[*n] = strdup(name ? name : "");
	return grown[*n] ? (int)(*n)++ : -1;
}

/* The statistics of the planner and the counters of AUTOINCREMENT are SQLite's own affair. */
int sqlite_table_names(struct sqlite_db *d, const char *schema, char ***ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	char **names = NULL;
	size_t n = 0;
	int r = sqlite_prepare(d, &stmt, err,
			       "SELECT name FROM pragma_table_list WHERE schema=%Q AND type IN ('table', 'shadow')"
			       " AND name NOT LIKE 'sqlite\\_%%' ESCAPE '\\' ORDER BY name",
			       schema);

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0)
		if (add_name(&names, &n, (const char *)sqlite3_column_text(stmt, 0)) < 0)
			r = error_oom(err, "database");
	if (r < 0) {
		sqlite_names_free(names, n);
		return r;
	}
	*ret = names;
	*ret_n = n;
	return 0;
}

/* 0, or -1 if there is no memory. */
static int add_column(struct sqlite_table *t, const char *name, sqlite3_stmt *stmt)
{
	const char *type = (const char *)sqlite3_column_text(stmt, 4);
	const char *initial = (const char *)sqlite3_column_text(stmt, 5);
	struct sqlite_column *c = reallocarray(t->columns, t->n + 1, sizeof *c);

	if (!c)
		return -1;
	t->columns = c;
	c += t->n++;
	*c = (struct sqlite_column){ .name = strdup(name),
				     .key = sqlite3_column_int(stmt, 1),
				     .may_be_null = !sqlite3_column_int(stmt, 2),
				     .type = strdup(type ? type : ""),
				     .initial = initial ? strdup(initial) : NULL };
	t->n_keys += c->key > 0;
	return c->name && c->type && (c->initial || !initial) ? 0 : -1;
}

static int load_columns(struct sqlite_db *d, const char *schema, struct sqlite_table *t, bool taken[3],
			struct atoll_error *err)
{
	static const char *const rowid[] = { "_rowid_", "rowid", "oid" };
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(d, &stmt, err,
			       "SELECT name, pk, \"notnull\", hidden, type, dflt_value"
			       " FROM pragma_table_xinfo(%Q, %Q) ORDER BY cid",
			       t->name, schema);

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);

		for (size_t i = 0; i < ARRAY_SIZE(rowid); i++)
			taken[i] |= name && sqlite3_stricmp(name, rowid[i]) == 0;
		if (sqlite3_column_int(stmt, 3) == 0 && add_column(t, name ? name : "", stmt) < 0)
			return error_oom(err, "database");
	}
	return r;
}

/* A row without a value in its key is not named by it. */
static int find_null_keys(struct sqlite_db *d, const char *schema, struct sqlite_table *t, struct atoll_error *err)
{
	for (size_t i = 0; i < t->n && t->has_key; i++) {
		int64_t found = 0;
		int r = 0;

		if (t->columns[i].key && t->columns[i].may_be_null)
			r = sqlite_int(d, &found, err,
				       "SELECT EXISTS(SELECT 1 FROM \"%w\".\"%w\" WHERE \"%w\" IS NULL)", schema,
				       t->name, t->columns[i].name);
		if (r < 0)
			return r;
		t->has_key = !found;
	}
	return 0;
}

static int set_collation(struct sqlite_table *t, const char *name, const char *collation)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->columns[i].key && !t->columns[i].collation && strcmp(t->columns[i].name, name) == 0) {
			t->columns[i].collation = strdup(collation);
			return t->columns[i].collation ? 0 : -1;
		}
	return 0;
}

/* The primary key is an index, which may compare a column by another collation than the column's
 * own. Returns the number of columns in that index; 0 if there is no such index, as for a key that
 * is the rowid. */
static int load_collations(struct sqlite_db *d, const char *schema, struct sqlite_table *t, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int n = 0;
	int r = sqlite_prepare(d, &stmt, err,
			       "SELECT x.name, x.coll FROM pragma_index_list(%Q, %Q) l,"
			       " pragma_index_xinfo(l.name, %Q) x WHERE l.origin='pk' AND x.key ORDER BY x.seqno",
			       t->name, schema, schema);

	for (; r >= 0 && (r = sqlite_next(d, stmt, err)) > 0; n++) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);
		const char *collation = (const char *)sqlite3_column_text(stmt, 1);

		if (!name || !collation || set_collation(t, name, collation) < 0)
			return error_oom(err, "database");
	}
	return r < 0 ? r : n;
}

static int load_key(struct sqlite_db *d, const char *schema, struct sqlite_table *t, bool without_rowid,
		    const bool taken[3], struct atoll_error *err)
{
	int parts = load_collations(d, schema, t, err);

	if (parts < 0)
		return parts;
	t->key_is_rowid = t->n_keys == 1 && !without_rowid && parts == 0;
	/* A key may list one column twice, with two collations; Atoll cannot use such a key. */
	t->has_key = t->n_keys > 0 && t->n <= COLUMNS_MAX && !t->is_shadow &&
		     (t->key_is_rowid || (size_t)parts == t->n_keys);
	if (!without_rowid && !t->key_is_rowid)
		t->rowid = !taken[0] ? "_rowid_" : !taken[1] ? "rowid" : !taken[2] ? "oid" : NULL;
	return without_rowid || t->key_is_rowid ? 0 : find_null_keys(d, schema, t, err);
}

/* SQLite recognises the shadow tables, in which a virtual table keeps its content, only if it has
 * the virtual table's module. If only the database's own programs have the module, Atoll goes by
 * the name, as shadow tables are named everywhere: the virtual table's name, then "_". */
static int find_owner(struct sqlite_db *d, const char *schema, struct sqlite_table *t, struct atoll_error *err)
{
	int64_t found = 0;
	int r = sqlite_int(
		d, &found, err,
		"SELECT EXISTS(SELECT 1 FROM \"%w\".sqlite_schema v WHERE v.type='table' AND v.sql LIKE 'CREATE VIRTUAL TABLE%%'"
		" AND substr(%Q, 1, length(v.name) + 1) = v.name || '_' COLLATE NOCASE"
		" AND NOT EXISTS(SELECT 1 FROM pragma_module_list m WHERE v.sql LIKE '%%USING ' || m.name || '%%'))",
		schema, t->name);

	t->is_shadow |= found != 0;
	return r;
}

int sqlite_table_load(struct sqlite_db *d, const char *schema, const char *name, struct sqlite_table **ret,
		      struct atoll_error *err)
{
	AUTO_TABLE *t = calloc(1, sizeof *t);
	AUTO_STMT *stmt = NULL;
	bool taken[3] = { false }, without_rowid;
	const char *sql;
	int r;

	if (!t)
		return error_oom(err, "database");
	r = sqlite_prepare(
		d, &stmt, err,
		"SELECT l.type='shadow', l.wr, s.sql FROM pragma_table_list l JOIN \"%w\".sqlite_schema s"
		" ON s.type='table' AND s.name=l.name WHERE l.schema=%Q AND l.name=%Q AND l.type IN ('table', 'shadow')",
		schema, schema, name);
	if (r >= 0)
		r = sqlite_next(d, stmt, err);
	if (r <= 0)
		return r;
	t->is_shadow = sqlite3_column_int(stmt, 0);
	without_rowid = sqlite3_column_int(stmt, 1);
	sql = (const char *)sqlite3_column_text(stmt, 2);
	t->name = strdup(name);
	t->sql = strdup(sql ? sql : "");
	if (!t->name || !t->sql)
		return error_oom(err, "database");
	r = find_owner(d, schema, t, err);
	if (r >= 0)
		r = load_columns(d, schema, t, taken, err);
	if (r >= 0)
		r = load_key(d, schema, t, without_rowid, taken, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 1;
}

/* ---- names and values ---- */

void sqlite_add_name(struct strbuf *s, const char *name)
{
	strbuf_addc(s, '"');
	for (; *name; name++) {
		if (*name == '"')
			strbuf_addc(s, '"');
		strbuf_addc(s, *name);
	}
	strbuf_addc(s, '"');
}

void sqlite_add_collation(struct strbuf *s, const struct sqlite_column *c)
{
	if (!c->collation)
		return;
	strbuf_adds(s, " COLLATE ");
	sqlite_add_name(s, c->collation);
}

static void add_blob(struct strbuf *s, const unsigned char *data, int size)
{
	strbuf_adds(s, "x'");
	for (int i = 0; i < size; i++)
		strbuf_addf(s, "%02x", data[i]);
	strbuf_addc(s, '\'');
}

/* A literal ends at a zero byte; such a text is written as its bytes. */
static void add_text(struct strbuf *s, const char *text, int size)
{
	if (memchr(text, 0, (size_t)size)) {
		strbuf_adds(s, "CAST(");
		add_blob(s, (const unsigned char *)text, size);
		strbuf_adds(s, " AS TEXT)");
		return;
	}
	strbuf_addc(s, '\'');
	for (int i = 0; i < size; i++) {
		if (text[i] == '\'')
			strbuf_addc(s, '\'');
		strbuf_addc(s, text[i]);
	}
	strbuf_addc(s, '\'');
}

static void add_real(struct strbuf *s, double value)
{
	char text[64];

	sqlite3_snprintf(sizeof text, text, "%!.17g", value);
	strbuf_adds(s, text);
}

void sqlite_add_cell(struct strbuf *s, sqlite3_stmt *stmt, int i)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_INTEGER:
		strbuf_addf(s, "%lld", (long long)sqlite3_column_int64(stmt, i));
		break;
	case SQLITE_FLOAT:
		add_real(s, sqlite3_column_double(stmt, i));
		break;
	case SQLITE_TEXT: {
		const char *text = (const char *)sqlite3_column_text(stmt, i);

		add_text(s, text ? text : "", text ? sqlite3_column_bytes(stmt, i) : 0);
		break;
	}
	case SQLITE_BLOB: {
		const unsigned char *data = sqlite3_column_blob(stmt, i);

		add_blob(s, data, data ? sqlite3_column_bytes(stmt, i) : 0);
		break;
	}
	default:
		strbuf_adds(s, "NULL");
	}
}

static bool same_bytes(sqlite3_stmt *a, int i, sqlite3_stmt *b, int j, bool text)
{
	const void *x = text ? (const void *)sqlite3_column_text(a, i) : sqlite3_column_blob(a, i);
	const void *y = text ? (const void *)sqlite3_column_text(b, j) : sqlite3_column_blob(b, j);
	int size = sqlite3_column_bytes(a, i);

	return size == sqlite3_column_bytes(b, j) && (size == 0 || (x && y && memcmp(x, y, (size_t)size) == 0));
}

bool sqlite_cell_same(sqlite3_stmt *a, int i, sqlite3_stmt *b, int j)
{
	int type = sqlite3_column_type(a, i);

	if (type != sqlite3_column_type(b, j))
		return false;
	switch (type) {
	case SQLITE_INTEGER:
		return sqlite3_column_int64(a, i) == sqlite3_column_int64(b, j);
	case SQLITE_FLOAT:
		return sqlite3_column_double(a, i) == sqlite3_column_double(b, j);
	case SQLITE_NULL:
		return true;
	default:
		return same_bytes(a, i, b, j, type == SQLITE_TEXT);
	}
}
