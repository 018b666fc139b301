/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that are kept by looking again and again, and the words about all limits. */
#ifndef ENGINE_RUN_WATCH_H
#define ENGINE_RUN_WATCH_H

#include "engine/run-options.h"

struct run_watch {
	const struct session *s;
	const struct run_options *o;
	uint64_t disk_base; /* what copies took before the run */
	int64_t disk_at;    /* when to measure again */
	bool pids_reached;
	char limited[200];   /* why the watch ended the run, or "" */
	uint64_t nameless;   /* bytes in memfds at the last look */
	int64_t nameless_at; /* when to look again */
};

bool run_watch_is_needed(const struct run_options *o);
/* Refuses to begin where the changes take too much already. */
int run_watch_begin(struct run_watch *w, struct atoll_error *err);
int run_watch_look(pid_t pid, int segments, void *watch); /* as jail_spec wants it */
void run_watch_end(struct run_watch *w, const struct jail_limit_events *events, struct atoll_run_result *ret);
/* "a control group" */
const char *run_watch_means(enum jail_limit_means by);
const char *run_watch_disk_means(const struct session *s, uint64_t limit);
/* By which means each limit is kept. */
void run_watch_tell(const struct session *s, const struct run_options *o, const struct atoll_run_options *options);

#endif
