/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/inside.h"

/* Nobody waits longer for this than a person would. */
static const char begin_outside[] =
	"BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY; SET LOCAL synchronous_commit = off; " PG_NEUTRAL
	"SET LOCAL statement_timeout = 10000; SET LOCAL lock_timeout = 500";

void table_release(struct table *t)
{
	for (size_t i = 0; t->values && i < t->n_rows * t->n_columns; i++)
		free(t->values[i]);
	free(t->values);
	*t = (struct table){ 0 };
}

void table_append(struct table *to, struct table *from)
{
	size_t here = to->n_rows * to->n_columns, more = from->n_rows * from->n_columns;
	char **values = from->n_rows ? reallocarray(to->values, here + more, sizeof *values) : NULL;

	if (values) {
		memcpy(values + here, from->values, more * sizeof *values);
		to->values = values;
		to->n_columns = from->n_columns;
		to->n_rows += from->n_rows;
		free(from->values);
		*from = (struct table){ 0 };
	}
	to->failed = to->failed || (from->n_rows && !values);
	table_release(from);
}

/* ---- an answer from inside ---- */

struct stream {
	const char *at, *end;
	bool bad;
};

static uint32_t take_number(struct stream *s, size_t size)
{
	uint32_t value = 0;

	if (s->bad || (size_t)(s->end - s->at) < size) {
		s->bad = true;
		return 0;
	}
	for (size_t i = 0; i < size; i++)
		value = value << 8 | (unsigned char)s->at[i];
	s->at += size;
	return value;
}

static char *take_value(struct stream *s)
{
	uint32_t size = take_number(s, 4);
	char *text;

	if (s->bad || size == UINT32_MAX)
		return NULL;
	if (size > (size_t)(s->end - s->at)) {
		s->bad = true;
		return NULL;
	}
	text = strndup(s->at, size);
	s->bad = !text;
	s->at += size;
	return text;
}

static bool grow(struct table *t, size_t *capacity)
{
	size_t wanted = *capacity ? *capacity * 2 : 64;
	char **values;

	if (t->n_rows < *capacity)
		return true;
	values = reallocarray(t->values, wanted * MAX(t->n_columns, 1), sizeof *values);
	if (!values)
		return false;
	t->values = values;
	*capacity = wanted;
	return true;
}

static bool take_rows(struct stream *s, struct table *t)
{
	size_t capacity = 0;

	while (!s->bad && s->at < s->end) {
		size_t n = take_number(s, 2);

		t->n_columns = t->n_rows ? t->n_columns : n;
		if (n != t->n_columns || !grow(t, &capacity))
			return false;
		for (size_t i = 0; i < n; i++)
			t->values[t->n_rows * n + i] = take_value(s);
		t->n_rows++;
	}
	return !s->bad;
}

static int ask_inside(struct sides *s, const char *sql, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF rows = STRBUF_INIT;
	struct stream stream;
	int r = question_ask(s->area, sql, &rows, err);

	if (r < 0)
		return r;
	stream = (struct stream){ .at = strbuf_str(&rows), .end = strbuf_str(&rows) + rows.size };
	return take_rows(&stream, ret)
		       ? 0
		       : error_set(err, ATOLL_FAILED, 0, "database", NULL, "the rows of an answer did not come whole");
}

/* ---- outside ---- */

static int outside_failed(struct sides *s, PGresult *result, struct atoll_error *err)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (state && strcmp(state, "55P03") == 0)
		return error_set(err, ATOLL_BUSY, 0, "database", NULL, "somebody else has it locked");
	return error_set(err, ATOLL_REFUSED, 0, "database", NULL, "the database refuses: %s",
			 message ? message : "the connection is lost");
}

static int take_result(PGresult *result, struct table *ret)
{
	ret->n_columns = (size_t)PQnfields(result);
	ret->values = calloc((size_t)PQntuples(result) * ret->n_columns + 1, sizeof *ret->values);
	for (int i = 0; ret->values && i < PQntuples(result); i++) {
		for (int k = 0; k < PQnfields(result); k++) {
			char **to = &ret->values[(size_t)i * ret->n_columns + (size_t)k];

			*to = PQgetisnull(result, i, k) ? NULL : strdup(PQgetvalue(result, i, k));
			if (!*to && !PQgetisnull(result, i, k))
				return -ENOMEM;
		}
		ret->n_rows++;
	}
	return ret->values ? 0 : -ENOMEM;
}

static int ask_outside(struct sides *s, const char *sql, struct table *ret, struct atoll_error *err)
{
	PGresult *result = PQexec(s->outside, sql);
	ExecStatusType status = PQresultStatus(result);
	int r = 0;

	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		r = outside_failed(s, result, err);
	else if (ret && take_result(result, ret) < 0)
		r = error_oom(err, "database");
	PQclear(result);
	return r;
}

int sides_ask(struct sides *s, bool inside, const char *sql, struct table *ret, struct atoll_error *err)
{
	return inside ? ask_inside(s, sql, ret, err) : ask_outside(s, sql, ret, err);
}

/* Each question has its own snapshot: read committed. */
int sides_open(struct sides *s, int area, const char *conninfo, struct atoll_error *err)
{
	int r;

	*s = (struct sides){ .area = area, .outside = PQconnectdb(conninfo) };
	if (PQstatus(s->outside) != CONNECTION_OK)
		r = error_set(err, ATOLL_FAILED, 0, "database", NULL, "a second connection to the database is refused");
	else
		r = ask_outside(s, begin_outside, NULL, err);
	if (r < 0)
		sides_close(s);
	return r;
}

void sides_close(struct sides *s)
{
	PQfinish(s->outside);
	s->outside = NULL;
}

void sides_add_literal(struct strbuf *sql, const char *text)
{
	strbuf_addc(sql, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_addc(sql, '\'');
		strbuf_addc(sql, *text);
	}
	strbuf_addc(sql, '\'');
}
