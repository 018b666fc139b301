/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>

#include "base/utf8.h"

void json_init(struct json *j, FILE *out, bool pretty)
{
	*j = (struct json){ .out = out, .pretty = pretty };
}

static void json_text(struct json *j, const char *text)
{
	static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

	fputc('"', j->out);
	while (*text) {
		uint32_t c = 0;
		size_t size = utf8_decode(text, &c);
		const char *e = escaped;

		while (*e && *e != *text)
			e++;
		if (*e)
			fprintf(j->out, "\\%c", letters[e - escaped]);
		else if (size == 0)
			fprintf(j->out, "\\udc%02x", (unsigned)(unsigned char)*text);
		else if (utf8_printable(text) == 0) /* these characters are all below U+10000: one escape */
			fprintf(j->out, "\\u%04x", (unsigned)c);
		else
			fwrite(text, 1, size, j->out);
		text += size > 0 ? size : 1;
	}
	fputc('"', j->out);
}

static void json_line(struct json *j)
{
	if (!j->pretty)
		return;
	fputc('\n', j->out);
	for (int i = 0; i < j->depth; i++)
		fputs("  ", j->out);
}

/* Everything that stands before a value: the comma after the one before it, and the key. */
static void json_before(struct json *j, const char *key)
{
	uint64_t bit = UINT64_C(1) << j->depth;

	if (j->has_items & bit)
		fputc(',', j->out);
	j->has_items |= bit;
	if (j->depth > 0)
		json_line(j);
	if (key) {
		json_text(j, key);
		fputs(j->pretty ? ": " : ":", j->out);
	}
}

static void json_open(struct json *j, const char *key, char bracket)
{
	json_before(j, key);
	fputc(bracket, j->out);
	assert(j->depth < 63);
	j->depth++;
	j->has_items &= ~(UINT64_C(1) << j->depth);
}

static void json_close(struct json *j, char bracket)
{
	bool empty = !(j->has_items & UINT64_C(1) << j->depth);

	assert(j->depth > 0);
	j->depth--;
	if (!empty)
		json_line(j);
	fputc(bracket, j->out);
}

void json_object(struct json *j, const char *key)
{
	json_open(j, key, '{');
}

void json_object_end(struct json *j)
{
	json_close(j, '}');
}

void json_array(struct json *j, const char *key)
{
	json_open(j, key, '[');
}

void json_array_end(struct json *j)
{
	json_close(j, ']');
}

void json_string(struct json *j, const char *key, const char *value)
{
	if (!value) {
		json_null(j, key);
		return;
	}
	json_before(j, key);
	json_text(j, value);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	json_before(j, key);
	fprintf(j->out, "%lld", (long long)value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_before(j, key);
	fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
	json_before(j, key);
	fputs("null", j->out);
}

void json_finish(struct json *j)
{
	assert(j->depth == 0);
	fputc('\n', j->out);
	j->has_items = 0;
}
