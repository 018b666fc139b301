/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a run use just now: pid 1 and all that descend from it, as /proc has them. */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
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

static void add_tree(pid_t pid, int depth, struct jail_usage *u)
{
	char name[64];
	AUTO_FREE char *children = NULL;

	add_memory(pid, u);
	add_tasks(pid, u);
	/* A thread's children are listed with it; nearly always the first one has them all. */
	snprintf(name, sizeof(name), "task/%d/children", (int)pid);
	children = depth < DEPTH_MAX ? read_proc(pid, name) : NULL;
	for (char *p = children; p && *p;) {
		char *end;
		long child = strtol(p, &end, 10);

		if (end == p)
			break;
		add_tree((pid_t)child, depth + 1, u);
		p = end + strspn(end, " ");
	}
}

void jail_usage(pid_t pid, struct jail_usage *ret)
{
	*ret = (struct jail_usage){ 0 };
	add_tree(pid, 0, ret);
	ret->memory += ret->shared;
}
