/* SPDX-License-Identifier: Apache-2.0 */
/* Where a link that is about to land will lead. */
#ifndef ENGINE_LINK_TARGET_H
#define ENGINE_LINK_TARGET_H

#include "engine/protocol.h"

enum link_place {
	LINK_INSIDE, /* a resource of the sandbox */
	LINK_SYSTEM, /* a tree of the system's own */
	LINK_OUTSIDE,
};

/* Resolves the target as the kernel will once the commit has landed: link by link, in the tree that there will be then. dir is the
 * absolute path of the link's directory, without links. A ".." behind something that is not there leads outside, since nothing can be
 * known of it. 0 or -errno. */
int link_target_place(struct op *op, const char *dir, const char *target, enum link_place *ret);

#endif
