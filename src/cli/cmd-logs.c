/* SPDX-License-Identifier: Apache-2.0 */
/* atoll logs: the output of a run. */
#include <string.h>

#include "cli/message.h"
#include "cli/runs.h"

int cmd_logs(struct cli *cli, const struct options *o)
{
	struct atoll_run_info run;
	struct atoll_error err;
	int64_t number;

	if (!runs_operand(cli, o, &number))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (runs_find(cli, o->operands[0], number, &run, &err) < 0 ||
	    atoll_output(cli->a, o->operands[0], run.number, options_has(o, "follow"), runs_print, NULL, &err) < 0)
		return message_fail(cli, &err);
	return 0;
}
