/* SPDX-License-Identifier: Apache-2.0 */
/* atoll path: where other programs find the files of a sandbox. */
#include <stdlib.h>

#include "base/macros.h"
#include "cli/message.h"
#include "cli/resolve.h"

#define KEEP_ALIVE_MS (3600 * 1000)

int cmd_path(struct cli *cli, const struct options *o)
{
	const char *path = o->n_operands > 1 ? o->operands[1] : NULL;
	AUTO_FREE char *found = NULL;
	struct atoll_error err;
	int idle_ms = KEEP_ALIVE_MS;

	if (!resolve_keep_alive(cli, o, &idle_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (atoll_path(cli->a, o->operands[0], path, idle_ms, &found, &err) < 0)
		return message_fail(cli, &err);
	puts(found);
	return 0;
}
