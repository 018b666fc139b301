/* SPDX-License-Identifier: Apache-2.0 */
/* Every item is worked on once, whoever does it. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/macros.h"
#include "tap.h"

#define MANY 10000

struct seen {
	atomic_int times[MANY];
	size_t after[PARALLEL_MAX]; /* of each part: one more than its last item */
	atomic_size_t disorder, calls, in_caller;
	pthread_t caller;
	atomic_bool unblocked; /* another thread than the caller's can be reached by a signal */
};

static struct seen seen;

static void look(void *arg, size_t part, size_t first, size_t end)
{
	struct seen *s = arg;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	s->calls++;
	s->disorder += part >= PARALLEL_MAX || first < s->after[part] || end <= first;
	s->in_caller += pthread_equal(pthread_self(), s->caller) != 0;
	s->disorder += (part == 0) != (pthread_equal(pthread_self(), s->caller) != 0);
	if (part && (!sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGIO)))
		s->unblocked = true;
	s->after[part] = end;
	for (size_t i = first; i < end; i++)
		s->times[i]++;
}

static void check_all(size_t n)
{
	memset(&seen, 0, sizeof seen);
	seen.caller = pthread_self();
	parallel_run(n, look, &seen);
	for (size_t i = 0; i < MANY; i++)
		CHECK_EQ(seen.times[i], i < n);
	CHECK_EQ(seen.disorder, 0);
	CHECK(!seen.unblocked);
}

TEST(every_item_is_in_one_call_whatever_their_number)
{
	static const size_t sizes[] = { 0, 1, 2, 127, 128, 511, 512, 513, 640, 4095, MANY };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		check_all(sizes[i]);
}

TEST(a_few_are_done_by_the_caller_in_one_call)
{
	check_all(100);
	CHECK_EQ(seen.calls, 1);
	CHECK_EQ(seen.in_caller, 1);
	CHECK(!parallel_is_worth(100));
}

TEST(with_one_processor_the_caller_does_everything)
{
	cpu_set_t before, one;

	CHECK_OK(sched_getaffinity(0, sizeof before, &before));
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	CHECK_OK(sched_setaffinity(0, sizeof one, &one));
	check_all(MANY);
	CHECK_EQ(seen.calls, 1);
	CHECK_OK(sched_setaffinity(0, sizeof before, &before));
}

TEST(the_callers_signal_mask_is_as_before)
{
	sigset_t after;

	check_all(MANY);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	CHECK(!sigismember(&after, SIGTERM));
}
