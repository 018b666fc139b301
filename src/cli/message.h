/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics: one line each on standard error, "atoll: …". */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <atoll/atoll.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/strbuf.h"
#include "cli/commands.h"

void message_error(const char *format, ...) PRINTF_LIKE(1, 2);
void message_warning(const char *format, ...) PRINTF_LIKE(1, 2);

/* Between message_hold(true) and message_hold(false) these functions hold their lines.
 * message_held() returns the held lines, and message_release() prints them. */
void message_hold(bool on);
const char *message_held(void);
void message_release(void);

/* A usage error of the command: the line ends in a hint. Returns exit status 2. */
int message_usage(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* Adds "; did you mean …?" if a sandbox has a name that is spelt nearly like the word. */
void message_add_nearest(const struct cli *cli, const char *word, struct strbuf *s);

/* Prints the error in one line, with advice that fits this command; returns the exit status that
 * the error means for this command. */
int message_fail(const struct cli *cli, const struct atoll_error *err);
int message_oom(const struct cli *cli);

/*
 * With --json, standard output holds one document: the command's own, which the command begins with
 * message_json_begin(), or, if the command fails before that, {"success": false, "error": …} with
 * the first error that was printed.
 */
void message_json_want(bool wanted);
void message_json_begin(struct json *j); /* calls json_init() for standard output */
/* Adds the member "error" to an object: code, exit_status, errno, operation, object, message. */
void message_json_error(struct json *j, const struct atoll_error *err, int exit_status);
int message_json_finish(int status); /* at the end of the program; returns the status */

#endif
