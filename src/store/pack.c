/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers take seven bits to a byte, the lowest first, with the sign in the lowest bit of all; bytes follow their number plus one. */
#include "store/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 10

void pack_number(struct strbuf *out, int64_t value)
{
	uint64_t left = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
	unsigned char bytes[NUMBER_MAX];
	size_t n = 0;

	for (; left > 0x7f; left >>= 7)
		bytes[n++] = (unsigned char)(left | 0x80);
	bytes[n++] = (unsigned char)left;
	strbuf_add(out, bytes, n);
}

void pack_data(struct strbuf *out, const void *data, size_t size)
{
	pack_number(out, data ? (int64_t)size + 1 : 0);
	if (data)
		strbuf_add(out, data, size);
}

void pack_text(struct strbuf *out, const char *text)
{
	pack_data(out, text, text ? strlen(text) : 0);
}

/* An era takes the upper half of a number of 32 bits: records written before there were eras have 0 there, and a program that knows none
 * does not look. */
static void pack_with_era(struct strbuf *out, uint32_t number, int16_t era)
{
	pack_number(out, (int64_t)((uint64_t)(int64_t)era << 32 | number));
}

void pack_look(struct strbuf *out, const struct store_look *look)
{
	pack_data(out, look->id.data, look->id.size);
	pack_number(out, look->mode);
	pack_with_era(out, look->uid, look->mtime_era);
	pack_with_era(out, look->gid, look->atime_era);
	pack_number(out, (int64_t)look->size);
	pack_number(out, look->mtime);
	pack_number(out, look->atime);
}

static int64_t fail(struct unpack *u, int error)
{
	if (!u->failed)
		u->failed = error;
	u->at = u->end;
	return 0;
}

int64_t unpack_number(struct unpack *u)
{
	uint64_t value = 0;

	for (unsigned shift = 0; u->at < u->end && shift < 7 * NUMBER_MAX; shift += 7) {
		unsigned char byte = *u->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
	}
	return fail(u, -EBADMSG);
}

/* Borrowed: NULL for null, and for what is not whole. */
static const void *next_data(struct unpack *u, size_t *ret_size)
{
	int64_t size = unpack_number(u) - 1;
	const void *data = u->at;

	*ret_size = 0;
	if (size < 0)
		return NULL;
	if (size > u->end - u->at) {
		fail(u, -EBADMSG);
		return NULL;
	}
	u->at += size;
	*ret_size = (size_t)size;
	return data;
}

char *unpack_data(struct unpack *u, size_t *ret_size)
{
	const void *data = next_data(u, ret_size);
	char *copy = data ? malloc(*ret_size + 1) : NULL;

	if (data && !copy)
		fail(u, -ENOMEM);
	if (!copy)
		return NULL;
	memcpy(copy, data, *ret_size);
	copy[*ret_size] = 0;
	return copy;
}

char *unpack_text(struct unpack *u)
{
	size_t size;

	return unpack_data(u, &size);
}

static uint32_t unpack_with_era(struct unpack *u, int16_t *ret_era)
{
	uint64_t number = (uint64_t)unpack_number(u);

	*ret_era = (int16_t)(uint16_t)(number >> 32);
	return (uint32_t)number;
}

void unpack_look(struct unpack *u, struct store_look *ret)
{
	size_t size;
	const void *id = next_data(u, &size);

	*ret = (struct store_look){ 0 };
	if (size > TREE_ID_MAX) {
		fail(u, -EBADMSG);
		return;
	}
	ret->id.size = (uint8_t)size;
	if (size)
		memcpy(ret->id.data, id, size);
	ret->mode = (uint32_t)unpack_number(u);
	ret->uid = unpack_with_era(u, &ret->mtime_era);
	ret->gid = unpack_with_era(u, &ret->atime_era);
	ret->size = (uint64_t)unpack_number(u);
	ret->mtime = unpack_number(u);
	ret->atime = unpack_number(u);
}
