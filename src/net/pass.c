/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that carry an fd. System calls only: net_announce() is child side. */
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "net/private.h"

int pass_send(int socket, const void *data, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = {
			      .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec io = { (void *)data, size };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	return sendmsg(socket, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int pass_receive(int socket, void *data, size_t size, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { data, size };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	ssize_t n;

	*ret_fd = -EBADF;
	do {
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (CMSG_FIRSTHDR(&m) && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(int));
	return n == (ssize_t)size ? 0 : -ECONNRESET;
}

/* By a socket: there may be no /proc that knows this process. */
int net_announce(int announce_fd)
{
	AUTO_FD any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	AUTO_FD netns = any < 0 ? -1 : ioctl(any, SIOCGSKNS);

	return netns < 0 ? -errno : pass_send(announce_fd, "", 1, netns);
}
