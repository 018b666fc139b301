/* SPDX-License-Identifier: Apache-2.0 */
/* atoll commit: land the changes, all of them or none. */
#include <string.h>

#include "cli/message.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/resolve.h"

int cmd_commit(struct cli *cli, const struct options *o)
{
	const char *on_conflict = options_value(o, "on-conflict");
	struct atoll_commit_options options = {
		.message = options_value(o, "message"),
		.on_conflict = on_conflict && strcmp(on_conflict, "ours") == 0 ? ATOLL_ON_CONFLICT_OURS
									       : ATOLL_ON_CONFLICT_FAIL,
		.dry_run = options_has(o, "dry-run"),
		.accept_unsynced = options_has(o, "accept-unsynced"),
		.allow_set_id = options_has(o, "allow-set-id"),
		.allow_outside_links = options_has(o, "allow-outside-links"),
		.permissive = options_has(o, "permissive"),
		.progress = progress_update,
	};
	AUTO_TARGET target = { 0 };
	AUTO_PROGRESS progress = { 0 };
	AUTO_RESULT *result = NULL;
	struct atoll_error err;
	int r;

	progress_init(&progress, cli->quiet);
	options.progress_arg = &progress;
	if (!resolve_wait(cli, o, &options.wait_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (resolve_target(cli, o, &target, &err) < 0)
		return message_fail(cli, &err);
	options.selection = target.selection;
	if (resolve_end_runs(cli, o, target.info->name, &options.wait_ms, &err) < 0)
		return message_fail(cli, &err);
	r = atoll_commit(cli->a, target.info->name, &options, &result, &err);
	progress_clear(&progress);
	return report_result(cli, target.info, r, result, &err, stdout, options_has(o, "json"));
}
