/* SPDX-License-Identifier: Apache-2.0 */
/* The identities of the entries of a large change set, read by several threads. */
#include "engine/protocol.h"

#include "base/parallel.h"

struct identifier {
	struct changes *changes;
	const struct selection *selection;
	struct peer original, workspace;
};

/* Errors are left out here: plan_make() asks again for an entry that failed, and reports it. */
static void identify(struct identifier *w, struct change *c)
{
	struct store_look unused;
	int dir;

	if (c->gone || c->below || c->part || c->kind == ATOLL_SKIPPED || !selection_has(w->selection, c->path))
		return;
	if (c->has_before)
		(void)change_look(c, &w->original, &unused);
	if (!c->has_after || S_ISDIR(c->after.mode))
		return;
	dir = peer_dir(&w->workspace, c->path, path_parent_size(c->path));
	if (dir < 0 || tree_identify(dir, path_base_name(c->path), &c->after, &c->after_id) < 0)
		c->after_id.size = 0;
}

static void identify_portion(void *arg, size_t part, size_t first, size_t end)
{
	struct identifier *w = (struct identifier *)arg + part;

	for (size_t i = first; i < end; i++)
		identify(w, &w->changes->v[i]);
}

void plan_identify(struct changes *changes, const struct selection *selection, int original_fd, int workspace_fd)
{
	struct identifier parts[PARALLEL_MAX];

	if (!parallel_is_worth(changes->n))
		return;
	for (size_t i = 0; i < PARALLEL_MAX; i++)
		parts[i] = (struct identifier){
			changes, selection, { original_fd, NULL, -EBADF }, { workspace_fd, NULL, -EBADF }
		};
	parallel_run(changes->n, identify_portion, parts);
	for (size_t i = 0; i < PARALLEL_MAX; i++) {
		peer_release(&parts[i].original);
		peer_release(&parts[i].workspace);
	}
}
