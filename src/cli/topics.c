/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topics.h"

#include <atoll/atoll.h>

#include <string.h>

static void fill(struct topic_row *row, const char *term, const char *text)
{
	snprintf(row->term, sizeof(row->term), "%s", term);
	snprintf(row->text, sizeof(row->text), "%s", text);
}

struct pair {
	const char *term, *text;
};

static bool pair_at(const struct pair *pairs, size_t n, size_t i, struct topic_row *ret)
{
	if (i >= n)
		return false;
	fill(ret, pairs[i].term, pairs[i].text);
	return true;
}

/* A status stands for several codes: their meanings follow each other. */
static bool exit_code_row(size_t i, struct topic_row *ret)
{
	size_t used = 0;

	if (i > 7)
		return pair_at(
			(const struct pair[]){
				{ "125",
				  "Only atoll run: Atoll itself failed. 124: the time of --timeout was over. 126 and 127: "
				  "the command could not be executed, or was not found. Else its status is the command's own." } },
			1, i - 8, ret);
	snprintf(ret->term, sizeof(ret->term), "%zu", i);
	ret->text[0] = '\0';
	for (int code = 0; code < ATOLL_CODE_COUNT; code++) {
		if (atoll_code_exit_status((enum atoll_code)code) != (int)i || used >= sizeof(ret->text))
			continue;
		used += (size_t)snprintf(ret->text + used, sizeof(ret->text) - used, "%s%s", used > 0 ? " " : "",
					 atoll_code_meaning((enum atoll_code)code));
	}
	return true;
}

static bool strategy_row(size_t i, struct topic_row *ret)
{
	const char *name = atoll_strategy_name(i);

	if (!name)
		return false;
	fill(ret, name, atoll_strategy_summary(i));
	return true;
}

static bool preset_row(size_t i, struct topic_row *ret)
{
	const struct atoll_net_preset *preset = atoll_net_preset_at(i);

	if (!preset)
		return false;
	snprintf(ret->term, sizeof(ret->term), "%s", preset->name);
	snprintf(ret->text, sizeof(ret->text), "%s: %s", preset->summary, preset->hosts);
	return true;
}

static bool hidden_row(size_t i, struct topic_row *ret)
{
	struct atoll_hidden hidden;

	if (!atoll_hidden_at(i, &hidden))
		return false;
	snprintf(ret->term, sizeof(ret->term), "%s%s", hidden.is_variable ? "$" : "", hidden.name);
	snprintf(ret->text, sizeof(ret->text), "%s%s", hidden.is_variable ? "not passed on: it " : "", hidden.text);
	return true;
}

static bool change_row(size_t i, struct topic_row *ret)
{
	static const char *const texts[] = {
		[ATOLL_ADDED] = "added",
		[ATOLL_MODIFIED] = "modified: content, or a link's target",
		[ATOLL_DELETED] = "deleted",
		[ATOLL_TYPE] = "another type: file, link or directory",
		[ATOLL_META] = "only mode, owner, attributes, times or links",
		[ATOLL_RENAMED] = "renamed; if it was edited too, the word content follows",
		[ATOLL_SKIPPED] = "stays in the sandbox: FIFO, socket, device",
	};

	if (i >= ARRAY_SIZE(texts))
		return false;
	snprintf(ret->term, sizeof(ret->term), "%c", atoll_change_kind_letter((enum atoll_change_kind)i));
	snprintf(ret->text, sizeof(ret->text), "%s", texts[i]);
	return true;
}

static bool environment_row(size_t i, struct topic_row *ret)
{
	static const struct pair pairs[] = {
		{ "ATOLL_STATE_DIR", "The state directory, where --state-dir is not given." },
		{ "XDG_STATE_HOME",
		  "Without both, the state directory is atoll in this one; by default ~/.local/state. Not for root." },
		{ "XDG_CONFIG_HOME", "Your config file is atoll/config in this one; by default ~/.config." },
		{ "ATOLL_PAGER, PAGER",
		  "The pager for atoll diff, started without a shell; by default less -FRX. cat or nothing: none." },
		{ "VISUAL, EDITOR", "The editor for the list of changes, started through the shell; by default vi." },
		{ "ATOLL_SANDBOX, ATOLL_RUN",
		  "Set for every command that runs inside: the name of its sandbox, and the number of its run." },
		{ "LINES, COLUMNS",
		  "The size of the terminal that lists are folded to; by default as the terminal says." },
		{ "NO_COLOR", "If set and not empty, there are no colours." },
	};

	return pair_at(pairs, ARRAY_SIZE(pairs), i, ret);
}

