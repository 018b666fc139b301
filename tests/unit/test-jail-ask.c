/* SPDX-License-Identifier: Apache-2.0 */
/* The request that is sent to a server of commands: whole, too long, and damaged in every way. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/jail.h"
#include "tap.h"

static char data[JAIL_REQUEST_MAX];
static char *const argv[] = { "sh", "-c", "", NULL };
static char *const env[] = { "A=1", "B=", NULL };

static size_t written(void)
{
	ssize_t n = jail_request_write(data, sizeof data, "/home", argv, env);

	CHECK(n > 0);
	return (size_t)n;
}

TEST(what_is_written_is_read)
{
	size_t size = written();
	struct jail_request request;
	struct jail_strings s;

	CHECK(jail_request_read(data, size, &request, &s));
	CHECK_EQ(request.n_args, 3);
	CHECK_EQ(request.n_env, 2);
	CHECK_STR(s.cwd, "/home");
	CHECK_STR(s.args[0], "sh");
	CHECK_STR(s.args[2], "");
	CHECK(!s.args[3]);
	CHECK_STR(s.env[1], "B=");
	CHECK(!s.env[2]);
	free(s.all);
}

TEST(one_without_environment_is_whole)
{
	static char *const none[] = { NULL };
	ssize_t size = jail_request_write(data, sizeof data, "/", argv, none);
	struct jail_request request;
	struct jail_strings s;

	CHECK(size > 0 && jail_request_read(data, (size_t)size, &request, &s));
	CHECK(!s.env[0]);
	free(s.all);
}

TEST(what_does_not_fit_is_refused)
{
	static char *many[JAIL_REQUEST_STRINGS_MAX + 2];
	size_t size = written();

	for (size_t n = 0; n < size; n++)
		CHECK_EQ(jail_request_write(data, n, "/home", argv, env), -E2BIG);
	for (size_t i = 0; i < JAIL_REQUEST_STRINGS_MAX; i++)
		many[i] = "x";
	CHECK_EQ(jail_request_write(data, sizeof data, "/", many, env), -E2BIG);
}

TEST(one_that_is_cut_or_longer_is_none)
{
	size_t size = written();
	struct jail_request request;
	struct jail_strings s;

	for (size_t n = 0; n < size; n++)
		CHECK(!jail_request_read(data, n, &request, &s));
	data[size] = '\0';
	CHECK(!jail_request_read(data, size + 1, &request, &s));
}

TEST(numbers_that_do_not_fit_the_strings_make_it_none)
{
	static const uint32_t numbers[] = { 0, 1, 2, 4, 5, 100, JAIL_REQUEST_STRINGS_MAX, UINT32_MAX };
	size_t size = written();
	struct jail_request request;
	struct jail_strings s;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		memcpy(&request, data, sizeof request);
		request.n_args = numbers[i];
		memcpy(data, &request, sizeof request);
		CHECK(!jail_request_read(data, size, &request, &s));
	}
}
