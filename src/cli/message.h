/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics: one line each on standard error, "atoll: …". */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <atoll/atoll.h>

#include "base/macros.h"
#include "cli/commands.h"

void message_error(const char *format, ...) PRINTF_LIKE(1, 2);
void message_warning(const char *format, ...) PRINTF_LIKE(1, 2);

/* A usage error of the command: the line ends in a hint. Returns exit status 2. */
int message_usage(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* The error in one line; returns the exit status it means for this command. */
int message_fail(const struct cli *cli, const struct atoll_error *err);
int message_oom(const struct cli *cli);

#endif
