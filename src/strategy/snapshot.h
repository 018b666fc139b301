/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshot.c, snapshot-changes.c and their tests share. */
#ifndef STRATEGY_SNAPSHOT_H
#define STRATEGY_SNAPSHOT_H

#include "strategy/copy.h"

#define SNAPSHOT_BASE "base"

/* In priv, from the first question on. */
struct snapshot {
	struct baseline *record; /* what landed or came back since: partial */
	int base_fd;             /* the original as it was in the beginning */
	uint64_t original;       /* the original's subvolume */
	uint64_t generation;     /* whatever was touched later was touched in the workspace */
	char *path;              /* of the latest answer */
	struct base_xattrs xattrs;
};
int snapshot_load(struct resource *r, struct snapshot **ret, struct atoll_error *err);
/* What is known of the original at path: 1 and its stat, with the directory of `base` and the name there; 0 if it was not there. */
int snapshot_stat(struct snapshot *s, struct peer *base, const char *path, struct tree_stat *ret);

/* How changes are looked for. */
enum snapshot_way {
	SNAPSHOT_QUICKLY, /* by what the filesystem knows was touched, where that may be asked, else by walking */
	SNAPSHOT_BY_WALK,
	SNAPSHOT_BY_SEARCH, /* or not at all */
};
struct changes *snapshot_changes(struct resource *r, bool exact, enum snapshot_way way, struct atoll_error *err);

#endif
