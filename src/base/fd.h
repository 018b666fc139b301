/* SPDX-License-Identifier: Apache-2.0 */
/* Opening things beneath a directory without following links, and small fd helpers. All return -errno on failure. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/macros.h"

/* openat2 with RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS, plus O_CLOEXEC|O_NOFOLLOW. path is relative, of any
 * length (opened piece by piece beyond PATH_MAX); "" and "." open the directory again. Flags: never O_CREAT. A dirfd that is the
 * -errno of a failed opening is the answer. */
int fd_open_beneath(int dirfd, const char *path, int flags);

/* As above, for an absolute path: starts at the root directory. */
int fd_open_absolute(const char *path, int flags);

/* The directory that holds path's last component, as O_PATH|O_DIRECTORY fd, and a pointer to that component in path. -EINVAL
 * if the path ends in a slash, "." or "..". */
int fd_open_parent(int dirfd, const char *path, int *ret_parent, const char **ret_name);

/* Like mkdir -p beneath dirfd, mode 0700 for what is made; returns an O_RDONLY|O_DIRECTORY fd. Goes through sys_mkdir. */
int fd_make_path(int dirfd, const char *path);

/* An ordinary fd for one of an O_PATH fd, through /proc/self/fd. */
int fd_reopen(int fd, int flags);

/* The whole content of a small file (NUL appended, not counted); -EFBIG beyond max, -EINVAL for what is no regular file. A relative
 * path is opened as by fd_open_beneath(), an absolute one (/proc, /etc) plainly. ret_size may be NULL. */
int fd_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_size);

/* The target of a link, whatever its length. name "" reads the link that dirfd (O_PATH) is. */
int fd_readlink(int dirfd, const char *name, char **ret);

/* The absolute path of an open directory, by /proc/self/fd. */
int fd_path(int fd, char **ret);

/* Closes all from `from` on but those of two lists, in which negative ones say nothing. By system calls alone. */
void fd_close_others(int from, const int *keep, size_t n, const int *also, size_t n_also);
/* Closes the fds `from` to `to`, both included. By system calls alone. */
void fd_close_range(unsigned from, unsigned to);
/* Marks `from` and all fds above it as close-on-exec. By system calls alone. */
void fd_close_on_exec(unsigned from);

/* Spare descriptors: held open during an operation and released before its rollback, so that the
 * rollback has enough of them. */
#define FD_SPARE 24
struct fd_spare {
	int fds[FD_SPARE];
	size_t n;
};
int fd_spare_take(struct fd_spare *s); /* 0, or -EMFILE or -ENFILE if too few are left */
void fd_spare_release(struct fd_spare *s);

/* Makes the table of open files large enough for so many more, as far as the limit goes. The kernel makes a table that threads share wait for
 * all processors whenever it grows: this is for before there are threads. */
void fd_reserve(size_t n);

/* Raises the soft limit of open files to the hard one. Returns the limit before, or 0 if it stays
 * as it was. A caller that runs the user's program gives it that limit with fd_restore_limit(). */
uint64_t fd_raise_limit(void);
/* Sets the soft limit to what fd_raise_limit() returned; does nothing for 0. Returns 0 or
 * -errno. */
int fd_restore_limit(uint64_t soft);

#endif
