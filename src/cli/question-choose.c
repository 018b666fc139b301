/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/question-choose.h"

#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/interrupt.h"
#include "cli/message.h"

/* ---- the list of changes ---- */

static void refuse_choosing(const struct question *q, const char *why)
{
	const struct atoll_resource_info *r = &q->info->resources[0];
	AUTO_FREE char *path = str_quote(r->path);

	message_error(
		"the %s \"%s\" lands as a whole%s: nothing of it can be chosen. To leave changes out, take them back "
		"in the sandbox (s starts a shell there), then commit (c)",
		r->kind == ATOLL_KIND_GIT ? "repository" : "database", path ? path : "", why);
}

/* Lists the changes. Returns 0, or -1 after saying why nothing can be chosen. */
static int load(struct question *q, struct pick *ret)
{
	AUTO_PICK p = { 0 };
	struct atoll_error err;
	struct sigaction old;
	int r;

	if (pick_is_impossible(q->info)) {
		refuse_choosing(q, "");
		return -1;
	}
	interrupt_guard_begin(q->info->name, &old);
	r = pick_load(q->cli, q->info, &p, &err);
	interrupt_guard_end(&old);
	if (r < 0)
		message_fail(q->cli, &err);
	else if (p.n == 0)
		message_error("no change in the sandbox could land");
	else if (!p.several && pick_is_one_whole(&p))
		refuse_choosing(q, ", because commits, branches or tags were made inside");
	else {
		*ret = p;
		p = (struct pick){ 0 };
		return 0;
	}
	return -1;
}

/* Lists the changes anew; keeps the ticks of the list before if the changes are the same. */
static int load_again(struct question *q)
{
	AUTO_PICK before = q->pick;

	q->pick = (struct pick){ 0 };
	if (load(q, &q->pick) < 0)
		return -1;
	if (before.n > 0 && pick_hunks_are_current(q->cli, q->info, &before) && pick_take_ticks(&q->pick, &before))
		return 0;
	if (before.n > 0)
		decide_say(q->cli,
			   "the changes are others than before, so your choice is forgotten: all are ticked again");
	q->cursor = PICK_NONE;
	return 0;
}

/* ---- the list and the editor ---- */

/* Returns false at the end of input. */
static bool wait_for_enter(void)
{
	AUTO_FREE char *line = ask_line("enter goes back to the list ");

	return line != NULL;
}

/* Returns false at the end of input. */
static bool show_node(struct question *q)
{
	AUTO_FREE char *path = pick_absolute(&q->pick.v[q->cursor]);
	const char *paths[] = { path };

	if (path)
		question_show_diff(q, &(struct atoll_selection){ .paths = paths, .n_paths = 1, .exact = true });
	return wait_for_enter();
}

/* After a failure, waits until the user has read the message, because the list hides it. Returns false
 * at the end of input. */
static bool choose_hunks_of_node(struct question *q)
{
	return pick_hunks(q->cli, q->info, &q->pick, q->cursor) != PICK_HUNKS_FAILED || wait_for_enter();
}

static void say_chosen(const struct question *q, const struct pick *p)
{
	uint64_t partly = pick_partly(p);
	AUTO_STRBUF s = STRBUF_INIT;

	strbuf_addf(&s, "chosen: %" PRIu64 " of %" PRIu64 " changes", pick_ticked(p), pick_total(p));
	if (partly > 0)
		strbuf_addf(&s, " (of %" PRIu64 " file%s only some hunks)", partly, partly == 1 ? "" : "s");
	decide_say(q->cli, "%s", strbuf_str(&s));
}

static void commit_ticked(struct question *q, const struct pick *p)
{
	struct atoll_commit_options chosen;

	if (pick_selection(p, q->info, &chosen) < 0) {
		message_oom(q->cli);
		return;
	}
	say_chosen(q, p);
	question_land(q, &chosen);
	pick_selection_release(&chosen);
}

/* From the list the user may go to the editor. An error there leads back to the question, so that the
 * list does not hide its message. */
