/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandbox a command without a name means, by the current directory. */
#ifndef CLI_HERE_H
#define CLI_HERE_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/*
 * The sandbox of the latest commit that was not taken back, of those with a resource around the current directory or below it. *ret_ago: how
 * many seconds ago that landed. 1; 0 if there is none; or a negative code.
 */
int here_latest_landing(struct cli *cli, struct atoll_info **ret, int64_t *ret_ago, struct atoll_error *err);
/* The one that was used last, of the same. ATOLL_NOT_FOUND if there is none. */
int here_latest(struct cli *cli, struct atoll_info **ret, struct atoll_error *err);

#endif
