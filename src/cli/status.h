/* SPDX-License-Identifier: Apache-2.0 */
/* atoll status, which is also what atoll without a command does where a sandbox concerns the working directory. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "cli/commands.h"

/* Prints the sandboxes that hold the working directory, or something below it. *ret_n: how many there are. 0, or an exit status
 * after an error was told. */
int status_print(struct cli *cli, bool json, size_t *ret_n);

#endif
