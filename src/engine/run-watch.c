/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is watched of a run, where nothing else keeps the limit: how much its changes take on disk, and without a control group the
 * memory of all its processes together.
 */
#include "engine/run-watch.h"

#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"

#define LOOK_MS 50
#define DISK_LOOK_MS 200
/* Of the time between two looks, measuring may take a twentieth. */
#define DISK_SHARE 20
/* With less than that left hardly anything can be written. */
#define FULL 65536

/* ---- the size of the changes ---- */

static int add_blocks(const struct tree_entry *entry, void *arg)
{
	uint64_t *sum = arg;

	*sum += entry->stat.blocks * 512;
	return entry->stat.is_mount_root && *entry->path ? TREE_WALK_SKIP : TREE_WALK_GO;
}

static bool shares_workspace(const struct session *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(s->resources[k].row.work, s->resources[i].row.work) == 0)
			return true;
	return false;
}

/* With capabilities: a directory that its owner may not enter hides nothing. What changes meanwhile is passed over. */
static int measure(void *arg, int out)
{
	const struct session *s = arg;
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct resource *r = &s->resources[i];
		AUTO_FD fd = resource_isolates(r) && !shares_workspace(s, i) ? resource_workspace(r) : -EBADF;

		if (fd >= 0)
			(void)tree_walk(fd, 0, add_blocks, &sum, NULL);
	}
	return write(out, &sum, sizeof sum) == (ssize_t)sizeof sum ? 0 : -ATOLL_FAILED;
}

static int measure_disk(const struct session *s, uint64_t *ret, struct atoll_error *err)
{
	AUTO_FD out = -EBADF;
	int r = jail_call(measure, (void *)s, &out, err);

	if (r < 0)
		return r;
	return read(out, ret, sizeof *ret) == (ssize_t)sizeof *ret
		       ? 0
		       : error_set(err, ATOLL_FAILED, 0, "run", NULL, "cannot measure what the changes take");
}

static bool shares_filesystem(const struct session *s, size_t i)
{
	struct stat a, b;

	for (size_t k = 0; k < i; k++)
		if (resource_isolates(&s->resources[k]) && fstat(s->resources[k].work_fd, &a) == 0 &&
		    fstat(s->resources[i].work_fd, &b) == 0 && a.st_dev == b.st_dev)
			return true;
	return false;
}

/* What the filesystems of the changes have left; where a quota is set for the directory, they tell what is left of that. */
static uint64_t measure_room(const struct session *s)
{
	uint64_t sum = 0;
	struct statvfs v;

	for (size_t i = 0; i < s->n; i++)
		if (resource_isolates(&s->resources[i]) && !shares_filesystem(s, i) &&
		    fstatvfs(s->resources[i].work_fd, &v) == 0)
			sum += (uint64_t)v.f_bavail * v.f_frsize;
	return sum;
}

/* ---- words ---- */

