/* SPDX-License-Identifier: Apache-2.0 */
/* The database: opening, schema, transactions, binding and reading of values. */
#include "store/internal.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork-gate.h"
#include "base/size-limit.h"
#include "base/sys.h"

/* Bumped when the schema changes; a newer one than ours is refused, an older one is brought up here. */
#define SCHEMA_VERSION 10
#define APPLICATION_ID 0x41746f6c /* "Atol" */
#define BUSY_MS 20000
/* The log is read from its beginning by every command that finds the database closed, which is nearly every one: at SQLite's own 1,000
 * pages that takes longer than all the rest. At this length emptying it costs a command in a dozen two flushes. */
#define LOG_PAGES 64

#define OWNER_TABLE \
	"CREATE TABLE owner(one INTEGER PRIMARY KEY CHECK(one=1), id BLOB, born INTEGER NOT NULL, path BLOB NOT NULL);"
/* The id of the registry, by which areas outside of the state directory tell whose they are. */
#define REGISTRY_COLUMN                                                   \
	"ALTER TABLE owner ADD COLUMN registry TEXT NOT NULL DEFAULT '';" \
	"UPDATE owner SET registry=lower(hex(randomblob(16)));"
/* Lists of records in a few rows each; see pack.h and base.c. */
#define PACKED_TABLES                                                                                                    \
	"CREATE TABLE plan(op INTEGER NOT NULL REFERENCES op(id) ON DELETE CASCADE, part INTEGER NOT NULL,"              \
	" steps BLOB NOT NULL, PRIMARY KEY(op, part)) WITHOUT ROWID;"                                                    \
	"CREATE TABLE base(id INTEGER PRIMARY KEY, resource INTEGER NOT NULL REFERENCES resource(id) ON DELETE CASCADE," \
	" kind INTEGER NOT NULL, records BLOB NOT NULL);"                                                                \
	"CREATE INDEX base_of ON base(resource, kind);"

/* The number of changes of each resource in the op; NULL in an op that an older version wrote. */
#define COUNT_COLUMNS                                                                                            \
	"ALTER TABLE op_resource ADD COLUMN added INTEGER; ALTER TABLE op_resource ADD COLUMN modified INTEGER;" \
	"ALTER TABLE op_resource ADD COLUMN deleted INTEGER; ALTER TABLE op_resource ADD COLUMN meta INTEGER;"

/* Of thousands of ops one or none is unfinished. */
#define UNFINISHED_INDEX "CREATE INDEX op_unfinished ON op(sandbox) WHERE phase<2;"

/* For sandboxes that are made for one run; see store_sandbox. */
#define PRUNABLE_COLUMNS                                                         \
	"ALTER TABLE sandbox ADD COLUMN prunable INTEGER NOT NULL DEFAULT 0;"    \
	"ALTER TABLE sandbox ADD COLUMN measured_op INTEGER NOT NULL DEFAULT 0;" \
	"ALTER TABLE sandbox ADD COLUMN measured INTEGER NOT NULL DEFAULT 0;"

static const char schema[] =
	"CREATE TABLE sandbox(id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL UNIQUE, name BLOB NOT NULL UNIQUE,"
	" created INTEGER NOT NULL, active INTEGER NOT NULL, durable INTEGER NOT NULL, removing INTEGER NOT NULL DEFAULT 0, settings BLOB);"
	"CREATE TABLE resource(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" sandbox INTEGER NOT NULL REFERENCES sandbox(id) ON DELETE CASCADE, seq INTEGER NOT NULL, kind INTEGER NOT NULL,"
	" state INTEGER NOT NULL, path BLOB NOT NULL, strategy TEXT NOT NULL, mode BLOB, reason BLOB, work BLOB, stage BLOB,"
	" copies INTEGER NOT NULL, root_id BLOB, stamp INTEGER NOT NULL, clock_offset INTEGER NOT NULL, boot_id TEXT,"
	" synced_at INTEGER NOT NULL, dirty INTEGER NOT NULL, UNIQUE(sandbox, seq));"
	"CREATE TABLE op(id INTEGER PRIMARY KEY AUTOINCREMENT, sandbox INTEGER NOT NULL REFERENCES sandbox(id) ON DELETE CASCADE,"
	" number INTEGER NOT NULL, kind INTEGER NOT NULL, phase INTEGER NOT NULL, commit_op INTEGER NOT NULL DEFAULT 0,"
	" taken_back INTEGER NOT NULL DEFAULT 0, rollback INTEGER NOT NULL DEFAULT 0, dir TEXT NOT NULL, message BLOB,"
	" started INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,"
	" added INTEGER NOT NULL, modified INTEGER NOT NULL, deleted INTEGER NOT NULL, meta INTEGER NOT NULL);"
	"CREATE INDEX op_of ON op(sandbox, id);"
	"CREATE TABLE op_resource(op INTEGER NOT NULL REFERENCES op(id) ON DELETE CASCADE, resource INTEGER NOT NULL,"
	" source INTEGER NOT NULL, switches INTEGER NOT NULL, fresh BLOB, prepared_at INTEGER NOT NULL,"
	" landed_at INTEGER NOT NULL, stays_active INTEGER NOT NULL DEFAULT 0,"
	" PRIMARY KEY(op, resource)) WITHOUT ROWID;" OWNER_TABLE PACKED_TABLES UNFINISHED_INDEX REGISTRY_COLUMN
		COUNT_COLUMNS PRUNABLE_COLUMNS;

