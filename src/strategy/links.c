/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that differ from their originals by nothing but their hard links. classify_entry() lists a workspace file that has as many names as
 * its original, and is equal otherwise; whether they are the same names is known when all names of the inode have been classified. A name
 * that a strategy knows to be untouched is not classified: its inode has the links that it had.
 */
#include <string.h>

#include "strategy/strategy.h"

/* The names of one workspace inode. */
struct group {
	uint64_t dev, ino; /* of the original at the first name */
	bool begun;
	bool changed;
};

static bool is_linked(const struct change *c)
{
	return c->has_after && !S_ISDIR(c->after.mode) && c->after.nlink > 1;
}

static void add_name(struct group *g, const struct change *c)
{
	if (!g->begun) {
		g->dev = c->before.dev;
		g->ino = c->before.ino;
		g->begun = true;
	}
	g->changed |= !c->maybe_linked || c->before.ino != g->ino || c->before.dev != g->dev;
}

static void drop_unchanged(struct changes *c, const struct tree_inodes *inodes, const struct group *groups)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct change *change = &c->v[i];

		if (change->maybe_linked && !groups[*tree_inodes_find(inodes, &change->after)].changed) {
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
		uint64_t *at = is_linked(&c->v[i]) ? tree_inodes_add(&inodes, &c->v[i].after, inodes.n) : NULL;

		if (at)
			add_name(&groups[*at], &c->v[i]);
		else if (is_linked(&c->v[i]))
			return -ENOMEM;
	}
	if (n)
		drop_unchanged(c, &inodes, groups);
	return 0;
}
