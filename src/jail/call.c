/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own work inside a user namespace.
 *
 * The function may do anything, so the child is an ordinary fork(), which leaves a usable malloc behind in threaded
 * programs too. Nothing ends it when the caller dies: it holds the caller's locks and goes on to its end.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fork-gate.h"
#include "base/stop.h"
#include "base/sys.h"
#include "jail/private.h"
#include "tree/tree.h"

static const char operation[] = "call";

struct answer {
	bool entered; /* false: no user namespace could be entered and fn was not called */
	int value;    /* what fn returned */
};

static void restore_signals(sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void block_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, ret_old);
}

/* True if the child has answered. */
static bool read_answer(int socket, int flags, struct answer *ret)
{
	ssize_t n;

	do {
		n = recv(socket, ret, sizeof(*ret), flags);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret);
}

/*
 * The child's end is seen on its pidfd, not only on the socket: another thread may have forked meanwhile, and such a process
 * holds the socket open too. It is reaped here, unless the program ignores SIGCHLD or waits for any child; the answer does
 * not depend on that.
 */
static bool wait_for_answer(pid_t pid, int socket, int *help, struct answer *ret)
{
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool answered;

	/* The child cannot be waited for and helped at the same time, so it must not wait for help. */
	if (pidfd < 0)
		*help = fd_close(*help);
	while (pidfd >= 0) {
		struct pollfd fds[] = { { .fd = socket, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN },
					{ .fd = *help, .events = POLLIN } };
		int n = poll(fds, ARRAY_SIZE(fds), stop_wait_ms(-1));

		(void)stop_check(); /* the child reads the answer, and ends by itself */
		if (n == 0)
			continue;
		if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOMEM))
			continue;
		if (n < 0 || fds[0].revents || fds[1].revents)
			break;
		if (!tree_outside_serve(*help))
			*help = fd_close(*help);
	}
	answered = read_answer(socket, pidfd >= 0 ? MSG_DONTWAIT : 0, ret);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return answered;
}

static _Noreturn void child(int socket, int help, int wide_fd, const struct ids_own *own, int (*fn)(void *arg, int out),
			    void *arg, int out)
{
	struct answer answer = { 0 };

	sys_fault_child();
	stop_in_child();
	answer.entered = spawn_enter_userns(wide_fd, own) == 0;
	tree_outside_use(help);
	if (answer.entered)
		answer.value = fn(arg, out);
	while (send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
	_exit(0);
}

static int open_channels(int pair[2], int help[2])
{
	int error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, help) == 0)
		return 0;
	error = errno;
	close(pair[0]);
	close(pair[1]);
	errno = error;
	return -1;
}

static int call_in_child(int (*fn)(void *arg, int out), void *arg, int out, struct answer *ret, struct atoll_error *err)
{
	int pair[2], help[2], r, wide_fd = ids_wide_userns();
	AUTO_FD probe = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct ids_own own;
	bool answered;
	pid_t pid;

	ids_own(&own);
	if (open_channels(pair, help) < 0)
		return error_sys(err, errno, operation, NULL, "cannot make a channel to a child process");
	pid = fork_gate_fork(); /* fn may use the database */
	if (pid == 0) {
		/* Otherwise the caller's death would not be seen by one who waits for help. */
		close(help[0]);
		/* If the process that helps the child ends, so does the child. So the child gets no helper
		 * where pidfd_open() is refused and the caller cannot help. */
		child(pair[1], probe < 0 ? fd_close(help[1]) : help[1], wide_fd, &own, fn, arg, out);
	}
	r = -errno;
	probe = fd_close(probe); /* leaves a free descriptor for the pidfd of the child */
	close(pair[1]);
	close(help[1]);
	answered = pid >= 0 && wait_for_answer(pid, pair[0], &help[0], ret);
	close(pair[0]);
	fd_close(help[0]);
	if (pid < 0)
		return error_sys(err, r, operation, NULL, "cannot start a child process");
	if (!answered)
		return error_set(err, ATOLL_IN_DOUBT, 0, operation, NULL,
				 "the process that did the work was killed: run `atoll recover`");
	return 0;
}

bool jail_call_is_helped(void)
{
	AUTO_FD probe = jail_is_root() ? -EBADF : (int)syscall(SYS_pidfd_open, getpid(), 0);

	return jail_is_root() || probe >= 0;
}

int jail_call(int (*fn)(void *arg, int out), void *arg, int *ret_out, struct atoll_error *err)
{
	CLEANUP(restore_signals) sigset_t old;
	AUTO_FD out = -EBADF;
	struct answer answer = { 0 };
	int r;

	block_signals(&old);
	out = memfd_create("atoll-call", MFD_CLOEXEC);
	if (out < 0)
		return error_sys(err, errno, operation, NULL, "cannot make a buffer");
	if (!jail_is_root()) {
		r = call_in_child(fn, arg, out, &answer, err);
		if (r < 0)
			return r;
	}
	/* Root needs no namespace, and where there is none the caller's own rights must do. */
	if (!answer.entered)
		answer.value = fn(arg, out);
	if (lseek(out, 0, SEEK_SET) < 0)
		return error_sys(err, errno, operation, NULL, "cannot read the answer");
	if (ret_out)
		*ret_out = TAKE_FD(out);
	return answer.value;
}
