/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#define PID_FS_MAGIC 0x50494446 /* not in every header */
#define STAT_MAX 8192
#define CHILDREN_MAX (1 << 20)

struct stat_line {
	uint64_t start;
	pid_t parent;
	bool alive;
};

/* The command name may hold any byte, so the fields begin behind the last ')'. A process whose
 * first thread has ended is no zombie as long as it has other threads. */
static int read_stat(pid_t pid, struct stat_line *ret)
{
	AUTO_FREE char *text = NULL;
	char path[32], state;
	const char *at;
	long threads;
	int r;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	r = fd_read_file(AT_FDCWD, path, STAT_MAX, &text, NULL);
	if (r < 0)
		return r;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %" SCNu64,
			  &state, &ret->parent, &threads, &ret->start) != 4)
		return -EIO;
	ret->alive = state != 'X' && (state != 'Z' || threads > 1);
	return 0;
}

int process_start_time(pid_t pid, uint64_t *ret)
{
	struct stat_line line;
	int r = read_stat(pid, &line);

	if (r == 0)
		*ret = line.start;
	return r;
}

static int open_pidfd(pid_t pid)
{
	long fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : (int)fd;
}

/* A pidfd is readable as soon as its process has ended. */
static bool has_ended(int pidfd)
{
	struct pollfd fd = { .fd = pidfd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* Returns 0 on kernels whose pidfds all have the same inode. */
static uint64_t inode_tag(int pidfd)
{
	struct statfs fs;
	struct stat st;

	if (pidfd < 0 || fstatfs(pidfd, &fs) < 0 || fs.f_type != PID_FS_MAGIC || fstat(pidfd, &st) < 0)
		return 0;
	return PROCESS_TAG_INODE | st.st_ino;
}

int process_tag(pid_t pid, uint64_t *ret)
{
	AUTO_FD pidfd = -EBADF;
	struct stat_line line;
	int r = read_stat(pid, &line);

	if (r == 0) {
		*ret = line.start;
		return 0;
	}
	if (kill(pid, 0) < 0)
		return r;
	pidfd = open_pidfd(pid);
	*ret = inode_tag(pidfd);
	return 0;
}

static bool has_inode_tag(uint64_t tag)
{
	return tag == 0 || (tag & PROCESS_TAG_INODE) != 0;
}

/* Compares the inode tag of the pidfd with tag. If either of them is unknown, they count as
 * equal. */
static bool inode_matches(int pidfd, uint64_t tag)
{
	uint64_t found = inode_tag(pidfd);

	return !(tag & PROCESS_TAG_INODE) || found == 0 || found == tag;
}

/* Whether the hidden process of this number can be the tagged one. It must be a process of this
 * user, who may signal it. */
static bool hidden_is(pid_t pid, int pidfd, uint64_t tag)
{
	if (kill(pid, 0) < 0)
		return false;
	return pidfd < 0 || (!has_ended(pidfd) && inode_matches(pidfd, tag));
}

static bool is_it(pid_t pid, int pidfd, uint64_t tag)
{
	struct stat_line line;

	if (read_stat(pid, &line) < 0)
		return hidden_is(pid, pidfd, tag);
	return line.alive && (has_inode_tag(tag) ? inode_matches(pidfd, tag) : line.start == tag);
}

/* Checks the tag after opening the pidfd: if the process of this number matches then, the pidfd is
 * of the same process. */
int process_open(pid_t pid, uint64_t tag, int *ret_pidfd)
{
	AUTO_FD pidfd = pid > 0 ? open_pidfd(pid) : -ESRCH;

	if (pidfd == -ESRCH || !is_it(pid, pidfd, tag))
		return -ESRCH;
	*ret_pidfd = pidfd < 0 ? -EBADF : TAKE_FD(pidfd);
	return 0;
}

bool process_is_alive(pid_t pid, uint64_t tag)
{
	int pidfd = -EBADF;

	if (process_open(pid, tag, &pidfd) < 0)
		return false;
	fd_close(pidfd);
	return true;
}

/* ---- children ---- */

struct list {
	pid_t *v;
	size_t n;
};

static int add(struct list *l, pid_t pid)
{
	pid_t *grown = reallocarray(l->v, l->n + 1, sizeof *grown);

	if (!grown)
		return -ENOMEM;
	l->v = grown;
	l->v[l->n++] = pid;
	return 0;
}

static int parse_children(const char *text, struct list *l)
{
	char *end;
	int r = 0;

	for (long pid; r == 0 && (pid = strtol(text, &end, 10)) > 0 && end != text; text = end)
		r = add(l, (pid_t)pid);
	return r;
}

/* For a hidden process, and on kernels without lists of children: searches /proc for processes with
 * this parent. */
static int search_children(pid_t pid, struct list *l)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (e = readdir(dir))) {
		pid_t other = (pid_t)strtol(e->d_name, NULL, 10);
		struct stat_line line;

		if (other > 0 && read_stat(other, &line) == 0 && line.parent == pid)
			r = add(l, other);
	}
	closedir(dir);
	return r;
}

bool process_signal_is_for_group(int sig, int code)
{
	return code == SI_KERNEL && !(sig == SIGHUP && getsid(0) == getpid());
}

int process_children(pid_t pid, pid_t **ret, size_t *ret_n)
{
	AUTO_FREE char *text = NULL;
	struct list l = { 0 };
	char path[64];
	int r;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	r = fd_read_file(AT_FDCWD, path, CHILDREN_MAX, &text, NULL);
	r = r == 0 ? parse_children(text, &l) : search_children(pid, &l);
	if (r < 0) {
		free(l.v);
		return r;
	}
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}
