/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work that may be given up: the caller says how to ask, and the work asks now and then.
 *
 *	r = stop_begin(fn, arg);
 *	...                      at any depth below: r = stop_check(); if (r < 0) return r;
 *	stop_end();
 *
 * It holds for the calling thread. The answer is shared with the processes that this thread forks
 * meanwhile: once fn() has said yes, stop_check() fails in all of them. A forked process calls
 * stop_in_child(), and then leaves fn() to its parent, which asks while it waits: it polls for no
 * longer than stop_wait_ms() at a time, and calls stop_check() each time. Work that was not given a
 * way to be stopped pays nothing: stop_check() is 0 at once.
 */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>

typedef bool (*stop_fn)(void *arg);

int stop_begin(stop_fn fn, void *arg); /* fn NULL: nothing to ask. 0 or -ENOMEM */
void stop_end(void);
void stop_in_child(void);

bool stop_is_possible(void);
int stop_check(void); /* 0, or -ECANCELED */
/* How long to wait at most before the next stop_check(), where the caller would wait for
 * timeout_ms (negative: forever). */
int stop_wait_ms(int timeout_ms);

#endif
