/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A detached run: a process of ours in a session of its own does what a foreground run does, and a second one copies the output into
 * a log of bounded size. The log is two files: when the newer one is full it takes the place of the older. The second process ends with the
 * last writer, whoever is killed.
 */
#include "engine/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fork-gate.h"
#include "base/sys.h"
#include "engine/record.h"
#include "engine/run.h"

#define LOG_PART_MAX (4 << 20)

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

static char *log_dir(const char *uuid)
{
	return str_format("logs/%s", uuid);
}

static void log_name(char name[32], int64_t run, bool older)
{
	snprintf(name, 32, "%lld%s", (long long)run, older ? ".1" : "");
}

static int open_part(int dir, const char *name)
{
	return sys_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
}

/* What cannot be written is lost; the command is not made to wait for a disk. */
static _Noreturn void pump(int dir, int from, int64_t run)
{
	char name[32], older[32], data[65536];
	int64_t size = 0;
	int to;

	log_name(name, run, false);
	log_name(older, run, true);
	to = open_part(dir, name);
	for (;;) {
		ssize_t n = read(from, data, sizeof data);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		if (to >= 0)
			(void)sys_write(to, data, (size_t)n);
		size += n;
		if (size >= LOG_PART_MAX) {
			fd_close(to);
			(void)sys_rename(dir, name, dir, older, 0);
			to = open_part(dir, name);
			size = 0;
		}
	}
}

static void keep_only(int a, int b)
{
	int low = MIN(a, b), high = MAX(a, b);

	if (low > 0)
		(void)close_range(0, (unsigned)low - 1, 0);
	if (high > low + 1)
		(void)close_range((unsigned)low + 1, (unsigned)high - 1, 0);
	(void)close_range((unsigned)high + 1, ~0U, 0);
}

static int start_pump(struct keeper *k, int dir, int64_t run)
{
	int ends[2];
	sigset_t all;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	k->pump = fork();
	if (k->pump == 0) {
		/* It ends when nobody can write any more, and not before. */
		sigfillset(&all);
		(void)sigprocmask(SIG_SETMASK, &all, NULL);
		keep_only(dir, ends[0]);
		pump(dir, ends[0], run);
	}
	if (k->pump > 0 && (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0))
		k->pump = -1;
	close(ends[0]);
	close(ends[1]);
	return k->pump < 0 ? -errno : 0;
}

int keeper_open_log(struct keeper *k, struct atoll *a, const char *uuid, int64_t run, struct atoll_error *err)
{
	AUTO_FREE char *path = log_dir(uuid);
	AUTO_FD dir = path ? fd_make_path(a->state_fd, path) : -ENOMEM;
	char name[32];
	int r = dir;

	if (r >= 0) {
		/* Forgotten by the record by now. */
		for (int older = 0; older < 2; older++) {
			log_name(name, run - RECORD_MAX, older);
			(void)sys_unlink(dir, name, 0);
		}
		r = start_pump(k, dir, run);
	}
	return r < 0 ? error_sys(err, r, "run", NULL, "cannot keep the output of a detached run") : 0;
}

void keeper_close_log(struct keeper *k)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	(void)dup2(null, STDOUT_FILENO);
	(void)dup2(null, STDERR_FILENO);
	close(null);
	while (k->pump > 0 && waitpid(k->pump, NULL, 0) < 0 && errno == EINTR)
		;
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

/* Whatever was handed down to be inherited is not for a process in the background. */
static void close_foreign(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int fd = (int)strtol(e->d_name, NULL, 10);

		if (fd > STDERR_FILENO && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			close(fd);
	}
	if (dir)
		closedir(dir);
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
	close_foreign();
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
	struct keeper k = { 0 };

	if (!a || !options || !options->argv || !options->argv[0] || !ret_run)
		return error_set(err, ATOLL_INVALID, 0, "run", NULL, "no command was given");
	return start(a, name, options, &k, ret_run, err);
}

/* ---- one that holds ---- */

#define LOOK_MS 500

int atoll_keep(struct atoll *a, const char *name, const struct atoll_run_options *options, int idle_ms,
	       struct atoll_error *err)
{
	static char program[] = "sleep", for_ever[] = "infinity";
	char *argv[] = { program, for_ever, NULL };
	struct atoll_run_options own = options ? *options : (struct atoll_run_options){ 0 };
	struct keeper k = { .holds = true, .idle_ms = idle_ms };
	int64_t run;

	if (!a || idle_ms < 0)
		return error_set(err, ATOLL_INVALID, 0, "keep", name, "no time was given");
	own.argv = argv;
	own.cwd = "/";
	own.terminal = false;
	return start(a, name, &own, &k, &run, err);
}

static bool is_older(const struct slot_note *note, uint64_t start)
{
	return note->holder_start < start || (note->holder_start == start && note->holder < getpid());
}

/* One is enough: the younger one, which was told last how long. */
static bool end_older(int slot, const struct slot_note *note, void *arg)
{
	(void)slot;
	if (note->kind == SLOT_KEEPER && is_older(note, *(const uint64_t *)arg))
		(void)jail_signal((pid_t)note->pid, note->start, SIGKILL, true);
	return false;
}

