/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define INTERVAL_MS 50

static _Thread_local struct {
	stop_fn fn; /* NULL in a child */
	void *arg;
	atomic_bool *stopped; /* shared with forked children; NULL: no stop function is set */
} stop;

int stop_begin(stop_fn fn, void *arg)
{
	void *page;

	if (!fn)
		return 0;
	page = mmap(NULL, sizeof *stop.stopped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	stop.stopped = page;
	atomic_init(stop.stopped, false);
	stop.fn = fn;
	stop.arg = arg;
	return 0;
}

void stop_end(void)
{
	if (stop.stopped)
		munmap(stop.stopped, sizeof *stop.stopped);
	stop.stopped = NULL;
	stop.fn = NULL;
}

void stop_in_child(void)
{
	stop.fn = NULL;
}

bool stop_is_possible(void)
{
	return stop.stopped != NULL;
}

int stop_check(void)
{
	if (!stop.stopped)
		return 0;
	if (!atomic_load(stop.stopped) && stop.fn && stop.fn(stop.arg))
		atomic_store(stop.stopped, true);
	return atomic_load(stop.stopped) ? -ECANCELED : 0;
}

int stop_wait_ms(int timeout_ms)
{
	return stop.stopped && (timeout_ms < 0 || timeout_ms > INTERVAL_MS) ? INTERVAL_MS : timeout_ms;
}
