/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock file per sandbox, below the state directory. Open-file-description locks on two of its bytes:
 *
 *	byte 0   whoever changes the sandbox holds it alone, whoever looks or runs shares it
 *	byte 1   whoever runs a command holds it alone
 *
 * They exclude threads and processes alike and end with the last fd, so death releases them. Behind the bytes stands who is pid 1 of the
 * latest run: its lock may be gone an instant before the processes inside are.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys.h"

#define NOTE_OFFSET 16

static int open_file(struct atoll *a, const char *uuid, int flags)
{
	AUTO_FREE char *path = str_format("locks/%s", uuid);
	int fd;

	if (!path)
		return -ENOMEM;
	fd = openat(a->state_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	return fd < 0 ? -errno : fd;
}

static int try_lock(int fd, short type, off_t at)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static int try_mode(int fd, enum lock_mode mode)
{
	int r = try_lock(fd, mode == LOCK_CHANGE ? F_WRLCK : F_RDLCK, 0);

	if (r == 0 && mode == LOCK_RUN) {
		r = try_lock(fd, F_WRLCK, 1);
		if (r < 0)
			try_lock(fd, F_UNLCK, 0);
	}
	return r;
}

static void nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

int lock_take(struct atoll *a, const char *uuid, enum lock_mode mode, int wait_ms, const char *name, int *ret_fd,
	      struct atoll_error *err)
{
	AUTO_FD fd = open_file(a, uuid, O_CREAT);
	int64_t end = clock_monotonic_ns() + (int64_t)wait_ms * 1000000;
	int r;

	if (fd < 0)
		return error_sys(err, fd, "lock", name, "cannot lock the sandbox \"%s\"", name);
	while ((r = try_mode(fd, mode)) == -EAGAIN || r == -EACCES) {
		if (wait_ms >= 0 && clock_monotonic_ns() >= end)
			return error_set(err, ATOLL_BUSY, 0, "lock", name,
					 "the sandbox \"%s\" is in use by another process; wait for it, or use --wait",
					 name);
		nap(5);
	}
	if (r < 0)
		return error_sys(err, r, "lock", name, "cannot lock the sandbox \"%s\"", name);
	if (mode != LOCK_LOOK) {
		r = lock_wait_runner(fd, wait_ms, name, err);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Closing would not do: a process that another thread forked meanwhile may have the file open too. */
int lock_release(int fd)
{
	if (fd >= 0) {
		try_lock(fd, F_UNLCK, 0);
		try_lock(fd, F_UNLCK, 1);
	}
	return fd_close(fd);
}

/* ---- the runner's note ---- */

struct note {
	char boot_id[40];
	int64_t pid;
	uint64_t start_time;
};

int lock_note_runner(int lock_fd, pid_t pid, uint64_t start_time)
{
	struct note n = { .pid = pid, .start_time = start_time };

	clock_boot_id(n.boot_id);
	return pwrite(lock_fd, &n, sizeof n, NOTE_OFFSET) == (ssize_t)sizeof n ? 0 : -EIO;
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

/* Field 22 of /proc/PID/stat, and its state letter; the name before them may hold anything, so the last ')' is looked for. */
static int read_start_time(pid_t pid, uint64_t *ret, char *ret_state)
{
	AUTO_FREE char *data = NULL;
	char path[32];
	char *at;

	snprintf(path, sizeof path, "proc/%d/stat", (int)pid);
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fd_read_file(root, path, 4096, &data, NULL) < 0)
		return -ESRCH;
	at = strrchr(data, ')');
	if (!at ||
	    sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
		   ret_state, ret) != 2)
		return -ESRCH;
	return 0;
}

static bool note_is_alive(const struct note *n)
{
	char boot[40], state;
	uint64_t start;

	clock_boot_id(boot);
	if (n->pid <= 0 || strncmp(boot, n->boot_id, sizeof boot) != 0)
		return false;
	return read_start_time((pid_t)n->pid, &start, &state) == 0 && start == n->start_time && state != 'Z' &&
	       state != 'X';
}

static bool runner_is_alive(int lock_fd)
{
	struct note n;

	return pread(lock_fd, &n, sizeof n, NOTE_OFFSET) == (ssize_t)sizeof n && note_is_alive(&n);
}

/* With the lock in hand a living runner is dying: its parent was killed, and it follows. */
int lock_wait_runner(int lock_fd, int wait_ms, const char *name, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + (int64_t)MAX(wait_ms, 5000) * 1000000;

	while (runner_is_alive(lock_fd)) {
		if (clock_monotonic_ns() >= end)
			return error_set(err, ATOLL_BUSY, 0, "lock", name,
					 "a command is still running in the sandbox \"%s\"", name);
		nap(5);
	}
	return 0;
}

bool lock_is_running(struct atoll *a, const char *uuid)
{
	AUTO_FD fd = open_file(a, uuid, 0);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

void lock_remove(struct atoll *a, const char *uuid)
{
	AUTO_FREE char *path = str_format("locks/%s", uuid);

	if (path)
		(void)sys_unlink(a->state_fd, path, 0);
}
