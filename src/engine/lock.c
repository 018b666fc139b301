/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock file per sandbox, below the state directory, with open-file-description locks on its bytes: they exclude threads and
 * processes alike and end with the last fd, so death releases them. Byte 0 is this file's: whoever changes the sandbox holds it alone,
 * whoever looks or runs shares it. The others, and what stands behind them, say who runs inside: slot.c.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/keeper.h"
#include "engine/slot.h"

#define DISMISS_MS 5000

static int open_file(struct atoll *a, const char *uuid, int flags)
{
	AUTO_FREE char *path = str_format("locks/%s", uuid);
	int fd;

	if (!path)
		return -ENOMEM;
	if (flags & O_CREAT)
		return sys_open(a->state_fd, path, O_RDWR | O_NOFOLLOW | flags, 0600);
	fd = openat(a->state_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int lock_open(struct atoll *a, const char *uuid)
{
	return open_file(a, uuid, 0);
}

static int try_lock(int fd, short type, off_t at)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static int try_mode(int fd, enum lock_mode mode)
{
	return try_lock(fd, mode == LOCK_CHANGE ? F_WRLCK : F_RDLCK, 0);
}

static void nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

/* What to do about it is said by whoever offers it; EBUSY tells that a command can be ended. */
static int busy(int fd, const char *name, struct atoll_error *err)
{
	if (slot_has_command(fd))
		return error_set(err, ATOLL_BUSY, EBUSY, "lock", name, "a command runs in the sandbox \"%s\"", name);
	return error_set(err, ATOLL_BUSY, 0, "lock", name, "the sandbox \"%s\" is in use by another process", name);
}

static int take_file(struct atoll *a, const char *uuid, enum lock_mode mode, int wait_ms, const char *name, int *ret_fd,
		     struct atoll_error *err)
{
	AUTO_FD fd = open_file(a, uuid, O_CREAT);
	int64_t end = clock_monotonic_ns() + (int64_t)wait_ms * 1000000;
	bool dismissed = false;
	int r;

	if (fd < 0)
		return error_sys(err, fd, "lock", name, "cannot lock the sandbox \"%s\"", name);
	while ((r = try_mode(fd, mode)) == -EAGAIN || r == -EACCES) {
		/* A keeper without a command is in nobody's way; it takes an instant to go. */
		if (mode == LOCK_CHANGE && !dismissed && keeper_dismiss(fd)) {
			dismissed = true;
			end = MAX(end, clock_monotonic_ns() + DISMISS_MS * 1000000LL);
		}
		if (wait_ms >= 0 && clock_monotonic_ns() >= end)
			return busy(fd, name, err);
		nap(5);
	}
	if (r < 0)
		return error_sys(err, r, "lock", name, "cannot lock the sandbox \"%s\"", name);
	/* With the lock in hand a living runner is dying: its holder was killed, and it follows. */
	if (mode == LOCK_CHANGE) {
		r = slot_wait_gone(fd, wait_ms, name, err);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool is_removed(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* Another process may have removed the file after it was opened here and before it was locked: then a
 * lock on it excludes no other process. Only a process that holds the lock removes the file. */
int lock_take(struct atoll *a, const char *uuid, enum lock_mode mode, int wait_ms, const char *name, int *ret_fd,
	      struct atoll_error *err)
{
	int fd = -EBADF;
	int r = take_file(a, uuid, mode, wait_ms, name, &fd, err);

	while (r >= 0 && is_removed(fd)) {
		fd = lock_release(fd);
		r = take_file(a, uuid, mode, wait_ms, name, &fd, err);
	}
	if (r >= 0)
		*ret_fd = fd;
	return r;
}

/* Closing would not do: a process that another thread forked meanwhile may have the file open too. */
int lock_release(int fd)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	if (fd >= 0)
		(void)fcntl(fd, F_OFD_SETLK, &all);
	return fd_close(fd);
}

void lock_note_end(int lock_fd)
{
	(void)futimens(lock_fd, NULL);
}

int64_t lock_last_run(struct atoll *a, const char *uuid)
{
	AUTO_FD fd = open_file(a, uuid, 0);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 ? clock_ns(st.st_mtim) : INT64_MIN;
}

bool lock_is_running(struct atoll *a, const char *uuid)
{
	AUTO_FD fd = open_file(a, uuid, 0);

	return fd >= 0 && slot_has_command(fd);
}

void lock_remove(struct atoll *a, const char *uuid)
{
	AUTO_FREE char *path = str_format("locks/%s", uuid);

	if (path)
		(void)sys_unlink(a->state_fd, path, 0);
}
