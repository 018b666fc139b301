/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job control. A command that has the terminal to itself is a process group of its own: inside its pid namespace the group of the caller has
 * no number, and shells that look for it there give up. What the terminal sends then reaches the command alone, and the shell
 * outside knows only the caller: so when the command stops the caller stops too, and when he is continued, so is it.
 */
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "jail/private.h"

void terminal_begin(void)
{
	/* All signals are blocked still, and so is the one that would stop a process which takes the terminal from the background. */
	if (setpgid(0, 0) == 0)
		(void)tcsetpgrp(STDIN_FILENO, getpid());
}

void terminal_own(void)
{
	if (setsid() >= 0)
		(void)ioctl(STDIN_FILENO, TIOCSCTTY, 0);
}

void terminal_continue(pid_t command, bool foreground)
{
	if (foreground)
		(void)tcsetpgrp(STDIN_FILENO, command);
	(void)kill(-command, SIGCONT);
}

bool terminal_is_ours(void)
{
	return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool terminal_is_of(pid_t command)
{
	return tcgetpgrp(STDIN_FILENO) == command;
}

/* The caller's own process stops here, by the signal that stopped the command, and goes on here. Where nobody could continue it (its group is
 * orphaned) the kernel lets it go on at once. What continued it is blocked, and answered by whoever called: not twice. */
void terminal_stop(int sig, bool take_back)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	if (take_back)
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)kill(getpid(), sig);
	sigemptyset(&set);
	sigaddset(&set, SIGCONT);
	while (sigtimedwait(&set, NULL, &(struct timespec){ 0 }) == SIGCONT)
		;
}
