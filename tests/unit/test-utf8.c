/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <stdint.h>

#include "base/utf8.h"

static size_t encode(uint32_t c, char *p)
{
	if (c < 0x80) {
		p[0] = (char)c;
		return 1;
	}
	size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = size - 1; i > 0; i--, c >>= 6)
		p[i] = (char)(0x80 | (c & 0x3f));
	p[0] = (char)((0xf00 >> size) | c);
	return size;
}

TEST(every_character_is_recognised_with_its_length)
{
	for (uint32_t c = 1; c < 0x110000; c++) {
		char text[8] = { 0 };
		size_t size = encode(c, text);
		bool surrogate = c >= 0xd800 && c < 0xe000;

		if (utf8_sequence(text) != (surrogate ? 0 : size))
			tap_fail(__FILE__, __LINE__, "U+%04X", c);
	}
}

TEST(the_end_of_text_and_cut_off_sequences_are_no_sequence)
{
	CHECK_EQ(utf8_sequence(""), 0);
	CHECK_EQ(utf8_sequence("\xc3"), 0);
	CHECK_EQ(utf8_sequence("\xe2\x98"), 0);
	CHECK_EQ(utf8_sequence("\xf0\x9f\x98"), 0);
	CHECK_EQ(utf8_sequence("\x80"), 0);
	CHECK_EQ(utf8_sequence("\xff"), 0);
}

TEST(over_long_and_too_large_forms_are_no_sequence)
{
	CHECK_EQ(utf8_sequence("\xc0\xaf"), 0);
	CHECK_EQ(utf8_sequence("\xe0\x80\xaf"), 0);
	CHECK_EQ(utf8_sequence("\xf0\x80\x80\xaf"), 0);
	CHECK_EQ(utf8_sequence("\xf4\x90\x80\x80"), 0);
	CHECK_EQ(utf8_sequence("\xf8\x88\x80\x80\x80"), 0);
}

TEST(control_characters_separators_and_direction_marks_are_not_printable)
{
	static const uint32_t unsafe[] = { 1,     '\n',   0x1b,   0x7f,   0x80,   0x9b,  0x9f,
					   0x61c, 0x200e, 0x2028, 0x202e, 0x2066, 0x2069 };
	static const uint32_t safe[] = { ' ', 'a', '~', 0xa0, 0xe4, 0x2014, 0x2603, 0x1f600 };
	char text[8];

	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++) {
		memset(text, 0, sizeof(text));
		encode(unsafe[i], text);
		CHECK_EQ(utf8_printable(text), 0);
		CHECK(utf8_sequence(text) > 0);
	}
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
		memset(text, 0, sizeof(text));
		size_t size = encode(safe[i], text);

		CHECK_EQ(utf8_printable(text), size);
	}
}
