/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two databases hold the same: what stands in their schemas, every row, and the numbers a program may keep in the header. */
#include <string.h>

#include "database/private.h"

int sqlite_say(const struct sqlite_tell *tell, const char *object, const char *why)
{
	return tell && tell->fn ? tell->fn(tell->arg, object, why) : 0;
}

static void add_order(struct strbuf *s, const struct sqlite_table *t)
{
	const char *comma = "";

	if (t->rowid) {
		strbuf_adds(s, t->rowid);
		return;
	}
	for (int k = 1; k <= (int)t->n_keys; k++)
		for (size_t i = 0; i < t->n; i++)
			if (t->columns[i].key == k) {
				strbuf_adds(s, comma);
				sqlite_add_name(s, t->columns[i].name);
				sqlite_add_collation(s, &t->columns[i]);
				comma = ", ";
			}
	if (!t->n_keys)
		strbuf_adds(s, "1");
}

static int prepare_rows(struct sqlite_db *d, const char *schema, const struct sqlite_table *t, sqlite3_stmt **ret,
			struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "SELECT %s", t->rowid ? t->rowid : "NULL");
	for (size_t i = 0; i < t->n; i++) {
		strbuf_adds(&sql, ", ");
		sqlite_add_name(&sql, t->columns[i].name);
	}
	strbuf_adds(&sql, " FROM ");
	sqlite_add_name(&sql, schema);
	strbuf_addc(&sql, '.');
	sqlite_add_name(&sql, t->name);
	strbuf_adds(&sql, " ORDER BY ");
	add_order(&sql, t);
	if (sql.failed)
		return error_oom(err, "database");
	return sqlite_prepare(d, ret, err, "%s", strbuf_str(&sql));
}

/* Row by row of two statements with as many columns. */
static int same_results(struct sqlite_db *a, sqlite3_stmt *x, struct sqlite_db *b, sqlite3_stmt *y,
			struct atoll_error *err)
{
	int n = sqlite3_column_count(x);

	for (;;) {
		int r = sqlite_next(a, x, err);
		int q = r < 0 ? r : sqlite_next(b, y, err);

		if (r < 0 || q < 0)
			return MIN(r, q);
		if (r != q)
			return 0;
		if (r == 0)
			return 1;
		for (int i = 0; i < n; i++)
			if (!sqlite_cell_same(x, i, y, i))
				return 0;
	}
}

int sqlite_same_rows(struct sqlite_db *a, const char *schema_a, struct sqlite_db *b, const char *schema_b,
		     const struct sqlite_table *t, struct atoll_error *err)
{
	AUTO_STMT *x = NULL;
	AUTO_STMT *y = NULL;
	int r = prepare_rows(a, schema_a, t, &x, err);

	if (r >= 0)
		r = prepare_rows(b, schema_b, t, &y, err);
	return r < 0 ? r : same_results(a, x, b, y, err);
}

static int same_query(struct sqlite_db *a, struct sqlite_db *b, const char *sql, struct atoll_error *err)
{
	AUTO_STMT *x = NULL;
	AUTO_STMT *y = NULL;
	int r = sqlite_prepare(a, &x, err, "%s", sql);

	if (r >= 0)
		r = sqlite_prepare(b, &y, err, "%s", sql);
	return r < 0 ? r : same_results(a, x, b, y, err);
}

/* 1 the same, 0 not the same and told. */
static int same_table(struct sqlite_db *a, struct sqlite_db *b, const char *name, const struct sqlite_tell *tell,
		      struct atoll_error *err)
{
	AUTO_TABLE *t = NULL;
	AUTO_FREE char *object = str_format("table %s", name);
	int r = object ? sqlite_table_load(a, "main", name, &t, err) : error_oom(err, "database");

	if (r <= 0)
		return r < 0 ? r : 1;
	r = sqlite_same_rows(a, "main", b, "main", t, err);
	if (r == 0)
		sqlite_say(tell, object, "its rows were changed by somebody else");
	return r;
}

static int same_tables(struct sqlite_db *a, struct sqlite_db *b, const struct sqlite_tell *tell,
		       struct atoll_error *err)
{
	char **names = NULL;
	size_t n = 0;
	int same = 1;
	int r = sqlite_table_names(a, "main", &names, &n, err);

	for (size_t i = 0; i < n && r >= 0; i++) {
		r = same_table(a, b, names[i], tell, err);
		if (r == 0)
			same = 0;
	}
	sqlite_names_free(names, n);
	return r < 0 ? r : same;
}

int sqlite_same_content(struct sqlite_db *a, struct sqlite_db *b, const struct sqlite_tell *tell,
			struct atoll_error *err)
{
	static const struct {
		const char *sql, *object, *why;
	} plain[] = {
		{ "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\'"
		  " ORDER BY type, name",
		  "schema", "it was changed by somebody else" },
		{ "PRAGMA user_version", "pragma user_version", "it was changed by somebody else" },
		{ "PRAGMA application_id", "pragma application_id", "it was changed by somebody else" },
	};
	int same = 1, r = 1;

	for (size_t i = 0; i < ARRAY_SIZE(plain) && r >= 0; i++) {
		r = same_query(a, b, plain[i].sql, err);
		if (r != 0)
			continue;
		sqlite_say(tell, plain[i].object, plain[i].why);
		if (i == 0)
			return 0; /* tables that differ in their columns are not compared by rows */
		same = 0;
	}
	if (r >= 0)
		r = same_tables(a, b, tell, err);
	return r < 0 ? r : same && r;
}

int sqlite_same(const struct sqlite_file *a, const struct sqlite_file *b, const struct sqlite_tell *tell,
		struct atoll_error *err)
{
	AUTO_DB *x = NULL;
	AUTO_DB *y = NULL;
	int r = sqlite_open(a, 0, &x, err);

	if (r >= 0)
		r = sqlite_open(b, 0, &y, err);
	if (r >= 0)
		r = sqlite_execute(x, err, "BEGIN");
	return r < 0 ? r : sqlite_same_content(x, y, tell, err);
}
