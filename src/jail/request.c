/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be run, as it goes from whoever asks (ask.c) to a server (serve.c) and from there to a spare process (spare.c). */
#include <string.h>
#include <sys/socket.h>

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

bool request_split(char *data, size_t size, struct jail_request *ret, char *strings[REQUEST_STRINGS])
{
	size_t at = sizeof(*ret), n = 0, total;

	if (size <= sizeof(*ret) || data[size - 1] != '\0')
		return false;
	memcpy(ret, data, sizeof(*ret));
	if (ret->n_args < 1 || ret->n_args > JAIL_REQUEST_STRINGS_MAX || ret->n_env > JAIL_REQUEST_STRINGS_MAX)
		return false;
	total = 1 + (size_t)ret->n_args + ret->n_env;
	if (total > JAIL_REQUEST_STRINGS_MAX)
		return false;
	for (size_t i = 0; i < total && at < size; i++) {
		strings[n++] = data + at;
		at += strlen(data + at) + 1;
		if (i == ret->n_args)
			strings[n++] = NULL;
	}
	strings[n] = NULL;
	return n == total + 1 && at == size;
}

bool jail_request_read(char *data, size_t size, struct jail_request *ret, struct jail_strings *ret_strings)
{
	char **all = calloc(REQUEST_STRINGS, sizeof(*all));

	if (!all || !request_split(data, size, ret, all)) {
		free(all);
		return false;
	}
	*ret_strings = (struct jail_strings){ all, all[0], all + 1, all + 2 + ret->n_args };
	return true;
}

int request_send(int socket, const char *data, size_t size, const int stdio[3])
{
	char room[CMSG_SPACE(3 * sizeof(int))] = { 0 };
	struct iovec buffer = { (void *)data, size };
	struct msghdr message = {
		.msg_iov = &buffer, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t n;

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(3 * sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), stdio, 3 * sizeof(int));
	do {
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* What is there for alignment would have room for a fourth fd. */
ssize_t request_receive(int socket, int flags, char *data, size_t size, int ret_stdio[3])
{
	char room[CMSG_SPACE(3 * sizeof(int))];
	struct iovec buffer = { data, size };
	struct msghdr message = {
		.msg_iov = &buffer, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_LEN(3 * sizeof(int))
	};
	const struct cmsghdr *c;
	ssize_t n;

	for (int i = 0; i < 3; i++)
		ret_stdio[i] = -EBADF;
	do {
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	c = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(ret_stdio, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -1 : n;
}
