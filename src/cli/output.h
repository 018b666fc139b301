/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output and error: colour, pager, and noticing at the end that something could not be written.
 *
 * SIGPIPE is ignored while Atoll itself writes, so that a closed pipe can never end it in the middle of its work; it is
 * made good in output_finish(). While a command runs inside a sandbox the signal is as it was found.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Makes sure that 0, 1 and 2 are open, so that no file of ours is ever mistaken for one of them. */
void output_init(void);
void output_ignore_sigpipe(void);
void output_restore_sigpipe(void); /* before another command runs inside */

/* If standard error is a file, moves the position to its end. A command that opens /dev/stderr
 * again writes at a position of its own, and Atoll's messages would overwrite that output. */
void output_stderr_to_end(void);

/* Flushes, and turns a failed write into exit status 1; a closed pipe ends the process as SIGPIPE would. */
int output_finish(int status);

/* when: NULL or "auto", "always", "never". auto: a terminal that is not dumb, and NO_COLOR is not set. */
bool output_wants_color(FILE *out, const char *when);

enum output_color { COLOR_RESET, COLOR_BOLD, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_CYAN };
const char *output_color(bool on, enum output_color color); /* "" if off */

/* Sends standard output through the user's pager until output_pager_end(); does nothing where it is no terminal. */
void output_pager_start(void);
void output_pager_end(void);

#endif
