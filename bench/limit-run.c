/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a sandboxed run can be.
 *
 *	limit-run TREE UPPER WORK COMMAND [ARGUMENT…]
 *		namespaces (user, mount, pid, ipc, uts, cgroup, network), one volatile overlay at the tree's own path, pivot_root, exec
 *	limit-run --work TREE UPPER WORK COMMAND [ARGUMENT…]
 *		the same without root's user namespace, in which, without ids, it could write nothing
 *	limit-run --view HOME HIDDEN TREE UPPER WORK COMMAND [ARGUMENT…]
 *		the view that `atoll run` gives, by the fewest calls: also a private /tmp, /dev/shm and /proc, a discarded layer over
 *		the home, one directory hidden, everything else read-only
 *
 * No registry, no lock, no record of what was touched, no check of any path, no filter of system calls, no Landlock: what `atoll run` does
 * beyond this is what it is measured for. Root enters its user namespace after the mounts are made, an ordinary user before.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	bool is_root, works;
	const char *home, *hidden; /* NULL: the tree and nothing else */
	const char *tree, *upper, *work;
	char **command;
};

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

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET)

static void enter(uid_t uid, gid_t gid)
{
	char map[64];

	if (uid == 0) {
		check(unshare(NAMESPACES), "unshare");
		return;
	}
	check(unshare(CLONE_NEWUSER | NAMESPACES), "unshare");
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

static int finish(int fs, const char *what)
{
	int fd;

	check(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0), what);
	fd = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	check(fd, what);
	close(fs);
	return fd;
}

static int make_overlay(bool is_root, const char *lower, const char *upper, const char *work)
{
	int fs = fsopen("overlay", FSOPEN_CLOEXEC);

	check(fs, "fsopen");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lower, 0), "lowerdir");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0), "upperdir");
	check(fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0), "workdir");
	check(fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0), "volatile");
	if (!is_root)
		check(fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0), "userxattr");
	return finish(fs, "overlay");
}

static int make_simple(const char *type)
{
	int fs = fsopen(type, FSOPEN_CLOEXEC);

	check(fs, type);
	return finish(fs, type);
}

static void put(int fd, const char *path)
{
	check(move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH), path);
	close(fd);
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

/* The scratch layer lies in the private /tmp while it is mounted, and is then covered by another. */
static void make_view(const struct job *job)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int layer = make_overlay(job->is_root, job->tree, job->upper, job->work);
	int scratch;

	put(make_simple("tmpfs"), "/tmp");
	check(mkdir("/tmp/u", 0700), "mkdir");
	check(mkdir("/tmp/w", 0700), "mkdir");
	scratch = make_overlay(job->is_root, job->home, "/tmp/u", "/tmp/w");
	check(mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only), "mount_setattr");
	put(make_simple("proc"), "/proc");
	put(make_simple("tmpfs"), "/dev/shm");
	put(make_simple("tmpfs"), "/tmp");
	put(scratch, job->home);
	put(layer, job->tree);
	put(make_simple("tmpfs"), job->hidden);
}

static void run(const struct job *job)
{
	int layer;

	check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
	clear_marker(job->work);
	if (job->home) {
		make_view(job);
	} else {
		layer = make_overlay(job->is_root, job->tree, job->upper, job->work);
		pivot();
		put(layer, job->tree);
	}
	/* Without ids: `true` wants none, and nobody is there to map them. */
	if (job->is_root && !job->works)
		check(unshare(CLONE_NEWUSER), "unshare");
	execvp(job->command[0], job->command);
	die(job->command[0]);
}

int main(int argc, char **argv)
{
	struct job job = { .is_root = geteuid() == 0 };
	int at = 1, status;
	pid_t pid;

	if (argc > 3 && strcmp(argv[1], "--view") == 0) {
		job.home = argv[2];
		job.hidden = argv[3];
		at = 4;
	} else if (argc > 1 && strcmp(argv[1], "--work") == 0) {
		job.works = true;
		at = 2;
	}
	if (argc < at + 4) {
		fprintf(stderr, "usage: limit-run [--view HOME HIDDEN | --work] TREE UPPER WORK COMMAND [ARGUMENT…]\n");
		return 125;
	}
	job.tree = argv[at];
	job.upper = argv[at + 1];
	job.work = argv[at + 2];
	job.command = argv + at + 3;
	enter(geteuid(), getegid());
	pid = vfork();
	check(pid, "vfork");
	if (pid == 0)
		run(&job);
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
