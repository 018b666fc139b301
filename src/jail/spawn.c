/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children in namespaces of their own.
 *
 *   root               clone(NEWNS | NEWPID)
 *   own ids only       clone(NEWUSER | NEWNS | NEWPID), and the child maps itself
 *   sub-ids granted    clone() of a go-between, which enters the kept user namespace and from there does
 *                      clone(PARENT | NEWNS | NEWPID): the result is the caller's child all the same
 *   joining            the same through a go-between that enters the namespaces of another run
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "jail/private.h"

/* The thread sanitizer's own locks are frozen in a child it did not see being made: all goes through a forked go-between then. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN true
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN false
#endif

/* Waiting with this sees children that end without a signal. */
#define WAIT_FLAGS (WEXITED | __WALL)

/* No exit signal, no C library in between: fork() would run the program's own fork handlers. */
static pid_t raw_clone(unsigned long flags, int *ret_pidfd)
{
	long pid = syscall(SYS_clone, flags | CLONE_PIDFD, NULL, ret_pidfd, NULL, NULL);

	return pid < 0 ? -errno : (pid_t)pid;
}

/* What is to be started, and where. */
struct start {
	unsigned long flags;                /* of clone */
	const struct ids_own *own;          /* to be mapped by the child itself, or NULL */
	int wide_fd;                        /* the user namespace to enter first, or -EBADF */
	const struct jail_namespaces *join; /* all of those to enter first, or NULL */
	int socket;                         /* on which a go-between sends the pid, or -errno */
	spawn_fn fn;
	void *arg;
};

static int start(const struct start *s, struct spawn *ret)
{
	int pidfd = -EBADF;
	pid_t pid = raw_clone(s->flags, &pidfd);

	if (pid < 0)
		return pid;
	if (pid == 0)
		_exit(s->fn(s->own ? ids_map_own(s->own) : 0, s->arg));
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

/* Sends the child's pidfd too if there is one: a container's filter of system calls may refuse
 * pidfd_open(). */
static void send_child(int socket, int pid, int pidfd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { &pid, sizeof(pid) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (pidfd >= 0) {
		message.msg_control = room;
		message.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&message);
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				       .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(c), &pidfd, sizeof(pidfd));
	}
	while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static int go_between(int setup, void *arg)
{
	struct start s = *(const struct start *)arg;
	struct spawn child = { 0 };
	int r = s.join ? namespaces_enter(s.join) : s.wide_fd >= 0 ? spawn_enter_userns(s.wide_fd, NULL) : 0;

	(void)setup;
	s.flags |= CLONE_PARENT;
	child.pidfd = -EBADF;
	if (r == 0)
		r = start(&s, &child);
	send_child(s.socket, r == 0 ? child.pid : r, child.pidfd);
	return 0;
}

/* Returns 0, or -errno if there is no child. */
static int receive_child(int socket, struct spawn *ret)
{
	char room[CMSG_SPACE(sizeof(int))];
	int pid, pidfd = -EBADF;
	struct iovec data = { &pid, sizeof(pid) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	const struct cmsghdr *c;
	ssize_t n;

	do {
		n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(pid) || pid < 0)
		return n == (ssize_t)sizeof(pid) ? pid : -ECHILD;
	c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&pidfd, CMSG_DATA(c), sizeof(pidfd));
	*ret = (struct spawn){ .pid = pid, .pidfd = pidfd };
	return 0;
}

static int start_go_between(struct start *s, struct spawn *ret)
{
	pid_t pid;

	if (!UNDER_TSAN)
		return start(&(struct start){ .fn = go_between, .arg = s }, ret);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(go_between(0, s));
	*ret = (struct spawn){ .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	return ret->pidfd < 0 ? -errno : 0;
}

static int start_indirectly(struct start *what, struct spawn *ret)
{
	int pair[2], r;
	struct spawn s;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	what->socket = pair[1];
	r = start_go_between(what, &s);
	if (r == 0) {
		r = spawn_wait(&s);
		if (r >= 0)
			r = receive_child(pair[0], ret);
	}
	close(pair[0]);
	close(pair[1]);
	/* No process has waited for this child yet, so its number cannot belong to another
	 * process. */
	if (r == 0 && ret->pidfd < 0) {
		kill(ret->pid, SIGKILL);
		while (waitpid(ret->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		r = -EMFILE;
	}
	return r;
}

/* Signals stay blocked in the child, so that no handler of the program ever runs there. */
static void block_all(sigset_t *ret_old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, ret_old);
}

static int start_blocked(struct start *s, struct spawn *ret)
{
	sigset_t old;
	int r;

	block_all(&old);
	r = s->join || s->wide_fd >= 0 || UNDER_TSAN ? start_indirectly(s, ret) : start(s, ret);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int spawn_plain(spawn_fn fn, void *arg, struct spawn *ret)
{
	return start_blocked(&(struct start){ .wide_fd = -EBADF, .fn = fn, .arg = arg }, ret);
}

int spawn_sharing(unsigned namespaces, int (*fn)(void *arg), void *arg, char stack[SPAWN_STACK_SIZE], struct spawn *ret)
{
	int pidfd = -EBADF;
	sigset_t old;
	pid_t pid;

	block_all(&old);
	if (UNDER_TSAN) {
		pid = raw_clone(namespaces, &pidfd);
		if (pid == 0)
			_exit(fn(arg));
	} else {
		pid = clone(fn, stack + SPAWN_STACK_SIZE, (int)(CLONE_VM | CLONE_PIDFD | namespaces), arg, &pidfd);
		pid = pid < 0 ? -errno : pid;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return pid;
	*ret = (struct spawn){ .pid = pid, .pidfd = pidfd };
	return 0;
}

int spawn_start(unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret)
{
	struct start s = { .wide_fd = -EBADF, .flags = namespaces, .fn = fn, .arg = arg };
	struct ids_own own;

	if (!jail_is_root()) {
		s.wide_fd = ids_wide_userns();
		if (s.wide_fd < 0) {
			ids_own(&own);
			s.own = &own;
			s.flags |= CLONE_NEWUSER;
		}
	}
	return start_blocked(&s, ret);
}

int spawn_join(const struct jail_namespaces *join, unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret)
{
	return start_blocked(
		&(struct start){ .wide_fd = -EBADF, .join = join, .flags = namespaces, .fn = fn, .arg = arg }, ret);
}

static atomic_int patience_ms = 20000;

void jail_set_patience(int ms)
{
	patience_ms = ms;
}

int64_t spawn_deadline(void)
{
	return clock_monotonic_ns() + (int64_t)patience_ms * 1000000;
}

int spawn_ms_until(int64_t deadline)
{
	int64_t left = deadline - clock_monotonic_ns();

	return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

int spawn_wait_until(struct spawn *s, int64_t deadline)
{
	struct pollfd fd = { .fd = s->pidfd, .events = POLLIN };
	int n;

	do {
		n = poll(&fd, 1, spawn_ms_until(deadline));
	} while (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOMEM));
	if (n < 0)
		return -errno;
	return n == 0 ? -ETIMEDOUT : spawn_wait(s);
}

void spawn_kill(const struct spawn *s)
{
	/* A child that was not waited for keeps its number. */
	if (syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		(void)kill(s->pid, SIGKILL);
}

int spawn_end(struct spawn *s)
{
	int r;

	spawn_kill(s);
	r = spawn_wait_until(s, spawn_deadline());
	if (r == -ETIMEDOUT)
		s->pidfd = fd_close(s->pidfd);
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
