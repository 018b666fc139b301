/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landing edits row by row in a live database, in one transaction, or taking them back: the same with the sides exchanged.
 *
 * Under the write lock every row is looked at first. If all stand where the edits begin, those that were there are removed and those that
 * shall be there inserted, in this order, so that two rows may exchange a unique value.
 *
 * A constraint of a table may say what happens to a row that violates it (ON CONFLICT REPLACE deletes the row in its way, IGNORE drops the
 * new one). Such a clause would delete rows of others, or drop rows of the edits, without an error. So every statement here says OR ABORT,
 * which overrides these clauses; and before the transaction is committed the rows that it touched are counted (sqlite-count.c) and the rows
 * of the edits are read again.
 */
#include <string.h>

#include "database/private.h"

struct move {
	bool forward, force;
	const struct sqlite_tell *tell;
	struct sqlite_count wanted; /* rows that were asked to be removed and inserted */
};

/* Into a database that is nobody else's, a row that does not fit is not inserted: rows of others stay there too. */
static int prepare_write(struct sqlite_edited *e, const struct move *m, struct atoll_error *err)
{
	AUTO_STRBUF insert = STRBUF_INIT;
	AUTO_STRBUF values = STRBUF_INIT;
	AUTO_STRBUF remove = STRBUF_INIT;
	int r;

	strbuf_adds(&remove, "DELETE FROM ");
	sqlite_look_add_table(&remove, e->t);
	sqlite_look_add_key(&remove, e->t);
	strbuf_addf(&insert, "INSERT OR %s INTO ", m->force ? "IGNORE" : "ABORT");
	sqlite_look_add_table(&insert, e->t);
	for (size_t i = 0; i < e->t->n; i++) {
		strbuf_adds(&insert, i ? ", " : "(");
		strbuf_addf(&values, "%s?%zu", i ? ", " : "", i + 1);
		sqlite_add_name(&insert, e->t->columns[i].name);
	}
	if (e->t->rowid) {
		strbuf_addf(&insert, ", %s", e->t->rowid);
		strbuf_addf(&values, ", ?%zu", e->t->n + 1);
	}
	strbuf_addf(&insert, ") VALUES(%s)", strbuf_str(&values));
	r = insert.failed || values.failed || remove.failed
		    ? error_oom(err, "database")
		    : sqlite_prepare(e->d, &e->remove, err, "%s", strbuf_str(&remove));
	if (r >= 0)
		r = sqlite_prepare(e->d, &e->insert, err, "%s", strbuf_str(&insert));
	if (r >= 0 && e->t->rowid)
		r = sqlite_prepare(e->d, &e->taken, err, "SELECT 1 FROM main.\"%w\" WHERE %s=?1", e->t->name,
				   e->t->rowid);
	return r;
}

/* ---- rows ---- */

/* Rowids that are no column stay with an updated row. */
struct rowids {
	int64_t *v;
	size_t n, capacity;
};

static int keep_rowid(struct rowids *ids, int64_t rowid)
{
	if (ids->n == ids->capacity) {
		size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
		int64_t *grown = reallocarray(ids->v, capacity, sizeof *grown);

		if (!grown)
			return -1;
		ids->v = grown;
		ids->capacity = capacity;
	}
	ids->v[ids->n++] = rowid;
	return 0;
}

static int remove_rows(struct sqlite_edited *e, struct move *m, struct rowids *ids, struct atoll_error *err)
{
	int r;

	sqlite3_reset(e->rows);
	while ((r = sqlite_next(e->d, e->rows, err)) > 0) {
		int64_t rowid;
		bool there;

		r = sqlite_look_row(e, &rowid, &there, err);
		if (r < 0)
			return r;
		if (keep_rowid(ids, rowid) < 0)
			return error_oom(err, "database");
		if (!there)
			continue;
		sqlite3_reset(e->remove);
		sqlite_look_bind_key(e, e->remove, !sqlite_look_has(e, false));
		r = sqlite_next(e->d, e->remove, err);
		if (r < 0)
			return r;
		m->wanted.removed++;
	}
	return r;
}

