/* SPDX-License-Identifier: Apache-2.0 */
/* What rows.c and old-rows.c share: the table whose rows are compared. */
#ifndef HOLD_ROWS_H
#define HOLD_ROWS_H

#include "hold/inside.h"

#define FETCH_MAX 10000 /* rows of a side */

struct relation {
	struct sides *s;
	const char *name; /* quoted, with its schema */
	struct table about, columns;
	bool is_new, locked, rewritten;
	bool is_cut; /* there were more marked pages than are looked at */
	uint64_t xid;
	struct column *v;
};

enum { ABOUT_OID, ABOUT_XID, ABOUT_SNAPSHOT, ABOUT_ISOLATION, ABOUT_FILE, ABOUT_LOCKED };

static inline const char *relation_about(const struct relation *rel, size_t column)
{
	const char *value = table_value(&rel->about, 0, column);

	return value ? value : "";
}

/* The texts of all values of a row "t", as SQL. */
void relation_add_values(struct strbuf *sql, const struct relation *rel);
/* How far an id of 32 bits, in a column of "t", lies behind that of the transaction. */
void relation_add_distance(struct strbuf *sql, const struct relation *rel, const char *column);

/* Rows as they are outside, which the transaction has deleted or replaced. */
int old_rows_collect(struct relation *rel, struct pairs *p, struct atoll_error *err);

#endif
