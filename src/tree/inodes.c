/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from inodes to numbers: open addressing with linear probing, at most half full. And one from inodes to paths over it. */
#include <stdlib.h>
#include <string.h>

#include "tree/private.h"

struct tree_inode {
	uint64_t dev, ino;
	uint64_t value;
	bool used;
};

void tree_inodes_release(struct tree_inodes *t)
{
	free(t->v);
	*t = (struct tree_inodes){ 0 };
}

/* Where the inode is, or the free place where it would be. */
static struct tree_inode *probe(const struct tree_inodes *t, uint64_t dev, uint64_t ino)
{
	size_t at = (size_t)((ino ^ (dev << 32)) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (t->room - 1);

	while (t->v[at].used && (t->v[at].ino != ino || t->v[at].dev != dev))
		at = (at + 1) & (t->room - 1);
	return &t->v[at];
}

static int grow(struct tree_inodes *t)
{
	struct tree_inodes larger = { .room = t->room ? t->room * 2 : 64, .n = t->n };

	larger.v = calloc(larger.room, sizeof *larger.v);
	if (!larger.v)
		return -ENOMEM;
	for (size_t i = 0; i < t->room; i++)
		if (t->v[i].used)
			*probe(&larger, t->v[i].dev, t->v[i].ino) = t->v[i];
	free(t->v);
	*t = larger;
	return 0;
}

uint64_t *tree_inodes_find(const struct tree_inodes *t, const struct tree_stat *st)
{
	struct tree_inode *found = t->n ? probe(t, st->dev, st->ino) : NULL;

	return found && found->used ? &found->value : NULL;
}

uint64_t *tree_inodes_add(struct tree_inodes *t, const struct tree_stat *st, uint64_t value)
{
	struct tree_inode *at;

	if (t->n * 2 >= t->room && grow(t) < 0)
		return NULL;
	at = probe(t, st->dev, st->ino);
	if (!at->used) {
		*at = (struct tree_inode){ st->dev, st->ino, value, true };
		t->n++;
	}
	return &at->value;
}

/* ---- paths ---- */

void tree_links_release(struct tree_links *l)
{
	for (size_t i = 0; i < l->index.n; i++)
		free(l->paths[i]);
	free(l->paths);
	tree_inodes_release(&l->index);
	*l = (struct tree_links){ 0 };
}

const char *tree_links_find(const struct tree_links *l, const struct tree_stat *st)
{
	const uint64_t *at = tree_inodes_find(&l->index, st);

	return at ? l->paths[*at] : NULL;
}

int tree_links_put(struct tree_links *l, const struct tree_stat *st, const char *path)
{
	char *copy = strdup(path);
	uint64_t *at;
	size_t n = l->index.n;

	if (copy && n == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 16;
		char **grown = reallocarray(l->paths, capacity, sizeof *grown);

		if (grown) {
			l->paths = grown;
			l->capacity = capacity;
		}
	}
	at = copy && n < l->capacity ? tree_inodes_add(&l->index, st, n) : NULL;
	if (!at) {
		free(copy);
		return -ENOMEM;
	}
	if (*at < n)
		free(l->paths[*at]);
	l->paths[*at] = copy;
	return 0;
}
