/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single keys from the terminal, and a screen to draw on.
 *
 * keys_begin() sets the terminal so that a key is read as soon as it is pressed, and switches to
 * the alternate screen; keys_end() restores both. If a signal that ends the program arrives in
 * between, keys_read() restores the terminal first.
 */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/strbuf.h"

enum keys_special {
	KEY_END = -1, /* the end of input, or Ctrl-C */
	KEY_RESIZED = 256,
	KEY_UP,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_FIRST,
	KEY_LAST,
	KEY_ESCAPE,
	KEY_UNKNOWN,
};

struct keys {
	struct termios saved;
	sigset_t mask;
	struct sigaction old[5];
	char pending[64]; /* bytes read and not returned yet */
	size_t n_pending;
};

/* Whether standard input and standard error are a terminal on which Atoll can draw. */
bool keys_is_possible(void);
/* Returns 0 or -errno. */
int keys_begin(struct keys *k);
void keys_end(struct keys *k);
/* Waits for a key: a byte, or one of enum keys_special. */
int keys_read(struct keys *k);
/* Replaces the screen by the text, whose lines end in \n. */
void keys_draw(const struct strbuf *text);

#endif
