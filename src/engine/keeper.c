/* SPDX-License-Identifier: Apache-2.0 */
/* A detached run: a process of ours in a session of its own does what a foreground run does, and a scribe beside it keeps the output. */
#include "engine/keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fork-gate.h"
#include "base/process.h"
#include "base/sys.h"
#include "engine/run.h"
#include "engine/served.h"

struct report {
	int64_t run;
	struct atoll_error error; /* code 0: the command starts */
};

void keeper_tell_started(const struct keeper *k, int64_t run)
{
	struct report report = { .run = run };

	(void)!write(k->report_fd, &report, sizeof report);
}

/* ---- the log ---- */

/* What Atoll itself has to say goes the same way as what the command writes. */
static int take_ends(struct keeper *k)
{
	for (int i = 0; i < 3; i++)
		if (k->scribe.stdio[i] >= 0 && dup2(k->scribe.stdio[i], i) < 0)
			return -errno;
	scribe_close_ends(&k->scribe);
	return 0;
}

int keeper_open_log(struct keeper *k, struct atoll *a, const char *uuid, int64_t run, struct atoll_error *err)
{
	struct scribe_spec spec = { .tty = k->tty,
				    .attachable = k->interactive || k->tty,
				    .copy_to = { -EBADF, -EBADF },
				    .input = -EBADF,
				    .screen = -EBADF };
	AUTO_FD dir = scribe_open_logs(a, uuid, run);
	int r = dir < 0 ? dir : scribe_start(dir, run, &spec, &k->scribe);

	if (r >= 0)
		r = take_ends(k);
	return r < 0 ? error_sys(err, r, "run", NULL, "cannot keep the output of a detached run") : 0;
}

void keeper_close_log(struct keeper *k)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	close(null);
	scribe_wait(&k->scribe);
}

void keeper_remove_logs(struct atoll *a, const char *uuid)
{
	AUTO_FD dir = fd_open_beneath(a->state_fd, "logs", O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return;
	(void)tree_remove(dir, uuid);
	(void)sys_unlink(a->state_fd, "logs", AT_REMOVEDIR);
}

/* ---- the keeper ---- */

/* The program that uses the library goes on without the keeper. A listening socket, a connection or a
 * locked file of that program must not stay open for as long as the detached run lasts, whether or
 * not it is marked close-on-exec. */
static void close_foreign(const struct atoll *a, const struct keeper *k)
{
	fd_close_others(STDERR_FILENO + 1, (int[]){ a->state_fd, k->report_fd }, 2, NULL, 0);
}

static void detach_input(void)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null >= 0)
		(void)dup2(null, STDIN_FILENO);
	fd_close(null);
}

static _Noreturn void keep(struct atoll *a, const char *name, const struct atoll_run_options *options, struct keeper *k)
{
	struct atoll_run_result result;
	struct report report = { 0 };

	setsid();
	close_foreign(a, k);
	detach_input();
	if (k->holds)
		keeper_close_log(k);
	if (run_start(a, name, options, k, &result, &report.error) < 0)
		(void)!write(k->report_fd, &report, sizeof report);
	_exit(0);
}

static int read_report(int fd, int64_t *ret_run, struct atoll_error *err)
{
	struct report report;
	ssize_t n;

	do {
		n = read(fd, &report, sizeof report);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof report)
		return error_set(err, ATOLL_FAILED, 0, "run", NULL,
				 "the keeper of the run was killed before it started");
	if (report.error.code != 0) {
		if (err)
			*err = report.error;
		return -(int)report.error.code;
	}
	*ret_run = report.run;
	return 0;
}

static int start(struct atoll *a, const char *name, const struct atoll_run_options *options, struct keeper *k,
		 int64_t *ret_run, struct atoll_error *err)
{
	AUTO_FD reader = -EBADF;
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_sys(err, errno, "run", name, "cannot make a channel to a keeper");
	reader = ends[0];
	pid = fork_gate_fork(); /* it uses the database */
	if (pid == 0) {
		/* Twice: it must be nobody's child. */
		pid = fork();
		if (pid == 0) {
			close(ends[0]);
			k->report_fd = ends[1];
			keep(a, name, options, k);
		}
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0)
		return error_sys(err, errno, "run", name, "cannot start a keeper");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return read_report(reader, ret_run, err);
}

