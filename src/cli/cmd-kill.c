/* SPDX-License-Identifier: Apache-2.0 */
/* atoll kill: end commands that run inside. */
#include <signal.h>
#include <string.h>

#include "cli/message.h"
#include "cli/runs.h"

#define GRACE_MS 10000

/* "TERM", "SIGTERM" or "15"; 0 if there is none. */
static int find_signal(const char *text)
{
	if (strncmp(text, "SIG", 3) == 0)
		text += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *name = sigabbrev_np(i);
		char number[8];

		snprintf(number, sizeof(number), "%d", i);
		if ((name && strcmp(name, text) == 0) || strcmp(number, text) == 0)
			return i;
	}
	return 0;
}

static bool read_options(struct cli *cli, const struct options *o, struct atoll_kill_options *ret)
{
	const char *sig = options_value(o, "signal"), *grace = options_value(o, "grace");

	if (sig) {
		ret->signal = find_signal(sig);
		if (ret->signal == 0) {
			message_usage(cli->command, "there is no signal \"%.40s\"", sig);
			return false;
		}
	}
	if (grace && options_seconds(grace, &ret->grace_ms) < 0) {
		message_usage(cli->command, "--grace wants a number of seconds");
		return false;
	}
	return true;
}

int cmd_kill(struct cli *cli, const struct options *o)
{
	struct atoll_kill_options options = { .grace_ms = GRACE_MS };
	struct atoll_error err;
	int status = 0;
	size_t n = 0;

	if (!read_options(cli, o, &options))
		return atoll_code_exit_status(ATOLL_INVALID);
	for (size_t i = 1; i < o->n_operands; i++)
		if (!runs_number(cli, o->operands[i], &options.run))
			return atoll_code_exit_status(ATOLL_INVALID);
	if (o->n_operands == 1) {
		if (atoll_kill(cli->a, o->operands[0], &options, &n, &err) < 0)
			return message_fail(cli, &err);
		if (n == 0 && !cli->quiet)
			message_error("nothing runs in the sandbox \"%s\"", o->operands[0]);
	}
	for (size_t i = 1; i < o->n_operands; i++) {
		options.run = strtoll(o->operands[i], NULL, 10);
		if (atoll_kill(cli->a, o->operands[0], &options, &n, &err) < 0 && status == 0)
			status = message_fail(cli, &err);
	}
	return status;
}
