/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/leftovers.h"

#include <fcntl.h>
#include <string.h>

struct strays {
	const struct store_op *ops;
	size_t n;
	bool remove;
	bool found;
};

/* The op's directory, or its layer. */
static bool is_of(const char *name, const char *dir)
{
	size_t size = strlen(dir);

	return strncmp(name, dir, size) == 0 && (!name[size] || name[size] == '.');
}

static bool is_known(const struct strays *known, const char *name)
{
	for (size_t i = 0; i < known->n; i++) {
		const struct store_op *op = &known->ops[i];

		if (is_of(name, op->dir) &&
		    !(op->kind == STORE_OP_COMMIT && (op->phase == STORE_FAILED || op->taken_back)))
			return true;
	}
	return false;
}

static int visit_stray(const struct tree_entry *e, void *arg)
{
	struct strays *known = arg;

	if (strncmp(e->name, "op-", 3) != 0 || is_known(known, e->name))
		return TREE_WALK_SKIP;
	known->found = true;
	if (known->remove)
		tree_remove(e->dirfd, e->name);
	return TREE_WALK_SKIP;
}

static int walk_strays(struct session *s, struct strays *known, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	int r = store_op_list(s->store, s->box.id, &ops, &known->n, err);

	if (r < 0)
		return r;
	known->ops = ops;
	for (size_t i = 0; i < s->n; i++) {
		const int fds[2] = { s->resources[i].stage_fd, s->resources[i].work_fd };

		for (size_t k = 0; k < ARRAY_SIZE(fds); k++)
			if (fds[k] >= 0)
				tree_walk(fds[k], TREE_WALK_NO_ROOT, visit_stray, known, NULL);
	}
	store_ops_free(ops, known->n);
	known->ops = NULL;
	return 0;
}

int leftovers_remove(struct session *s, struct atoll_error *err)
{
	struct strays known = { .remove = true };
	int r = walk_strays(s, &known, err);

	for (size_t i = 0; i < s->n && r >= 0; i++)
		reset_empty_trash(s->resources[i].work_fd);
	return r;
}

/* ---- looking, without a lock ---- */

static int stop_at_first(const struct tree_entry *e, void *arg)
{
	*(bool *)arg = true;
	return TREE_WALK_STOP;
}

static bool has_trash(int area_fd)
{
	AUTO_FD trash = area_fd < 0 ? -EBADF : fd_open_beneath(area_fd, "trash", O_RDONLY | O_DIRECTORY);
	bool found = false;

	if (trash >= 0)
		tree_walk(trash, TREE_WALK_NO_ROOT, stop_at_first, &found, NULL);
	return found;
}

/* What is not on record may still wait in a repository or at a server. */
static bool may_wait_elsewhere(struct session *s, struct resource *r)
{
	if (r->ops->vote_sweep)
		return true;
	return r->ops->part_left && resource_open(s, r, NULL) >= 0 && r->ops->part_left(r);
}

bool leftovers_may_exist(struct session *s)
{
	struct strays known = { 0 };

	if (recover_is_needed(s, NULL))
		return true;
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];

		if (may_wait_elsewhere(s, r))
			return true;
		if (r->work_fd < 0 && resource_open_areas(s, r, NULL) < 0)
			return true;
		if (has_trash(r->work_fd))
			return true;
	}
	return walk_strays(s, &known, NULL) < 0 || known.found;
}
