/* SPDX-License-Identifier: Apache-2.0 */
/* The filters of system calls: calls.h says which and why. */
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "jail/profile.h"

#include "filter.h"

static int install(const struct sock_filter *code, size_t n)
{
	const struct sock_fprog program = { (unsigned short)n, (struct sock_filter *)code };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* The profile comes last: it may refuse what is needed for another. */
int wall_filter(bool userns, const struct jail_profile *profile)
{
	int r = userns ? install(filter_with_userns, ARRAY_SIZE(filter_with_userns))
		       : install(filter, ARRAY_SIZE(filter));

	if (r == 0 && profile && profile->is_strict)
		r = install(filter_strict, ARRAY_SIZE(filter_strict));
	if (r == 0 && profile && profile->n > 0)
		r = install(profile->code, profile->n);
	return r;
}

int jail_filter(const struct jail_profile *profile)
{
	return wall_filter(false, profile);
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
