/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json-read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define DEPTH_MAX 32

struct reader {
	const char *at;
	unsigned line;
	int depth;
	struct json_mistake *mistake;
};

static int read_value(struct reader *r, struct json_value *v);

struct json_value *json_value_free(struct json_value *v)
{
	while (v) {
		struct json_value *next = v->next;

		json_value_free(v->first);
		free(v->key);
		free(v->text);
		free(v);
		v = next;
	}
	return NULL;
}

const struct json_value *json_member(const struct json_value *object, const char *key)
{
	for (const struct json_value *v = object ? object->first : NULL; v; v = v->next)
		if (v->key && strcmp(v->key, key) == 0)
			return v;
	return NULL;
}

static int wrong(struct reader *r, const char *text)
{
	*r->mistake = (struct json_mistake){ r->line, text };
	return -EINVAL;
}

static void skip_blanks(struct reader *r)
{
	for (; *r->at && strchr(" \t\r\n", *r->at); r->at++)
		r->line += *r->at == '\n';
}

static bool take(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static int read_hex(struct reader *r, unsigned *ret)
{
	char digits[5] = { 0 };

	for (int i = 0; i < 4; i++) {
		if (!r->at[i] || !strchr("0123456789abcdefABCDEF", r->at[i]))
			return wrong(r, "four hexadecimal digits are missing after \\u");
		digits[i] = r->at[i];
	}
	*ret = (unsigned)strtoul(digits, NULL, 16);
	r->at += 4;
	return 0;
}

static void add_utf8(struct strbuf *s, unsigned c)
{
	if (c < 0x80) {
		strbuf_addc(s, (char)c);
	} else if (c < 0x800) {
		strbuf_addc(s, (char)(0xc0 | c >> 6));
		strbuf_addc(s, (char)(0x80 | (c & 0x3f)));
	} else {
		if (c >= 0x10000) {
			strbuf_addc(s, (char)(0xf0 | c >> 18));
			strbuf_addc(s, (char)(0x80 | (c >> 12 & 0x3f)));
		} else {
			strbuf_addc(s, (char)(0xe0 | c >> 12));
		}
		strbuf_addc(s, (char)(0x80 | (c >> 6 & 0x3f)));
		strbuf_addc(s, (char)(0x80 | (c & 0x3f)));
	}
}

/* After "\u": one character, or two halves of one. */
static int read_unicode(struct reader *r, struct strbuf *s)
{
	unsigned c, low;
	int rc = read_hex(r, &c);

	if (rc < 0)
		return rc;
	if (c >= 0xd800 && c < 0xdc00) {
		if (strncmp(r->at, "\\u", 2) != 0)
			return wrong(r, "half a character");
		r->at += 2;
		rc = read_hex(r, &low);
		if (rc < 0)
			return rc;
		if (low < 0xdc00 || low > 0xdfff)
			return wrong(r, "half a character");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c >= 0xdc00 && c <= 0xdfff) {
		return wrong(r, "half a character");
	}
	if (c == 0)
		return wrong(r, "a NUL character");
	add_utf8(s, c);
	return 0;
}

static int read_escape(struct reader *r, struct strbuf *s)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found = *r->at ? strchr(from, *r->at) : NULL;

	if (*r->at == 'u') {
		r->at++;
		return read_unicode(r, s);
	}
	if (!found)
		return wrong(r, "an unknown escape in a string");
	r->at++;
	strbuf_addc(s, to[found - from]);
	return 0;
}

/* After the first quote. */
static int read_string(struct reader *r, char **ret)
{
	AUTO_STRBUF s = STRBUF_INIT;
	int rc = 0;

	while (rc == 0 && *r->at != '"') {
		if (!*r->at || *r->at == '\n')
			return wrong(r, "a string does not end");
		if ((unsigned char)*r->at < 0x20)
			return wrong(r, "a control character in a string");
		if (*r->at == '\\') {
			r->at++;
			rc = read_escape(r, &s);
		} else {
			strbuf_addc(&s, *r->at++);
		}
	}
	if (rc < 0)
		return rc;
	r->at++;
	strbuf_adds(&s, "");
	*ret = s.failed ? NULL : s.data ? strbuf_take(&s) : strdup("");
	return *ret ? 0 : -ENOMEM;
}

