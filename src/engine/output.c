/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the log of a run, while it grows too, and sending it what is typed meanwhile. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/scribe.h"

struct reader {
	int dir, fd;
	int64_t run;
	atoll_output_fn fn;
	void *arg;
};

static int open_log(struct reader *r, bool older)
{
	char name[32];

	scribe_log_name(name, r->run, older ? ".1" : "");
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

	scribe_log_name(name, r->run, "");
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

/* ---- what is typed ---- */

struct typing {
	int input;  /* -EBADF: nothing is, or no more */
	int socket; /* to the scribe, or -EBADF */
	bool terminal, detached;
	const char *keys; /* that end it */
	size_t n_matched; /* of them */
	struct winsize size;
	char packet[1 + SCRIBE_PACKET_MAX]; /* not sent yet */
	size_t n_packet;
};

static void add_typed(struct typing *t, char c)
{
	t->packet[t->n_packet++] = c;
}

/* Keys that only began like those that detach were meant for the command. */
static void take_key(struct typing *t, char c)
{
	if (t->keys[t->n_matched] && c == t->keys[t->n_matched]) {
		t->n_matched++;
		t->detached = t->keys[t->n_matched] == '\0';
		return;
	}
	for (size_t i = 0; i < t->n_matched; i++)
		add_typed(t, t->keys[i]);
	t->n_matched = *t->keys && c == *t->keys;
	if (t->n_matched == 0)
		add_typed(t, c);
}

static void send_packet(struct typing *t)
{
	if (t->n_packet > 0 && send(t->socket, t->packet, t->n_packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
	    (errno == EAGAIN || errno == EINTR))
		return;
	t->n_packet = 0;
}

static void take_input(struct typing *t)
{
	char data[SCRIBE_PACKET_MAX / 2];
	ssize_t n = read(t->input, data, sizeof data);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	t->packet[0] = n > 0 ? SCRIBE_INPUT : SCRIBE_END;
	t->n_packet = 1;
	for (ssize_t i = 0; i < n && !t->detached; i++)
		take_key(t, data[i]);
	if (n <= 0)
		t->input = -EBADF;
	if (n > 0 && t->n_packet == 1)
		t->n_packet = 0;
	send_packet(t);
}

/* Nobody is told of a new size without a handler, which a library has not: it is asked for. */
static void follow_size(struct typing *t)
{
	struct winsize now = { 0 };
	char packet[1 + sizeof now] = { SCRIBE_SIZE };

	if (!t->terminal || t->socket < 0 || ioctl(t->input, TIOCGWINSZ, &now) < 0 ||
	    memcmp(&now, &t->size, sizeof now) == 0)
		return;
	memcpy(packet + 1, &now, sizeof now);
	if (send(t->socket, packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		t->size = now;
}

/* ---- following ---- */

#define LOOK_MS 50

/* Until something was written or typed, or it is time to look again. */
static void wait_for_more(int watch, struct typing *t)
{
	struct pollfd fds[] = { { .fd = watch, .events = POLLIN },
				{ .fd = t->socket >= 0 && t->n_packet == 0 ? t->input : -1, .events = POLLIN },
				{ .fd = t->n_packet > 0 ? t->socket : -1, .events = POLLOUT } };
	char events[4096];

	if (poll(fds, ARRAY_SIZE(fds), LOOK_MS) <= 0)
		return;
	while (fds[0].revents && read(watch, events, sizeof events) > 0)
		;
	if (fds[2].revents)
		send_packet(t);
	if (fds[1].revents && t->n_packet == 0)
		take_input(t);
}

static bool read_all(struct reader *r)
{
	if (read_on(r))
		return false;
	if (!was_replaced(r))
		return true;
	(void)open_log(r, false);
	return read_on(r) == 0;
}

static void follow(struct atoll *a, const char *name, struct reader *r, struct typing *t)
{
	AUTO_FD watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int64_t looked = 0;
	bool running = true;
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", r->dir);
	if (watch >= 0)
		(void)inotify_add_watch(watch, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO);
	while (running && !t->detached) {
		/* Asked first: what it writes between the question and its end is read all the same. */
		if (clock_monotonic_ns() - looked >= LOOK_MS * 1000000LL) {
			running = is_running(a, name, r->run);
			looked = clock_monotonic_ns();
		}
		if (!read_all(r) || (running && r->fn("", 0, r->arg) != 0))
			return;
		follow_size(t);
		if (running)
			wait_for_more(watch, t);
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
			"the output of run %lld went where the caller wanted it; that of detached runs is kept, and with --log",
			(long long)run);
	atoll_runs_free(runs, n);
	return r;
}

static int open_reader(struct atoll *a, const char *name, struct reader *r, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	AUTO_FREE char *path = NULL;
	int rc = check_logged(a, name, r->run, err);

	if (rc >= 0)
		rc = session_peek(a, name, &s, err);
	if (rc < 0)
		return rc;
	path = scribe_logs_path(s.box.uuid);
	session_release(&s);
	r->dir = path ? fd_open_beneath(a->state_fd, path, O_RDONLY | O_DIRECTORY) : -ENOMEM;
	if (r->dir < 0)
		return error_sys(err, r->dir, "logs", name, "cannot open the logs of \"%s\"", name);
	return 0;
}

static void reader_release(struct reader *r)
{
	fd_close(r->dir);
	fd_close(r->fd);
}

/* What is there; true if fn wants to go on. */
static bool read_past(struct reader *r)
{
	if (open_log(r, true) >= 0 && read_on(r) != 0)
		return false;
	(void)open_log(r, false);
	return read_on(r) == 0;
}

int atoll_output(struct atoll *a, const char *name, int64_t run, bool on, atoll_output_fn fn, void *arg,
		 struct atoll_error *err)
{
	CLEANUP(reader_release)
	struct reader reader = { .dir = -EBADF, .fd = -EBADF, .run = run, .fn = fn, .arg = arg };
	struct typing nothing = { .input = -EBADF, .socket = -EBADF };
	int r;

	if (!a || !name || !fn)
		return error_set(err, ATOLL_INVALID, 0, "logs", name, "no sandbox was given");
	r = open_reader(a, name, &reader, err);
	if (r >= 0 && read_past(&reader) && on)
		follow(a, name, &reader, &nothing);
	return r;
}

int atoll_attach(struct atoll *a, const char *name, const struct atoll_attach_options *options, bool *ret_detached,
		 struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(reader_release) struct reader reader = { .dir = -EBADF, .fd = -EBADF };
	struct typing typing;
	int r;

	if (!a || !name || !options || !options->output || !ret_detached)
		return error_set(err, ATOLL_INVALID, 0, "attach", name, "no sandbox was given");
	reader.run = options->run;
	reader.fn = options->output;
	reader.arg = options->output_arg;
	r = open_reader(a, name, &reader, err);
	if (r < 0)
		return r;
	typing = (struct typing){ .input = options->input,
				  .socket = options->input >= 0 ? scribe_connect(reader.dir, options->run) : -EBADF,
				  .terminal = options->input >= 0 && isatty(options->input),
				  .keys = options->detach_keys ? options->detach_keys : "" };
	if (read_past(&reader))
		follow(a, name, &reader, &typing);
	*ret_detached = typing.detached;
	fd_close(typing.socket);
	return 0;
}
