/* SPDX-License-Identifier: Apache-2.0 */
/* Looking where the rows of the edits stand in a live database: on the old side, on the new one, or somewhere of somebody else's choice. */
#include <string.h>

#include "database/private.h"

void sqlite_look_release(struct sqlite_edited *e)
{
	sqlite3_finalize(e->rows);
	sqlite3_finalize(e->find);
	sqlite3_finalize(e->remove);
	sqlite3_finalize(e->insert);
	sqlite3_finalize(e->taken);
	sqlite_table_free(e->t);
}

/* ---- statements ---- */

void sqlite_look_add_key(struct strbuf *s, const struct sqlite_table *t)
{
	const char *and = " WHERE ";

	for (size_t i = 0; i < t->n; i++)
		if (t->columns[i].key) {
			strbuf_adds(s, and);
			sqlite_add_name(s, t->columns[i].name);
			strbuf_addf(s, " = ?%d", t->columns[i].key);
			sqlite_add_collation(s, &t->columns[i]);
			and = " AND ";
		}
}

void sqlite_look_add_table(struct strbuf *s, const struct sqlite_table *t)
{
	strbuf_adds(s, "main.");
	sqlite_add_name(s, t->name);
}

static int prepare(struct sqlite_edited *e, const struct strbuf *sql, sqlite3_stmt **ret, struct atoll_error *err)
{
	return sql->failed ? error_oom(err, "database") : sqlite_prepare(e->d, ret, err, "%s", strbuf_str(sql));
}

static int prepare_find(struct sqlite_edited *e, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "SELECT %s", e->t->rowid ? e->t->rowid : "NULL");
	for (size_t i = 0; i < e->t->n; i++) {
		strbuf_adds(&sql, ", ");
		sqlite_add_name(&sql, e->t->columns[i].name);
	}
	strbuf_adds(&sql, " FROM ");
	sqlite_look_add_table(&sql, e->t);
	sqlite_look_add_key(&sql, e->t);
	return prepare(e, &sql, &e->find, err);
}

/* The table as the edits know it. It must look so still: 1, or 0 if somebody made another of it. */
static int open_table(struct sqlite_edited *e, const char *name, const char *sql, struct atoll_error *err)
{
	int r = sqlite_table_load(e->d, "main", name, &e->t, err);

	if (r > 0 && strcmp(e->t->sql, sql) != 0)
		r = 0;
	if (r > 0) {
		int found = prepare_find(e, err);

		r = found < 0 ? found : 1;
	}
	if (r > 0) {
		int rows = sqlite_prepare(e->d, &e->rows, err, "SELECT * FROM edits.e%lld ORDER BY _rowid_",
					  (long long)e->id);

		r = rows < 0 ? rows : 1;
	}
	return r;
}

/* ---- one row ---- */

char sqlite_look_kind(const struct sqlite_edited *e)
{
	const unsigned char *kind = sqlite3_column_text(e->rows, EDIT_KIND);

	return kind ? (char)kind[0] : '?';
}

bool sqlite_look_has(const struct sqlite_edited *e, bool new)
{
	return sqlite_look_kind(e) != (new ? 'D' : 'I');
}

int sqlite_look_column(const struct sqlite_edited *e, size_t i, bool new)
{
	return EDIT_FIRST + (int)i + (new ? (int)e->t->n : 0);
}

void sqlite_look_bind_key(const struct sqlite_edited *e, sqlite3_stmt *stmt, bool new)
{
	for (size_t i = 0; i < e->t->n; i++)
		if (e->t->columns[i].key)
			sqlite3_bind_value(stmt, e->t->columns[i].key,
					   sqlite3_column_value(e->rows, sqlite_look_column(e, i, new)));
}

static bool found_is(const struct sqlite_edited *e, bool new)
{
	for (size_t i = 0; i < e->t->n; i++)
		if (!sqlite_cell_same(e->find, (int)i + 1, e->rows, sqlite_look_column(e, i, new)))
			return false;
	return true;
}

/* Where the row stands: SEEN_OLD, SEEN_NEW, or 0 for somebody else's; *ret_rowid 0 if it has none of its own. */
int sqlite_look_row(struct sqlite_edited *e, int64_t *ret_rowid, bool *ret_there, struct atoll_error *err)
{
	int seen = 0, r;

	sqlite3_reset(e->find);
	sqlite_look_bind_key(e, e->find, !sqlite_look_has(e, false));
	r = sqlite_next(e->d, e->find, err);
	if (r < 0)
		return r;
	*ret_there = r > 0;
	*ret_rowid = r > 0 ? sqlite3_column_int64(e->find, 0) : 0;
	if (sqlite_look_has(e, false) ? r > 0 && found_is(e, false) : r == 0)
		seen |= SEEN_OLD;
	if (sqlite_look_has(e, true) ? r > 0 && found_is(e, true) : r == 0)
		seen |= SEEN_NEW;
	sqlite3_reset(e->find);
	return seen;
}

static void add_row_name(struct strbuf *s, const struct sqlite_edited *e)
{
	bool new = !sqlite_look_has(e, false);
	const char *comma = "";

	strbuf_adds(s, "the row ");
	for (size_t i = 0; i < e->t->n; i++)
		if (e->t->columns[i].key) {
			strbuf_addf(s, "%s%s=", comma, e->t->columns[i].name);
			sqlite_add_cell(s, e->rows, sqlite_look_column(e, i, new));
			comma = " ";
		}
}

