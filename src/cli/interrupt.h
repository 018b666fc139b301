/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a sandbox. On Ctrl-C, SIGTERM or the end of the terminal, gives up and leaves nothing
 * behind. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <atoll/atoll.h>

#include <signal.h>
#include <stdbool.h>

#include "cli/commands.h"

/* As atoll_new(). If a signal arrives just after the sandbox is made, removes the sandbox again. */
int interrupt_new(struct cli *cli, const struct atoll_new_options *options, struct atoll_info **ret,
		  struct atoll_error *err);
/* To be called afterwards: returns 128 + the number of the signal that ended it, or the given
 * status if no signal did. */
int interrupt_status(int status);

/*
 * While Atoll only reads the changes of a sandbox, Ctrl-C may end it at any time, but the user must
 * still learn the sandbox's name. Between interrupt_guard_begin() and interrupt_guard_end(), Ctrl-C
 * prints the name before it ends the program. Do not use the guard around work that changes a
 * sandbox.
 */
void interrupt_guard_begin(const char *name, struct sigaction *old);
void interrupt_guard_end(const struct sigaction *old);

/*
 * A commit cannot be stopped, and the user has to learn its outcome. interrupt_hold() makes Ctrl-C
 * wait until interrupt_release(): then it ends the program, or, if drop is true, nothing.
 */
void interrupt_hold(sigset_t *old);
void interrupt_release(const sigset_t *old, bool drop);

#endif
