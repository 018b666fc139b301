/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the server to whom it concerns. Rows and copied data are passed on as they come, however long; all else is looked at as a whole,
 * because it tells where the client's unit stands.
 */
#include <string.h>

#include "pg/private.h"

/* Whom the next message concerns, or NULL. */
static struct pg_client *recipient(struct pg_proxy *p)
{
	struct pg_group *g = pg_group_first(p);

	return g ? g->client : p->owner;
}

static bool is_own(struct pg_proxy *p)
{
	struct pg_group *g = pg_group_first(p);

	return g && (g->then || !g->client);
}

static void pass_bytes(struct pg_client *c, const char *data, size_t size)
{
	if (c && !c->gone && !c->closing)
		pg_buffer_add(&c->out, data, size);
}

static void pass(struct pg_client *c, const struct pg_message *m)
{
	pass_bytes(c, m->body - PG_HEADER_SIZE, m->size + PG_HEADER_SIZE);
}

/* The error is about a part of the client's query string, and may name a prepared statement by the name it has on the server. */
static void pass_error(struct pg_client *c, const struct pg_message *m)
{
	struct pg_reader r = pg_reader_of(m);
	char code, position[24], prefix[PG_SERVER_NAME_SIZE];
	size_t begun = pg_message_begin(&c->out, m->type);

	pg_extended_name(c, "", prefix);
	while ((code = pg_reader_byte(&r)) != 0) {
		const char *value = pg_reader_string(&r), *at = code == 'M' ? strstr(value, prefix) : NULL;

		pg_message_add_byte(&c->out, code);
		if (code == 'P') {
			snprintf(position, sizeof(position), "%zu", strtoul(value, NULL, 10) + c->shift);
			value = position;
		}
		if (at) {
			pg_buffer_add(&c->out, value, (size_t)(at - value));
			value = at + strlen(prefix);
		}
		pg_message_add_string(&c->out, value);
	}
	pg_message_add_byte(&c->out, 0);
	pg_message_end(&c->out, begun);
}