int sqlite_look_tell(const struct sqlite_edited *e, const struct sqlite_tell *tell, const char *what)
{
	AUTO_FREE char *object = str_format("table %s", e->t->name);
	AUTO_STRBUF why = STRBUF_INIT;

	add_row_name(&why, e);
	strbuf_addf(&why, " %s", what);
	return object && !why.failed ? sqlite_say(tell, object, strbuf_str(&why)) : 0;
}

/* ---- all tables ---- */

/* 0, or what the function said if that is not 0; -ATOLL_CONFLICT for a table of another make. */
int sqlite_look_tables(struct sqlite_db *d, const struct sqlite_tell *tell, sqlite_look_fn fn, void *arg,
		       struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(d, &stmt, err, "SELECT id, name, sql FROM edits.tab WHERE has_rows ORDER BY id");

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		CLEANUP(sqlite_look_release) struct sqlite_edited e = { .d = d };
		const char *name = (const char *)sqlite3_column_text(stmt, 1);
		const char *sql = (const char *)sqlite3_column_text(stmt, 2);

		if (!name || !sql)
			return error_oom(err, "database");
		e.id = sqlite3_column_int64(stmt, 0);
		r = open_table(&e, name, sql, err);
		if (r == 0) {
			AUTO_FREE char *object = str_format("table %s", name);

			sqlite_say(tell, object ? object : name, "it was made anew or removed by somebody else");
			return error_set(err, ATOLL_CONFLICT, 0, "database", d->label,
					 "the table \"%s\" of \"%s\" was made anew or removed by somebody else", name,
					 d->label);
		}
		if (r > 0)
			r = fn(&e, arg, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- where they stand ---- */

static int look_at_table(struct sqlite_edited *e, void *arg, struct atoll_error *err)
{
	struct sqlite_standing *s = arg;
	int r;

	while ((r = sqlite_next(e->d, e->rows, err)) > 0) {
		int64_t rowid;
		bool there;
		int seen = sqlite_look_row(e, &rowid, &there, err);

		if (seen < 0)
			return seen;
		s->sides &= (unsigned)seen;
		if (!s->telling || (seen & (s->wanted ? SEEN_NEW : SEEN_OLD)))
			continue;
		s->strangers++;
		if (sqlite_look_tell(e, s->tell,
				     !there                          ? "was removed by somebody else"
				     : sqlite_look_has(e, s->wanted) ? "was changed by somebody else"
								     : "was inserted by somebody else") != 0)
			s->telling = false;
	}
	return r;
}

static int look_at_numbers(struct sqlite_db *d, struct sqlite_standing *s, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(
		d, &stmt, err,
		"SELECT name, old, new FROM edits.meta WHERE name IN ('user_version', 'application_id')");

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);
		int64_t now = 0;
		unsigned seen;

		r = sqlite_int(d, &now, err, "PRAGMA main.\"%w\"", name);
		if (r < 0)
			return r;
		seen = (now == sqlite3_column_int64(stmt, 1) ? SEEN_OLD : 0U) |
		       (now == sqlite3_column_int64(stmt, 2) ? SEEN_NEW : 0U);
		s->sides &= seen;
		if (s->telling && !(seen & (s->wanted ? SEEN_NEW : SEEN_OLD))) {
			AUTO_FREE char *object = str_format("pragma %s", name);

			s->strangers++;
			sqlite_say(s->tell, object ? object : name, "it was changed by somebody else");
		}
	}
	return r;
}

int sqlite_look_all(struct sqlite_db *d, struct sqlite_standing *s, struct atoll_error *err)
{
	int r = sqlite_look_tables(d, s->tell, look_at_table, s, err);

	return r < 0 ? r : look_at_numbers(d, s, err);
}

int sqlite_look_open(const struct sqlite_file *file, const struct sqlite_file *edits, unsigned flags,
		     struct sqlite_db **ret, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int r = sqlite_open(file, flags, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "PRAGMA synchronous=EXTRA");
	if (r >= 0)
		r = sqlite_attach(d, edits, "edits", err);
	/* The write lock is taken on both; with a journal of its own the edits would make it a transaction over two files. */
	if (r >= 0)
		r = sqlite_execute(d, err, "PRAGMA edits.journal_mode=MEMORY");
	if (r >= 0)
		*ret = TAKE_PTR(d);
	return r;
}

int sqlite_edits_side(const struct sqlite_file *file, const struct sqlite_file *edits, struct atoll_error *err)
{
	struct sqlite_standing s = { .sides = SEEN_OLD | SEEN_NEW };
	struct atoll_error why = { 0 };
	AUTO_DB *d = NULL;
	int r = sqlite_look_open(file, edits, 0, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "BEGIN");
	if (r < 0)
		return r;
	r = sqlite_look_all(d, &s, &why);
	if (r == -ATOLL_CONFLICT)
		return SQLITE_NEITHER;
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	return s.sides & SEEN_NEW ? SQLITE_NEW : s.sides & SEEN_OLD ? SQLITE_OLD : SQLITE_NEITHER;
}

int sqlite_look_conflict(struct sqlite_db *d, int64_t n, struct atoll_error *err)
{
	return error_set(err, ATOLL_CONFLICT, 0, "database", d->label,
			 n == 1 ? "a row of the database \"%s\" was changed by somebody else"
				: "rows of the database \"%s\" were changed by somebody else",
			 d->label);
}
