/* SPDX-License-Identifier: Apache-2.0 */
/* atoll commit: land the changes, all of them or none. */
#include <string.h>

#include "cli/locks.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/resolve.h"

/* Opening the registry to ask whether the first operand is a name takes as long as finding out on the way. True if it was one, and *ret_r
 * is what became of the commit; else nothing was done. */
static bool commit_by_name(struct cli *cli, const struct options *o, const struct atoll_commit_options *options,
			   int *ret_r, struct atoll_result **result, struct atoll_error *err)
{
	AUTO_TARGET target = { 0 };
	struct atoll_commit_options named = *options;

	if (options_has(o, "kill") || !resolve_presumed(o, &target))
		return false;
	named.selection = target.selection;
	*ret_r = atoll_commit(cli->a, o->operands[0], &named, result, err);
	if (*ret_r >= 0 || (err->code != ATOLL_NOT_FOUND && err->code != ATOLL_INVALID))
		return true;
	*result = atoll_result_free(*result);
	return false;
}

static int commit_target(struct cli *cli, const struct options *o, struct atoll_commit_options *options,
			 struct atoll_result **result, struct atoll_error *err)
{
	AUTO_TARGET target = { 0 };
	int r = resolve_target(cli, o, &target, err);

	if (r >= 0)
		r = resolve_end_runs(cli, o, target.info->name, &options->wait_ms, err);
	options->selection = target.selection;
	if (r >= 0)
		r = resolve_failed(cli, &target, atoll_commit(cli->a, target.info->name, options, result, err), err);
	if (r < 0 && *result)
		(*result)->error = *err;
	return r;
}

static enum atoll_on_conflict read_on_conflict(const char *word)
{
	if (word && strcmp(word, "ours") == 0)
		return ATOLL_ON_CONFLICT_OURS;
	return word && strcmp(word, "merge") == 0 ? ATOLL_ON_CONFLICT_MERGE : ATOLL_ON_CONFLICT_FAIL;
}

int cmd_commit(struct cli *cli, const struct options *o)
{
	struct atoll_commit_options options = {
		.message = options_value(o, "message"),
		.on_conflict = read_on_conflict(options_value(o, "on-conflict")),
		.dry_run = options_has(o, "dry-run"),
		.accept_unsynced = options_has(o, "accept-unsynced"),
		.allow_set_id = options_has(o, "allow-set-id"),
		.allow_outside_links = options_has(o, "allow-outside-links"),
		.permissive = options_has(o, "permissive"),
		.refs = options_has(o, "refs"),
		.progress = progress_update,
	};
	AUTO_PROGRESS progress = { 0 };
	AUTO_RESULT *result = NULL;
	AUTO_INFO *info = NULL;
	struct atoll_error err, ignored;
	int r;

	progress_init(&progress, cli->quiet);
	options.progress_arg = &progress;
	if (!resolve_wait(cli, o, &options.wait_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (!commit_by_name(cli, o, &options, &r, &result, &err))
		r = commit_target(cli, o, &options, &result, &err);
	progress_clear(&progress);
	/* What was not committed stays locked. */
	if ((r < 0 || options.dry_run) && result && result->sandbox)
		(void)atoll_show(cli->a, result->sandbox, &info, &ignored);
	if (info && !cli->quiet)
		locks_warn(info);
	return report_result_with(cli, r, result, info, &err, stdout, options_has(o, "json"));
}
