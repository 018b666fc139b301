/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client asks for, one unit at a time: a query, a function call, or a sequence of extended-protocol messages up to Sync. While
 * a unit is under way nothing of the next one is looked at, so that what it means (is there a transaction, has it failed) is known.
 */
#include <string.h>

#include "base/clock.h"
#include "pg/private.h"

static bool is_copy(char type)
{
	return type == 'd' || type == 'c' || type == 'f';
}

static bool has_begun(const struct pg_client *c)
{
	return c->proxy->owner == c && c->unit;
}

/* For the server if it asked for it. It may not have asked yet: a client need not wait for that. What comes when it is over is of no use to
 * anybody. */
static bool copy_message(struct pg_client *c, const struct pg_message *m)
{
	struct pg_buffer *to = &c->proxy->to_server;

	if (!has_begun(c) || c->failed)
		return true;
	if (!c->copy_in)
		return !c->synced && !c->asked;
	pg_buffer_add(to, m->body - PG_HEADER_SIZE, m->size + PG_HEADER_SIZE);
	if (m->type != 'd')
		c->copy_in = false;
	return true;
}

void pg_unit_copy_piece(struct pg_client *c, size_t header, size_t size)
{
	struct pg_buffer *to = &c->proxy->to_server;
	size_t begun;

	if (has_begun(c) && c->copy_in) {
		begun = pg_message_begin(to, 'd');
		pg_buffer_add(to, pg_buffer_front(&c->in) + header, size);
		pg_message_end(to, begun);
	}
	pg_buffer_consume(&c->in, header + size);
}

static void function_call(struct pg_client *c, const struct pg_message *m)
{
	pg_transaction_guard(c);
	if (pg_transaction_names_limit(m->body, m->size))
		c->proxy->names_limits = true;
	pg_buffer_add(&c->proxy->to_server, m->body - PG_HEADER_SIZE, m->size + PG_HEADER_SIZE);
	pg_group_add(c->proxy, c, NULL);
	c->unit = c->synced = c->dirty = true;
}

/* What needs no turn. */
static bool without_turn(struct pg_client *c, const struct pg_message *m)
{
	if (m->type == 'S') {
		c->skip_to_sync = false;
		pg_message_ready(&c->out, 'I');
		return true;
	}
	return m->type == 'H';
}

static void unknown(struct pg_client *c, char type)
{
	char text[64];
	struct pg_report report = { .severity = "FATAL", .state = "08P01", .message = text };

	snprintf(text, sizeof(text), "invalid frontend message type %d", (unsigned char)type);
	pg_client_fatal(c, &report);
}

/* Handles a message that is no data while the server waits for the data of COPY. The server ignores
 * Flush and Sync then. After any other message it would end the connection, and with it the
 * transaction of all clients, so the proxy passes none on. */
static void instead_of_data(struct pg_client *c, char type)
{
	char text[80];
	struct pg_report report = { .severity = "FATAL", .state = "08P01", .message = text };

	if (type == 'H' || type == 'S')
		return;
	snprintf(text, sizeof(text), "unexpected message type 0x%02X during COPY from stdin", (unsigned char)type);
	pg_client_fatal(c, &report);
}

/* Whether a query or a function call comes amid an extended sequence. If an earlier message of the
 * sequence fails, the server skips this one and does not answer it. So the proxy asks for the
 * earlier answers first, by a Flush. */
static bool follows_unanswered(struct pg_client *c, char type)
{
	if ((type != 'Q' && type != 'F') || c->pending.n == 0)
		return false;
	c->asked = true;
	pg_message_empty(&c->proxy->to_server, 'H');
	return true;
}

static bool begin(struct pg_client *c, const struct pg_message *m)
{
	switch (m->type) {
	case 'Q':
		pg_script_query(c, m);
		return true;
	case 'F':
		function_call(c, m);
		return true;
	default:
		return pg_extended_message(c, m);
	}
}

bool pg_unit_message(struct pg_client *c, const struct pg_message *m)
{
	struct pg_proxy *p = c->proxy;

	if (m->type == 'X') {
		if (c->synced || c->barrier || c->after)
			return false;
		pg_client_leave(c);
		return true;
	}
	if (!strchr("QFPBDECHSdcf", m->type) || m->type == 0) {
		unknown(c, m->type);
		return true;
	}
	if (pg_buffer_size(&p->to_server) > PG_HIGH_WATER)
		return false;
	if (c->skip_to_sync && m->type != 'S')
		return true;
	if (is_copy(m->type))
		return copy_message(c, m);
	if (has_begun(c) && c->copy_in) {
		instead_of_data(c, m->type);
		return true;
	}
	if (p->owner != c && without_turn(c, m))
		return true;
	if (!pg_turn_take(c) || c->synced || c->barrier || c->reviving || c->asked || c->after || p->backing)
		return false;
	if (follows_unanswered(c, m->type))
		return false;
	return begin(c, m);
}

static void ended(struct pg_client *c, bool committed)
{
	c->proxy->active_at = clock_monotonic_ns();
	if (committed && *c->last_tag)
		pg_message_text(&c->out, 'C', c->last_tag);
	*c->last_tag = 0;
	pg_message_ready(&c->out, c->in_block ? (c->broken ? 'E' : 'T') : 'I');
	c->unit = c->synced = c->failed = c->skip_to_sync = c->quiet_parse = false;
	c->shift = c->executed = 0;
	if (c->gone)
		pg_client_leave(c);
	else if (!c->in_block)
		pg_turn_end(c);
}

void pg_unit_end(struct pg_client *c)
{
	if (c->in_block)
		ended(c, false);
	else
		pg_finish(c, !c->broken && !c->failed, ended);
}

static void go_on(struct pg_client *c)
{
	if (c->proxy->script.n > 0)
		pg_script_next(c);
	else
		pg_unit_end(c);
}

static void limits_removed(struct pg_client *c, bool succeeded)
{
	struct pg_buffer *error = &c->proxy->own_error;

	if (!succeeded) {
		pg_buffer_add(&c->out, pg_buffer_front(error), pg_buffer_size(error));
		c->failed = true;
	}
	go_on(c);
}

void pg_unit_ready(struct pg_client *c)
{
	c->copy_in = false;
	c->quiet_parse = false;
	/* A function may have set a limit that would end the transaction of all. */
	if (c->proxy->names_limits && !c->broken)
		pg_group_query(c, pg_transaction_limits_sql(c->proxy), limits_removed);
	else
		go_on(c);
}
