/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atoll shell: atoll run with the user's shell as the command.
 *
 * At a terminal, Atoll makes the shell mark its prompt. For each kind of shell it uses environment
 * variables or command line arguments that the shell reads after the user's own files, and it does
 * not change those files. If the user's files set the same variable, the prompt has no mark.
 */
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/message.h"
#include "cli/quote.h"
#include "cli/resolve.h"
#include "cli/shell.h"

#define SHOWN_RESOURCES 5

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_kind(const char *shell, const char *name)
{
	const char *base = base_name(shell);

	return strcmp(base, name) == 0 || (strncmp(base, name, strlen(name)) == 0 && base[strlen(name)] == '-');
}

static const char *find_shell(void)
{
	const char *shell = getenv("SHELL");

	return shell && *shell == '/' ? shell : "/bin/sh";
}

/* ---- the mark ---- */

/*
 * The shell evaluates this before each prompt, so after it has read all of the user's files. It
 * marks the prompt once. It does not export its own variable, so shells that the user starts inside
 * do not inherit it.
 */
#define BASH_MARK "[ -n \"${atoll_marked-}\" ] || { PS1=\"(atoll $ATOLL_SANDBOX) $PS1\"; atoll_marked=1; }"

#define FISH_MARK                                                                        \
	"functions -q fish_prompt; and functions -c fish_prompt atoll_unmarked_prompt; " \
	"function fish_prompt; set -l s $status; echo -n \"(atoll $ATOLL_SANDBOX) \"; "  \
	"functions -q atoll_unmarked_prompt; and begin; sh -c \"exit $s\"; atoll_unmarked_prompt; end; end"

static void mark_bash(void)
{
	const char *old = getenv("PROMPT_COMMAND");
	AUTO_FREE char *both = str_format("%s%s%s", BASH_MARK, old && *old ? "; " : "", old ? old : "");

	if (both)
		setenv("PROMPT_COMMAND", both, 1);
}

/* Users' files often set the prompt, but seldom the right prompt: set both. */
static void mark_zsh(const char *name)
{
	AUTO_FREE char *prompt = str_format("(atoll %s) %%m%%# ", name);
	AUTO_FREE char *right = str_format("(atoll %s)", name);

	if (prompt && right) {
		setenv("PS1", prompt, 1);
		setenv("RPS1", right, 1);
	}
}

static void mark_sh(const char *name)
{
	const char *old = getenv("PS1");
	AUTO_FREE char *mark = str_format("(atoll %s) %s", name, old ? old : geteuid() == 0 ? "# " : "$ ");

	if (mark)
		setenv("PS1", mark, 1);
}

/* ---- the banner ---- */

static void print_banner(struct cli *cli, const char *name)
{
	AUTO_INFO *info = NULL;
	struct atoll_error ignored;

	if (cli->quiet || atoll_show(cli->a, name, &info, &ignored) < 0)
		return;
	message_error("a shell in the sandbox \"%s\", which holds:", name);
	for (size_t i = 0; i < info->n_resources && i < SHOWN_RESOURCES; i++) {
		AUTO_STRBUF path = STRBUF_INIT;

		quote_name(&path, "", info->resources[i].path, "");
		message_error("  %s", strbuf_str(&path));
	}
	if (info->n_resources > SHOWN_RESOURCES)
		message_error("  and %zu more", info->n_resources - SHOWN_RESOURCES);
	message_error("changes there stay inside; \"exit\" leaves it, and then: atoll diff %s", name);
}

/* The environment is marked only once. */
static void mark(const char *shell, const char *name)
{
	static bool is_marked;

	if (is_marked)
		return;
	is_marked = true;
	if (is_kind(shell, "bash"))
		mark_bash();
	else if (is_kind(shell, "zsh"))
		mark_zsh(name);
	else if (!is_kind(shell, "fish"))
		mark_sh(name);
}

static void before_shell(struct cli *cli, const struct atoll_info *info)
{
	mark(find_shell(), info->name);
	print_banner(cli, info->name);
}

size_t shell_command(struct cli *cli, char *argv[SHELL_WORDS])
{
	const char *shell = find_shell();
	size_t n = 0;

	argv[n++] = (char *)shell;
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		cli->before_run = before_shell;
		if (is_kind(shell, "fish")) {
			argv[n++] = "-C";
			argv[n++] = FISH_MARK;
		}
	}
	argv[n] = NULL;
	return n;
}

int cmd_shell(struct cli *cli, const struct options *o)
{
	char *argv[SHELL_WORDS];
	struct options with = *o;

	with.n_rest = shell_command(cli, argv);
	with.rest = argv;
	return cmd_run(cli, &with);
}
