/* SPDX-License-Identifier: Apache-2.0 */
/* Signals a run's process for a caller that did not start it. */
#include <string.h>
#include <sys/syscall.h>

#include "base/process.h"
#include "jail/private.h"

/* Without a pidfd, signals the number, which the process had a moment ago. */
static long send_to(int pidfd, pid_t pid, int sig, siginfo_t *info)
{
	if (pidfd >= 0) {
		long r = syscall(SYS_pidfd_send_signal, pidfd, sig, info, 0);

		if (r == 0 || errno == ESRCH)
			return r;
	}
	return info ? syscall(SYS_rt_sigqueueinfo, pid, sig, info) : kill(pid, sig);
}

int jail_signal(pid_t pid, uint64_t tag, int sig, bool to_command)
{
	AUTO_FD pidfd = -EBADF;
	siginfo_t info;
	int r = process_open(pid, tag, &pidfd);

	if (r < 0)
		return r;
	memset(&info, 0, sizeof(info));
	info.si_signo = INIT_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = sig;
	if (to_command && sig != SIGKILL)
		return send_to(pidfd, pid, INIT_SIGNAL, &info) < 0 ? -errno : 0;
	return send_to(pidfd, pid, sig, NULL) < 0 ? -errno : 0;
}
