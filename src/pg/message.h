/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the PostgreSQL protocol, version 3: a type byte, a length that counts itself, a body. Only the first message of a client has no
 * type. What comes from a client is read with struct pg_reader, which cannot be led past the end: it remembers that something was
 * missing, and gives zeros and empty strings from then on.
 */
#ifndef PG_MESSAGE_H
#define PG_MESSAGE_H

#include <stdint.h>

#include "pg/buffer.h"

#define PG_HEADER_SIZE 5

struct pg_message {
	char type;
	const char *body; /* of size bytes; points into the buffer */
	size_t size;
};

/* The message at the front: 1 if it is complete, 0 if more is to come (then *ret has type and size, and no body), -EPROTO if the length is
 * impossible, -EMSGSIZE if the body is larger than limit. */
int pg_message_peek(const struct pg_buffer *b, size_t limit, struct pg_message *ret);
/* The same for a message without type. */
int pg_message_peek_startup(const struct pg_buffer *b, size_t limit, struct pg_message *ret);
void pg_message_consume(struct pg_buffer *b, const struct pg_message *m);

struct pg_reader {
	const char *at, *end;
	bool bad;
};
struct pg_reader pg_reader_of(const struct pg_message *m);
const char *pg_reader_string(struct pg_reader *r); /* never NULL */
int32_t pg_reader_int32(struct pg_reader *r);
int16_t pg_reader_int16(struct pg_reader *r);
char pg_reader_byte(struct pg_reader *r);

/* Writing one: begin, add what is in it, end. */
size_t pg_message_begin(struct pg_buffer *b, char type);
void pg_message_end(struct pg_buffer *b, size_t begun);
void pg_message_add_string(struct pg_buffer *b, const char *text);
void pg_message_add_text(struct pg_buffer *b, const char *text, size_t size); /* and a NUL */
void pg_message_add_int32(struct pg_buffer *b, int32_t value);
void pg_message_add_int16(struct pg_buffer *b, int16_t value);
void pg_message_add_byte(struct pg_buffer *b, char value);

/* Whole ones. */
void pg_message_empty(struct pg_buffer *b, char type);                  /* Sync, Flush, CopyDone … */
void pg_message_text(struct pg_buffer *b, char type, const char *text); /* Query, CommandComplete, CopyFail */
void pg_message_ready(struct pg_buffer *b, char status);                /* ReadyForQuery */
void pg_message_named(struct pg_buffer *b, char type, char kind, const char *name); /* Close, Describe */
void pg_message_parameter(struct pg_buffer *b, const char *name, const char *value);
void pg_message_run(struct pg_buffer *b, const char *portal, const char *statement); /* Bind and Execute */

/* What the server would say itself: ErrorResponse or NoticeResponse. */
struct pg_report {
	const char *severity; /* "ERROR", "FATAL", "WARNING" */
	const char *state;    /* SQLSTATE */
	const char *message;
	const char *detail, *hint; /* or NULL */
};
void pg_message_report(struct pg_buffer *b, char type, const struct pg_report *report);
/* One field of an ErrorResponse ('M', 'C', 'S' …), or "". */
const char *pg_message_field(const struct pg_message *m, char field);

#endif