int atoll_start(struct atoll *a, const char *name, const struct atoll_run_options *options, int64_t *ret_run,
		struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct keeper k = { .scribe = SCRIBE_NONE };

	if (!a || !options || !options->argv || !options->argv[0] || !ret_run)
		return error_set(err, ATOLL_INVALID, 0, "run", NULL, "no command was given");
	k.interactive = options->interactive;
	k.tty = options->tty;
	return start(a, name, options, &k, ret_run, err);
}

/* ---- one that holds ---- */

#define LOOK_MS 500

/* A program that sleeps has a root that others of the user may enter; a spare process runs what they ask for. */
int keeper_hold(struct atoll *a, const char *name, const struct atoll_run_options *options, bool serves, int idle_ms,
		struct atoll_error *err)
{
	static char program[] = "sleep", for_ever[] = "infinity";
	char *argv[] = { program, for_ever, NULL };
	struct atoll_run_options own = options ? *options : (struct atoll_run_options){ 0 };
	struct heritage heritage;
	struct keeper k = { .holds = true, .serves = serves, .idle_ms = idle_ms, .scribe = SCRIBE_NONE };
	int64_t run;

	if (!a || idle_ms < 0)
		return error_set(err, ATOLL_INVALID, 0, "keep", name, "no time was given");
	own.argv = argv;
	own.cwd = "/";
	own.terminal = false;
	k.like = serves ? likeness(getpid(), &heritage) : 0;
	return start(a, name, &own, &k, &run, err);
}

int atoll_keep(struct atoll *a, const char *name, const struct atoll_run_options *options, int idle_ms,
	       struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	return keeper_hold(a, name, options, true, idle_ms, err);
}

/* One of a kind is enough: the younger one, which was told last how long. The older one goes by itself, so that it is not ended while
 * it begins to run a command. */
static bool is_younger(int slot, const struct slot_note *note, void *arg)
{
	const struct slot_note *own = arg;

	(void)slot;
	return note->kind == own->kind &&
	       (note->holder_tag > own->holder_tag || (note->holder_tag == own->holder_tag && note->holder > getpid()));
}

int keeper_look(pid_t pid, int segments, void *arg)
{
	struct keeper *k = arg;
	int64_t now = clock_monotonic_ns();
	struct slot_note own = { .kind = k->serves ? SLOT_SERVER : SLOT_KEEPER };

	(void)pid;
	if (!k->busy && process_tag(getpid(), &own.holder_tag) == 0 && slot_each(k->lock_fd, is_younger, &own))
		return 0;
	if (k->idle_since == 0 || k->busy || slot_has_command(k->lock_fd))
		k->idle_since = now;
	return now - k->idle_since >= (int64_t)k->idle_ms * 1000000 ? 0 : MAX(1, MIN(LOOK_MS, k->idle_ms));
}

struct dismissal {
	int lock_fd;
	bool any;
};

static bool end_any(int slot, const struct slot_note *note, void *arg)
{
	struct dismissal *d = arg;

	if (slot_is_command(note))
		return false;
	slot_dismiss(d->lock_fd, slot, note);
	d->any = jail_signal((pid_t)note->pid, note->tag, SIGKILL, true) == 0 || d->any;
	return false;
}

/* With the door closed none of them begins to run a command meanwhile. */
bool keeper_dismiss(int lock_fd)
{
	struct dismissal d = { .lock_fd = lock_fd };

	if (slot_has_command(lock_fd) || slot_close_door(lock_fd, "", NULL) < 0)
		return false;
	if (!slot_has_command(lock_fd))
		slot_each(lock_fd, end_any, &d);
	slot_open_door(lock_fd);
	return d.any;
}
