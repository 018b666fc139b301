/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: how a database is opened that nobody vouches for, and what is said when something is wrong with it. */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork-gate.h"
#include "base/sqlite-vfs.h"
#include "base/sys.h"
#include "database/private.h"

#define OPERATION "database"

char *sqlite_path(const struct sqlite_file *file)
{
	AUTO_FREE char *dir = NULL;
	int r = fd_path(file->dirfd, &dir);

	if (r < 0) {
		errno = -r;
		return NULL;
	}
	return str_format("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, file->name);
}

/* ---- what is wrong ---- */

static int fail_open(int code, int sys_errno, const char *text, const char *label, struct atoll_error *err)
{
	if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY || code == SQLITE_READONLY_CANTINIT)
		return error_set(
			err, ATOLL_REFUSED, EACCES, OPERATION, label,
			"the database \"%s\" was left by a writer that ended in the middle, and may not be written to be set right",
			label);
	if (sys_errno == ENOENT)
		return error_set(err, ATOLL_NOT_FOUND, ENOENT, OPERATION, label, "there is no database \"%s\"", label);
	return error_set(err, ATOLL_REFUSED, sys_errno, OPERATION, label, "the database \"%s\" cannot be opened: %s",
			 label, sys_errno ? strerror(sys_errno) : text);
}

int sqlite_fail_code(int code, int sys_errno, const char *text, const char *label, struct atoll_error *err)
{
	switch (code & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(err, ATOLL_BUSY, 0, OPERATION, label,
				 "the database \"%s\" is locked by another process; try again when it is done", label);
	case SQLITE_NOTADB:
		return error_set(err, ATOLL_REFUSED, 0, OPERATION, label,
				 "\"%s\" is not a SQLite database, or is an encrypted one", label);
	case SQLITE_CORRUPT:
		return error_set(err, ATOLL_REFUSED, 0, OPERATION, label, "the database \"%s\" is damaged: %s", label,
				 text);
	case SQLITE_FULL:
		return error_set(err, ATOLL_NO_SPACE, ENOSPC, OPERATION, label,
				 "there is not enough space for the database \"%s\"", label);
	case SQLITE_NOMEM:
		return error_oom(err, OPERATION);
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return fail_open(code, sys_errno, text, label, err);
	case SQLITE_IOERR:
		if (sys_errno == ENOSPC || sys_errno == EDQUOT)
			return error_set(err, ATOLL_NO_SPACE, sys_errno, OPERATION, label,
					 "there is not enough space for the database \"%s\"", label);
		break;
	default:
		break;
	}
	return error_set(err, ATOLL_FAILED, sys_errno, OPERATION, label, "database \"%s\": %s", label, text);
}

int sqlite_fail(struct sqlite_db *d, struct atoll_error *err)
{
	if (!d->db)
		return error_oom(err, OPERATION);
	return sqlite_fail_code(sqlite3_extended_errcode(d->db), sqlite3_system_errno(d->db), sqlite3_errmsg(d->db),
				d->label, err);
}

/* ---- opening ---- */

