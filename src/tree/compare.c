/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two files hold the same bytes, and two links the same target. */
#include <string.h>

#include "base/fd.h"
#include "tree/private.h"

#define BUFFER_SIZE ((size_t)256 << 10)

/* Reads the whole range unless the file ends before: how much there was, or -errno. */
static ssize_t read_range(int fd, char *data, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, data + done, size - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Where the next data lies, or size if there is none. What cannot tell has data everywhere. */
static uint64_t next_data(int fd, uint64_t at, uint64_t size)
{
	off_t start = lseek(fd, (off_t)at, SEEK_DATA);

	if (start < 0)
		return errno == ENXIO ? size : at;
	return MIN((uint64_t)start, size);
}

static int same_bytes(int a, int b, uint64_t size, char *buffer)
{
	for (uint64_t at = 0; at < size;) {
		uint64_t data_a = next_data(a, at, size), data_b = next_data(b, at, size);
		size_t want;
		ssize_t got_a, got_b;

		at = MIN(data_a, data_b); /* before it both are holes */
		want = (size_t)MIN(size - at, (uint64_t)BUFFER_SIZE);
		got_a = read_range(a, buffer, want, at);
		if (got_a < 0)
			return (int)got_a;
		got_b = read_range(b, buffer + BUFFER_SIZE, want, at);
		if (got_b < 0)
			return (int)got_b;
		if (got_a != got_b || memcmp(buffer, buffer + BUFFER_SIZE, (size_t)got_a) != 0)
			return 0;
		if ((size_t)got_a < want) /* both were shortened meanwhile, to the same bytes */
			return 1;
		at += want;
	}
	return 1;
}

int tree_same_content(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b)
{
	struct tree_stat st_a, st_b;
	AUTO_FREE char *buffer = NULL;
	AUTO_FD a = tree_open_file(dirfd_a, name_a, &st_a);
	AUTO_FD b = a < 0 ? -EBADF : tree_open_file(dirfd_b, name_b, &st_b);

	if (a < 0)
		return TAKE_FD(a);
	if (b < 0)
		return TAKE_FD(b);
	if (st_a.size != st_b.size)
		return 0;
	if (st_a.size == 0 || (st_a.dev == st_b.dev && st_a.ino == st_b.ino))
		return 1;
	buffer = malloc(2 * BUFFER_SIZE);
	return buffer ? same_bytes(a, b, st_a.size, buffer) : -ENOMEM;
}

int tree_same_target(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b)
{
	AUTO_FREE char *a = NULL, *b = NULL;
	int r = fd_readlink(dirfd_a, name_a, &a);

	if (r == 0)
		r = fd_readlink(dirfd_b, name_b, &b);
	return r < 0 ? r : a && b && strcmp(a, b) == 0;
}
