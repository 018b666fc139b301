/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/question.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/changes.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/resolve.h"
#include "cli/topics.h"
#include "cli/words.h"

struct question {
	struct cli *cli;
	const struct atoll_info *info;
	struct decide d;
	struct atoll_run_result result; /* of the command; later commands and shells add to it */
	int exit_status;                /* the command's */
	int status;                     /* to return: exit_status, or that of the latest commit if it failed */
	bool is_over;
	struct pick pick; /* the latest list, for its ticks */
	size_t cursor;
};

struct answer {
	const char *word;
	void (*run)(struct question *q, const struct words *words); /* words: those after the letter */
	char letter;
	bool takes_words;
};

/* ---- after an answer ---- */

/* Lists the changes that are left. If there are none, the question is over. */
static void look_again(struct question *q)
{
	struct changes_counts counts = { 0 };
	struct atoll_error err;
	int r = decide_summarise(q->cli, q->info, &q->d, -1, &counts, &err);

	if (r < 0)
		message_fail(q->cli, &err);
	if (r < 0 || changes_total(&counts) + counts.skipped > 0)
		return;
	q->is_over = true;
	q->status = decide_remove(q->cli, q->info, &q->d, q->exit_status);
}

/* A path without a change is a typing error, which the user corrects in the next answer. */
static bool is_misspelt(int status)
{
	return status == atoll_code_exit_status(ATOLL_NOT_FOUND) || status == atoll_code_exit_status(ATOLL_INVALID);
}

static bool commit_selection(struct question *q, const struct atoll_selection *selection)
{
	bool landed, over;
	int status = decide_land(q->cli, q->info, &q->d, selection, q->exit_status, &landed, &over);

	if (landed || !is_misspelt(status))
		q->status = status;
	q->is_over = over;
	if (!landed)
		message_error("not committed; all changes are still in the sandbox");
	if (!landed || over)
		return landed;
	decide_say(q->cli, "still in the sandbox:");
	look_again(q);
	return true;
}

/* ---- the answers ---- */

static void answer_commit(struct question *q, const struct words *words)
{
	const struct atoll_selection selection = { .paths = (const char *const *)words->v, .n_paths = words->n };

	if (commit_selection(q, &selection))
		pick_release(&q->pick);
}

static void answer_keep(struct question *q, const struct words *words)
{
	(void)words;
	q->is_over = true;
	q->status = decide_keep(q->info, q->status);
}

static void answer_discard(struct question *q, const struct words *words)
{
	(void)words;
	q->is_over = true;
	q->status = decide_discard(q->cli, q->info, &q->d, q->exit_status);
}

static void show_diff(struct question *q, const struct atoll_selection *selection)
{
	bool to_stdout = isatty(STDOUT_FILENO);
	struct changes_style style = { .format = CHANGES_PATCH, .out = to_stdout ? stdout : stderr, .escape = true };
	struct atoll_error err;
	struct sigaction old;
	int r;

	style.color = output_wants_color(style.out, NULL);
	interrupt_guard_begin(q->info->name, &old);
	if (to_stdout)
		output_pager_start();
	r = changes_show(q->cli, q->info, selection, &style, NULL, &err);
	if (to_stdout)
		output_pager_end();
	interrupt_guard_end(&old);
	if (r < 0)
		message_fail(q->cli, &err);
}

static void answer_diff(struct question *q, const struct words *words)
{
	const struct atoll_selection selection = { .paths = (const char *const *)words->v, .n_paths = words->n };

	show_diff(q, &selection);
}

static void add_result(struct atoll_run_result *sum, const struct atoll_run_result *r)
{
	sum->discards_own |= r->discards_own;
	sum->holds_transaction |= r->holds_transaction;
}

static void answer_shell(struct question *q, const struct words *words)
{
	struct atoll_run_result result = { 0 };

	if (q->d.inside(q->cli, q->info, words->n > 0 ? words->v : NULL, &result, q->d.inside_arg) != 0)
		return;
	add_result(&q->result, &result);
	pick_release(&q->pick);
	look_again(q);
}

static void answer_help(struct question *q, const struct words *words)
{
	(void)q;
	(void)words;
	help_print_topic(topics_find("question"), stderr);
}

/* ---- choosing ---- */

static void refuse_choosing(const struct question *q, const char *why)
{
	const struct atoll_resource_info *r = &q->info->resources[0];
	AUTO_FREE char *path = str_quote(r->path);

	message_error(
		"the %s \"%s\" lands as a whole%s: nothing of it can be chosen. To leave changes out, take them back "
		"in the sandbox (s starts a shell there), then commit (c)",
		r->kind == ATOLL_KIND_GIT ? "repository" : "database", path ? path : "", why);
}

/* Reads the changes again; keeps the ticks of the previous list if the changes are the same. */
static int load(struct question *q)
{
	AUTO_PICK before = q->pick;
	struct atoll_error err;
	struct sigaction old;
	int r;

	q->pick = (struct pick){ 0 };
	interrupt_guard_begin(q->info->name, &old);
	r = pick_load(q->cli, q->info, &q->pick, &err);
	interrupt_guard_end(&old);
	if (r < 0) {
		message_fail(q->cli, &err);
		return r;
	}
	if (before.n > 0 && pick_copy_ticks(&q->pick, &before))
		return 0;
	q->cursor = PICK_NONE;
	return 0;
}

