/* SPDX-License-Identifier: Apache-2.0 */
/* atoll generate: man pages and completion scripts, for the build. */
#include <string.h>

#include "cli/completion.h"
#include "cli/man-page.h"
#include "cli/message.h"

static int generate_man(struct cli *cli, const char *page)
{
	const struct command *command;

	if (strcmp(page, "atoll") == 0) {
		man_page_print_overview(stdout);
		return 0;
	}
	command = strncmp(page, "atoll-", 6) == 0 ? commands_find(page + 6) : NULL;
	if (!command || command->hidden)
		return message_usage(cli->command, "there is no such page");
	man_page_print_command(command, stdout);
	return 0;
}

int cmd_generate(struct cli *cli, const struct options *o)
{
	static const struct {
		const char *shell;
		void (*print)(FILE *out);
	} shells[] = { { "bash", completion_print_bash },
		       { "zsh", completion_print_zsh },
		       { "fish", completion_print_fish } };

	if (strcmp(o->operands[0], "man") == 0)
		return generate_man(cli, o->n_operands > 1 ? o->operands[1] : "atoll");
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		if (strcmp(o->operands[0], shells[i].shell) == 0) {
			shells[i].print(stdout);
			return 0;
		}
	}
	return message_usage(cli->command, "it generates man, bash, zsh or fish");
}
