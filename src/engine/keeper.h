/* SPDX-License-Identifier: Apache-2.0 */
/* The background process that holds a detached run: docs/keeper.md. */
#ifndef ENGINE_KEEPER_H
#define ENGINE_KEEPER_H

#include "engine/engine.h"
#include "engine/scribe.h"

struct keeper {
	int report_fd; /* to whoever started it */
	bool holds;    /* no command: it keeps the view standing while there is nobody else */
	int idle_ms;   /* for so long; of those that hold */
	bool serves;   /* of those: runs commands for others who ask */
	bool busy;     /* with one */
	uint64_t like; /* of whoever started it: likeness() */
	int lock_fd;
	int64_t idle_since;
	bool interactive, tty; /* for those who attach */
	struct scribe scribe;
};

/* The run has its number: from here on its output goes to the log. */
int keeper_open_log(struct keeper *k, struct atoll *a, const char *uuid, int64_t run, struct atoll_error *err);
/* All of the output is in the log. */
void keeper_close_log(struct keeper *k);
/* Tells who started it that the command starts. System calls only. */
void keeper_tell_started(const struct keeper *k, int64_t run);

int keeper_hold(struct atoll *a, const char *name, const struct atoll_run_options *options, bool serves, int idle_ms,
		struct atoll_error *err);
/* jail_spec.watch of one that holds: 0 when its time is over. */
int keeper_look(pid_t pid, int segments, void *keeper);
/* Ends those that hold if they are alone, so that the sandbox can be changed. True if there was one. */
bool keeper_dismiss(int lock_fd);

/* The logs of a sandbox go with it. */
void keeper_remove_logs(struct atoll *a, const char *uuid);

#endif
