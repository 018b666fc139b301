/* SPDX-License-Identifier: Apache-2.0 */
/* A line on standard error that says how far something is: on a terminal, if it takes long, and gone at the end. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct progress {
	bool on;
	int64_t started_ns, printed_ns;
};

void progress_init(struct progress *p, bool quiet);
void progress_update(const char *phase, uint64_t done, uint64_t total,
		     void *arg); /* an atoll_progress_fn; arg is the progress */
void progress_clear(struct progress *p);

#define AUTO_PROGRESS CLEANUP(progress_clear) struct progress

#endif
