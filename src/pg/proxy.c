/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy as a whole: its life, its loop, and what happens when the server is gone. */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/sys.h"
#include "pg/private.h"

#define WAIT_MS 10000
#define MESSAGE_MAX ((size_t)256 << 20)
#define CLIENTS_MAX 100
#define SOCKET_NAME ".s.PGSQL.5432"
#define BACKLOG 64

static int copy_options(struct pg_proxy *p, const struct pg_options *o)
{
	p->conninfo = strdup(o->conninfo ? o->conninfo : "");
	p->wait_ms = o->wait_ms ? o->wait_ms : WAIT_MS;
	p->message_max = o->message_max ? MIN(o->message_max, (size_t)1 << 30) : MESSAGE_MAX;
	p->clients_max = o->clients_max ? o->clients_max : CLIENTS_MAX;
	snprintf(p->wanted_isolation, sizeof(p->wanted_isolation), "%s", o->isolation ? o->isolation : "");
	return p->conninfo ? 0 : -ENOMEM;
}

static void cleanup_proxy(struct pg_proxy **p)
{
	*p = pg_proxy_free(*p);
}

int pg_proxy_new(const struct pg_options *options, struct pg_proxy **ret, struct atoll_error *err)
{
	CLEANUP(cleanup_proxy) struct pg_proxy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_oom(err, "begin");
	p->server.fd = p->listener.fd = p->timer.fd = p->cancel.fd = p->guest.fd = p->epoll = -EBADF;
	if (copy_options(p, options) < 0)
		return error_oom(err, "begin");
	r = pg_loop_open(p);
	if (r < 0)
		return error_sys(err, r, "begin", NULL, "cannot make an epoll instance");
	r = pg_server_open(p, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

static void bury(struct pg_proxy *p, bool all)
{
	struct pg_client **at = &p->clients;

	while (*at) {
		struct pg_client *c = *at;

		if (!all && !c->dead) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		pg_client_free(c);
	}
}

/* As a server that is shut down: what a client's buffer takes at once is all it gets. */
static void say_goodbye(struct pg_proxy *p)
{
	static const struct pg_report report = {
		.severity = "FATAL",
		.state = "57P01",
		.message = "terminating connection: the sandbox's database transaction has ended"
	};

	for (struct pg_client *c = p->clients; c; c = c->next)
		if (c->started && !c->closing && !c->gone && c->source.fd >= 0) {
			pg_message_report(&c->out, 'E', &report);
			(void)send(c->source.fd, pg_buffer_front(&c->out), pg_buffer_size(&c->out), MSG_NOSIGNAL);
		}
}

struct pg_proxy *pg_proxy_free(struct pg_proxy *p)
{
	if (!p)
		return NULL;
	say_goodbye(p);
	bury(p, true);
	pg_server_close(p);
	fd_close(p->listener.fd);
	fd_close(p->timer.fd);
	fd_close(p->epoll);
	pg_buffer_release(&p->to_server);
	pg_buffer_release(&p->from_server);
	pg_buffer_release(&p->own_error);
	strbuf_release(&p->captured);
	pg_settings_clear(&p->applied);
	pg_settings_clear(&p->parameters);
	pg_settings_clear(&p->dropped);
	pg_names_clear(&p->to_close);
	strbuf_release(&p->script.text);
	free(p->script.v);
	free(p->deferred);
	free(p->conninfo);
	free(p);
	return NULL;
}

/* A path of any length, through the directory's fd. */
static int bind_in(int fd, int dirfd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dirfd, SOCKET_NAME);
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static bool somebody_listens(int dirfd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dirfd, SOCKET_NAME);
	return fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN);
}

int pg_proxy_listen(struct pg_proxy *p, int dirfd, mode_t mode, struct atoll_error *err)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask;
	int r;

	if (fd < 0)
		return error_sys(err, errno, "listen", NULL, "cannot make a socket");
	if (somebody_listens(dirfd))
		return error_set(err, ATOLL_BUSY, 0, "listen", SOCKET_NAME,
				 "another process listens on \"" SOCKET_NAME "\"");
	r = sys_unlink(dirfd, SOCKET_NAME, 0);
	if (r < 0 && r != -ENOENT)
		return error_sys(err, r, "listen", SOCKET_NAME, "cannot remove \"" SOCKET_NAME "\"");
	mask = umask(0777 & ~mode);
	r = bind_in(fd, dirfd);
	umask(mask);
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r < 0)
		return error_sys(err, r, "listen", SOCKET_NAME, "cannot listen on \"" SOCKET_NAME "\"");
	p->listener = (struct pg_source){ .fd = TAKE_FD(fd), .proxy = p, .ready = pg_client_accept };
	r = pg_loop_want(p, &p->listener, EPOLLIN);
	return r < 0 ? error_sys(err, r, "listen", NULL, "epoll_ctl") : 0;
}

