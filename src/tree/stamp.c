/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A moment on a filesystem's own clock, between all changes before and all changes after.
 *
 * A private file is touched and its ctime read, C0; then touched until its ctime is another, T > C0. Whatever changed
 * before the call carries a ctime that the same clock gave earlier, so at most C0 and strictly less than T; whatever
 * changes after it cannot be given less than T. Since 6.13 a ctime that somebody has read moves on with the next
 * change; before that, and on filesystems that keep coarse times, one waits for the clock's tick.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/sys.h"
#include "tree/private.h"

#define PAUSE_NS 200000
/* The coarsest times known are of two seconds (FAT); a clock that was set back a little may catch up too. */
#define PATIENCE_NS (6 * NSEC_PER_SEC)

static bool kernel_is_old(void)
{
	struct utsname u;
	unsigned major, minor;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return true;
	return major < 6 || (major == 6 && minor < 13);
}

bool tree_old_kernel(void)
{
	static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
	const char *forced = getenv("ATOLL_OLD_KERNEL");

	if (forced && strcmp(forced, "1") == 0)
		return true;
	if (!known)
		known = kernel_is_old() ? 2 : 1;
	return known == 2;
}

int tree_open_private(int dirfd)
{
	char name[48], uuid[37];
	int fd, r;

	fd = sys_open(dirfd, ".", O_TMPFILE | O_RDWR, 0600);
	if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -ENOENT && fd != -EINVAL)
		return fd;
	random_uuid(uuid);
	snprintf(name, sizeof(name), ".atoll-%s", uuid);
	fd = sys_open(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	r = sys_unlink(dirfd, name, 0);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	return fd;
}

static int touch(int fd, int64_t *ret)
{
	const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
	struct tree_stat st;
	int r;

	r = sys_utimens(fd, "", now);
	if (r == 0)
		r = tree_stat(fd, "", &st);
	if (r == 0)
		*ret = st.ctime;
	return r;
}

/* Touches until the ctime is later than it was. */
static int move_on(int fd, int64_t deadline, int64_t *t)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int64_t next = *t;
	int r = 0;

	for (;;) {
		r = touch(fd, &next);
		if (r < 0)
			return r;
		if (next > *t)
			break;
		if (clock_monotonic_ns() > deadline)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	*t = next;
	return 0;
}

/* Before 6.13 times are those of the last tick: two full ones more lie safely between before and after. */
static void settle(void)
{
	struct timespec tick = { .tv_nsec = 10000000 }, left;

	clock_getres(CLOCK_REALTIME_COARSE, &tick);
	left = (struct timespec){ .tv_sec = tick.tv_sec * 2, .tv_nsec = tick.tv_nsec * 2 };
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

int tree_stamp(int dirfd, int64_t *ret)
{
	const int64_t deadline = clock_monotonic_ns() + PATIENCE_NS;
	AUTO_FD fd = tree_open_private(dirfd);
	int64_t t;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	r = touch(fd, &t);
	if (r == 0)
		r = move_on(fd, deadline, &t);
	if (r == 0 && tree_old_kernel()) {
		settle();
		r = move_on(fd, deadline, &t);
	}
	if (r == 0)
		*ret = t;
	return r;
}
