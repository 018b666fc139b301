/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

int terminal_of_foreground(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (tcgetpgrp(fd) == getpgrp())
			return fd;
	return -EBADF;
}

void terminal_take_back(int fd)
{
	sigset_t stop, old;

	if (fd < 0 || tcgetpgrp(fd) == getpgrp())
		return;
	/* Whoever does this from the background is stopped, unless the signal is blocked. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	(void)tcsetpgrp(fd, getpgrp());
	sigprocmask(SIG_SETMASK, &old, NULL);
}