/* A rule of the table stands against the row. If it is that values are unique, somebody else has them now. */
static int fail_insert(struct sqlite_edited *e, const struct move *m, struct atoll_error *err)
{
	int code = sqlite3_extended_errcode(e->d->db);
	bool unique = code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
		      code == SQLITE_CONSTRAINT_ROWID;
	AUTO_FREE char *text = strdup(sqlite3_errmsg(e->d->db));

	if ((code & 0xff) != SQLITE_CONSTRAINT)
		return sqlite_fail(e->d, err);
	sqlite_look_tell(e, m->tell,
			 unique ? "has a unique value that somebody else gave to another row"
				: "is against a rule of the table");
	return error_set(err, unique ? ATOLL_CONFLICT : ATOLL_REFUSED, 0, "database", e->d->label,
			 "a row of the table \"%s\" cannot land in \"%s\": %s", e->t->name, e->d->label,
			 text ? text : "constraint failed");
}

/* 1 if somebody else's row has it. */
static int is_taken(struct sqlite_edited *e, int64_t rowid, struct atoll_error *err)
{
	int r;

	sqlite3_reset(e->taken);
	sqlite3_bind_int64(e->taken, 1, rowid);
	r = sqlite_next(e->d, e->taken, err);
	sqlite3_reset(e->taken);
	return r;
}

static int bind_rowid(struct sqlite_edited *e, const struct move *m, int64_t kept, struct atoll_error *err)
{
	int at = (int)e->t->n + 1, column = m->forward ? EDIT_NEW_ROWID : EDIT_OLD_ROWID;
	int r;

	if (!e->t->rowid)
		return 0;
	if (sqlite_look_kind(e) == 'U') {
		sqlite3_bind_int64(e->insert, at, kept);
		return 0;
	}
	r = is_taken(e, sqlite3_column_int64(e->rows, column), err);
	if (r < 0)
		return r;
	if (r > 0)
		sqlite3_bind_null(e->insert, at);
	else
		sqlite3_bind_value(e->insert, at, sqlite3_column_value(e->rows, column));
	return 0;
}

/* updated: those alone that were there before, else those alone that were not. */
static int insert_rows(struct sqlite_edited *e, struct move *m, bool updated, const struct rowids *ids,
		       struct atoll_error *err)
{
	size_t at = 0;
	int r;

	sqlite3_reset(e->rows);
	for (; (r = sqlite_next(e->d, e->rows, err)) > 0; at++) {
		if (!sqlite_look_has(e, m->forward) || (sqlite_look_kind(e) == 'U') != updated)
			continue;
		sqlite3_reset(e->insert);
		for (size_t i = 0; i < e->t->n; i++)
			sqlite3_bind_value(e->insert, (int)i + 1,
					   sqlite3_column_value(e->rows, sqlite_look_column(e, i, m->forward)));
		r = bind_rowid(e, m, at < ids->n ? ids->v[at] : 0, err);
		if (r < 0)
			return r;
		if (sqlite3_step(e->insert) != SQLITE_DONE)
			return fail_insert(e, m, err);
		m->wanted.inserted++;
	}
	return r;
}

static int move_table(struct sqlite_edited *e, void *arg, struct atoll_error *err)
{
	struct move *m = arg;
	struct rowids ids = { 0 };
	int r = prepare_write(e, m, err);

	if (r >= 0)
		r = remove_rows(e, m, &ids, err);
	if (r >= 0)
		r = insert_rows(e, m, true, &ids, err);
	if (r >= 0)
		r = insert_rows(e, m, false, &ids, err);
	free(ids.v);
	return r;
}

/* ---- all of it ---- */

static int move_numbers(struct sqlite_db *d, bool forward, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(
		d, &stmt, err,
		"SELECT name, old, new FROM edits.meta WHERE name IN ('user_version', 'application_id')");

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0)
		r = sqlite_execute(d, err, "PRAGMA main.\"%w\"=%lld", sqlite3_column_text(stmt, 0),
				   (long long)sqlite3_column_int64(stmt, forward ? 2 : 1));
	return r;
}

/* A counter of AUTOINCREMENT never goes back, so that no number is given twice. */
static int move_sequences(struct sqlite_db *d, struct atoll_error *err)
{
	int64_t n = 0;
	int r = sqlite_int(d, &n, err, "SELECT count(*) FROM edits.sequence");

	if (r < 0 || !n)
		return r;
	return sqlite_execute(
		d, err,
		"UPDATE main.sqlite_sequence SET seq=max(sqlite_sequence.seq, s.seq) FROM edits.sequence s"
		" WHERE s.name=sqlite_sequence.name;"
		"INSERT INTO main.sqlite_sequence(name, seq) SELECT name, seq FROM edits.sequence"
		" WHERE name NOT IN (SELECT name FROM main.sqlite_sequence)");
}

