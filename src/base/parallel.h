/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many items that do not depend on each other, worked on by a few threads. These have all signals blocked, and are over when the call
 * returns. Where they would gain nothing (few items, one processor), cannot be had, or are not wanted (a build with fault injection
 * counts its calls, which must come in the same order each time) the caller does everything.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

#define PARALLEL_MAX 4

/* first to end, without end. part, below PARALLEL_MAX, is the thread's own; 0 is the caller's. A part gets its items in order. */
typedef void (*parallel_fn)(void *arg, size_t part, size_t first, size_t end);

bool parallel_is_worth(size_t n);
/* Calls fn until every one of n items was in exactly one call. */
void parallel_run(size_t n, parallel_fn fn, void *arg);

#endif
