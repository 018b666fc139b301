/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <sys/xattr.h>

#include "base/fd.h"
#include "base/sys.h"

static void make_file(const char *name, const char *content)
{
	AUTO_FD fd = sys_open(tap_dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK_OK(fd);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(sys_write(fd, content, strlen(content)), 0);
	CHECK_EQ(sys_fsync(fd), 0);
}

static struct stat stat_of(const char *name)
{
	struct stat st;

	CHECK_EQ(fstatat(tap_dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

TEST(failures_are_returned_as_negative_errno)
{
	CHECK_EQ(sys_open(tap_dirfd, "no/f", O_WRONLY | O_CREAT, 0600), -ENOENT);
	CHECK_EQ(sys_rename(tap_dirfd, "a", tap_dirfd, "b", 0), -ENOENT);
	CHECK_EQ(sys_link(tap_dirfd, "a", tap_dirfd, "b"), -ENOENT);
	CHECK_EQ(sys_unlink(tap_dirfd, "a", 0), -ENOENT);
	CHECK_EQ(sys_mkdir(tap_dirfd, ".", 0700), -EEXIST);
	CHECK_EQ(sys_symlink("x", tap_dirfd, "."), -EEXIST);
	CHECK_EQ(sys_write(-1, "x", 1), -EBADF);
	CHECK_EQ(sys_pwrite(-1, "x", 1, 0), -EBADF);
	CHECK_EQ(sys_truncate(-1, 0), -EBADF);
	CHECK_EQ(sys_chown(tap_dirfd, "a", 0, 0), -ENOENT);
	CHECK_EQ(sys_fsync(-1), -EBADF);
	CHECK_EQ(sys_syncfs(-1), -EBADF);
	CHECK_EQ(sys_clone_file(-1, -1), -EBADF);
	CHECK_EQ(sys_copy_range(-1, NULL, -1, NULL, 1), -EBADF);
	CHECK_EQ(sys_sendfile(-1, -1, NULL, 1), -EBADF);
	CHECK_EQ(sys_snapshot(-1, -1, "a", true), -EBADF);
	CHECK_EQ(sys_subvolume_destroy(-1, "a"), -EBADF);
	CHECK_EQ(sys_subvolume_thaw(-1), -EBADF);
	CHECK_EQ(sys_btrfs_sync(-1), -EBADF);
	CHECK_EQ(sys_lease(-1, F_RDLCK), -EBADF);
}

TEST(names_are_made_exchanged_linked_and_removed)
{
	make_file("a", "A");
	make_file("b", "B");
	CHECK_EQ(sys_rename(tap_dirfd, "a", tap_dirfd, "b", 1U << 1 /* RENAME_EXCHANGE */), 0);
	CHECK_STR(tap_read(tap_dirfd, "a"), "B");
	CHECK_STR(tap_read(tap_dirfd, "b"), "A");
	CHECK_EQ(sys_link(tap_dirfd, "a", tap_dirfd, "c"), 0);
	CHECK_EQ(stat_of("a").st_nlink, 2);
	CHECK_EQ(sys_mkdir(tap_dirfd, "d", 0700), 0);
	CHECK_EQ(sys_symlink("target", tap_dirfd, "l"), 0);
	CHECK_EQ(sys_unlink(tap_dirfd, "l", 0), 0);
	CHECK_EQ(sys_unlink(tap_dirfd, "d", AT_REMOVEDIR), 0);
	CHECK_EQ(sys_syncfs(tap_dirfd), 0);
}

TEST(a_write_into_a_full_pipe_is_continued_until_all_is_written)
{
	size_t size = 1 << 20, got = 0;
	char *data = malloc(size), buffer[4096];
	int fds[2];
	pid_t pid;

	CHECK(data);
	memset(data, 'x', size);
	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		_exit(sys_write(fds[1], data, size) == 0 ? 0 : 1);
	}
	close(fds[1]);
	for (ssize_t n; (n = read(fds[0], buffer, sizeof(buffer))) > 0;)
		got += (size_t)n;
	CHECK_EQ(got, size);
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	free(data);
}

TEST(a_full_device_is_reported)
{
	AUTO_FD fd = sys_open(AT_FDCWD, "/dev/full", O_WRONLY, 0);

	CHECK_OK(fd);
	CHECK_EQ(sys_write(fd, "x", 1), -ENOSPC);
}

TEST(mode_owner_times_and_xattrs_are_set_through_path_fds_too)
{
	const struct timespec times[2] = { { 1000, 1 }, { 2000, 2 } };
	char value[8];

	make_file("f", "x");
	for (int i = 0; i < 2; i++) {
		AUTO_FD fd = fd_open_beneath(tap_dirfd, "f", i ? O_PATH : O_RDONLY);

		CHECK_OK(fd);
		CHECK_EQ(sys_chmod(fd, i ? 0640 : 0604), 0);
		CHECK_EQ(stat_of("f").st_mode & 07777, i ? 0640 : 0604);
		CHECK_EQ(sys_chown(fd, "", getuid(), getgid()), 0);
		CHECK_EQ(sys_utimens(fd, "", times), 0);
		CHECK_EQ(stat_of("f").st_mtim.tv_sec, 2000);
		CHECK_EQ(stat_of("f").st_mtim.tv_nsec, 2);
		CHECK_EQ(sys_setxattr(fd, "user.test", "abc", 3), 0);
		CHECK_EQ(getxattr("f", "user.test", value, sizeof(value)), 3);
		CHECK_EQ(sys_removexattr(fd, "user.test"), 0);
		CHECK_EQ(sys_removexattr(fd, "user.test"), -ENODATA);
	}
}

TEST(times_and_owner_of_a_link_are_its_own)
{
	const struct timespec times[2] = { { 5, 0 }, { 6, 0 } };

	make_file("f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(sys_utimens(tap_dirfd, "l", times), 0);
	CHECK_EQ(sys_chown(tap_dirfd, "l", getuid(), getgid()), 0);
	CHECK_EQ(stat_of("l").st_mtim.tv_sec, 6);
	CHECK(stat_of("f").st_mtim.tv_sec > 6);
}

TEST(data_is_copied_and_cut)
{
	off_t from = 1, to = 0;

	make_file("from", "abcdef");
	make_file("to", "");
	AUTO_FD in = open("from", O_RDONLY | O_CLOEXEC), out = open("to", O_RDWR | O_CLOEXEC);

	CHECK_EQ(sys_copy_range(in, &from, out, &to, 3), 3);
	CHECK_STR(tap_read(tap_dirfd, "to"), "bcd");
	CHECK_EQ(lseek(out, 3, SEEK_SET), 3);
	from = 4;
	CHECK_EQ(sys_sendfile(out, in, &from, 100), 2);
	CHECK_STR(tap_read(tap_dirfd, "to"), "bcdef");
	CHECK_EQ(sys_truncate(out, 2), 0);
	CHECK_STR(tap_read(tap_dirfd, "to"), "bc");
	CHECK_EQ(sys_pwrite(out, "xy", 2, 1), 0);
	CHECK_STR(tap_read(tap_dirfd, "to"), "bxy");
}

TEST(a_lease_is_refused_while_somebody_writes)
{
	make_file("f", "x");
	AUTO_FD reader = open("f", O_RDONLY | O_CLOEXEC), writer = open("f", O_WRONLY | O_CLOEXEC);

	CHECK_EQ(sys_lease(reader, F_RDLCK), -EAGAIN);
	writer = fd_close(writer);
	CHECK_EQ(sys_lease(reader, F_RDLCK), 0);
	CHECK_EQ(sys_lease(reader, F_UNLCK), 0);
}

/* ---- The seam ---------------------------------------------------------------------------------------------------- */

/* Runs this program again with faults set, doing the steps of play() instead of tests; returns the wait status. */
static int play_with(const char *fault, const char *from)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setenv("PLAY", "1", 1);
		setenv("ATOLL_FAULT", fault, 1);
		setenv("ATOLL_FAULT_COUNT", "count", 1);
		setenv("ATOLL_FAULT_TRACE", "trace", 1);
		if (from)
			setenv("ATOLL_FAULT_FROM", from, 1);
		else
			unsetenv("ATOLL_FAULT_FROM");
		execl("/proc/self/exe", "play", (char *)NULL);
		_exit(126);
	}
	unlinkat(tap_dirfd, "trace", 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* Three calls here, two in a child, one more here; the exit status says which one failed. */
__attribute__((constructor)) static void play(void)
{
	int failed = 0, status;
	pid_t pid;

	if (!getenv("PLAY"))
		return;
	for (int i = 1; i <= 3; i++) {
		if (i == 3)
			sys_fault_mark("third");
		if (sys_mkdir(AT_FDCWD, (char[]){ (char)('0' + i), 0 }, 0700) == -ENOSPC)
			failed = i;
	}
	pid = fork();
	if (pid == 0) {
		int in_child = 0;

		sys_fault_child();
		if (sys_mkdir(AT_FDCWD, "4", 0700) == -ENOSPC)
			in_child = 4;
		if (sys_mkdir(AT_FDCWD, "5", 0700) == -ENOSPC)
			in_child = 5;
		_exit(in_child);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		exit(99);
	failed = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : failed;
	if (sys_mkdir(AT_FDCWD, "6", 0700) == -ENOSPC)
		failed = 6;
	exit(failed);
}

/* Which of the six directories are there, as a string of digits; they are removed. */
static const char *made(void)
{
	static char digits[8];
	size_t n = 0;

	for (char c = '1'; c <= '6'; c++) {
		if (unlinkat(tap_dirfd, (char[]){ c, 0 }, AT_REMOVEDIR) == 0)
			digits[n++] = c;
	}
	digits[n] = '\0';
	return digits;
}

#ifndef ATOLL_FAULTS

TEST(a_release_build_ignores_the_fault_variables)
{
	CHECK(!sys_faults_built_in());
	CHECK_EQ(play_with("2:ENOSPC", NULL), 0);
	CHECK_STR(made(), "123456");
	CHECK_EQ(faccessat(tap_dirfd, "count", F_OK, 0), -1);
}

#else

TEST(calls_are_counted_over_forked_children)
{
	CHECK(sys_faults_built_in());
	CHECK_EQ(play_with("count", NULL), 0);
	CHECK_STR(made(), "123456");
	CHECK_STR(tap_read(tap_dirfd, "count"), "6\n");
	CHECK_CONTAINS(tap_read(tap_dirfd, "trace"), "5 sys_mkdir\n6 sys_mkdir\n");
}

TEST(exactly_the_named_call_fails_and_is_not_made)
{
	for (int i = 1; i <= 6; i++) {
		char fault[16], expected[8] = "123456";

		snprintf(fault, sizeof(fault), "%d:ENOSPC", i);
		memmove(expected + i - 1, expected + i, (size_t)(7 - i));
		CHECK_EQ(WEXITSTATUS(play_with(fault, NULL)), i);
		CHECK_STR(made(), expected);
	}
	CHECK_EQ(play_with("7:ENOSPC", NULL), 0);
	CHECK_STR(made(), "123456");
}

TEST(kill_ends_all_processes_before_or_after_the_call)
{
	for (int after = 0; after < 2; after++) {
		for (int i = 1; i <= 6; i++) {
			char fault[24], expected[8] = "123456";
			int status;

			snprintf(fault, sizeof(fault), "%d:kill%s", i, after ? "-after" : "");
			expected[after ? i : i - 1] = '\0';
			status = play_with(fault, NULL);
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			CHECK_STR(made(), expected);
		}
	}
}

TEST(counting_begins_at_the_mark)
{
	CHECK_EQ(WEXITSTATUS(play_with("1:ENOSPC", "third")), 3);
	CHECK_EQ(WEXITSTATUS(play_with("1:ENOSPC", "no-such-mark")), 0);
}

TEST(a_malformed_fault_stops_the_program)
{
	static const char *const bad[] = { "x", "1", "0:EIO", "1:", "1:ENOSUCH", ":EIO" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(WEXITSTATUS(play_with(bad[i], NULL)), 125);
}

#endif
