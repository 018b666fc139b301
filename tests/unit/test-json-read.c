/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/json-read.h"
#include "base/macros.h"

static struct json_value *must_read(const char *text)
{
	struct json_mistake mistake = { 0 };
	struct json_value *v = NULL;

	CHECK_EQ(json_read(text, &v, &mistake), 0);
	return v;
}

TEST(values_of_all_kinds_are_read)
{
	struct json_value *v =
		must_read(" { \"a\" : [ 1, true, false, null, \"x\", {} , [] ],\n \"b\":18446744073709551615 } \n");
	const struct json_value *list = json_member(v, "a"), *item = list->first;
	static const enum json_type types[] = { JSON_NUMBER, JSON_BOOL,   JSON_BOOL, JSON_NULL,
						JSON_STRING, JSON_OBJECT, JSON_ARRAY };

	CHECK_EQ(v->type, JSON_OBJECT);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++, item = item->next)
		CHECK_EQ(item->type, types[i]);
	CHECK(!item);
	CHECK(json_member(v, "b")->whole && json_member(v, "b")->number == UINT64_MAX);
	CHECK_EQ(json_member(v, "b")->line, 2);
	CHECK(!json_member(v, "c"));
	json_value_free(v);
}

TEST(only_whole_numbers_that_fit_are_whole)
{
	static const char *const others[] = { "-1", "1.5", "1e3", "2E+5", "0.0", "18446744073709551616", "-0" };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct json_value *v = must_read(others[i]);

		CHECK_EQ(v->type, JSON_NUMBER);
		CHECK(!v->whole);
		json_value_free(v);
	}
}

TEST(strings_are_unescaped)
{
	struct json_value *v = must_read("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20ac\\ud83d\\ude00\"");

	CHECK_STR(v->text, "a\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	json_value_free(v);
	v = must_read("\"\"");
	CHECK_STR(v->text, "");
	json_value_free(v);
}

TEST(a_mistake_is_told_with_its_line)
{
	static const struct {
		const char *text;
		unsigned line;
	} wrong[] = { { "", 1 },
		      { "\n\n", 3 },
		      { "{", 1 },
		      { "[1,\n2,\n", 3 },
		      { "[1,\n]", 2 },
		      { "{\"a\":1,\n}", 2 },
		      { "{\"a\"\n1}", 2 },
		      { "{a:1}", 1 },
		      { "[1 2]", 1 },
		      { "\n\"x", 2 },
		      { "\"\n\"", 1 },
		      { "\"\\x\"", 1 },
		      { "\"\\u12\"", 1 },
		      { "\"\\ud800\"", 1 },
		      { "\"\\ude00\"", 1 },
		      { "\"\\u0000\"", 1 },
		      { "\"\x01\"", 1 },
		      { "01", 1 },
		      { "1.", 1 },
		      { "1e", 1 },
		      { "-", 1 },
		      { "nul", 1 },
		      { "1\n2", 2 },
		      { "'a'", 1 },
		      { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct json_mistake mistake = { 0 };
		struct json_value *v = NULL;

		CHECK_EQ(json_read(wrong[i].text, &v, &mistake), -EINVAL);
		CHECK_EQ(mistake.line, wrong[i].line);
		CHECK(mistake.text && *mistake.text);
	}
}
