/* SPDX-License-Identifier: Apache-2.0 */
/* What a command may use, at most. */
#include <sys/resource.h>

#include "base/error.h"
#include "jail/private.h"

/* Only root may raise a hard limit. */
int jail_limit_check(const struct jail_limits *limits, struct atoll_error *err)
{
	struct rlimit now;

	if (limits->nofile == 0 || getrlimit(RLIMIT_NOFILE, &now) < 0 || jail_is_root() ||
	    limits->nofile <= now.rlim_max)
		return 0;
	return error_set(err, ATOLL_INVALID, 0, "run", NULL,
			 "nofile %llu is more than the %llu that you may have yourself (ulimit -Hn)",
			 (unsigned long long)limits->nofile, (unsigned long long)now.rlim_max);
}

int jail_limit_apply(const struct jail_limits *limits)
{
	struct rlimit files = { .rlim_cur = limits->nofile, .rlim_max = limits->nofile };

	if (limits->nofile > 0 && setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	return 0;
}
