/* SPDX-License-Identifier: Apache-2.0 */
/* The side of one who asks a server (serve.c) to run a command. */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "jail/private.h"

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
	static const int stdio[3] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	AUTO_FD signal_fd = -EBADF;
	sigset_t signals, old;
	int r = 0;

	run_block_signals(false, &signals, &old);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd >= 0 && is_heard(socket) && request_send(socket, data, size, stdio) == 0)
		r = wait_for_begin(socket, reply, reply_size);
	if (r > 0 && !wait_for_end(socket, signal_fd, reply, reply_size))
		r = -ECONNRESET;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}
