/* SPDX-License-Identifier: Apache-2.0 */
/* What a process hands down to its children, read from outside. */
#include "engine/served.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PRIME 0x100000001b3ULL

static uint64_t add(uint64_t sum, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ p[i]) * PRIME;
	return sum;
}

/* Lines of /proc/PID/status: whose it is, what it may do, where it may run. */
static const char *const lines[] = {
	"Uid:",    "Gid:",    "Groups:",     "CapInh:",  "CapPrm:",       "CapEff:",
	"CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:"
};

static uint64_t add_status(uint64_t sum, char *text, struct heritage *ret)
{
	char *rest = NULL;

	for (const char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "Umask:", 6) == 0)
			ret->umask = (mode_t)strtoul(line + 6, NULL, 8);
		if (strncmp(line, "SigIgn:", 7) == 0)
			ret->ignored = strtoull(line + 7, NULL, 16);
		for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
			if (strncmp(line, lines[i], strlen(lines[i])) == 0)
				sum = add(sum, line, strlen(line) + 1);
	}
	return sum;
}

static uint64_t add_file(uint64_t sum, int proc, const char *name)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	(void)fd_read_file(proc, name, 65536, &text, &size);
	return add(add(sum, &size, sizeof size), text ? text : "", size);
}

/* False if it cannot be seen: then nothing is known. */
static bool add_place(uint64_t *sum, int proc, const char *name)
{
	struct stat st;

	if (fstatat(proc, name, &st, 0) < 0)
		return false;
	*sum = add(*sum, &st.st_dev, sizeof st.st_dev);
	*sum = add(*sum, &st.st_ino, sizeof st.st_ino);
	return true;
}

static uint64_t add_numbers(uint64_t sum, pid_t pid)
{
	const long numbers[] = { sched_getscheduler(pid), getpriority(PRIO_PROCESS, (id_t)pid),
				 syscall(SYS_ioprio_get, 1, pid) };

	for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
		struct rlimit l = { 0 };

		(void)prlimit(pid, (__rlimit_resource_t)i, NULL, &l);
		sum = add(sum, &l, sizeof l);
	}
	return add(sum, numbers, sizeof numbers);
}

uint64_t likeness(pid_t pid, struct heritage *ret)
{
	/* The others are made anew for the view. */
	static const char *const places[] = { "root", "ns/mnt", "ns/net", "ns/user", "ns/pid_for_children" };
	static const char *const files[] = { "oom_score_adj", "attr/current", "cgroup", "personality" };
	AUTO_FREE char *status = NULL;
	AUTO_FD proc = -EBADF;
	uint64_t sum = 0xcbf29ce484222325ULL;
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret = (struct heritage){ .umask = 022 };
	if (proc < 0 || fd_read_file(proc, "status", 65536, &status, NULL) < 0)
		return 0;
	sum = add_status(sum, status, ret);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!add_place(&sum, proc, places[i]))
			return 0;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		sum = add_file(sum, proc, files[i]);
	sum = add_numbers(sum, pid);
	return sum ? sum : 1;
}
