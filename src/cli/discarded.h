/* SPDX-License-Identifier: Apache-2.0 */
/* What commands wrote in places that are not kept: after a run, and in atoll show. */
#ifndef CLI_DISCARDED_H
#define CLI_DISCARDED_H

#include <atoll/atoll.h>

#include "base/strbuf.h"
#include "cli/commands.h"

struct discarded_report {
	const struct cli *cli;
	unsigned n_lines;
	uint64_t left_out; /* files of groups that got no line */
	uint64_t temporary;
	bool temporary_more, view_stays;
	struct strbuf places; /* in which those are */
};
void discarded_report_release(struct discarded_report *r);
#define AUTO_DISCARDED_REPORT CLEANUP(discarded_report_release) struct discarded_report

/* As atoll_run() wants it; arg is a report. */
void discarded_report_tell(const struct atoll_discarded *d, void *report);
/* Warns if nothing is left of what the command wrote: n_changes are those of the sandbox. */
bool discarded_is_all(const struct atoll_run_result *result, uint64_t n_changes);
void discarded_warn_all(void);

struct json;
void discarded_json(struct json *j, struct cli *cli, const char *name);
/* Of the latest runs that wrote there. */
void discarded_print(struct cli *cli, const char *name);

#endif
