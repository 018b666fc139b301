/* SPDX-License-Identifier: Apache-2.0 */
/* A signal for a command, from somebody who did not start it. */
#include <string.h>
#include <sys/syscall.h>

#include "jail/private.h"

/* Judged while the pidfd is open: the process cannot have become another one since. */
static int open_process(pid_t pid, uint64_t start_time)
{
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	uint64_t found;

	if (pidfd < 0)
		return -errno;
	if (run_start_time(pid, &found) < 0 || found != start_time)
		return -ESRCH;
	return TAKE_FD(pidfd);
}

int jail_signal(pid_t pid, uint64_t start_time, int sig, bool to_command)
{
	AUTO_FD pidfd = open_process(pid, start_time);
	siginfo_t info;
	long r;

	if (pidfd < 0)
		return pidfd;
	memset(&info, 0, sizeof(info));
	info.si_signo = INIT_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = sig;
	r = to_command && sig != SIGKILL ? syscall(SYS_pidfd_send_signal, pidfd, INIT_SIGNAL, &info, 0)
					 : syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
	return r < 0 ? -errno : 0;
}
