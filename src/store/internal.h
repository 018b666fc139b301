/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share: prepared statements with values bound by type. */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <sqlite3.h>

#include "base/error.h"
#include "store/pack.h"
#include "store/store.h"

/* Statements that are run more than once: prepared once, since that takes longer than running them. */
enum store_kept { KEPT_SANDBOX_FIND, KEPT_COUNT };

struct store {
	sqlite3 *db;
	char *path;
	bool in_transaction;
	int log_pages; /* length of the log after the last commit */
	bool is_new;   /* the schema was made by this connection */
	bool in_doubt;
	int version; /* of the schema; 0 until it is made */
	sqlite3_stmt *kept[KEPT_COUNT];
};

int store_fail(struct store *s, struct atoll_error *err, const char *what);
int store_prepare(struct store *s, const char *sql, sqlite3_stmt **ret, struct atoll_error *err);
int store_run(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err); /* step to the end and finalize */
/* The same for a statement that is kept; it stays the store's. */
int store_prepare_kept(struct store *s, enum store_kept which, const char *sql, sqlite3_stmt **ret,
		       struct atoll_error *err);
int store_run_kept(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err);
/* SQLITE_ROW: 1, done: 0, else a negative code. */
int store_next(struct store *s, sqlite3_stmt *stmt, struct atoll_error *err);

/* log.c */
const char *log_vfs(void);       /* the VFS to open a database with */
void log_empty(struct store *s); /* once all is done */

void bind_text(sqlite3_stmt *stmt, int i, const char *text); /* bytes as BLOB; NULL as null */
void bind_id(sqlite3_stmt *stmt, int i, const struct tree_id *id);
char *column_text(sqlite3_stmt *stmt, int i); /* malloc'ed, NULL for null */
char *column_data(sqlite3_stmt *stmt, int i, size_t *ret_size);
void column_id(sqlite3_stmt *stmt, int i, struct tree_id *ret);

/* A column of packed records, and once they are read: 0, or that they are damaged. */
struct unpack store_unpack(sqlite3_stmt *stmt, int i);
int store_unpacked(struct store *s, const struct unpack *u, struct atoll_error *err);

/* migrate.c: bring a database of version 3, or 5, to the next one */
int migrate_rows(struct store *s, struct atoll_error *err);
int migrate_areas(struct store *s, struct atoll_error *err);

static inline void cleanup_stmt(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}
#define AUTO_STMT CLEANUP(cleanup_stmt) sqlite3_stmt

/* Grows *v (elements of `size` bytes) so that index n exists, zeroed. */
int array_grow(void *v, size_t n, size_t size);

#endif
