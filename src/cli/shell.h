/* SPDX-License-Identifier: Apache-2.0 */
/* The user's shell, as the command that runs in a sandbox. */
#ifndef CLI_SHELL_H
#define CLI_SHELL_H

#include "cli/commands.h"

#define SHELL_WORDS 4

/* Fills argv, ended by NULL, and returns the number of words. At a terminal it sets
 * cli->before_run, which marks the prompt and prints what the sandbox holds. */
size_t shell_command(struct cli *cli, char *argv[SHELL_WORDS]);

#endif
