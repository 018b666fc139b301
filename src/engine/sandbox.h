/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sandbox as a whole: what new, rm, run and recover share. */
#ifndef ENGINE_SANDBOX_H
#define ENGINE_SANDBOX_H

#include "engine/engine.h"

/* Areas first, then the records, then the lock. Idempotent; with the change lock held. */
int sandbox_remove_everything(struct session *s, struct atoll_error *err);
/* session_open() for operations that do not take the change lock: recovers the sandbox first if anything is left of a crash. */
int sandbox_open(struct atoll *a, const char *name, enum lock_mode mode, int wait_ms, struct session *ret,
		 struct atoll_error *err);

/* Removes what an interrupted new may have made in any of the places it could have chosen. */
void area_remove_candidates(struct session *s, int seq, int root_fd, const char *root_path);

/* spec.c: a resource as given by a user, resolved and accepted, or refused with the reason. */
int spec_resolve(struct atoll *a, struct store *store, const struct atoll_resource_spec *spec,
		 struct store_resource *ret, struct atoll_error *err);
/* Returns the malloc'ed first mount point strictly below path, or NULL. skip: NULL, or returns true
 * for mount points to ignore. */
char *spec_find_submount(const char *path, bool (*skip)(const char *mount, const void *arg), const void *arg);
int spec_check_overlap(const struct store_resource *rows, size_t n, struct atoll_error *err);
/* Why a strategy cannot serve this resource: 0 and the reason stays empty, or 1; negative on failure. */
int spec_try_strategy(const struct strategy_ops *ops, const struct store_resource *row, int root_fd,
		      struct strbuf *reason);

/* Whether a resource of the kind lives in the workspace of another one that it lies in (strategy.h: STRATEGY_GUEST). */
bool spec_is_guest(enum atoll_kind kind);

/* choose.c: gives each row strategy, reason, mode and areas, which are made. What was made stays if it fails. */
int choose_all(struct atoll *a, const char *uuid, const struct atoll_new_options *options, struct store_resource *rows,
	       struct atoll_error *err);

#endif