static bool file_row(size_t i, struct topic_row *ret)
{
	static const struct pair pairs[] = {
		{ "~/.local/state/atoll",
		  "The state directory: registry and journal, and the edits where they can lie there." },
		{ "/var/lib/atoll", "The same, for root." },
		{ "/etc/atoll/config, ~/.config/atoll/config", "How commands run; see atoll help config." },
		{ ".atoll-UID",
		  "At the root of a mount or beside a resource: edits and undo data that must lie on its filesystem." },
	};

	return pair_at(pairs, ARRAY_SIZE(pairs), i, ret);
}

static bool question_row(size_t i, struct topic_row *ret)
{
	static const struct pair pairs[] = {
		{ "c", "commit all changes." },
		{ "c PATH…",
		  "commit the changes at these paths, or that match these patterns: c src/price.ts '*.md'. The rest "
		  "stays in the sandbox, and Atoll asks again." },
		{ "t",
		  "choose the changes to commit from a list: space ticks a line, → and ← open and close a directory, "
		  "enter commits the ticked changes. The rest stays in the sandbox, and Atoll asks again." },
		{ "e", "the same in your editor ($VISUAL, else $EDITOR, else vi): lines that you delete stay in "
		       "the sandbox. If the editor does not save the list, Atoll commits nothing." },
		{ "p PATH…",
		  "choose the hunks to commit of these modified text files, and commit only those: y lands a hunk, "
		  "n leaves it, s splits it, ? lists the other answers. In the list of t, p does so for one file." },
		{ "d [PATH…]", "show the changed lines, in the pager: d '*.ts'." },
		{ "s [COMMAND…]", "start your shell in the sandbox, or run a command there, and ask again." },
		{ "x", "discard all changes that are in the sandbox." },
		{ "k", "keep the sandbox, to decide later. So do Ctrl-C and the end of input." },
		{ "?", "this list." },
		{ "WORDS",
		  "commit, choose, edit, patch, diff, shell, discard, keep and help are answers too. Quotes and "
		  "backslashes work as in a shell." },
		{ "REPOSITORIES",
		  "of --git, databases, and a project in which the command made commits, branches or tags land as a "
		  "whole: if the sandbox holds nothing else, you cannot choose a part of the changes." },
	};

	return pair_at(pairs, ARRAY_SIZE(pairs), i, ret);
}

static const struct topic topics[] = {
	{ "changes", "CHANGES", "The letters of atoll diff:", change_row, false },
	{ "question", "THE QUESTION AFTER A RUN",
	  "Answers to the question after atoll run, a letter and words behind it:", question_row, false },
	{ "strategies", "STRATEGIES", "How a resource can be isolated, strongest first:", strategy_row, false },
	{ "presets", "PRESETS", "Registries and forges that --net allows by name, with their hosts:", preset_row,
	  false },
	{ "hidden", "HIDDEN",
	  "Files and variables of the host that commands do not get, unless you name them:", hidden_row, false },
	{ "environment", "ENVIRONMENT", "Environment variables:", environment_row, false },
	{ "files", "FILES", "Where Atoll keeps things:", file_row, false },
	{ "exit-codes", "EXIT STATUS", "What the exit status says:", exit_code_row, true },
};

const struct topic *topics_at(size_t i)
{
	return i < ARRAY_SIZE(topics) ? &topics[i] : NULL;
}

const struct topic *topics_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(topics); i++)
		if (strcmp(topics[i].name, name) == 0)
			return &topics[i];
	return NULL;
}