/* Returns false at the end of input. */
static bool show_node(struct question *q)
{
	const struct pick_node *node = &q->pick.v[q->cursor];
	AUTO_FREE char *path = pick_absolute(node);
	const char *paths[] = { path };
	AUTO_FREE char *line = NULL;

	if (path)
		show_diff(q, &(struct atoll_selection){ .paths = paths, .n_paths = 1, .exact = true });
	line = ask_line("enter goes back to the list ");
	return line != NULL;
}

static void commit_ticked(struct question *q)
{
	struct atoll_selection selection;

	if (pick_selection(&q->pick, q->info, &selection) < 0) {
		message_oom(q->cli);
		return;
	}
	decide_say(q->cli, "chosen: %llu of %llu changes", (unsigned long long)pick_ticked(&q->pick),
		   (unsigned long long)pick_total(&q->pick));
	if (commit_selection(q, &selection))
		pick_release(&q->pick);
	pick_selection_release(&selection);
}

/* The user may go from the list to the editor. An error there leads back to the question, so that
 * the user can read its message. */
static void choose(struct question *q, bool in_editor)
{
	enum pick_answer answer;

	if (load(q) < 0)
		return;
	if (q->pick.n == 0) {
		message_error("no change in the sandbox could land");
		return;
	}
	if (!q->pick.several && pick_is_one_whole(&q->pick)) {
		refuse_choosing(q, ", because commits, branches or tags were made inside");
		return;
	}
	do {
		answer = in_editor ? pick_editor(&q->pick, q->info->name)
				   : pick_list(&q->pick, q->info->name, &q->cursor);
		in_editor = answer == PICK_EDIT;
		if (answer == PICK_DIFF && !show_node(q))
			answer = PICK_END;
	} while (answer == PICK_EDIT || answer == PICK_DIFF);
	if (answer == PICK_COMMIT)
		commit_ticked(q);
	else if (answer == PICK_END)
		answer_keep(q, NULL);
}

static void answer_choose(struct question *q, const struct words *words)
{
	(void)words;
	if (pick_is_impossible(q->info))
		refuse_choosing(q, "");
	else if (!pick_list_is_possible())
		message_error(
			"this terminal cannot show the list (TERM is unset or \"dumb\"); e opens it in your editor, "
			"and c PATH commits what lies at PATH");
	else
		choose(q, false);
}

static void answer_edit(struct question *q, const struct words *words)
{
	(void)words;
	if (pick_is_impossible(q->info))
		refuse_choosing(q, "");
	else
		choose(q, true);
}

/* ---- the question ---- */

static const struct answer answers[] = {
	{ "commit", answer_commit, 'c', true }, { "choose", answer_choose, 't', false },
	{ "edit", answer_edit, 'e', false },    { "diff", answer_diff, 'd', true },
	{ "shell", answer_shell, 's', true },   { "discard", answer_discard, 'x', false },
	{ "keep", answer_keep, 'k', false },    { "help", answer_help, '?', false },
};

static const struct answer *find_answer(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		const char letter[] = { answers[i].letter, '\0' };

		if (strcasecmp(word, letter) == 0 || strcasecmp(word, answers[i].word) == 0)
			return &answers[i];
	}
	return NULL;
}

static void handle(struct question *q, const struct words *words)
{
	const struct answer *a = find_answer(words->v[0]);
	AUTO_FREE char *quoted = str_quote(words->v[0]);

	if (!a)
		message_error("\"%s\" is no answer; ? explains them", quoted ? quoted : "");
	else if (words->n > 1 && !a->takes_words)
		message_error("%s takes no words behind it, so nothing was done; ? explains the answers", a->word);
	else
		a->run(q, &(struct words){ .v = words->v + 1, .n = words->n - 1 });
}

static void handle_line(struct question *q, const char *line)
{
	AUTO_WORDS words = { 0 };
	int r = words_split(line, &words);

	if (r == -ENOMEM)
		message_oom(q->cli);
	else if (r < 0)
		message_error("a quote is not closed, or a backslash stands at the end; nothing was done");
	else if (words.n > 0)
		handle(q, &words);
}

static const char *prompt_of(const struct question *q)
{
	if (pick_is_impossible(q->info))
		return "commit (c), diff (d), shell (s), discard (x), ? or keep (k)? ";
	return "commit (c), choose (t, e), diff (d), shell (s), discard (x), ? or keep (k)? ";
}

int question_put(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status)
{
	struct question q = { .cli = cli,
			      .info = info,
			      .d = *d,
			      .result = *d->result,
			      .exit_status = exit_status,
			      .status = exit_status,
			      .cursor = PICK_NONE };

	q.d.result = &q.result;
	while (!q.is_over) {
		AUTO_FREE char *line = ask_line(prompt_of(&q));

		if (line)
			handle_line(&q, line);
		else
			answer_keep(&q, NULL);
	}
	pick_release(&q.pick);
	return q.status;
}
