/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a commit, undo, rollback or recovery: for people, or as JSON. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <atoll/atoll.h>

#include <stdio.h>

#include "cli/commands.h"

/* Prints the outcome of an operation that returned r: the result to out, what went wrong to standard error. result may
 * be NULL. info may be NULL; else the JSON says what the sandbox keeps locked. Returns the exit status of the error's
 * code, 0 on success. */
int report_result_with(struct cli *cli, int r, const struct atoll_result *result, const struct atoll_info *info,
		       const struct atoll_error *err, FILE *out, bool json);
int report_result(struct cli *cli, int r, const struct atoll_result *result, const struct atoll_error *err, FILE *out,
		  bool json);
/* Only what there is to say on standard error. */
int report_trouble(const struct cli *cli, int r, const struct atoll_result *result, const struct atoll_error *err);

struct json;
void report_json(struct json *j, const struct atoll_result *result, const struct atoll_info *info); /* info: or NULL */

static inline void report_result_release(struct atoll_result **result)
{
	*result = atoll_result_free(*result);
}

#define AUTO_RESULT CLEANUP(report_result_release) struct atoll_result

#endif