/* What brings a database of version i + 1 to the next one. */
static const struct {
	const char *sql;
	int (*then)(struct store *s, struct atoll_error *err);
} migrations[] = {
	{ "ALTER TABLE sandbox ADD COLUMN settings BLOB;", NULL },
	{ OWNER_TABLE, NULL },
	{ PACKED_TABLES, migrate_rows },
	{ UNFINISHED_INDEX, NULL },
	{ "", migrate_areas },
	{ REGISTRY_COLUMN, NULL },
	{ "ALTER TABLE op_resource ADD COLUMN stays_active INTEGER NOT NULL DEFAULT 0;", NULL },
	{ COUNT_COLUMNS, NULL },
	{ PRUNABLE_COLUMNS, NULL },
};
_Static_assert(ARRAY_SIZE(migrations) == SCHEMA_VERSION - 1, "every older version can be brought up");

static bool is_damage(int code)
{
	switch (code & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_MISMATCH:
		return true;
	default:
		return false;
	}
}

static int tell_damage(struct store *s, struct atoll_error *err, const char *what, const char *text)
{
	return error_set(err, ATOLL_CORRUPT, 0, what, s->path,
			 "the state database \"%s\" is damaged (%s); move it aside, or restore it from a backup",
			 s->path, text);
}

int store_fail(struct store *s, struct atoll_error *err, const char *what)
{
	int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
	const char *text = s->db ? sqlite3_errmsg(s->db) : "out of memory";
	int sys = s->db ? sqlite3_system_errno(s->db) : ENOMEM;

	if (is_damage(code))
		return tell_damage(s, err, what, text);
	if ((code & 0xff) == SQLITE_BUSY)
		return error_set(err, ATOLL_BUSY, 0, what, s->path, "the state database \"%s\" is in use; try again",
				 s->path);
	if ((code & 0xff) == SQLITE_FULL)
		return error_set(err, ATOLL_NO_SPACE, ENOSPC, what, s->path,
				 "no space left for the state database \"%s\"", s->path);
	/* SQLite does not always pass the errno on. */
	if ((code & 0xff) == SQLITE_IOERR && size_limit_is_set())
		return error_set(
			err, ATOLL_FAILED, sys, what, s->path,
			"the state database \"%s\" cannot be written (%s): the size of files is limited here (ulimit "
			"-f), and it may be too large for that",
			s->path, text);
	if (code == SQLITE_READONLY || (code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_PERM)
		return error_set(err, ATOLL_REFUSED, sys, what, s->path,
				 "the state database \"%s\" cannot be opened for writing: %s", s->path,
				 sys ? strerror(sys) : text);
	return error_set(err, ATOLL_FAILED, sys, what, s->path, "state database \"%s\": %s", s->path, text);
}

int store_prepare(struct store *s, const char *sql, sqlite3_stmt **ret, struct atoll_error *err)
{
	if (sqlite3_prepare_v2(s->db, sql, -1, ret, NULL) != SQLITE_OK)
		return store_fail(s, err, "store");
	return 0;
}

int store_next(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err)
{
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : store_fail(s, err, "store");
}

int store_run(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err)
{
	int r = store_next(s, stmt, err);

	sqlite3_finalize(stmt);
	return MIN(r, 0);
}

int store_prepare_kept(struct store *s, enum store_kept which, const char *sql, sqlite3_stmt **ret,
		       struct atoll_error *err)
{
	int r = s->kept[which] ? 0 : store_prepare(s, sql, &s->kept[which], err);

	if (r < 0)
		return r;
	*ret = s->kept[which];
	return 0;
}

int store_run_kept(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err)
{
	int r = store_next(s, stmt, err);

	sqlite3_reset(stmt);
	return MIN(r, 0);
}

static int execute(struct store *s, const char *sql, struct atoll_error *err)
{
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(s, err, "store");
	return 0;
}

static int read_int(struct store *s, const char *sql, int64_t *ret, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, sql, &stmt, err);

	if (r < 0)
		return r;
	r = store_next(s, stmt, err);
	if (r < 0)
		return r;
	*ret = r ? sqlite3_column_int64(stmt, 0) : 0;
	return 0;
}

