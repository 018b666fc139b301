/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "base/process.h"

/* A child that waits to be killed. */
static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	return pid;
}

static void kill_child(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Waits for the end of the child and leaves it a zombie. */
static void kill_and_keep(pid_t pid)
{
	siginfo_t info;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* From here on /proc shows no process, as hidepid hides all processes that the user may not
 * inspect. */
static void hide_processes(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) < 0)
		tap_skip("no namespaces");
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mount("none", "/proc", "tmpfs", 0, NULL), 0);
}

/* The leak check of a sanitizer build needs /proc at the end of the test. */
static void show_processes(void)
{
	CHECK_EQ(umount2("/proc", MNT_DETACH), 0);
}

static bool has(pid_t pid, const pid_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == pid)
			return true;
	return false;
}

TEST(the_tag_of_a_process_is_when_it_started)
{
	uint64_t tag, start, again;
	pid_t pid = start_child();

	CHECK_EQ(process_tag(pid, &tag), 0);
	CHECK_EQ(process_start_time(pid, &start), 0);
	CHECK_EQ(tag, start);
	CHECK_EQ(process_tag(pid, &again), 0);
	CHECK_EQ(tag, again);
	CHECK(process_is_alive(pid, tag));
	CHECK(!process_is_alive(pid, tag + 1));
	kill_child(pid);
	CHECK(!process_is_alive(pid, tag));
}

TEST(one_that_was_not_waited_for_does_not_live)
{
	pid_t pid = start_child();
	uint64_t tag;

	CHECK_EQ(process_tag(pid, &tag), 0);
	kill_and_keep(pid);
	CHECK(!process_is_alive(pid, tag));
	CHECK(!process_is_alive(pid, 0));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_pidfd_is_of_the_process_that_was_meant)
{
	pid_t pid = start_child();
	int pidfd = -EBADF;
	uint64_t tag;

	CHECK_EQ(process_tag(pid, &tag), 0);
	CHECK_EQ(process_open(pid, tag, &pidfd), 0);
	CHECK(pidfd >= 0);
	close(pidfd);
	CHECK_EQ(process_open(pid, tag + 1, &pidfd), -ESRCH);
	kill_child(pid);
	CHECK_EQ(process_open(pid, tag, &pidfd), -ESRCH);
}

TEST(no_process_has_a_number_below_one)
{
	CHECK(!process_is_alive(0, 0));
	CHECK(!process_is_alive(-1, 0));
}

TEST(a_hidden_process_is_told_apart_all_the_same)
{
	pid_t pid = start_child(), other = start_child();
	uint64_t seen, tag, of_other;
	int pidfd = -EBADF;

	CHECK_EQ(process_tag(pid, &seen), 0);
	hide_processes();
	CHECK(process_start_time(pid, &tag) < 0);
	CHECK_EQ(process_tag(pid, &tag), 0);
	CHECK_EQ(process_tag(other, &of_other), 0);
	CHECK(process_is_alive(pid, tag));
	CHECK(process_is_alive(pid, seen));
	if (tag & PROCESS_TAG_INODE)
		CHECK(!process_is_alive(pid, of_other));
	CHECK_EQ(process_open(pid, tag, &pidfd), 0);
	CHECK(pidfd >= 0);
	kill_and_keep(pid);
	CHECK(!process_is_alive(pid, tag));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!process_is_alive(pid, tag));
	CHECK(process_tag(pid, &tag) < 0);
	show_processes();
}

TEST(a_tag_that_was_taken_while_hidden_holds_where_the_process_shows)
{
	pid_t pid = start_child(), helper;
	uint64_t tag = 0;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	helper = fork();
	if (helper == 0) {
		hide_processes();
		CHECK_EQ(process_tag(pid, &tag), 0);
		CHECK(write(ends[1], &tag, sizeof tag) == sizeof tag);
		_exit(0);
	}
	close(ends[1]);
	CHECK_EQ(waitpid(helper, NULL, 0), helper);
	if (read(ends[0], &tag, sizeof tag) != sizeof tag)
		tap_skip("no namespaces");
	CHECK(process_is_alive(pid, tag));
	CHECK(!(tag & PROCESS_TAG_INODE) || !process_is_alive(pid, tag + 1));
	kill_child(pid);
	CHECK(!process_is_alive(pid, tag));
}

TEST(children_are_found_in_the_list_of_the_kernel)
{
	pid_t one = start_child(), other = start_child(), *list;
	size_t n;

	CHECK_EQ(process_children(getpid(), &list, &n), 0);
	CHECK_EQ(n, 2);
	CHECK(has(one, list, n) && has(other, list, n));
	free(list);
	CHECK_EQ(process_children(one, &list, &n), 0);
	CHECK_EQ(n, 0);
	free(list);
}
