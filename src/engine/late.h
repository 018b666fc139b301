/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late writes. A process whose working directory, or an open directory, lies in a tree that a commit has taken out of the
 * original goes on creating and writing files there without an error: they land in the undo data. Nothing can stop it, but
 * nothing of it may vanish: an undo brings these files back with their directory, and undo data that holds any is not removed
 * silently.
 */
#ifndef ENGINE_LATE_H
#define ENGINE_LATE_H

#include "engine/protocol.h"

/* Refuses the removal of a sandbox whose undo data holds late writes, and names the first of them. */
int late_refuse(struct session *s, struct atoll_error *err);

#endif
