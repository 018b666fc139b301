/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root inside, for the command of an ordinary user: a second user namespace within the first, in which the user's own id is 0. All other
 * ids that the first one has stay what they are. The mounts belong to the first one, so that this root owns nothing but files of
 * the user's: what it makes is the user's outside.
 *
 * Made by pid 1, since it must lie in the namespace that pid 1 is in, which may be another run's. A child lives in it until its ids are
 * mapped; it has the same table of files as pid 1, for in the /proc of the host neither knows the other's number. Child side.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/private.h"

#define MAP_SIZE 4096 /* of the kernel: a map is written at once, within a page */

struct text {
	char data[MAP_SIZE];
	size_t size;
};

static void add_number(struct text *t, unsigned long number)
{
	char digits[24];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (n > 0 && t->size < sizeof(t->data))
		t->data[t->size++] = digits[--n];
}

/* One that does not fit makes the whole too long for the kernel, which says so. */
static void add_line(struct text *t, unsigned long inside, unsigned long outside, unsigned long count)
{
	const unsigned long numbers[] = { inside, outside, count };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		add_number(t, numbers[i]);
		if (t->size < sizeof(t->data))
			t->data[t->size++] = i + 1 < ARRAY_SIZE(numbers) ? ' ' : '\n';
	}
}

static int read_map(const char *path, char *data, size_t size)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, data, size - 1);

	if (n < 0)
		return -errno;
	data[n] = '\0';
	return 0;
}

/* Of each line "first outside count" of the present map those that are not our own id. */
static int make_map(const char *path, unsigned long own, struct text *ret)
{
	static char present[MAP_SIZE];
	int r = read_map(path, present, sizeof(present));
	char *p = present;

	if (r < 0)
		return r;
	ret->size = 0;
	add_line(ret, 0, own, 1);
	while (*p) {
		unsigned long first = strtoul(p, &p, 10), count;

		(void)strtoul(p, &p, 10);
		count = strtoul(p, &p, 10);
		if (first != own && first != 0 && count > 0)
			add_line(ret, first, first, count);
		p += strspn(p, " \n");
	}
	return 0;
}

static int write_at(int dir, const char *name, const void *data, size_t size)
{
	AUTO_FD fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, data, size) != (ssize_t)size ? -errno : 0;
}

static int map_inhabitant(int proc, unsigned long uid, unsigned long gid)
{
	static struct text uids, gids;
	int r = make_map("/proc/self/uid_map", uid, &uids);

	if (r == 0)
		r = make_map("/proc/self/gid_map", gid, &gids);
	if (r == 0)
		r = write_at(proc, "setgroups", "deny", 4);
	if (r == 0)
		r = write_at(proc, "uid_map", uids.data, uids.size);
	return r < 0 ? r : write_at(proc, "gid_map", gids.data, gids.size);
}

/* Tells under which number its own directory in /proc is open, and waits to be ended. */
static void inhabit(int report)
{
	int proc;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)!write(report, &proc, sizeof(proc));
	for (;;)
		(void)pause();
}

/* Its directory in /proc, which is now ours. */
static int meet(int report)
{
	int proc;
	ssize_t n;

	do {
		n = read(report, &proc, sizeof(proc));
	} while (n < 0 && errno == EINTR);
	return n != (ssize_t)sizeof(proc) ? -EPERM : proc < 0 ? -EACCES : proc;
}

static int open_mapped(int report, unsigned long uid, unsigned long gid)
{
	AUTO_FD proc = meet(report);
	int r = proc < 0 ? proc : map_inhabitant(proc, uid, gid);

	if (r == 0)
		r = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	return r == -1 ? -errno : r;
}

int ids_inner_root(void)
{
	unsigned long uid = geteuid(), gid = getegid();
	int ends[2], r;
	long pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_FILES, NULL, NULL, NULL, NULL);
	if (pid == 0)
		inhabit(ends[1]);
	r = pid < 0 ? -errno : open_mapped(ends[0], uid, gid);
	if (pid > 0) {
		(void)kill((pid_t)pid, SIGKILL);
		while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	close(ends[1]);
	return r;
}