static bool is_fatal(const struct pg_message *m)
{
	const char *severity = pg_message_field(m, 'V');

	return strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

static void client_error(struct pg_client *c, const struct pg_message *m)
{
	if (!c->gone && !c->closing)
		pass_error(c, m);
	c->failed = c->broken = true;
	c->reviving = c->asked = false;
	pg_pending_failed(c);
	c->copy_in = false;
	if (c->synced)
		return;
	/* The server ignores everything until Sync, so nothing of it is sent. */
	c->skip_to_sync = true;
	if (c->barrier)
		c->proxy->script.n = 0;
	c->barrier = false;
}

static void error(struct pg_proxy *p, const struct pg_message *m)
{
	struct pg_client *c = recipient(p);

	if (is_fatal(m))
		pg_proxy_lose(p, "the server has ended the connection: %s", pg_message_field(m, 'M'));
	else if (!c && p->n_groups > 0)
		pg_proxy_lose(p, "a savepoint could not be made, released or gone back to: %s",
			      pg_message_field(m, 'M'));
	else if (is_own(p))
		pg_buffer_add(&p->own_error, m->body - PG_HEADER_SIZE, m->size + PG_HEADER_SIZE);
	else if (c)
		client_error(c, m);
}

static void parameter(struct pg_proxy *p, const struct pg_message *m)
{
	struct pg_reader r = pg_reader_of(m);
	const char *name = pg_reader_string(&r), *value = pg_reader_string(&r);

	if (pg_settings_put(&p->parameters, name, value) < 0)
		pg_proxy_lose(p, "out of memory");
	pass(recipient(p), m);
}

/* The end of a group. */
static void ready(struct pg_proxy *p, const struct pg_message *m)
{
	struct pg_group *first = pg_group_first(p), g;
	char status = (char)(m->size == 1 ? *m->body : 0);

	if (!first || (status != 'T' && status != 'E')) {
		pg_proxy_lose(p, "%s",
			      first ? "a statement has ended the transaction"
				    : "the server does not keep to the protocol");
		return;
	}
	g = *first;
	pg_group_pop(p);
	if (!g.client) {
		p->backing = false;
		if (p->cancel_wanted && p->owner && p->owner->unit)
			pg_cancel_owner(p);
		return;
	}
	g.client->broken = status == 'E';
	if (g.then)
		g.then(g.client, pg_buffer_size(&p->own_error) == 0);
	else
		pg_unit_ready(g.client);
}

static bool is_answer(char type)
{
	return type && strchr("123nTCIs", type);
}

/* One of the answers to an extended sequence. False: it is not for the client. */
static bool count_answer(struct pg_client *c, char type)
{
	bool wanted;

	if (c->pending.n == 0 || !is_answer(type))
		return !c->quiet_parse || (type != '1' && type != '2');
	wanted = pg_pending_answered(c, type);
	if (c->reviving && c->pending.n == 0)
		c->reviving = c->broken = false; /* the ROLLBACK TO has succeeded */
	if (c->pending.n == 0)
		c->asked = false;
	return wanted;
}

static void capture(struct pg_proxy *p, const struct pg_message *m)
{
	struct pg_reader r = pg_reader_of(m);
	int32_t size;

	if (m->type != 'D' || pg_reader_int16(&r) < 1 || p->captured.size > 0)
		return;
	size = pg_reader_int32(&r);
	if (!r.bad && size > 0 && size <= r.end - r.at)
		strbuf_add(&p->captured, r.at, (size_t)size);
}

/* While it wants copied data the server ignores Sync, also one that was sent ahead. */
static void copy_begins(struct pg_client *c)
{
	c->copy_in = true;
	c->asked = false;
	if (c->pending.n == 0 || !c->synced)
		return;
	pg_group_pop(c->proxy);
	c->synced = false;
}

static void other(struct pg_proxy *p, const struct pg_message *m)
{
	struct pg_client *c = recipient(p);

	if (is_own(p)) {
		capture(p, m);
		return;
	}
	if (!c)
		return;
	if (m->type == 'G' || m->type == 'W')
		copy_begins(c);
	if (m->type == 'C')
		c->copy_in = false;
	if (m->type == 'C' || m->type == 'I')
		pg_script_done(c);
	if (count_answer(c, m->type) && !(m->type == 'C' && pg_script_keep_tag(c, m->body, m->size)))
		pass(c, m);
	if (c->gone && m->type == 'G')
		pg_client_leave(c); /* it wants data of somebody who is no more there */
	else if (c->barrier && c->pending.n == 0)
		pg_extended_drained(c);
}

static void dispatch(struct pg_proxy *p, const struct pg_message *m)
{
	switch (m->type) {
	case 'Z':
		ready(p, m);
		break;
	case 'E':
		error(p, m);
		break;
	case 'S':
		parameter(p, m);
		break;
	case 'N':
	case 'A':
		pass(recipient(p), m);
		break;
	default:
		other(p, m);
	}
}

/* What is left of a long message. */
static void pass_rest(struct pg_proxy *p)
{
	size_t size = MIN(p->rest, pg_buffer_size(&p->from_server));

	pass_bytes(p->rest_to, pg_buffer_front(&p->from_server), size);
	pg_buffer_consume(&p->from_server, size);
	p->rest -= size;
}

/* The beginning of a row or of copied data that is not all there. */
static bool pass_begun(struct pg_proxy *p, const struct pg_message *m)
{
	if ((m->type != 'D' && m->type != 'd') || is_own(p) || pg_buffer_size(&p->from_server) < PG_HEADER_SIZE)
		return false;
	p->rest = m->size + PG_HEADER_SIZE;
	p->rest_to = recipient(p);
	pass_rest(p);
	return true;
}

bool pg_relay_must_wait(struct pg_proxy *p)
{
	struct pg_client *c = recipient(p);

	return c && pg_buffer_size(&c->out) > PG_HIGH_WATER && !c->gone && !c->closing;
}

/* A cancel request in flight shall hit what it was meant for and nothing after it: until it has landed no end is taken note of. */
static bool must_wait_for_cancel(const struct pg_proxy *p, const struct pg_message *m)
{
	return m->type == 'Z' && pg_cancel_is_under_way(p);
}

void pg_relay(struct pg_proxy *p)
{
	struct pg_message m;

	while (p->state != PG_LOST && pg_buffer_size(&p->from_server) > 0 && !pg_relay_must_wait(p)) {
		int r;

		if (p->rest > 0) {
			pass_rest(p);
			continue;
		}
		r = pg_message_peek(&p->from_server, INT32_MAX, &m);
		if (r < 0)
			pg_proxy_lose(p, "the server does not keep to the protocol");
		if (r < 0 || (r == 0 && !pass_begun(p, &m)) || (r > 0 && must_wait_for_cancel(p, &m)))
			return;
		if (r == 0)
			continue;
		dispatch(p, &m);
		pg_message_consume(&p->from_server, &m);
	}
}
