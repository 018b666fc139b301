/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets as standard input, output and error. A socket belongs to the network namespace in which
 * it was made: a command that gets one of the host's sockets could disconnect it and connect it to
 * any address that the host reaches, or send from it to the host's abstract sockets. The command
 * gets one end of a pair instead, made in its own network namespace, and a thread of the caller
 * passes the bytes on:
 *
 *	outer (the host's) <----> this thread <----> inner ===== the command's end
 *
 * Input that the command does not read must stay in the outer socket, as if the command had it
 * itself: when a shell reads a script from a socket, the next reader continues behind it. The
 * thread therefore peeks at the input, passes on a copy, and removes from the outer socket only the
 * bytes that the command has read. It holds a second fd of the command's end to learn how many
 * these are. While the thread holds it, only a shutdown() by the command ends the command's output;
 * its last close does not, and the host's socket would not notice a close either.
 *
 * The kernel drops descriptors that the command sends along, since the thread makes no room for
 * them, and the thread sends none.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "jail/private.h"

#define WINDOW 131072 /* limit of input passed on but not read yet */
#define PIECE 65536   /* output per read */

struct stdio_channel {
	pthread_t thread;
	int outer, inner;
	int held;         /* second fd of the command's end, until the run is over */
	int stop, ended;  /* eventfds: stop to the thread, ended from it */
	atomic_int phase; /* an enum phase */
	bool in_closed, out_closed, in_ended;
	size_t shown;    /* bytes of input passed on and still in the outer socket */
	size_t ahead;    /* older bytes, removed from it before the command read them */
	size_t from, to; /* the unsent part of `out` */
	char in[WINDOW], out[PIECE];
};

enum phase { PHASE_RUN, PHASE_DRAIN, PHASE_ABORT };

/* ---- which fds a caller may pass in ---- */

static bool is_plain_stream(int fd)
{
	int type = 0, listens = 0;
	socklen_t size = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens;
}

enum stdio_kind stdio_kind(int fd, bool host_net)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return STDIO_AS_IT_IS;
	if (S_ISDIR(st.st_mode))
		return STDIO_DIRECTORY;
	if (!S_ISSOCK(st.st_mode) || host_net)
		return STDIO_AS_IT_IS;
	return is_plain_stream(fd) ? STDIO_STREAM : STDIO_OTHER_SOCKET;
}

int stdio_check(const struct jail_spec *spec, struct atoll_error *err)
{
	static const char *const names[] = { "standard input", "standard output", "standard error" };
	bool host_net = spec->net && spec->net->mode == NET_HOST;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && !spec->server; fd++) {
		switch (stdio_kind(spec->stdio && spec->stdio[fd] >= 0 ? spec->stdio[fd] : fd, host_net)) {
		case STDIO_DIRECTORY:
			return error_set(
				err, ATOLL_INVALID, EISDIR, "run", NULL,
				"standard input, output or error is a directory: a command could leave the sandbox by it");
		case STDIO_OTHER_SOCKET:
			return error_set(
				err, ATOLL_INVALID, EPROTOTYPE, "run", NULL,
				"%s is a socket that listens or sends datagrams: a command could reach the host's network by it; hand over a connected stream, a pipe or a file",
				names[fd]);
		case STDIO_STREAM:
		case STDIO_AS_IT_IS:
			break;
		}
	}
	return 0;
}

/* ---- child side ---- */

