/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames, where the workspace knows them: a file that was added and has its origin in an original that was deleted. To everything that
 * lands changes they are an addition and a deletion; they are shown as one, and a part of one is not committed alone.
 *
 * A renamed file may have been edited too, and size and mtime prove nothing: the sandboxed command
 * sets both as it likes.
 */
#include "strategy/strategy.h"

#include <string.h>

#include "base/error.h"

struct deleted {
	struct tree_id id;
	size_t index;
};

static int compare_ids(const void *a, const void *b)
{
	const struct deleted *x = a, *y = b;

	if (x->id.size != y->id.size)
		return x->id.size < y->id.size ? -1 : 1;
	return memcmp(x->id.data, y->id.data, x->id.size);
}

static bool may_be_renamed(const struct change *c)
{
	return c->kind == ATOLL_ADDED && !c->gone && !c->part && S_ISREG(c->after.mode);
}

static int collect_deleted(struct resource *r, const struct changes *c, struct deleted **ret, size_t *ret_n)
{
	struct peer peer = { r->root_fd, NULL, -EBADF };
	struct deleted *list = reallocarray(NULL, c->n ? c->n : 1, sizeof *list);
	size_t n = 0;

	for (size_t i = 0; list && i < c->n; i++) {
		int dir;

		if (c->v[i].kind != ATOLL_DELETED || c->v[i].part || !c->v[i].has_before ||
		    !S_ISREG(c->v[i].before.mode))
			continue;
		dir = peer_dir(&peer, c->v[i].path, path_parent_size(c->v[i].path));
		if (dir >= 0 && tree_identify(dir, path_base_name(c->v[i].path), &c->v[i].before, &list[n].id) >= 0)
			list[n++].index = i;
	}
	peer_release(&peer);
	if (list && n)
		qsort(list, n, sizeof *list, compare_ids);
	*ret = list;
	*ret_n = n;
	return list ? 0 : -ENOMEM;
}

static bool has_candidate(const struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (may_be_renamed(&c->v[i]))
			return true;
	return false;
}

int changes_find_renames(struct resource *r, struct changes *c, struct atoll_error *err)
{
	AUTO_FREE struct deleted *deleted = NULL;
	size_t n = 0;

	if (!r->ops->origin || !has_candidate(c))
		return 0;
	if (collect_deleted(r, c, &deleted, &n) < 0)
		return error_oom(err, "diff");
	for (size_t i = 0; i < c->n && n; i++) {
		struct deleted key = { .index = 0 };
		const struct deleted *found;

		if (!may_be_renamed(&c->v[i]) || r->ops->origin(r, &c->v[i], &key.id) <= 0)
			continue;
		found = bsearch(&key, deleted, n, sizeof *deleted, compare_ids);
		if (!found || c->v[found->index].renamed)
			continue;
		c->v[i].old_path = strdup(c->v[found->index].path);
		if (!c->v[i].old_path)
			return error_oom(err, "diff");
		c->v[found->index].renamed = true;
	}
	return 0;
}

static int compare(struct resource *r, struct change *c, const struct change *old, struct peer *workspace,
		   struct peer *original)
{
	struct pair pair = { .name_a = path_base_name(c->path),
			     .a = &c->after,
			     .name_b = path_base_name(old->path),
			     .b = &old->before,
			     .uid = old->before.uid,
			     .gid = old->before.gid,
			     .marks = resource_marks(r) };
	unsigned what = 0;
	int rc;

	pair.dir_a = peer_dir(workspace, c->path, path_parent_size(c->path));
	pair.dir_b = peer_dir(original, old->path, path_parent_size(old->path));
	rc = pair.dir_a < 0 ? pair.dir_a : pair.dir_b < 0 ? pair.dir_b : pair_differs(&pair, true, &what);
	/* A file that cannot be read, or that was just removed, counts as changed. */
	c->what |= rc < 0 ? (unsigned)ATOLL_WHAT_CONTENT : what;
	return rc == -ENOMEM ? rc : 0;
}

int changes_compare_renames(struct resource *r, struct changes *c, int workspace_fd, struct atoll_error *err)
{
	struct peer workspace = { workspace_fd, NULL, -EBADF };
	struct peer original = { r->root_fd, NULL, -EBADF };
	int rc = 0;

	for (size_t i = 0; i < c->n && rc >= 0; i++) {
		const struct change *old = c->v[i].old_path ? changes_find(c, c->v[i].old_path) : NULL;

		if (old && old->renamed && !(r->ops->is_as_origin && r->ops->is_as_origin(r, &c->v[i], old)))
			rc = compare(r, &c->v[i], old, &workspace, &original);
	}
	peer_release(&workspace);
	peer_release(&original);
	return rc < 0 ? error_oom(err, "diff") : 0;
}
