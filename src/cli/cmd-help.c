/* SPDX-License-Identifier: Apache-2.0 */
/* atoll help: a command or a topic. */
#include "cli/help.h"
#include "cli/message.h"

int cmd_help(struct cli *cli, const struct options *o)
{
	const char *name = o->n_operands > 0 ? o->operands[0] : NULL;
	AUTO_FREE char *quoted = str_quote(name ? name : "");

	if (!name)
		help_print_overview(stdout);
	else if (commands_find(name))
		help_print_command(commands_find(name), stdout);
	else if (topics_find(name))
		help_print_topic(topics_find(name), stdout);
	else
		return message_usage(NULL, "there is no command or topic \"%s\"", quoted ? quoted : "");
	return 0;
}
