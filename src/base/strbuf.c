/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* Room for `more` bytes and the NUL behind them. */
static bool strbuf_reserve(struct strbuf *s, size_t more)
{
	size_t capacity;
	char *data;

	if (s->failed)
		return false;
	if (more < s->capacity - s->size)
		return true;
	if (more > SIZE_MAX / 4 || s->size > SIZE_MAX / 4) {
		s->failed = true;
		return false;
	}
	capacity = MAX(MAX(s->size + more + 1, s->capacity * 2), (size_t)32);
	data = realloc(s->data, capacity);
	if (!data) {
		s->failed = true;
		return false;
	}
	s->data = data;
	s->capacity = capacity;
	return true;
}

void strbuf_release(struct strbuf *s)
{
	free(s->data);
	*s = (struct strbuf)STRBUF_INIT;
}

void strbuf_add(struct strbuf *s, const void *data, size_t size)
{
	if (!strbuf_reserve(s, size))
		return;
	if (size > 0)
		memcpy(s->data + s->size, data, size);
	s->size += size;
	s->data[s->size] = '\0';
}

void strbuf_adds(struct strbuf *s, const char *text)
{
	strbuf_add(s, text, strlen(text));
}

void strbuf_addc(struct strbuf *s, char c)
{
	strbuf_add(s, &c, 1);
}

static void strbuf_vaddf(struct strbuf *s, const char *format, va_list args)
{
	va_list again;
	int size;

	va_copy(again, args);
	size = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (size < 0) {
		s->failed = true;
		return;
	}
	if (!strbuf_reserve(s, (size_t)size))
		return;
	vsnprintf(s->data + s->size, (size_t)size + 1, format, args);
	s->size += (size_t)size;
}

void strbuf_addf(struct strbuf *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	strbuf_vaddf(s, format, args);
	va_end(args);
}

void strbuf_truncate(struct strbuf *s, size_t size)
{
	if (size >= s->size)
		return;
	s->size = size;
	s->data[size] = '\0';
}

const char *strbuf_str(const struct strbuf *s)
{
	return s->data ? s->data : "";
}

char *strbuf_take(struct strbuf *s)
{
	char *data = NULL;

	if (strbuf_reserve(s, 0)) {
		s->data[s->size] = '\0';
		data = TAKE_PTR(s->data);
	}
	strbuf_release(s);
	return data;
}

void strbuf_set_child(struct strbuf *s, size_t base, const char *name)
{
	strbuf_truncate(s, base);
	if (base > 0)
		strbuf_addc(s, '/');
	strbuf_adds(s, name);
}

static void strbuf_add_escape(struct strbuf *s, unsigned char c)
{
	static const char letters[] = "abtnvfr"; /* of 0x07 to 0x0d */

	if (c >= '\a' && c <= '\r')
		strbuf_addf(s, "\\%c", letters[c - '\a']);
	else if (c == '"' || c == '\\')
		strbuf_addf(s, "\\%c", c);
	else
		strbuf_addf(s, "\\x%02x", (unsigned)c);
}

void strbuf_add_quoted(struct strbuf *s, const char *text)
{
	while (*text) {
		size_t size = utf8_printable(text);

		if (size > 0 && *text != '"' && *text != '\\') {
			strbuf_add(s, text, size);
			text += size;
			continue;
		}
		/* Every byte of an unprintable sequence by itself, so that the bytes can be read back. */
		for (size = MAX(utf8_sequence(text), (size_t)1); size > 0; size--)
			strbuf_add_escape(s, (unsigned char)*text++);
	}
}

char *str_quote(const char *text)
{
	AUTO_STRBUF s = STRBUF_INIT;

	strbuf_add_quoted(&s, text);
	return strbuf_take(&s);
}

char *str_format(const char *format, ...)
{
	AUTO_STRBUF s = STRBUF_INIT;
	va_list args;

	va_start(args, format);
	strbuf_vaddf(&s, format, args);
	va_end(args);
	return strbuf_take(&s);
}
