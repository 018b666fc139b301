/* SPDX-License-Identifier: Apache-2.0 */
/* atoll new: make a sandbox. */
#include <string.h>

#include "base/json.h"
#include "cli/cost.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/resolve.h"
#include "cli/settings.h"

/* The resources in the order given. */
static size_t collect(const struct options *o, struct atoll_resource_spec *specs)
{
	const char *strategy = options_value(o, "strategy");
	size_t n = 0;

	for (size_t i = 0; i < o->n_uses; i++) {
		const char *option = o->uses[i].spec->name;
		bool is_dir = strcmp(option, "dir") == 0;

		if (is_dir || strcmp(option, "file") == 0)
			specs[n++] = (struct atoll_resource_spec){ is_dir ? ATOLL_KIND_DIR : ATOLL_KIND_FILE,
								   o->uses[i].value, strategy };
	}
	return n;
}

int cmd_new(struct cli *cli, const struct options *o)
{
	CLEANUP(settings_resources_release) struct settings_resources resources = { 0 };
	AUTO_FREE struct atoll_resource_spec *given = calloc(o->n_uses + 1, sizeof(*given));
	AUTO_SETTINGS *settings = NULL;
	AUTO_SETTINGS *config = NULL;
	AUTO_INFO *info = NULL;
	struct atoll_new_options options = { .cost = cost_tell, .cost_arg = cli };
	struct atoll_error err;

	if (!given)
		return message_oom(cli);
	if (settings_of_options(o, &settings, &err) < 0)
		return message_usage(cli->command, "%s", err.message);
	if (settings_of_config(o, &config, &err) < 0 ||
	    settings_kept_home(config, settings, given, collect(o, given), &resources, &err) < 0)
		return message_fail(cli, &err);
	if (resources.n == 0)
		return message_usage(cli->command, "nothing to hold: give at least one --dir or --file");
	options.resources = resources.v;
	options.n_resources = resources.n;
	options.name = o->n_operands > 0 ? o->operands[0] : NULL;
	options.settings = settings;
	options.durable_workspace = options_has(o, "durable-workspace");
	if (atoll_new(cli->a, &options, &info, &err) < 0)
		return message_fail(cli, &err);
	if (options_has(o, "json")) {
		struct json j;

		json_init(&j, stdout, true);
		info_json(&j, info);
		json_finish(&j);
	} else {
		printf("%s\n", info->name);
	}
	return 0;
}
