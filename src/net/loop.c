/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>

#include "net/private.h"

int loop_init(struct loop *l)
{
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll < 0 ? -errno : 0;
}

/* What waits for nothing is taken out: a peer that hung up would be told of for ever. */
int loop_want(struct loop *l, struct source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };
	int op = s->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

	if (s->dead || s->events == events)
		return 0;
	if (epoll_ctl(l->epoll, op, s->fd, &e) < 0)
		return -errno;
	s->events = events;
	return 0;
}

void loop_drop(struct loop *l, struct source *s)
{
	if (s->dead)
		return;
	(void)loop_want(l, s, 0);
	s->fd = fd_close(s->fd);
	s->dead = true;
	s->next_dead = l->dead;
	l->dead = s;
}

static void bury(struct loop *l)
{
	while (l->dead) {
		struct source *s = l->dead;

		l->dead = s->next_dead;
		if (s->destroy)
			s->destroy(s);
	}
}

int loop_once(struct loop *l, int timeout_ms)
{
	struct epoll_event events[64];
	int n = epoll_wait(l->epoll, events, ARRAY_SIZE(events), timeout_ms);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct source *s = events[i].data.ptr;

		if (!s->dead)
			s->ready(s, events[i].events);
	}
	bury(l);
	return n;
}
