/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a sandboxed run can be: namespaces, one volatile overlay at the tree's own path, pivot_root, exec.
 *
 *	limit-run TREE UPPER WORK COMMAND [ARGUMENT…]
 *
 * No registry, no lock, no record of what was touched, nothing hidden and nothing made private: what `atoll run` does beyond this
 * is what it is measured for. Root needs no user namespace, an ordinary user gets one.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "limit-run: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static void check(long r, const char *what)
{
	if (r < 0)
		die(what);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

static void enter(uid_t uid, gid_t gid)
{
	char map[64];

	if (uid == 0) {
		check(unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare");
		return;
	}
	check(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID), "unshare");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
}

/* What a volatile mount leaves, so that nobody takes its layer for a durable one. */
static void clear_marker(const char *work)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/work/incompat/volatile/dirty", work);
	if (unlink(path) < 0 && errno != ENOENT)
		die(path);
	*strrchr(path, '/') = 0;
	if (rmdir(path) < 0 && errno != ENOENT)
		die(path);
}

static int make_overlay(bool is_root, const char *lower, const char *upper, const char *work)
{
	int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	int fd;

	check(fs, "fsopen");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lower, 0), "lowerdir");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0), "upperdir");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0), "workdir");
	check(fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0), "volatile");
	if (!is_root)
		check(fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0), "userxattr");
	check(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "overlay");
	fd = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	check(fd, "fsmount");
	close(fs);
	return fd;
}

/* The host's tree becomes a root of its own, and the old one goes. */
static void pivot(void)
{
	int root = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	check(root, "open_tree");
	check(move_mount(root, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
	check(fchdir(root), "fchdir");
	check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	check(umount2(".", MNT_DETACH), "umount2");
	check(chdir("/"), "chdir");
	close(root);
}

static void run(bool is_root, char **argv)
{
	int layer;

	check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
	clear_marker(argv[3]);
	layer = make_overlay(is_root, argv[1], argv[2], argv[3]);
	pivot();
	check(move_mount(layer, "", AT_FDCWD, argv[1], MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
	close(layer);
	execvp(argv[4], argv + 4);
	die(argv[4]);
}

int main(int argc, char **argv)
{
	uid_t uid = geteuid();
	int status;
	pid_t pid;

	if (argc < 5) {
		fprintf(stderr, "usage: limit-run TREE UPPER WORK COMMAND [ARGUMENT…]\n");
		return 125;
	}
	enter(uid, getegid());
	pid = vfork();
	check(pid, "vfork");
	if (pid == 0)
		run(uid == 0, argv);
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
