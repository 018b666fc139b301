/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size-limit.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

static _Thread_local bool active;

bool size_limit_is_set(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

static sigset_t only_this(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	return set;
}

struct size_limit size_limit_begin(void)
{
	sigset_t set = only_this(), old;
	struct sigaction action;

	if (!size_limit_is_set() || (sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == SIG_IGN) ||
	    pthread_sigmask(SIG_BLOCK, &set, &old) != 0 || sigismember(&old, SIGXFSZ))
		return (struct size_limit){ .blocked = false };
	active = true;
	return (struct size_limit){ .blocked = true };
}

void size_limit_end(struct size_limit *s)
{
	const struct timespec at_once = { 0 };
	sigset_t set = only_this();

	if (!s->blocked)
		return;
	while (sigtimedwait(&set, NULL, &at_once) == SIGXFSZ)
		;
	active = false;
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void size_limit_restore(sigset_t *mask)
{
	if (active)
		(void)sigdelset(mask, SIGXFSZ);
}
