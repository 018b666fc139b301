/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended protocol. Messages are passed on as they come; only names of prepared statements are made the client's own, and an
 * Execute of a transaction command is carried out by the proxy, when everything before it was answered.
 *
 * The unnamed statement is the server's unnamed one, since most clients use it and forget it. If another client used it meanwhile it is
 * parsed again from what is kept of it.
 */
#include <string.h>

#include "pg/private.h"

#define LONG_NAME 32
#define PIPELINE_IS_BLOCK 180000

static uint64_t hash(const char *text)
{
	uint64_t h = 1469598103934665603u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h;
}

/* The server tells names apart by their first 63 bytes. */
void pg_extended_name(const struct pg_client *c, const char *name, char buffer[PG_SERVER_NAME_SIZE])
{
	int n = snprintf(buffer, PG_SERVER_NAME_SIZE, "atoll%d_", c->id);

	if (strlen(name) <= LONG_NAME)
		snprintf(buffer + n, PG_SERVER_NAME_SIZE - (size_t)n, "%s", name);
	else
		snprintf(buffer + n, PG_SERVER_NAME_SIZE - (size_t)n, "%.8s~%016llx", name,
			 (unsigned long long)hash(name));
}

static void add_statement_name(struct pg_client *c, const char *name)
{
	char mapped[PG_SERVER_NAME_SIZE];

	if (*name)
		pg_extended_name(c, name, mapped);
	pg_message_add_string(&c->proxy->to_server, *name ? mapped : "");
}

static bool malformed(struct pg_client *c)
{
	static const struct pg_report report = { .severity = "FATAL",
						 .state = "08P01",
						 .message = "invalid message format" };

	pg_client_fatal(c, &report);
	return true;
}

