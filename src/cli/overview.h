/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of a sandbox beside struct atoll_info, and costs something: its changes, and what they take on disk. */
#ifndef CLI_OVERVIEW_H
#define CLI_OVERVIEW_H

#include "cli/changes.h"

struct overview {
	bool is_counted; /* changes and bytes are known */
	struct changes_counts changes;
	uint64_t bytes;              /* that the workspaces take; what may not be looked at is left out */
	int64_t age_s, idle_s;       /* since it was made, and last used */
	struct atoll_run_info *runs; /* newest first; NULL: not asked for */
	size_t n_runs, n_running;
};

/* Cheap: what follows from info. */
void overview_init(struct overview *o, const struct atoll_info *info);
/* Changes and bytes. They stay unknown where a commit is to be recovered first, or another process changes the sandbox. */
void overview_count(struct overview *o, struct cli *cli, const struct atoll_info *info);
void overview_runs(struct overview *o, struct cli *cli, const struct atoll_info *info);
void overview_release(struct overview *o);

#define AUTO_OVERVIEW CLEANUP(overview_release) struct overview

/* What the user can do next, in one line, as commands. */
void overview_advice(struct strbuf *s, const struct overview *o, const struct atoll_info *info);

/* "12", "3.4K" */
void overview_size(struct strbuf *s, uint64_t bytes);
/* "3d"; in words: "3 days" */
void overview_age(struct strbuf *s, int64_t seconds, bool in_words);

/* "changes" and "size_bytes" (null if not known), as members of an object that was begun. */
struct json;
void overview_json(struct json *j, const struct overview *o);

#endif
