/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies the changes of one resource as a report lists them: call recount_begin(), then
 * recount_change() for each change, then recount_end(). */
#ifndef ENGINE_RECOUNT_H
#define ENGINE_RECOUNT_H

#include "engine/engine.h"

struct recount {
	bool reads; /* whether to read files that may have been rewritten with equal content */
	int workspace_fd;
	struct peer original, workspace;
};

void recount_begin(struct recount *r, const struct resource *resource, const struct changes *changes);
void recount_end(struct recount *r);
/* Returns false if the report does not list the change: an implied one, or the deletion that
 * belongs to a rename. Call it after changes_find_renames(). */
bool recount_change(struct recount *r, const struct change *c, enum atoll_change_kind *ret);

#endif
