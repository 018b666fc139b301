/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a run as fds, and the layers of its view. pid 1 opens its own and sends them to
 * the caller, which keeps them for the runs that join. No other process could open them: pid 1 is
 * not dumpable.
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

#define FDS_MAX (JAIL_NAMESPACES_MAX + 2)

union control {
	char data[CMSG_SPACE(sizeof(int) * FDS_MAX)];
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

static int send_fds(int socket, const struct init_report *report, const int *fds, size_t n)
{
	struct iovec data = { .iov_base = (void *)report, .iov_len = sizeof(*report) };
	union control control = { 0 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	ssize_t r;

	if (n > 0) {
		message.msg_control = control.data;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * n);
	}
	do {
		r = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int namespaces_send(int socket, unsigned flags, int layers, const struct init_report *report)
{
	struct init_report with_fds = *report;
	/* The file describes the IPC namespace of the process that opened it, whichever process
	 * reads it. */
	AUTO_FD segments = open("/proc/sysvipc/shm", O_RDONLY | O_CLOEXEC);
	struct jail_namespaces own = { .layers = -EBADF, .segments = -EBADF };
	int fds[FDS_MAX], r = open_own(flags, &own);
	size_t n = own.n;

	memcpy(fds, own.fds, sizeof(int) * n);
	with_fds.has_layers = layers >= 0;
	if (layers >= 0)
		fds[n++] = layers;
	with_fds.has_segments = segments >= 0;
	if (segments >= 0)
		fds[n++] = segments;
	if (r == 0)
		r = send_fds(socket, &with_fds, fds, n);
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
	ret->layers = ret->segments = -EBADF;
	do {
		r = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		int fds[FDS_MAX];
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		memcpy(fds, CMSG_DATA(c), sizeof(int) * n);
		if (r == (ssize_t)sizeof(*report) && report->has_segments && n > 0)
			ret->segments = fds[--n];
		if (r == (ssize_t)sizeof(*report) && report->has_layers && n > 0)
			ret->layers = fds[--n];
		memcpy(ret->fds, fds, sizeof(int) * n);
		ret->n = n;
	}
	return r;
}

void namespaces_close(struct jail_namespaces *n)
{
	for (size_t i = 0; i < n->n; i++)
		fd_close(n->fds[i]);
	n->n = 0;
	if (n->layers > 0)
		n->layers = fd_close(n->layers);
	if (n->segments > 0)
		n->segments = fd_close(n->segments);
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
