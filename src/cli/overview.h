/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a sandbox that are not in struct atoll_info because they take time to find: its
 * changes, and their size on disk. */
#ifndef CLI_OVERVIEW_H
#define CLI_OVERVIEW_H

#include "cli/changes.h"

struct overview {
	bool is_counted; /* changes and bytes are known */
	struct changes_counts changes;
	uint64_t bytes;              /* size of the workspaces, as far as they are readable */
	int64_t age_s, idle_s;       /* since the sandbox was made, and since it was last used */
	struct atoll_run_info *runs; /* newest first; NULL: not read */
	size_t n_runs, n_running;
};

/* Cheap: fills in the values that follow from info. */
void overview_init(struct overview *o, const struct atoll_info *info);
/* Counts changes and bytes. They stay unknown if the sandbox first needs recovery, or if another
 * process is changing it. */
void overview_count(struct overview *o, struct cli *cli, const struct atoll_info *info);
void overview_runs(struct overview *o, struct cli *cli, const struct atoll_info *info);
void overview_release(struct overview *o);

#define AUTO_OVERVIEW CLEANUP(overview_release) struct overview

/* Adds the commands that the user can run next, in one line. */
void overview_advice(struct strbuf *s, const struct overview *o, const struct atoll_info *info);

/* "12", "3.4K" */
void overview_size(struct strbuf *s, uint64_t bytes);
/* "3d"; in words: "3 days" */
void overview_age(struct strbuf *s, int64_t seconds, bool in_words);

/* Adds "changes" and "size_bytes" (null if unknown) as members of the current object. */
struct json;
void overview_json(struct json *j, const struct overview *o);

#endif
