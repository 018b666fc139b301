/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <inttypes.h>

#include "base/clock.h"

#define DELAY_NS (NSEC_PER_SEC / 2)
#define INTERVAL_NS (NSEC_PER_SEC / 10)
#define CLEAR "\r\033[K"

void progress_init(struct progress *p, bool quiet)
{
	*p = (struct progress){ .on = !quiet && isatty(STDERR_FILENO), .started_ns = clock_monotonic_ns() };
}

void progress_update(const char *phase, uint64_t done, uint64_t total, void *arg)
{
	struct progress *p = arg;
	int64_t now;

	if (!p->on)
		return;
	now = clock_monotonic_ns();
	if (now - p->started_ns < DELAY_NS || now - p->printed_ns < INTERVAL_NS)
		return;
	p->printed_ns = now;
	if (total > 0)
		fprintf(stderr, CLEAR "%s: %" PRIu64 " of %" PRIu64, phase, done, total);
	else
		fprintf(stderr, CLEAR "%s", phase);
	fflush(stderr);
}

/* A child process does the work of an ordinary user's commit or undo, and calls progress_update(). So
 * this process does not know whether a line is shown. */
void progress_clear(struct progress *p)
{
	if (p->on && clock_monotonic_ns() - p->started_ns >= DELAY_NS)
		fputs(CLEAR, stderr);
	p->on = false;
}
