/* SPDX-License-Identifier: Apache-2.0 */
/* The atoll command: options, then one of the commands of the table. */
#include <string.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/sqlite-settings.h"
#include "cli/status.h"

static void handle_release(struct atoll **a)
{
	*a = atoll_close(*a);
}

/* The state directory may stand before or behind the command; the latter is nearer. */
static const char *find_state_dir(const struct options *before, const struct options *behind)
{
	const char *dir = options_value(behind, "state-dir");

	return dir ? dir : options_value(before, "state-dir");
}

static int check_operands(const struct command *command, const struct options *o)
{
	size_t n = o->n_operands + (command->takes_command ? 0 : o->n_rest);

	if (n < command->min_operands)
		return message_usage(command, "%s is missing", command->operands);
	if (n > command->max_operands) {
		const char *word = o->n_operands > command->max_operands
					   ? o->operands[command->max_operands]
					   : o->rest[command->max_operands - o->n_operands];
		AUTO_FREE char *quoted = str_quote(word);

		return message_usage(command, "unexpected \"%s\"%s", quoted ? quoted : "",
				     command->hint ? command->hint : "");
	}
	return 0;
}

/* Operands after "--" are operands all the same, unless they are a command. */
static void merge_rest(const struct command *command, struct options *o)
{
	if (command->takes_command || command->completion == COMPLETE_SANDBOX_OR_FILE)
		return;
	for (size_t i = 0; i < o->n_rest; i++)
		o->operands[o->n_operands++] = o->rest[i];
	o->n_rest = 0;
}

static int run_command(const struct command *command, const struct options *before, struct options *o)
{
	CLEANUP(handle_release) struct atoll *a = NULL;
	struct cli cli = { .command = command, .quiet = options_has(before, "quiet") || options_has(o, "quiet") };
	struct atoll_options options = { .state_dir = find_state_dir(before, o) };
	struct atoll_error err;
	int status = check_operands(command, o);

	if (status != 0)
		return status;
	merge_rest(command, o);
	if (!command->needs_no_state && atoll_open(&options, &a, &err) < 0)
		return message_fail(&cli, &err);
	cli.a = a;
	if (!command->starts_command)
		output_ignore_sigpipe();
	return command->run(&cli, o);
}

/* Called before the options are parsed: a parse error has a JSON form too. */
static bool is_json_given(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static bool wants_json(const struct command *command, const struct options *o)
{
	for (const struct option_spec *spec = command->options; spec && spec->name; spec++)
		if (strcmp(spec->name, "json") == 0)
			return options_has(o, "json");
	return false;
}

static int parse_and_run(int argc, char **argv, const struct options *before)
{
	const struct command *command = commands_find(argv[0]);
	AUTO_FREE char *quoted = str_quote(argv[0]);
	char message[OPTIONS_MESSAGE_SIZE];
	AUTO_OPTIONS o = { 0 };

	if (!command)
		return message_usage(NULL, "unknown command \"%s\"", quoted ? quoted : "");
	if (options_parse(argc, argv, command->options, commands_common, false, &o, message) < 0)
		return message_usage(command, "%s%s", message,
				     command->takes_command && command->hint ? command->hint : "");
	if (options_has(&o, "help") || options_has(before, "help")) {
		help_print_command(command, stdout);
		return 0;
	}
	message_json_want(wants_json(command, &o));
	return run_command(command, before, &o);
}

/* Without a command: prints the status if a sandbox concerns the current directory. */
static int run_without_command(const struct options *before)
{
	CLEANUP(handle_release) struct atoll *a = NULL;
	struct cli cli = { .command = commands_find("status"), .quiet = options_has(before, "quiet") };
	struct atoll_options options = { .state_dir = options_value(before, "state-dir") };
	struct atoll_error ignored;
	size_t n = 0;
	int status = 0;

	output_ignore_sigpipe();
	if (atoll_open(&options, &a, &ignored) >= 0) {
		cli.a = a;
		status = status_print(&cli, false, &n);
	}
	if (n > 0 || status != 0)
		return status;
	status = message_usage(NULL, "a command is missing");
	message_error("no sandbox holds this directory or something below it; atoll run -- COMMAND makes one");
	return status;
}

static int start(int argc, char **argv)
{
	char message[OPTIONS_MESSAGE_SIZE];
	AUTO_OPTIONS before = { 0 };

	if (options_parse(argc, argv, commands_global, commands_common, true, &before, message) < 0)
		return message_usage(NULL, "%s", message);
	if (options_has(&before, "version")) {
		printf("atoll %s\n", atoll_version());
		return 0;
	}
	if (before.next < argc)
		return parse_and_run(argc - before.next, argv + before.next, &before);
	if (!options_has(&before, "help"))
		return run_without_command(&before);
	help_print_overview(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	output_init();
	sqlite_settings_init();
	if (argc < 1)
		return atoll_code_exit_status(ATOLL_INVALID);
	message_json_want(is_json_given(argc, argv));
	return output_finish(message_json_finish(start(argc, argv)));
}
