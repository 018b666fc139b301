/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that deal with runs share. */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include <atoll/atoll.h>

#include "cli/commands.h"

const char *
runs_state(const struct atoll_run_info *r); /* "running", "exited", "killed", "failed", "timed out", "lost" */
/* The number of a run, > 0; false after a usage error was printed. */
bool runs_number(struct cli *cli, const char *text, int64_t *ret);

#endif
