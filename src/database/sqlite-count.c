/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the rows of the main database that a connection removes and inserts, those included that a constraint's REPLACE clause removes.
 *
 * Only SQLite's pre-update hook tells of the latter. SQLite may have been built without it; then sqlite3_total_changes64() is what there is,
 * and rows that a clause removes are not counted.
 */
#include <string.h>

#include "database/private.h"

typedef void preupdate_fn(void *, sqlite3 *, int, char const *, char const *, sqlite3_int64, sqlite3_int64);

/* Absent where SQLite was built without SQLITE_ENABLE_PREUPDATE_HOOK. */
extern void *sqlite3_preupdate_hook(sqlite3 *db, preupdate_fn *fn, void *arg) __attribute__((weak));

static void count(void *arg, sqlite3 *db, int op, char const *schema, char const *table, sqlite3_int64 old,
		  sqlite3_int64 new)
{
	struct sqlite_count *c = arg;

	if (strcmp(schema, "main") != 0)
		return;
	c->removed += op != SQLITE_INSERT;
	c->inserted += op != SQLITE_DELETE;
}

void sqlite_count_begin(struct sqlite_count *c, sqlite3 *db)
{
	*c = (struct sqlite_count){ .db = db, .changes = sqlite3_total_changes64(db) };
	if (sqlite3_preupdate_hook)
		sqlite3_preupdate_hook(db, count, c);
}

void sqlite_count_end(struct sqlite_count *c)
{
	if (c->db && sqlite3_preupdate_hook)
		sqlite3_preupdate_hook(c->db, NULL, NULL);
	c->db = NULL;
}

bool sqlite_count_is_same(const struct sqlite_count *wanted, const struct sqlite_count *seen)
{
	if (!sqlite3_preupdate_hook)
		return sqlite3_total_changes64(seen->db) - seen->changes == wanted->removed + wanted->inserted;
	return wanted->removed == seen->removed && wanted->inserted == seen->inserted;
}
