/* SPDX-License-Identifier: Apache-2.0 */
/* atoll attach: a detached run as if it were in the foreground, until its end or until the user goes. */
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/message.h"
#include "cli/runs.h"

#define KEYS_MAX 8

static struct {
	struct atoll *a;
	const char *name;
	sigset_t signals;
	int64_t run;
} attached;

/* Ctrl-C is for the command, as if it were in the foreground. */
static void pass_signals_on(void)
{
	struct timespec now = { 0, 0 };
	int sig;

	while ((sig = sigtimedwait(&attached.signals, NULL, &now)) > 0)
		(void)atoll_kill(attached.a, attached.name,
				 &(struct atoll_kill_options){ .run = attached.run, .signal = sig }, NULL, NULL);
}

static int print_attached(const char *data, size_t size, void *arg)
{
	pass_signals_on();
	return size > 0 ? runs_print(data, size, arg) : 0;
}

/* "ctrl-p,ctrl-q", "x": as docker writes them. */
static bool parse_keys(const char *text, char keys[KEYS_MAX + 1])
{
	size_t n = 0;

	while (*text && n < KEYS_MAX) {
		bool control = strncmp(text, "ctrl-", 5) == 0 && text[5];
		char c = text[control ? 5 : 0];

		if (control && !((c >= 'a' && c <= 'z') || strchr("@[\\]^_", c)))
			return false;
		keys[n++] = (char)(control ? c & 0x1f : c);
		text += control ? 6 : 1;
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return false;
	}
	keys[n] = '\0';
	return !*text && strlen(keys) == n;
}

/* Keys go to the command's terminal as they are. */
static bool make_raw(const struct atoll_run_info *run, int input, struct termios *ret_before)
{
	struct termios raw;

	if (!run->tty || !run->running || input < 0 || tcgetattr(input, ret_before) < 0)
		return false;
	raw = *ret_before;
	cfmakeraw(&raw);
	return tcsetattr(input, TCSADRAIN, &raw) == 0;
}

static int attach(struct cli *cli, const struct options *o, const char *keys, struct atoll_run_info *run,
		  bool *ret_detached, struct atoll_error *err)
{
	struct atoll_attach_options options = {
		.run = run->number, .input = -1, .detach_keys = keys, .output = print_attached
	};
	struct termios before;
	bool raw;
	int r;

	if (run->interactive && run->running && !options_has(o, "no-stdin"))
		options.input = STDIN_FILENO;
	raw = make_raw(run, options.input, &before);
	r = atoll_attach(cli->a, o->operands[0], &options, ret_detached, err);
	if (raw)
		(void)tcsetattr(options.input, TCSADRAIN, &before);
	return r;
}

static void block_signals(void)
{
	sigemptyset(&attached.signals);
	sigaddset(&attached.signals, SIGINT);
	sigaddset(&attached.signals, SIGTERM);
	sigaddset(&attached.signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &attached.signals, NULL);
}

int cmd_attach(struct cli *cli, const struct options *o)
{
	const char *given = options_value(o, "detach-keys");
	char keys[KEYS_MAX + 1];
	struct atoll_run_info run;
	struct atoll_error err;
	bool detached = false;
	int64_t number;

	if (!runs_operand(cli, o, &number))
		return atoll_code_exit_status(ATOLL_INVALID);
	/* What comes from a file or a pipe may hold any bytes. */
	if (!parse_keys(given ? given : isatty(STDIN_FILENO) ? "ctrl-p,ctrl-q" : "", keys))
		return message_usage(cli->command, "keys to detach are up to %d, as in ctrl-p,ctrl-q or x", KEYS_MAX);
	if (runs_find(cli, o->operands[0], number, &run, &err) < 0)
		return message_fail(cli, &err);
	attached.a = cli->a;
	attached.name = o->operands[0];
	attached.run = run.number;
	block_signals();
	if (attach(cli, o, keys, &run, &detached, &err) < 0)
		return message_fail(cli, &err);
	if (detached) {
		if (!cli->quiet)
			message_error("detached from run %lld, which goes on", (long long)run.number);
		return 0;
	}
	if (runs_find(cli, o->operands[0], run.number, &run, &err) < 0)
		return message_fail(cli, &err);
	if (run.lost)
		message_error("run %lld was killed together with its keeper", (long long)run.number);
	return run.lost ? 128 + SIGKILL : run.exit_status;
}
