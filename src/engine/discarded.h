/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that runs wrote in private places of their view; no commit lands them. Atoll gathers them
 * when the command has ended, passes them to the caller, counts them in the record of runs, and
 * keeps them beside the logs, as discarded.N, until the record drops the run. See docs/keeper.md.
 */
#ifndef ENGINE_DISCARDED_H
#define ENGINE_DISCARDED_H

#include "engine/engine.h"

struct discarded_group;
struct discarded {
	struct discarded_group *groups; /* in the order of discarded_tell() */
	size_t n, n_paths, paths_size;
	bool view_stays;
};
void discarded_release(struct discarded *d);

/* Reads the clock of inode timestamps: a file that is written from now on has no older one. */
int64_t discarded_now(void);
/* Gathers into *ret and counts in *result. layers: as in struct jail_namespaces. began and
 * began_monotonic: from discarded_now() and clock_monotonic_ns(); began 0: all entries count. */
void discarded_look(int layers, int64_t began, int64_t began_monotonic, struct discarded *ret,
		    struct atoll_run_result *result);
void discarded_tell(const struct discarded *d, atoll_discarded_fn fn, void *arg);
/* Ignores a failure to save: the caller still gets the entries, and the record their counts. */
void discarded_save(struct atoll *a, const char *uuid, int64_t run, const struct discarded *d);

#endif
