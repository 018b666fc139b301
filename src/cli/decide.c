/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/decide.h"

#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/changes.h"
#include "cli/discarded.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/refs-words.h"
#include "cli/report.h"
#include "cli/settings.h"
#include "cli/terminal.h"

static const struct atoll_selection everything;

/* One line for people, unless they asked for silence. */
static void say(struct cli *cli, const char *format, ...) PRINTF_LIKE(2, 3);
static void say(struct cli *cli, const char *format, ...)
{
	va_list args;

	if (cli->quiet)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
}

/* Lines of the screen outside the list: the command, its last output, and the lines after the
 * list. */
#define OTHER_ROWS 8

/* The list of changes and their number; it stands on standard error, the output is the command's. */
static int summarise(struct cli *cli, const struct atoll_info *info, const struct atoll_run_result *result,
		     struct changes_counts *ret, struct atoll_error *err)
{
	struct changes_style style = { .format = CHANGES_SUMMARY,
				       .out = stderr,
				       .color = output_wants_color(stderr, NULL),
				       .fold_git = true,
				       .see = refs_words_see };
	AUTO_STRBUF words = STRBUF_INIT;
	AUTO_REFS_WORDS refs = { 0 };
	FILE *nowhere = NULL;
	int r;

	style.see_arg = &refs;
	fflush(stdout);
	if (cli->quiet)
		style.out = nowhere = fopen("/dev/null", "we");
	if (!style.out)
		style.out = stderr;
	if (terminal_size(STDERR_FILENO, &style.rows, &style.columns))
		style.rows -= MIN(style.rows - 1, (size_t)OTHER_ROWS);
	r = changes_show(cli, info, &everything, &style, ret, err);
	if (nowhere)
		fclose(nowhere);
	if (r < 0)
		return r;
	changes_words(&words, ret);
	refs_words_add(&refs, "; ", &words);
	if (discarded_is_all(result, changes_total(ret) + ret->skipped))
		discarded_warn_all();
	else
		say(cli, "%s", strbuf_str(&words));
	if (ret->folded)
		say(cli, "folded; one by one: atoll diff %s --all", info->name);
	return 0;
}

/* The name is said in any case: without it the changes would be hard to find. */
static int keep(const struct atoll_info *info, int exit_status)
{
	fprintf(stderr, "kept as \"%s\"; atoll diff %s, atoll commit %s or atoll rm %s\n", info->name, info->name,
		info->name, info->name);
	return exit_status;
}

static int remove_sandbox(struct cli *cli, const struct atoll_info *info, const struct decide *d, bool force,
			  int exit_status)
{
	struct atoll_error err;

	if (atoll_remove(cli->a, info->name, &(struct atoll_remove_options){ .force = force, .wait_ms = d->wait_ms },
			 &err) < 0)
		return message_fail(cli, &err);
	return exit_status;
}

/* In a sandbox that the user made, drops only the edits. If all of them have landed, does
 * nothing, because atoll_rollback() would refuse. */
static int discard(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	AUTO_RESULT *result = NULL;
	struct atoll_error err;
	uint64_t pending;
	int r;

	if (d->is_new) {
		r = remove_sandbox(cli, info, d, true, exit_status);
		if (r == exit_status)
			say(cli, "discarded");
		return r;
	}
	r = atoll_pending(cli->a, info->name, 1, &pending, &err);
	if (r < 0)
		return message_fail(cli, &err);
	if (pending == 0)
		return exit_status;
	r = atoll_rollback(cli->a, info->name, &(struct atoll_undo_options){ .wait_ms = d->wait_ms }, &result, &err);
	if (report_trouble(cli, r, result, &err) != 0)
		return cli->command->failure_status;
	say(cli, "discarded");
	return exit_status;
}

static bool can_be_undone(const struct atoll_result *result)
{
	for (size_t i = 0; result && i < result->n_resources; i++)
		if (result->resources[i].outcome == ATOLL_OUTCOME_IRREVERSIBLE ||
		    result->resources[i].outcome == ATOLL_OUTCOME_NOT_ISOLATED)
			return false;
	return result && result->commit > 0;
}

/* After everything has landed the sandbox is needed only for its undo record, unless some
 * changes had to stay inside. */
static int finish_landed(struct cli *cli, const struct atoll_info *info, const struct decide *d,
			 const struct atoll_result *result, int exit_status)
{
	for (size_t i = 0; result && i < result->n_resources; i++)
		if (result->resources[i].skipped > 0)
			return keep(info, exit_status);
	if (!can_be_undone(result) || !settings_keep_landed(d->defaults, d->settings))
		return remove_sandbox(cli, info, d, false, exit_status);
	say(cli, "atoll undo takes it back");
	return exit_status;
}

