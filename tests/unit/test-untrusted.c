/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an untrusted run: src/engine/untrusted.c. */
#include <string.h>

#include "base/macros.h"
#include "engine/untrusted.h"
#include "tap.h"

TEST(variables_that_look_like_credentials_are_known_by_name_or_value)
{
	static const char *const bad[] = { "GITHUB_TOKEN=x",
					   "NPM_TOKEN=",
					   "AWS_SECRET_ACCESS_KEY=x",
					   "AWS_ACCESS_KEY_ID=x",
					   "PGPASSWORD=x",
					   "MYSQL_PWD=x",
					   "api_key=x",
					   "OPENAI_API_KEY=x",
					   "SSH_KEY_FILE=x",
					   "KEY=x",
					   "DB_PASS=x",
					   "BASIC_AUTH=x",
					   "SENTRY_DSN=x",
					   "GITLAB_PAT=x",
					   "SLACK_WEBHOOK_URL=x",
					   "PASSPHRASE=x",
					   "U=https://a:b@c/",
					   "U=a postgres://u:p@h/d" };
	static const char *const good[] = { "PATH=/bin",      "PWD=/x",           "OLDPWD=/x", "HOME=/x",
					    "LC_ALL=C",       "KEYBOARD=de",      "MONKEY=1",  "GIT_AUTHOR_NAME=x",
					    "PATTERN=x",      "PINNED=1",         "COMPASS=n", "EDITOR=vi",
					    "U=https://a@c/", "U=https://c:80/@", "X=a:b@c" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!untrusted_is_credential(bad[i]))
			tap_fail(__FILE__, __LINE__, "%s", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (untrusted_is_credential(good[i]))
			tap_fail(__FILE__, __LINE__, "%s", good[i]);
}

static struct atoll_settings *list;
static size_t numbers[ORIGIN_COUNT];

static void add(int origin, const char *name, const char *value)
{
	CHECK_EQ(atoll_settings_add(&list, name, value, NULL, NULL), 0);
	numbers[origin]++;
}

static bool has(const char *name)
{
	const struct atoll_setting *s;

	for (size_t i = 0; (s = atoll_settings_get(list, i)); i++)
		if (strcmp(s->name, name) == 0)
			return true;
	return false;
}

TEST(what_is_weaker_is_overridden_and_the_rest_stays)
{
	struct atoll_error err;
	bool untrusted;

	add(ORIGIN_DEFAULTS, "net", "host");
	add(ORIGIN_DEFAULTS, "env", "A=1");
	add(ORIGIN_DEFAULTS, "hide", "/x");
	add(ORIGIN_SANDBOX, "publish", "80");
	add(ORIGIN_SANDBOX, "ro", "/y");
	add(ORIGIN_CALLER, "untrusted", "yes");
	add(ORIGIN_CALLER, "env", "B=1");
	add(ORIGIN_CALLER, "net", "none");
	CHECK_EQ(untrusted_apply(list, numbers, &untrusted, &err), 0);
	CHECK(untrusted);
	CHECK_EQ(numbers[ORIGIN_DEFAULTS], 1);
	CHECK_EQ(numbers[ORIGIN_SANDBOX], 1);
	CHECK_EQ(numbers[ORIGIN_CALLER], 3);
	CHECK(!has("publish") && has("hide") && has("ro"));
	CHECK_STR(atoll_settings_get(list, 3)->value, "B=1");
}

TEST(what_is_as_strong_or_stronger_is_an_error)
{
	struct atoll_error err;
	bool untrusted;

	add(ORIGIN_SANDBOX, "untrusted", "yes");
	add(ORIGIN_CALLER, "net", "host");
	CHECK_EQ(untrusted_apply(list, numbers, &untrusted, &err), -ATOLL_INVALID);
	CHECK_CONTAINS(err.message, "net \"host\" and untrusted contradict each other");
	CHECK_EQ(untrusted_check(list, &err), -ATOLL_INVALID);
	add(ORIGIN_CALLER, "untrusted", "no");
	CHECK_EQ(untrusted_apply(list, numbers, &untrusted, &err), 0);
	CHECK(!untrusted);
	CHECK_EQ(untrusted_check(list, &err), 0);
}
