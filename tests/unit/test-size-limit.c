/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <sys/resource.h>

#include "base/size-limit.h"

static void limit_files(rlim_t bytes)
{
	struct rlimit limit = { bytes, RLIM_INFINITY };

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int write_too_much(void)
{
	static const char text[2000];
	int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0600);
	ssize_t n;

	CHECK(fd >= 0);
	n = write(fd, text, sizeof text);
	if (n == 1000)
		n = write(fd, text, sizeof text);
	close(fd);
	return n < 0 ? -errno : (int)n;
}

static bool is_blocked(void)
{
	sigset_t now;

	CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, SIGXFSZ);
}

static int guarded_write(void)
{
	SIZE_LIMIT_GUARD;

	CHECK(is_blocked());
	return write_too_much();
}

TEST(a_write_beyond_the_limit_fails_and_does_not_end_the_process)
{
	limit_files(1000);
	CHECK_EQ(guarded_write(), -EFBIG);
	CHECK(!is_blocked());
}

TEST(after_it_the_signal_does_what_it_did)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		limit_files(1000);
		(void)guarded_write();
		(void)write_too_much();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

TEST(one_guard_within_another_leaves_the_signal_blocked)
{
	limit_files(1000);
	{
		SIZE_LIMIT_GUARD;

		CHECK_EQ(guarded_write(), -EFBIG);
		CHECK(is_blocked());
		CHECK_EQ(write_too_much(), -EFBIG);
	}
	CHECK(!is_blocked());
}

TEST(without_a_limit_nothing_is_blocked)
{
	SIZE_LIMIT_GUARD;

	CHECK(!is_blocked());
}

TEST(a_caller_that_blocks_the_signal_keeps_it_blocked)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	limit_files(1000);
	CHECK_EQ(guarded_write(), -EFBIG);
	CHECK(is_blocked());
}

TEST(a_command_gets_the_mask_of_the_caller)
{
	sigset_t mask;

	limit_files(1000);
	{
		SIZE_LIMIT_GUARD;

		CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
		CHECK(sigismember(&mask, SIGXFSZ));
		size_limit_restore(&mask);
		CHECK(!sigismember(&mask, SIGXFSZ));
	}
	sigaddset(&mask, SIGXFSZ);
	size_limit_restore(&mask);
	CHECK(sigismember(&mask, SIGXFSZ));
}
