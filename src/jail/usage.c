/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a run use just now: pid 1 and all that descend from it, as /proc has them. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/process.h"
#include "jail/private.h"

#define DEPTH_MAX 64

static char *read_proc(pid_t pid, const char *name)
{
	char path[128], *text = NULL;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fd_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) < 0 ? NULL : text;
}

/* Resident pages that are not shared with a file: fields 2 and 3 of statm. */
static void add_memory(pid_t pid, struct jail_usage *u)
{
	AUTO_FREE char *text = read_proc(pid, "statm");
	unsigned long resident, shared;

	if (text && sscanf(text, "%*u %lu %lu", &resident, &shared) == 2 && resident > shared)
		u->memory += (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t number_of(const char *text, const char *name)
{
	const char *line = text ? strstr(text, name) : NULL;

	return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

static void add_tasks(pid_t pid, struct jail_usage *u)
{
	AUTO_FREE char *text = read_proc(pid, "status");

	u->tasks += number_of(text, "\nThreads:");
	u->shared = MAX(u->shared, number_of(text, "\nRssShmem:") * 1024);
}

/* Calls fn for the process and for all its descendants. */
static void each_process(pid_t pid, int depth, void (*fn)(pid_t pid, void *arg), void *arg)
{
	AUTO_FREE pid_t *children = NULL;
	size_t n;

	fn(pid, arg);
	/* A thread's children are listed with it; nearly always the first one has them all. */
	if (depth == DEPTH_MAX || process_children(pid, &children, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		each_process(children[i], depth + 1, fn, arg);
}

static void add_process(pid_t pid, void *arg)
{
	add_memory(pid, arg);
	add_tasks(pid, arg);
}

void jail_usage(pid_t pid, struct jail_usage *ret)
{
	*ret = (struct jail_usage){ 0 };
	each_process(pid, 0, add_process, ret);
	ret->memory += ret->shared;
}

/* ---- System V segments ---- */

/* Adds the last two of the sixteen columns of a line of /proc/sysvipc/shm: bytes in memory and
 * bytes swapped out. */
static uint64_t segment_size(const char *line)
{
	unsigned long long resident, swapped;

	return sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &resident, &swapped) ==
			       2
		       ? resident + swapped
		       : 0;
}

uint64_t jail_segments(int segments)
{
	int fd = segments < 0 ? -EBADF : fcntl(segments, F_DUPFD_CLOEXEC, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	uint64_t sum = 0;
	char line[512];

	if (!file)
		fd_close(fd);
	if (file)
		rewind(file);
	while (file && fgets(line, sizeof(line), file))
		sum += segment_size(line);
	if (file)
		(void)fclose(file);
	return sum;
}

/* ---- files without a name ---- */

struct nameless {
	dev_t dev;
	ino_t ino;
};

struct nameless_files {
	struct nameless *seen;
	size_t n, room;
	bool handed_in; /* the present fds are the caller's: do not count them */
	struct jail_nameless *sum;
};

/* Whether the file is seen for the first time. Without memory for the list it counts every time. */
static bool note(struct nameless_files *f, const struct stat *st)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->seen[i].dev == st->st_dev && f->seen[i].ino == st->st_ino)
			return false;
	if (f->n == f->room) {
		size_t room = f->room ? 2 * f->room : 64;
		struct nameless *more = realloc(f->seen, room * sizeof(*more));

		if (!more)
			return true;
		f->seen = more;
		f->room = room;
	}
	f->seen[f->n++] = (struct nameless){ st->st_dev, st->st_ino };
	return true;
}

static bool is_memory(int dir, const char *name)
{
	static const char prefix[] = "/memfd:";
	char target[sizeof(prefix)];

	return readlinkat(dir, name, target, sizeof(target)) >= (ssize_t)sizeof(prefix) - 1 &&
	       strncmp(target, prefix, sizeof(prefix) - 1) == 0;
}

static bool is_on_tmpfs(int dir, const char *name)
{
	AUTO_FD fd = openat(dir, name, O_PATH | O_CLOEXEC);
	struct statfs fs;

	return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static void add_file(struct nameless_files *f, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0 || !note(f, &st) || f->handed_in)
		return;
	if (is_memory(dir, name)) {
		f->sum->memory += (uint64_t)st.st_blocks * 512;
		return;
	}
	/* The tmpfs of the private places has a limit of its own. */
	if (!is_on_tmpfs(dir, name))
		f->sum->disk += (uint64_t)st.st_blocks * 512;
}

static void add_open_files(pid_t pid, void *arg)
{
	struct nameless_files *f = arg;
	char path[32];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			add_file(f, dirfd(d), e->d_name);
	if (d)
		closedir(d);
}

void jail_nameless(pid_t pid, struct jail_nameless *ret)
{
	struct nameless_files f = { .sum = ret, .handed_in = true };

	*ret = (struct jail_nameless){ 0 };
	add_open_files(getpid(), &f);
	f.handed_in = false;
	each_process(pid, 0, add_open_files, &f);
	free(f.seen);
}
