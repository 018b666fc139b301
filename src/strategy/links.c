/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that differ from their originals by nothing but their hard links. classify_entry() lists every workspace file with several names;
 * whether its links were changed is known only when all names of the inode have been seen.
 */
#include <string.h>

#include "strategy/strategy.h"

/* The names of one workspace inode. */
struct group {
	uint64_t dev, ino; /* of the original at the first name */
	uint32_t nlink;
	size_t names;
	bool changed;
};

static bool is_linked(const struct change *c)
{
	return c->has_after && S_ISREG(c->after.mode) && c->after.nlink > 1;
}

static void add_name(struct group *g, const struct change *c)
{
	if (!g->names++ && c->has_before) {
		g->dev = c->before.dev;
		g->ino = c->before.ino;
		g->nlink = c->before.nlink;
	}
	g->changed |= !c->maybe_linked || c->before.ino != g->ino || c->before.dev != g->dev;
}

/* The group as a whole is unchanged if its names are exactly those of one original. */
static bool is_unchanged(const struct group *g)
{
	return !g->changed && g->names == g->nlink;
}

static void drop_unchanged(struct changes *c, const struct tree_inodes *inodes, const struct group *groups)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct change *change = &c->v[i];

		if (change->maybe_linked && is_unchanged(&groups[*tree_inodes_find(inodes, &change->after)])) {
			free(change->path);
			continue;
		}
		change->maybe_linked = false;
		c->v[kept++] = *change;
	}
	c->n = kept;
}

int changes_settle_links(struct changes *c)
{
	CLEANUP(tree_inodes_release) struct tree_inodes inodes = { 0 };
	AUTO_FREE struct group *groups = NULL;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += is_linked(&c->v[i]);
	groups = n ? calloc(n, sizeof *groups) : NULL;
	if (n && !groups)
		return -ENOMEM;
	for (size_t i = 0; i < c->n && n; i++) {
		size_t *at = is_linked(&c->v[i]) ? tree_inodes_add(&inodes, &c->v[i].after, inodes.n) : NULL;

		if (at)
			add_name(&groups[*at], &c->v[i]);
		else if (is_linked(&c->v[i]))
			return -ENOMEM;
	}
	if (n)
		drop_unchanged(c, &inodes, groups);
	return 0;
}
