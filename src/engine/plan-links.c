/* SPDX-License-Identifier: Apache-2.0 */
/* Files with several names: which must land as copies, and which do not land without other names. */
#include "engine/protocol.h"

struct links {
	struct changes *changes;
	const struct selection *selection;
	bool ours; /* the commit overrides changes of other processes */
};

static bool lands(const struct change *c, const void *links)
{
	const struct links *l = links;

	return (!c->gone || l->ours) && selection_has(l->selection, c->path);
}

static bool lands_linked(const struct links *l, const struct change *c)
{
	return c->has_after && !S_ISDIR(c->after.mode) && c->after.nlink > 1 && c->kind != ATOLL_SKIPPED && !c->part &&
	       lands(c, l);
}

int plan_skip_idle(struct changes *changes, const struct selection *selection, bool ours)
{
	const struct links l = { changes, selection, ours };
	int r = selection_has(selection, "") ? 0 : changes_find_idle(changes, lands, &l);

	for (size_t i = 0; i < changes->n && r >= 0; i++)
		if (changes->v[i].idle) {
			changes->v[i].kind = ATOLL_SKIPPED;
			changes->v[i].note = "only its hard links differ, and they land together with its other names";
		}
	return r;
}

/* Union-find over the changes. A group holds changes that must be copied together or not at all:
 * those below one directory that lands as a whole, and the names of one file. groups[i] is the
 * parent of change i in the tree of its group; a root is its own parent. Returns the root. */
static size_t find_group(size_t *groups, size_t i)
{
	while (groups[i] != i) {
		groups[i] = groups[groups[i]];
		i = groups[i];
	}
	return i;
}

static int join_groups(const struct links *l, size_t *groups)
{
	CLEANUP(tree_inodes_release) struct tree_inodes files = { 0 };
	size_t top = 0;
	bool within = false;

	for (size_t i = 0; i < l->changes->n; i++) {
		const struct change *c = &l->changes->v[i];
		uint64_t *first;

		within = within && path_is_below(c->path, l->changes->v[top].path);
		if (!within) {
			top = i;
			within = (c->kind == ATOLL_ADDED || c->kind == ATOLL_TYPE) && c->has_after &&
				 S_ISDIR(c->after.mode);
		}
		groups[i] = i;
		groups[i] = find_group(groups, top);
		if (!lands_linked(l, c))
			continue;
		first = tree_inodes_add(&files, &c->after, i);
		if (!first)
			return -ENOMEM;
		groups[find_group(groups, i)] = find_group(groups, (size_t)*first);
	}
	return 0;
}

/* If one name of a file lands as a copy, all of its names must. Otherwise they would land as two
 * files, and one of these would keep a name in the workspace. A directory that lands as a whole is
 * copied with all of its content. */
static int spread_shared(const struct links *l)
{
	AUTO_FREE size_t *groups = reallocarray(NULL, l->changes->n, sizeof *groups);
	AUTO_FREE bool *copied = calloc(l->changes->n, sizeof *copied);
	int r = groups && copied ? join_groups(l, groups) : -ENOMEM;

	for (size_t i = 0; i < l->changes->n && r >= 0; i++)
		copied[find_group(groups, i)] |= l->changes->v[i].shared;
	for (size_t i = 0; i < l->changes->n && r >= 0; i++) {
		struct change *c = &l->changes->v[i];

		c->shared |= copied[find_group(groups, i)] && lands_linked(l, c);
	}
	return r;
}

int plan_find_shared(struct changes *changes, const struct selection *selection, bool ours)
{
	const struct links l = { changes, selection, ours };
	CLEANUP(tree_inodes_release) struct tree_inodes landing = { 0 };
	bool found = false;
	int r;

	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = &changes->v[i];
		uint64_t *names = lands_linked(&l, c) ? tree_inodes_add(&landing, &c->after, 0) : NULL;

		if (names)
			(*names)++;
		else if (lands_linked(&l, c))
			return -ENOMEM;
	}
	for (size_t i = 0; i < changes->n && landing.n; i++) {
		struct change *c = &changes->v[i];

		c->shared = lands_linked(&l, c) && *tree_inodes_find(&landing, &c->after) < c->after.nlink;
		found |= c->shared;
	}
	r = found ? spread_shared(&l) : 0;
	return r < 0 ? r : found;
}
