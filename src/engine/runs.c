/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at runs, and ending them. */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "engine/record.h"

#define DEFAULT_GRACE_MS 10000

/* The lock file of a sandbox, without a lock. */
static int open_lock(struct atoll *a, const char *name, char **ret_name, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	int r = session_peek(a, name, &s, err), fd = -EBADF;

	if (r < 0)
		return r;
	fd = lock_open(a, s.box.uuid);
	*ret_name = TAKE_PTR(s.box.name);
	session_release(&s);
	if (fd < 0 && fd != -ENOENT)
		return error_sys(err, fd, "runs", *ret_name, "cannot open the lock file of \"%s\"", *ret_name);
	return fd == -ENOENT ? -EBADF : fd;
}

/* ---- listing ---- */

static char *time_text(int64_t ns)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format(ns, text);
	return strdup(text);
}

struct lookup {
	int64_t number;
	struct slot_note note;
};

static bool is_of_run(int slot, const struct slot_note *note, void *arg)
{
	struct lookup *l = arg;

	(void)slot;
	if (note->run != l->number || !slot_is_command(note))
		return false;
	l->note = *note;
	return true;
}

static int describe(int lock_fd, const struct record *r, struct atoll_run_info *ret)
{
	struct lookup l = { .number = r->number };

	*ret = (struct atoll_run_info){ .number = r->number,
					.exit_status = r->exit_status,
					.signal = r->signal,
					.detached = r->flags & RECORD_DETACHED,
					.not_started = r->flags & RECORD_NOT_STARTED,
					.timed_out = r->flags & RECORD_TIMED_OUT,
					.failed = r->flags & RECORD_FAILED,
					.logged = r->flags & RECORD_LOGGED,
					.interactive = r->flags & RECORD_INTERACTIVE,
					.tty = r->flags & RECORD_TTY,
					.elapsed_ns = r->elapsed_ns,
					.user_ns = r->user_ns,
					.system_ns = r->system_ns,
					.max_rss = r->max_rss,
					.discarded = r->discarded,
					.temporary = r->temporary,
					.discards_more = r->flags & RECORD_DISCARDS_MORE,
					.discards_unknown = r->flags & RECORD_DISCARDS_UNKNOWN };
	if (r->ended_ns == 0) {
		ret->running = slot_each(lock_fd, is_of_run, &l);
		ret->lost = !ret->running;
		ret->pid = ret->running ? (pid_t)l.note.pid : 0;
		ret->elapsed_ns = ret->running ? clock_realtime_ns() - r->started_ns : 0;
	}
	ret->argv = calloc(RECORD_COMMAND_MAX + 2, sizeof *ret->argv);
	ret->started_at = time_text(r->started_ns);
	ret->ended_at = r->ended_ns ? time_text(r->ended_ns) : NULL;
	if (!ret->argv || !ret->started_at || (r->ended_ns && !ret->ended_at))
		return -ENOMEM;
	for (size_t at = 0, i = 0; at < r->command_size; i++) {
		size_t size = strnlen(r->command + at, r->command_size - at);

		ret->argv[i] = strndup(r->command + at, size);
		if (!ret->argv[i])
			return -ENOMEM;
		at += size + 1;
	}
	ret->cut = r->flags & RECORD_CUT;
	return 0;
}

void atoll_runs_free(struct atoll_run_info *runs, size_t n)
{
	for (size_t i = 0; runs && i < n; i++) {
		for (size_t k = 0; runs[i].argv && runs[i].argv[k]; k++)
			free(runs[i].argv[k]);
		free(runs[i].argv);
		free(runs[i].started_at);
		free(runs[i].ended_at);
	}
	free(runs);
}

