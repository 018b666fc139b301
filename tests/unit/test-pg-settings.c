/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "pg/settings.h"

static void note(struct pg_settings *log, const char *text)
{
	struct pg_lexer l = { .at = text, .end = text + strlen(text) };
	struct pg_statement s;

	while (pg_statement_next(&l, &s))
		CHECK_EQ(pg_settings_note(log, &s), 0);
}

static const char *difference(const struct pg_settings *from, const struct pg_settings *to)
{
	static char text[512];
	AUTO_STRBUF sql = STRBUF_INIT;

	pg_settings_switch(from, to, &sql);
	snprintf(text, sizeof(text), "%s", strbuf_str(&sql));
	return text;
}

TEST(what_was_set_is_set_again_and_what_was_not_is_reset)
{
	struct pg_settings a = { 0 }, b = { 0 }, none = { 0 }, log = { 0 };

	note(&log, "set x.a = 1; set search_path = s; set x.a = 2");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "set search_path = s; set x.a = 2; ");
	CHECK_STR(difference(&a, &none), "RESET \"search_path\"; RESET \"x\".\"a\"; ");
	CHECK_EQ(pg_settings_copy(&b, &a), 0);
	CHECK_STR(difference(&a, &b), "");
	note(&log, "reset search_path");
	CHECK_EQ(pg_settings_commit(&b, &none, &log), 0);
	CHECK_STR(difference(&b, &a), "set search_path = s; ");
	pg_settings_clear(&a);
	pg_settings_clear(&b);
	pg_settings_clear(&log);
}

TEST(going_back_to_a_savepoint_takes_back_what_was_set_since)
{
	struct pg_settings a = { 0 }, none = { 0 }, log = { 0 };

	note(&log, "set x = 1; savepoint s; set x = 2; savepoint t; set x = 3; rollback to s");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "set x = 1; ");
	pg_settings_clear(&a);
	pg_settings_clear(&log);
}

TEST(a_released_savepoint_is_none_any_more)
{
	struct pg_settings a = { 0 }, none = { 0 }, log = { 0 };

	note(&log, "savepoint s; set x = 1; savepoint s; savepoint t; set x = 2; release s; set x = 3; rollback to s");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "");
	pg_settings_clear(&a);
	pg_settings_clear(&log);
}

TEST(what_is_local_ends_after_reset_all_too)
{
	struct pg_settings a = { 0 }, defaults = { 0 }, log = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;

	CHECK_EQ(pg_settings_put(&a, "x", "set x = 5"), 0);
	CHECK_EQ(pg_settings_put(&a, "y", "set y = 6"), 0);
	CHECK_EQ(pg_settings_put(&defaults, "x", "set x = 1"), 0);
	note(&log, "set local x = 7; set local y = 8; reset all");
	CHECK_EQ(pg_settings_end_local(&a, &defaults, &log, &sql), 0);
	CHECK_STR(strbuf_str(&sql), "set x = 1; RESET \"y\"; ");
	pg_settings_clear(&a);
	pg_settings_clear(&defaults);
	pg_settings_clear(&log);
}

TEST(what_is_local_ends_with_the_transaction)
{
	struct pg_settings a = { 0 }, none = { 0 }, log = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;

	CHECK_EQ(pg_settings_put(&a, "x", "set x = 1"), 0);
	note(&log, "set local x = 5; set local y = 6; set local z = 7; set z = 8");
	CHECK_EQ(pg_settings_end_local(&a, &none, &log, &sql), 0);
	CHECK_STR(strbuf_str(&sql), "set x = 1; RESET \"y\"; set z = 8; ");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "set x = 1; set z = 8; ");
	pg_settings_clear(&a);
	pg_settings_clear(&log);
}

TEST(a_reset_leads_back_to_what_the_client_came_with)
{
	struct pg_settings a = { 0 }, defaults = { 0 }, log = { 0 };

	CHECK_EQ(pg_settings_put(&defaults, "x", "set x = 1"), 0);
	note(&log, "set x = 2; reset x");
	CHECK_EQ(pg_settings_commit(&a, &defaults, &log), 0);
	CHECK_STR(difference(&(struct pg_settings){ 0 }, &a), "set x = 1; ");
	note(&log, "set x = 2; set y = 3; reset all");
	CHECK_EQ(pg_settings_commit(&a, &defaults, &log), 0);
	CHECK_STR(difference(&(struct pg_settings){ 0 }, &a), "set x = 1; ");
	pg_settings_clear(&a);
	pg_settings_clear(&defaults);
	pg_settings_clear(&log);
}

TEST(settings_are_changed_as_the_role_of_the_connection)
{
	struct pg_settings a = { 0 }, b = { 0 }, none = { 0 }, log = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;

	note(&log, "set role r; set x = 1");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "set x = 1; set role r; ");
	CHECK_STR(difference(&a, &none), "RESET SESSION AUTHORIZATION; RESET \"role\"; RESET \"x\"; ");
	CHECK_STR(difference(&a, &a), "");
	note(&log, "set role r; reset all");
	CHECK_EQ(pg_settings_commit(&b, &none, &log), 0);
	CHECK_STR(difference(&b, &a), "RESET SESSION AUTHORIZATION; RESET \"role\"; set x = 1; set role r; ");
	note(&log, "set session authorization s");
	CHECK_EQ(pg_settings_commit(&b, &none, &log), 0);
	CHECK_STR(difference(&none, &b), "set session authorization s; ");
	note(&log, "set local role q; set local y = 2");
	CHECK_EQ(pg_settings_end_local(&a, &none, &log, &sql), 0);
	CHECK_STR(strbuf_str(&sql), "RESET SESSION AUTHORIZATION; RESET \"role\"; RESET \"y\"; set role r; ");
	pg_settings_clear(&a);
	pg_settings_clear(&b);
	pg_settings_clear(&log);
}

/* A text that means something else under other settings must not be said again. */
TEST(what_could_be_read_otherwise_later_is_not_kept)
{
	struct pg_settings a = { 0 }, none = { 0 }, log = { 0 };

	note(&log, "set x = 'a\\b'; set y = 'ä'");
	CHECK_EQ(pg_settings_commit(&a, &none, &log), 0);
	CHECK_STR(difference(&none, &a), "");
	pg_settings_clear(&a);
	pg_settings_clear(&log);
}

TEST(values_of_a_startup_message_are_quoted)
{
	char *sql = pg_settings_sql("x", "it's\\");

	CHECK_STR(sql, "SELECT pg_catalog.set_config('x', E'it''s\\\\', false)");
	free(sql);
}
