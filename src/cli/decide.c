/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/decide.h"

#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/changes.h"
#include "cli/discarded.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/question.h"
#include "cli/refs-words.h"
#include "cli/report.h"
#include "cli/resolve.h"
#include "cli/settings.h"
#include "cli/terminal.h"

/* Lines of the screen outside the list: the command, its last output, and the lines after the
 * list. */
#define OTHER_ROWS 8

static const struct atoll_selection everything;

void decide_say(const struct cli *cli, const char *format, ...)
{
	va_list args;

	if (cli->quiet)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
}

bool decide_will_ask(const struct decide *d)
{
	return d->is_new && d->choice == DECIDE_ASK && ask_is_possible();
}

/* ---- the summary ---- */

/* Returns how many rows of the screen the text takes. */
static size_t rows_of(const char *text, size_t columns)
{
	size_t rows = 0;

	for (const char *at = text; *at;) {
		size_t size = strcspn(at, "\n");

		rows += 1 + size / MAX(columns, (size_t)1);
		at += size + (at[size] == '\n');
	}
	return rows;
}

static void tell_status(const struct cli *cli, const struct atoll_run_result *result, int status)
{
	if (cli->quiet)
		return;
	if (result->signal)
		message_error("the command was ended by signal %d (%s): exit status %d", result->signal,
			      strsignal(result->signal), status);
	else
		message_error("the command ended with exit status %d", status);
}

/* Prints the sum of the list. */
static void tell_sum(struct cli *cli, const struct atoll_info *info, const struct decide *d,
		     const struct changes_counts *counts, const struct refs_words *refs)
{
	AUTO_STRBUF words = STRBUF_INIT;

	changes_words(&words, counts);
	refs_words_add(refs, "; ", &words);
	if (discarded_is_all(d->result, changes_total(counts) + counts->skipped))
		discarded_warn_all();
	else
		decide_say(cli, "%s", strbuf_str(&words));
	if (counts->folded)
		decide_say(cli, "folded; one by one: atoll diff %s --all", info->name);
}

/* Prints the list on standard error, because standard output belongs to the command. */
static int list_changes(struct cli *cli, const struct atoll_info *info, struct refs_words *refs,
			struct changes_counts *ret, struct atoll_error *err)
{
	struct changes_style style = { .format = CHANGES_SUMMARY,
				       .out = stderr,
				       .color = output_wants_color(stderr, NULL),
				       .fold_git = true,
				       .see = refs_words_see,
				       .see_arg = refs };
	FILE *nowhere = NULL;
	int r;

	fflush(stdout);
	if (cli->quiet)
		style.out = nowhere = fopen("/dev/null", "we");
	if (!style.out)
		style.out = stderr;
	if (terminal_size(STDERR_FILENO, &style.rows, &style.columns))
		style.rows -= MIN(style.rows - 1, OTHER_ROWS + rows_of(message_held(), style.columns));
	r = changes_show(cli, info, &everything, &style, ret, err);
	if (nowhere)
		fclose(nowhere);
	return r;
}

int decide_summarise(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status,
		     struct changes_counts *ret, struct atoll_error *err)
{
	AUTO_REFS_WORDS refs = { 0 };
	struct sigaction old;
	int r;

	if (decide_will_ask(d))
		interrupt_guard_begin(info->name, &old);
	r = list_changes(cli, info, &refs, ret, err);
	if (decide_will_ask(d))
		interrupt_guard_end(&old);
	if (r >= 0)
		tell_sum(cli, info, d, ret, &refs);
	if (r >= 0 && status >= 0 && changes_total(ret) + ret->skipped > 0)
		tell_status(cli, d->result, status);
	message_release();
	return MIN(r, 0);
}

/* ---- the decisions ---- */

/* Prints the name also with --quiet: without it the user could hardly find the changes. */
int decide_keep(const struct atoll_info *info, int status)
{
	fprintf(stderr, "kept as \"%s\"; atoll diff %s, atoll commit %s or atoll rm %s\n", info->name, info->name,
		info->name, info->name);
	return status;
}

static int remove_sandbox(struct cli *cli, const struct atoll_info *info, const struct decide *d, bool force,
			  int status)
{
	struct atoll_error err;

	if (atoll_remove(cli->a, info->name, &(struct atoll_remove_options){ .force = force, .wait_ms = d->wait_ms },
			 &err) < 0)
		return message_fail(cli, &err);
	return status;
}

int decide_remove(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status)
{
	return remove_sandbox(cli, info, d, false, status);
}

/* Drops the edits and leaves the sandbox. If all of them have landed, does nothing, because
 * atoll_rollback() would refuse. */
static int roll_back(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status)
{
	AUTO_RESULT *result = NULL;
	struct atoll_error err;
	uint64_t pending;
	int r = atoll_pending(cli->a, info->name, 1, &pending, &err);

	if (r < 0)
		return message_fail(cli, &err);
	if (pending == 0)
		return status;
	r = atoll_rollback(cli->a, info->name, &(struct atoll_undo_options){ .wait_ms = d->wait_ms }, &result, &err);
	if (report_trouble(cli, r, result, &err) != 0)
		return cli->command->failure_status;
	decide_say(cli, "discarded");
	return status;
}

