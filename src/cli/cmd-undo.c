/* SPDX-License-Identifier: Apache-2.0 */
/* atoll undo: take the latest commit back, keeping the edits. atoll rollback: drop the edits; --landed: also those that have landed. */
#include <string.h>

#include "cli/message.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/resolve.h"

typedef int take_back_fn(struct atoll *a, const char *name, const struct atoll_undo_options *options,
			 struct atoll_result **ret, struct atoll_error *err);

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
	if (!name && resolve_sandbox(cli, NULL, &info, &err) < 0)
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
