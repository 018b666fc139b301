/* SPDX-License-Identifier: Apache-2.0 */
/* File names in listings: as they are where that is unambiguous and harmless, else in double quotes with C escapes, as
 * git writes them (with core.quotePath off: valid UTF-8 is not unusual). */
#ifndef CLI_QUOTE_H
#define CLI_QUOTE_H

#include <stdbool.h>

#include "base/strbuf.h"

bool quote_is_needed(const char *name);
/* prefix and suffix ("a/", "/") go inside the quotes; both may be "". */
void quote_name(struct strbuf *s, const char *prefix, const char *name, const char *suffix);

/* A line of prose that may name files: only what a terminal should not see is escaped. */
void quote_prose(struct strbuf *s, const char *text);

#endif
