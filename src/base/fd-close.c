/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes many files, by system calls alone. If a container's filter of system calls refuses
 * close_range(), takes the numbers from /proc/self/fd; without /proc, tries all numbers below the
 * limit.
 */
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/fd.h"

#define NUMBERS_MAX (1U << 20) /* as many files as a process can have open, unless fs.nr_open was raised */

static void treat(unsigned fd, unsigned flags)
{
	if (flags & CLOSE_RANGE_CLOEXEC)
		(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	else
		(void)close((int)fd);
}

/* An entry as getdents64() returns it. */
struct entry {
	uint64_t ino;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

static bool parse_number(const char *name, unsigned *ret)
{
	unsigned n = 0;

	for (*ret = 0; name[n] >= '0' && name[n] <= '9'; n++)
		*ret = *ret * 10 + (unsigned)(name[n] - '0');
	return n > 0 && name[n] == '\0';
}

static void treat_entries(int dir, unsigned from, unsigned to, unsigned flags)
{
	_Alignas(8) char buffer[4096];
	long n;

	while ((n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *e = (const void *)(buffer + at);
			unsigned fd;

			if (parse_number(e->name, &fd) && fd >= from && fd <= to && fd != (unsigned)dir)
				treat(fd, flags);
			at += e->size;
		}
	}
}

static void treat_numbers(unsigned from, unsigned to, unsigned flags)
{
	struct rlimit limit = { 0 };
	unsigned end;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	end = (unsigned)MIN(MIN(limit.rlim_max, (rlim_t)NUMBERS_MAX), (rlim_t)to);
	for (unsigned fd = from; fd <= end; fd++)
		treat(fd, flags);
}

static void treat_range(unsigned from, unsigned to, unsigned flags)
{
	int dir;

	if (close_range(from, to, (int)flags) == 0 || errno == EINVAL)
		return;
	dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		treat_numbers(from, to, flags);
		return;
	}
	treat_entries(dir, from, to, flags);
	(void)close(dir);
}

void fd_close_range(unsigned from, unsigned to)
{
	treat_range(from, to, 0);
}

void fd_close_on_exec(unsigned from)
{
	treat_range(from, ~0U, CLOSE_RANGE_CLOEXEC);
}

/* Returns the lowest fd of keep that is not below from, or -1. */
static int next_kept(const int *keep, size_t n, int from)
{
	int next = -1;

	for (size_t i = 0; i < n; i++) {
		if (keep[i] >= from && (next < 0 || keep[i] < next))
			next = keep[i];
	}
	return next;
}

void fd_close_others(int from, const int *keep, size_t n, const int *also, size_t n_also)
{
	for (;;) {
		int one = next_kept(keep, n, from), other = next_kept(also, n_also, from);
		int next = one < 0 || (other >= 0 && other < one) ? other : one;

		if (next < 0)
			break;
		if (next > from)
			fd_close_range((unsigned)from, (unsigned)next - 1);
		from = next + 1;
	}
	fd_close_range((unsigned)from, ~0U);
}
