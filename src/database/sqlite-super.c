/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction over several databases, cut off.
 *
 * SQLite makes a super-journal beside the first of them, and the journal of each names it at its
 * end. The transaction is committed when the super-journal is removed: a journal whose
 * super-journal is there is rolled back, any other is not. A copy of one database is opened where
 * no file but its own is reached (sqlite-guard.c), and SQLite would take the super-journal for
 * removed: half of a transaction that never ended would count. So the copied journal is looked at
 * before SQLite opens the copy. If the super-journal is there, its name is cut off, and SQLite
 * rolls back a journal like any other.
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "database/private.h"

/* The end of a journal: page number, name, and then its length, its checksum and this. */
static const unsigned char magic[] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
#define TAIL (4 + 4 + sizeof magic)
#define NAME_MAX_SIZE 4096U

static uint32_t get32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* 1 and where the journal ends without the name; 0 if it names none; or -errno. */
static int read_name(int fd, char ret_name[NAME_MAX_SIZE], off_t *ret_end)
{
	unsigned char tail[TAIL];
	uint32_t size, sum = 0;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof tail)
		return 0;
	if (pread(fd, tail, sizeof tail, st.st_size - (off_t)sizeof tail) != (ssize_t)sizeof tail)
		return -EIO;
	size = get32(tail);
	if (memcmp(tail + 8, magic, sizeof magic) != 0 || size == 0 || size >= NAME_MAX_SIZE ||
	    (off_t)size > st.st_size - (off_t)sizeof tail)
		return 0;
	if (pread(fd, ret_name, size, st.st_size - (off_t)sizeof tail - (off_t)size) != (ssize_t)size)
		return -EIO;
	ret_name[size] = 0;
	for (uint32_t i = 0; i < size; i++)
		sum += (uint32_t)(signed char)ret_name[i];
	if (sum != get32(tail + 4))
		return 0;
	*ret_end = st.st_size - (off_t)sizeof tail - (off_t)size - 4;
	return *ret_end >= 0;
}

/* Whether a path names the directory that the clone lies in, by the path that the sandboxed command
 * knows it by, or by its own. */
static bool is_same_dir(const char *dir, int clone_dir, const char *view)
{
	const char *slash = view ? strrchr(view, '/') : NULL;
	size_t size = slash ? (size_t)(slash - view) : 0;
	struct stat a, b;

	if (slash && strncmp(dir, view, size) == 0 && !dir[size])
		return true;
	return fstat(clone_dir, &a) == 0 && stat(*dir ? dir : "/", &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* As SQLite looks for it: an empty one does not count. An entry of the clone's directory, a
 * whiteout too, hides the one below. */
static bool is_there(int clone_dir, const char *name, const char *below)
{
	struct stat st;

	if (fstatat(clone_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && (!below || lstat(below, &st) < 0))
		return false;
	return S_ISREG(st.st_mode) && st.st_size > 0;
}

int sqlite_super_settle(const struct sqlite_file *clone, const struct sqlite_find *how, const struct sqlite_file *copy)
{
	AUTO_FREE char *journal = str_format("%s-journal", copy->name);
	AUTO_FD fd = journal ? fd_open_beneath(copy->dirfd, journal, O_RDWR) : -ENOMEM;
	char name[NAME_MAX_SIZE] = "";
	char *slash;
	off_t end = 0;
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = read_name(fd, name, &end);
	if (r <= 0)
		return r;
	slash = strrchr(name, '/');
	if (!slash)
		return SQLITE_SUPER_UNKNOWN;
	*slash = 0;
	if (!is_same_dir(name, clone->dirfd, how->view))
		return SQLITE_SUPER_UNKNOWN;
	*slash = '/';
	return is_there(clone->dirfd, slash + 1, how->is_layered ? name : NULL) ? sys_truncate(fd, end) : 0;
}
