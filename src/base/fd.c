/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/strbuf.h"
#include "base/sys.h"

/* A rename elsewhere makes the kernel give up on ".." with EAGAIN: worth another try, not an endless one. */
#define RESOLVE_TRIES 64

static int open_piece(int dirfd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	for (int tries = 0;;) {
		long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

		if (fd >= 0)
			return (int)fd;
		if (errno == EINTR || (errno == EAGAIN && ++tries < RESOLVE_TRIES))
			continue;
		return -errno;
	}
}

/* Opens the directories of a long path until what is left fits into one call; *path is moved on. */
static int open_long_prefix(int dirfd, const char **path, int *ret)
{
	AUTO_FD at = -EBADF;
	char piece[PATH_MAX];

	while (strnlen(*path, PATH_MAX) == PATH_MAX) {
		const char *slash = memrchr(*path, '/', PATH_MAX);
		size_t size = slash ? (size_t)(slash - *path) : 0;
		int fd;

		if (!slash)
			return -ENAMETOOLONG;
		if (size == 0) /* absolute */
			return -EXDEV;
		memcpy(piece, *path, size);
		piece[size] = '\0';
		fd = open_piece(at >= 0 ? at : dirfd, piece, O_PATH | O_DIRECTORY);
		if (fd < 0)
			return fd;
		fd_close(at);
		at = fd;
		*path = slash + strspn(slash, "/");
	}
	*ret = TAKE_FD(at);
	return 0;
}

int fd_open_beneath(int dirfd, const char *path, int flags)
{
	AUTO_FD at = -EBADF;
	int r;

	if (dirfd < 0 && dirfd != AT_FDCWD)
		return dirfd;
	r = open_long_prefix(dirfd, &path, &at);
	if (r < 0)
		return r;
	if (path[0] == '\0')
		return open_piece(at >= 0 ? at : dirfd, ".", at >= 0 ? flags | O_DIRECTORY : flags);
	return open_piece(at >= 0 ? at : dirfd, path, flags);
}

int fd_open_absolute(const char *path, int flags)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (path[0] != '/')
		return -EINVAL;
	return root < 0 ? -errno : fd_open_beneath(root, path + strspn(path, "/"), flags);
}

int fd_open_parent(int dirfd, const char *path, int *ret_parent, const char **ret_name)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	AUTO_FREE char *parent = NULL;
	int fd;

	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EINVAL;
	if (slash == path)
		return -EXDEV;
	parent = strndup(path, slash ? (size_t)(slash - path) : 0);
	if (!parent)
		return -ENOMEM;
	fd = fd_open_beneath(dirfd, parent, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	*ret_parent = fd;
	*ret_name = name;
	return 0;
}

/* Opens one component as a directory, made first if it is missing. Somebody else may make it at the same time. */
static int make_component(int dirfd, const char *name, int flags)
{
	int fd = open_piece(dirfd, name, flags | O_DIRECTORY);
	int r;

	if (fd != -ENOENT)
		return fd;
	r = sys_mkdir(dirfd, name, 0700);
	if (r < 0 && r != -EEXIST)
		return r;
	return open_piece(dirfd, name, flags | O_DIRECTORY);
}

int fd_make_path(int dirfd, const char *path)
{
	AUTO_FD at = -EBADF;
	char name[NAME_MAX + 1];

	if (path[0] == '/')
		return -EXDEV;
	while (path[0]) {
		size_t size = strcspn(path, "/");
		int fd;

		if (size > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, size);
		name[size] = '\0';
		path += size;
		path += strspn(path, "/");
		if (strcmp(name, "..") == 0)
			return -EXDEV;
		/* On the way only the right to pass through is needed. */
		fd = make_component(at >= 0 ? at : dirfd, name, path[0] ? O_PATH : O_RDONLY);
		if (fd < 0)
			return fd;
		fd_close(at);
		at = fd;
	}
	return at >= 0 ? TAKE_FD(at) : open_piece(dirfd, ".", O_RDONLY | O_DIRECTORY);
}

int fd_reopen(int fd, int flags)
{
	char path[sizeof("/proc/self/fd/") + 12];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	do
		r = open(path, flags | O_CLOEXEC);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static int open_for_reading(int dirfd, const char *path)
{
	/* O_NONBLOCK: a FIFO in the file's place must not stop us. */
	int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd;

	if (path[0] != '/')
		return fd_open_beneath(dirfd, path, flags);
	do
		fd = open(path, flags);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

int fd_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_size)
{
	AUTO_FD fd = open_for_reading(dirfd, path);
	AUTO_STRBUF s = STRBUF_INIT;
	char buffer[32768], *data;
	struct stat st;
	size_t size;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	for (;;) {
		ssize_t n = read(fd, buffer, sizeof(buffer));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		if ((size_t)n > max - s.size)
			return -EFBIG;
		strbuf_add(&s, buffer, (size_t)n);
		if (s.failed)
			return -ENOMEM;
	}
	size = s.size;
	data = strbuf_take(&s);
	if (!data)
		return -ENOMEM;
	*ret = data;
	if (ret_size)
		*ret_size = size;
	return 0;
}

int fd_readlink(int dirfd, const char *name, char **ret)
{
	for (size_t capacity = 256;; capacity *= 2) {
		AUTO_FREE char *target = malloc(capacity);
		ssize_t size;

		if (!target)
			return -ENOMEM;
		size = readlinkat(dirfd, name, target, capacity);
		if (size < 0)
			return -errno;
		if ((size_t)size < capacity) {
			target[size] = '\0';
			*ret = TAKE_PTR(target);
			return 0;
		}
	}
}

int fd_path(int fd, char **ret)
{
	char link[sizeof("/proc/self/fd/") + 12];
	AUTO_FREE char *path = NULL;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	r = fd_readlink(AT_FDCWD, link, &path);
	if (r < 0)
		return r;
	/* Removed, or not below our root: the text is then no path. */
	if (st.st_nlink == 0 || !path || path[0] != '/')
		return -ENOENT;
	*ret = TAKE_PTR(path);
	return 0;
}

void fd_reserve(size_t n)
{
	struct rlimit limit;
	int fd;

	if (n == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == 0)
		return;
	fd = open("/", O_PATH | O_CLOEXEC);
	if (fd >= 0)
		fd_close(
			fcntl(fd, F_DUPFD_CLOEXEC, (int)MIN(MIN((rlim_t)fd + n, limit.rlim_cur - 1), (rlim_t)INT_MAX)));
	fd_close(fd);
}

int fd_spare_take(struct fd_spare *s)
{
	s->n = 0;
	while (s->n < FD_SPARE) {
		int fd = s->n == 0 ? open("/", O_PATH | O_CLOEXEC) : fcntl(s->fds[0], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			int r = -errno;

			fd_spare_release(s);
			return r;
		}
		s->fds[s->n++] = fd;
	}
	return 0;
}

void fd_spare_release(struct fd_spare *s)
{
	while (s->n > 0)
		close(s->fds[--s->n]);
}

uint64_t fd_raise_limit(void)
{
	struct rlimit limit;
	uint64_t before;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return 0;
	before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

int fd_restore_limit(uint64_t soft)
{
	struct rlimit limit;

	if (soft == 0)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	limit.rlim_cur = soft;
	return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}
