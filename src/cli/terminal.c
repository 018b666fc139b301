/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_of_foreground(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (tcgetpgrp(fd) == getpgrp())
			return fd;
	return -EBADF;
}

/* Not if a pipe leads elsewhere: whoever is at its other end belongs to the same group, and may want the terminal too. */
bool terminal_is_whole(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (tcgetpgrp(fd) != getpgrp())
			return false;
	return true;
}

void terminal_take_back(int fd)
{
	pid_t group = fd < 0 ? -1 : tcgetpgrp(fd);
	sigset_t stop, old;

	/* A living group has it by right: the shell's, if we were sent to the background. */
	if (group < 0 || group == getpgrp() || (group > 0 && (kill(-group, 0) == 0 || errno != ESRCH)))
		return;
	/* Whoever does this from the background is stopped, unless the signal is blocked. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	(void)tcsetpgrp(fd, getpgrp());
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static size_t size_from(const char *variable, size_t of_terminal, size_t fallback)
{
	const char *text = getenv(variable);
	long n = text ? strtol(text, NULL, 10) : 0;

	if (n > 0 && n < 100000)
		return (size_t)n;
	return of_terminal > 0 ? of_terminal : fallback;
}

bool terminal_size(int fd, size_t *ret_rows, size_t *ret_columns)
{
	struct winsize size = { 0 };

	if (!isatty(fd))
		return false;
	(void)ioctl(fd, TIOCGWINSZ, &size);
	*ret_rows = size_from("LINES", size.ws_row, 24);
	*ret_columns = size_from("COLUMNS", size.ws_col, 80);
	return true;
}
