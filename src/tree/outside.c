/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and groups that a user namespace does not map. A process inside sees such an owner as
 * *nobody*, and an ACL entry for such a user or group without its id; it can give neither to
 * another file. Outside, users may give their own files any of their groups, any ACL and any
 * project id. So a process outside does it, on two fds that the process inside sends. The value of
 * an ACL travels in a memfd.
 *
 * 	inside: tree_outside_copy()  -- what, the two fds -->  outside: tree_outside_serve()
 * 	                             <-- how it went --------
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

static struct {
	pthread_mutex_t lock;
	int socket;
} helper = { .lock = PTHREAD_MUTEX_INITIALIZER, .socket = -EBADF };

void tree_outside_use(int socket)
{
	helper.socket = socket;
}

bool tree_outside_is_there(void)
{
	return helper.socket >= 0;
}

/* ---- inside ---- */

static int send_request(int socket, uint32_t what, const int fds[2])
{
	char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec data = { &what, sizeof(what) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t n;

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(2 * sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	do {
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int receive_answer(int socket)
{
	int answer;
	ssize_t n;

	do {
		n = recv(socket, &answer, sizeof(answer), 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(answer) ? answer : -EPIPE;
}

int tree_outside_copy(int from_fd, int to_fd, enum tree_outside what)
{
	int r;

	if (!tree_outside_is_there())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&helper.lock);
	r = send_request(helper.socket, (uint32_t)what, (const int[]){ from_fd, to_fd });
	if (r == 0)
		r = receive_answer(helper.socket);
	pthread_mutex_unlock(&helper.lock);
	/* The process outside was killed in the middle of an operation. Without it, this process cannot
	 * read some ACLs, would judge these files as changed by another process, and could not roll the
	 * operation back. So it ends as in a crash: recovery has a process outside again. */
	if (r == -EPIPE)
		_exit(EXIT_FAILURE);
	return r;
}

ssize_t tree_outside_get_acl(int fd, bool is_default, char **ret)
{
	AUTO_FD memory = tree_outside_is_there() ? memfd_create("atoll-acl", MFD_CLOEXEC) : -EOPNOTSUPP;
	AUTO_FREE char *value = NULL;
	int size;

	if (memory < 0)
		return tree_outside_is_there() ? -errno : -EOPNOTSUPP;
	size = tree_outside_copy(fd, memory, is_default ? TREE_OUTSIDE_GET_DEFAULT : TREE_OUTSIDE_GET_ACCESS);
	if (size < 0)
		return size;
	value = malloc((size_t)size + 1);
	if (!value)
		return -ENOMEM;
	if (pread(memory, value, (size_t)size, 0) != size)
		return -EIO;
	*ret = TAKE_PTR(value);
	return size;
}

int tree_outside_set_acl(int fd, bool is_default, const char *value, size_t size)
{
	AUTO_FD memory = tree_outside_is_there() ? memfd_create("atoll-acl", MFD_CLOEXEC) : -EOPNOTSUPP;
	int r;

	if (memory < 0)
		return tree_outside_is_there() ? -errno : -EOPNOTSUPP;
	r = sys_write(memory, value, size);
	return r < 0 ? r
		     : tree_outside_copy(memory, fd, is_default ? TREE_OUTSIDE_SET_DEFAULT : TREE_OUTSIDE_SET_ACCESS);
}

static bool is_member(gid_t gid)
{
	int n = getgroups(0, NULL);
	AUTO_FREE gid_t *groups = n > 0 ? reallocarray(NULL, (size_t)n, sizeof *groups) : NULL;

	if (gid == getegid())
		return true;
	n = groups ? getgroups(n, groups) : 0;
	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

int tree_keeps_set_gid(int fd, const struct tree_stat *st)
{
	int r;

	if (!tree_outside_is_there())
		return geteuid() == 0 || is_member(st->gid);
	if (st->gid != NOBODYS_GROUP)
		return 1; /* mapped: this process has power over it */
	r = tree_outside_copy(fd, fd, TREE_OUTSIDE_MEMBER);
	return r == -EPERM ? 0 : r < 0 ? r : 1;
}

/* ---- outside ---- */

static int look_at_group(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return is_member(st.st_gid) ? 0 : -EPERM;
}

static int copy_group(int from, int to)
{
	struct stat st, now;

	if (fstat(from, &st) < 0 || fstat(to, &now) < 0)
		return -errno;
	return st.st_gid == now.st_gid ? 0 : sys_chown(to, "", (uid_t)-1, st.st_gid);
}

/* Writes the value to the memfd. Returns its size or -errno. */
static int get_acl(int from, int memory, const char *name)
{
	AUTO_FREE char *value = NULL;
	ssize_t size = tree_xattr_get(from, name, &value);
	int r = size < 0 ? (int)size : sys_write(memory, value, (size_t)size);

	return r < 0 ? r : (int)size;
}

static int set_acl(int memory, int to, const char *name)
{
	AUTO_FREE char *value = NULL;
	struct stat st;

	if (fstat(memory, &st) < 0)
		return -errno;
	value = malloc((size_t)st.st_size + 1);
	if (!value)
		return -ENOMEM;
	if (pread(memory, value, (size_t)st.st_size, 0) != st.st_size)
		return -EIO;
	return sys_setxattr(to, name, value, (size_t)st.st_size);
}

static int answer_to(uint32_t what, const int fds[2])
{
	switch (what) {
	case TREE_OUTSIDE_GROUP:
		return copy_group(fds[0], fds[1]);
	case TREE_OUTSIDE_PROJECT:
		return tree_project_copy(fds[0], fds[1]);
	case TREE_OUTSIDE_MEMBER:
		return look_at_group(fds[0]);
	case TREE_OUTSIDE_GUARDED:
		return tree_look_whether_guarded(fds[0]);
	case TREE_OUTSIDE_GET_ACCESS:
		return get_acl(fds[0], fds[1], TREE_ACL_ACCESS);
	case TREE_OUTSIDE_GET_DEFAULT:
		return get_acl(fds[0], fds[1], TREE_ACL_DEFAULT);
	case TREE_OUTSIDE_SET_ACCESS:
		return set_acl(fds[0], fds[1], TREE_ACL_ACCESS);
	case TREE_OUTSIDE_SET_DEFAULT:
		return set_acl(fds[0], fds[1], TREE_ACL_DEFAULT);
	default:
		return -EINVAL;
	}
}

static int receive_request(int socket, uint32_t *ret, int fds[2])
{
	char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec data = { ret, sizeof(*ret) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		return -EPIPE;
	if (n < 0)
		return -EAGAIN;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
	/* Without room for files the kernel leaves some out. */
	return n == (ssize_t)sizeof(*ret) && fds[1] >= 0 ? 0 : -EMFILE;
}

bool tree_outside_serve(int socket)
{
	int fds[2] = { -EBADF, -EBADF };
	uint32_t what = 0;
	int r = receive_request(socket, &what, fds);
	int answer;

	if (r == -EPIPE || r == -EAGAIN)
		return r != -EPIPE;
	/* Each request is answered: the child waits for it. */
	answer = r < 0 ? r : answer_to(what, fds);
	fd_close(fds[0]);
	fd_close(fds[1]);
	while (send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
	return true;
}
