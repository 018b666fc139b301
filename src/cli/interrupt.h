/* SPDX-License-Identifier: Apache-2.0 */
/* Making a sandbox that Ctrl-C, SIGTERM or the end of the terminal gives up: nothing is left of
 * it. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/* As atoll_new(). A signal that arrives when the sandbox has just been made removes it again. */
int interrupt_new(struct cli *cli, const struct atoll_new_options *options, struct atoll_info **ret,
		  struct atoll_error *err);
/* Afterwards: 128 + the number of the signal that ended it; the given status if none did. */
int interrupt_status(int status);

#endif
