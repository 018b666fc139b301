/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies the changes of a commit for its report as a diff does, so that both show the same
 * numbers: a rename counts as one change, and a file rewritten with equal content as metadata only.
 */
#include "engine/recount.h"

/* A commit moves files and need not read them. Reading a few small files takes no time compared to
 * the commit's flushes; if there are more, each counts as modified. */
#define READ_FILES 32
#define READ_BYTES (1 << 20)

static bool may_be_rewritten(const struct change *c)
{
	return c->kind == ATOLL_MODIFIED && !c->part && (c->what & ATOLL_WHAT_CONTENT) && c->has_before &&
	       c->has_after && S_ISREG(c->before.mode) && S_ISREG(c->after.mode) && c->before.size == c->after.size &&
	       c->before.mtime != c->after.mtime && c->after.size <= READ_BYTES;
}

void recount_begin(struct recount *r, const struct resource *resource, const struct changes *changes)
{
	size_t n = 0;

	for (size_t i = 0; i < changes->n && n <= READ_FILES; i++)
		n += may_be_rewritten(&changes->v[i]);
	*r = (struct recount){ .reads = n > 0 && n <= READ_FILES,
			       .workspace_fd = -EBADF,
			       .original = { resource->root_fd, NULL, -EBADF } };
	if (r->reads)
		r->workspace_fd = resource_workspace(resource);
	r->workspace = (struct peer){ r->workspace_fd, NULL, -EBADF };
}

void recount_end(struct recount *r)
{
	peer_release(&r->original);
	peer_release(&r->workspace);
	r->workspace_fd = fd_close(r->workspace_fd);
}

static bool is_rewritten(struct recount *r, const struct change *c)
{
	size_t size = path_parent_size(c->path);
	int original, workspace;

	if (!r->reads || !may_be_rewritten(c))
		return false;
	original = peer_dir(&r->original, c->path, size);
	workspace = peer_dir(&r->workspace, c->path, size);
	return original >= 0 && workspace >= 0 &&
	       tree_same_content(workspace, path_base_name(c->path), original, path_base_name(c->path)) > 0;
}

bool recount_change(struct recount *r, const struct change *c, enum atoll_change_kind *ret)
{
	if (c->implied || c->renamed)
		return false;
	*ret = c->old_path ? ATOLL_RENAMED : is_rewritten(r, c) ? ATOLL_META : c->kind;
	return true;
}