/* Moves behind at least one digit. */
static bool skip_digits(struct reader *r)
{
	size_t n = strspn(r->at, "0123456789");

	r->at += n;
	return n > 0;
}

static int read_number(struct reader *r, struct json_value *v)
{
	bool negative = *r->at == '-', good;
	const char *first = r->at + negative;

	r->at = first;
	if (!skip_digits(r) || (r->at > first + 1 && *first == '0'))
		return wrong(r, "a value is missing, or is none");
	errno = 0;
	v->number = strtoull(first, NULL, 10);
	v->whole = !negative && errno == 0 && !strchr(".eE", *r->at ? *r->at : ' ');
	v->type = JSON_NUMBER;
	good = true;
	if (*r->at == '.') {
		r->at++;
		good = skip_digits(r);
	}
	if (good && (*r->at == 'e' || *r->at == 'E')) {
		r->at++;
		r->at += *r->at == '+' || *r->at == '-';
		good = skip_digits(r);
	}
	return good ? 0 : wrong(r, "a number does not end");
}

static int read_word(struct reader *r, struct json_value *v)
{
	static const struct {
		const char *text;
		enum json_type type;
		uint64_t number;
	} words[] = { { "true", JSON_BOOL, 1 }, { "false", JSON_BOOL, 0 }, { "null", JSON_NULL, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t size = strlen(words[i].text);

		if (strncmp(r->at, words[i].text, size) != 0)
			continue;
		r->at += size;
		v->type = words[i].type;
		v->number = words[i].number;
		return 0;
	}
	return read_number(r, v);
}

static int read_key(struct reader *r, struct json_value *v)
{
	int rc = take(r, '"') ? read_string(r, &v->key) : wrong(r, "a name in quotes is missing");

	if (rc == 0 && !take(r, ':'))
		rc = wrong(r, "a colon is missing");
	return rc;
}

/* After the bracket. */
static int read_items(struct reader *r, struct json_value *v, char end)
{
	int rc = ++r->depth > DEPTH_MAX ? wrong(r, "too many brackets in each other") : 0;

	v->type = end == '}' ? JSON_OBJECT : JSON_ARRAY;
	v->last = &v->first;
	if (rc == 0 && take(r, end)) {
		r->depth--;
		return 0;
	}
	while (rc == 0) {
		struct json_value *item = calloc(1, sizeof *item);

		if (!item)
			return -ENOMEM;
		*v->last = item;
		v->last = &item->next;
		rc = end == '}' ? read_key(r, item) : 0;
		if (rc == 0)
			rc = read_value(r, item);
		if (rc == 0 && take(r, end))
			break;
		if (rc == 0 && !take(r, ','))
			rc = wrong(r, "a comma or the end of a list is missing");
	}
	r->depth--;
	return rc;
}

static int read_value(struct reader *r, struct json_value *v)
{
	skip_blanks(r);
	v->line = r->line;
	switch (*r->at) {
	case '{':
		r->at++;
		return read_items(r, v, '}');
	case '[':
		r->at++;
		return read_items(r, v, ']');
	case '"':
		r->at++;
		v->type = JSON_STRING;
		return read_string(r, &v->text);
	default:
		return read_word(r, v);
	}
}

int json_read(const char *text, struct json_value **ret, struct json_mistake *mistake)
{
	struct reader r = { .at = text, .line = 1, .mistake = mistake };
	struct json_value *v = calloc(1, sizeof *v);
	int rc = v ? read_value(&r, v) : -ENOMEM;

	skip_blanks(&r);
	if (rc == 0 && *r.at)
		rc = wrong(&r, "something stands after the end");
	if (rc < 0) {
		json_value_free(v);
		return rc;
	}
	*ret = v;
	return 0;
}
