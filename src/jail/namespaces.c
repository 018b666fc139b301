/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a run as fds: pid 1 opens its own and sends them to the caller, who keeps them for those that join. Nobody else
 * could open them: pid 1 is not dumpable.
 */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "jail/private.h"

/* The user namespace comes first: entering the others takes capabilities that it gives. */
static const struct {
	unsigned flag;
	const char *path;
} kinds[] = {
	{ CLONE_NEWUSER, "/proc/self/ns/user" }, { CLONE_NEWNS, "/proc/self/ns/mnt" },
	{ CLONE_NEWIPC, "/proc/self/ns/ipc" },   { CLONE_NEWUTS, "/proc/self/ns/uts" },
	{ CLONE_NEWNET, "/proc/self/ns/net" },   { CLONE_NEWCGROUP, "/proc/self/ns/cgroup" },
};
_Static_assert(ARRAY_SIZE(kinds) == JAIL_NAMESPACES_MAX, "one fd for each kind");

union control {
	char data[CMSG_SPACE(sizeof(int) * JAIL_NAMESPACES_MAX)];
	struct cmsghdr align;
};

static int open_own(unsigned flags, struct jail_namespaces *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int fd;

		if (!(flags & kinds[i].flag))
			continue;
		fd = open(kinds[i].path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		ret->fds[ret->n++] = fd;
	}
	return 0;
}

static int send_fds(int socket, const struct init_report *report, const struct jail_namespaces *n)
{
	struct iovec data = { .iov_base = (void *)report, .iov_len = sizeof(*report) };
	union control control = { 0 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	ssize_t r;

	if (n->n > 0) {
		message.msg_control = control.data;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n->n);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * n->n);
		memcpy(CMSG_DATA(&control.align), n->fds, sizeof(int) * n->n);
	}
	do {
		r = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int namespaces_send(int socket, unsigned flags, const struct init_report *report)
{
	struct jail_namespaces own;
	int r = open_own(flags, &own);

	if (r == 0)
		r = send_fds(socket, report, &own);
	namespaces_close(&own);
	return r;
}

ssize_t namespaces_receive(int socket, struct init_report *report, struct jail_namespaces *ret)
{
	struct iovec data = { .iov_base = report, .iov_len = sizeof(*report) };
	union control control = { 0 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.data, .msg_controllen = sizeof(control.data)
	};
	const struct cmsghdr *c;
	ssize_t r;

	ret->n = 0;
	do {
		r = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret->fds, CMSG_DATA(c), sizeof(int) * ret->n);
	}
	return r;
}

void namespaces_close(struct jail_namespaces *n)
{
	for (size_t i = 0; i < n->n; i++)
		fd_close(n->fds[i]);
	n->n = 0;
}

int namespaces_enter(const struct jail_namespaces *n)
{
	for (size_t i = 0; i < n->n; i++)
		if (setns(n->fds[i], 0) < 0)
			return -errno;
	return 0;
}

bool namespaces_choose(const struct jail_namespaces *from, bool with_net, struct jail_namespaces *ret)
{
	bool found = false;

	ret->n = 0;
	for (size_t i = 0; i < from->n; i++) {
		bool is_net = ioctl(from->fds[i], NS_GET_NSTYPE) == CLONE_NEWNET;

		found = found || is_net;
		if (with_net || !is_net)
			ret->fds[ret->n++] = from->fds[i];
	}
	return found;
}
