/* SPDX-License-Identifier: Apache-2.0 */
/* The filters of system calls: calls.h says which and why. */
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "jail/profile.h"

#include "filter.h"

/* Linux 6.6: the two sides take turns on one processor, which halves the time of a rename. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

struct program {
	const struct sock_filter *code;
	size_t n;
};
#define PROGRAM(code)                  \
	(struct program)               \
	{                              \
		code, ARRAY_SIZE(code) \
	}

/* 0 or a fd, depending on the flags, or -errno. */
static int install(struct program p, unsigned flags)
{
	const struct sock_fprog program = { (unsigned short)p.n, (struct sock_filter *)p.code };
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);

	return r < 0 ? -errno : (int)r;
}

/* Once it was taken up only a kill interrupts the call: a handler that runs meanwhile must not make it begin again. Before that moment a
 * handler without SA_RESTART makes it fail with EINTR. */
static int install_reporting(struct program p)
{
	int fd = install(p, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (fd >= 0)
		(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	return fd;
}

/* One filter refuses calls and reports others (rename.c, refine.c): a second one would be translated into machine code once more at each run. */
int wall_filter(bool userns, enum wall_reports reports, int *ret_listener)
{
	int fd = -EBADF, r = 0;

	if (reports == WALL_REPORTS_ALL)
		fd = install_reporting(userns ? PROGRAM(refining_filter_with_userns) : PROGRAM(refining_filter));
	if (reports == WALL_REPORTS_NAMES)
		fd = install_reporting(userns ? PROGRAM(reporting_filter_with_userns) : PROGRAM(reporting_filter));
	if (fd < 0)
		r = install(userns ? PROGRAM(filter_with_userns) : PROGRAM(filter), 0);
	if (r == 0)
		*ret_listener = fd;
	return r;
}

int wall_profile(const struct jail_profile *profile)
{
	int r = profile && profile->is_strict ? install(PROGRAM(filter_strict), 0) : 0;

	return r == 0 && profile && profile->n > 0 ? install((struct program){ profile->code, profile->n }, 0) : r;
}

int jail_filter(const struct jail_profile *profile)
{
	int listener, r = wall_filter(false, WALL_REPORTS_NOTHING, &listener);

	return r < 0 ? r : wall_profile(profile);
}

static int compare(const void *name, const void *entry)
{
	return strcmp(name, ((const struct filter_name *)entry)->text);
}

int filter_number(const char *name)
{
	const struct filter_name *found = bsearch(name, names, ARRAY_SIZE(names), sizeof(names[0]), compare);

	return found ? found->number : -ENOENT;
}

static bool holds(const int *numbers, size_t n, int number)
{
	for (size_t i = 0; i < n; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* A few numbers belong to no call. */
bool filter_has(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].number == number)
			return true;
	return false;
}

bool filter_refuses(int number, bool userns)
{
	return holds(refused, ARRAY_SIZE(refused), number) ||
	       (!userns && holds(refused_without_userns, ARRAY_SIZE(refused_without_userns), number));
}