static void choose(struct question *q, bool in_editor)
{
	enum pick_answer answer;

	if (load_again(q) < 0)
		return;
	do {
		answer = in_editor ? pick_editor(&q->pick, q->info->name)
				   : pick_list(&q->pick, q->info->name, &q->cursor);
		in_editor = answer == PICK_EDIT;
		if ((answer == PICK_DIFF && !show_node(q)) || (answer == PICK_HUNKS && !choose_hunks_of_node(q)))
			answer = PICK_END;
	} while (answer == PICK_EDIT || answer == PICK_DIFF || answer == PICK_HUNKS);
	if (answer == PICK_COMMIT)
		commit_ticked(q, &q->pick);
	else if (answer == PICK_END)
		question_keep(q);
}

void question_choose_in_list(struct question *q, const struct words *words)
{
	(void)words;
	if (!pick_is_impossible(q->info) && !pick_list_is_possible())
		message_error(
			"this terminal cannot show the list (TERM is unset or \"dumb\"); e opens it in your editor, "
			"and c PATH commits the changes at PATH");
	else
		choose(q, false);
}

void question_choose_in_editor(struct question *q, const struct words *words)
{
	(void)words;
	choose(q, true);
}

/* ---- the hunks of named files ---- */

#define REFUSALS_SAID 5 /* the other files are counted */

struct named {
	struct pick *p;
	bool *nodes; /* an element for each node of p */
	size_t n;
};

/* Notes directories and other nodes without hunks too, so that the user learns why they have none. */
static int note_named(const struct atoll_change *c, void *arg)
{
	struct named *named = arg;
	bool is_root = strcmp(c->path, ".") == 0 && !c->part;
	size_t i = pick_find_change(named->p, c->resource_path, is_root ? "" : c->path);

	if (i != PICK_NONE) {
		named->nodes[i] = true;
		named->n++;
	}
	return 0;
}

/* The library matches the words with the changes, as for the answers c and d. */
static int find_named(struct question *q, const struct words *words, struct named *named)
{
	const struct atoll_selection selection = question_selection(words);
	struct atoll_error err;
	struct sigaction old;
	int r;

	interrupt_guard_begin(q->info->name, &old);
	r = atoll_changes(q->cli->a, q->info->name, &selection, note_named, named, &err);
	interrupt_guard_end(&old);
	if (r < 0)
		message_fail(q->cli, &err);
	else if (named->n == 0)
		message_error("nothing has changed there");
	return r < 0 || named->n == 0 ? -1 : 0;
}

/* Asks about each named file. Returns false if the user has cancelled. */
static bool ask_about(struct question *q, const struct named *named)
{
	enum pick_hunks_end end = PICK_HUNKS_CHOSEN;
	size_t n_refused = 0;

	for (size_t i = 0; i < named->p->n && end != PICK_HUNKS_STOPPED; i++) {
		bool is_refused = named->nodes[i] && pick_hunks_refusal(named->p, i) != NULL;

		n_refused += is_refused;
		if (!named->nodes[i] || (is_refused && n_refused > REFUSALS_SAID))
			continue;
		end = pick_hunks(q->cli, q->info, named->p, i);
		if (end == PICK_HUNKS_CANCELLED)
			return false;
	}
	if (n_refused > REFUSALS_SAID)
		message_error("the hunks of %zu other changes cannot be chosen either", n_refused - REFUSALS_SAID);
	return true;
}

void question_choose_hunks(struct question *q, const struct words *words)
{
	AUTO_PICK p = { 0 };
	AUTO_FREE bool *nodes = NULL;
	struct named named = { .p = &p };

	if (words->n == 0) {
		message_error("p wants the path of a modified file behind it: p src/price.ts");
		return;
	}
	if (load(q, &p) < 0)
		return;
	pick_set_all(&p, false);
	named.nodes = nodes = calloc(p.n, sizeof(*nodes));
	if (!nodes)
		message_oom(q->cli);
	else if (find_named(q, words, &named) < 0)
		return;
	else if (!ask_about(q, &named) || pick_ticked(&p) == 0)
		message_error("nothing was chosen, so nothing was committed");
	else
		commit_ticked(q, &p);
}