static int create_schema(struct store *s, struct atoll_error *err)
{
	int64_t version, tables = 0;
	int r = execute(s, "BEGIN IMMEDIATE", err);

	if (r < 0)
		return r;
	s->in_transaction = true;
	r = read_int(s, "PRAGMA user_version", &version, err);
	/* Without a version but with content: somebody else's, and not to be written to. */
	if (r == 0 && version == 0)
		r = read_int(s, "SELECT count(*) FROM sqlite_schema", &tables, err);
	if (r == 0 && version == 0 && tables > 0)
		r = error_set(err, ATOLL_CORRUPT, 0, "open", s->path, "\"%s\" is not a state database of Atoll",
			      s->path);
	if (r == 0 && version == 0)
		r = execute(s, schema, err);
	if (r == 0 && version == 0) {
		char pragma[96];

		snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d; PRAGMA application_id=%d", SCHEMA_VERSION,
			 APPLICATION_ID);
		r = execute(s, pragma, err);
	}
	if (r == 0)
		r = store_commit(s, err);
	s->is_new = r == 0 && version == 0;
	store_abort(s);
	return r;
}

/* One step, unless another process made it meanwhile. */
static int migrate(struct store *s, size_t i, struct atoll_error *err)
{
	int from = (int)i + 1;
	int64_t version = 0;
	char pragma[64];
	int r = store_begin(s, true, err);

	if (r < 0)
		return r;
	r = read_int(s, "PRAGMA user_version", &version, err);
	snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d", from + 1);
	if (r == 0 && version == from) {
		r = execute(s, migrations[i].sql, err);
		if (r == 0 && migrations[i].then)
			r = migrations[i].then(s, err);
		if (r == 0)
			r = execute(s, pragma, err);
	}
	s->version = from;
	if (r == 0)
		r = store_commit(s, err);
	store_abort(s);
	return r;
}

static int check_version(struct store *s, struct atoll_error *err)
{
	int64_t version, application;
	int r = read_int(s, "PRAGMA user_version", &version, err);

	if (r < 0)
		return r;
	if (version == 0) {
		r = create_schema(s, err);
		if (r < 0)
			return r;
		r = read_int(s, "PRAGMA user_version", &version, err);
		if (r < 0)
			return r;
	}
	r = read_int(s, "PRAGMA application_id", &application, err);
	if (r < 0)
		return r;
	if (application != APPLICATION_ID)
		return error_set(err, ATOLL_CORRUPT, 0, "open", s->path, "\"%s\" is not a state database of Atoll",
				 s->path);
	if (version < 1 || version > SCHEMA_VERSION)
		return error_set(
			err, ATOLL_CORRUPT, 0, "open", s->path,
			"the state database \"%s\" has version %lld, this program knows up to %d; use a newer atoll",
			s->path, (long long)version, SCHEMA_VERSION);
	for (size_t i = (size_t)version - 1; i < ARRAY_SIZE(migrations); i++) {
		r = migrate(s, i, err);
		if (r < 0)
			return r;
	}
	s->version = SCHEMA_VERSION;
	return 0;
}

/* Called after each commit, in place of SQLite's own check of the length. */
static int note_log(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	(void)db;
	(void)name;
	s->log_pages = pages;
	return SQLITE_OK;
}

/* Where two make the registry at once, SQLite answers one of them that it is busy, and does not wait. */
static int set_up(struct store *s, struct atoll_error *err)
{
	static const char sql[] = "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY; "
				  "PRAGMA cache_size=-16000";
	int64_t end = clock_monotonic_ns() + (int64_t)BUSY_MS * 1000000;
	int rc;

	while ((rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL)) != SQLITE_OK) {
		if ((rc & 0xff) != SQLITE_BUSY || clock_monotonic_ns() >= end)
			return store_fail(s, err, "store");
		usleep(2000);
	}
	return 0;
}

