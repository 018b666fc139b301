/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/macros.h"
#include "pg/statement.h"

static struct pg_statement of(const char *text)
{
	struct pg_lexer l = { .at = text, .end = text + strlen(text) };
	struct pg_statement s = { .kind = (enum pg_statement_kind) - 1 };

	(void)pg_statement_next(&l, &s);
	return s;
}

static const char *name_of(const char *text)
{
	static char name[PG_NAME_SIZE];
	struct pg_statement s = of(text);

	return pg_token_name(&s.name, name, sizeof(name)) ? name : "";
}

TEST(the_beginning_of_a_transaction_has_its_modes)
{
	CHECK_EQ(of("BEGIN").kind, PG_BEGIN);
	CHECK_EQ(of("/* x */ begin work").kind, PG_BEGIN);
	CHECK_EQ(of("start transaction").kind, PG_BEGIN);
	CHECK_EQ(of("begin isolation level repeatable read, read only, not deferrable").isolation, PG_REPEATABLE_READ);
	CHECK_EQ(of("begin isolation level read committed read only").read_only, 1);
	CHECK_EQ(of("begin transaction read write").read_only, 0);
	CHECK_EQ(of("begin").read_only, -1);
	CHECK_EQ(of("begin isolation level serializable deferrable").isolation, PG_SERIALIZABLE);
	CHECK_EQ(of("begin nonsense").kind, PG_PLAIN);
	CHECK_EQ(of("start x").kind, PG_PLAIN);
}

TEST(every_way_to_end_a_transaction_is_known)
{
	static const char *const commits[] = { "commit",   "COMMIT WORK",         "commit transaction",      "end",
					       "End Work", "commit and no chain", "commit work and no chain" };
	static const char *const rollbacks[] = { "rollback", "abort", "ROLLBACK TRANSACTION", "abort work",
						 "rollback and no chain" };

	for (size_t i = 0; i < sizeof(commits) / sizeof(*commits); i++) {
		CHECK_EQ(of(commits[i]).kind, PG_COMMIT);
		CHECK(!of(commits[i]).chain);
	}
	for (size_t i = 0; i < sizeof(rollbacks) / sizeof(*rollbacks); i++)
		CHECK_EQ(of(rollbacks[i]).kind, PG_ROLLBACK);
	CHECK(of("commit and chain").chain);
	CHECK(of("rollback work and chain").chain);
}

