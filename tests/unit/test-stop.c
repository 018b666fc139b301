/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop.h"

static int asked;

static bool says_yes_the_third_time(void *arg)
{
	return ++asked > *(int *)arg;
}

TEST(without_a_way_to_ask_nothing_is_stopped)
{
	CHECK_EQ(stop_begin(NULL, NULL), 0);
	CHECK(!stop_is_possible());
	CHECK_EQ(stop_check(), 0);
	CHECK_EQ(stop_wait_ms(-1), -1);
	CHECK_EQ(stop_wait_ms(7000), 7000);
	stop_end();
}

TEST(once_stopped_it_stays_so_and_is_not_asked_again)
{
	int patience = 2;

	asked = 0;
	CHECK_EQ(stop_begin(says_yes_the_third_time, &patience), 0);
	CHECK(stop_is_possible());
	CHECK_EQ(stop_check(), 0);
	CHECK_EQ(stop_check(), 0);
	CHECK_EQ(stop_check(), -ECANCELED);
	CHECK_EQ(stop_check(), -ECANCELED);
	CHECK_EQ(asked, 3);
	stop_end();
	CHECK_EQ(stop_check(), 0);
}

TEST(a_wait_is_short_while_somebody_may_ask)
{
	int patience = 0;

	CHECK_EQ(stop_begin(says_yes_the_third_time, &patience), 0);
	CHECK(stop_wait_ms(-1) > 0 && stop_wait_ms(-1) < 1000);
	CHECK(stop_wait_ms(60000) < 1000);
	CHECK_EQ(stop_wait_ms(0), 0);
	stop_end();
}

TEST(a_child_is_stopped_by_what_its_parent_was_told)
{
	int patience = 0, status = 0;
	pid_t pid;

	asked = 0;
	CHECK_EQ(stop_begin(says_yes_the_third_time, &patience), 0);
	pid = fork();
	if (pid == 0) {
		stop_in_child();
		for (int i = 0; i < 3000 && stop_check() == 0; i++)
			usleep(10000);
		_exit(asked == 0 && stop_check() == -ECANCELED ? 0 : 1);
	}
	CHECK_EQ(stop_check(), -ECANCELED);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	stop_end();
}
