/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <string.h>

#include "base/similar.h"

static const char *nearest(const char *word, const char *const *candidates)
{
	struct similar s = similar_to(word);

	for (; *candidates; candidates++)
		similar_try(&s, *candidates);
	return s.best;
}

TEST(exchanged_letters_are_one_mistake)
{
	const char *const names[] = { "bright-food", "bright-foam", "brave-foal", NULL };

	CHECK_STR(nearest("brihgt-foam", names), "bright-foam");
}

TEST(a_letter_too_many_too_few_or_another_one_is_found)
{
	const char *const names[] = { "src/price.ts", "src/main.ts", NULL };

	CHECK_STR(nearest("src/pricee.ts", names), "src/price.ts");
	CHECK_STR(nearest("src/prce.ts", names), "src/price.ts");
	CHECK_STR(nearest("src/maim.ts", names), "src/main.ts");
}

TEST(the_first_of_equally_near_words_is_taken)
{
	const char *const names[] = { "fix-1", "fix-2", NULL };

	CHECK_STR(nearest("fix-3", names), "fix-1");
}

TEST(another_word_is_no_misspelling)
{
	const char *const names[] = { "good", "", "a-much-longer-name-than-that", NULL };

	CHECK(!nearest("nosuch", names));
	CHECK(!nearest("", names + 2));
}

TEST(a_short_word_may_be_wrong_in_one_letter)
{
	const char *const names[] = { "fix", NULL };

	CHECK_STR(nearest("fox", names), "fix");
	CHECK(!nearest("abc", names));
}

TEST(a_word_far_off_is_not_offered)
{
	const char *const names[] = { "such", "employ", "string", "fix", "spring-sale", "src/index.ts", NULL };

	CHECK(!nearest("nosuch", names));
	CHECK(!nearest("deploy", names));
	CHECK(!nearest("staging", names));
	CHECK(!nearest("box", names));
	CHECK(!nearest("winter-sale", names));
	CHECK(!nearest("src/main.tsx", names));
}

TEST(nothing_is_near_a_word_of_two_letters)
{
	const char *const names[] = { "ab", "a", "abc", NULL };

	CHECK(!nearest("ac", names));
	CHECK(!nearest("b", names));
}

TEST(a_long_word_may_have_up_to_three_mistakes)
{
	const char *const names[] = { "a-much-longer-name-than-that", NULL };

	CHECK_STR(nearest("a-mcuh-lnger-name-thann-that", names), "a-much-longer-name-than-that");
	CHECK(!nearest("a-mcuh-lnger-name-thann-taht", names));
}
