/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "pg/lexer.h"

/* The statements of a text, separated by bars. */
static const char *split_by(const char *text, struct pg_lexer rules, bool *ret_ambiguous)
{
	static char out[4096];
	struct pg_token t;
	size_t n = 0;
	bool body;

	rules.at = text;
	rules.end = text + strlen(text);
	out[0] = 0;
	while (pg_lexer_statement(&rules, &t, &body))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s%.*s", n ? "|" : "", body ? "B:" : "", (int)t.size,
				      t.text);
	if (ret_ambiguous)
		*ret_ambiguous = rules.ambiguous;
	return out;
}

static const char *split(const char *text)
{
	return split_by(text, (struct pg_lexer){ 0 }, NULL);
}

static const char *split_old(const char *text)
{
	return split_by(text, (struct pg_lexer){ .backslashes = true }, NULL);
}

static bool is_ambiguous(const char *text)
{
	bool ambiguous;

	split_by(text, (struct pg_lexer){ 0 }, &ambiguous);
	return ambiguous;
}

TEST(statements_are_separated_by_semicolons_and_empty_ones_are_none)
{
	CHECK_STR(split("select 1; select 2"), "select 1|select 2");
	CHECK_STR(split(" ;; select 1 ;; "), "select 1");
	CHECK_STR(split(""), "");
	CHECK_STR(split(" -- nothing\n /* at all */ ;"), "");
}

TEST(a_semicolon_in_a_string_or_a_name_separates_nothing)
{
	CHECK_STR(split("select 'a;b'; x"), "select 'a;b'|x");
	CHECK_STR(split("select 'it''s;'; x"), "select 'it''s;'|x");
	CHECK_STR(split("select \"a;\"\";b\"; x"), "select \"a;\"\";b\"|x");
	CHECK_STR(split("select U&\"a;b\"; select U&'\\0041;'; x"), "select U&\"a;b\"|select U&'\\0041;'|x");
	CHECK_STR(split("select N'a;', b'1;', X'f;'; x"), "select N'a;', b'1;', X'f;'|x");
}

TEST(a_backslash_escapes_only_where_the_server_says_so)
{
	CHECK_STR(split("select '\\'; x"), "select '\\'|x");
	CHECK_STR(split_old("select '\\'; x'; y"), "select '\\'; x'|y");
	CHECK_STR(split("select E'\\'; x'; y"), "select E'\\'; x'|y");
	CHECK_STR(split("select e'\\\\'; x"), "select e'\\\\'|x");
	CHECK_STR(split_old("select U&'\\'; x"), "select U&'\\'|x");
	CHECK_STR(split("select fe'\\'; x"), "select fe'\\'|x");
}

TEST(a_string_goes_on_in_its_manner_after_a_line_end)
{
	CHECK_STR(split("select E'a'\n'\\'; b'; x"), "select E'a'\n'\\'; b'|x");
	CHECK_STR(split("select E'a' -- c'\n '\\'; b'; x"), "select E'a' -- c'\n '\\'; b'|x");
	CHECK_STR(split("select E'a' '\\'; x"), "select E'a' '\\'|x");
}

TEST(dollar_quotes_end_with_their_own_tag)
{
	CHECK_STR(split("do $$ a; b $$; x"), "do $$ a; b $$|x");
	CHECK_STR(split("do $f$ a; $$ b; $f$; x"), "do $f$ a; $$ b; $f$|x");
	CHECK_STR(split("do $f$ a; $F$; $f$; x"), "do $f$ a; $F$; $f$|x");
	CHECK_STR(split("select a$$ ; b$$"), "select a$$|b$$");
	CHECK_STR(split("select $1; $1$; x"), "select $1|$1$|x");
	CHECK_STR(split("select $1$$a;$$; x"), "select $1$$a;$$|x");
	CHECK_STR(split("select $é$ ; $é$; x"), "select $é$ ; $é$|x");
}

