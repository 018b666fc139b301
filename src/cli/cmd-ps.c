/* SPDX-License-Identifier: Apache-2.0 */
/* atoll ps: the commands of a sandbox. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/quote.h"
#include "cli/runs.h"

/* A running command has no exit status yet, and that of a lost run is unknown. */
static void put_end(struct json *j, const struct atoll_run_info *run)
{
	if (run->running || run->lost) {
		json_null(j, "exit_status");
		json_null(j, "signal");
		return;
	}
	json_int(j, "exit_status", run->exit_status);
	json_int(j, "signal", run->signal);
}

static void print_json(const struct atoll_run_info *runs, size_t n, bool all)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		if (!all && !runs[i].running)
			continue;
		json_object(&j, NULL);
		json_int(&j, "run", runs[i].number);
		json_array(&j, "command");
		for (char **arg = runs[i].argv; *arg; arg++)
			json_string(&j, NULL, *arg);
		json_array_end(&j);
		json_bool(&j, "command_cut", runs[i].cut);
		json_string(&j, "state", runs_state(&runs[i]));
		json_bool(&j, "detached", runs[i].detached);
		json_bool(&j, "logged", runs[i].logged);
		json_bool(&j, "interactive", runs[i].interactive);
		json_bool(&j, "tty", runs[i].tty);
		json_string(&j, "started_at", runs[i].started_at);
		json_string(&j, "ended_at", runs[i].ended_at);
		json_int(&j, "pid", runs[i].pid);
		put_end(&j, &runs[i]);
		json_int(&j, "elapsed_ns", runs[i].elapsed_ns);
		json_int(&j, "user_ns", runs[i].user_ns);
		json_int(&j, "system_ns", runs[i].system_ns);
		json_int(&j, "max_rss", runs[i].max_rss);
		json_int(&j, "discarded", (int64_t)runs[i].discarded);
		json_int(&j, "temporary", (int64_t)runs[i].temporary);
		json_bool(&j, "discards_more", runs[i].discards_more);
		json_bool(&j, "discards_unknown", runs[i].discards_unknown);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_finish(&j);
}

static void print_row(const struct atoll_run_info *r)
{
	AUTO_STRBUF command = STRBUF_INIT;
	AUTO_STRBUF state = STRBUF_INIT;
	char time[INFO_TIME_SIZE];

	for (char **arg = r->argv; *arg; arg++) {
		if (command.size)
			strbuf_addc(&command, ' ');
		quote_name(&command, "", *arg, "");
	}
	if (r->cut)
		strbuf_adds(&command, "…");
	strbuf_adds(&state, runs_state(r));
	if (strcmp(strbuf_str(&state), "exited") == 0)
		strbuf_addf(&state, " %d", r->exit_status);
	if (strcmp(strbuf_str(&state), "killed") == 0)
		strbuf_addf(&state, " by %d", r->signal);
	if (r->detached)
		strbuf_adds(&state, ", detached");
	if (r->discarded > 0)
		strbuf_addf(&state, ", %s%" PRIu64 " discarded", r->discards_more ? "at least " : "", r->discarded);
	printf("%5" PRId64 "  %-18s  %-19s  %8.1fs  %7" PRId64 "K  %s\n", r->number, strbuf_str(&state),
	       info_time(r->started_at, time), (double)r->elapsed_ns / 1e9, r->max_rss / 1024, strbuf_str(&command));
}

int cmd_ps(struct cli *cli, const struct options *o)
{
	bool all = options_has(o, "all");
	struct atoll_run_info *runs;
	struct atoll_error err;
	size_t n, shown = 0;

	if (atoll_runs(cli->a, o->n_operands > 0 ? o->operands[0] : NULL, &runs, &n, &err) < 0)
		return message_fail(cli, &err);
	if (options_has(o, "json"))
		print_json(runs, n, all);
	for (size_t i = n; i-- > 0 && !options_has(o, "json");) {
		if (!all && !runs[i].running)
			continue;
		if (cli->quiet)
			printf("%" PRId64 "\n", runs[i].number);
		else if (shown++ == 0)
			printf("%5s  %-18s  %-19s  %9s  %8s  %s\n", "RUN", "STATE", "STARTED", "TIME", "MEMORY",
			       "COMMAND");
		if (!cli->quiet)
			print_row(&runs[i]);
	}
	atoll_runs_free(runs, n);
	return 0;
}
