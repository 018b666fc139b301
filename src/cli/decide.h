/* SPDX-License-Identifier: Apache-2.0 */
/* After a run: the summary, the question, and what was decided. */
#ifndef CLI_DECIDE_H
#define CLI_DECIDE_H

#include <atoll/atoll.h>

#include "cli/commands.h"

enum decide_choice { DECIDE_ASK, DECIDE_COMMIT, DECIDE_DISCARD, DECIDE_KEEP };

struct decide {
	enum decide_choice choice; /* given beforehand */
	const char *message;       /* of the commit; NULL: none */
	int wait_ms;
	bool allow_set_id, allow_outside_links;           /* of the commit: as in struct atoll_commit_options */
	bool is_new;                                      /* the command made the sandbox for this run */
	const struct atoll_settings *defaults, *settings; /* of the run */
	const struct atoll_run_result *result;            /* of the run, as far as it is known */
};

/* Returns the exit status of atoll run: the command's, unless Atoll itself failed afterwards. */
int decide_after_run(struct cli *cli, const struct atoll_info *info, const struct decide *d, int exit_status);

#endif