/* What must be known when it is executed. */
static void remember(struct pg_client *c, const char *name, const struct pg_statement *s)
{
	int r = 0;

	pg_known_remove(&c->statements, name);
	if (s->kind != PG_PLAIN)
		r = pg_known_put(&c->statements, name, s->kind, s->kind >= PG_NOTIFY ? NULL : s->text, s->size);
	if (r == 0 && *name)
		r = pg_names_add(&c->prepared, name);
	if (r < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

/* What the server must never run, whatever is executed under whichever name. It gets a placeholder instead: one that
 * fails when it is run, that the server describes in the same way, and that it accepts or refuses in a failed
 * transaction as it would the client's own statement. */
static bool is_never_sent(enum pg_statement_kind kind)
{
	return kind == PG_COMMIT || kind == PG_ROLLBACK || kind == PG_TWO_PHASE || kind == PG_MALFORMED ||
	       kind == PG_DEALLOCATE_ALL;
}

/* The text as the server is to see it. More than one statement is the server's to refuse. */
static void add_text(struct pg_client *c, const char *text, const struct pg_statement *s, bool unreadable)
{
	struct pg_buffer *b = &c->proxy->to_server;
	const char *end = s->text + s->size;

	if (s->kind == PG_MALFORMED && !unreadable) {
		pg_message_add_string(
			b, "COMMIT syntax error"); /* the server refuses it as it would refuse the client's */
		return;
	}
	if (is_never_sent(s->kind)) {
		const char *verb = s->kind == PG_DEALLOCATE_ALL ? "DEALLOCATE " : "ROLLBACK TO SAVEPOINT ";

		pg_buffer_add(b, verb, strlen(verb));
		pg_buffer_add(b, c->proxy->savepoint, strlen(c->proxy->savepoint));
		pg_message_add_string(b, "_refused");
		return;
	}
	pg_buffer_add(b, text, (size_t)(s->text - text));
	pg_script_add_text(c, b, s);
	pg_message_add_string(b, end);
}

static void parse(struct pg_client *c, const struct pg_message *m)
{
	struct pg_buffer *b = &c->proxy->to_server;
	struct pg_reader r = pg_reader_of(m);
	const char *name = pg_reader_string(&r), *text = pg_reader_string(&r), *why;
	struct pg_statement s;
	struct pg_lexer l;
	size_t begun;

	if (r.bad) {
		malformed(c);
		return;
	}
	l = pg_script_lexer(c, text, strlen(text), &why);
	if (why || !pg_statement_next(&l, &s))
		s = (struct pg_statement){ .text = text, .kind = why ? PG_MALFORMED : PG_PLAIN, .size = strlen(text) };
	pg_pending_keep(c, pg_pending_add(c, 'P'), false, name);
	remember(c, name, &s);
	if (pg_transaction_names_limit(text, strlen(text)))
		c->proxy->names_limits = true;
	begun = pg_message_begin(b, 'P');
	add_statement_name(c, name);
	add_text(c, text, &s, why != NULL);
	pg_buffer_add(b, r.at, (size_t)(r.end - r.at));
	pg_message_end(b, begun);
	if (*name)
		return;
	c->proxy->unnamed_of = c;
	c->unnamed.start = c->unnamed.end = 0;
	pg_buffer_add(&c->unnamed, b->data + b->start + begun, pg_buffer_size(b) - begun);
}

static void hide(struct pg_pending *p)
{
	if (p)
		p->hidden = true;
}

static void begin(struct pg_client *c)
{
	pg_transaction_guard(c);
	c->unit = c->dirty = true;
	if (!c->stale_portal)
		return;
	c->stale_portal = false;
	pg_message_named(&c->proxy->to_server, 'C', 'P', "");
	hide(pg_pending_add(c, 'C'));
}

/* Another client's unnamed statement is there. */
static void parse_again(struct pg_client *c)
{
	if (c->proxy->unnamed_of == c)
		return;
	if (pg_buffer_size(&c->unnamed) == 0) {
		/* It has none: the server must not take the other one's. */
		pg_message_named(&c->proxy->to_server, 'C', 'S', "");
		c->proxy->unnamed_of = c;
		hide(pg_pending_add(c, 'C'));
		return;
	}
	pg_buffer_add(&c->proxy->to_server, pg_buffer_front(&c->unnamed), pg_buffer_size(&c->unnamed));
	c->proxy->unnamed_of = c;
	hide(pg_pending_add(c, 'P'));
}

static void bind_portal(struct pg_client *c, const char *portal, const char *statement)
{
	const struct pg_known *known = pg_known_find(&c->statements, statement);
	int r = 0;

	pg_known_remove(&c->portals, portal);
	if (known)
		r = pg_known_put(&c->portals, portal, known->kind, known->text, known->text ? strlen(known->text) : 0);
	if (r == 0 && *portal)
		r = pg_names_add(&c->cursors, portal);
	if (r < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

static void bind(struct pg_client *c, const struct pg_message *m)
{
	struct pg_buffer *b = &c->proxy->to_server;
	struct pg_reader r = pg_reader_of(m);
	const char *portal = pg_reader_string(&r), *statement = pg_reader_string(&r);
	size_t begun;

	if (r.bad) {
		malformed(c);
		return;
	}
	if (!*statement)
		parse_again(c);
	if (pg_transaction_names_limit(r.at, (size_t)(r.end - r.at)))
		c->proxy->names_limits = true; /* a value for set_config($1, $2, false) */
	pg_pending_keep(c, pg_pending_add(c, 'B'), true, portal);
	bind_portal(c, portal, statement);
	begun = pg_message_begin(b, 'B');
	pg_message_add_string(b, portal);
	add_statement_name(c, statement);
	pg_buffer_add(b, r.at, (size_t)(r.end - r.at));
	pg_message_end(b, begun);
}

/* What is closed stands for nothing any more. */
static void forget(struct pg_client *c, bool of_portal, const char *name)
{
	pg_pending_keep(c, pg_pending_add(c, 'C'), of_portal, name);
	if (of_portal) {
		pg_known_remove(&c->portals, name);
		return;
	}
	pg_names_remove(&c->prepared, name);
	pg_known_remove(&c->statements, name);
	if (!*name)
		c->unnamed.start = c->unnamed.end = 0;
}

/* Describe and Close: a kind and a name. */
static void named(struct pg_client *c, const struct pg_message *m)
{
	struct pg_buffer *b = &c->proxy->to_server;
	struct pg_reader r = pg_reader_of(m);
	char kind = pg_reader_byte(&r);
	const char *name = pg_reader_string(&r);
	size_t begun;

	if (r.bad) {
		malformed(c);
		return;
	}
	if (kind == 'S' && m->type == 'D' && !*name)
		parse_again(c);
	if (m->type == 'C')
		forget(c, kind == 'P', name);
	else
		(void)pg_pending_add(c, 'D');
	begun = pg_message_begin(b, m->type);
	pg_message_add_byte(b, kind);
	if (kind == 'S')
		add_statement_name(c, name);
	else
		pg_message_add_string(b, name);
	pg_message_end(b, begun);
}

static struct pg_statement read_one(struct pg_client *c, const char *text)
{
	struct pg_statement s = { .kind = PG_MALFORMED };
	const char *why;
	struct pg_lexer l = pg_script_lexer(c, text, strlen(text), &why);

	if (!why)
		(void)pg_statement_next(&l, &s);
	return s;
}

void pg_extended_done(struct pg_client *c, const char *text)
{
	struct pg_statement s = read_one(c, text);

	pg_transaction_done(c, &s);
}

/* Whether it is for the proxy to carry out; else what it does is noted. */
static bool is_ours(struct pg_client *c, const struct pg_known *k, bool first)
{
	struct pg_statement s = { .kind = k->kind };

	if (k->text)
		s = read_one(c, k->text);
	if (k->text && pg_transaction_is_ours(c, &s, first))
		return true;
	pg_transaction_note(c, &s);
	return false;
}

/* PREPARE and DEALLOCATE change what a name stands for at their place among the messages, as Parse and Close do: the
 * client may have sent a Parse of the same name before their answer comes. */
static bool changes_name(struct pg_client *c, struct pg_pending *pending, const struct pg_known *known)
{
	struct pg_statement s;
	char name[PG_NAME_SIZE];

	if (known->kind != PG_PREPARE && known->kind != PG_DEALLOCATE)
		return false;
	s = read_one(c, known->text);
	if (pg_token_name(&s.name, name, sizeof(name)) && *name) {
		pg_pending_keep(c, pending, false, name);
		pg_transaction_done(c, &s);
	}
	return true;
}

static void pass_execute(struct pg_client *c, const struct pg_message *m, const struct pg_known *known)
{
	struct pg_buffer *b = &c->proxy->to_server;
	struct pg_pending *pending = pg_pending_add(c, 'E');

	pg_buffer_add(b, m->body - PG_HEADER_SIZE, m->size + PG_HEADER_SIZE);
	if (known && known->kind == PG_COPY) {
		c->asked = true; /* a server that wants data must not get anything else */
		pg_message_empty(b, 'H');
	}
	if (!known || !known->text || !pending || changes_name(c, pending, known))
		return;
	pending->text = strdup(known->text);
	if (!pending->text)
		pg_proxy_lose(c->proxy, "out of memory");
	if (c->broken && known->kind == PG_ROLLBACK_TO) {
		c->reviving = true;
		pg_message_empty(b, 'H');
	}
}

static void execute(struct pg_client *c, const struct pg_message *m)
{
	struct pg_buffer *b = &c->proxy->to_server;
	struct pg_reader r = pg_reader_of(m);
	const char *portal = pg_reader_string(&r);
	const struct pg_known *known = pg_known_find(&c->portals, portal);
	bool first;

	pg_reader_int32(&r);
	if (r.bad) {
		malformed(c);
		return;
	}
	/* Behind another Execute the newer servers regard the sequence as a transaction, as they do a string of several statements. */
	first = c->executed == 0 || c->proxy->version < PIPELINE_IS_BLOCK;
	if (!known || known->kind < PG_BEGIN || known->kind > PG_TWO_PHASE)
		c->executed++;
	if (!known || !is_ours(c, known, first)) {
		pass_execute(c, m, known);
		return;
	}
	pg_script_prepare(c, known->text);
	c->barrier = true;
	/* The server says whether the portal is still there: a ROLLBACK TO may have removed it. */
	pg_message_named(b, 'D', 'P', portal);
	hide(pg_pending_add(c, 'D'));
	pg_message_empty(b, 'H');
}

static void pass_sync(struct pg_client *c)
{
	if (c->copy_in)
		return; /* ignored by the server */
	pg_message_empty(&c->proxy->to_server, 'S');
	pg_group_add(c->proxy, c, NULL);
	c->unit = c->synced = true;
	c->skip_to_sync = false;
}

bool pg_extended_message(struct pg_client *c, const struct pg_message *m)
{
	switch (m->type) {
	case 'P':
		begin(c);
		parse(c, m);
		break;
	case 'B':
		begin(c);
		bind(c, m);
		break;
	case 'D':
	case 'C':
		begin(c);
		named(c, m);
		break;
	case 'E':
		begin(c);
		execute(c, m);
		break;
	case 'H':
		pg_message_empty(&c->proxy->to_server, 'H');
		break;
	default:
		pass_sync(c);
	}
	return true;
}

void pg_extended_drained(struct pg_client *c)
{
	pg_script_next(c);
}

void pg_extended_forget(struct pg_client *c)
{
	char mapped[PG_SERVER_NAME_SIZE];

	for (size_t i = 0; i < c->prepared.n; i++) {
		pg_extended_name(c, c->prepared.v[i], mapped);
		if (pg_names_push(&c->proxy->to_close, mapped) < 0)
			pg_proxy_lose(c->proxy, "out of memory");
	}
	pg_names_clear(&c->prepared);
	/* The unnamed one is not among those that DEALLOCATE ALL removes. */
	for (size_t i = c->statements.n; i-- > 0;)
		if (*c->statements.v[i].name)
			pg_known_remove(&c->statements, c->statements.v[i].name);
}
