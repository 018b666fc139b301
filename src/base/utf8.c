/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>

/* Decodes one sequence. The bytes are looked at one after the other, so the NUL at the end stops every case. */
static size_t decode(const unsigned char *p, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t size = c < 0x80 ? 1 : (c & 0xe0) == 0xc0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : (c & 0xf8) == 0xf0 ? 4 : 0;

	if (c == 0 || size == 0)
		return 0;
	if (size > 1)
		c &= 0x7fU >> size;
	for (size_t i = 1; i < size; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return size;
}

static bool is_unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t utf8_sequence(const char *text)
{
	uint32_t c;

	return decode((const unsigned char *)text, &c);
}

size_t utf8_decode(const char *text, uint32_t *ret_character)
{
	return decode((const unsigned char *)text, ret_character);
}

size_t utf8_printable(const char *text)
{
	uint32_t c;
	size_t size = decode((const unsigned char *)text, &c);

	return size > 0 && !is_unsafe(c) ? size : 0;
}
