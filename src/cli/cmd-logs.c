/* SPDX-License-Identifier: Apache-2.0 */
/* atoll logs: the output of a detached run. atoll attach: the same until its end, and its exit status. */
#include <signal.h>
#include <string.h>

#include "cli/message.h"
#include "cli/runs.h"

static int print(const char *data, size_t size, void *arg)
{
	(void)arg;
	return fwrite(data, 1, size, stdout) != size || fflush(stdout) != 0;
}

/* The run that is named, else the latest detached one. */
static int find_run(struct cli *cli, const struct options *o, struct atoll_run_info *ret, struct atoll_error *err)
{
	struct atoll_run_info *runs;
	int64_t wanted = o->n_operands > 1 ? strtoll(o->operands[1], NULL, 10) : 0;
	size_t n;
	int r = atoll_runs(cli->a, o->operands[0], &runs, &n, err);

	if (r < 0)
		return r;
	*ret = (struct atoll_run_info){ .number = wanted };
	for (size_t i = 0; i < n; i++) {
		if (wanted ? runs[i].number == wanted : runs[i].detached) {
			*ret = runs[i];
			break;
		}
	}
	atoll_runs_free(runs, n);
	return 0;
}

static bool check_operands(struct cli *cli, const struct options *o)
{
	int64_t number;

	return o->n_operands < 2 || runs_number(cli, o->operands[1], &number);
}

int cmd_logs(struct cli *cli, const struct options *o)
{
	struct atoll_run_info run;
	struct atoll_error err;

	if (!check_operands(cli, o))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (find_run(cli, o, &run, &err) < 0 ||
	    atoll_output(cli->a, o->operands[0], run.number, options_has(o, "follow"), print, NULL, &err) < 0)
		return message_fail(cli, &err);
	return 0;
}

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
	return size > 0 ? print(data, size, arg) : 0;
}

int cmd_attach(struct cli *cli, const struct options *o)
{
	struct atoll_run_info run;
	struct atoll_error err;

	if (!check_operands(cli, o))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (find_run(cli, o, &run, &err) < 0)
		return message_fail(cli, &err);
	attached.a = cli->a;
	attached.name = o->operands[0];
	attached.run = run.number;
	sigemptyset(&attached.signals);
	sigaddset(&attached.signals, SIGINT);
	sigaddset(&attached.signals, SIGTERM);
	sigaddset(&attached.signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &attached.signals, NULL);
	if (atoll_output(cli->a, o->operands[0], run.number, true, print_attached, NULL, &err) < 0 ||
	    find_run(cli, o, &run, &err) < 0)
		return message_fail(cli, &err);
	if (run.lost)
		message_error("run %lld was killed together with its keeper", (long long)run.number);
	return run.lost ? 128 + SIGKILL : run.exit_status;
}