TEST(comments_nest_and_hide_everything)
{
	CHECK_STR(split("a /* ; /* ; */ ; */ b; c"), "a /* ; /* ; */ ; */ b|c");
	CHECK_STR(split("a -- ; '\n b; c"), "a -- ; '\n b|c");
	CHECK_STR(split("a --;\rb; c"), "a --;\rb|c");
	CHECK_STR(split("select 2 */* ; */ 3; c"), "select 2 */* ; */ 3|c");
	CHECK_STR(split("a /* ; never closed"), "a");
	CHECK_STR(split("a /*/ ; */ b; c"), "a /*/ ; */ b|c");
}

TEST(what_is_never_closed_reaches_to_the_end)
{
	CHECK_STR(split("a 'b; c"), "a 'b; c");
	CHECK_STR(split("a $$b; c$"), "a $$b; c$");
	CHECK_STR(split("a \"b; c"), "a \"b; c");
	CHECK_STR(split("a E'b\\"), "a E'b\\");
	CHECK_STR(split("a (b; c"), "a (b; c");
}

TEST(parentheses_hold_a_rules_statements_together)
{
	CHECK_STR(split("create rule r as on insert to t do (a; b); c"), "create rule r as on insert to t do (a; b)|c");
	CHECK_STR(split("a ); b"), "a )|b");
}

TEST(a_function_body_is_one_statement_and_is_marked)
{
	CHECK_STR(split("create function f() returns int begin atomic select 1; select 2; end; x"),
		  "B:create function f() returns int begin atomic select 1; select 2; end|x");
	CHECK_STR(split("CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; x"),
		  "B:CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END|x");
}

TEST(begin_elsewhere_is_no_body)
{
	CHECK_STR(split("begin; select 1; end; x"), "begin|select 1|end|x");
	CHECK_STR(split("create function begin() returns int language sql as 'x'; commit"),
		  "create function begin() returns int language sql as 'x'|commit");
	CHECK_STR(split("create table begin(atomic int); commit"), "create table begin(atomic int)|commit");
	CHECK_STR(split("create function f(begin int) returns int as 'x'; commit"),
		  "create function f(begin int) returns int as 'x'|commit");
}

TEST(a_body_that_seems_not_to_end_is_marked_so_that_the_server_judges)
{
	CHECK_STR(split("create function f() returns int begin atomic select 1 as case; end; commit"),
		  "B:create function f() returns int begin atomic select 1 as case; end; commit");
}

TEST(what_versions_read_differently_is_ambiguous)
{
	CHECK(is_ambiguous("select 1e$$; commit; --$$"));
	CHECK(is_ambiguous("select 0x1f$$ ' $$; commit; --'"));
	CHECK(is_ambiguous("select 1_000$$;$$"));
	CHECK(is_ambiguous("select 1e'\\'; commit; --'"));
	CHECK(is_ambiguous("select b'1'\n'\\'; commit; --'"));
	CHECK(is_ambiguous("select x'1''\\'; commit; --'"));
	CHECK(!is_ambiguous("select 1e5, 0x1f, 1_000, .5, 1., 'a' 'b', b'1', $1"));
	CHECK(!is_ambiguous("select 1$$a$$"));
}

TEST(names_are_folded_or_unquoted)
{
	struct pg_lexer l = { 0 };
	const char *text = "Foo \"Bar\"\"x\" 'no' 12";
	struct pg_token t;
	char name[16];

	l.at = text;
	l.end = text + strlen(text);
	pg_lexer_next(&l, &t);
	CHECK(pg_token_is_word(&t, "foo"));
	CHECK(pg_token_name(&t, name, sizeof(name)));
	CHECK_STR(name, "foo");
	CHECK(!pg_token_name(&t, name, 3));
	pg_lexer_next(&l, &t);
	CHECK(pg_token_name(&t, name, sizeof(name)));
	CHECK_STR(name, "Bar\"x");
	pg_lexer_next(&l, &t);
	CHECK(!pg_token_name(&t, name, sizeof(name)));
	pg_lexer_next(&l, &t);
	CHECK_EQ(t.kind, PG_TOKEN_NUMBER);
	pg_lexer_next(&l, &t);
	CHECK_EQ(t.kind, PG_TOKEN_END);
}