TEST(what_looks_like_an_end_and_is_not_understood_is_never_plain)
{
	static const char *const texts[] = {
		"commit x",    "end foo",         "rollback and", "abort 1", "commit and chain x",
		"rollback to", "rollback to 'x'", "commit 'x'",   "commit ("
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		CHECK_EQ(of(texts[i]).kind, PG_MALFORMED);
}

TEST(savepoints_have_names)
{
	CHECK_EQ(of("savepoint a").kind, PG_SAVEPOINT);
	CHECK_STR(name_of("savepoint \"A b\""), "A b");
	CHECK_EQ(of("release a").kind, PG_RELEASE);
	CHECK_STR(name_of("release savepoint savepoint1"), "savepoint1");
	CHECK_EQ(of("rollback to a").kind, PG_ROLLBACK_TO);
	CHECK_STR(name_of("rollback work to savepoint Abc"), "abc");
	CHECK_EQ(of("abort to savepoint x").kind, PG_ROLLBACK_TO);
}

TEST(two_phase_commit_is_known)
{
	CHECK_EQ(of("prepare transaction 'x'").kind, PG_TWO_PHASE);
	CHECK_EQ(of("commit prepared 'x'").kind, PG_TWO_PHASE);
	CHECK_EQ(of("rollback prepared 'x'").kind, PG_TWO_PHASE);
}

TEST(settings_are_known_by_their_names)
{
	CHECK_EQ(of("set search_path = a").kind, PG_SET);
	CHECK_STR(of("set Search_Path to a, b").key, "search_path");
	CHECK_STR(of("set session work_mem = '1MB'").key, "work_mem");
	CHECK_EQ(of("set session transaction isolation level serializable").kind, PG_SET_TRANSACTION);
	CHECK_STR(of("set local session authorization a").key, "session_authorization");
	CHECK_STR(of("set session session authorization a").key, "session_authorization");
	CHECK_STR(of("set \"TimeZone\" = 'x'").key, "timezone");
	CHECK(of("set x.y to default").to_default && of("set local x = default").to_default);
	CHECK(of("set time zone local").to_default && of("set names").to_default && of("set names default").to_default);
	CHECK(!of("set x = 'default'").to_default && !of("set x = default, y").to_default &&
	      !of("set x = local").to_default);
	CHECK_EQ(of("set local x.y = 1").kind, PG_SET_LOCAL);
	CHECK_STR(of("set local X.y = 1").key, "x.y");
	CHECK_STR(of("set time zone 'UTC'").key, "timezone");
	CHECK_STR(of("set names 'utf8'").key, "client_encoding");
	CHECK_STR(of("set role r").key, "role");
	CHECK_STR(of("set session authorization r").key, "session_authorization");
	CHECK_STR(of("set session characteristics as transaction read only").key, "session characteristics");
	CHECK_EQ(of("reset all").kind, PG_RESET_ALL);
	CHECK_STR(of("reset timezone").key, "timezone");
	CHECK_EQ(of("set constraints all immediate").kind, PG_SET_CONSTRAINTS);
	CHECK_EQ(of("set transaction read only").kind, PG_SET_TRANSACTION);
	CHECK_EQ(of("set local transaction isolation level serializable").isolation, PG_SERIALIZABLE);
	CHECK_EQ(of("set transaction snapshot 'x'").kind, PG_SET_SNAPSHOT);
}

TEST(set_config_is_a_set_by_another_name)
{
	CHECK_EQ(of("SELECT pg_catalog.set_config('Search_path', '', false)").kind, PG_SET);
	CHECK_STR(of("SELECT pg_catalog.set_config('Search_path', '', false)").key, "search_path");
	CHECK_EQ(of("select set_config('x.y', 'it''s', TRUE)").kind, PG_SET_LOCAL);
	CHECK_EQ(of("select set_config('x', $1, true)").kind, PG_PLAIN);
	CHECK_EQ(of("select set_config('x', 'y', false), 1").kind, PG_PLAIN);
	CHECK_EQ(of("select set_config(E'x', 'y', false)").kind, PG_PLAIN);
	CHECK_EQ(of("select 1").kind, PG_PLAIN);
	CHECK_EQ(of("select").kind, PG_PLAIN);
}

TEST(what_the_server_will_not_prepare_is_known)
{
	static const char *const notifies[] = { "notify x", "select pg_notify('a', 'b')",
						"select pg_catalog.pg_notify($1, $2)" };

	for (size_t i = 0; i < ARRAY_SIZE(notifies); i++)
		CHECK_EQ(of(notifies[i]).kind, PG_NOTIFY);
	CHECK_EQ(of("LISTEN \"x\"").kind, PG_LISTEN);
	CHECK_EQ(of("unlisten *").kind, PG_LISTEN);
	CHECK_EQ(of("create temp table x (a int)").kind, PG_DEFINE_TEMPORARY);
	CHECK_EQ(of("create local temporary sequence x").kind, PG_DEFINE_TEMPORARY);
	CHECK_EQ(of("create or replace temp view x as select 1").kind, PG_DEFINE_TEMPORARY);
	CHECK_EQ(of("create unlogged table temp (a int)").kind, PG_DEFINE);
	CHECK_EQ(of("create or replace view temp as select 1").kind, PG_DEFINE);
	CHECK_EQ(of("select notify from x").kind, PG_PLAIN);
}

TEST(prepared_statements_and_cursors_have_names)
{
	CHECK_STR(name_of("prepare Foo (int) as select $1"), "foo");
	CHECK_EQ(of("prepare foo as select 1").kind, PG_PREPARE);
	CHECK_STR(name_of("execute foo(1)"), "foo");
	CHECK_STR(name_of("explain (analyze, costs off) execute foo"), "foo");
	CHECK_STR(name_of("create temp table x as execute foo(1)"), "foo");
	CHECK_EQ(of("create table x (a int)").kind, PG_DEFINE);
	CHECK_EQ(of("explain select 1").kind, PG_PLAIN);
	CHECK_EQ(of("deallocate prepare all").kind, PG_DEALLOCATE_ALL);
	CHECK_STR(name_of("deallocate foo"), "foo");
	CHECK_EQ(of("declare c cursor for select 1").kind, PG_DECLARE);
	CHECK_EQ(of("declare c no scroll cursor with hold for select 1").kind, PG_DECLARE_HOLD);
	CHECK_EQ(of("declare c cursor without hold for select 'with hold'").kind, PG_DECLARE);
	CHECK_EQ(of("discard all").kind, PG_DISCARD_ALL);
	CHECK_EQ(of("discard temp").kind, PG_PLAIN);
}
