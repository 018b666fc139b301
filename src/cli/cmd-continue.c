/* SPDX-License-Identifier: Apache-2.0 */
/* atoll continue: runs atoll run, or atoll shell, in the latest used sandbox of the current
 * directory. */
#include "base/strbuf.h"
#include "cli/here.h"
#include "cli/message.h"
#include "cli/resolve.h"

int cmd_continue(struct cli *cli, const struct options *o)
{
	AUTO_INFO *info = NULL;
	struct options with = *o;
	struct atoll_error err;
	char *operands[2] = { NULL, NULL };

	if (here_latest(cli, &info, &err) < 0)
		return message_fail(cli, &err);
	operands[0] = info->name;
	with.operands = operands;
	with.n_operands = 1;
	if (!cli->quiet)
		message_error("in the sandbox \"%s\"", info->name);
	return o->n_rest > 0 || options_has(o, "explain") ? cmd_run(cli, &with) : cmd_shell(cli, &with);
}
