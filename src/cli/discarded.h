/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the files that commands wrote in places that are not kept: after a run, and in atoll
 * show. */
#ifndef CLI_DISCARDED_H
#define CLI_DISCARDED_H

#include <atoll/atoll.h>

#include "base/strbuf.h"
#include "cli/commands.h"

struct discarded_report {
	const struct cli *cli;
	unsigned n_lines;
	uint64_t left_out; /* number of files in groups without a line of their own */
	uint64_t temporary;
	bool temporary_more, view_stays;
	struct strbuf places; /* the places of the temporary files */
};
void discarded_report_release(struct discarded_report *r);
#define AUTO_DISCARDED_REPORT CLEANUP(discarded_report_release) struct discarded_report

/* An atoll_discarded_fn; arg is a report. */
void discarded_report_tell(const struct atoll_discarded *d, void *report);
/* Returns whether the command wrote discarded entries outside of caches and changed nothing in the
 * sandbox; n_changes is the number of changes in the sandbox. */
bool discarded_is_all(const struct atoll_run_result *result, uint64_t n_changes);
void discarded_warn_all(void);

struct json;
/* An atoll_discarded_fn; arg is a struct json. */
void discarded_group_json(const struct atoll_discarded *d, void *json);
void discarded_json(struct json *j, struct cli *cli, const char *name);
/* Prints the discarded files of the latest runs that wrote some. */
void discarded_print(struct cli *cli, const char *name);

#endif
