/* SPDX-License-Identifier: Apache-2.0 */
/* What a run that was killed may have left in a workspace: a directory that was being moved (src/tree/move.c). */
#include "engine/protocol.h"

#include "engine/served.h"

static int remove_stray(const struct tree_entry *e, void *arg)
{
	int *first = arg;
	int r;

	if (!S_ISDIR(e->stat.mode) || !tree_is_move_name(e->name))
		return e->fd < 0 && S_ISDIR(e->stat.mode) ? TREE_WALK_SKIP : TREE_WALK_GO;
	r = tree_remove(e->dirfd, e->name);
	if (r < 0 && *first == 0)
		*first = r;
	return TREE_WALK_SKIP;
}

/* Nobody is inside: what moved is dead, and the door keeps others out meanwhile. */
void strays_remove(struct session *s)
{
	int failed = 0;

	if (!slot_close_after_dead(s->lock_fd))
		return;
	for (size_t i = 0; i < s->n; i++) {
		AUTO_FD fd = s->resources[i].ops->capabilities & STRATEGY_OVERLAY ? resource_workspace(&s->resources[i])
										  : -EBADF;
		int r = fd < 0 ? 0 : tree_walk(fd, 0, remove_stray, &failed, NULL);

		if (r < 0)
			failed = r;
	}
	server_forget(s->a, s->box.name);
	/* Otherwise the next one tries again. */
	if (failed == 0)
		slot_forget_dead(s->lock_fd);
	slot_open_door(s->lock_fd);
}