int store_open(const char *state_dir, struct store **ret, struct atoll_error *err)
{
	CLEANUP(cleanup_store) struct store *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return error_oom(err, "open");
	fork_gate_enter(); /* left by store_close() */
	s->path = str_format("%s/atoll.db", state_dir);
	if (!s->path)
		return error_oom(err, "open");
	sys_fault_hook_sqlite(sqlite3_vfs_find(NULL));
	if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    log_vfs()) != SQLITE_OK)
		return store_fail(s, err, "open");
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	/* Closing must not checkpoint: that would cost every command two more flushes. */
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
	sqlite3_wal_hook(s->db, note_log, s);
	r = set_up(s, err);
	if (r < 0)
		return r;
	r = check_version(s, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	store_abort(s);
	/* A new one would otherwise be read from the log, schema and all, by the next dozen commands. */
	if (s->db && (s->is_new || s->log_pages >= LOG_PAGES))
		log_empty(s); /* once per command, when all else is done */
	for (size_t i = 0; i < KEPT_COUNT; i++)
		sqlite3_finalize(s->kept[i]);
	sqlite3_close(s->db);
	fork_gate_leave();
	free(s->path);
	free(s);
	return NULL;
}

int store_begin(struct store *s, bool durable, struct atoll_error *err)
{
	/* EXTRA and FULL differ only for rollback journals; in WAL mode FULL syncs the log at each commit. */
	int r = execute(s, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);

	if (r < 0)
		return r;
	r = execute(s, "BEGIN IMMEDIATE", err);
	if (r < 0)
		return r;
	s->in_transaction = true;
	return 0;
}

int store_begin_late(struct store *s, struct atoll_error *err)
{
	return s->in_transaction ? 0 : store_begin(s, false, err);
}

bool store_is_begun(const struct store *s)
{
	return s->in_transaction;
}

/* A commit that failed may have written its frames to the log all the same, where a later reader would find them complete. The next
 * transaction overwrites them: one is made at once, so that "failed" is true. */
static void void_failed_commit(struct store *s)
{
	char write[64];

	snprintf(write, sizeof write, "BEGIN IMMEDIATE; PRAGMA user_version=%d; COMMIT", s->version);
	store_abort(s);
	if (sqlite3_exec(s->db, write, NULL, NULL, NULL) != SQLITE_OK) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		s->in_doubt = true;
	}
}

int store_commit(struct store *s, struct atoll_error *err)
{
	int r = execute(s, "COMMIT", err);

	if (r < 0) {
		void_failed_commit(s);
		return r;
	}
	s->in_transaction = false;
	return 0;
}

bool store_is_in_doubt(const struct store *s)
{
	return s->in_doubt;
}

void store_abort(struct store *s)
{
	if (s && s->in_transaction)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	if (s)
		s->in_transaction = false;
}

void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
	if (text)
		sqlite3_bind_blob64(stmt, i, text, strlen(text), SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(stmt, i);
}

void bind_id(sqlite3_stmt *stmt, int i, const struct tree_id *id)
{
	if (id->size)
		sqlite3_bind_blob(stmt, i, id->data, id->size, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(stmt, i);
}

char *column_data(sqlite3_stmt *stmt, int i, size_t *ret_size)
{
	const void *data = sqlite3_column_blob(stmt, i);
	size_t size = (size_t)sqlite3_column_bytes(stmt, i);
	char *copy;

	if (sqlite3_column_type(stmt, i) == SQLITE_NULL)
		return NULL;
	copy = malloc(size + 1);
	if (!copy)
		return NULL;
	if (size)
		memcpy(copy, data, size);
	copy[size] = 0;
	if (ret_size)
		*ret_size = size;
	return copy;
}

char *column_text(sqlite3_stmt *stmt, int i)
{
	return column_data(stmt, i, NULL);
}

void column_id(sqlite3_stmt *stmt, int i, struct tree_id *ret)
{
	const void *data = sqlite3_column_blob(stmt, i);
	int size = sqlite3_column_bytes(stmt, i);

	memset(ret, 0, sizeof *ret);
	if (data && size > 0 && size <= TREE_ID_MAX) {
		ret->size = (uint8_t)size;
		memcpy(ret->data, data, (size_t)size);
	}
}

struct unpack store_unpack(sqlite3_stmt *stmt, int i)
{
	const unsigned char *data = sqlite3_column_blob(stmt, i);

	return (struct unpack){ .at = data, .end = data ? data + sqlite3_column_bytes(stmt, i) : NULL };
}

int store_unpacked(struct store *s, const struct unpack *u, struct atoll_error *err)
{
	if (u->failed == -ENOMEM)
		return error_oom(err, "store");
	return u->failed ? tell_damage(s, err, "store", "a list cannot be read") : 0;
}

int array_grow(void *v, size_t n, size_t size)
{
	void **array = v;

	/* Capacity is always a power of two, so it is exhausted exactly when n is 0 or one of them. */
	if ((n & (n - 1)) == 0) {
		void *grown = reallocarray(*array, n ? n * 2 : 1, size);

		if (!grown)
			return -ENOMEM;
		*array = grown;
	}
	memset((char *)*array + n * size, 0, size);
	return 0;
}