static void add_size(char *text, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
		value /= 1024;
	snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void say_too_much(struct run_watch *w, const char *what, uint64_t used, uint64_t limit, const char *end)
{
	char u[32], l[32], over[32];

	add_size(u, sizeof u, used);
	add_size(l, sizeof l, limit);
	add_size(over, sizeof over, used - limit);
	snprintf(w->limited, sizeof w->limited, "%s %s, %s more than the limit of %s: %s", what, u, over, l, end);
}

/* ---- looking ---- */

/* pid is 0 if no process can have a file open. */
static bool disk_is_fine(struct run_watch *w, pid_t pid, const char *end)
{
	int64_t began = clock_monotonic_ns();
	struct jail_nameless nameless = { 0 };
	uint64_t used;

	if (!w->o->disk || measure_disk(w->s, &used, NULL) < 0)
		return true;
	if (pid > 0)
		jail_nameless(pid, &nameless);
	used += nameless.disk;
	w->disk_at = clock_monotonic_ns() + MAX(DISK_LOOK_MS * 1000000LL, (clock_monotonic_ns() - began) * DISK_SHARE);
	used -= MIN(used, w->disk_base);
	if (used <= w->o->disk)
		return true;
	say_too_much(w, "the changes take", used, w->o->disk, end);
	return false;
}

/* Looking through all open files is slow: the longer it takes, the less often the watch does it. */
static void look_at_nameless(struct run_watch *w, pid_t pid)
{
	int64_t began = clock_monotonic_ns();
	struct jail_nameless nameless;

	if (began < w->nameless_at)
		return;
	jail_nameless(pid, &nameless);
	w->nameless = nameless.memory;
	w->nameless_at = clock_monotonic_ns() + (clock_monotonic_ns() - began) * DISK_SHARE;
}

static bool memory_is_fine(struct run_watch *w, pid_t pid, int segments)
{
	const struct jail_limits *l = &w->o->limits;
	struct jail_usage u;
	uint64_t unmapped;

	if (l->memory_by != JAIL_LIMIT_BY_RLIMIT && l->pids_by != JAIL_LIMIT_BY_RLIMIT)
		return true;
	jail_usage(pid, &u);
	w->pids_reached |= l->pids_by == JAIL_LIMIT_BY_RLIMIT && u.tasks > l->pids;
	if (l->memory_by != JAIL_LIMIT_BY_RLIMIT)
		return true;
	look_at_nameless(w, pid);
	/* u.shared already counts the pages of a memfd or segment that a process has mapped. */
	unmapped = w->nameless + jail_segments(segments);
	u.memory += unmapped - MIN(unmapped, u.shared);
	if (u.memory <= l->memory)
		return true;
	say_too_much(w, "the processes took", u.memory, l->memory, "everything inside was ended");
	return false;
}

int run_watch_look(pid_t pid, int segments, void *arg)
{
	struct run_watch *w = arg;

	if (!memory_is_fine(w, pid, segments))
		return 0;
	if (clock_monotonic_ns() >= w->disk_at && !disk_is_fine(w, pid, "everything inside was ended"))
		return 0;
	return LOOK_MS;
}

bool run_watch_is_needed(const struct run_options *o)
{
	return o->disk || o->limits.memory || o->limits.pids;
}

/* A copy takes much before anything was changed: what it grows by counts. */
static bool has_copies(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (resource_isolates(&s->resources[i]) && !(s->resources[i].ops->capabilities & STRATEGY_LAYERED))
			return true;
	return false;
}

int run_watch_begin(struct run_watch *w, struct atoll_error *err)
{
	int r = 0;

	if (w->o->disk && has_copies(w->s))
		r = measure_disk(w->s, &w->disk_base, err);
	if (r >= 0 && !disk_is_fine(w, 0, "commit or roll back first, or allow more"))
		return error_set(err, ATOLL_NO_SPACE, 0, "run", w->s->box.name, "%s", w->limited);
	return r;
}

void run_watch_end(struct run_watch *w, const struct jail_limit_events *events, struct atoll_run_result *ret)
{
	/* The kernel ended pid 1 with the others. */
	if (events->memory)
		ret->ended_from_outside = false;
	if (!w->limited[0] && events->memory)
		snprintf(w->limited, sizeof w->limited, "the limit of memory was reached: processes inside were ended");
	if (!w->limited[0])
		(void)disk_is_fine(w, 0, "the command had ended by then");
	if (!w->limited[0] && w->o->disk && measure_room(w->s) < FULL)
		snprintf(w->limited, sizeof w->limited, "the filesystem of the changes is full");
	if (!w->limited[0] && (events->pids || w->pids_reached))
		snprintf(w->limited, sizeof w->limited, "the limit of %llu processes was reached",
			 (unsigned long long)w->o->limits.pids);
	snprintf(ret->limited, sizeof ret->limited, "%s", w->limited);
}

/* ---- what is said beforehand ---- */

const char *run_watch_means(enum jail_limit_means by)
{
	switch (by) {
	case JAIL_LIMIT_BY_CGROUP:
		return "a control group";
	case JAIL_LIMIT_BY_RLIMIT:
		return "a limit of each process";
	case JAIL_LIMIT_BY_AFFINITY:
		return "the processors it starts on, which it may change";
	case JAIL_LIMIT_BY_NOTHING:
		break;
	}
	return "the machine having no more";
}

const char *run_watch_disk_means(const struct session *s, uint64_t limit)
{
	return measure_room(s) <= limit ? "its filesystem, which has no more" : "a watch";
}

void run_watch_tell(const struct session *s, const struct run_options *o, const struct atoll_run_options *options)
{
	const struct jail_limits *l = &o->limits;
	AUTO_STRBUF text = STRBUF_INIT;

	if (l->memory)
		strbuf_addf(&text, ", memory by %s%s", run_watch_means(l->memory_by),
			    l->memory_by == JAIL_LIMIT_BY_RLIMIT ? " and a watch on their sum" : "");
	if (l->pids)
		strbuf_addf(&text, ", pids by %s", run_watch_means(l->pids_by));
	if (l->cpu_millis)
		strbuf_addf(&text, ", cpus by %s", run_watch_means(l->cpus_by));
	if (o->disk)
		strbuf_addf(&text, ", disk by %s", run_watch_disk_means(s, o->disk));
	if (text.size && options->notice) {
		AUTO_FREE char *line = str_format("limited:%s", strbuf_str(&text) + 1);

		if (line)
			options->notice(false, line, options->notice_arg);
	}
}
