/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in the foreground of the terminal. A shell inside a sandbox takes the terminal for a process group of its own, and
 * cannot give it back at its end: the group it had it from has no number inside. A question asked then would stop Atoll.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Before a command: the fd of the terminal that this process is in the foreground of, or -EBADF. Nothing to close. */
int terminal_of_foreground(void);

/* Whether all three standard fds are that terminal. */
bool terminal_is_whole(void);

/* After it: puts this process's group into the foreground again. Nothing is done for -EBADF. */
void terminal_take_back(int fd);

/* Finds the rows and columns of the terminal at fd. $LINES and $COLUMNS take precedence; if the
 * size is unknown, it is 24 by 80. Returns false if fd is no terminal. */
bool terminal_size(int fd, size_t *ret_rows, size_t *ret_columns);

#endif
