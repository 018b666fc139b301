/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that differ from their originals by nothing but their hard links. classify_entry() lists
 * each of them that has several names. When all names of the inode have been classified, it is known
 * whether those that land are one file in the original too: then landing them changes nothing,
 * unless the original's file has names that the inode has lost. A name that a strategy knows to be
 * untouched is not classified: its inode has the links that it had.
 */
#include <string.h>

#include "strategy/strategy.h"

/* The names of one workspace inode that land. */
struct group {
	uint64_t dev, ino; /* of the original at the first name */
	size_t names;
	bool changed;
};

static bool is_landing(const struct change *c, bool (*lands)(const struct change *c, const void *arg), const void *arg)
{
	return c->has_after && !S_ISDIR(c->after.mode) && c->after.nlink > 1 && c->kind != ATOLL_SKIPPED && !c->part &&
	       (!lands || lands(c, arg));
}

static bool differs_by_links_only(const struct change *c)
{
	return c->kind == ATOLL_META && c->what == ATOLL_WHAT_LINKS;
}

static void add_name(struct group *g, const struct change *c)
{
	if (!g->names++) {
		g->dev = c->before.dev;
		g->ino = c->before.ino;
	}
	g->changed |= !differs_by_links_only(c) || c->before.ino != g->ino || c->before.dev != g->dev;
}

/* If all names of the inode land, but the original's file has another number of names, these have come
 * or gone. If one of them stays behind, the others land as a copy, and the original has such a file
 * already. */
static bool is_idle(const struct change *c, const struct group *g)
{
	return differs_by_links_only(c) && !g->changed && (c->maybe_linked || g->names < c->after.nlink);
}

int changes_find_idle(struct changes *c, bool (*lands)(const struct change *c, const void *arg), const void *arg)
{
	CLEANUP(tree_inodes_release) struct tree_inodes inodes = { 0 };
	AUTO_FREE struct group *groups = NULL;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += is_landing(&c->v[i], lands, arg);
	groups = n ? calloc(n, sizeof *groups) : NULL;
	if (n && !groups)
		return -ENOMEM;
	for (size_t i = 0; i < c->n && n; i++) {
		bool landing = is_landing(&c->v[i], lands, arg);
		uint64_t *at = landing ? tree_inodes_add(&inodes, &c->v[i].after, inodes.n) : NULL;

		if (at)
			add_name(&groups[*at], &c->v[i]);
		else if (landing)
			return -ENOMEM;
	}
	for (size_t i = 0; i < c->n && n; i++)
		c->v[i].idle = is_landing(&c->v[i], lands, arg) &&
			       is_idle(&c->v[i], &groups[*tree_inodes_find(&inodes, &c->v[i].after)]);
	return 0;
}

int changes_settle_links(struct changes *c)
{
	int r = changes_find_idle(c, NULL, NULL);
	size_t kept = 0;

	for (size_t i = 0; i < c->n && r >= 0; i++) {
		struct change *change = &c->v[i];

		if (change->idle) {
			free(change->path);
			continue;
		}
		change->maybe_linked = false;
		c->v[kept++] = *change;
	}
	if (r >= 0)
		c->n = kept;
	return r;
}
