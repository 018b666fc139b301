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
