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

/* Of operands NAME [RUN] the second, or 0; false as above. */
bool runs_operand(struct cli *cli, const struct options *o, int64_t *ret);
/* The run of that number, or (0) the latest of which the output is kept, without its strings. Of one that is not there only the number. */
int runs_find(struct cli *cli, const char *name, int64_t number, struct atoll_run_info *ret, struct atoll_error *err);
/* atoll_output_fn: to standard output. */
int runs_print(const char *data, size_t size, void *arg);

#endif
