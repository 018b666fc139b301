/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of src/net share: a process in user and network namespaces of its own, with a gateway, that does what a test wants
 * to be done inside; and servers on the host's loopback.
 */
#ifndef TESTS_UNIT_NET_SCENE_H
#define TESTS_UNIT_NET_SCENE_H

#include <arpa/inet.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>

#include "base/macros.h"
#include "net/private.h"
#include "tap.h"

#define SCENE_UID 12345

TAP_UNUSED static void scene_as_user(void)
{
	if (geteuid() != 0)
		return;
	CHECK_EQ(chown(tap_dir, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setgroups(0, NULL), 0);
	CHECK_EQ(setresgid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setresuid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
}

TAP_UNUSED static void scene_as_root(void)
{
	if (geteuid() != 0)
		tap_skip("needs root");
}

#define NET_TEST(test_name)                 \
	static void both_##test_name(void); \
	TEST(test_name##_as_root)           \
	{                                   \
		scene_as_root();            \
		both_##test_name();         \
	}                                   \
	TEST(test_name##_as_user)           \
	{                                   \
		scene_as_user();            \
		both_##test_name();         \
	}                                   \
	static void both_##test_name(void)

/* ---- the command's side ---- */

/* Makes the namespaces as src/jail does: root without a user namespace, others with one. */
TAP_UNUSED static void scene_enter(void)
{
	bool root = geteuid() == 0;

	if (unshare(root ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0)
		tap_skip("no network namespaces here: %s", strerror(errno));
}

struct scene {
	struct net_policy policy;
	struct net *net;
	struct atoll_refusal refused[REFUSED_MAX];
	size_t n_refused;
	bool more, died;
	struct atoll_error err;
	pid_t pid;
	int go; /* a pipe: the command begins when it is closed */
};

TAP_UNUSED static void scene_note(const struct atoll_refusal *refusal, void *arg)
{
	struct scene *s = arg;

	s->more |= refusal->kind == ATOLL_REFUSAL_MORE;
	s->died |= refusal->kind == ATOLL_REFUSAL_LOST;
	if (refusal->kind != ATOLL_REFUSAL_MORE && refusal->kind != ATOLL_REFUSAL_LOST)
		s->refused[s->n_refused++] = *refusal;
}

/* Starts the gateway and the child that will run `inside`; 0 or the error of the gateway. */
TAP_UNUSED static int scene_open(struct scene *s, int (*inside)(void))
{
	int go[2], r;
	char byte;

	CHECK_EQ(pipe2(go, O_CLOEXEC), 0);
	r = net_open(&s->policy, &s->net, &s->err);
	if (r < 0)
		return r;
	fflush(NULL);
	s->pid = fork();
	CHECK(s->pid >= 0);
	if (s->pid == 0) {
		close(go[1]);
		scene_enter();
		if (net_announce(net_announce_fd(s->net)) < 0)
			_exit(99);
		CHECK_EQ(close_range(3, (unsigned)go[0] - 1, 0), 0);
		CHECK_EQ(close_range((unsigned)go[0] + 1, ~0U, 0), 0);
		if (read(go[0], &byte, 1) != 1)
			_exit(98);
		_exit(inside());
	}
	close(go[0]);
	s->go = go[1];
	return net_ready(s->net, -EBADF, &s->err);
}

/* Lets the child go and returns its exit status. */
TAP_UNUSED static int scene_finish(struct scene *s)
{
	int status;

	signal(SIGPIPE, SIG_IGN); /* it may have gone already */
	(void)!write(s->go, "", 1);
	close(s->go);
	CHECK_EQ(waitpid(s->pid, &status, 0), s->pid);
	net_close(s->net, scene_note, s);
	/* Nothing of it is left. */
	CHECK_EQ(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIPPED)
		_exit(TAP_SKIPPED);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TAP_UNUSED static void scene_parse(struct scene *s, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (net_policy_parse(&s->policy, text, &s->err) < 0)
		tap_fail(__FILE__, __LINE__, "%s", s->err.message);
}

TAP_UNUSED static int scene_run(struct scene *s, int (*inside)(void))
{
	if (scene_open(s, inside) < 0)
		tap_fail(__FILE__, __LINE__, "%s", s->err.message);
	return scene_finish(s);
}

TAP_UNUSED static bool scene_refused(const struct scene *s, enum atoll_refusal_kind kind, const char *what)
{
	for (size_t i = 0; i < s->n_refused; i++)
		if (s->refused[i].kind == kind && strcmp(s->refused[i].what, what) == 0)
			return true;
	return false;
}

/* ---- servers and clients ---- */

TAP_UNUSED static struct sockaddr_in scene_at(const char *address, unsigned port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	CHECK_EQ(inet_pton(AF_INET, address, &at.sin_addr), 1);
	return at;
}

/* Connected, or -errno. */
TAP_UNUSED static int scene_connect(const char *address, unsigned port)
{
	struct sockaddr_in at = scene_at(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = { .tv_sec = 50 };

	CHECK(fd >= 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	int error = -errno;

	close(fd);
	return error;
}

/* A listening socket on a free port of 127.0.0.1. */
TAP_UNUSED static int scene_listen(unsigned *ret_port)
{
	struct sockaddr_in at = scene_at("127.0.0.1", *ret_port);
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	CHECK(fd >= 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(fd, 64), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

/* Sends all back in capitals' stead as it came, until the other side ends; each connection in a thread of its own. */
TAP_UNUSED static void *scene_echo_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[65536];
	ssize_t n;

	while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0)
		if (send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	close(fd);
	return NULL;
}

static sem_t scene_echo_ready;

TAP_UNUSED static void *scene_echo_all(void *arg)
{
	int fd, listener = (int)(intptr_t)arg;
	pthread_t t;

	sem_post(&scene_echo_ready);
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		if (pthread_create(&t, NULL, scene_echo_one, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	return NULL;
}

/* A server that echoes, in a thread of this process; its port. */
TAP_UNUSED static unsigned scene_echo_server(void)
{
	unsigned port = 0;
	int fd = scene_listen(&port);
	pthread_t t;

	CHECK_EQ(sem_init(&scene_echo_ready, 0, 0), 0);
	CHECK_EQ(pthread_create(&t, NULL, scene_echo_all, (void *)(intptr_t)fd), 0);
	pthread_detach(t);
	/* This process forks next: a thread that is just being made could hold a lock of the allocator's then, for ever in the child. */
	while (sem_wait(&scene_echo_ready) < 0 && errno == EINTR)
		;
	return port;
}

/* Sends size bytes, ends, and sees them all come back, then the end. */
TAP_UNUSED static bool scene_echoes(int fd, size_t size)
{
	size_t sent = 0, got = 0;
	char out[4096], in[65536];

	while (got < size || sent < size) {
		struct pollfd p = { .fd = fd, .events = (short)(POLLIN | (sent < size ? POLLOUT : 0)) };
		ssize_t n;

		if (poll(&p, 1, 50000) <= 0)
			return false;
		if (p.revents & POLLOUT && sent < size) {
			for (size_t i = 0; i < sizeof(out); i++)
				out[i] = (char)((sent + i) * 7 >> 3);
			n = send(fd, out, MIN(sizeof(out), size - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
			sent += n > 0 ? (size_t)n : 0;
			if (sent == size)
				(void)shutdown(fd, SHUT_WR);
		}
		if (p.revents & (POLLIN | POLLHUP)) {
			n = recv(fd, in, sizeof(in), MSG_DONTWAIT);
			if (n == 0 || (n < 0 && errno != EAGAIN))
				return false;
			for (ssize_t i = 0; i < n; i++)
				if (in[i] != (char)((got + (size_t)i) * 7 >> 3))
					return false;
			got += n > 0 ? (size_t)n : 0;
		}
	}
	return recv(fd, in, 1, 0) == 0;
}

#endif
