/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of the gateway. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/private.h"

#define READY_MS 30000
#define END_MS 5000

struct net {
	pid_t pid;
	int socket, announce;
	bool ready;
};

int net_open(const struct net_policy *p, struct net **ret, struct atoll_error *err)
{
	struct net *net = calloc(1, sizeof(*net));
	int calls[2], announces[2];

	if (!net)
		return error_oom(err, "run");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) < 0) {
		free(net);
		return error_sys(err, errno, "run", NULL, "cannot make a channel to the gateway");
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, announces) < 0) {
		int error = errno;

		fd_close(calls[0]);
		fd_close(calls[1]);
		free(net);
		return error_sys(err, error, "run", NULL, "cannot make a channel to the gateway");
	}
	*net = (struct net){ .socket = calls[0], .announce = announces[0], .pid = fork() };
	if (net->pid == 0)
		gateway_main(p, calls[1], announces[1]);
	fd_close(calls[1]);
	fd_close(announces[1]);
	if (net->pid < 0) {
		int error = errno;

		net_close(net, NULL, NULL);
		return error_sys(err, error, "run", NULL, "cannot start the gateway");
	}
	*ret = net;
	return 0;
}

int net_announce_fd(const struct net *net)
{
	return net->announce;
}

/* 1 with a message, 0 at the end, -errno. */
static int receive(struct net *net, int cancel_fd, int64_t deadline, struct message *ret)
{
	struct pollfd fds[] = { { .fd = net->socket, .events = POLLIN }, { .fd = cancel_fd, .events = POLLIN } };

	for (;;) {
		int64_t left = (deadline - clock_monotonic_ns()) / 1000000;
		int n = poll(fds, ARRAY_SIZE(fds), left > 0 ? (int)left : 0);
		ssize_t size;

		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0 && fds[1].revents)
			return -ECANCELED;
		size = n < 0 ? -1 : recv(net->socket, ret, sizeof(*ret), MSG_DONTWAIT);
		if (size >= 0)
			return size == (ssize_t)sizeof(*ret);
		if (errno != EINTR && errno != EAGAIN)
			return errno == ECONNRESET ? 0 : -errno;
	}
}

int net_ready(struct net *net, int cancel_fd, struct atoll_error *err)
{
	struct message m = { 0 };
	int r;

	/* Whoever was to announce has the fd; if that one is gone, the gateway must see the end of it. */
	net->announce = fd_close(net->announce);
	r = receive(net, cancel_fd, clock_monotonic_ns() + READY_MS * 1000000LL, &m);
	if (r == -ETIMEDOUT)
		return error_set(err, ATOLL_TIMEOUT, ETIMEDOUT, "run", NULL,
				 "the gateway to the network did not start in time");
	if (r == -ECANCELED)
		return error_set(err, ATOLL_FAILED, EINTR, "run", NULL,
				 "interrupted while the hosts of --net were looked up; nothing was run");
	if (r <= 0)
		return error_sys(err, r < 0 ? r : -ECONNRESET, "run", NULL, "the gateway to the network ended");
	if (m.what == MESSAGE_FAILED) {
		if (err)
			*err = m.error;
		return -(int)m.error.code;
	}
	net->ready = true;
	return 0;
}

static bool read_report(struct net *net, atoll_refusal_fn report, void *arg)
{
	int64_t deadline = clock_monotonic_ns() + END_MS * 1000000LL;
	struct message m;

	while (receive(net, -EBADF, deadline, &m) > 0) {
		if (m.what == MESSAGE_END)
			return true;
		if (report && m.what == MESSAGE_REFUSAL)
			report(&m.refusal, arg);
	}
	return false;
}

static bool wait_end(struct net *net)
{
	int64_t deadline = clock_monotonic_ns() + END_MS * 1000000LL;
	struct message m;

	while (receive(net, -EBADF, deadline, &m) > 0)
		;
	return clock_monotonic_ns() < deadline;
}

void net_close(struct net *net, atoll_refusal_fn report, void *arg)
{
	if (!net)
		return;
	net->announce = fd_close(net->announce);
	(void)shutdown(net->socket, SHUT_WR);
	if (net->ready && !read_report(net, report, arg) && report)
		report(&(struct atoll_refusal){ .kind = ATOLL_REFUSAL_LOST }, arg);
	if (net->pid > 0) {
		if (!wait_end(net))
			kill(net->pid, SIGKILL);
		while (waitpid(net->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_close(net->socket);
	free(net);
}
