/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <sys/prctl.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/macros.h"

static int shell(const char *script, int timeout_ms, struct child_result *ret)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };

	return child_run(argv, timeout_ms, ret);
}

TEST(the_exit_status_and_the_output_are_returned)
{
	struct child_result r;

	CHECK_EQ(shell("echo out; echo err >&2; exit 3", 10000, &r), 0);
	CHECK_EQ(r.exit_status, 3);
	CHECK_STR(r.output, "out\nerr");
}

TEST(an_end_by_signal_is_128_plus_the_signal)
{
	struct child_result r;

	CHECK_EQ(shell("kill -TERM $$", 10000, &r), 0);
	CHECK_EQ(r.exit_status, 128 + SIGTERM);
}

TEST(a_program_that_is_not_there_or_not_executable_is_an_error)
{
	char *const missing[] = { (char *)"no-such-program-anywhere", NULL };
	char *const plain[] = { (char *)"./plain", NULL };
	struct child_result r;

	tap_write(tap_dirfd, "plain", "x");
	CHECK_EQ(child_run(missing, 1000, &r), -ENOENT);
	CHECK_EQ(child_run(plain, 1000, &r), -EACCES);
}

TEST(directories_of_path_that_cannot_be_searched_are_passed_over)
{
	char *const missing[] = { (char *)"no-such-program-anywhere", NULL };
	char *const mine[] = { (char *)"mine", NULL };
	struct child_result r;

	CHECK_EQ(mkdirat(tap_dirfd, "closed", 0), 0);
	CHECK_EQ(mkdirat(tap_dirfd, "open", 0755), 0);
	tap_write(tap_dirfd, "open/mine", "#!/bin/sh\necho found\n");
	CHECK_EQ(setenv("PATH", "closed:nowhere:open:/bin", 1), 0);
	CHECK_EQ(child_run(missing, 1000, &r), -ENOENT);
	CHECK_EQ(child_run(mine, 1000, &r), -ENOENT);
	CHECK_EQ(fchmodat(tap_dirfd, "open/mine", 0755, 0), 0);
	CHECK_EQ(child_run(mine, 10000, &r), 0);
	CHECK_STR(r.output, "found");
	CHECK_EQ(setenv("PATH", "", 1), 0);
	CHECK_EQ(child_run(mine, 1000, &r), -ENOENT);
	CHECK_EQ(unsetenv("PATH"), 0);
	CHECK_EQ(shell("exit 4", 10000, &r), 0);
	CHECK_EQ(r.exit_status, 4);
}

TEST(two_that_were_started_run_side_by_side)
{
	char *const waits[] = { (char *)"sh", (char *)"-c", (char *)"until [ -e go ]; do sleep 0.01; done; echo came",
				NULL };
	char *const comes[] = { (char *)"sh", (char *)"-c", (char *)": >go; exit 4", NULL };
	struct child first, second;
	struct child_result r;

	CHECK_OK(child_start(waits, &first));
	CHECK_OK(child_start(comes, &second));
	CHECK_EQ(child_wait(&first, 30000, &r), 0);
	CHECK_EQ(r.exit_status, 0);
	CHECK_STR(r.output, "came");
	CHECK_EQ(child_wait(&second, 30000, &r), 0);
	CHECK_EQ(r.exit_status, 4);
}

TEST(what_it_reads_and_writes_can_be_given)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"cat; echo $WORD; echo oops >&2", NULL };
	char *const env[] = { (char *)"PATH=/usr/bin:/bin", (char *)"WORD=given", NULL };
	AUTO_FD in = -EBADF, out = -EBADF;
	struct child_result r;
	struct child c;

	tap_write(tap_dirfd, "in", "from a file\n");
	in = openat(tap_dirfd, "in", O_RDONLY | O_CLOEXEC);
	out = openat(tap_dirfd, "out", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_OK(child_start_with(argv, &(struct child_io){ in, out, env }, &c));
	CHECK_EQ(child_wait(&c, 10000, &r), 0);
	CHECK_EQ(r.exit_status, 0);
	CHECK_STR(r.output, "oops");
	CHECK_STR(tap_read(tap_dirfd, "out"), "from a file\ngiven\n");
}

TEST(of_long_output_the_end_is_kept)
{
	struct child_result r;

	CHECK_EQ(shell("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done", 30000, &r), 0);
	CHECK_EQ(r.exit_status, 0);
	CHECK_STR(r.output + strlen(r.output) - 10, "line 29999");
	CHECK(strlen(r.output) > 1000);
}

TEST(a_hanging_program_is_killed_with_its_children)
{
	int64_t start = clock_monotonic_ns();
	struct child_result r;
	int status;

	CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	CHECK_EQ(shell("sleep 50 & echo $! >pid; wait", 300, &r), -ETIMEDOUT);
	CHECK(clock_monotonic_ns() - start < 10 * NSEC_PER_SEC);
	/* The grandchild became ours: it was killed, and the child itself is reaped already. */
	CHECK_EQ(waitpid(-1, &status, 0), atoi(tap_read(tap_dirfd, "pid")));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

TEST(a_grandchild_that_keeps_the_output_open_does_not_delay_the_end)
{
	int64_t start = clock_monotonic_ns();
	struct child_result r;

	CHECK_EQ(shell("sleep 20 & echo $! >pid; echo done", 15000, &r), 0);
	CHECK_EQ(kill(atoi(tap_read(tap_dirfd, "pid")), SIGKILL), 0);
	CHECK_STR(r.output, "done");
	CHECK(clock_monotonic_ns() - start < 10 * NSEC_PER_SEC);
}

TEST(a_program_that_closes_its_output_is_still_waited_for)
{
	struct child_result r;

	CHECK_EQ(shell("exec >&- 2>&-; sleep 0.3; exit 9", -1, &r), 0);
	CHECK_EQ(r.exit_status, 9);
}

TEST(blocked_and_ignored_signals_and_open_files_are_not_inherited)
{
	struct child_result r;
	sigset_t all;
	int fd;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = open("/dev/null", O_RDONLY); /* on purpose without close-on-exec */
	CHECK(fd >= 0);
	/* Signals 1 to 31: 32 and 33 belong to the C library and cannot be set by us. */
	CHECK_EQ(shell("grep -E 'Sig(Blk|Ign):' /proc/self/status | grep -v '[08]0000000$'; ls /proc/$$/fd", 10000, &r),
		 0);
	CHECK_STR(r.output, "0\n1\n2");
}

TEST(standard_input_is_empty)
{
	struct child_result r;

	CHECK_EQ(shell("cat; echo end", 10000, &r), 0);
	CHECK_STR(r.output, "end");
}

TEST(no_file_descriptor_is_left_behind)
{
	struct child_result r;
	int before = dup(0), after;

	close(before);
	for (int i = 0; i < 20; i++)
		shell(i % 2 ? "exit 1" : "sleep 9", 20, &r);
	after = dup(0);
	CHECK_EQ(after, before);
}
