/* SPDX-License-Identifier: Apache-2.0 */
/* What is waited for. The timer is an fd like the others, so that whoever polls the loop from outside hears of it too. */
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "pg/private.h"

int pg_loop_open(struct pg_proxy *p)
{
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return -errno;
	p->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (p->timer.fd < 0)
		return -errno;
	p->timer.proxy = p;
	p->timer.ready = pg_turn_expire;
	return pg_loop_want(p, &p->timer, EPOLLIN);
}

int pg_loop_want(struct pg_proxy *p, struct pg_source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };
	int op = s->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

	if (s->fd < 0 || s->events == events)
		return 0;
	if (epoll_ctl(p->epoll, op, s->fd, &e) < 0)
		return -errno;
	s->events = events;
	return 0;
}

void pg_loop_drop(struct pg_proxy *p, struct pg_source *s)
{
	(void)pg_loop_want(p, s, 0);
	s->events = 0;
	s->fd = fd_close(s->fd);
}

void pg_loop_timer(struct pg_proxy *p, int64_t at_ns)
{
	struct itimerspec when = { .it_value = clock_timespec(at_ns) };

	if (at_ns == p->timer_at)
		return;
	p->timer_at = at_ns;
	timerfd_settime(p->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}
