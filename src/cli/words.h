/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of a line that the user typed. Blanks separate words. Quotes and backslashes work as in a
 * shell, except that a word in double quotes may hold the escapes with which listings write
 * unusual names: "a\tb\303".
 */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <stddef.h>

#include "base/macros.h"

struct words {
	char **v; /* ended by NULL */
	size_t n;
};

/* Returns 0; -EINVAL if a quote is not closed or a backslash stands at the end; or -ENOMEM. */
int words_split(const char *line, struct words *ret);
void words_release(struct words *w);

/* Decodes a name that a listing has written in double quotes; text begins with the quote. Returns
 * the malloc'ed name, and behind the closing quote in *ret_end; or NULL. */
char *words_unquote(const char *text, const char **ret_end);

#define AUTO_WORDS CLEANUP(words_release) struct words

#endif
