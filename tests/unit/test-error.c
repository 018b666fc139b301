/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/error.h"

TEST(every_code_has_a_name_a_meaning_and_an_exit_status)
{
	for (int i = 0; i < ATOLL_CODE_COUNT; i++) {
		enum atoll_code code = (enum atoll_code)i;

		CHECK(atoll_code_name(code) && atoll_code_name(code)[0]);
		CHECK(atoll_code_meaning(code) && atoll_code_meaning(code)[0]);
		CHECK(atoll_code_exit_status(code) >= 0 && atoll_code_exit_status(code) <= 7);
		CHECK_EQ(atoll_code_exit_status(code) == 0, code == ATOLL_OK);
		for (int other = 0; other < i; other++)
			CHECK(strcmp(atoll_code_name(code), atoll_code_name((enum atoll_code)other)) != 0);
	}
}

TEST(exit_statuses_are_the_documented_ones)
{
	static const int expected[ATOLL_CODE_COUNT] = {
		[ATOLL_OK] = 0,      [ATOLL_FAILED] = 1,    [ATOLL_INVALID] = 2,     [ATOLL_CONFLICT] = 3,
		[ATOLL_REFUSED] = 4, [ATOLL_NOT_FOUND] = 5, [ATOLL_BUSY] = 6,        [ATOLL_IN_DOUBT] = 7,
		[ATOLL_EXISTS] = 4,  [ATOLL_STATE] = 4,     [ATOLL_UNSUPPORTED] = 4, [ATOLL_NO_SPACE] = 4,
		[ATOLL_CORRUPT] = 1, [ATOLL_TIMEOUT] = 1,
	};

	for (int i = 0; i < ATOLL_CODE_COUNT; i++)
		CHECK_EQ(atoll_code_exit_status((enum atoll_code)i), expected[i]);
}

TEST(a_code_out_of_range_is_named_unknown_and_fails)
{
	CHECK_STR(atoll_code_name((enum atoll_code)ATOLL_CODE_COUNT), "unknown");
	CHECK_STR(atoll_code_name((enum atoll_code) - 1), "unknown");
	CHECK_EQ(atoll_code_exit_status((enum atoll_code) - 1), 1);
}

TEST(set_fills_every_field_and_returns_the_negative_code)
{
	struct atoll_error e = { 0 };

	CHECK_EQ(error_set(&e, ATOLL_NOT_FOUND, 0, "show", "fix", "there is no sandbox \"%s\"", "fix"),
		 -ATOLL_NOT_FOUND);
	CHECK_EQ(e.code, ATOLL_NOT_FOUND);
	CHECK_EQ(e.sys_errno, 0);
	CHECK_STR(e.operation, "show");
	CHECK_STR(e.object, "fix");
	CHECK_STR(e.message, "there is no sandbox \"fix\"");
}

TEST(every_function_accepts_no_struct)
{
	CHECK_EQ(error_set(NULL, ATOLL_BUSY, 0, "run", NULL, "x"), -ATOLL_BUSY);
	CHECK_EQ(error_sys(NULL, ENOSPC, "run", NULL, "x"), -ATOLL_NO_SPACE);
	CHECK_EQ(error_oom(NULL, "run"), -ATOLL_FAILED);
}

TEST(the_errno_chooses_the_code)
{
	static const struct {
		int sys_errno;
		enum atoll_code code;
	} rows[] = {
		{ ENOSPC, ATOLL_NO_SPACE }, { EDQUOT, ATOLL_NO_SPACE }, { ETXTBSY, ATOLL_BUSY },
		{ EROFS, ATOLL_REFUSED },   { EACCES, ATOLL_REFUSED },  { EPERM, ATOLL_REFUSED },
		{ ENOMEM, ATOLL_FAILED },   { EIO, ATOLL_FAILED },
	};
	struct atoll_error e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_EQ(error_sys(&e, rows[i].sys_errno, "commit", "a", "cannot write"), -(int)rows[i].code);
		CHECK_EQ(e.sys_errno, rows[i].sys_errno);
		CHECK_EQ(error_sys(&e, -rows[i].sys_errno, "commit", "a", "cannot write"), -(int)rows[i].code);
		CHECK_EQ(e.sys_errno, rows[i].sys_errno);
	}
	CHECK_STR(e.message, "cannot write: Input/output error");
}

TEST(an_unknown_errno_still_gives_a_message)
{
	struct atoll_error e;

	error_sys(&e, 9999, "x", NULL, "cannot");
	CHECK_STR(e.message, "cannot: unknown error");
	CHECK_EQ(e.sys_errno, 9999);
}

TEST(control_characters_and_invalid_bytes_become_escapes)
{
	struct atoll_error e;

	error_set(&e, ATOLL_INVALID, 0, "new", "a\nb", "\"%s\" is no name", "a\n\033[31m\xff\xc2\x9bü\\");
	CHECK_STR(e.message, "\"a\\n\\x1b[31m\\xff\\xc2\\x9bü\\\" is no name");
	CHECK_STR(e.object, "a\\nb");
}

TEST(a_message_too_long_is_cut_between_characters_and_marked)
{
	struct atoll_error e;
	char name[9000];

	for (size_t shift = 0; shift < 4; shift++) {
		size_t size = 0;

		memset(name, 'x', shift);
		for (size = shift; size + 2 < sizeof(name); size += 2)
			memcpy(name + size, "ü", 2);
		name[size] = '\0';
		error_set(&e, ATOLL_INVALID, 0, "new", name, "%s", name);
		CHECK(strlen(e.message) < sizeof(e.message) && strlen(e.message) > sizeof(e.message) - 8);
		CHECK_STR(e.message + strlen(e.message) - 3, "…");
		CHECK_EQ((strlen(e.message) - 3 - shift) % 2, 0);
		CHECK_STR(e.object + strlen(e.object) - 3, "…");
	}
}

TEST(a_message_that_just_fits_is_not_cut)
{
	struct atoll_error e;
	char text[sizeof(e.message) + 1];

	memset(text, 'x', sizeof(text));
	text[sizeof(e.message) - 1] = '\0';
	error_set(&e, ATOLL_INVALID, 0, "new", NULL, "%s", text);
	CHECK_STR(e.message, text);
	text[sizeof(e.message) - 1] = 'x';
	text[sizeof(e.message)] = '\0';
	error_set(&e, ATOLL_INVALID, 0, "new", NULL, "%s", text);
	CHECK_EQ(strlen(e.message), sizeof(e.message) - 1);
	CHECK_STR(e.message + sizeof(e.message) - 4, "…");
}

TEST(the_reason_stays_when_a_long_name_is_cut)
{
	struct atoll_error e;
	char name[6000];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	error_sys(&e, EACCES, "new", name, "cannot open \"%s\"", name);
	CHECK_CONTAINS(e.message, "cannot open \"nnn");
	CHECK_CONTAINS(e.message, "…: Permission denied");
}

TEST(arguments_may_point_into_the_struct_being_filled)
{
	struct atoll_error e;

	error_set(&e, ATOLL_BUSY, 0, "run", "fix", "busy");
	error_set(&e, ATOLL_FAILED, 0, e.operation, e.object, "%s because %s", e.object, e.message);
	CHECK_STR(e.message, "fix because busy");
	CHECK_STR(e.operation, "run");
	CHECK_STR(e.object, "fix");
}
