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
#include "cli/question-choose.h"
#include "cli/resolve.h"
#include "cli/topics.h"

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

void question_land(struct question *q, const struct atoll_commit_options *chosen)
{
	bool landed, over;
	int status = decide_land(q->cli, q->info, &q->d, chosen, q->exit_status, &landed, &over);

	if (landed || !is_misspelt(status))
		q->status = status;
	q->is_over = over;
	if (!landed)
		message_error("not committed; all changes are still in the sandbox");
	else
		pick_release(&q->pick);
	if (!landed || over)
		return;
	decide_say(q->cli, "still in the sandbox:");
	look_again(q);
}

/* ---- the answers ---- */

struct atoll_selection question_selection(const struct words *words)
{
	return (struct atoll_selection){ .paths = (const char *const *)words->v, .n_paths = words->n };
}

static void answer_commit(struct question *q, const struct words *words)
{
	question_land(q, &(struct atoll_commit_options){ .selection = question_selection(words) });
}

void question_keep(struct question *q)
{
	q->is_over = true;
	q->status = decide_keep(q->info, q->status);
}

static void answer_keep(struct question *q, const struct words *words)
{
	(void)words;
	question_keep(q);
}

static void answer_discard(struct question *q, const struct words *words)
{
	(void)words;
	q->is_over = true;
	q->status = decide_discard(q->cli, q->info, &q->d, q->exit_status);
}

void question_show_diff(struct question *q, const struct atoll_selection *selection)
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
	const struct atoll_selection selection = question_selection(words);

	question_show_diff(q, &selection);
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

/* ---- the question ---- */

static const struct answer answers[] = {
	{ "commit", answer_commit, 'c', true },
	{ "choose", question_choose_in_list, 't', false },
	{ "edit", question_choose_in_editor, 'e', false },
	{ "patch", question_choose_hunks, 'p', true },
	{ "diff", answer_diff, 'd', true },
	{ "shell", answer_shell, 's', true },
	{ "discard", answer_discard, 'x', false },
	{ "keep", answer_keep, 'k', false },
	{ "help", answer_help, '?', false },
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
	return "commit (c), choose (t, e, p), diff (d), shell (s), discard (x), ? or keep (k)? ";
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
			question_keep(&q);
	}
	pick_release(&q.pick);
	return q.status;
}
