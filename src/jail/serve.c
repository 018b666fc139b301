/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of a view in which commands come one after another (spare.c).
 *
 *	somebody			this process				pid 1, spare
 *	connects ---------------------> greet()
 *	request, when that is heard --> begin(); request ----------------------> exec
 *	signals, one byte each -------> the same ------------------------------> kill(command)
 *	hangs up ---------------------> INIT_END_ALL --------------------------> ends everything inside
 *	the answer <------------------- end() <--------------------------------- everything has ended; the next spare
 *
 * One at a time: whoever comes meanwhile is sent away, and goes the ordinary way.
 */
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "jail/private.h"

#define GRACE_NS 1000000000LL /* for passing on the output of a command that was ended */

struct state {
	const struct serve *s;
	int client; /* who asks or has asked, or -EBADF */
	bool running;
	bool signalled; /* the present command got a signal */
	int renames;
	struct confined confined;
	struct mover mover;
	int stdio_fds[3]; /* of the present command */
	struct stdio stdio;
	bool failed, not_started;
	int64_t deadline; /* for the view; 0: it is known to stand */
	bool late;
	struct init_report why;
	int64_t began;
	uint32_t turn; /* how many spares have ended */
	char data[JAIL_REQUEST_MAX];
	size_t request; /* where in it */
};

/* ---- one who asks ---- */

static void send_away(struct state *st)
{
	st->client = fd_close(st->client);
}

/* Nothing else is sent to pid 1 before that is known. */
static bool view_stands(struct state *st)
{
	if (st->deadline != 0 && !run_is_being_set_up(st->s->socket))
		st->deadline = 0;
	return st->deadline == 0;
}

