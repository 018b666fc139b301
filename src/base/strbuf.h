/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte string, NUL-terminated. The first failed allocation is remembered; appends then do nothing. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct strbuf {
	char *data; /* NULL while empty and unallocated */
	size_t size, capacity;
	bool failed;
};
#define STRBUF_INIT \
	{           \
		0   \
	}

void strbuf_release(struct strbuf *s);
void strbuf_add(struct strbuf *s, const void *data, size_t size);
void strbuf_adds(struct strbuf *s, const char *text);
void strbuf_addc(struct strbuf *s, char c);
void strbuf_addf(struct strbuf *s, const char *format, ...) PRINTF_LIKE(2, 3);
void strbuf_truncate(struct strbuf *s, size_t size); /* to at most size */
const char *strbuf_str(const struct strbuf *s);      /* never NULL */
char *strbuf_take(struct strbuf *s);                 /* malloc'ed, NULL if an allocation failed; s is empty after */

/* Path building: sets s to its first `base` bytes plus "/" (if base > 0) plus name. Used by walkers. */
void strbuf_set_child(struct strbuf *s, size_t base, const char *name);

/* Bytes as people and terminals can take them: control characters, backslash, quotes and invalid UTF-8 become \n, \", \xNN. */
void strbuf_add_quoted(struct strbuf *s, const char *text);
char *str_quote(const char *text); /* malloc'ed, without surrounding quotes */

char *str_format(const char *format, ...) PRINTF_LIKE(1, 2); /* malloc'ed or NULL */

#define AUTO_STRBUF CLEANUP(strbuf_release) struct strbuf

#endif
