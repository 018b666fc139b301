/* SPDX-License-Identifier: Apache-2.0 */
/* atoll show: everything known of one sandbox. */
#include "base/json.h"
#include "cli/discarded.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/resolve.h"

int cmd_show(struct cli *cli, const struct options *o)
{
	AUTO_INFO *info = NULL;
	struct atoll_error err;

	if (resolve_sandbox(cli, o->n_operands > 0 ? o->operands[0] : NULL, &info, &err) < 0)
		return message_fail(cli, &err);
	if (options_has(o, "json")) {
		struct json j;

		message_json_begin(&j);
		json_object(&j, NULL);
		info_json_members(&j, info);
		discarded_json(&j, cli, info->name);
		json_object_end(&j);
		json_finish(&j);
	} else {
		info_print(info, stdout);
		discarded_print(cli, info->name);
	}
	return 0;
}
