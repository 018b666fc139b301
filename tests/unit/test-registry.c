/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of strategies. */
#include "strategy/strategy.h"

#include <string.h>

#include "tap.h"

TEST(strength_is_a_total_order_and_the_list_is_in_it)
{
	for (size_t i = 1; strategy_all[i]; i++)
		CHECK(strategy_all[i - 1]->strength > strategy_all[i]->strength);
	CHECK(strategy_all[0] != NULL);
}

static size_t place_of(const struct strategy_ops *ops)
{
	size_t i = 0;

	while (strategy_all[i] && strategy_all[i] != ops)
		i++;
	return i;
}

static enum atoll_kind lowest_kind(const struct strategy_ops *ops)
{
	return (enum atoll_kind)__builtin_ctz(ops->kinds);
}

TEST(every_name_is_found_once_and_an_unknown_one_is_not)
{
	AUTO_STRBUF names = STRBUF_INIT;

	strategy_names(&names);
	for (size_t i = 0; strategy_all[i]; i++) {
		CHECK(strategy_find(strategy_all[i]->name, lowest_kind(strategy_all[i])) == strategy_all[i]);
		CHECK(strstr(strbuf_str(&names), strategy_all[i]->name) != NULL);
		CHECK(strategy_all[i]->summary && *strategy_all[i]->summary);
	}
	CHECK(strategy_find("", ATOLL_KIND_DIR) == NULL);
	CHECK(strategy_find("overla", ATOLL_KIND_DIR) == NULL);
	CHECK(strategy_find("overlay,copy_on_write", ATOLL_KIND_DIR) == NULL);
}

TEST(a_further_one_takes_its_place_by_strength_and_is_found)
{
	struct strategy_ops mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);

	mine.name = "mine";
	mine.strength++;
	CHECK_EQ(strategy_register(&mine), 0);
	CHECK(strategy_find("mine", ATOLL_KIND_DIR) == &mine);
	CHECK(strategy_all[place_of(&mine)] == &mine);
	CHECK(place_of(&mine) > place_of(strategy_find("overlay", ATOLL_KIND_DIR)));
	CHECK_EQ(place_of(strategy_find("copy_on_write", ATOLL_KIND_DIR)), place_of(&mine) + 1);
	CHECK(place_of(&mine) > place_of(strategy_find("snapshot", ATOLL_KIND_DIR)));
	CHECK(place_of(strategy_find("snapshot", ATOLL_KIND_DIR)) > place_of(strategy_find("overlay", ATOLL_KIND_DIR)));
	CHECK_EQ(strategy_register(&mine), -EEXIST);
}

TEST(one_that_lacks_something_or_promises_too_much_is_not_taken)
{
	struct strategy_ops mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);

	mine.name = "mine";
	CHECK_EQ(strategy_register(&mine), -EEXIST); /* the strength */
	mine.strength++;
	mine.changes = NULL;
	CHECK_EQ(strategy_register(&mine), -EINVAL);
	mine.capabilities = STRATEGY_UNDO_AFTER;
	CHECK_EQ(strategy_register(&mine), -EINVAL);
	mine.capabilities = 0;
	mine.begin = NULL;
	CHECK_EQ(strategy_register(&mine), -EINVAL);
	CHECK(strategy_find("mine", ATOLL_KIND_DIR) == NULL);
}

TEST(what_isolates_provides_what_the_engine_calls_and_what_does_not_promises_nothing)
{
	for (size_t i = 0; strategy_all[i]; i++) {
		const struct strategy_ops *ops = strategy_all[i];

		CHECK(ops->begin && ops->view);
		if (ops->capabilities & STRATEGY_ISOLATES) {
			CHECK(ops->changes && ops->base && ops->workspace);
		} else {
			CHECK(!(ops->capabilities & (STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER | STRATEGY_LAYERED)));
		}
	}
}
