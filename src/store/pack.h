/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many records of one kind in one byte string, value after value. A row of its own costs each of them more than all that is done
 * with it, and nobody asks for a single one: steps, touches and stamps are read and written as lists.
 */
#ifndef STORE_PACK_H
#define STORE_PACK_H

#include "base/strbuf.h"
#include "store/store.h"

void pack_number(struct strbuf *out, int64_t value);
void pack_data(struct strbuf *out, const void *data, size_t size); /* NULL is told from nothing */
void pack_text(struct strbuf *out, const char *text);
void pack_look(struct strbuf *out, const struct store_look *look);

/* What is left of a string. The first value that is not whole is remembered; all that follow are zero or NULL. */
struct unpack {
	const unsigned char *at, *end;
	int failed; /* 0, -EBADMSG or -ENOMEM */
};
int64_t unpack_number(struct unpack *u);
char *unpack_data(struct unpack *u, size_t *ret_size); /* malloc'ed, NUL behind it */
char *unpack_text(struct unpack *u);
void unpack_look(struct unpack *u, struct store_look *ret);

#endif
