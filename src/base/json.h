/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON to a stream, one value at a time, and keeps track of commas and nesting. File names
 * are bytes: valid UTF-8 is written as is, any other byte as U+DC80..U+DCFF escapes (\udc80…, as
 * Python's surrogateescape does), so that a reader can restore every name exactly. Characters that
 * a terminal would obey (C0, C1, changes of writing direction) are always written as \uXXXX: a
 * reader gets the same string, and a terminal sees plain ASCII.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	int depth;
	uint64_t has_items; /* bit per level: a comma is due */
	bool pretty;
};

void json_init(struct json *j, FILE *out, bool pretty);
void json_object(struct json *j, const char *key); /* key NULL inside arrays and at the top */
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL gives null */
void json_int(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_finish(struct json *j); /* final newline */

#endif
