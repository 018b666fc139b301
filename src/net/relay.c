/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between two sockets, both ways, until both sides have said all or one of them fails.
 *
 * Each side has a buffer for what was read from it. It is read again only once that is empty, so a slow reader slows the writer down
 * as it would without us, and a connection never costs more than its two buffers.
 */
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#include "net/private.h"

#define BUFFER_SIZE (32 << 10)

struct relay;

struct side {
	struct source source;
	struct relay *relay;
	size_t from, to; /* what was read from it and not yet written to the other */
	bool ended;      /* nothing more will be read */
	bool shut;       /* the other was told so */
	uint8_t buffer[BUFFER_SIZE];
};

struct relay {
	struct loop *loop;
	const struct relay_ops *ops;
	void *arg;
	bool connecting; /* sides[1] */
	int alive;       /* sides that were not destroyed */
	struct side sides[2];
};

static struct side *other(struct side *s)
{
	return s == &s->relay->sides[0] ? &s->relay->sides[1] : &s->relay->sides[0];
}

/* Closes both; on a failure so that the peers see one too. */
static void relay_drop(struct relay *r, bool failed)
{
	struct linger reset = { .l_onoff = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(r->sides); i++) {
		if (failed && !r->sides[i].source.dead)
			(void)setsockopt(r->sides[i].source.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		loop_drop(r->loop, &r->sides[i].source);
	}
}

static void destroy(struct source *s)
{
	struct relay *r = ((struct side *)s)->relay;

	if (--r->alive > 0)
		return;
	r->ops->ended(r->arg);
	free(r);
}

/* False if the socket failed. */
static bool fill(struct side *s)
{
	ssize_t n;

	if (s->ended || s->from < s->to)
		return true;
	s->from = s->to = 0;
	n = recv(s->source.fd, s->buffer, sizeof(s->buffer), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	s->ended = n == 0;
	s->to = (size_t)n;
	return true;
}

static bool drain(struct side *s)
{
	int to = other(s)->source.fd;

	while (s->from < s->to) {
		ssize_t n = send(to, s->buffer + s->from, s->to - s->from, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		s->from += (size_t)n;
	}
	if (s->ended && !s->shut) {
		s->shut = true;
		(void)shutdown(to, SHUT_WR);
	}
	return true;
}

static int want(struct side *s)
{
	const struct side *o = other(s);
	struct relay *r = s->relay;
	uint32_t events = 0;

	if (r->connecting)
		events = s == &r->sides[1] ? EPOLLOUT : 0;
	else
		events = (!s->ended && s->from == s->to ? EPOLLIN : 0U) | (o->from < o->to ? EPOLLOUT : 0U);
	return loop_want(r->loop, &s->source, events);
}

static void go_on(struct relay *r)
{
	bool good = true;

	for (size_t i = 0; i < ARRAY_SIZE(r->sides) && good && !r->connecting; i++)
		good = fill(&r->sides[i]) && drain(&r->sides[i]);
	for (size_t i = 0; i < ARRAY_SIZE(r->sides) && good; i++)
		good = want(&r->sides[i]) == 0;
	if (!good || (r->sides[0].shut && r->sides[1].shut))
		relay_drop(r, !good);
}

/* The first address did not answer; there may be another. */
static bool connect_again(struct relay *r)
{
	int fd = r->ops->again ? r->ops->again(r->arg) : -ENOENT;

	if (fd < 0)
		return false;
	(void)loop_want(r->loop, &r->sides[1].source, 0);
	fd_close(r->sides[1].source.fd);
	r->sides[1].source.fd = fd;
	return true;
}

static void ready(struct source *s, uint32_t events)
{
	struct relay *r = ((struct side *)s)->relay;
	socklen_t size = sizeof(int);
	int error = 0;

	(void)events;
	if (r->connecting) {
		if (getsockopt(r->sides[1].source.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0) {
			if (!connect_again(r)) {
				relay_drop(r, true);
				return;
			}
		} else {
			r->connecting = false;
		}
	}
	go_on(r);
}

int relay_start(struct loop *l, int from, int to, const struct relay_ops *ops, void *arg)
{
	struct relay *r = calloc(1, sizeof(*r));
	int fds[2] = { from, to }, one = 1;

	if (!r) {
		fd_close(from);
		fd_close(to);
		return -ENOMEM;
	}
	r->loop = l;
	r->ops = ops;
	r->arg = arg;
	r->connecting = true;
	r->alive = 2;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		r->sides[i].relay = r;
		r->sides[i].source = (struct source){ .fd = fds[i], .ready = ready, .destroy = destroy };
		(void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		(void)setsockopt(fds[i], SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	}
	go_on(r);
	return 0;
}
