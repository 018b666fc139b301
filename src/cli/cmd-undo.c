/* SPDX-License-Identifier: Apache-2.0 */
/* atoll undo: undoes the latest commit and keeps the edits. atoll rollback: drops the edits,
 * with --landed also edits that have landed. */
#include <string.h>

#include "base/strbuf.h"
#include "cli/here.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/resolve.h"

typedef int take_back_fn(struct atoll *a, const char *name, const struct atoll_undo_options *options,
			 struct atoll_result **ret, struct atoll_error *err);

static void add_ago(struct strbuf *s, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		int64_t n = seconds / units[i].seconds;

		if (n == 0 && i + 1 < ARRAY_SIZE(units))
			continue;
		strbuf_addf(s, "%lld %s%s ago", (long long)n, units[i].name, n == 1 ? "" : "s");
		return;
	}
}

/* The user named no sandbox, so say which commit the command is about to undo. */
static void tell(const struct cli *cli, const struct options *o, const struct atoll_info *info, int64_t ago)
{
	AUTO_STRBUF text = STRBUF_INIT;

	for (size_t i = 0; i < info->n_resources; i++) {
		strbuf_adds(&text, i ? ", \"" : "\"");
		strbuf_add_quoted(&text, info->resources[i].path);
		strbuf_addc(&text, '"');
	}
	strbuf_adds(&text, ", landed ");
	add_ago(&text, ago);
	if (!cli->quiet && !options_has(o, "json"))
		message_error("taking back the latest commit of the sandbox \"%s\" (%s)", info->name,
			      strbuf_str(&text));
}

/* Finds the sandbox for a command without a name: for an undo, that of the latest landing here,
 * if there is one; otherwise, and for a rollback, the only sandbox. */
static int find(struct cli *cli, const struct options *o, bool undo, struct atoll_info **ret, struct atoll_error *err)
{
	int64_t ago = 0;
	int r = undo ? here_latest_landing(cli, ret, &ago, err) : 0;

	if (r == 0)
		return resolve_sandbox(cli, NULL, ret, err);
	if (r > 0)
		tell(cli, o, *ret, ago);
	return r;
}

static int take_back(struct cli *cli, const struct options *o, bool landed, take_back_fn *fn)
{
	struct atoll_undo_options options = { .progress = progress_update, .landed = landed };
	const char *name = o->n_operands > 0 ? o->operands[0] : NULL;
	AUTO_FREE const char **only = calloc(o->n_uses + 1, sizeof *only);
	AUTO_INFO *info = NULL;
	AUTO_PROGRESS progress = { 0 };
	AUTO_RESULT *result = NULL;
	struct atoll_error err;
	int r;

	if (!only)
		return message_oom(cli);
	for (size_t i = 0; i < o->n_uses; i++)
		if (strcmp(o->uses[i].spec->name, "only") == 0)
			only[options.n_only++] = o->uses[i].value;
	options.only = only;
	progress_init(&progress, cli->quiet);
	options.progress_arg = &progress;
	if (!resolve_wait(cli, o, &options.wait_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	/* Whether there is one of that name is found out on the way. */
	if (!name && find(cli, o, fn == atoll_undo, &info, &err) < 0)
		return message_fail(cli, &err);
	if (resolve_end_runs(cli, o, name ? name : info->name, &options.wait_ms, &err) < 0)
		return message_fail(cli, &err);
	r = fn(cli->a, name ? name : info->name, &options, &result, &err);
	progress_clear(&progress);
	return report_result(cli, r, result, &err, stdout, options_has(o, "json"));
}

int cmd_undo(struct cli *cli, const struct options *o)
{
	return take_back(cli, o, false, atoll_undo);
}

int cmd_rollback(struct cli *cli, const struct options *o)
{
	return take_back(cli, o, options_has(o, "landed"), atoll_rollback);
}
