/* SPDX-License-Identifier: Apache-2.0 */
/* atoll shell: atoll run with the user's shell as the command. */
#include <stdlib.h>

#include "cli/commands.h"

int cmd_shell(struct cli *cli, const struct options *o)
{
	const char *shell = getenv("SHELL");
	char *argv[] = { (char *)(shell && *shell == '/' ? shell : "/bin/sh"), NULL };
	struct options with = *o;

	with.rest = argv;
	with.n_rest = 1;
	return cmd_run(cli, &with);
}
