/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/strbuf.h"

TEST(an_empty_string_is_readable_without_allocation)
{
	AUTO_STRBUF s = STRBUF_INIT;

	CHECK_STR(strbuf_str(&s), "");
	CHECK(!s.data);
}

TEST(appended_pieces_stand_one_after_the_other)
{
	AUTO_STRBUF s = STRBUF_INIT;

	strbuf_adds(&s, "one");
	strbuf_addc(&s, ' ');
	strbuf_addf(&s, "%d-%s", 2, "three");
	strbuf_add(&s, "\0x", 2);
	CHECK_EQ(s.size, 13);
	CHECK(memcmp(s.data, "one 2-three\0x", 14) == 0);
	CHECK(!s.failed);
}

TEST(a_string_grows_to_megabytes_byte_by_byte)
{
	AUTO_STRBUF s = STRBUF_INIT;

	for (int i = 0; i < 3000000; i++)
		strbuf_addc(&s, (char)('a' + i % 26));
	CHECK_EQ(s.size, 3000000);
	CHECK_EQ(strlen(s.data), 3000000);
	CHECK_EQ(s.data[2999999], 'a' + 2999999 % 26);
}

TEST(formatting_something_longer_than_the_room_left_is_complete)
{
	AUTO_STRBUF s = STRBUF_INIT;

	for (size_t n = 0; n < 200; n++) {
		strbuf_truncate(&s, 0);
		strbuf_addf(&s, "%*s|", (int)n, "");
		CHECK_EQ(s.size, n + 1);
		CHECK_EQ(s.data[n], '|');
		strbuf_release(&s);
	}
}

TEST(truncating_shortens_and_never_grows)
{
	AUTO_STRBUF s = STRBUF_INIT;

	strbuf_truncate(&s, 0);
	strbuf_adds(&s, "abcdef");
	strbuf_truncate(&s, 9);
	CHECK_STR(strbuf_str(&s), "abcdef");
	strbuf_truncate(&s, 2);
	CHECK_STR(strbuf_str(&s), "ab");
}

TEST(taking_hands_over_and_leaves_an_empty_string)
{
	AUTO_STRBUF s = STRBUF_INIT;
	AUTO_FREE char *first = NULL, *second = NULL;

	strbuf_adds(&s, "abc");
	first = strbuf_take(&s);
	second = strbuf_take(&s);
	CHECK_STR(first, "abc");
	CHECK_STR(second, "");
	CHECK_EQ(s.size, 0);
}

TEST(after_a_failed_allocation_appends_do_nothing_and_take_gives_null)
{
	AUTO_STRBUF s = STRBUF_INIT;

	strbuf_adds(&s, "abc");
	strbuf_add(&s, "x", (size_t)-1 / 2);
	CHECK(s.failed);
	strbuf_adds(&s, "def");
	strbuf_addf(&s, "%d", 1);
	CHECK_STR(strbuf_str(&s), "abc");
	CHECK(!strbuf_take(&s));
	CHECK(!s.failed);
}

TEST(set_child_replaces_the_last_component)
{
	AUTO_STRBUF s = STRBUF_INIT;
	size_t base;

	strbuf_set_child(&s, 0, "a");
	CHECK_STR(strbuf_str(&s), "a");
	base = s.size;
	strbuf_set_child(&s, base, "b");
	CHECK_STR(strbuf_str(&s), "a/b");
	strbuf_set_child(&s, base, "longer");
	CHECK_STR(strbuf_str(&s), "a/longer");
	strbuf_set_child(&s, 0, "c");
	CHECK_STR(strbuf_str(&s), "c");
}

TEST(quoting_escapes_what_terminals_must_not_see)
{
	AUTO_FREE char *plain = str_quote("straße/☃ ok"), *odd = str_quote("a\"b\\c\n\t\033\x7f\xff\x80"),
		       *c1 = str_quote("\xc2\x9b"), *direction = str_quote("\xe2\x80\xae");

	CHECK_STR(plain, "straße/☃ ok");
	CHECK_STR(odd, "a\\\"b\\\\c\\n\\t\\x1b\\x7f\\xff\\x80");
	CHECK_STR(c1, "\\xc2\\x9b");
	CHECK_STR(direction, "\\xe2\\x80\\xae");
}

TEST(quoting_is_reversible_for_every_byte)
{
	char text[256];
	AUTO_FREE char *quoted = NULL;
	size_t at = 0;

	for (int i = 1; i < 256; i++)
		text[i - 1] = (char)i;
	text[255] = '\0';
	quoted = str_quote(text);
	for (int i = 1; i < 256; i++) {
		static const char letters[] = "abtnvfr\"\\", values[] = "\a\b\t\n\v\f\r\"\\";
		unsigned value = (unsigned char)quoted[at];

		if (quoted[at] != '\\') {
			at++;
		} else if (quoted[at + 1] == 'x') {
			CHECK_EQ(sscanf(quoted + at + 2, "%2x", &value), 1);
			at += 4;
		} else {
			CHECK(strchr(letters, quoted[at + 1]));
			value = (unsigned char)values[strchr(letters, quoted[at + 1]) - letters];
			at += 2;
		}
		CHECK_EQ(value, i);
	}
	CHECK_EQ(quoted[at], 0);
}

TEST(format_gives_a_string_of_its_own)
{
	AUTO_FREE char *s = str_format("%s/%d", "a", 7);

	CHECK_STR(s, "a/7");
}
