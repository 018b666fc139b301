/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds processes that may do less than their run: they have another root (chroot, or a mount
 * namespace of their own with --userns), or a Landlock domain of their own. rename.c acts for
 * processes from outside, and must not act for one of these.
 *
 * The kernel does not say whether a process has a Landlock domain, so the filter reports
 * landlock_restrict_self(). Children inherit the domain, and keep it when their parent has ended.
 * So once a task has a domain, every task that began later counts as having it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process.h"
#include "jail/private.h"
#include "tree/tree.h"

static uint64_t ticks_now(void)
{
	struct timespec now;
	uint64_t per_second = (uint64_t)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * per_second + (uint64_t)now.tv_nsec / (1000000000 / per_second);
}

/* Returns the process of a task, since a domain may apply to all of its threads; -1 if the task has
 * ended. */
static pid_t process_of(pid_t task)
{
	AUTO_FREE char *text = NULL;
	char path[48];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)task);
	line = fd_read_file(AT_FDCWD, path, 1 << 16, &text, NULL) < 0 ? NULL : strstr(text, "\nTgid:");
	return line ? (pid_t)strtol(line + strlen("\nTgid:"), NULL, 10) : -1;
}

void confined_note(struct confined *c, pid_t task)
{
	if (c->n == 0)
		c->since = ticks_now();
	if (c->n < CONFINED_MAX)
		c->processes[c->n] = process_of(task);
	c->n++;
}

static bool has_domain(const struct confined *c, pid_t task)
{
	uint64_t began;
	pid_t process;

	if (c->n == 0)
		return false;
	if (c->n > CONFINED_MAX || process_start_time(task, &began) < 0 || began >= c->since)
		return true;
	process = process_of(task);
	for (size_t i = 0; i < c->n && process > 0; i++)
		if (c->processes[i] == process)
			return true;
	return process < 0;
}

static bool has_another_root(const struct confined *c, pid_t task)
{
	char path[48];
	AUTO_FD fd = -EBADF;
	struct tree_stat st;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)task);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* A mount has a different id in each mount namespace. */
	return fd < 0 || tree_stat(fd, "", &st) < 0 || st.ino != c->root_ino ||
	       (c->root_mount != 0 && st.mnt_id != c->root_mount);
}

bool confined_is(const struct confined *c, pid_t task)
{
	return has_domain(c, task) || has_another_root(c, task);
}
