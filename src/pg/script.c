/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query string, statement by statement. What has nothing to do with transactions is passed on in as large pieces as possible, mostly
 * the whole; the rest is carried out by the proxy (transaction.c), in its place.
 */
#include <string.h>

#include "pg/private.h"

/* Second bytes of characters look like ASCII there, a backslash for one. The server allows them to clients only. */
static bool is_unsafe_encoding(const char *name)
{
	static const char *const unsafe[] = { "SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004" };

	for (size_t i = 0; i < ARRAY_SIZE(unsafe); i++)
		if (strcasecmp(name, unsafe[i]) == 0)
			return true;
	return false;
}

static bool is_ascii(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

const char *pg_script_parameter(const struct pg_proxy *p, const char *name)
{
	for (size_t i = 0; i < p->parameters.n; i++)
		if (strcmp(p->parameters.v[i].key, name) == 0)
			return p->parameters.v[i].sql;
	return "";
}

struct pg_lexer pg_script_lexer(const struct pg_client *c, const char *text, size_t size, const char **ret_why)
{
	struct pg_lexer l = { .at = text, .end = text + size };

	l.backslashes = strcmp(pg_script_parameter(c->proxy, "standard_conforming_strings"), "off") == 0;
	*ret_why = NULL;
	if (is_unsafe_encoding(pg_script_parameter(c->proxy, "client_encoding")) && !is_ascii(text, size))
		*ret_why = "a client encoding that is not a superset of ASCII byte by byte is not served; use UTF8";
	return l;
}

static struct pg_statement *add(struct pg_script *s)
{
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? s->capacity * 2 : 8;
		struct pg_statement *v = reallocarray(s->v, capacity, sizeof(*v));

		if (!v)
			return NULL;
		s->v = v;
		s->capacity = capacity;
	}
	return &s->v[s->n++];
}

/* Without a statement there is one all the same: the server answers an empty query in its own way. */
static int read_text(struct pg_client *c, const char *text, size_t size)
{
	struct pg_script *s = &c->proxy->script;
	struct pg_statement one, *to;
	struct pg_lexer l;

	s->n = s->at = s->done = 0;
	strbuf_truncate(&s->text, 0);
	strbuf_add(&s->text, text, size);
	if (s->text.failed)
		return -ENOMEM;
	l = pg_script_lexer(c, strbuf_str(&s->text), size, &s->unreadable);
	s->backslashes = l.backslashes;
	while (pg_statement_next(&l, &one)) {
		to = add(s);
		if (!to)
			return -ENOMEM;
		*to = one;
	}
	if (s->n == 0) {
		to = add(s);
		if (!to)
			return -ENOMEM;
		*to = (struct pg_statement){ .text = strbuf_str(&s->text) + size };
	}
	if (l.ambiguous && !s->unreadable)
		s->unreadable = "trailing junk after numeric literal, or a string that follows a bit string";
	return 0;
}

static void malformed(struct pg_client *c)
{
	static const struct pg_report report = { .severity = "FATAL",
						 .state = "08P01",
						 .message = "invalid message format" };

	pg_client_fatal(c, &report);
}

void pg_script_query(struct pg_client *c, const struct pg_message *m)
{
	size_t size = strnlen(m->body, m->size);

	if (size + 1 != m->size) {
		malformed(c);
		return;
	}
	c->unit = c->synced = true;
	c->unnamed.start = c->unnamed.end = 0;
	pg_known_remove(&c->statements, "");
	if (c->proxy->unnamed_of == c)
		c->proxy->unnamed_of = NULL; /* the server still has it if nothing of the string is sent */
	c->stale_portal = c->stale_portal || c->dirty;
	c->proxy->script.extended = false;
	if (read_text(c, m->body, size) < 0)
		pg_proxy_lose(c->proxy, "out of memory");
	else
		pg_script_next(c);
}

