/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction over several databases (ATTACH) that was cut off.
 *
 * SQLite makes a super-journal beside the first database, and writes its name at the end of each
 * database's journal. It commits the transaction by removing the super-journal. A journal that
 * names a super-journal is rolled back only if the super-journal exists. Atoll opens the copy of a
 * database through a VFS that reaches no files but the copy's own (sqlite-guard.c). There SQLite
 * would not find the super-journal, and would take one database's part of an unfinished transaction
 * for committed. So Atoll reads the copied journal before SQLite opens the copy. If the
 * super-journal exists, Atoll cuts its name off the copied journal, and SQLite rolls that journal
 * back like one of a single database.
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "database/private.h"

/* A journal that names a super-journal ends with a page number, the name, the length of the name,
 * the checksum of the name, and these bytes. */
static const unsigned char magic[] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
#define TAIL (4 + 4 + sizeof magic)
#define NAME_MAX_SIZE 4096U

static uint32_t get32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Returns 1, the super-journal's name, and the size of the journal without that record; 0 if the
 * journal names no super-journal; or -errno. */
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

/* Whether `dir` is the clone's directory: either the path at which the sandboxed command sees that
 * directory, or a path of the host that leads to it. */
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

/* Whether the super-journal exists. An empty file does not count, as in SQLite. An entry of the
 * clone's directory, even a whiteout, hides the file `below`. */
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
