/* SPDX-License-Identifier: Apache-2.0 */
/* Asking somebody at the terminal. Questions go to standard error, answers come from standard input. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is somebody to ask. */
bool ask_is_possible(void);

struct ask_choice {
	char letter;
	const char *word;
};

/* Asks until the letter or word of one of the choices is answered; returns its index, or -1 at the end of input,
 * which Ctrl-C is too. */
int ask_choice(const char *question, const struct ask_choice *choices, size_t n);

/* Only "y" or "yes" is yes. */
bool ask_yes(const char *question);

#endif
