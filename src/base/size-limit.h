/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write beyond the limit on the size of files (RLIMIT_FSIZE) raises SIGXFSZ, which ends the
 * process: the program, or the host of the library. With the signal blocked the write fails with
 * EFBIG, and Atoll rolls the operation back, as it does on a full filesystem.
 *
 * Every public function that writes begins with SIZE_LIMIT_GUARD: until the function returns, the
 * signal is blocked in the calling thread and in the threads and processes that it starts. The
 * guard does nothing if there is no limit, or if the caller blocks or ignores the signal.
 */
#ifndef BASE_SIZE_LIMIT_H
#define BASE_SIZE_LIMIT_H

#include <signal.h>
#include <stdbool.h>

#include "base/macros.h"

bool size_limit_is_set(void);

struct size_limit {
	bool blocked;
};
struct size_limit size_limit_begin(void);
void size_limit_end(struct size_limit *s); /* drops a pending signal */
/* Removes the signal from a mask that was read under the guard and with which a command will
 * start. */
void size_limit_restore(sigset_t *mask);

#define SIZE_LIMIT_GUARD \
	__attribute__((cleanup(size_limit_end), unused)) struct size_limit size_limit_guard = size_limit_begin()

#endif
