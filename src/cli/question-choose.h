/* SPDX-License-Identifier: Apache-2.0 */
/* The question while it is asked, for question.c and for the answers that choose a part of the
 * changes, which are in question-choose.c. */
#ifndef CLI_QUESTION_CHOOSE_H
#define CLI_QUESTION_CHOOSE_H

#include "cli/decide.h"
#include "cli/pick.h"
#include "cli/words.h"

struct question {
	struct cli *cli;
	const struct atoll_info *info;
	struct decide d;
	struct atoll_run_result result; /* of the command, with what shells added to it */
	int exit_status;                /* the command's */
	int status;                     /* to return: exit_status, or that of the latest commit, which failed */
	bool is_over;
	struct pick pick; /* the latest list, for its ticks */
	size_t cursor;
};

/* ---- In question.c ---- */

/* Commits what is chosen, and lists what is left or says why nothing has landed. */
void question_land(struct question *q, const struct atoll_commit_options *chosen);
void question_keep(struct question *q);
void question_show_diff(struct question *q, const struct atoll_selection *selection);
/* Paths and patterns that the user typed; it borrows the words. */
struct atoll_selection question_selection(const struct words *words);

/* ---- The answers ---- */

void question_choose_in_list(struct question *q, const struct words *words);
void question_choose_in_editor(struct question *q, const struct words *words);
/* Asks about the hunks of the files that the words name, and commits these files alone. */
void question_choose_hunks(struct question *q, const struct words *words);

#endif
