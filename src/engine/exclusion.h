/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits, undos and recoveries over overlapping trees exclude each other, whichever sandbox, state directory and user they
 * belong to.
 *
 * Before an op looks at the originals it locks (flock) the root directory of each of its resources exclusively, and every
 * directory above it in shared mode: two ops with the same root, or one whose root lies below the other's, exclude each
 * other; neighbours do not. The root of a file is its directory. The locks die with the process, as the op does.
 *
 *	exclusion_take()     before the first look at an original
 *	...                  the op
 *	exclusion_release()  or session_release()
 *
 * All locks are tried at once, and all are dropped before the op tries again: nobody waits while holding one, so two ops
 * cannot wait for each other, even where one directory has several paths. What the lock cannot reach is told in
 * docs/commit-protocol.md, "Where the promise ends".
 */
#ifndef ENGINE_EXCLUSION_H
#define ENGINE_EXCLUSION_H

#include "engine/engine.h"

/* How long an op waits for others that overlap, unless its caller allows more. */
#define EXCLUSION_WAIT_MS 10000

/* Locks the trees of all resources, which are open. ATOLL_BUSY after the larger of wait_ms and EXCLUSION_WAIT_MS (wait_ms -1:
 * never), ATOLL_CONFLICT if a root is no longer in its place. A sandbox of this state directory whose cut-off op overlaps is
 * recovered first, which `result` notes; NULL: the caller recovers, others are left alone. The database is closed while
 * this waits: no statement or transaction may be open. Does nothing if the session has the locks. */
int exclusion_take(struct session *s, int wait_ms, struct atoll_result *result, struct atoll_error *err);
void exclusion_release(struct session *s);

/* mount-alias.c: the root directory of a bind mount, opened (O_PATH) through a mount that shows the directories above it.
 * -ENOENT if there is none. */
int mount_alias_open(const struct tree_stat *mount_root);

#endif
