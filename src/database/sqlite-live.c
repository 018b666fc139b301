/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file is a SQLite database, and whether a program uses it just now, told without opening it as a database: by its header, by the
 * bytes that SQLite locks, and by the log beside it. A connection that is idle, and has no log, holds no lock; that it has the file open is
 * for others to find.
 */
#include "database/sqlite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"

#define MAGIC "SQLite format 3" /* with the zero at its end */
#define PAGE_MIN 512

/* Where SQLite locks: the database itself while it reads or writes, its shared memory (-shm) for as long as it is open with a log. */
#define LOCKS_AT 0x40000000
#define LOCKS_SIZE 512
#define SHM_LOCKS_AT 120
#define SHM_LOCKS_SIZE 9

bool sqlite_live_is_likely(uint64_t size)
{
	return size >= PAGE_MIN && size % PAGE_MIN == 0;
}

bool sqlite_live_is_database(int fd)
{
	char head[sizeof MAGIC];

	return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head && memcmp(head, MAGIC, sizeof head) == 0;
}

static bool is_locked(int fd, off_t start, off_t size)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = size };

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int open_beside(int dirfd, const char *name, const char *end)
{
	AUTO_FREE char *beside = str_format("%s%s", name, end);

	return beside ? fd_open_beneath(dirfd, beside, O_RDONLY | O_NONBLOCK) : -ENOMEM;
}

bool sqlite_live_is_locked(int fd, int dirfd, const char *name)
{
	AUTO_FD shm = open_beside(dirfd, name, "-shm");

	return is_locked(fd, LOCKS_AT, LOCKS_SIZE) || (shm >= 0 && is_locked(shm, SHM_LOCKS_AT, SHM_LOCKS_SIZE));
}

bool sqlite_live_has_log(int dirfd, const char *name)
{
	AUTO_FD wal = open_beside(dirfd, name, "-wal");
	struct stat st;

	return wal >= 0 && fstat(wal, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

size_t sqlite_live_stem(const char *path)
{
	static const char *const ends[] = { "-wal", "-shm", "-journal" };
	size_t size = strlen(path);

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		size_t end = strlen(ends[i]);

		if (size > end && strcmp(path + size - end, ends[i]) == 0)
			return size - end;
	}
	return 0;
}