/* Whether a part of the changes has landed: then the sandbox stays for its undo record. */
static bool has_commits(struct cli *cli, const char *name)
{
	AUTO_INFO *info = NULL;
	struct atoll_error ignored;

	return atoll_show(cli->a, name, &info, &ignored) >= 0 && info->commits > 0;
}

int decide_discard(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status)
{
	int r;

	if (!d->is_new)
		return roll_back(cli, info, d, status);
	if (has_commits(cli, info->name)) {
		r = roll_back(cli, info, d, status);
		fprintf(stderr, "atoll undo %s takes back what was committed; atoll rm %s makes that final\n",
			info->name, info->name);
		return r;
	}
	r = remove_sandbox(cli, info, d, true, status);
	if (r == status)
		decide_say(cli, "discarded");
	return r;
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
			 const struct atoll_result *result, int status)
{
	for (size_t i = 0; result && i < result->n_resources; i++)
		if (result->resources[i].skipped > 0)
			return decide_keep(info, status);
	if (!can_be_undone(result) || !settings_keep_landed(d->defaults, d->settings))
		return remove_sandbox(cli, info, d, false, status);
	decide_say(cli, "atoll undo takes it back");
	return status;
}

static bool has_pending(struct cli *cli, const char *name)
{
	struct atoll_error ignored;
	uint64_t pending;

	return atoll_pending(cli->a, name, 1, &pending, &ignored) < 0 || pending > 0;
}

static int land(struct cli *cli, const struct atoll_info *info, const struct decide *d,
		const struct atoll_commit_options *chosen, int status, bool *ret_landed, bool *ret_over)
{
	AUTO_PROGRESS progress = { 0 };
	AUTO_RESULT *result = NULL;
	struct atoll_commit_options options = { .message = d->message,
						.selection = chosen->selection,
						.contents = chosen->contents,
						.n_contents = chosen->n_contents,
						.wait_ms = d->wait_ms,
						.allow_set_id = d->allow_set_id,
						.allow_outside_links = d->allow_outside_links,
						.progress = progress_update,
						.progress_arg = &progress };
	struct atoll_error err;
	int r, failure;

	progress_init(&progress, cli->quiet);
	r = atoll_commit(cli->a, info->name, &options, &result, &err);
	progress_clear(&progress);
	failure = report_result(cli, r, result, &err, stderr, false);
	*ret_landed = r >= 0;
	*ret_over = r >= 0 &&
		    ((chosen->selection.n_paths == 0 && chosen->n_contents == 0) || !has_pending(cli, info->name));
	if (r < 0)
		return failure;
	return d->is_new && *ret_over ? finish_landed(cli, info, d, result, status) : status;
}

int decide_land(struct cli *cli, const struct atoll_info *info, const struct decide *d,
		const struct atoll_commit_options *chosen, int status, bool *ret_landed, bool *ret_over)
{
	sigset_t old;

	/* While the commit waits for another command in the sandbox, Ctrl-C gives it up. */
	if (d->wait_ms != 0)
		return land(cli, info, d, chosen, status, ret_landed, ret_over);
	interrupt_hold(&old);
	status = land(cli, info, d, chosen, status, ret_landed, ret_over);
	/* The question comes again, and takes the next Ctrl-C. */
	interrupt_release(&old, d->choice == DECIDE_ASK && !*ret_over);
	return status;
}

static int commit_all(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	bool landed, over;
	int status = decide_land(cli, info, d, &(struct atoll_commit_options){ 0 }, exit_status, &landed, &over);

	if (!landed)
		message_error("not committed; the changes are kept as \"%s\"", info->name);
	return status;
}

/* ---- deciding ---- */

/* The run made the sandbox. Removes it if it holds no change; otherwise does what the options say,
 * or asks the user. */
static int decide_new(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	enum decide_choice choice = d->choice;
	bool will_ask = decide_will_ask(d);
	struct changes_counts counts = { 0 };
	struct atoll_error err;

	if (decide_summarise(cli, info, d, will_ask ? exit_status : -1, &counts, &err) < 0) {
		message_fail(cli, &err);
		message_error("the sandbox is kept as \"%s\"", info->name);
		return cli->command->failure_status;
	}
	if (changes_total(&counts) + counts.skipped == 0 && choice != DECIDE_KEEP)
		return decide_remove(cli, info, d, exit_status);
	if (choice == DECIDE_COMMIT && exit_status != 0) {
		message_error("not committed, because the command failed with exit status %d", exit_status);
		choice = DECIDE_KEEP;
	}
	if (will_ask)
		return question_put(cli, info, d, exit_status);
	if (choice == DECIDE_COMMIT)
		return commit_all(cli, info, d, exit_status);
	if (choice == DECIDE_DISCARD)
		return decide_discard(cli, info, d, exit_status);
	return decide_keep(info, exit_status);
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
		return decide_discard(cli, info, d, exit_status);
	if (d->choice != DECIDE_COMMIT)
		return exit_status;
	if (exit_status != 0) {
		message_error(
			"not committed, because the command failed with exit status %d; the changes are kept in \"%s\"",
			exit_status, info->name);
		return exit_status;
	}
	return commit_all(cli, info, d, exit_status);
}
