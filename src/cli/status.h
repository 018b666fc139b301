/* SPDX-License-Identifier: Apache-2.0 */
/* atoll status. atoll without a command does the same if a sandbox concerns the working
 * directory. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "cli/commands.h"

/* Prints the sandboxes that hold the working directory or something below it. *ret_n: the number
 * of these sandboxes. Returns 0, or an exit status after printing an error. */
int status_print(struct cli *cli, bool json, size_t *ret_n);

#endif
