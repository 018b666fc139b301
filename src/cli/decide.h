/* SPDX-License-Identifier: Apache-2.0 */
/* After a run: the summary, the question (question.h), and the decision about the changes. */
#ifndef CLI_DECIDE_H
#define CLI_DECIDE_H

#include <atoll/atoll.h>

#include "cli/commands.h"

enum decide_choice { DECIDE_ASK, DECIDE_COMMIT, DECIDE_DISCARD, DECIDE_KEEP };

/* Runs a command in the sandbox, or the user's shell if argv is NULL. Returns 0, or an exit status
 * after printing an error. */
typedef int (*decide_inside_fn)(struct cli *cli, const struct atoll_info *info, char *const *argv,
				struct atoll_run_result *ret, void *arg);

struct decide {
	enum decide_choice choice; /* given beforehand */
	const char *message;       /* of the commit; NULL: none */
	int wait_ms;
	bool allow_set_id, allow_outside_links;           /* of the commit: as in struct atoll_commit_options */
	bool is_new;                                      /* the command made the sandbox for this run */
	const struct atoll_settings *defaults, *settings; /* of the run */
	const struct atoll_run_result *result;            /* of the run, as far as it is known */
	decide_inside_fn inside;                          /* runs the question's commands */
	void *inside_arg;
};

/* Whether Atoll will ask the user: only about a sandbox that the run made, and only at a
 * terminal. The caller then holds messages about the run (message.h), so that they stand above
 * the question. */
bool decide_will_ask(const struct decide *d);

/* Returns the exit status of atoll run: the command's, unless Atoll itself failed afterwards. */
int decide_after_run(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status);

/* ---- What question.c and decide.c share ---- */

struct changes_counts;
/* Prints the list of changes, their number, and the lines that were held. status: the command's
 * exit status; a negative one is not printed. */
int decide_summarise(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status,
		     struct changes_counts *ret, struct atoll_error *err);

/* These return `status`, or an exit status after printing an error. */
int decide_keep(const struct atoll_info *info, int status);
int decide_remove(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status);
int decide_discard(struct cli *cli, const struct atoll_info *info, const struct decide *d, int status);

/* Commits the selection of `chosen` with its contents. *ret_landed: it has landed. *ret_over: and
 * nothing is left to decide. */
int decide_land(struct cli *cli, const struct atoll_info *info, const struct decide *d,
		const struct atoll_commit_options *chosen, int status, bool *ret_landed, bool *ret_over);

/* Prints one line on standard error, unless --quiet is given. */
void decide_say(const struct cli *cli, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
