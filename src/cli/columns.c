/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/columns.h"

#include "base/macros.h"
#include "base/utf8.h"

/* Roughly: East Asian characters and emoji are two columns wide. */
static size_t width_of(const char *text, size_t size)
{
	unsigned char c = (unsigned char)text[0], d = (unsigned char)text[size > 1];

	if (size == 4)
		return 2;
	return size == 3 && ((c == 0xe1 && d < 0x86) || (c >= 0xe2 && (c > 0xe2 || d >= 0xba) && c < 0xee) || c == 0xef)
		       ? 2
		       : 1;
}

/* Returns how many bytes of text fit into the columns. */
static size_t fitting(const char *text, size_t columns)
{
	size_t at = 0;

	while (text[at]) {
		size_t size = MAX(utf8_sequence(text + at), (size_t)1), width = width_of(text + at, size);

		if (width > columns)
			break;
		columns -= width;
		at += size;
	}
	return at;
}

size_t columns_of(const char *text)
{
	size_t n = 0;

	for (size_t at = 0, size; text[at]; at += size) {
		size = MAX(utf8_sequence(text + at), (size_t)1);
		n += width_of(text + at, size);
	}
	return n;
}

void columns_add_shortened(struct strbuf *s, const char *text, size_t columns)
{
	size_t all = columns_of(text), head, skip;

	if (all <= columns) {
		strbuf_adds(s, text);
		return;
	}
	columns = MAX(columns, (size_t)3);
	head = fitting(text, columns / 3);
	for (skip = head; text[skip] && columns_of(text + skip) > columns - columns / 3 - 1;)
		skip += MAX(utf8_sequence(text + skip), (size_t)1);
	strbuf_add(s, text, head);
	strbuf_adds(s, "…");
	strbuf_adds(s, text + skip);
}