static int commit(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	AUTO_PROGRESS progress = { 0 };
	AUTO_RESULT *result = NULL;
	struct atoll_commit_options options = { .message = d->message,
						.wait_ms = d->wait_ms,
						.allow_set_id = d->allow_set_id,
						.allow_outside_links = d->allow_outside_links,
						.progress = progress_update,
						.progress_arg = &progress };
	struct atoll_error err;
	int r, status;

	progress_init(&progress, cli->quiet);
	r = atoll_commit(cli->a, info->name, &options, &result, &err);
	progress_clear(&progress);
	status = report_result(cli, r, result, &err, stderr, false);
	if (r < 0) {
		message_error("not committed; the changes are kept as \"%s\"", info->name);
		return status;
	}
	return d->is_new ? finish_landed(cli, info, d, result, exit_status) : exit_status;
}

static void show_diff(struct cli *cli, const struct atoll_info *info)
{
	bool to_stdout = isatty(STDOUT_FILENO);
	struct changes_style style = { .format = CHANGES_PATCH, .out = to_stdout ? stdout : stderr, .escape = true };
	struct atoll_error err;
	int r;

	style.color = output_wants_color(style.out, NULL);
	if (to_stdout)
		output_pager_start();
	r = changes_show(cli, info, &everything, &style, NULL, &err);
	if (to_stdout)
		output_pager_end();
	if (r < 0)
		message_fail(cli, &err);
}

/* The end of input decides nothing, so it keeps. */
static enum decide_choice ask(struct cli *cli, const struct atoll_info *info)
{
	static const struct ask_choice words[] = {
		{ 'c', "commit" }, { 'd', "diff" }, { 'x', "discard" }, { 'k', "keep" }
	};
	static const enum decide_choice choices[] = { DECIDE_COMMIT, DECIDE_ASK, DECIDE_DISCARD, DECIDE_KEEP };

	for (;;) {
		int answer = ask_choice("commit (c), diff (d), discard (x) or keep (k)? ", words, ARRAY_SIZE(words));
		enum decide_choice choice = answer < 0 ? DECIDE_KEEP : choices[answer];

		if (choice != DECIDE_ASK)
			return choice;
		show_diff(cli, info);
	}
}

/* The sandbox was made for this run: it goes if nothing is in it, and somebody is asked otherwise. */
static int decide_new(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	enum decide_choice choice = d->choice;
	struct changes_counts counts = { 0 };
	struct atoll_error err;

	if (summarise(cli, info, d->result, &counts, &err) < 0) {
		message_fail(cli, &err);
		message_error("the sandbox is kept as \"%s\"", info->name);
		return cli->command->failure_status;
	}
	if (changes_total(&counts) + counts.skipped == 0 && choice != DECIDE_KEEP)
		return remove_sandbox(cli, info, d, false, exit_status);
	if (choice == DECIDE_COMMIT && exit_status != 0) {
		message_error("not committed, because the command failed with exit status %d", exit_status);
		choice = DECIDE_KEEP;
	}
	if (choice == DECIDE_ASK)
		choice = ask_is_possible() ? ask(cli, info) : DECIDE_KEEP;
	if (choice == DECIDE_COMMIT)
		return commit(cli, info, d, exit_status);
	if (choice == DECIDE_DISCARD)
		return discard(cli, info, d, exit_status);
	return keep(info, exit_status);
}

/* For a sandbox that the user made, the command lists no changes. So it counts the pending
 * changes only if there may be a reason to warn. */
static void warn_of_discarded(struct cli *cli, const struct atoll_info *info, const struct decide *d)
{
	uint64_t pending;

	if (discarded_is_all(d->result, 0) && atoll_pending(cli->a, info->name, 1, &pending, NULL) >= 0 &&
	    discarded_is_all(d->result, pending))
		discarded_warn_all();
}

int decide_after_run(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	if (d->is_new) {
		int status = decide_new(cli, info, d, exit_status);

		/* The next command retries the sandboxes that this call could not remove. */
		(void)atoll_prune(cli->a, d->defaults, d->settings, NULL, NULL);
		return status;
	}
	warn_of_discarded(cli, info, d);
	if (d->choice == DECIDE_DISCARD)
		return discard(cli, info, d, exit_status);
	if (d->choice != DECIDE_COMMIT)
		return exit_status;
	if (exit_status != 0) {
		message_error(
			"not committed, because the command failed with exit status %d; the changes are kept in \"%s\"",
			exit_status, info->name);
		return exit_status;
	}
	return commit(cli, info, d, exit_status);
}
