/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a sandbox. On Ctrl-C, SIGTERM or the end of the terminal, gives up and leaves nothing
 * behind. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <atoll/atoll.h>

#include <signal.h>

#include "cli/commands.h"

/* As atoll_new(). If a signal arrives just after the sandbox is made, removes the sandbox again. */
int interrupt_new(struct cli *cli, const struct atoll_new_options *options, struct atoll_info **ret,
		  struct atoll_error *err);
/* To be called afterwards: returns 128 + the number of the signal that ended it, or the given
 * status if no signal did. */
int interrupt_status(int status);

/*
 * While Atoll only looks at the changes of a sandbox, Ctrl-C may end it at any time; but then the
 * user has to learn the sandbox's name. interrupt_guard_begin() makes it say the name, until
 * interrupt_guard_end(). Not for work that changes something.
 */
void interrupt_guard_begin(const char *name, struct sigaction *old);
void interrupt_guard_end(const struct sigaction *old);

#endif
