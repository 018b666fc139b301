/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is waited for. The timer is an fd like the others, so that whoever polls the loop from outside hears of it too.
 *
 * To sleep and be woken takes longer than most short statements. So for a while, after something has happened, it is looked for without sleeping: for
 * the server's answer to a client's statement, and for the next statement of a client that is inside a transaction. Where looking does not pay
 * (long statements, clients that think) it is given up, and tried again now and then. Whoever has nothing under way costs nothing.
 */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "pg/private.h"

#define SERVER_NS 150000
#define CLIENT_NS 50000
#define GAP_NS 20000 /* so long between two looks: somebody else wanted the processor */
#define CREDIT_MAX 16
#define CREDIT_LESS 4 /* for a look in vain */
#define PAUSE_MIN 16  /* waits, until it is tried again; twice as many each time it was in vain */
#define PAUSE_MAX 1024

static const int64_t spin_ns[] = { [PG_SPIN_SERVER] = SERVER_NS, [PG_SPIN_CLIENT] = CLIENT_NS };

/* On one processor whoever is waited for could not run meanwhile. */
static bool has_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
}

int pg_loop_open(struct pg_proxy *p)
{
	p->can_spin = has_processors();
	for (size_t i = 0; i < ARRAY_SIZE(p->spins); i++)
		p->spins[i] = (struct pg_spin){ .credit = CREDIT_MAX, .pause = PAUSE_MIN };
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

/* What is likely to come at once; NULL: nothing. */
static struct pg_spin *find_spin(struct pg_proxy *p)
{
	const struct pg_client *c = p->owner;

	if (!p->can_spin || !p->lively || !c)
		return NULL;
	if (c->unit)
		return c->synced && p->n_groups > 0 ? &p->spins[PG_SPIN_SERVER] : NULL;
	return c->in_block && p->n_groups == 0 ? &p->spins[PG_SPIN_CLIENT] : NULL;
}

static bool may_spin(struct pg_spin *s)
{
	if (s->credit > 0)
		return true;
	if (++s->paused < s->pause)
		return false;
	s->paused = 0;
	s->credit = 1;
	return true;
}

static void note_spin(struct pg_spin *s, bool paid)
{
	if (paid) {
		s->credit = MIN(s->credit + 1, CREDIT_MAX);
		s->pause = PAUSE_MIN;
		return;
	}
	s->credit = MAX(s->credit - CREDIT_LESS, 0);
	if (s->credit == 0)
		s->pause = MIN(s->pause * 2, PAUSE_MAX);
}

static int spin(struct pg_proxy *p, struct pg_spin *s, struct epoll_event *events, int n)
{
	int64_t before, now = clock_monotonic_ns(), end = now + spin_ns[s - p->spins];
	bool alone = true;
	int found;

	do {
		found = epoll_wait(p->epoll, events, n, 0);
		before = now;
		now = clock_monotonic_ns();
		alone = now - before < GAP_NS;
	} while (found == 0 && alone && now < end);
	note_spin(s, found > 0 && alone);
	return found;
}

int pg_loop_wait(struct pg_proxy *p, struct epoll_event *events, int n, int timeout_ms)
{
	struct pg_spin *s = timeout_ms != 0 ? find_spin(p) : NULL;
	int found = s && may_spin(s) ? spin(p, s, events, n) : 0;

	if (found == 0)
		found = epoll_wait(p->epoll, events, n, timeout_ms);
	p->lively = found > 0;
	return found;
}
