/* SPDX-License-Identifier: Apache-2.0 */
/* Asking somebody at the terminal. Questions go to standard error, answers come from standard input. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is somebody to ask. */
bool ask_is_possible(void);

/* Prints the question and reads a line. Returns the malloc'ed line without leading blanks and
 * without its newline; NULL at the end of input and after Ctrl-C. */
char *ask_line(const char *question);

/* Only "y" or "yes" is yes. */
bool ask_yes(const char *question);

#endif
