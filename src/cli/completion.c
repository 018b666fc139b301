/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <atoll/atoll.h>

#include <string.h>

#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/topics.h"

static const struct command *visible_at(size_t *i)
{
	while (commands_at(*i) && commands_at(*i)->hidden)
		(*i)++;
	return commands_at(*i);
}

/* The words that an argument or operand may be, where they are known beforehand. */
static void add_words(struct strbuf *s, enum option_completion completion, const char *values)
{
	const struct command *c;

	if (completion == COMPLETE_WORDS && values)
		strbuf_adds(s, values);
	for (size_t i = 0; completion == COMPLETE_STRATEGY && atoll_strategy_name(i); i++)
		strbuf_addf(s, "%s%s", i > 0 ? " " : "", atoll_strategy_name(i));
	if (completion != COMPLETE_TOPIC)
		return;
	for (size_t i = 0; (c = visible_at(&i)); i++)
		strbuf_addf(s, "%s%s", s->size > 0 ? " " : "", c->name);
	for (size_t i = 0; topics_at(i); i++)
		strbuf_addf(s, " %s", topics_at(i)->name);
}

/* In single quotes for any of the shells: a quote inside is left out, help texts can do without. */
static void put_quoted(FILE *out, const char *text, const char *unwanted)
{
	putc('\'', out);
	for (; *text; text++)
		if (*text != '\'' && !strchr(unwanted, *text))
			putc(*text, out);
	putc('\'', out);
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void bash_action(FILE *out, enum option_completion completion, const char *values, const char *indent)
{
	AUTO_STRBUF words = STRBUF_INIT;

	add_words(&words, completion, values);
	switch (completion) {
	case COMPLETE_DIRECTORY:
		fprintf(out, "%smapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n", indent);
		break;
	case COMPLETE_FILE:
		fprintf(out, "%smapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n", indent);
		break;
	case COMPLETE_SANDBOX:
		fprintf(out,
			"%smapfile -t COMPREPLY < <(compgen -W \"$(atoll list --quiet 2>/dev/null)\" -- \"$cur\")\n",
			indent);
		break;
	case COMPLETE_SANDBOX_OR_FILE:
		fprintf(out,
			"%smapfile -t COMPREPLY < <(compgen -W \"$(atoll list --quiet 2>/dev/null)\" -- \"$cur\"; "
			"compgen -f -- \"$cur\")\n",
			indent);
		break;
	case COMPLETE_STRATEGY:
	case COMPLETE_TOPIC:
	case COMPLETE_WORDS:
		fprintf(out, "%smapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n", indent, strbuf_str(&words));
		break;
	case COMPLETE_NONE:
		fprintf(out, "%s:\n", indent);
		break;
	}
}

static void bash_arguments(FILE *out, const struct option_spec *specs)
{
	for (; specs->name; specs++) {
		if (!specs->argument || specs->argument[0] == '[')
			continue;
		fprintf(out, "\t\t--%s", specs->name);
		if (specs->letter)
			fprintf(out, "|-%c", specs->letter);
		fputs(")\n", out);
		bash_action(out, specs->completion, specs->values, "\t\t\t");
		fputs("\t\t\treturn;;\n", out);
	}
}

static void bash_command(FILE *out, const struct command *c)
{
	fprintf(out, "\t%s%s%s)\n\t\tcase $prev in\n", c->name, c->alias ? "|" : "", c->alias ? c->alias : "");
	bash_arguments(out, c->options);
	bash_arguments(out, commands_common);
	fputs("\t\tesac\n\t\tif [[ $cur == -* ]]; then\n\t\t\tmapfile -t COMPREPLY < <(compgen -W '", out);
	for (const struct option_spec *s = c->options; s->name; s++)
		fprintf(out, "--%s ", s->name);
	for (const struct option_spec *s = commands_common; s->name; s++)
		fprintf(out, "--%s%s", s->name, s[1].name ? " " : "");
	fputs("' -- \"$cur\")\n\t\t\treturn\n\t\tfi\n", out);
	bash_action(out, c->completion, NULL, "\t\t");
	fputs("\t\t;;\n", out);
}

void completion_print_bash(FILE *out)
{
	const struct command *c;

	/* Where bash-completion is loaded, its functions complete the words of a command that is
	 * an operand. */
	fputs("# bash completion for atoll\n"
	      "_atoll_command() {\n"
	      "\tif declare -F _command_offset >/dev/null; then\n"
	      "\t\t_command_offset \"$1\"\n"
	      "\telif ((COMP_CWORD == $1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	      "\telse\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	      "\tfi\n}\n\n_atoll() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
	      "\tCOMPREPLY=()\n"
	      "\t# --option=value arrives as three words.\n"
	      "\tif [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in\n"
	      "\t\t--state-dir) ((i++));;\n"
	      "\t\t--) if [[ $command == run || $command == exec ]]; then _atoll_command $((i + 1)); return; fi;;\n"
	      "\t\t-*|=) ;;\n"
	      "\t\t*) command=${command:-${COMP_WORDS[i]}};;\n"
	      "\t\tesac\n"
	      "\tdone\n"
	      "\tcase $command in\n\t'')\n\t\tif [[ $prev == --state-dir ]]; then\n",
	      out);
	bash_action(out, COMPLETE_DIRECTORY, NULL, "\t\t\t");
	fputs("\t\telse\n\t\t\tmapfile -t COMPREPLY < <(compgen -W '", out);
	for (size_t i = 0; (c = visible_at(&i)); i++)
		fprintf(out, "%s %s%s", c->name, c->alias ? c->alias : "", c->alias ? " " : "");
	fputs("--state-dir --quiet --help --version' -- \"$cur\")\n\t\tfi\n\t\t;;\n", out);
	for (size_t i = 0; (c = visible_at(&i)); i++)
		bash_command(out, c);
	fputs("\tesac\n}\ncomplete -o filenames -F _atoll atoll\n", out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

static void zsh_action(FILE *out, enum option_completion completion, const char *values)
{
	AUTO_STRBUF words = STRBUF_INIT;

	add_words(&words, completion, values);
	switch (completion) {
	case COMPLETE_DIRECTORY:
		fputs("_files -/", out);
		break;
	case COMPLETE_FILE:
		fputs("_files", out);
		break;
	case COMPLETE_SANDBOX:
		fputs("_atoll_sandboxes", out);
		break;
	case COMPLETE_SANDBOX_OR_FILE:
		fputs("_atoll_sandboxes_or_files", out);
		break;
	case COMPLETE_STRATEGY:
	case COMPLETE_TOPIC:
	case COMPLETE_WORDS:
		fprintf(out, "(%s)", strbuf_str(&words));
		break;
	case COMPLETE_NONE:
		fputs(" ", out);
		break;
	}
}

static void zsh_options(FILE *out, const struct option_spec *specs)
{
	for (; specs->name; specs++) {
		bool optional = specs->argument && specs->argument[0] == '[';

		for (int is_short = 0; is_short <= (specs->letter != 0); is_short++) {
			fputs(" \\\n\t\t\t'*", out);
			if (is_short)
				fprintf(out, "-%c%s", specs->letter, specs->argument ? (optional ? "-" : "+") : "");
			else
				fprintf(out, "--%s%s", specs->name, specs->argument ? (optional ? "=-" : "=") : "");
			putc('[', out);
			for (const char *p = specs->help; *p; p++)
				if (!strchr("'[]:", *p))
					putc(*p, out);
			putc(']', out);
			if (specs->argument) {
				fprintf(out, "%s%s:", optional ? "::" : ":", specs->name);
				zsh_action(out, specs->completion, specs->values);
			}
			putc('\'', out);
		}
	}
}

static void zsh_command(FILE *out, const struct command *c)
{
	fprintf(out, "\t\t%s%s%s)\n", c->name, c->alias ? "|" : "", c->alias ? c->alias : "");
	if (c->takes_command)
		fputs("\t\t\t_atoll_command && return\n", out);
	fputs("\t\t\t_arguments -s", out);
	zsh_options(out, c->options);
	zsh_options(out, commands_common);
	if (c->max_operands > 0) {
		fprintf(out, " \\\n\t\t\t'%s:operand:", c->max_operands > 1 ? "*" : "1");
		zsh_action(out, c->completion, NULL);
		putc('\'', out);
	}
	fputs("\n\t\t\t;;\n", out);
}

void completion_print_zsh(FILE *out)
{
	const struct command *c;

	fputs("#compdef atoll\n\n"
	      "_atoll_sandboxes() {\n"
	      "\tlocal -a names\n"
	      "\tnames=(${(f)\"$(atoll list --quiet 2>/dev/null)\"})\n"
	      "\t_describe sandbox names\n"
	      "}\n\n"
	      "_atoll_sandboxes_or_files() {\n"
	      "\t_alternative 'sandboxes:sandbox:_atoll_sandboxes' 'files:file:_files'\n"
	      "}\n\n"
	      "# What follows -- is a command line of its own; _arguments would count the dashes among its words.\n"
	      "_atoll_command() {\n"
	      "\tlocal -i at\n"
	      "\tfor ((at = 1; at < CURRENT; at++)); do\n"
	      "\t\tif [[ $words[at] == -- ]]; then\n"
	      "\t\t\tshift $at words\n"
	      "\t\t\t((CURRENT -= at))\n"
	      "\t\t\t_normal\n"
	      "\t\t\treturn 0\n"
	      "\t\tfi\n"
	      "\tdone\n"
	      "\treturn 1\n"
	      "}\n\n"
	      "_atoll() {\n"
	      "\tlocal curcontext=$curcontext state line\n"
	      "\tlocal -A opt_args\n"
	      "\tlocal -a known # not commands, in which zsh finds programs\n"
	      "\tknown=(\n",
	      out);
	for (size_t i = 0; (c = visible_at(&i)); i++) {
		fprintf(out, "\t\t'%s:", c->name);
		for (const char *p = c->summary; *p; p++)
			if (!strchr("':", *p))
				putc(*p, out);
		fputs("'\n", out);
	}
	fputs("\t)\n\t_arguments -C", out);
	zsh_options(out, commands_common);
	zsh_options(out, commands_global);
	fputs(" \\\n\t\t'1: :->command' \\\n\t\t'*:: :->operands'\n"
	      "\tcase $state in\n"
	      "\tcommand)\n"
	      "\t\t_describe command known\n"
	      "\t\t;;\n"
	      "\toperands)\n"
	      "\t\tcase $words[1] in\n",
	      out);
	for (size_t i = 0; (c = visible_at(&i)); i++)
		zsh_command(out, c);
	fputs("\t\tesac\n\t\t;;\n\tesac\n}\n\n_atoll \"$@\"\n", out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_action(FILE *out, enum option_completion completion, const char *values)
{
	AUTO_STRBUF words = STRBUF_INIT;

	add_words(&words, completion, values);
	switch (completion) {
	case COMPLETE_DIRECTORY:
		fputs(" -xa '(__fish_complete_directories)'", out);
		break;
	case COMPLETE_FILE:
		fputs(" -rF", out);
		break;
	case COMPLETE_SANDBOX:
		fputs(" -fa '(atoll list --quiet 2>/dev/null)'", out);
		break;
	case COMPLETE_SANDBOX_OR_FILE:
		fputs(" -Fa '(atoll list --quiet 2>/dev/null)'", out);
		break;
	case COMPLETE_STRATEGY:
	case COMPLETE_TOPIC:
	case COMPLETE_WORDS:
		fprintf(out, " -xa '%s'", strbuf_str(&words));
		break;
	case COMPLETE_NONE:
		fputs(" -x", out);
		break;
	}
}

static void fish_options(FILE *out, const struct option_spec *specs, const char *condition)
{
	for (; specs->name; specs++) {
		fprintf(out, "complete -c atoll%s -l %s", condition, specs->name);
		if (specs->letter)
			fprintf(out, " -s %c", specs->letter);
		if (specs->argument && specs->argument[0] != '[')
			fish_action(out, specs->completion, specs->values);
		fputs(" -d ", out);
		put_quoted(out, specs->help, "\\");
		putc('\n', out);
	}
}

void completion_print_fish(FILE *out)
{
	const struct command *c;

	fputs("# fish completion for atoll\n"
	      "function __atoll_in_command\n"
	      "    contains -- -- (commandline -opc)\n"
	      "end\n"
	      "function __atoll_complete_command\n"
	      "    set -l words (commandline -opc)\n"
	      "    set -l at (contains -i -- -- $words)\n"
	      "    set -e words[1..$at]\n"
	      "    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))\n"
	      "end\n"
	      "complete -c atoll -f\n",
	      out);
	fish_options(out, commands_common, "");
	fish_options(out, commands_global, " -n __fish_use_subcommand");
	for (size_t i = 0; (c = visible_at(&i)); i++) {
		AUTO_STRBUF condition = STRBUF_INIT;

		fprintf(out, "complete -c atoll -n __fish_use_subcommand -a %s -d ", c->name);
		put_quoted(out, c->summary, "\\");
		putc('\n', out);
		strbuf_addf(&condition, " -n '__fish_seen_subcommand_from %s%s%s%s'", c->name, c->alias ? " " : "",
			    c->alias ? c->alias : "", c->takes_command ? "; and not __atoll_in_command" : "");
		if (c->takes_command)
			fprintf(out,
				"complete -c atoll -n '__fish_seen_subcommand_from %s %s; and __atoll_in_command' -fa "
				"'(__atoll_complete_command)'\n",
				c->name, c->alias ? c->alias : "");
		fish_options(out, c->options, strbuf_str(&condition));
		if (c->completion != COMPLETE_NONE) {
			fprintf(out, "complete -c atoll%s", strbuf_str(&condition));
			fish_action(out, c->completion, NULL);
			putc('\n', out);
		}
	}
}
