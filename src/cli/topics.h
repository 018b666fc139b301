/* SPDX-License-Identifier: Apache-2.0 */
/* The topics of help and man pages beside the commands: exit codes, strategies, presets of --net,
 * hidden paths and variables, environment, files, kinds of changes, answers to the question after a
 * run. */
#ifndef CLI_TOPICS_H
#define CLI_TOPICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* One line of a table: a term, and what there is to say about it. */
struct topic_row {
	char term[48];
	char text[256];
};

struct topic {
	const char *name;                             /* as in atoll help NAME */
	const char *title;                            /* as heading of a man page's section */
	const char *opening;                          /* a sentence before the table */
	bool (*row)(size_t i, struct topic_row *ret); /* false past the end */
	bool on_each_page;                            /* in the man page of every command, not only in atoll(1) */
};

const struct topic *topics_at(size_t i); /* NULL past the end */
const struct topic *topics_find(const char *name);

#endif
