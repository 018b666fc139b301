/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands. Dispatch, help, usage errors, man pages and shell completions all come from it; to add a
 * command, write cmd-NAME.c, declare its function here, and give it a row in commands.c and a word in meson.build.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "cli/options.h"

struct atoll;
struct atoll_info;
struct cli;
struct command;

/* What every command gets. */
struct cli {
	struct atoll *a; /* open, unless the command says it needs none */
	const struct command *command;
	bool quiet;
	/* For atoll run: NULL, or called after the sandbox is made and before the command
	 * starts. Only the name in info is certain to be set. */
	void (*before_run)(struct cli *cli, const struct atoll_info *info);
};

struct command {
	const char *name;
	int (*run)(struct cli *cli, const struct options *o); /* returns the exit status */
	const char *operands;                                 /* as in the usage line: "[NAME] [PATH…]" */
	size_t min_operands, max_operands;
	const char *hint;                  /* NULL, or what to say of words and options that do not belong here */
	enum option_completion completion; /* of the operands */
	bool takes_command;                /* words after "--" are a command to run; else they are further operands */
	bool starts_command;               /* SIGPIPE stays for it as it is */
	const char *alias;                 /* NULL, or another name */
	bool needs_no_state;               /* works without a state directory */
	bool hidden;                       /* not listed */
	int failure_status;                /* exit status if Atoll itself fails; 0: that of the error's code */
	const char *summary;               /* one line, without a full stop */
	const char *description;           /* paragraphs, separated by empty lines */
	const char *examples;              /* lines "command # what it does" */
	const struct option_spec *options;
};

/* Options that stand before the command, and those that every command takes too. */
extern const struct option_spec commands_global[], commands_common[];

const struct command *commands_at(size_t i); /* NULL past the end */
const struct command *commands_find(const char *name);

int cmd_new(struct cli *cli, const struct options *o);
int cmd_run(struct cli *cli, const struct options *o);
int cmd_continue(struct cli *cli, const struct options *o);
int cmd_ps(struct cli *cli, const struct options *o);
int cmd_kill(struct cli *cli, const struct options *o);
int cmd_logs(struct cli *cli, const struct options *o);
int cmd_attach(struct cli *cli, const struct options *o);
int cmd_path(struct cli *cli, const struct options *o);
int cmd_diff(struct cli *cli, const struct options *o);
int cmd_commit(struct cli *cli, const struct options *o);
int cmd_undo(struct cli *cli, const struct options *o);
int cmd_rollback(struct cli *cli, const struct options *o);
int cmd_rm(struct cli *cli, const struct options *o);
int cmd_list(struct cli *cli, const struct options *o);
int cmd_status(struct cli *cli, const struct options *o);
int cmd_shell(struct cli *cli, const struct options *o);
int cmd_show(struct cli *cli, const struct options *o);
int cmd_log(struct cli *cli, const struct options *o);
int cmd_recover(struct cli *cli, const struct options *o);
int cmd_doctor(struct cli *cli, const struct options *o);
int cmd_config(struct cli *cli, const struct options *o);
int cmd_help(struct cli *cli, const struct options *o);
int cmd_generate(struct cli *cli, const struct options *o);

#endif
