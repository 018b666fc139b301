/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of src/tree share: scenes to set up, and another user to be. */
#ifndef TESTS_UNIT_TREE_SCENE_H
#define TESTS_UNIT_TREE_SCENE_H

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "tap.h"
#include "tree/tree.h"

#define SCENE_UID 65534

TAP_UNUSED static int scene_dir(int dirfd, const char *name)
{
	CHECK_EQ(mkdirat(dirfd, name, 0755), 0);
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd < 0 ? -errno : fd);
	return fd;
}

TAP_UNUSED static struct tree_stat scene_stat(int dirfd, const char *name)
{
	struct tree_stat st;

	CHECK_OK(tree_stat(dirfd, name, &st));
	return st;
}

TAP_UNUSED static bool scene_has(int dirfd, const char *name)
{
	struct tree_stat st;

	return tree_stat(dirfd, name, &st) == 0;
}

TAP_UNUSED static int count_visit(const struct tree_entry *e, void *arg)
{
	(void)e;
	++*(int *)arg;
	return TREE_WALK_GO;
}

/* How many entries there are below a directory. */
TAP_UNUSED static int scene_count(int dirfd)
{
	int n = 0;

	CHECK_OK(tree_walk(dirfd, TREE_WALK_NO_ROOT, count_visit, &n, NULL));
	return n;
}

TAP_UNUSED static void scene_times(int dirfd, const char *name, int64_t atime_s, int64_t mtime_s)
{
	struct timespec t[2] = { { atime_s, 123456789 }, { mtime_s, 987654321 } };

	CHECK_EQ(utimensat(dirfd, name, t, AT_SYMLINK_NOFOLLOW), 0);
}

/* `levels` directories named "d", one in the other, and a file at the bottom. */
TAP_UNUSED static void scene_deep(int dirfd, int levels)
{
	int fd = dup(dirfd);

	for (int i = 0; i < levels; i++) {
		int next = scene_dir(fd, "d");

		close(fd);
		fd = next;
	}
	tap_write(fd, "bottom", "deep");
	close(fd);
}

/* A FIFO, a socket and (for root) a device nobody has: opening any of them would hang or fail. */
TAP_UNUSED static void scene_specials(int dirfd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(mkfifoat(dirfd, "fifo", 0644), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/socket", dirfd);
	CHECK_EQ(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(sock);
	if (geteuid() == 0)
		CHECK_EQ(mknodat(dirfd, "device", S_IFCHR | 0644, makedev(240, 17)), 0);
}

/* Moves into a mount namespace of its own, tap_dirfd included, so that what is mounted goes with the process. */
TAP_UNUSED static void scene_need_mounts(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		tap_skip("no mount namespace of its own");
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	close(tap_dirfd);
	tap_dirfd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Runs fn(dirfd) in a child without privilege; its failed checks are ours. */
TAP_UNUSED static void scene_as_user_in(int dirfd, void (*fn)(int dirfd))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0) {
			CHECK_EQ(setgroups(0, NULL), 0);
			CHECK_EQ(setresgid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
			CHECK_EQ(setresuid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
		}
		fn(dirfd);
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* The same in a directory of the user's own. */
TAP_UNUSED static void scene_as_user(void (*fn)(int dirfd))
{
	int dirfd = scene_dir(tap_dirfd, "home");

	if (geteuid() == 0)
		CHECK_EQ(fchown(dirfd, SCENE_UID, SCENE_UID), 0);
	scene_as_user_in(dirfd, fn);
	close(dirfd);
}

/* Removes a directory outside the test's own when the test has ended, however that comes about. */
TAP_UNUSED static void scene_guard(const char *path)
{
	int ends[2], null;
	char c;

	CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
	if (fork() != 0) {
		close(ends[0]);
		return; /* the other end stays open as long as we live */
	}
	setsid();
	close(ends[1]);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	while (read(ends[0], &c, 1) > 0)
		;
	execl("/bin/sh", "sh", "-c", "chmod -R u+rwX \"$1\"; rm -rf \"$1\"", "sh", path, (char *)NULL);
	_exit(127);
}

/* A private directory on another filesystem (tmpfs), removed by scene_elsewhere_done(). */
static char scene_elsewhere_path[64] TAP_UNUSED;
TAP_UNUSED static int scene_elsewhere(void)
{
	struct tree_stat here = scene_stat(tap_dirfd, ""), there;
	int fd;

	snprintf(scene_elsewhere_path, sizeof(scene_elsewhere_path), "/dev/shm/atoll-unit.XXXXXX");
	if (!mkdtemp(scene_elsewhere_path))
		tap_skip("no /dev/shm");
	scene_guard(scene_elsewhere_path);
	fd = open(scene_elsewhere_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	there = scene_stat(fd, "");
	if (here.dev == there.dev) {
		rmdir(scene_elsewhere_path);
		tap_skip("/dev/shm is on the same filesystem");
	}
	return fd;
}

TAP_UNUSED static void scene_elsewhere_done(int fd)
{
	CHECK_EQ(fchmod(fd, 0700), 0);
	CHECK_OK(tree_empty(fd));
	CHECK_EQ(rmdir(scene_elsewhere_path), 0);
	close(fd);
}

#endif
