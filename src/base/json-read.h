/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON (RFC 8259) into a tree, of which each value knows its line, for files that people write. Numbers are kept as far as
 * they are whole and not negative: nothing read here has others.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
	enum json_type type;
	unsigned line;
	char *key;                        /* of a member of an object, else NULL */
	char *text;                       /* of a string, without NUL bytes */
	uint64_t number;                  /* of a number; 1 for true */
	bool whole;                       /* a number that is whole, not negative and not too great */
	struct json_value *first, **last; /* of an array or object: in the order in which they stand there */
	struct json_value *next;
};

struct json_mistake {
	unsigned line;
	const char *text; /* one clause, for people */
};

/* 0, -EINVAL with *mistake, or -ENOMEM. text ends with NUL. */
int json_read(const char *text, struct json_value **ret, struct json_mistake *mistake);
struct json_value *json_value_free(struct json_value *v); /* returns NULL */
/* The member of that name, or NULL; the first of several. */
const struct json_value *json_member(const struct json_value *object, const char *key);

#endif
