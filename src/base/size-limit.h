/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write beyond the limit of a file's size (RLIMIT_FSIZE) raises SIGXFSZ, which ends the process: the program, or the host of the
 * library. With the signal blocked the write fails with EFBIG, as one on a full filesystem does, and what was begun is taken back.
 *
 * Every public function that writes begins with SIZE_LIMIT_GUARD: until it returns, the signal is blocked in the calling thread and
 * in what that starts. Nothing is done where there is no limit, or where the caller blocks or ignores the signal.
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
/* Takes the signal out of a mask that was read meanwhile, and that a command is to start with. */
void size_limit_restore(sigset_t *mask);

#define SIZE_LIMIT_GUARD \
	__attribute__((cleanup(size_limit_end), unused)) struct size_limit size_limit_guard = size_limit_begin()

#endif
