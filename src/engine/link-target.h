/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out where a link leads once the commit has landed it. */
#ifndef ENGINE_LINK_TARGET_H
#define ENGINE_LINK_TARGET_H

#include "engine/protocol.h"

enum link_place {
	LINK_INSIDE, /* into a resource of the sandbox */
	LINK_SYSTEM, /* into a tree of the system */
	LINK_OUTSIDE,
};

/* Resolves the target as the kernel will after the commit has landed: link by link, in the tree as
 * the commit leaves it. dir is the absolute path of the link's directory, without links. A ".."
 * behind a missing entry counts as leading outside, since that entry may become anything. 0 or
 * -errno. */
int link_target_place(struct op *op, const char *dir, const char *target, enum link_place *ret);

#endif
