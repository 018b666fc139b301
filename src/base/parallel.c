/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take one portion after the other, so that one that is held up leaves its share to the others. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/macros.h"
#include "base/sys.h"

/* A thread takes as long to start as some dozens of system calls. */
#define FEW 512
#define PORTION 128
#define STACK_BYTES ((size_t)256 << 10)

struct work {
	size_t n;
	atomic_size_t next;
	parallel_fn fn;
	void *arg;
};

struct worker {
	struct work *work;
	size_t part;
	pthread_t thread;
};

static void take_portions(struct work *w, size_t part)
{
	for (;;) {
		size_t first = atomic_fetch_add(&w->next, PORTION);

		if (first >= w->n)
			return;
		w->fn(w->arg, part, first, MIN(first + PORTION, w->n));
	}
}

static void *work(void *arg)
{
	const struct worker *w = arg;

	take_portions(w->work, w->part);
	return NULL;
}

static size_t count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : (size_t)CPU_COUNT(&set);
}

bool parallel_is_worth(size_t n)
{
	return n >= FEW && !sys_faults_built_in() && count_processors() > 1;
}

static bool start(struct worker *w)
{
	pthread_attr_t attributes;
	bool started;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	started = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
		  pthread_create(&w->thread, &attributes, work, w) == 0;
	pthread_attr_destroy(&attributes);
	return started;
}

/* What the program we are part of does with signals is its own threads' business. */
static size_t start_all(struct worker *workers, size_t n)
{
	sigset_t all, before;
	size_t started = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < n && start(&workers[started]))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

void parallel_run(size_t n, parallel_fn fn, void *arg)
{
	struct work w = { .n = n, .fn = fn, .arg = arg };
	struct worker workers[PARALLEL_MAX - 1];
	size_t started;

	if (!parallel_is_worth(n)) {
		if (n)
			fn(arg, 0, 0, n);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
		workers[i] = (struct worker){ .work = &w, .part = i + 1 };
	started = start_all(workers, MIN(count_processors(), (size_t)PARALLEL_MAX) - 1);
	take_portions(&w, 0);
	for (size_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
}