/* SQLite could check these foreign keys in the database where the edits were made. If it reports a
 * mismatch here, another process has since changed a table that the keys refer to. */
static int note_foreign_keys(struct sqlite_db *d, const char *when, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int r = sqlite_foreign_note(d, "edits", "main", when, &why);

	if (r == -ATOLL_FAILED && strstr(why.message, "foreign key mismatch"))
		return error_set(
			err, ATOLL_CONFLICT, 0, "database", d->label,
			"its foreign keys cannot be checked, because another process changed a table that they refer to: %s",
			why.message);
	if (r < 0 && err)
		*err = why;
	return r;
}

static int compare_foreign_keys(struct sqlite_db *d, const struct sqlite_tell *tell, struct atoll_error *err)
{
	int r = note_foreign_keys(d, "after", err);

	if (r > 0)
		r = sqlite_foreign_compare(d, tell, err);
	if (r > 0)
		r = error_set(err, ATOLL_CONFLICT, 0, "database", d->label,
			      "rows that somebody else added to \"%s\" would refer to rows that are gone", d->label);
	return r;
}

static int fail_verify(struct sqlite_db *d, const struct move *m, const char *why, struct atoll_error *err)
{
	sqlite_say(m->tell, "database", why);
	return error_set(err, ATOLL_CONFLICT, 0, "database", d->label, "these rows cannot land in \"%s\": %s", d->label,
			 why);
}

/* Nothing but the rows of the edits may have changed. Rows that were there before go back also where they violate a check: the original
 * has had them. */
static int move_tables(struct sqlite_db *d, struct move *m, struct atoll_error *err)
{
	CLEANUP(sqlite_count_end) struct sqlite_count seen = { 0 };
	int r = sqlite_execute(d, err, "PRAGMA ignore_check_constraints=%d", !m->forward || m->force);

	if (r < 0)
		return r;
	sqlite_count_begin(&seen, d->db);
	r = sqlite_look_tables(d, m->tell, move_table, m, err);
	if (r < 0 || m->force || sqlite_count_is_same(&m->wanted, &seen))
		return r;
	return fail_verify(d, m, "its tables would change other rows with them", err);
}

/* The rows must be what the edits say. A database that is nobody else's is made as like as it can be. */
static int verify_rows(struct sqlite_db *d, const struct move *m, struct atoll_error *err)
{
	struct sqlite_standing s = { .sides = SEEN_OLD | SEEN_NEW };
	int r = m->force ? 0 : sqlite_look_all(d, &s, err);

	if (r < 0 || (s.sides & (m->forward ? SEEN_NEW : SEEN_OLD)))
		return r;
	return fail_verify(d, m, "its tables would not hold them as they are", err);
}

static int move_all(struct sqlite_db *d, struct move *m, struct atoll_error *err)
{
	int64_t loose = 0;
	int r = sqlite_int(d, &loose, err, "SELECT count(*) FROM edits.meta WHERE name='loose'");

	loose |= m->force;
	if (r >= 0 && !loose)
		r = note_foreign_keys(d, "before", err);
	if (r >= 0)
		r = move_tables(d, m, err);
	if (r >= 0)
		r = move_numbers(d, m->forward, err);
	if (r >= 0)
		r = verify_rows(d, m, err);
	if (r >= 0 && m->forward)
		r = move_sequences(d, err);
	if (r >= 0 && !loose)
		r = compare_foreign_keys(d, m->tell, err);
	return r;
}

/* 1 if the rows are to be moved, 0 if they are there. */
static int may_move(struct sqlite_db *d, const struct move *m, struct atoll_error *err)
{
	struct sqlite_standing s = { SEEN_OLD | SEEN_NEW, !m->forward, true, m->tell, 0 };
	struct sqlite_standing quiet = { .sides = SEEN_OLD | SEEN_NEW, .tell = m->tell };
	int r = sqlite_look_all(d, &quiet, err);

	if (r < 0 || (quiet.sides & (m->forward ? SEEN_NEW : SEEN_OLD)))
		return MIN(r, 0);
	if (m->force || (quiet.sides & (m->forward ? SEEN_OLD : SEEN_NEW)))
		return 1;
	r = sqlite_look_all(d, &s, err);
	return r < 0 ? r : sqlite_look_conflict(d, s.strangers, err);
}