int pg_proxy_fd(const struct pg_proxy *p)
{
	return p->epoll;
}

void pg_proxy_tell_lost(struct pg_client *c)
{
	struct pg_report report = {
		.severity = "FATAL",
		.state = "57P01",
		.message = "the sandbox's database transaction is lost",
		.detail = c->proxy->reason,
		.hint = "What was done in it is gone. Roll the sandbox back, or make a new one.",
	};

	pg_client_fatal(c, &report);
}

void pg_proxy_lose(struct pg_proxy *p, const char *format, ...)
{
	va_list list;

	if (p->state == PG_LOST)
		return;
	va_start(list, format);
	vsnprintf(p->reason, sizeof(p->reason), format, list);
	va_end(list);
	p->state = PG_LOST;
	p->n_groups = p->rest = 0; /* nothing of it will be answered any more */
	(void)pg_loop_want(p, &p->server, 0);
	for (struct pg_client *c = p->clients; c; c = c->next)
		if (c->gone)
			pg_client_left(c);
		else if (c->started)
			pg_proxy_tell_lost(c);
}

void pg_proxy_settle(struct pg_proxy *p)
{
	size_t done;

	if (p->state == PG_LOST)
		return;
	do {
		struct pg_client *again;

		pg_relay(p);
		again = TAKE_PTR(p->again);
		done = again && again != p->owner ? pg_client_process(again) : 0; /* behind those who wait */
		pg_turn_next(p);
		done += p->owner ? pg_client_process(p->owner) : 0;
	} while (done > 0 || p->again);
}

static void flush(struct pg_proxy *p)
{
	/* First what somebody waits for. */
	pg_server_flush(p);
	for (struct pg_client *c = p->clients; c; c = c->next)
		if (!c->dead)
			pg_client_flush(c);
	pg_server_flush(p);
	pg_server_watch(p);
}

static void guest_ready(struct pg_source *s, uint32_t events)
{
	s->proxy->guest_ready(s->proxy->guest_arg);
}

int pg_proxy_watch(struct pg_proxy *p, int fd, void (*ready)(void *arg), void *arg, struct atoll_error *err)
{
	int r;

	(void)pg_loop_want(p, &p->guest, 0);
	p->guest = (struct pg_source){ .fd = fd, .proxy = p, .ready = guest_ready };
	p->guest_ready = ready;
	p->guest_arg = arg;
	r = pg_loop_want(p, &p->guest, EPOLLIN);
	return r < 0 ? error_sys(err, r, "watch", NULL, "epoll_ctl") : 0;
}

/* Whether something is held back because of a full buffer. */
static bool is_held_back(struct pg_proxy *p)
{
	return pg_buffer_size(&p->to_server) > PG_HIGH_WATER || pg_relay_must_wait(p);
}

/* When a full buffer could be written out at once nothing else would tell that it may go on. */
static void go_on(struct pg_proxy *p)
{
	bool held_back;

	do {
		pg_proxy_settle(p);
		held_back = is_held_back(p);
		flush(p);
	} while (p->state != PG_LOST && ((held_back && !is_held_back(p)) || pg_server_pull(p)));
}

int pg_proxy_step(struct pg_proxy *p, int timeout_ms)
{
	struct epoll_event events[64];
	int n = pg_loop_wait(p, events, ARRAY_SIZE(events), timeout_ms);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	p->depth++;
	for (int i = 0; i < n; i++) {
		struct pg_source *s = events[i].data.ptr;

		if (s->fd >= 0)
			s->ready(s, events[i].events);
	}
	go_on(p);
	/* Who waits for the end of a client steps from inside a step, whose events may still name it. */
	if (--p->depth == 0)
		bury(p, false);
	return 0;
}

void pg_proxy_status(const struct pg_proxy *p, struct pg_status *ret)
{
	size_t waiting = 0;

	for (const struct pg_client *c = p->queue; c; c = c->next_waiting)
		waiting++;
	*ret = (struct pg_status){
		.state = p->state,
		.reason = p->reason,
		.open_ns = p->state == PG_ENDED ? 0 : clock_monotonic_ns() - p->began_at,
		.idle_ns = p->owner && p->owner->unit ? 0 : clock_monotonic_ns() - p->active_at,
		.notified = p->notified,
		.clients = p->n_clients,
		.waiting = waiting,
		.held_by_client = p->owner != NULL,
		.holder = p->owner ? p->owner->name : "",
		.server_version = p->version,
		.backend_pid = p->backend_pid,
		.system = p->system,
		.isolation = p->isolation,
	};
}
