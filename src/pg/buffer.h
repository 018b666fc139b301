/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way: added at the end, taken from the front. The first failed allocation is remembered, appends then do nothing. */
#ifndef PG_BUFFER_H
#define PG_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct pg_buffer {
	char *data;
	size_t start, end, capacity;
	bool failed;
};

static inline size_t pg_buffer_size(const struct pg_buffer *b)
{
	return b->end - b->start;
}
static inline const char *pg_buffer_front(const struct pg_buffer *b)
{
	return b->data + b->start;
}
/* Room for at least size more bytes at the end; NULL and failed without memory. Whoever fills it adds to b->end. */
char *pg_buffer_reserve(struct pg_buffer *b, size_t size);
void pg_buffer_add(struct pg_buffer *b, const void *data, size_t size);
/* Takes size bytes from the front. A large buffer that is empty gives its memory back. */
void pg_buffer_consume(struct pg_buffer *b, size_t size);
void pg_buffer_release(struct pg_buffer *b);

#endif
