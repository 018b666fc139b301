/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sides of a comparison: inside, the transaction that is held, and outside, what everybody else sees, by a connection of one's own.
 * Both are asked with the same settings, so that equal values have equal texts; neither waits long for a lock. Inside is what it is now;
 * outside is as of now too: what others have committed since the transaction began is no difference.
 */
#ifndef HOLD_INSIDE_H
#define HOLD_INSIDE_H

#include <atoll/atoll.h>

#include <stdio.h>

#include "base/strbuf.h"
#include "pg/pg.h"

/* ---- question.c ---- */

/* Whoever holds the transaction: the question that follows a request, and its rows. */
int question_answer(int fd, struct pg_proxy *p, struct strbuf *rows, struct atoll_error *err);
void question_send(int fd, const struct strbuf *rows);
/* Asks it, at the control socket of an area. */
int question_ask(int area, const char *sql, struct strbuf *ret, struct atoll_error *err);

/* ---- sides.c ---- */

struct table { /* of an answer */
	size_t n_rows, n_columns;
	bool failed;   /* for want of memory */
	char **values; /* row by row; NULL: NULL */
};
void table_release(struct table *t);
#define AUTO_TABLE CLEANUP(table_release) struct table
static inline const char *table_value(const struct table *t, size_t row, size_t column)
{
	return t->values[row * t->n_columns + column];
}

struct sides {
	int area;
	void *outside; /* PGconn */
};
int sides_open(struct sides *s, int area, const char *conninfo, struct atoll_error *err);
void sides_close(struct sides *s);
int sides_ask(struct sides *s, bool inside, const char *sql, struct table *ret, struct atoll_error *err);
void sides_add_literal(struct strbuf *sql, const char *text);

void table_append(struct table *to, struct table *from); /* from is empty afterwards; on failure to->failed */

/* ---- rows.c, schema.c: what differs, to standard output, as hold/message.h tells ---- */
int rows_print(struct sides *s, const char *name, struct atoll_error *err);
int schema_print(struct sides *s, struct atoll_error *err);
/* ---- rewritten.c, catalogs.c: the part of schema_print() that is no definition ---- */
int rewritten_print(struct sides *s, struct atoll_error *err);
int catalogs_print(struct sides *s, struct atoll_error *err);

/* ---- pairs.c: old and new rows of a table, brought together by their keys ---- */

struct column {
	const char *name;
	char category; /* as the server has it: 'N' for numbers, 'B' for truth */
	bool key;
};
struct pairs {
	const struct column *columns;
	size_t n_columns;
	bool keyed; /* else whole rows are compared */
	struct table old,
		new; /* a value: a letter, and its text; 'v': all of it, 's': a beginning, after its length and sum */
	bool old_unknown; /* nobody can tell what the new rows were before */
	bool old_is_cut, new_is_cut;
};
/* Returns how many were not shown. */
size_t pairs_print(struct pairs *p, FILE *out, size_t shown_max);

void output_field(FILE *out, const char *text);

#endif
