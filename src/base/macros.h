/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of locals by the cleanup attribute, and a few small macros. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define CLEANUP(f) __attribute__((cleanup(f)))

/* Hands over what a variable owns: its value is returned and the variable emptied. */
#define TAKE_PTR(p)                        \
	({                                 \
		__typeof__(p) *_pp = &(p); \
		__typeof__(p) _v = *_pp;   \
		*_pp = NULL;               \
		_v;                        \
	})
#define TAKE_FD(fd)              \
	({                       \
		int *_f = &(fd); \
		int _v = *_f;    \
		*_f = -EBADF;    \
		_v;              \
	})

/* Closes an fd if there is one and keeps errno; returns -EBADF, the empty fd. */
static inline int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		close(fd);
		errno = saved;
	}
	return -EBADF;
}

static inline void cleanup_fd(int *fd)
{
	*fd = fd_close(*fd);
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

#define AUTO_FD CLEANUP(cleanup_fd) int
#define AUTO_FREE CLEANUP(cleanup_free)

#endif
