/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

/* The signals are blocked while the library makes the sandbox, and the code polls for them: no
 * handler has to interrupt a system call. */
struct interrupt {
	sigset_t signals, before;
};

/* Leaves out a signal that the caller ignores (nohup): it must end nothing. */
static void interrupt_begin(struct interrupt *i)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;

	sigemptyset(&i->signals);
	for (size_t k = 0; k < ARRAY_SIZE(all); k++)
		if (sigaction(all[k], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&i->signals, all[k]);
	sigprocmask(SIG_BLOCK, &i->signals, &i->before);
}

static bool is_pending(void *arg)
{
	const struct interrupt *i = arg;
	sigset_t pending;

	sigemptyset(&pending);
	sigpending(&pending);
	sigandset(&pending, &pending, &i->signals);
	return !sigisemptyset(&pending);
}

/* Takes the pending signals off the queue, so that the program can end by itself with its own
 * exit status. Returns the first signal, or 0. */
static int interrupt_end(struct interrupt *i)
{
	const struct timespec now = { 0 };
	int first = 0, sig;

	while (is_pending(i) && (sig = sigtimedwait(&i->signals, NULL, &now)) > 0)
		first = first ? first : sig;
	sigprocmask(SIG_SETMASK, &i->before, NULL);
	return first;
}

static int ended_by;

int interrupt_status(int status)
{
	return ended_by ? 128 + ended_by : status;
}

int interrupt_new(struct cli *cli, const struct atoll_new_options *options, struct atoll_info **ret,
		  struct atoll_error *err)
{
	struct atoll_new_options stoppable = *options;
	struct atoll_error ignored;
	struct interrupt i;
	int r, sig;

	stoppable.cancelled = is_pending;
	stoppable.cancelled_arg = &i;
	interrupt_begin(&i);
	r = atoll_new(cli->a, &stoppable, ret, err);
	if (r >= 0 && is_pending(&i)) {
		(void)atoll_remove(cli->a, (*ret)->name, &(struct atoll_remove_options){ .force = true }, &ignored);
		*ret = atoll_info_free(*ret);
		r = error_set(err, ATOLL_FAILED, ECANCELED, "new", options->name, "interrupted; no sandbox was made");
	}
	sig = interrupt_end(&i);
	ended_by = r < 0 ? sig : 0;
	return r;
}

/* ---- looking ---- */

static char farewell[512];

static void say_farewell(int sig)
{
	ssize_t written = write(STDERR_FILENO, farewell, strlen(farewell));

	(void)written;
	_exit(128 + sig);
}

void interrupt_guard_begin(const char *name, struct sigaction *old)
{
	struct sigaction action = { .sa_handler = say_farewell };

	snprintf(farewell, sizeof(farewell), "\nkept as \"%s\"; atoll diff %s, atoll commit %s or atoll rm %s\n", name,
		 name, name, name);
	if (sigaction(SIGINT, NULL, old) == 0 && old->sa_handler == SIG_DFL)
		(void)sigaction(SIGINT, &action, NULL);
}

void interrupt_guard_end(const struct sigaction *old)
{
	(void)sigaction(SIGINT, old, NULL);
}

/* ---- landing ---- */

static void fill(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
}

void interrupt_hold(sigset_t *old)
{
	sigset_t set;

	fill(&set);
	sigprocmask(SIG_BLOCK, &set, old);
}

void interrupt_release(const sigset_t *old, bool drop)
{
	const struct timespec now = { 0 };
	sigset_t set;

	fill(&set);
	while (drop && sigtimedwait(&set, NULL, &now) > 0)
		;
	sigprocmask(SIG_SETMASK, old, NULL);
}
