/* SPDX-License-Identifier: Apache-2.0 */
/* atoll new: make a sandbox. */
#include "base/json.h"
#include "cli/cost.h"
#include "cli/info.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/resolve.h"
#include "cli/resources.h"
#include "cli/settings.h"

/* What is uncommitted in a repository stays out unless it is asked for. */
static void tell_left_out(const struct cli *cli, const struct atoll_info *info)
{
	for (size_t i = 0; i < info->n_resources && !cli->quiet; i++) {
		const struct atoll_resource_info *r = &info->resources[i];
		AUTO_STRBUF path = STRBUF_INIT;

		if (r->kind != ATOLL_KIND_GIT || !r->detail)
			continue;
		strbuf_add_quoted(&path, r->path);
		message_error("\"%s\" begins with %s; --dirty takes along what is not committed", strbuf_str(&path),
			      r->detail);
	}
}

int cmd_new(struct cli *cli, const struct options *o)
{
	CLEANUP(settings_resources_release) struct settings_resources resources = { 0 };
	AUTO_FREE struct atoll_resource_spec *given = NULL;
	AUTO_SETTINGS *settings = NULL;
	AUTO_SETTINGS *config = NULL;
	AUTO_INFO *info = NULL;
	struct atoll_new_options options = { .cost = cost_tell, .cost_arg = cli };
	struct atoll_error err;
	size_t n_given;
	int r;

	if (settings_of_options(o, &settings, &err) < 0)
		return message_usage(cli->command, "%s", err.message);
	r = resources_of_options(cli, o, &given, &n_given);
	if (r != 0)
		return r;
	if (settings_of_config(o, &config, &err) < 0 ||
	    settings_kept_home(config, settings, given, n_given, &resources, &err) < 0)
		return message_fail(cli, &err);
	if (resources.n == 0)
		return message_usage(cli->command, "nothing to hold: give at least one --dir, --file, --git or --db");
	options.resources = resources.v;
	options.n_resources = resources.n;
	options.name = o->n_operands > 0 ? o->operands[0] : NULL;
	options.settings = settings;
	options.durable_workspace = options_has(o, "durable-workspace");
	if (interrupt_new(cli, &options, &info, &err) < 0)
		return interrupt_status(message_fail(cli, &err));
	tell_left_out(cli, info);
	if (options_has(o, "json")) {
		struct json j;

		message_json_begin(&j);
		info_json(&j, info);
		json_finish(&j);
	} else {
		printf("%s\n", info->name);
	}
	return 0;
}
