/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of a view in which commands come one after another, with a first process that does not do what it should. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tap.h"

#include "jail/private.h"

struct told {
	int looks, ended, code;
};

static bool greet(int client, void *arg)
{
	(void)client;
	(void)arg;
	return true;
}

static ssize_t begin(int client, char *data, size_t *size, const int stdio[3], void *arg)
{
	(void)data;
	(void)size;
	(void)stdio;
	(void)arg;
	return send(client, "b", 1, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static void end(int client, int code, const struct atoll_run_result *result, const struct atoll_error *err, void *arg)
{
	struct told *told = arg;

	(void)result;
	(void)err;
	told->ended++;
	told->code = code;
	(void)send(client, "e", 1, MSG_NOSIGNAL);
}

/* Until the one who asked has got an answer, or long enough. */
static int look(pid_t pid, int segments, void *arg)
{
	struct told *told = arg;

	(void)pid;
	return told->ended || ++told->looks > 500 ? 0 : 10;
}

/* Without a name: the kernel gives one. */
static int listen_at(struct sockaddr_un *ret, socklen_t *ret_size)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	CHECK(bind(fd, (const struct sockaddr *)ret, sizeof ret->sun_family) == 0 && listen(fd, 1) == 0);
	*ret_size = sizeof *ret;
	CHECK_EQ(getsockname(fd, (struct sockaddr *)ret, ret_size), 0);
	return fd;
}

static pid_t fork_one_who_asks(const struct sockaddr_un *address, socklen_t size)
{
	const char data[sizeof(struct jail_request) + 1] = { 0 };
	char reply = '\0';
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	_exit(connect(fd, (const struct sockaddr *)address, size) == 0 &&
			      jail_ask(fd, data, sizeof data, &reply, 1) == 1 && reply == 'e'
		      ? 0
		      : 1);
}

static struct spawn fork_first(void)
{
	struct spawn child = { .pid = fork() };

	if (child.pid == 0) {
		pause();
		_exit(0);
	}
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	CHECK(child.pid > 0 && child.pidfd >= 0);
	return child;
}

TEST(whoever_asked_is_told_if_his_request_cannot_be_handed_on)
{
	struct told told = { 0 };
	struct jail_server server = { .greet = greet, .begin = begin, .end = end, .arg = &told };
	struct spawn child = fork_first();
	struct sockaddr_un address;
	int first[2], requests[2], status;
	struct atoll_error err;
	socklen_t size;
	pid_t client;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, first), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests), 0);
	close(requests[1]);
	server.listen_fd = listen_at(&address, &size);
	client = fork_one_who_asks(&address, size);
	CHECK_EQ(serve_commands(&(struct serve){ .server = &server,
						 .child = &child,
						 .socket = first[0],
						 .signal_fd = -EBADF,
						 .requests = requests[0],
						 .watch = look,
						 .watch_arg = &told },
				&err),
		 0);
	CHECK_EQ(told.ended, 1);
	CHECK(told.code < 0);
	CHECK(waitpid(client, &status, 0) == client && status == 0);
	close(server.listen_fd);
	close(requests[0]);
	close(first[0]);
	close(first[1]);
}