static int move_in(struct sqlite_db *d, struct move *m, struct atoll_error *err)
{
	int r = may_move(d, m, err);

	if (r > 0) {
		r = move_all(d, m, err);
		if (r >= 0)
			r = sqlite_execute(d, err, "COMMIT");
	}
	return r;
}

int sqlite_edits_move(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward, bool force,
		      const struct sqlite_tell *tell, struct atoll_error *err)
{
	struct move m = { .forward = forward, .force = force, .tell = tell };
	AUTO_DB *d = NULL;
	int r = sqlite_look_open(file, edits, SQLITE_DB_WRITE, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "BEGIN IMMEDIATE");
	if (r >= 0)
		r = move_in(d, &m, err);
	sqlite_cancel(d);
	return r;
}

int sqlite_edits_move_alone(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward,
			    struct sqlite_alone *alone, struct atoll_error *err)
{
	struct move m = { .forward = forward };
	struct atoll_error ignored = { 0 };
	AUTO_DB *d = NULL;
	int64_t version = 0;
	int r = sqlite_look_open(file, edits, SQLITE_DB_WRITE, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "BEGIN IMMEDIATE");
	if (r >= 0)
		r = sqlite_int(d, &version, err, "PRAGMA main.data_version");
	alone->was = r >= 0 && sqlite_seen_is_same(file, alone->seen);
	if (r >= 0)
		r = move_in(d, &m, err);
	sqlite_cancel(d);
	/* What has landed has landed, whatever can be said of it. */
	if (r >= 0 && alone->was)
		(void)sqlite_seen_after(d, file, alone, version, &ignored);
	return r;
}

/* ---- whether they could ---- */

/* Larger edits are not rehearsed: all pages that they change would be held in memory. What stands in their way is found when they land. */
#define REHEARSED_MAX (64 << 20)

/* Nothing of a rehearsal may reach a file, whatever dies: its pages stay in the cache, and so does its journal. A log is not written before
 * the end. */
static int keep_in_memory(struct sqlite_db *d, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	bool wal;
	int r = sqlite_execute(d, err, "PRAGMA cache_spill=OFF");

	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "PRAGMA main.journal_mode");
	if (r >= 0)
		r = sqlite_next(d, stmt, err);
	if (r < 0)
		return r;
	wal = r > 0 && strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") == 0;
	sqlite3_reset(stmt);
	return wal ? 0 : sqlite_execute(d, err, "PRAGMA main.journal_mode=MEMORY");
}

static int is_small(struct sqlite_db *d, struct atoll_error *err)
{
	int64_t pages = 0, size = 0;
	int r = sqlite_int(d, &pages, err, "PRAGMA edits.page_count");

	if (r >= 0)
		r = sqlite_int(d, &size, err, "PRAGMA edits.page_size");
	return r < 0 ? r : pages * size <= REHEARSED_MAX;
}

/* Moves the rows and takes that back: a unique value, a foreign key or a rule of a table may stand against rows that stand where they
 * should. */
static int rehearse(struct sqlite_db *d, struct move *m, struct atoll_error *err)
{
	int r = keep_in_memory(d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "BEGIN IMMEDIATE");
	if (r >= 0)
		r = may_move(d, m, err);
	if (r > 0)
		r = move_all(d, m, err);
	sqlite_cancel(d);
	return MIN(r, 0);
}

static int look(struct sqlite_db *d, const struct move *m, struct atoll_error *err)
{
	struct sqlite_standing s = { SEEN_OLD | SEEN_NEW, !m->forward, true, m->tell, 0 };
	int r = sqlite_execute(d, err, "BEGIN");

	if (r >= 0)
		r = sqlite_look_all(d, &s, err);
	if (r >= 0 && !(s.sides & (m->forward ? SEEN_OLD : SEEN_NEW)))
		r = sqlite_look_conflict(d, s.strangers, err);
	sqlite_cancel(d);
	return r;
}

int sqlite_edits_check(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward,
		       const struct sqlite_tell *tell, struct atoll_error *err)
{
	struct move m = { .forward = forward, .tell = tell };
	AUTO_DB *d = NULL;
	int r = sqlite_look_open(file, edits, SQLITE_DB_WRITE, &d, err);

	if (r >= 0)
		r = look(d, &m, err);
	if (r >= 0)
		r = is_small(d, err);
	return r > 0 ? rehearse(d, &m, err) : r;
}
