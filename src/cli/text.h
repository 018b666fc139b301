/* SPDX-License-Identifier: Apache-2.0 */
/* The content of one side of a change, in memory. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

#define TEXT_MAX ((size_t)256 << 20) /* longer texts are named, not shown */
#define TEXT_PROBE 8000              /* a NUL among the first bytes makes it binary, as with git */

struct text {
	char *data;
	size_t size;
	bool is_binary; /* data is then incomplete */
	bool is_large;  /* likewise */
};

/* Reads fd, which it closes; -ENOENT as fd gives an empty text. 0 or -errno. */
int text_read(int fd, struct text *ret);
void text_release(struct text *t);

#define AUTO_TEXT CLEANUP(text_release) struct text

#endif