int atoll_runs(struct atoll *a, const char *name, struct atoll_run_info **ret, size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	AUTO_FREE struct record *records = NULL;
	AUTO_FREE char *found = NULL;
	struct atoll_run_info *list;
	AUTO_FD fd = -EBADF;
	size_t n = 0;
	int r = 0;

	if (!a || !ret || !ret_n)
		return error_set(err, ATOLL_INVALID, 0, "runs", name, "no place was given for the runs");
	fd = open_lock(a, name, &found, err);
	if (fd < 0 && fd != -EBADF)
		return fd;
	if (fd >= 0)
		r = record_list(fd, &records, &n);
	list = r < 0 ? NULL : calloc(n ? n : 1, sizeof *list);
	for (size_t i = 0; list && i < n && r >= 0; i++)
		r = describe(fd, &records[i], &list[i]);
	if (!list || r < 0) {
		atoll_runs_free(list, n);
		return error_oom(err, "runs");
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

/* ---- ending ---- */

struct kill {
	int lock_fd;
	int64_t run;
	int sig;
	bool ends; /* the runs are to be over afterwards */
	size_t n;
	struct slot_note notes[SLOT_MAX];
};

/* The process that started the run holds the sandbox's lock until it has seen the run end: one that was stopped (SIGSTOP, Ctrl-Z) never
 * would. */
static void wake_holder(const struct kill *k, const struct slot_note *note)
{
	if (k->ends && note->holder > 0)
		(void)jail_signal((pid_t)note->holder, note->holder_tag, SIGCONT, false);
}

static bool send_to(int slot, const struct slot_note *note, void *arg)
{
	struct kill *k = arg;

	(void)slot;
	if (!slot_is_command(note) && k->run == 0) {
		(void)jail_signal((pid_t)note->pid, note->tag, SIGKILL, true);
		wake_holder(k, note);
	}
	if ((k->run != 0 && note->run != k->run) || !slot_is_command(note) || !slot_is_alive(note))
		return false;
	if (jail_signal((pid_t)note->pid, note->tag, k->sig, note->kind != SLOT_PLAIN) == 0)
		k->notes[k->n++] = *note;
	wake_holder(k, note);
	return false;
}

/* The first process of one that a keeper ran lives on. */
static bool is_of_keeper(int slot, const struct slot_note *note, void *arg)
{
	const struct slot_note *ended = arg;

	(void)slot;
	return note->pid == ended->pid && note->tag == ended->tag &&
	       (note->run != ended->run || !slot_is_command(note));
}

/* The processes, and whoever looked after them: the sandbox can be changed then. */
static bool all_gone(struct kill *k)
{
	for (size_t i = 0; i < k->n; i++) {
		struct lookup l = { .number = k->notes[i].run };

		if (slot_each(k->lock_fd, is_of_run, &l) ||
		    (slot_is_alive(&k->notes[i]) && !slot_each(k->lock_fd, is_of_keeper, &k->notes[i])))
			return false;
	}
	return true;
}

static bool wait_gone(struct kill *k, int ms)
{
	int64_t end = clock_monotonic_ns() + (int64_t)ms * 1000000;

	while (!all_gone(k)) {
		if (clock_monotonic_ns() >= end)
			return false;
		usleep(2000);
	}
	return true;
}

/* Asked to end, then ended. */
static int end_all(int fd, struct kill *k, int grace_ms, const char *name, struct atoll_error *err)
{
	struct kill again = { .lock_fd = fd, .run = k->run, .sig = SIGKILL, .ends = true };

	if (wait_gone(k, grace_ms))
		return 0;
	slot_each(fd, send_to, &again);
	if (!wait_gone(k, DEFAULT_GRACE_MS))
		return error_set(err, ATOLL_TIMEOUT, 0, "kill", name, "a command in \"%s\" does not end", name);
	return 0;
}

int atoll_kill(struct atoll *a, const char *name, const struct atoll_kill_options *options, size_t *ret_n,
	       struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct kill k = { 0 };
	AUTO_FREE char *found = NULL;
	AUTO_FD fd = -EBADF;
	int r = 0;

	if (!a || !options || options->signal < 0 || options->signal >= NSIG || options->run < 0)
		return error_set(err, ATOLL_INVALID, 0, "kill", name, "no such signal or run");
	fd = open_lock(a, name, &found, err);
	if (fd < 0 && fd != -EBADF)
		return fd;
	k.lock_fd = fd;
	k.run = options->run;
	k.sig = options->signal ? options->signal : SIGTERM;
	k.ends = options->signal == 0 || options->signal == SIGKILL;
	if (fd >= 0)
		slot_each(fd, send_to, &k);
	if (k.n == 0 && k.run != 0)
		return error_set(err, ATOLL_NOT_FOUND, 0, "kill", found,
				 "no run %lld is going on in the sandbox \"%s\"", (long long)k.run, found);
	if (k.n > 0 && k.ends)
		r = end_all(fd, &k, options->signal ? DEFAULT_GRACE_MS : options->grace_ms, found, err);
	if (r >= 0 && ret_n)
		*ret_n = k.n;
	return r;
}
