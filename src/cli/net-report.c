/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/net-report.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include "cli/message.h"

/* A program such as an editor draws on the whole screen, and a printed line would spoil the
 * picture. */
static bool has_whole_screen(void)
{
	struct termios mode;

	return tcgetattr(STDERR_FILENO, &mode) == 0 && !(mode.c_lflag & ICANON);
}

/* The command may be in the foreground of the terminal. With "stty tostop" the kernel then stops
 * this process when it writes, unless SIGTTOU is blocked. */
static void print_hint(void)
{
	sigset_t stop, old;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	message_error(
		"the command wanted network and had none: --net host, --net allow:HOST or a preset as in --net npm "
		"gives it some");
	sigprocmask(SIG_SETMASK, &old, NULL);
}

void net_report_tell_wanted(void *report)
{
	struct net_report *r = report;

	if (r->cli->quiet)
		return;
	r->is_due = has_whole_screen();
	if (!r->is_due)
		print_hint();
}

void net_report_finish(struct net_report *r)
{
	if (r->is_due)
		print_hint();
	r->is_due = false;
}

void net_report_tell_refusal(const struct atoll_refusal *refusal, void *report)
{
	static const char *const what[ATOLL_REFUSAL_KIND_COUNT] = { [ATOLL_REFUSAL_NAME] = "the name",
								    [ATOLL_REFUSAL_TCP] = "a connection to",
								    [ATOLL_REFUSAL_UDP] = "a packet to",
								    [ATOLL_REFUSAL_PING] = "a ping of" };
	struct net_report *r = report;

	r->n_refused += refusal->kind < ATOLL_REFUSAL_MORE;
	if (refusal->kind == ATOLL_REFUSAL_LOST)
		message_warning("the gateway to the network was ended before the command");
	else if (r->cli->quiet)
		return;
	else if (refusal->kind == ATOLL_REFUSAL_MORE)
		message_error("refused by --net: and more");
	else if (refusal->count > 1)
		message_error("refused by --net: %s %s, %u times", what[refusal->kind], refusal->what,
			      (unsigned)refusal->count);
	else
		message_error("refused by --net: %s %s", what[refusal->kind], refusal->what);
}
