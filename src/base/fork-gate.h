/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork in a program with threads leaves the child with the mutexes and the lock tables of all of them, as they were at that instant. What
 * cannot bear that (SQLite) is used behind this gate: a child that is to use it too is forked at an instant when nobody is inside.
 *
 * Nobody may wait inside for anything that another thread can only end by entering or forking.
 */
#ifndef BASE_FORK_GATE_H
#define BASE_FORK_GATE_H

#include <sys/types.h>

void fork_gate_enter(void); /* waits while somebody is forking; by the same thread again at once */
void fork_gate_leave(void);

/* Like fork(2), once everybody is outside. A thread that is inside itself forks at once: its child must not use what is guarded. */
pid_t fork_gate_fork(void);

#endif
