/* SPDX-License-Identifier: Apache-2.0 */
/* Edits as people read them: a line for each table and each part of the schema, and the rows themselves. */
#include <string.h>

#include "database/private.h"

struct summary {
	struct sqlite_db *d;
	sqlite_summary_fn fn;
	void *arg;
};

/* SQL on one line: whatever is white becomes one space. */
static char *one_line(const char *sql)
{
	AUTO_STRBUF s = STRBUF_INIT;
	bool space = false;

	for (; sql && *sql; sql++) {
		if (strchr(" \t\r\n\f\v", *sql)) {
			space = s.size > 0;
			continue;
		}
		if (space)
			strbuf_addc(&s, ' ');
		space = false;
		strbuf_addc(&s, *sql);
	}
	return s.size ? strbuf_take(&s) : strdup("");
}

static int tell_objects(struct summary *s, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(s->d, &stmt, err,
			       "SELECT type, name, old, new FROM object WHERE old IS NOT NULL OR new IS NOT NULL"
			       " ORDER BY type<>'table', type, name");

	while (r >= 0 && (r = sqlite_next(s->d, stmt, err)) > 0) {
		const char *old = (const char *)sqlite3_column_text(stmt, 2);
		const char *new = (const char *)sqlite3_column_text(stmt, 3);
		AUTO_FREE char *object = str_format("schema %s", (const char *)sqlite3_column_text(stmt, 1));
		AUTO_FREE char *sql = one_line(new ? new : old);
		AUTO_FREE char *note =
			sql && !new ? str_format("DROP %s; was: %s", (const char *)sqlite3_column_text(stmt, 0), sql)
				    : NULL;

		if (!object || !sql || (!new && !note))
			return error_oom(err, "database");
		r = s->fn(s->arg,
			  !old   ? SQLITE_ADDED
			  : !new ? SQLITE_DELETED
				 : SQLITE_MODIFIED,
			  object, note ? note : sql);
	}
	return r;
}

static int tell_numbers(struct summary *s, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(s->d, &stmt, err,
			       "SELECT name, old, new FROM meta WHERE name NOT IN ('whole', 'loose') ORDER BY name");

	while (r >= 0 && (r = sqlite_next(s->d, stmt, err)) > 0) {
		AUTO_FREE char *object = str_format("pragma %s", (const char *)sqlite3_column_text(stmt, 0));
		AUTO_FREE char *note = str_format("%s, was %s", (const char *)sqlite3_column_text(stmt, 2),
						  (const char *)sqlite3_column_text(stmt, 1));

		if (!object || !note)
			return error_oom(err, "database");
		r = s->fn(s->arg, SQLITE_MODIFIED, object, note);
	}
	return r;
}

static int count_rows(struct summary *s, int64_t id, struct strbuf *note, struct atoll_error *err)
{
	static const struct {
		char kind;
		const char *word;
	} kinds[] = { { 'I', "inserted" }, { 'U', "updated" }, { 'D', "deleted" } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r >= 0; i++) {
		int64_t n = 0;

		r = sqlite_int(s->d, &n, err, "SELECT count(*) FROM e%lld WHERE kind='%c'", (long long)id,
			       kinds[i].kind);
		if (n)
			strbuf_addf(note, "%s%lld %s", note->size ? ", " : "", (long long)n, kinds[i].word);
	}
	return r;
}

static int tell_tables(struct summary *s, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(s->d, &stmt, err, "SELECT id, name, note FROM tab ORDER BY name");

	while (r >= 0 && (r = sqlite_next(s->d, stmt, err)) > 0) {
		const char *known = (const char *)sqlite3_column_text(stmt, 2);
		AUTO_FREE char *object = str_format("table %s", (const char *)sqlite3_column_text(stmt, 1));
		AUTO_STRBUF note = STRBUF_INIT;

		if (known)
			strbuf_adds(&note, known);
		else
			r = count_rows(s, sqlite3_column_int64(stmt, 0), &note, err);
		if (r >= 0 && (!object || note.failed))
			r = error_oom(err, "database");
		if (r >= 0)
			r = s->fn(s->arg, SQLITE_MODIFIED, object, strbuf_str(&note));
	}
	return r;
}

int sqlite_edits_summary(const struct sqlite_file *edits, sqlite_summary_fn fn, void *arg, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	struct summary s = { NULL, fn, arg };
	int r = sqlite_open(edits, 0, &d, err);

	s.d = d;
	if (r >= 0)
		r = tell_objects(&s, err);
	if (r >= 0)
		r = tell_numbers(&s, err);
	return r < 0 ? r : tell_tables(&s, err);
}

