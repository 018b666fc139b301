/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landing a whole content in a live database: by SQLite's backup, which is one transaction for whoever has it open.
 *
 * The backup takes the write lock itself, on a connection that has no transaction. So the content is compared before, in a transaction for
 * reading, and SQLite is asked, once it has the lock, whether anything was written since.
 */
#include "base/clock.h"
#include "database/private.h"

static int data_version(struct sqlite_db *d, unsigned *ret, struct atoll_error *err)
{
	return sqlite3_file_control(d->db, "main", SQLITE_FCNTL_DATA_VERSION, ret) == SQLITE_OK ? 0
												: sqlite_fail(d, err);
}

/* 1 if it holds the same, and the version of the data it was so at. */
static int same_at(struct sqlite_db *d, struct sqlite_db *image, const struct sqlite_tell *tell, unsigned *ret_version,
		   struct atoll_error *err)
{
	int r = sqlite_execute(d, err, "BEGIN");
	int same = 0;

	if (r >= 0)
		r = same = sqlite_same_content(d, image, tell, err);
	if (r >= 0)
		r = data_version(d, ret_version, err);
	sqlite_cancel(d);
	return r < 0 ? r : same;
}

int sqlite_image_side(const struct sqlite_file *file, const struct sqlite_file *old, const struct sqlite_file *new,
		      struct atoll_error *err)
{
	int r = sqlite_same(file, new, NULL, err);

	if (r != 0)
		return r < 0 ? r : SQLITE_NEW;
	r = sqlite_same(file, old, NULL, err);
	return r < 0 ? r : r ? SQLITE_OLD : SQLITE_NEITHER;
}

static int step(sqlite3_backup *b, int pages, int64_t end)
{
	int rc;

	while ((rc = sqlite3_backup_step(b, pages)) == SQLITE_BUSY || rc == SQLITE_LOCKED) {
		if (clock_monotonic_ns() >= end)
			break;
		sqlite3_sleep(1);
	}
	return rc;
}

static int conflict(struct sqlite_db *d, struct atoll_error *err)
{
	return error_set(err, ATOLL_CONFLICT, 0, "database", d->label,
			 "the database \"%s\" was changed by somebody else, and these edits land only as a whole",
			 d->label);
}

/* A step of no page takes the lock. -ATOLL_CONFLICT if somebody was quicker. */
static int copy_locked(struct sqlite_db *d, sqlite3_backup *b, unsigned version, int busy_ms, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + (int64_t)busy_ms * 1000000;
	unsigned now = 0;
	int rc = step(b, 0, end);
	int r;

	if (rc == SQLITE_OK) {
		r = data_version(d, &now, err);
		if (r < 0 || now != version)
			return r < 0 ? r : conflict(d, err);
		rc = step(b, -1, end);
	}
	return rc == SQLITE_DONE ? 0
				 : sqlite_fail_code(rc, sqlite3_system_errno(d->db), sqlite3_errstr(rc), d->label, err);
}

static int has_counters(struct sqlite_db *d, struct atoll_error *err)
{
	int64_t n = 0;
	int r = sqlite_int(d, &n, err, "SELECT count(*) FROM main.sqlite_schema WHERE name='sqlite_sequence'");

	return r < 0 ? r : n > 0;
}

static int raise_counter(struct sqlite_db *image, sqlite3_stmt *live, struct atoll_error *err)
{
	const char *table = (const char *)sqlite3_column_text(live, 0);
	long long value = sqlite3_column_int64(live, 1);
	int64_t stays = 0;
	int r = sqlite_int(
		image, &stays, err,
		"SELECT EXISTS(SELECT 1 FROM sqlite_sequence WHERE name=%Q AND seq >= %lld) OR NOT EXISTS(SELECT 1"
		" FROM sqlite_schema WHERE type='table' AND name=%Q AND sql LIKE '%%AUTOINCREMENT%%')",
		table, value, table);

	if (r < 0 || stays)
		return r;
	return sqlite_execute(
		image, err,
		"BEGIN; DELETE FROM sqlite_sequence WHERE name=%Q; INSERT INTO sqlite_sequence VALUES(%Q, %lld);"
		"COMMIT",
		table, table, value);
}

/* A counter of AUTOINCREMENT must never go back, or SQLite would give a number twice. The image
 * replaces the database with its counters, so each counter of the image is first raised to at least
 * the database's. The two may differ although no row does: another process may have added rows,
 * which raises the counter, and removed them again. */
static int raise_counters(struct sqlite_db *d, struct sqlite_db *image, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = has_counters(d, err);

	if (r > 0)
		r = has_counters(image, err);
	if (r <= 0)
		return r;
	r = sqlite_prepare(d, &stmt, err, "SELECT name, seq FROM main.sqlite_sequence WHERE typeof(seq)='integer'");
	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0)
		r = raise_counter(image, stmt, err);
	return r;
}

static int copy(struct sqlite_db *d, struct sqlite_db *image, unsigned version, int busy_ms, struct atoll_error *err)
{
	sqlite3_backup *b = sqlite3_backup_init(d->db, "main", image->db, "main");
	int r, rc;

	if (!b)
		return sqlite_fail(d, err);
	r = copy_locked(d, b, version, busy_ms, err);
	rc = sqlite3_backup_finish(b);
	if (r >= 0 && rc != SQLITE_OK)
		r = sqlite_fail_code(rc, sqlite3_system_errno(d->db), sqlite3_errstr(rc), d->label, err);
	return r;
}

int sqlite_image_move(const struct sqlite_file *file, const struct sqlite_file *from, const struct sqlite_file *to,
		      const struct sqlite_tell *tell, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	AUTO_DB *before = NULL;
	AUTO_DB *after = NULL;
	unsigned version = 0;
	int r = sqlite_open(file, SQLITE_DB_WRITE, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "PRAGMA synchronous=EXTRA");
	if (r >= 0)
		r = sqlite_open(from, 0, &before, err);
	if (r >= 0)
		r = sqlite_open(to, SQLITE_DB_WRITE, &after, err);
	if (r >= 0)
		r = same_at(d, after, NULL, &version, err);
	if (r != 0)
		return MIN(r, 0);
	r = same_at(d, before, tell, &version, err);
	if (r <= 0)
		return r < 0 ? r : conflict(d, err);
	r = raise_counters(d, after, err);
	return r < 0 ? r : copy(d, after, version, file->busy_ms, err);
}