/* SQLite's own advice for files of which nobody knows who wrote them, and no surprises: nothing that stands in the database is run. */
static void harden(sqlite3 *db)
{
	static const struct {
		int what, value;
	} settings[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_ENABLE_FKEY, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
		{ SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		sqlite3_db_config(db, settings[i].what, settings[i].value, (int *)NULL);
}

/* SQLite's own waits longer and longer, and finds no gap between the writes of somebody busy. */
static int wait_for_lock(void *arg, int n)
{
	struct sqlite_db *d = arg;
	int64_t now = clock_monotonic_ns();

	if (n == 0)
		d->busy_end = now + (int64_t)d->busy_ms * 1000000;
	if (now >= d->busy_end)
		return 0;
	usleep(n < 20 ? 200 : 1000);
	return 1;
}

/* A name that is no file is answered here: SQLite would wait for a FIFO, and takes a directory for a database that cannot be opened. */
static int check_file(const struct sqlite_file *file, unsigned flags, const char *label, struct atoll_error *err)
{
	struct stat st;

	if (fstatat(file->dirfd, file->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && (flags & SQLITE_DB_CREATE)
			       ? 0
			       : fail_open(SQLITE_CANTOPEN, errno, "", label, err);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ATOLL_REFUSED, 0, OPERATION, label, "\"%s\" is not a regular file", label);
	return 0;
}

/* A database with a log can only be read by who may write beside it, so writing is tried first also where it is not needed. */
static int open_file(struct sqlite_db *d, unsigned flags, const char *vfs, struct atoll_error *err)
{
	int how = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_READWRITE;
	int rc;

	if (flags & SQLITE_DB_CREATE)
		how |= SQLITE_OPEN_CREATE;
	rc = sqlite3_open_v2(d->path, &d->db, how, vfs);
	if (rc != SQLITE_OK)
		return sqlite_fail(d, err);
	d->writable = sqlite3_db_readonly(d->db, "main") == 0;
	if (!d->writable && (flags & SQLITE_DB_WRITE))
		return error_set(err, ATOLL_REFUSED, EACCES, OPERATION, d->label,
				 "the database \"%s\" may not be written", d->label);
	return 0;
}

int sqlite_open(const struct sqlite_file *file, unsigned flags, struct sqlite_db **ret, struct atoll_error *err)
{
	return sqlite_open_vfs(file, flags, NULL, ret, err);
}

int sqlite_open_vfs(const struct sqlite_file *file, unsigned flags, const char *vfs, struct sqlite_db **ret,
		    struct atoll_error *err)
{
	AUTO_DB *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return error_oom(err, OPERATION);
	fork_gate_enter(); /* left by sqlite_close() */
	d->label = strdup(file->label ? file->label : file->name);
	d->path = sqlite_path(file);
	if (!d->label || !d->path)
		return error_sys(err, errno, OPERATION, file->name, "cannot find the directory of \"%s\"", file->name);
	r = check_file(file, flags, d->label, err);
	if (r < 0)
		return r;
	sys_fault_hook_sqlite(sqlite3_vfs_find(NULL));
	if (flags & SQLITE_DB_GUARDED) {
		d->guard = sqlite_guard_new(d->path);
		if (!d->guard)
			return error_oom(err, OPERATION);
	}
	r = open_file(d, flags, d->guard ? sqlite_guard_name(d->guard) : vfs ? vfs : sqlite_vfs()->zName, err);
	if (r < 0)
		return r;
	sqlite3_extended_result_codes(d->db, 1);
	d->busy_ms = file->busy_ms;
	sqlite3_busy_handler(d->db, wait_for_lock, d);
	harden(d->db);
	r = sqlite_execute(d, err, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY");
	if (r >= 0)
		*ret = TAKE_PTR(d);
	return r;
}

struct sqlite_db *sqlite_close(struct sqlite_db *d)
{
	if (!d)
		return NULL;
	sqlite3_close(d->db);
	sqlite_guard_free(d->guard);
	fork_gate_leave();
	free(d->path);
	free(d->label);
	free(d);
	return NULL;
}

/* ---- statements ---- */

static int prepare(struct sqlite_db *d, sqlite3_stmt **ret, struct atoll_error *err, const char *format, va_list args)
{
	char *sql = sqlite3_vmprintf(format, args);
	int rc = sql ? sqlite3_prepare_v2(d->db, sql, -1, ret, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return rc == SQLITE_OK ? 0 : sqlite_fail(d, err);
}

int sqlite_prepare(struct sqlite_db *d, sqlite3_stmt **ret, struct atoll_error *err, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = prepare(d, ret, err, format, args);
	va_end(args);
	return r;
}

int sqlite_execute(struct sqlite_db *d, struct atoll_error *err, const char *format, ...)
{
	va_list args;
	char *sql;
	int rc;

	va_start(args, format);
	sql = sqlite3_vmprintf(format, args);
	va_end(args);
	rc = sql ? sqlite3_exec(d->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
	sqlite3_free(sql);
	return rc == SQLITE_OK ? 0 : sqlite_fail(d, err);
}

int sqlite_next(struct sqlite_db *d, sqlite3_stmt *stmt, struct atoll_error *err)
{
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : sqlite_fail(d, err);
}

int sqlite_int(struct sqlite_db *d, int64_t *ret, struct atoll_error *err, const char *format, ...)
{
	AUTO_STMT *stmt = NULL;
	va_list args;
	int r;

	va_start(args, format);
	r = prepare(d, &stmt, err, format, args);
	va_end(args);
	if (r < 0)
		return r;
	r = sqlite_next(d, stmt, err);
	if (r >= 0)
		*ret = r ? sqlite3_column_int64(stmt, 0) : 0;
	return MIN(r, 0);
}

int sqlite_attach(struct sqlite_db *d, const struct sqlite_file *file, const char *schema, struct atoll_error *err)
{
	AUTO_FREE char *path = sqlite_path(file);
	AUTO_STMT *stmt = NULL;
	int r;

	if (!path)
		return error_sys(err, errno, OPERATION, file->name, "cannot find the directory of \"%s\"", file->name);
	r = check_file(file, 0, file->label ? file->label : file->name, err);
	if (r >= 0)
		r = sqlite_prepare(d, &stmt, err, "ATTACH ?1 AS \"%w\"", schema);
	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
	return sqlite_next(d, stmt, err);
}

void sqlite_cancel(struct sqlite_db *d)
{
	if (d && d->db && !sqlite3_get_autocommit(d->db))
		sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
}
