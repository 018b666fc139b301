/* SPDX-License-Identifier: Apache-2.0 */
#include "pg/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define FIRST_SIZE ((size_t)16 << 10)
#define KEPT_SIZE ((size_t)256 << 10) /* an empty buffer larger than this is freed */

static void make_front_free(struct pg_buffer *b)
{
	size_t size = pg_buffer_size(b);

	if (b->start == 0)
		return;
	memmove(b->data, b->data + b->start, size);
	b->start = 0;
	b->end = size;
}

char *pg_buffer_reserve(struct pg_buffer *b, size_t size)
{
	size_t wanted, capacity = MAX(b->capacity, FIRST_SIZE);
	char *data;

	if (b->failed)
		return NULL;
	if (b->capacity - b->end >= size && b->data)
		return b->data + b->end;
	/* Moving pays only where it makes half of the room free; else a slow reader would have everything moved again and again. */
	if (b->start >= b->capacity / 2 && b->data)
		make_front_free(b);
	if (__builtin_add_overflow(b->end, size, &wanted)) {
		b->failed = true;
		return NULL;
	}
	while (capacity < wanted)
		capacity = capacity > wanted / 2 ? capacity * 2 : wanted;
	if (capacity > b->capacity) {
		data = realloc(b->data, capacity);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->capacity = capacity;
	}
	return b->data + b->end;
}

void pg_buffer_add(struct pg_buffer *b, const void *data, size_t size)
{
	char *to = size > 0 ? pg_buffer_reserve(b, size) : NULL;

	if (!to)
		return;
	memcpy(to, data, size);
	b->end += size;
}

void pg_buffer_consume(struct pg_buffer *b, size_t size)
{
	b->start += size;
	if (b->start < b->end)
		return;
	b->start = b->end = 0;
	if (b->capacity > KEPT_SIZE)
		pg_buffer_release(b);
}

void pg_buffer_release(struct pg_buffer *b)
{
	free(b->data);
	*b = (struct pg_buffer){ .failed = b->failed };
}
