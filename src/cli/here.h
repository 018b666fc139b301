/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the sandbox for a command without a name, by the current directory. */
#ifndef CLI_HERE_H
#define CLI_HERE_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/*
 * Finds the sandbox with the latest commit that no undo has taken back, among the sandboxes with a
 * resource around the current directory or below it. *ret_ago: the number of seconds since that
 * commit landed. Returns 1; 0 if there is none; or a negative code.
 */
int here_latest_landing(struct cli *cli, struct atoll_info **ret, int64_t *ret_ago, struct atoll_error *err);
/* Finds the latest used sandbox among the same sandboxes. ATOLL_NOT_FOUND if there is none. */
int here_latest(struct cli *cli, struct atoll_info **ret, struct atoll_error *err);

#endif
