/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/glob.h"

TEST(only_stars_and_question_marks_make_a_pattern)
{
	CHECK(glob_is_pattern("*.c"));
	CHECK(glob_is_pattern("src/?.c"));
	CHECK(!glob_is_pattern("pages/[id].tsx"));
	CHECK(!glob_is_pattern("src/a.c"));
}

TEST(a_star_stays_within_its_component)
{
	CHECK(glob_covers("*.c", "a.c"));
	CHECK(!glob_covers("*.c", "src/a.c"));
	CHECK(glob_covers("src/*.c", "src/a.c"));
	CHECK(!glob_covers("src/*.c", "src/b/a.c"));
	CHECK(!glob_covers("src/*.c", "src"));
	CHECK(glob_covers("s?c/a.*", "src/a.c"));
	CHECK(glob_covers("*.[ch]", "a.h"));
	CHECK(!glob_covers("*.[ch]", "a.o"));
}

TEST(names_that_begin_with_a_dot_are_matched_too)
{
	CHECK(glob_covers("*", ".env"));
	CHECK(glob_covers("**/*.ts", ".next/a.ts"));
}

TEST(two_stars_stand_for_any_number_of_directories)
{
	CHECK(glob_covers("**/*.ts", "a.ts"));
	CHECK(glob_covers("**/*.ts", "a/b/c.ts"));
	CHECK(glob_covers("src/**/*.c", "src/a.c"));
	CHECK(glob_covers("src/**/*.c", "src/x/y/a.c"));
	CHECK(!glob_covers("src/**/*.c", "lib/src/a.c"));
	CHECK(glob_covers("**/x/**/y", "a/x/b/x/c/y"));
	CHECK(!glob_covers("**/x/**/y", "a/y/x"));
	CHECK(glob_covers("src/**", "src/a/b"));
	CHECK(!glob_covers("src/**", "src"));
}

TEST(a_directory_that_matches_covers_what_lies_below)
{
	CHECK(glob_covers("node_*", "node_modules/a/b.js"));
	CHECK(glob_covers("**/dist", "packages/a/dist/x.js"));
	CHECK(!glob_covers("**/dist", "packages/a/dist.js"));
	CHECK(!glob_covers("node_*", "src/node.js"));
}

TEST(a_component_that_equals_a_name_matches_it_whatever_it_holds)
{
	CHECK(glob_covers("**/[id].tsx", "pages/[id].tsx"));
	CHECK(glob_covers("a*b", "a*b"));
	CHECK(glob_covers("a\\*", "a\\x"));
}

TEST(slashes_at_the_ends_and_empty_words_do_no_harm)
{
	CHECK(glob_covers("/src/*.c", "src/a.c"));
	CHECK(glob_covers("src//*.c", "src/a.c"));
	CHECK(!glob_covers("", "a"));
	CHECK(!glob_covers("*", ""));
}