void pg_script_prepare(struct pg_client *c, const char *text)
{
	c->proxy->script.extended = true;
	if (read_text(c, text, strlen(text)) < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

/* A name of the client's own for a prepared statement. */
static void add_name(const struct pg_client *c, struct pg_buffer *b, const struct pg_token *token)
{
	char name[PG_NAME_SIZE], mapped[PG_SERVER_NAME_SIZE];

	if (!pg_token_name(token, name, sizeof(name))) {
		pg_buffer_add(b, token->text, token->size);
		return;
	}
	pg_extended_name(c, name, mapped);
	pg_buffer_add(b, "\"", 1);
	for (const char *p = mapped; *p; p++)
		pg_buffer_add(b, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
	pg_buffer_add(b, "\"", 1);
}

void pg_script_add_text(const struct pg_client *c, struct pg_buffer *b, const struct pg_statement *s)
{
	bool named = s->kind == PG_PREPARE || s->kind == PG_EXECUTE || s->kind == PG_DEALLOCATE;
	const char *rest = s->text;

	if (named) {
		pg_buffer_add(b, s->text, (size_t)(s->name.text - s->text));
		add_name(c, b, &s->name);
		rest = s->name.text + s->name.size;
	}
	pg_buffer_add(b, rest, (size_t)(s->text + s->size - rest));
}

static size_t count_characters(const char *from, const char *to)
{
	size_t n = 0;

	for (; from < to; from++)
		n += ((unsigned char)*from & 0xc0) != 0x80;
	return n;
}

/* Statements from..to of the script, with what stands between them. */
static void add_piece(struct pg_client *c, size_t from, size_t to)
{
	struct pg_script *s = &c->proxy->script;
	struct pg_buffer *b = &c->proxy->to_server;
	const char *text = strbuf_str(&s->text), *at = from == 0 ? text : s->v[from].text;

	c->shift = count_characters(text, at);
	for (size_t i = from; i < to; i++) {
		pg_buffer_add(b, at, (size_t)(s->v[i].text - at));
		pg_script_add_text(c, b, &s->v[i]);
		at = s->v[i].text + s->v[i].size;
	}
	if (to == s->n)
		pg_buffer_add(b, at, (size_t)(text + s->text.size - at));
	pg_message_add_byte(b, 0);
}

/* By Parse the server takes one statement only: it shall judge where a body ends. */
static void send_single(struct pg_client *c, size_t at)
{
	struct pg_buffer *b = &c->proxy->to_server;
	size_t begun = pg_message_begin(b, 'P');

	pg_message_add_string(b, "");
	add_piece(c, at, at + 1);
	pg_message_add_int16(b, 0);
	pg_message_end(b, begun);
	pg_message_run(b, "", "");
	pg_message_empty(b, 'S');
	c->quiet_parse = true;
}

static void send_piece(struct pg_client *c, size_t from, size_t to)
{
	struct pg_proxy *p = c->proxy;

	pg_transaction_guard(c);
	if (p->script.v[from].body) {
		send_single(c, from);
	} else {
		size_t begun = pg_message_begin(&p->to_server, 'Q');

		c->stale_portal = false;
		add_piece(c, from, to);
		pg_message_end(&p->to_server, begun);
	}
	p->unnamed_of = NULL;
	c->dirty = true;
	pg_group_add(p, c, NULL);
}

static void end(struct pg_client *c)
{
	struct pg_script *s = &c->proxy->script;

	s->n = s->at = s->done = 0;
	if (s->text.capacity > PG_HIGH_WATER)
		strbuf_release(&s->text);
	if (!s->extended) {
		pg_unit_end(c);
		return;
	}
	c->barrier = false;
	c->skip_to_sync = c->failed;
	if (c->gone)
		pg_client_leave(c);
}

/* What was read under other settings than those with which the server will read it could be read otherwise. */
static void check_rules(struct pg_client *c)
{
	struct pg_script *s = &c->proxy->script;
	const char *why;
	struct pg_lexer now;

	if (s->at == 0 || s->unreadable)
		return;
	now = pg_script_lexer(c, strbuf_str(&s->text), s->text.size, &why);
	if (now.backslashes != s->backslashes)
		why = "standard_conforming_strings cannot be changed in the middle of a string with transaction commands";
	s->unreadable = why;
}

static void note(struct pg_client *c, const struct pg_statement *s)
{
	pg_transaction_note(c, s);
	if (pg_transaction_names_limit(s->text, s->size))
		c->proxy->names_limits = true;
}

void pg_script_next(struct pg_client *c)
{
	struct pg_script *s = &c->proxy->script;
	size_t from = s->at, to = from;
	bool alone = s->n == 1;

	if (c->failed || from == s->n) {
		end(c);
		return;
	}
	check_rules(c);
	if (s->unreadable) {
		struct pg_report report = { .severity = "ERROR", .state = "42601", .message = s->unreadable };

		pg_transaction_refuse(c, &report);
		return;
	}
	if (pg_transaction_is_ours(c, &s->v[from], alone)) {
		s->done = ++s->at;
		pg_transaction_run(c, &s->v[from]);
		return;
	}
	/* In a failed transaction one at a time: a ROLLBACK TO changes what the next one means. */
	while (to < s->n && (to == from || !(c->broken || s->v[from].body || s->v[to].body)) &&
	       !pg_transaction_is_ours(c, &s->v[to], alone))
		note(c, &s->v[to++]);
	s->done = from;
	s->at = to;
	send_piece(c, from, to);
}

void pg_script_done(struct pg_client *c)
{
	struct pg_script *s = &c->proxy->script;

	if (s->done < s->at && !s->extended)
		pg_transaction_done(c, &s->v[s->done++]);
}

bool pg_script_keep_tag(struct pg_client *c, const char *tag, size_t size)
{
	const struct pg_script *s = &c->proxy->script;

	if (s->n == 0 || s->done < s->n || s->extended || c->in_block || size > sizeof(c->last_tag))
		return false;
	memcpy(c->last_tag, tag, size);
	return true;
}
