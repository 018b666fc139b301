/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the proxy's user to the server, each waited for. */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "pg/private.h"

#define LATE_CANCEL_NS (500 * 1000000LL)
#define SLOW_ATTEMPTS 2000 /* go on for some seconds: a stalled machine is no reason to give up */

void pg_answer_release(struct pg_answer *a)
{
	pg_names_clear(&a->values);
}

static int lost(struct pg_proxy *p, struct atoll_error *err)
{
	return error_set(err, ATOLL_STATE, 0, "ask", NULL, "the database transaction is lost: %s", p->reason);
}

/* Writes and reads once. */
static void wait_for_server(struct pg_proxy *p)
{
	struct pollfd one = { .fd = p->server.fd, .events = POLLIN };
	ssize_t n;

	pg_server_flush(p);
	if (pg_buffer_size(&p->to_server) > 0)
		one.events |= POLLOUT;
	if (p->state == PG_LOST || (poll(&one, 1, -1) < 0 && errno != EINTR))
		return;
	n = pg_server_read(p);
	if (n < 0)
		pg_proxy_lose(p, "the connection to the server is closed");
}

static void take_row(struct pg_answer *a, const struct pg_message *m)
{
	struct pg_reader r = pg_reader_of(m);
	int n = pg_reader_int16(&r);

	for (int i = 0; i < n && !r.bad; i++) {
		int32_t size = pg_reader_int32(&r);
		AUTO_FREE char *text = NULL;

		if (size > r.end - r.at)
			return;
		text = strndup(r.at, (size_t)MAX(size, 0));
		r.at += MAX(size, 0);
		if (text)
			(void)pg_names_push(&a->values, text);
	}
}

static void take_raw(struct pg_answer *a, const struct pg_message *m)
{
	if (m->size > PG_ROWS_MAX - a->rows->size)
		a->too_long = true;
	else if (!a->too_long)
		strbuf_add(a->rows, m->body, m->size);
}

static void take_error(struct pg_answer *a, const struct pg_message *m)
{
	const char *detail = pg_message_field(m, 'D');

	if (*a->state)
		return;
	snprintf(a->state, sizeof(a->state), "%s", pg_message_field(m, 'C'));
	snprintf(a->message, sizeof(a->message), "%s%s%s", pg_message_field(m, 'M'), *detail ? ": " : "", detail);
}

static bool take(struct pg_proxy *p, struct pg_answer *a, const struct pg_message *m)
{
	if (m->type == 'D' && a->rows)
		take_raw(a, m);
	else if (m->type == 'D')
		take_row(a, m);
	else if (m->type == 'C')
		snprintf(a->tag, sizeof(a->tag), "%.*s", (int)MIN(m->size, sizeof(a->tag) - 1), m->body);
	else if (m->type == 'E')
		take_error(a, m);
	if (m->type == 'E' && strcmp(pg_message_field(m, 'V'), "ERROR") != 0)
		pg_proxy_lose(p, "the server has ended the connection: %s", a->message);
	return m->type == 'Z';
}

/* Until everything that was sent before is answered. */
static void drain(struct pg_proxy *p)
{
	while (p->state != PG_LOST && p->n_groups > 0) {
		wait_for_server(p);
		pg_relay(p);
	}
}

static void collect(struct pg_proxy *p, struct pg_answer *a)
{
	struct pg_message m;
	bool end = false;

	while (!end && p->state != PG_LOST) {
		int r = pg_message_peek(&p->from_server, INT32_MAX, &m);

		if (r < 0) {
			pg_proxy_lose(p, "the server does not keep to the protocol");
		} else if (r == 0) {
			wait_for_server(p);
		} else {
			end = take(p, a, &m);
			pg_message_consume(&p->from_server, &m);
		}
	}
}

int pg_ask(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err)
{
	*ret = (struct pg_answer){ .rows = ret->rows };
	pg_cancel_end(p);
	drain(p);
	if (p->state == PG_LOST)
		return lost(p, err);
	if (p->owner) {
		pg_group_send(p, sql); /* in a client's own transaction */
	} else {
		p->unnamed_of = NULL;
		pg_message_text(&p->to_server, 'Q', sql);
	}
	collect(p, ret);
	if (p->state == PG_LOST)
		return lost(p, err);
	if (*ret->state)
		return error_set(err, ATOLL_REFUSED, 0, "ask", NULL, "the database refuses: %s", ret->message);
	return 0;
}

