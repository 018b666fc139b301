/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work that the caller may cancel: the caller sets a stop function, and the work polls it.
 *
 *	r = stop_begin(fn, arg);
 *	...                      at any depth below: r = stop_check(); if (r < 0) return r;
 *	stop_end();
 *
 * The stop function belongs to the calling thread. The processes that this thread forks before
 * stop_end() share the answer: once fn() has returned true, stop_check() fails in all of them. A
 * forked process calls stop_in_child() and then leaves the calls of fn() to its parent. The parent
 * makes them while it waits: it polls for no longer than stop_wait_ms() at a time, and calls
 * stop_check() each time. Without a stop function the cost is nil: stop_check() returns 0 at once.
 */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>

typedef bool (*stop_fn)(void *arg);

int stop_begin(stop_fn fn, void *arg); /* fn NULL: nothing to ask. Returns 0 or -ENOMEM */
void stop_end(void);
void stop_in_child(void);

bool stop_is_possible(void);
int stop_check(void); /* 0, or -ECANCELED */
/* Returns the longest time to wait before the next stop_check(), for a caller that would
 * otherwise wait for timeout_ms (negative: forever). */
int stop_wait_ms(int timeout_ms);

#endif
