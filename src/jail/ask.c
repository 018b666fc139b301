/* SPDX-License-Identifier: Apache-2.0 */
/* The side of one who asks a server (serve.c) to run a command. */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "jail/private.h"

static bool add(char *data, size_t size, size_t *at, const char *string)
{
	size_t n = strlen(string) + 1;

	if (n > size - *at)
		return false;
	memcpy(data + *at, string, n);
	*at += n;
	return true;
}

ssize_t jail_request_write(char *data, size_t size, const char *cwd, char *const *argv, char *const *env)
{
	struct jail_request request = { 0 };
	size_t at = sizeof(request);

	if (at > size || !add(data, size, &at, cwd))
		return -E2BIG;
	for (; argv[request.n_args]; request.n_args++)
		if (!add(data, size, &at, argv[request.n_args]))
			return -E2BIG;
	for (; env[request.n_env]; request.n_env++)
		if (!add(data, size, &at, env[request.n_env]))
			return -E2BIG;
	if ((size_t)request.n_args + request.n_env + 1 > JAIL_REQUEST_STRINGS_MAX)
		return -E2BIG;
	memcpy(data, &request, sizeof(request));
	return (ssize_t)at;
}

bool jail_request_read(char *data, size_t size, struct jail_request *ret, struct jail_strings *ret_strings)
{
	size_t at = sizeof(*ret), n = 0, total;
	char **all;

	if (size <= sizeof(*ret) || data[size - 1] != '\0')
		return false;
	memcpy(ret, data, sizeof(*ret));
	if (ret->n_args < 1 || ret->n_args > JAIL_REQUEST_STRINGS_MAX || ret->n_env > JAIL_REQUEST_STRINGS_MAX)
		return false;
	total = 1 + (size_t)ret->n_args + ret->n_env;
	all = total <= JAIL_REQUEST_STRINGS_MAX ? calloc(total + 2, sizeof(*all)) : NULL;
	for (size_t i = 0; all && i < total && at < size; i++) {
		all[n++] = data + at;
		at += strlen(data + at) + 1;
		if (i == ret->n_args)
			all[n++] = NULL;
	}
	if (!all || n != total + 1 || at != size) {
		free(all);
		return false;
	}
	*ret_strings = (struct jail_strings){ all, all[0], all + 1, all + 2 + ret->n_args };
	return true;
}

static int send_request(int socket, const char *data, size_t size)
{
	static const int stdio[3] = { 0, 1, 2 };
	char room[CMSG_SPACE(sizeof(stdio))] = { 0 };
	struct iovec buffer = { (void *)data, size };
	struct msghdr message = {
		.msg_iov = &buffer, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t n;

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(stdio)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), stdio, sizeof(stdio));
	do {
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)size ? 0 : -1;
}

/* Whoever does not answer in time is not waited for: it may be stopped. */
#define PATIENCE_MS 2000

static bool receive(int socket, void *reply, size_t size)
{
	ssize_t n;

	do {
		n = recv(socket, reply, size, 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

static bool is_heard(int socket)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };
	char byte;
	int n;

	do {
		n = poll(&fd, 1, PATIENCE_MS);
	} while (n < 0 && errno == EINTR);
	return n > 0 && recv(socket, &byte, 1, 0) == 1;
}

/* 1 if the command is being run, 0 if it is not and will not be: after the shutdown nothing can be said to us any more, without which
 * nothing is begun. */
static int wait_for_begin(int socket, void *reply, size_t size)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };
	int n;

	do {
		n = poll(&fd, 1, PATIENCE_MS);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return receive(socket, reply, size);
	(void)shutdown(socket, SHUT_RDWR);
	return receive(socket, reply, size) ? -ECONNRESET : 0;
}

/* Whether the last word came. */
static bool wait_for_end(int socket, int signal_fd, void *reply, size_t size)
{
	struct pollfd fds[] = { { .fd = socket, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };
	struct signalfd_siginfo info;

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
			if (errno != EINTR && errno != EAGAIN && errno != ENOMEM)
				return false;
			continue;
		}
		if (fds[1].revents)
			while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
				run_send_byte(socket, (char)info.ssi_signo);
		if (fds[0].revents)
			return receive(socket, reply, size);
	}
}

int jail_ask(int socket, const char *data, size_t size, void *reply, size_t reply_size)
{
	AUTO_FD signal_fd = -EBADF;
	sigset_t signals, old;
	int r = 0;

	run_block_signals(false, &signals, &old);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd >= 0 && is_heard(socket) && send_request(socket, data, size) == 0)
		r = wait_for_begin(socket, reply, reply_size);
	if (r > 0 && !wait_for_end(socket, signal_fd, reply, reply_size))
		r = -ECONNRESET;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}
