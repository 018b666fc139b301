/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/quote.h"

#include <string.h>

#include "base/utf8.h"

bool quote_is_needed(const char *name)
{
	while (*name) {
		size_t size = utf8_printable(name);

		if (size == 0 || *name == '"' || *name == '\\')
			return true;
		name += size;
	}
	return false;
}

static void add_byte(struct strbuf *s, unsigned char c)
{
	static const char letters[] = "abtnvfr"; /* of 0x07 to 0x0d */

	if (c >= '\a' && c <= '\r')
		strbuf_addf(s, "\\%c", letters[c - '\a']);
	else if (c == '"' || c == '\\')
		strbuf_addf(s, "\\%c", c);
	else
		strbuf_addf(s, "\\%03o", (unsigned)c);
}

static void add_escaped(struct strbuf *s, const char *name)
{
	while (*name) {
		size_t size = utf8_printable(name);

		if (size > 0 && *name != '"' && *name != '\\') {
			strbuf_add(s, name, size);
			name += size;
			continue;
		}
		for (size = MAX(utf8_sequence(name), (size_t)1); size > 0; size--)
			add_byte(s, (unsigned char)*name++);
	}
}

void quote_name(struct strbuf *s, const char *prefix, const char *name, const char *suffix)
{
	const char *mark = quote_is_needed(name) ? "\"" : "";

	strbuf_adds(s, mark);
	strbuf_adds(s, prefix);
	if (*mark)
		add_escaped(s, name);
	else
		strbuf_adds(s, name);
	strbuf_adds(s, suffix);
	strbuf_adds(s, mark);
}

void quote_prose(struct strbuf *s, const char *text)
{
	while (*text) {
		size_t size = utf8_printable(text);

		if (size > 0) {
			strbuf_add(s, text, size);
			text += size;
		} else {
			add_byte(s, (unsigned char)*text++);
		}
	}
}
