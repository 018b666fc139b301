/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/json.h"
#include "base/macros.h"

/* Runs write() on a memory stream and compares what came out. */
static void check_output(void (*write_it)(struct json *j), bool pretty, const char *expected)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct json j;

	CHECK(out);
	json_init(&j, out, pretty);
	write_it(&j);
	json_finish(&j);
	fclose(out);
	CHECK_STR(text, expected);
}

static void write_mixed(struct json *j)
{
	json_object(j, NULL);
	json_string(j, "name", "fix");
	json_int(j, "n", -42);
	json_bool(j, "yes", true);
	json_bool(j, "no", false);
	json_string(j, "none", NULL);
	json_array(j, "list");
	json_int(j, NULL, 1);
	json_string(j, NULL, "two");
	json_object(j, NULL);
	json_null(j, "x");
	json_object_end(j);
	json_array_end(j);
	json_array(j, "empty");
	json_array_end(j);
	json_object(j, "bare");
	json_object_end(j);
	json_object_end(j);
}

TEST(values_are_separated_by_commas_at_every_level)
{
	check_output(
		write_mixed, false,
		"{\"name\":\"fix\",\"n\":-42,\"yes\":true,\"no\":false,\"none\":null,\"list\":[1,\"two\",{\"x\":null}],"
		"\"empty\":[],\"bare\":{}}\n");
}

TEST(pretty_output_is_indented_and_empty_brackets_stay_together)
{
	check_output(write_mixed, true,
		     "{\n  \"name\": \"fix\",\n  \"n\": -42,\n  \"yes\": true,\n  \"no\": false,\n  \"none\": null,\n"
		     "  \"list\": [\n    1,\n    \"two\",\n    {\n      \"x\": null\n    }\n  ],\n  \"empty\": [],\n"
		     "  \"bare\": {}\n}\n");
}

static void write_extremes(struct json *j)
{
	json_array(j, NULL);
	json_int(j, NULL, INT64_MIN);
	json_int(j, NULL, INT64_MAX);
	json_array_end(j);
}

TEST(integers_keep_all_their_digits)
{
	check_output(write_extremes, false, "[-9223372036854775808,9223372036854775807]\n");
}

static void write_escapes(struct json *j)
{
	json_string(j, NULL, "\"\\/\b\f\n\r\t\x01\x1f\x7f é☃");
}

TEST(special_characters_are_escaped)
{
	check_output(write_escapes, false, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f é☃\"\n");
}

static void write_controls(struct json *j)
{
	json_string(j, NULL,
		    "\xc2\x9b"
		    "2J\xc2\x80 \xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xc2\xa0");
}

TEST(what_a_terminal_would_obey_is_escaped)
{
	check_output(write_controls, false, "\"\\u009b2J\\u0080 \\u202e\\u2066\\u061c\xc2\xa0\"\n");
}

static void write_bytes(struct json *j)
{
	json_string(j, "\xfe", "a\xff\x80\xed\xb3\xbf\xc3");
}

static void write_bytes_in_object(struct json *j)
{
	json_object(j, NULL);
	write_bytes(j);
	json_object_end(j);
}

TEST(bytes_that_are_not_utf8_become_lone_surrogates)
{
	/* U+DCFF itself, encoded, is not valid either: three bytes, so it cannot be taken for the escape of 0xff. */
	check_output(write_bytes_in_object, false, "{\"\\udcfe\":\"a\\udcff\\udc80\\udced\\udcb3\\udcbf\\udcc3\"}\n");
}

static void write_deep(struct json *j)
{
	for (int i = 0; i < 60; i++)
		json_array(j, NULL);
	for (int i = 0; i < 60; i++)
		json_array_end(j);
}

TEST(sixty_levels_can_be_nested)
{
	char expected[122];

	memset(expected, '[', 60);
	memset(expected + 60, ']', 60);
	strcpy(expected + 120, "\n");
	check_output(write_deep, false, expected);
}

static void write_two_lines(struct json *j)
{
	json_int(j, NULL, 1);
	json_finish(j);
	json_int(j, NULL, 2);
}

TEST(after_finish_a_new_document_begins)
{
	check_output(write_two_lines, false, "1\n2\n");
}