bool pg_was_too_slow(const struct pg_proxy *p, const struct pg_answer *a, int *attempts)
{
	return p->state != PG_LOST && strcmp(a->state, "57014") == 0 && ++*attempts < SLOW_ATTEMPTS;
}

int pg_go_back(struct pg_proxy *p)
{
	char sql[64];
	int r, attempts = 0;
	bool again;

	snprintf(sql, sizeof(sql), "ROLLBACK TO %s", p->savepoint);
	do {
		AUTO_ANSWER answer = { 0 };

		r = pg_ask(p, sql, &answer, NULL);
		again = r < 0 && pg_was_too_slow(p, &answer, &attempts);
		if (r < 0 && !again)
			pg_proxy_lose(p, "a savepoint could not be gone back to: %s", answer.message);
	} while (again);
	return r;
}

/* Makes the savepoint of a question. In a client's own transaction there is none before it to go back to. */
static int begin_question(struct pg_proxy *p, const char *sql, struct atoll_error *err)
{
	int r, attempts = 0;
	bool again;

	do {
		AUTO_ANSWER answer = { 0 };

		r = pg_ask(p, sql, &answer, err);
		again = r < 0 && !p->owner && pg_was_too_slow(p, &answer, &attempts);
	} while (again && pg_go_back(p) == 0);
	return r;
}

static void end_question(struct pg_proxy *p, const char *sql)
{
	int r, attempts = 0;
	bool again;

	do {
		AUTO_ANSWER answer = { 0 };

		r = pg_ask(p, sql, &answer, NULL);
		again = r < 0 && p->owner && pg_was_too_slow(p, &answer, &attempts);
	} while (again);
	if (r >= 0 || p->state == PG_LOST)
		return;
	/* In a client's own transaction: its statement_timeout ran out before the savepoint of the
	 * question was made, so its transaction has failed. The server tells that client so, and
	 * the work of the other clients stays. At rest: no client has done anything since the
	 * proxy's own savepoint, which is older than that of the question, so nothing is lost. */
	if (p->owner)
		p->owner->broken = true;
	else
		(void)pg_go_back(p);
}

/* Lifts the client's statement_timeout in a message of its own, before anything else: the limit
 * holds for all statements of one message together. */
static int try_question(struct pg_proxy *p, const char *settings, const char *sql, struct pg_answer *ret,
			int64_t *ret_took, struct atoll_error *err)
{
	AUTO_FREE char *begin = str_format("SAVEPOINT %sq; SET LOCAL statement_timeout = 0", p->savepoint);
	AUTO_FREE char *end = str_format("ROLLBACK TO %sq; RELEASE %sq", p->savepoint, p->savepoint);
	AUTO_ANSWER set = { 0 };
	int r = begin && end ? begin_question(p, begin, err) : error_oom(err, "ask");
	int64_t began = clock_monotonic_ns();

	if (r == 0) {
		r = pg_ask(p, settings, &set, err);
		snprintf(ret->state, sizeof(ret->state), "%s", set.state);
	}
	if (r == 0)
		r = pg_ask(p, sql, ret, err);
	*ret_took = clock_monotonic_ns() - began;
	/* In a client's own transaction too: what it has done is before this savepoint. */
	if (end && p->state != PG_LOST)
		end_question(p, end);
	return r;
}

/* If a client's statement_timeout runs out at the very end of its statement, the server may cancel
 * the next statement instead, long before that one's own limit. Such a question is asked again. */
int pg_question_with(struct pg_proxy *p, const char *settings, const char *sql, struct pg_answer *ret,
		     struct atoll_error *err)
{
	size_t size = ret->rows ? ret->rows->size : 0;
	struct atoll_error why = { 0 }; /* of an attempt: the caller's error stays untouched if a later one succeeds */
	int64_t took;
	int r, attempts = 0;
	bool again;

	do {
		pg_answer_release(ret);
		*ret = (struct pg_answer){ .rows = ret->rows };
		if (ret->rows)
			strbuf_truncate(ret->rows, size);
		r = try_question(p, settings, sql, ret, &took, &why);
		again = r < 0 && took < LATE_CANCEL_NS && !(p->owner && p->owner->broken) &&
			pg_was_too_slow(p, ret, &attempts);
	} while (again);
	if (r < 0 && err)
		*err = why;
	return r;
}

int pg_question(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err)
{
	return pg_question_with(p, PG_NEUTRAL "SET LOCAL lock_timeout = 0", sql, ret, err);
}
