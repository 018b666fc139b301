/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of one resource as a report lists them: recount_begin(), recount_change() for
 * each, recount_end(). */
#ifndef ENGINE_RECOUNT_H
#define ENGINE_RECOUNT_H

#include "engine/engine.h"

struct recount {
	bool reads; /* the contents of files that may have been rewritten as they were */
	int workspace_fd;
	struct peer original, workspace;
};

void recount_begin(struct recount *r, const struct resource *resource, const struct changes *changes);
void recount_end(struct recount *r);
/* False if the change has no line of its own: an implied one, and what a rename has taken away.
 * After changes_find_renames(). */
bool recount_change(struct recount *r, const struct change *c, enum atoll_change_kind *ret);

#endif
