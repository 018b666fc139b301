/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children in namespaces of their own.
 *
 *   root               clone(NEWNS | NEWPID)
 *   own ids only       clone(NEWUSER | NEWNS | NEWPID), and the child maps itself
 *   sub-ids granted    clone() of a go-between, which enters the kept user namespace and from there does
 *                      clone(PARENT | NEWNS | NEWPID): the result is the caller's child all the same
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/private.h"

/* Waiting with this sees children that end without a signal. */
#define WAIT_FLAGS (WEXITED | __WALL)

/* No exit signal, no C library in between: fork() would run the program's own fork handlers. */
static pid_t raw_clone(unsigned long flags, int *ret_pidfd)
{
	long pid = syscall(SYS_clone, flags | CLONE_PIDFD, NULL, ret_pidfd, NULL, NULL);

	return pid < 0 ? -errno : (pid_t)pid;
}

static int start(unsigned long flags, const struct ids_own *own, spawn_fn fn, void *arg, struct spawn *ret)
{
	int pidfd = -EBADF;
	pid_t pid = raw_clone(flags, &pidfd);

	if (pid < 0)
		return pid;
	if (pid == 0)
		_exit(fn(own ? ids_map_own(own) : 0, arg));
	*ret = (struct spawn){ .pid = pid, .pidfd = pidfd };
	return 0;
}

int spawn_enter_userns(int wide_fd, const struct ids_own *own)
{
	if (wide_fd >= 0)
		return setns(wide_fd, CLONE_NEWUSER) < 0 ? -errno : 0;
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	return ids_map_own(own);
}

/* What the go-between tells: the pid, or -errno. */
struct go_between {
	int socket, wide_fd;
	unsigned namespaces;
	spawn_fn fn;
	void *arg;
};

static int go_between(int setup, void *arg)
{
	const struct go_between *g = arg;
	int pidfd = -EBADF;
	pid_t pid = spawn_enter_userns(g->wide_fd, NULL);

	(void)setup;
	if (pid == 0) {
		pid = raw_clone(CLONE_PARENT | g->namespaces, &pidfd);
		if (pid == 0)
			return g->fn(0, g->arg);
	}
	(void)send(g->socket, &pid, sizeof(pid), MSG_NOSIGNAL);
	return 0;
}

static int receive_pid(int socket)
{
	pid_t pid;
	ssize_t n;

	do {
		n = recv(socket, &pid, sizeof(pid), MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(pid) ? pid : -ECHILD;
}

static int start_wide(int wide_fd, unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret)
{
	int pair[2], r;
	struct go_between g = { .wide_fd = wide_fd, .namespaces = namespaces, .fn = fn, .arg = arg };
	struct spawn s;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	g.socket = pair[1];
	r = start(0, NULL, go_between, &g, &s);
	if (r == 0) {
		r = spawn_wait(&s);
		if (r >= 0)
			r = receive_pid(pair[0]);
	}
	close(pair[0]);
	close(pair[1]);
	if (r < 0)
		return r;
	/* Our child, and not waited for yet: the number cannot be somebody else's. */
	*ret = (struct spawn){ .pid = r, .pidfd = (int)syscall(SYS_pidfd_open, r, 0) };
	if (ret->pidfd < 0) {
		r = -errno;
		kill(ret->pid, SIGKILL);
		while (waitpid(ret->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		return r;
	}
	return 0;
}

/* Signals stay blocked in the child, so that no handler of the program ever runs there. */
static void block_all(sigset_t *ret_old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, ret_old);
}

int spawn_plain(spawn_fn fn, void *arg, struct spawn *ret)
{
	sigset_t old;
	int r;

	block_all(&old);
	r = start(0, NULL, fn, arg, ret);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int spawn_start(unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret)
{
	struct ids_own own;
	int wide_fd = -EBADF, r;
	bool root = jail_is_root();
	sigset_t old;

	ids_own(&own);
	if (!root)
		wide_fd = ids_wide_userns();
	block_all(&old);
	if (root)
		r = start(namespaces, NULL, fn, arg, ret);
	else if (wide_fd >= 0)
		r = start_wide(wide_fd, namespaces, fn, arg, ret);
	else
		r = start(CLONE_NEWUSER | namespaces, &own, fn, arg, ret);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int spawn_wait(struct spawn *s)
{
	siginfo_t info;
	int r;

	do {
		memset(&info, 0, sizeof(info));
		r = waitid(P_PIDFD, (id_t)s->pidfd, &info, WAIT_FLAGS);
	} while (r < 0 && errno == EINTR);
	r = r < 0 ? -errno : 0;
	s->pidfd = fd_close(s->pidfd);
	if (r < 0)
		return r;
	return info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
}
