/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a run: what is taken, what is refused, and what it means. */
#include "tap.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "engine/settings.h"

static struct atoll_error err;

static void release(struct atoll_settings **s)
{
	*s = atoll_settings_free(*s);
}

TEST(durations_are_read_exactly)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = { { "1", 1000 },     { "0.25", 250 }, { "90s", 90000 },          { "1.5m", 90000 },
		     { "2h", 7200000 }, { "0.001", 1 },  { "365d", 31536000000LL }, { "0.0019", 1 } };
	static const char *const bad[] = { "",    "0",  "0.0", "-1",     "+1",  "1 s", "s",
					   "1.s", ".5", "1ms", "365.1d", "1e3", "0x1", "9999999999999999" };
	int64_t ms = -7;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		CHECK_EQ(settings_duration(good[i].text, &ms), 0);
		CHECK_EQ(ms, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(settings_duration(bad[i], &ms), -EINVAL);
}

TEST(what_a_list_holds_is_in_the_order_given)
{
	CLEANUP(release) struct atoll_settings *s = NULL;

	CHECK(!atoll_settings_get(s, 0));
	CHECK_EQ(atoll_settings_add(&s, "env", "A=1", NULL, &err), 0);
	CHECK_EQ(atoll_settings_add(&s, "timeout", "5", "a file:3", &err), 0);
	CHECK_EQ(atoll_settings_add(&s, "env", "A=2", NULL, &err), 0);
	CHECK_STR(atoll_settings_get(s, 0)->value, "A=1");
	CHECK_STR(atoll_settings_get(s, 0)->source, NULL);
	CHECK_STR(atoll_settings_get(s, 1)->source, "a file:3");
	CHECK_STR(atoll_settings_get(s, 2)->value, "A=2");
	CHECK(!atoll_settings_get(s, 3));
}

TEST(what_is_unknown_or_absurd_is_refused_with_its_source)
{
	CLEANUP(release) struct atoll_settings *s = NULL;

	CHECK_EQ(atoll_settings_add(&s, "frobnicate", "1", "x:7", &err), -ATOLL_INVALID);
	CHECK_CONTAINS(err.message, "x:7: there is no setting \"frobnicate\"");
	CHECK_EQ(atoll_settings_add(&s, "timeout", "0", "x:8", &err), -ATOLL_INVALID);
	CHECK_CONTAINS(err.message, "x:8: timeout \"0\" is not possible");
	CHECK_EQ(atoll_settings_add(&s, NULL, "0", NULL, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_settings_add(&s, "timeout", NULL, NULL, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_settings_add(NULL, "timeout", "1", NULL, &err), -ATOLL_INVALID);
	CHECK(!s);
}

TEST(relative_paths_are_made_absolute)
{
	CLEANUP(release) struct atoll_settings *s = NULL;

	CHECK_EQ(chdir("/usr"), 0);
	CHECK_EQ(atoll_settings_add(&s, "cwd", "bin", NULL, &err), 0);
	CHECK_EQ(atoll_settings_add(&s, "cwd", "~/x", NULL, &err), 0);
	CHECK_STR(atoll_settings_get(s, 0)->value, "/usr/bin");
	CHECK_STR(atoll_settings_get(s, 1)->value, "~/x");
}