int sqlite_edits_reason(const struct sqlite_file *edits, char **ret, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	AUTO_STMT *stmt = NULL;
	char *reason = NULL;
	int r = sqlite_open(edits, 0, &d, err);

	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "SELECT new FROM meta WHERE name='whole'");
	if (r >= 0)
		r = sqlite_next(d, stmt, err);
	if (r > 0) {
		reason = strdup((const char *)sqlite3_column_text(stmt, 0));
		if (!reason)
			r = error_oom(err, "database");
	}
	if (r >= 0)
		*ret = reason;
	return MIN(r, 0);
}

/* ---- rows ---- */

struct row_walk {
	struct sqlite_db *d;
	struct atoll_row row;
	char **columns, **old, **new;
	bool *keys;
	atoll_row_fn fn;
	void *arg;
};

static void free_strings(char **v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i]);
	free(v);
}

static void walk_release(struct row_walk *w)
{
	free_strings(w->columns, w->row.n_columns);
	free_strings(w->old, w->row.n_columns);
	free_strings(w->new, w->row.n_columns);
	free(w->keys);
}

static int load_names(struct row_walk *w, int64_t id, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int64_t n = 0;
	int r = sqlite_int(w->d, &n, err, "SELECT count(*) FROM col WHERE tab=%lld", (long long)id);

	if (r < 0)
		return r;
	w->row.n_columns = (size_t)n;
	w->columns = calloc(w->row.n_columns, sizeof *w->columns);
	w->old = calloc(w->row.n_columns, sizeof *w->old);
	w->new = calloc(w->row.n_columns, sizeof *w->new);
	w->keys = calloc(w->row.n_columns, sizeof *w->keys);
	if (!w->columns || !w->old || !w->new || !w->keys)
		return error_oom(err, "database");
	r = sqlite_prepare(w->d, &stmt, err, "SELECT name, key FROM col WHERE tab=%lld ORDER BY i", (long long)id);
	for (size_t i = 0; i < w->row.n_columns && r >= 0 && (r = sqlite_next(w->d, stmt, err)) > 0; i++) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);

		w->columns[i] = strdup(name ? name : "");
		w->keys[i] = sqlite3_column_int(stmt, 1) > 0;
		if (!w->columns[i])
			return error_oom(err, "database");
	}
	return MIN(r, 0);
}

static int load_values(struct row_walk *w, sqlite3_stmt *stmt, int first, char **values, struct atoll_error *err)
{
	for (size_t i = 0; i < w->row.n_columns; i++) {
		AUTO_STRBUF s = STRBUF_INIT;

		sqlite_add_cell(&s, stmt, first + (int)i);
		free(values[i]);
		values[i] = strbuf_take(&s);
		if (!values[i])
			return error_oom(err, "database");
	}
	return 0;
}

static int walk_row(struct row_walk *w, sqlite3_stmt *stmt, struct atoll_error *err)
{
	char kind = *(const char *)sqlite3_column_text(stmt, EDIT_KIND);
	int r = load_values(w, stmt, EDIT_FIRST, w->old, err);

	if (r >= 0)
		r = load_values(w, stmt, EDIT_FIRST + (int)w->row.n_columns, w->new, err);
	if (r < 0)
		return r;
	w->row.kind = kind == 'I' ? ATOLL_ADDED : kind == 'D' ? ATOLL_DELETED : ATOLL_MODIFIED;
	w->row.columns = (const char *const *)w->columns;
	w->row.keys = w->keys;
	w->row.old_values = kind == 'I' ? NULL : (const char *const *)w->old;
	w->row.new_values = kind == 'D' ? NULL : (const char *const *)w->new;
	return w->fn(&w->row, w->arg);
}

static int walk_table(struct sqlite_db *d, int64_t id, const char *name, atoll_row_fn fn, void *arg,
		      struct atoll_error *err)
{
	CLEANUP(walk_release) struct row_walk w = { .d = d, .fn = fn, .arg = arg };
	AUTO_STMT *stmt = NULL;
	int r;

	w.row.table = name;
	r = load_names(&w, id, err);
	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "SELECT * FROM e%lld ORDER BY _rowid_", (long long)id);
	while (r == 0 && (r = sqlite_next(d, stmt, err)) > 0)
		r = walk_row(&w, stmt, err);
	return r;
}

int sqlite_edits_rows(const struct sqlite_file *edits, const char *table, atoll_row_fn fn, void *arg,
		      struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	AUTO_STMT *stmt = NULL;
	int r = sqlite_open(edits, 0, &d, err);

	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err,
				   "SELECT id, name FROM tab WHERE has_rows AND (%Q IS NULL OR name=%Q) ORDER BY name",
				   table, table);
	while (r == 0 && (r = sqlite_next(d, stmt, err)) > 0)
		r = walk_table(d, sqlite3_column_int64(stmt, 0), (const char *)sqlite3_column_text(stmt, 1), fn, arg,
			       err);
	return r;
}
