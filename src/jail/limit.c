/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command may use, at most, and by which means: a control group of its own where the user was given a part of that tree, else
 * the limits that each process has. Those cannot say everything: the engine watches what they leave open.
 */
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"

#define CPU_PERIOD_US 100000U

/* Only root may raise a hard limit. */
static int check_nofile(const struct jail_limits *l, struct atoll_error *err)
{
	struct rlimit now;

	if (l->nofile == 0 || getrlimit(RLIMIT_NOFILE, &now) < 0 || jail_is_root() || l->nofile <= now.rlim_max)
		return 0;
	return error_set(err, ATOLL_INVALID, 0, "run", NULL,
			 "nofile %llu is more than the %llu that you may have yourself (ulimit -Hn)",
			 (unsigned long long)l->nofile, (unsigned long long)now.rlim_max);
}

/* ---- a control group ---- */

static int fill_cgroup(const struct jail_limits *l)
{
	int r = 0;

	if (l->memory_by == JAIL_LIMIT_BY_CGROUP) {
		r = cgroup_set(l->cgroup, "memory.max", "%llu", (unsigned long long)l->memory);
		/* Where there is swap, and where all of it can be ended together. */
		(void)cgroup_set(l->cgroup, "memory.swap.max", "0");
		(void)cgroup_set(l->cgroup, "memory.oom.group", "1");
	}
	if (r == 0 && l->pids_by == JAIL_LIMIT_BY_CGROUP) /* and pid 1, which is ours */
		r = cgroup_set(l->cgroup, "pids.max", "%llu", (unsigned long long)l->pids + 1);
	if (r == 0 && l->cpus_by == JAIL_LIMIT_BY_CGROUP)
		r = cgroup_set(l->cgroup, "cpu.max", "%u %u", l->cpu_millis * (CPU_PERIOD_US / 1000), CPU_PERIOD_US);
	return r;
}

/* All of them or none: what a machine offers it mostly offers together. */
static void try_cgroup(struct jail_limits *l)
{
	const char *wanted[4] = { NULL };
	size_t n = 0;

	if (l->memory)
		wanted[n++] = "memory";
	if (l->pids)
		wanted[n++] = "pids";
	if (l->cpu_millis)
		wanted[n++] = "cpu";
	l->cgroup = n > 0 ? cgroup_make(wanted) : NULL;
	if (!l->cgroup)
		return;
	l->memory_by = l->memory ? JAIL_LIMIT_BY_CGROUP : JAIL_LIMIT_BY_NOTHING;
	l->pids_by = l->pids ? JAIL_LIMIT_BY_CGROUP : JAIL_LIMIT_BY_NOTHING;
	l->cpus_by = l->cpu_millis ? JAIL_LIMIT_BY_CGROUP : JAIL_LIMIT_BY_NOTHING;
	if (fill_cgroup(l) < 0) {
		jail_limit_close(l, NULL);
		l->memory_by = l->pids_by = l->cpus_by = JAIL_LIMIT_BY_NOTHING;
	}
}

/* ---- each process ---- */

static int unavailable(const char *what, const char *why, struct atoll_error *err)
{
	return error_set(
		err, ATOLL_UNSUPPORTED, 0, "run", NULL,
		"%s cannot be limited here: no part of the control groups (v2) with that controller is yours, and %s",
		what, why);
}

/* How many processors there are for us, at most so many as a set can hold. */
static unsigned count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static int choose_rlimits(struct jail_limits *l, struct atoll_error *err)
{
	if (l->memory)
		l->memory_by = JAIL_LIMIT_BY_RLIMIT;
	/* The kernel does not count those of root. */
	if (l->pids && jail_is_root())
		return unavailable("pids", "root's processes are not counted otherwise", err);
	if (l->pids)
		l->pids_by = JAIL_LIMIT_BY_RLIMIT;
	if (l->cpu_millis && l->cpu_millis < 1000)
		return unavailable("cpus", "less than one processor cannot be given otherwise", err);
	if (l->cpu_millis)
		l->cpus_by = l->cpu_millis / 1000 < count_processors() ? JAIL_LIMIT_BY_AFFINITY : JAIL_LIMIT_BY_NOTHING;
	return 0;
}

int jail_limit_open(struct jail_limits *l, struct atoll_error *err)
{
	int r = check_nofile(l, err);

	if (r < 0)
		return r;
	try_cgroup(l);
	return l->cgroup ? 0 : choose_rlimits(l, err);
}

int limit_enter(const struct jail_limits *l, pid_t pid)
{
	return l->cgroup ? cgroup_set(l->cgroup, "cgroup.procs", "%d", (int)pid) : 0;
}

static int set_rlimit(int which, uint64_t value)
{
	struct rlimit now, wanted = { .rlim_cur = value, .rlim_max = value };

	if (getrlimit((__rlimit_resource_t)which, &now) < 0)
		return -errno;
	/* What is stricter already stays so. */
	if (which != RLIMIT_NOFILE && now.rlim_max < value)
		return 0;
	return setrlimit((__rlimit_resource_t)which, &wanted) < 0 ? -errno : 0;
}

/* The first so many of the processors that we have. */
static int set_affinity(unsigned n)
{
	cpu_set_t have, wanted;

	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return -errno;
	CPU_ZERO(&wanted);
	for (unsigned i = 0; i < CPU_SETSIZE && n > 0; i++) {
		if (!CPU_ISSET(i, &have))
			continue;
		CPU_SET(i, &wanted);
		n--;
	}
	return sched_setaffinity(0, sizeof(wanted), &wanted) < 0 ? -errno : 0;
}

int jail_limit_apply(const struct jail_limits *l)
{
	int r = l->nofile ? set_rlimit(RLIMIT_NOFILE, l->nofile) : fd_restore_limit(l->nofile_own);

	if (r == 0 && l->memory_by == JAIL_LIMIT_BY_RLIMIT)
		r = set_rlimit(RLIMIT_DATA, l->memory);
	/* pid 1 is ours, and is counted too. */
	if (r == 0 && l->pids_by == JAIL_LIMIT_BY_RLIMIT)
		r = set_rlimit(RLIMIT_NPROC, l->pids + 1);
	if (r == 0 && l->cpus_by == JAIL_LIMIT_BY_AFFINITY)
		r = set_affinity(l->cpu_millis / 1000);
	return r;
}

void jail_limit_close(struct jail_limits *l, struct jail_limit_events *ret)
{
	if (ret)
		*ret = (struct jail_limit_events){ 0 };
	if (!l->cgroup)
		return;
	if (ret) {
		ret->memory = cgroup_event(l->cgroup, "memory.events", "oom_kill") > 0;
		ret->pids = cgroup_event(l->cgroup, "pids.events", "max") > 0;
	}
	cgroup_remove(l->cgroup);
	free(l->cgroup);
	l->cgroup = NULL;
}
