/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling. A client may cancel its own statement, nobody else's. libpq's request blocks, so a child makes it; the server has
 * passed it on when the child has ended, and until then nothing that must not be hit by it is sent (relay.c).
 */
#include <fcntl.h>
#include <libpq-fe.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/fork-gate.h"
#include "pg/private.h"

#define CANCEL_SECONDS 10

const struct pg_report pg_cancelled = { .severity = "ERROR",
					.state = "57014",
					.message = "canceling statement due to user request" };

void pg_cancel_end(struct pg_proxy *p)
{
	if (!pg_cancel_is_under_way(p))
		return;
	pg_loop_drop(p, &p->cancel);
	while (waitpid(p->cancel_pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void cancel_ready(struct pg_source *s, uint32_t events)
{
	struct pg_proxy *p = s->proxy;

	pg_cancel_end(p);
	pg_relay(p);
}

/* By functions alone that may be called there; the end of the pipe closes with the child. */
static _Noreturn void request(PGcancel *cancel)
{
	char message[256];

	signal(SIGALRM, SIG_DFL);
	alarm(CANCEL_SECONDS);
	_exit(PQcancel(cancel, message, sizeof(message)) ? 0 : 1);
}

static void send_cancel(struct pg_proxy *p)
{
	PGcancel *cancel;
	int ends[2];

	if (pg_cancel_is_under_way(p) || p->server.fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return;
	cancel = PQgetCancel(p->conn);
	p->cancel_pid = cancel ? fork() : -1;
	if (p->cancel_pid == 0)
		request(cancel);
	fd_close(ends[1]);
	PQfreeCancel(cancel);
	if (p->cancel_pid < 0) {
		fd_close(ends[0]);
		return;
	}
	p->cancel = (struct pg_source){ .fd = ends[0], .proxy = p, .ready = cancel_ready };
	(void)pg_loop_want(p, &p->cancel, EPOLLIN);
}

/* Not while something of the proxy's own comes first, which must not be hit: then it is sent as soon as that is answered. */
void pg_cancel_owner(struct pg_proxy *p)
{
	struct pg_group *g = pg_group_first(p);

	p->cancel_wanted = g && !g->client;
	if (!p->cancel_wanted)
		send_cancel(p);
}

void pg_cancel_request(struct pg_proxy *p, int32_t id, int32_t key)
{
	struct pg_client *c = p->clients;

	while (c && (c->id != id || c->key != key || !c->started))
		c = c->next;
	if (!c || c->gone)
		return;
	if (c->waiting)
		pg_turn_refuse(c, &pg_cancelled); /* it has nothing on the server */
	else if (p->owner == c && c->applying)
		c->cancel_asked = true;
	else if (p->owner == c && c->unit)
		pg_cancel_owner(p);
}
