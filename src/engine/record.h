/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of runs: a ring of the latest ones in the sandbox's lock file, behind the slots. Not in the registry: a run that joins
 * others would spend more time there than on everything else.
 */
#ifndef ENGINE_RECORD_H
#define ENGINE_RECORD_H

#include "engine/slot.h"

#define RECORD_MAX 256 /* runs that are remembered */
#define RECORD_COMMAND_MAX 384

enum {
	RECORD_DETACHED = 1 << 0,
	RECORD_NOT_STARTED = 1 << 1, /* exec failed */
	RECORD_TIMED_OUT = 1 << 2,
	RECORD_FAILED = 1 << 3,           /* Atoll failed, not the command */
	RECORD_CUT = 1 << 4,              /* the command line is longer than its field */
	RECORD_LOGGED = 1 << 5,           /* the run's output is on disk */
	RECORD_INTERACTIVE = 1 << 6,      /* and its input comes from attached clients */
	RECORD_TTY = 1 << 7,              /* the command has a terminal of its own */
	RECORD_DISCARDS_MORE = 1 << 8,    /* the counts of discarded files are minimums */
	RECORD_DISCARDS_UNKNOWN = 1 << 9, /* the private places could not be read */
};

struct record {
	int64_t number;               /* 1, 2, … within the sandbox */
	int64_t started_ns, ended_ns; /* ended_ns 0: it runs, or its end was not seen */
	int64_t elapsed_ns, user_ns, system_ns, max_rss;
	int32_t exit_status, signal, slot;
	uint32_t flags, command_size;
	char command[RECORD_COMMAND_MAX]; /* arguments, each ended by NUL */
	uint32_t discarded, temporary;    /* as in struct atoll_run_result; capped at UINT32_MAX */
};

/* With the door closed: the next number, and all but the end. */
int record_begin(int lock_fd, int slot, char *const *argv, unsigned flags, struct record *ret);
/* result NULL: it failed. */
void record_end(int lock_fd, struct record *r, const struct atoll_run_result *result);
/* Newest first; *ret is malloc'ed. */
int record_list(int lock_fd, struct record **ret, size_t *ret_n);

#endif