int keeper_look(pid_t pid, void *arg)
{
	struct keeper *k = arg;
	int64_t now = clock_monotonic_ns();
	uint64_t start_time;

	(void)pid;
	if (k->idle_since == 0 && slot_start_time(getpid(), &start_time) == 0)
		slot_each(k->lock_fd, end_older, &start_time);
	if (k->idle_since == 0 || slot_has_command(k->lock_fd))
		k->idle_since = now;
	return now - k->idle_since >= (int64_t)k->idle_ms * 1000000 ? 0 : MAX(1, MIN(LOOK_MS, k->idle_ms));
}

static bool end_any(int slot, const struct slot_note *note, void *arg)
{
	(void)slot;
	if (note->kind == SLOT_KEEPER && jail_signal((pid_t)note->pid, note->start, SIGKILL, true) == 0)
		*(bool *)arg = true;
	return false;
}

bool keeper_dismiss(int lock_fd)
{
	bool any = false;

	if (!slot_has_command(lock_fd))
		slot_each(lock_fd, end_any, &any);
	return any;
}

/* ---- reading a log ---- */

struct reader {
	int dir, fd;
	int64_t run;
	atoll_output_fn fn;
	void *arg;
};

static int open_log(struct reader *r, bool older)
{
	char name[32];

	log_name(name, r->run, older);
	r->fd = fd_close(r->fd);
	r->fd = fd_open_beneath(r->dir, name, O_RDONLY);
	return r->fd;
}

/* What is there now. 1 if fn wants no more. */
static int read_on(struct reader *r)
{
	char data[65536];
	ssize_t n;

	while (r->fd >= 0 && (n = read(r->fd, data, sizeof data)) > 0)
		if (r->fn(data, (size_t)n, r->arg) != 0)
			return 1;
	return 0;
}

/* It has become the older one, or nothing any more. */
static bool was_replaced(const struct reader *r)
{
	struct stat mine, now;
	char name[32];

	log_name(name, r->run, false);
	return fstatat(r->dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (r->fd < 0 || fstat(r->fd, &mine) < 0 || mine.st_ino != now.st_ino);
}

static bool is_running(struct atoll *a, const char *name, int64_t run)
{
	struct atoll_run_info *runs = NULL;
	bool running = false;
	size_t n = 0;

	if (atoll_runs(a, name, &runs, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		running = running || (runs[i].number == run && runs[i].running);
	atoll_runs_free(runs, n);
	return running;
}

static void follow(struct atoll *a, const char *name, struct reader *r)
{
	bool running = true;

	while (running) {
		/* Asked first: what it writes between the question and its end is read all the same. */
		running = is_running(a, name, r->run);
		if (read_on(r))
			return;
		if (was_replaced(r)) {
			(void)open_log(r, false);
			if (read_on(r))
				return;
		}
		if (running && r->fn("", 0, r->arg) != 0)
			return;
		if (running)
			usleep(50000);
	}
}

static int check_logged(struct atoll *a, const char *name, int64_t run, struct atoll_error *err)
{
	struct atoll_run_info *runs;
	const struct atoll_run_info *found = NULL;
	size_t n;
	int r = atoll_runs(a, name, &runs, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		found = runs[i].number == run ? &runs[i] : found;
	if (!found)
		r = error_set(err, ATOLL_NOT_FOUND, 0, "logs", name, "no run %lld of the sandbox \"%s\" is remembered",
			      (long long)run, name);
	else if (!found->logged)
		r = error_set(
			err, ATOLL_NOT_FOUND, 0, "logs", name,
			"the output of run %lld went where the caller wanted it; only that of detached runs is kept",
			(long long)run);
	atoll_runs_free(runs, n);
	return r;
}

int atoll_output(struct atoll *a, const char *name, int64_t run, bool on, atoll_output_fn fn, void *arg,
		 struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	struct reader reader = { .fd = -EBADF, .run = run, .fn = fn, .arg = arg };
	AUTO_FREE char *path = NULL;
	AUTO_FD dir = -EBADF;
	int r;

	if (!a || !name || !fn)
		return error_set(err, ATOLL_INVALID, 0, "logs", name, "no sandbox was given");
	r = check_logged(a, name, run, err);
	if (r >= 0)
		r = session_peek(a, name, &s, err);
	if (r < 0)
		return r;
	path = log_dir(s.box.uuid);
	session_release(&s);
	dir = path ? fd_open_beneath(a->state_fd, path, O_RDONLY | O_DIRECTORY) : -ENOMEM;
	if (dir < 0)
		return error_sys(err, dir, "logs", name, "cannot open the logs of \"%s\"", name);
	reader.dir = dir;
	if (open_log(&reader, true) < 0 || read_on(&reader) == 0) {
		(void)open_log(&reader, false);
		if (read_on(&reader) == 0 && on)
			follow(a, name, &reader);
	}
	fd_close(reader.fd);
	return 0;
}