static void take_client(struct state *st)
{
	int fd = accept4(st->s->server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (st->running || !view_stands(st)) {
		fd_close(fd);
		return;
	}
	/* One that connected and said nothing. */
	send_away(st);
	st->client = fd;
	/* Before he sends what would keep his pipes open until it is taken: this process might be stopped. */
	run_send_byte(fd, SERVE_HELLO);
	if (!st->s->server->greet(fd, st->s->server->arg))
		send_away(st);
}

static int pass_request(struct state *st, size_t size, const int stdio[3])
{
	memcpy(st->data + st->request + offsetof(struct jail_request, turn), &st->turn, sizeof(st->turn));
	return request_send(st->s->requests, st->data + st->request, size - st->request, stdio);
}

/* Whether the keeper may take these fds. For others, a run without the keeper reports the error. */
static bool may_be_handed_in(const int stdio[3], bool host_net)
{
	for (int i = 0; i < 3; i++) {
		enum stdio_kind kind = stdio[i] < 0 ? STDIO_DIRECTORY : stdio_kind(stdio[i], host_net);

		if (kind == STDIO_DIRECTORY || kind == STDIO_OTHER_SOCKET)
			return false;
	}
	return true;
}

static void close_stdio(int stdio[3])
{
	for (int i = 0; i < 3; i++)
		stdio[i] = fd_close(stdio[i]);
}

static void end(struct state *st, int code, const struct atoll_run_result *result, const struct atoll_error *err)
{
	mover_wait(&st->mover);
	st->renames = fd_close(st->renames);
	/* A user who ended a command does not want to wait for a process that reads its output. */
	stdio_end(&st->stdio, st->client, st->client < 0 || st->signalled ? clock_monotonic_ns() + GRACE_NS : 0);
	close_stdio(st->stdio_fds);
	st->s->server->end(st->client, code, result, err, st->s->server->arg);
	st->running = st->signalled = st->failed = st->not_started = false;
	send_away(st);
}

static void run_it(struct state *st, size_t size, const int stdio[3])
{
	struct atoll_error err;
	int r;

	st->running = true;
	st->began = clock_monotonic_ns();
	r = pass_request(st, size, stdio);
	if (r < 0) {
		r = error_sys(&err, r, "run", NULL, "cannot hand the command to the sandbox's first process");
		end(st, r, &(struct atoll_run_result){ 0 }, &err);
	}
}

static void take_request(struct state *st)
{
	int stdio[3];
	ssize_t n = request_receive(st->client, MSG_DONTWAIT, st->data, sizeof(st->data), stdio), at = -1;
	size_t size = n > 0 ? (size_t)n : 0;

	if (size > 0 && may_be_handed_in(stdio, st->s->host_net)) {
		/* Before anybody can see it, and send it a signal. */
		run_send_byte(st->s->socket, (char)INIT_BEGIN);
		at = st->s->server->begin(st->client, st->data, &size, stdio, st->s->server->arg);
	}
	if (at < 0) {
		send_away(st);
	} else {
		st->request = (size_t)at;
		for (int i = 0; i < 3; i++)
			st->stdio_fds[i] = stdio[i];
		run_it(st, size, stdio);
		return;
	}
	close_stdio(stdio);
}

static void hear_client(struct state *st)
{
	unsigned char byte;
	ssize_t n;

	if (!st->running) {
		take_request(st);
		return;
	}
	while ((n = recv(st->client, &byte, 1, MSG_DONTWAIT)) == 1) {
		if (byte > 0 && byte < NSIG) {
			run_send_byte(st->s->socket, (char)byte);
			st->signalled = true;
		}
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Gone: nobody waits for the command any more. */
	st->client = fd_close(st->client);
	run_send_byte(st->s->socket, (char)INIT_END_ALL);
}

/* ---- what pid 1 says ---- */

static void tell_end(struct state *st, const struct init_report *report)
{
	struct atoll_run_result result = { .elapsed_ns = clock_monotonic_ns() - st->began };
	struct atoll_error err = { 0 };
	int code = 0;

	run_result(report->value, report, &result);
	if (st->not_started) {
		result.not_started = true;
		result.exit_status = st->why.value == ENOENT ? 127 : 126;
	}
	if (st->failed)
		code = view_error(st->s->view, st->data + st->request + sizeof(struct jail_request), &st->why.failure,
				  &err);
	end(st, code, &result, &err);
}

static void close_stdio_ends(int fds[2])
{
	fd_close(fds[0]);
	fd_close(fds[1]);
}

/* False if nothing can be run here any more. */
static bool hear_report(struct state *st)
{
	struct init_report report;
	int fds[2] = { -EBADF, -EBADF };
	bool broken;

	if (run_receive(st->s->socket, &report, fds) != (ssize_t)sizeof(report))
		return false;
	switch (report.event) {
	case INIT_RENAMES:
		mover_wait(&st->mover);
		st->renames = fd_close(st->renames);
		st->renames = TAKE_FD(fds[0]);
		st->confined = (struct confined){ .root_mount = report.root_mount, .root_ino = report.root_ino };
		return true;
	case INIT_STDIO:
		/* Without the stream the command would wait without end. */
		if (!st->running || stdio_begin(&st->stdio, st->stdio_fds[report.value], fds) < 0)
			run_send_byte(st->s->socket, (char)INIT_END_ALL);
		close_stdio_ends(fds);
		return true;
	case INIT_FAILED:
	case INIT_NO_EXEC:
		st->failed = report.event == INIT_FAILED;
		st->not_started = !st->failed;
		st->why = report;
		return true;
	case INIT_ENDED:
		st->turn++;
		broken = !st->running || report.spoilt || (st->failed && st->why.failure.step != VIEW_STEP_CWD);
		if (st->running)
			tell_end(st, &report);
		return !broken;
	case INIT_STARTED:
	case INIT_STOPPED:
	case INIT_WANTED_NETWORK:
		break;
	}
	return true;
}

/* ---- both ---- */

static void tell_lost(struct state *st)
{
	struct atoll_run_result result = { .signal = SIGKILL,
					   .exit_status = 128 + SIGKILL,
					   .ended_from_outside = true,
					   .elapsed_ns = clock_monotonic_ns() - st->began };

	if (st->running)
		end(st, 0, &result, NULL);
}

static bool is_late(struct state *st)
{
	st->late = st->deadline != 0 && spawn_ms_until(st->deadline) == 0 && !view_stands(st);
	return st->late;
}

static void serve_one_by_one(struct state *st)
{
	const struct serve *s = st->s;
	int ms = s->watch(s->child->pid, s->segments, s->watch_arg);
	int64_t look_at = clock_monotonic_ns() + (int64_t)ms * 1000000;

	while (ms > 0) {
		struct pollfd fds[] = { { .fd = s->child->pidfd, .events = POLLIN },
					{ .fd = s->signal_fd, .events = POLLIN },
					{ .fd = s->socket, .events = POLLIN },
					{ .fd = mover_is_busy(&st->mover) ? -1 : st->renames, .events = POLLIN },
					{ .fd = s->server->listen_fd, .events = POLLIN },
					{ .fd = st->client, .events = POLLIN },
					{ .fd = mover_fd(&st->mover), .events = POLLIN } };
		int64_t left = (look_at - clock_monotonic_ns()) / 1000000;
		int n = poll(fds, ARRAY_SIZE(fds), (int)MAX(1, left));

		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
			return;
		if (n > 0 && fds[2].revents && !hear_report(st))
			return;
		if ((n > 0 && (fds[0].revents || fds[1].revents)) || is_late(st))
			return;
		if (n > 0 && fds[6].revents)
			mover_wait(&st->mover);
		if (n > 0 && fds[3].revents && st->renames == fds[3].fd) {
			if (fds[3].revents & POLLIN)
				rename_answer(&st->mover, st->renames, &st->confined, 0, s->door);
			else
				st->renames = fd_close(st->renames);
		}
		if (n > 0 && fds[5].revents && st->client == fds[5].fd)
			hear_client(st);
		if (n > 0 && fds[4].revents)
			take_client(st);
		if (clock_monotonic_ns() >= look_at) {
			ms = s->watch(s->child->pid, s->segments, s->watch_arg);
			look_at = clock_monotonic_ns() + (int64_t)ms * 1000000;
		}
	}
}

/* Why there is no view; 0 if there was one. */
static int tell_no_view(const struct state *st, struct atoll_error *err)
{
	if (st->failed && !st->running)
		return view_error(st->s->view, "/", &st->why.failure, err);
	return st->late ? run_view_late(err) : 0;
}

int serve_commands(const struct serve *s, struct atoll_error *err)
{
	AUTO_FREE struct state *st = calloc(1, sizeof(*st));
	int r;

	if (!st) {
		(void)spawn_end(s->child);
		return error_oom(err, "run");
	}
	st->s = s;
	st->client = st->renames = st->stdio_fds[0] = st->stdio_fds[1] = st->stdio_fds[2] = -EBADF;
	st->deadline = spawn_deadline();
	serve_one_by_one(st);
	r = tell_no_view(st, err);
	/* Only then is nobody left inside. */
	(void)spawn_end(s->child);
	tell_lost(st);
	send_away(st);
	mover_wait(&st->mover);
	fd_close(st->renames);
	return r;
}
