/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The question after a run in a new sandbox: what to do with its changes. The user answers with a
 * letter or word, and further words after it: "c src/price.ts", "d '*.ts'". atoll help question
 * explains them (topics.c).
 *
 * An answer that fails, or that Atoll does not understand, leaves the sandbox as it is, and Atoll
 * asks again. The end of input and Ctrl-C keep the sandbox.
 */
#ifndef CLI_QUESTION_H
#define CLI_QUESTION_H

#include "cli/decide.h"

/* Returns the exit status of atoll run. */
int question_put(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status);

#endif
