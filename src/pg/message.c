/* SPDX-License-Identifier: Apache-2.0 */
#include "pg/message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static uint32_t read_length(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

static int peek(const struct pg_buffer *b, size_t type_size, size_t limit, struct pg_message *ret)
{
	uint32_t length;

	if (pg_buffer_size(b) < type_size + 4)
		return 0;
	length = read_length(pg_buffer_front(b) + type_size);
	if (length < 4 || length > INT32_MAX)
		return -EPROTO;
	if (length - 4 > limit)
		return -EMSGSIZE;
	*ret = (struct pg_message){ .type = type_size > 0 ? *pg_buffer_front(b) : 0, .size = length - 4 };
	if (pg_buffer_size(b) < type_size + length)
		return 0;
	ret->body = pg_buffer_front(b) + type_size + 4;
	return 1;
}

int pg_message_peek(const struct pg_buffer *b, size_t limit, struct pg_message *ret)
{
	*ret = (struct pg_message){ 0 };
	return peek(b, 1, limit, ret);
}

int pg_message_peek_startup(const struct pg_buffer *b, size_t limit, struct pg_message *ret)
{
	*ret = (struct pg_message){ 0 };
	return peek(b, 0, limit, ret);
}

void pg_message_consume(struct pg_buffer *b, const struct pg_message *m)
{
	pg_buffer_consume(b, m->size + 4 + (m->type ? 1 : 0));
}

struct pg_reader pg_reader_of(const struct pg_message *m)
{
	return (struct pg_reader){ .at = m->body, .end = m->body + m->size };
}

const char *pg_reader_string(struct pg_reader *r)
{
	const char *text = r->at, *nul = r->bad ? NULL : memchr(r->at, 0, (size_t)(r->end - r->at));

	if (!nul) {
		r->bad = true;
		return "";
	}
	r->at = nul + 1;
	return text;
}

static bool take(struct pg_reader *r, void *to, size_t size)
{
	if (r->bad || (size_t)(r->end - r->at) < size) {
		r->bad = true;
		return false;
	}
	memcpy(to, r->at, size);
	r->at += size;
	return true;
}

int32_t pg_reader_int32(struct pg_reader *r)
{
	uint32_t value;

	return take(r, &value, sizeof(value)) ? (int32_t)ntohl(value) : 0;
}

int16_t pg_reader_int16(struct pg_reader *r)
{
	uint16_t value;

	return (int16_t)(take(r, &value, sizeof(value)) ? ntohs(value) : 0);
}

char pg_reader_byte(struct pg_reader *r)
{
	char value;

	return (char)(take(r, &value, sizeof(value)) ? value : 0);
}

size_t pg_message_begin(struct pg_buffer *b, char type)
{
	size_t begun = pg_buffer_size(b);

	pg_message_add_byte(b, type);
	pg_message_add_int32(b, 0);
	return begun;
}

void pg_message_end(struct pg_buffer *b, size_t begun)
{
	uint32_t length = htonl((uint32_t)(pg_buffer_size(b) - begun - 1));

	if (!b->failed)
		memcpy(b->data + b->start + begun + 1, &length, sizeof(length));
}

void pg_message_add_string(struct pg_buffer *b, const char *text)
{
	pg_buffer_add(b, text, strlen(text) + 1);
}

void pg_message_add_text(struct pg_buffer *b, const char *text, size_t size)
{
	pg_buffer_add(b, text, size);
	pg_message_add_byte(b, 0);
}

void pg_message_add_int32(struct pg_buffer *b, int32_t value)
{
	uint32_t net = htonl((uint32_t)value);

	pg_buffer_add(b, &net, sizeof(net));
}

void pg_message_add_int16(struct pg_buffer *b, int16_t value)
{
	uint16_t net = htons((uint16_t)value);

	pg_buffer_add(b, &net, sizeof(net));
}

void pg_message_add_byte(struct pg_buffer *b, char value)
{
	pg_buffer_add(b, &value, 1);
}

void pg_message_empty(struct pg_buffer *b, char type)
{
	pg_message_end(b, pg_message_begin(b, type));
}

void pg_message_text(struct pg_buffer *b, char type, const char *text)
{
	size_t begun = pg_message_begin(b, type);

	pg_message_add_string(b, text);
	pg_message_end(b, begun);
}

void pg_message_ready(struct pg_buffer *b, char status)
{
	size_t begun = pg_message_begin(b, 'Z');

	pg_message_add_byte(b, status);
	pg_message_end(b, begun);
}

void pg_message_named(struct pg_buffer *b, char type, char kind, const char *name)
{
	size_t begun = pg_message_begin(b, type);

	pg_message_add_byte(b, kind);
	pg_message_add_string(b, name);
	pg_message_end(b, begun);
}

void pg_message_parameter(struct pg_buffer *b, const char *name, const char *value)
{
	size_t begun = pg_message_begin(b, 'S');

	pg_message_add_string(b, name);
	pg_message_add_string(b, value);
	pg_message_end(b, begun);
}

void pg_message_run(struct pg_buffer *b, const char *portal, const char *statement)
{
	size_t begun = pg_message_begin(b, 'B');

	pg_message_add_string(b, portal);
	pg_message_add_string(b, statement);
	pg_message_add_int16(b, 0);
	pg_message_add_int16(b, 0);
	pg_message_add_int16(b, 0);
	pg_message_end(b, begun);
	begun = pg_message_begin(b, 'E');
	pg_message_add_string(b, portal);
	pg_message_add_int32(b, 0);
	pg_message_end(b, begun);
}

static void add_field(struct pg_buffer *b, char field, const char *value)
{
	if (!value)
		return;
	pg_message_add_byte(b, field);
	pg_message_add_string(b, value);
}

void pg_message_report(struct pg_buffer *b, char type, const struct pg_report *report)
{
	size_t begun = pg_message_begin(b, type);

	add_field(b, 'S', report->severity);
	add_field(b, 'V', report->severity);
	add_field(b, 'C', report->state);
	add_field(b, 'M', report->message);
	add_field(b, 'D', report->detail);
	add_field(b, 'H', report->hint);
	pg_message_add_byte(b, 0);
	pg_message_end(b, begun);
}

const char *pg_message_field(const struct pg_message *m, char field)
{
	struct pg_reader r = pg_reader_of(m);
	char code;

	while ((code = pg_reader_byte(&r)) != 0) {
		const char *value = pg_reader_string(&r);

		if (code == field && !r.bad)
			return value;
	}
	return "";
}