static int send_pair(const struct init *in, int which, const int pair[2])
{
	struct init_report report = { .event = INIT_STDIO, .value = which };
	char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec data = { &report, sizeof(report) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t n;

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(2 * sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), pair, 2 * sizeof(int));
	do {
		n = sendmsg(in->socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Makes a new pair and returns the command's end. Sends both ends to the caller. */
static int make_end(const struct init *in, int which)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	r = send_pair(in, which, pair);
	close(pair[0]);
	if (r < 0)
		close(pair[1]);
	return r < 0 ? r : pair[1];
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A stream that is both standard input and output is one stream inside too. */
int stdio_take(const struct init *in, const int from[3])
{
	struct stat st[3];
	bool is_stream[3];

	for (int i = 0; i < 3; i++)
		is_stream[i] = stdio_kind(from[i], in->wall.host_net) == STDIO_STREAM && fstat(from[i], &st[i]) == 0;
	for (int i = 0; i < 3; i++) {
		int end = -EBADF;

		for (int j = 0; j < i && is_stream[i] && end < 0; j++)
			end = is_stream[j] && is_same(&st[i], &st[j]) ? j : -EBADF;
		if (end >= 0) {
			if (dup2(end, i) < 0)
				return -errno;
			continue;
		}
		if (is_stream[i])
			end = make_end(in, i);
		if (is_stream[i] && end < 0)
			return end;
		if (dup2(is_stream[i] ? end : from[i], i) < 0 && is_stream[i])
			return -errno;
		if (end > STDERR_FILENO)
			close(end);
	}
	return 0;
}

/* ---- the thread: input ---- */

static size_t waiting_in(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

static void take_out(struct stdio_channel *c, size_t size)
{
	while (size > 0) {
		ssize_t n = recv(c->outer, c->in, MIN(size, sizeof(c->in)), MSG_DONTWAIT);

		if (n <= 0)
			return;
		size -= (size_t)n;
	}
}

/* Removes the bytes that the command has read from the outer socket. */
static void settle(struct stdio_channel *c)
{
	size_t unread = waiting_in(c->held), sent = c->ahead + c->shown;
	size_t taken = sent > unread ? sent - unread : 0, old = MIN(taken, c->ahead);

	c->ahead -= old;
	take_out(c, taken - old);
	c->shown -= taken - old;
}

static void end_input(struct stdio_channel *c)
{
	if (!c->in_closed)
		(void)shutdown(c->inner, SHUT_WR);
	c->in_closed = true;
}

/* Returns whether it passed anything on. */
static bool pass_input(struct stdio_channel *c)
{
	ssize_t n, sent;

	settle(c);
	if (c->in_closed)
		return false;
	n = recv(c->outer, c->in, sizeof(c->in), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		end_input(c);
		return false;
	}
	if ((size_t)n <= c->shown) {
		if (c->shown == sizeof(c->in))
			return false;
		/* A peek ends at a message that carries descriptors. */
		if (waiting_in(c->outer) > c->shown) {
			take_out(c, c->shown);
			c->ahead += c->shown;
			c->shown = 0;
			return true;
		}
		if (c->in_ended)
			end_input(c);
		return false;
	}
	sent = send(c->inner, c->in + c->shown, (size_t)n - c->shown, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		/* The command has shut down its input. */
		(void)shutdown(c->outer, SHUT_RD);
		c->in_closed = true;
	}
	c->shown += sent > 0 ? (size_t)sent : 0;
	return sent > 0;
}

/* ---- the thread: output ---- */

static void end_output(struct stdio_channel *c)
{
	c->out_closed = true;
	c->from = c->to = 0;
}

static bool fetch_output(struct stdio_channel *c)
{
	ssize_t n = recv(c->inner, c->out, sizeof(c->out), MSG_DONTWAIT);

	if (n < 0 && errno == EINTR)
		return true;
	/* Once the processes of the run have ended, all their output is in the socket. */
	if (n < 0 && errno == EAGAIN && c->phase == PHASE_RUN)
		return false;
	if (n <= 0) {
		if (c->phase == PHASE_RUN)
			(void)shutdown(c->outer, SHUT_WR);
		end_output(c);
		return false;
	}
	c->from = 0;
	c->to = (size_t)n;
	return true;
}

/* Returns whether it passed anything on. */
static bool pass_output(struct stdio_channel *c)
{
	ssize_t n;

	if (c->out_closed)
		return false;
	if (c->from == c->to && !fetch_output(c))
		return false;
	n = send(c->outer, c->out + c->from, c->to - c->from, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* The command gets SIGPIPE at its next write. */
		(void)shutdown(c->inner, SHUT_RD);
		end_output(c);
		return false;
	}
	c->from += n > 0 ? (size_t)n : 0;
	return n > 0;
}

/* ---- the thread: both ---- */

static void drain(struct stdio_channel *c)
{
	uint64_t count;

	(void)read(c->stop, &count, sizeof(count));
	if (c->held < 0)
		return;
	settle(c);
	c->in_closed = true;
	c->held = fd_close(c->held);
}

static int watch(int epoll, int fd, unsigned events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void wait_for_more(struct stdio_channel *c, int epoll)
{
	struct epoll_event events[3];
	int n = epoll_wait(epoll, events, ARRAY_SIZE(events), -1);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == c->outer && events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			c->in_ended = true;
		if (events[i].data.fd == c->stop)
			drain(c);
	}
}

static void *relay(void *arg)
{
	struct stdio_channel *c = arg;
	AUTO_FD epoll = epoll_create1(EPOLL_CLOEXEC);
	const unsigned edges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	uint64_t one = 1;

	if (epoll >= 0 && watch(epoll, c->outer, edges) == 0 && watch(epoll, c->inner, edges) == 0 &&
	    watch(epoll, c->stop, EPOLLIN) == 0) {
		while (c->phase != PHASE_ABORT && (c->phase == PHASE_RUN || !c->out_closed)) {
			bool in = c->held >= 0 && pass_input(c), out = pass_output(c);

			if (!in && !out && (c->phase == PHASE_RUN || !c->out_closed))
				wait_for_more(c, epoll);
		}
	}
	(void)shutdown(c->inner, SHUT_RDWR);
	(void)write(c->ended, &one, sizeof(one));
	return NULL;
}

static struct stdio_channel *channel_free(struct stdio_channel *c)
{
	if (c) {
		fd_close(c->outer);
		fd_close(c->inner);
		fd_close(c->held);
		fd_close(c->stop);
		fd_close(c->ended);
	}
	free(c);
	return NULL;
}

/* The program's own threads handle signals, so this thread blocks all. */
static int start(struct stdio_channel *c)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -pthread_create(&c->thread, NULL, relay, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int stdio_begin(struct stdio *s, int outer, int fds[2])
{
	struct stdio_channel *c = s->n < ARRAY_SIZE(s->channels) ? malloc(sizeof(*c)) : NULL;
	int r;

	if (!c)
		return -ENOMEM;
	memset(c, 0, offsetof(struct stdio_channel, in));
	c->outer = fcntl(outer, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	c->inner = TAKE_FD(fds[0]);
	c->held = TAKE_FD(fds[1]);
	c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->ended = eventfd(0, EFD_CLOEXEC);
	r = c->outer < 0 || c->stop < 0 || c->ended < 0 ? -EMFILE : start(c);
	if (r < 0) {
		channel_free(c);
		return r;
	}
	s->channels[s->n++] = c;
	return 0;
}

static void tell(struct stdio_channel *c, enum phase phase)
{
	uint64_t one = 1;

	c->phase = (int)phase;
	(void)write(c->stop, &one, sizeof(one));
}

void stdio_end(struct stdio *s, int interrupt, int64_t end_at)
{
	for (size_t i = 0; i < s->n; i++)
		tell(s->channels[i], PHASE_DRAIN);
	for (size_t i = 0; i < s->n; i++) {
		struct stdio_channel *c = s->channels[i];
		struct pollfd fds[] = { { .fd = c->ended, .events = POLLIN }, { .fd = interrupt, .events = POLLIN } };
		int n;

		do {
			n = poll(fds, ARRAY_SIZE(fds), end_at ? spawn_ms_until(end_at) : -1);
		} while (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOMEM));
		if (!fds[0].revents)
			tell(c, PHASE_ABORT);
		pthread_join(c->thread, NULL);
		s->channels[i] = channel_free(c);
	}
	s->n = 0;
}
