/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs wrote in private places of their view, which no commit lands: gathered when the command
 * has ended, told to the caller, counted in the record of runs, and kept beside the logs, as
 * discarded.N, for as long as the record knows the run. docs/keeper.md has more.
 */
#ifndef ENGINE_DISCARDED_H
#define ENGINE_DISCARDED_H

#include "engine/engine.h"

struct discarded_group;
struct discarded {
	struct discarded_group *groups; /* as they are told */
	size_t n, n_paths, paths_size;
	bool view_stays;
};
void discarded_release(struct discarded *d);

/* The clock of inodes: what is written from now on is not older. */
int64_t discarded_now(void);
/* layers: as in struct jail_namespaces. began, began_monotonic: by discarded_now() and
 * clock_monotonic_ns(); began 0: all there is. Counts it in *result. */
void discarded_look(int layers, int64_t began, int64_t began_monotonic, struct discarded *ret,
		    struct atoll_run_result *result);
void discarded_tell(const struct discarded *d, atoll_discarded_fn fn, void *arg);
/* What cannot be kept is told and counted all the same. */
void discarded_save(struct atoll *a, const char *uuid, int64_t run, const struct discarded *d);

#endif
