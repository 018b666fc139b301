/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tree of a sandbox's changes. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "cli/pick.h"

/* ---- what lands as a whole ---- */

bool pick_is_impossible(const struct atoll_info *info)
{
	return info->n_resources == 1 && !info->resources[0].divides;
}

bool pick_is_one_whole(const struct pick *p)
{
	return p->n > 0 && !*p->v[0].path && p->v[0].is_whole && p->v[0].end == p->n;
}

/* Files of a repository may land alone, unless commits or refs were made inside: these contain the same
 * files. fold_sort() puts commits and refs first, so the first change of a resource decides. */
static bool is_whole_resource(const struct atoll_info *info, const struct fold_entry *first)
{
	for (size_t i = 0; i < info->n_resources; i++)
		if (info->resources[i].seq == first->resource)
			return !info->resources[i].divides ||
			       (info->resources[i].kind == ATOLL_KIND_GIT && first->flags & PATH_PART);
	return false;
}

/* If only some files of a git directory landed, it would be no repository any more. */
static bool is_git_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, ".git") == 0;
}

/* The engine commits a deleted or replaced directory only with everything below it. */
static bool is_whole_change(const struct fold_entry *e)
{
	return e->kind == ATOLL_DELETED || e->kind == ATOLL_TYPE;
}

/* ---- making the tree ---- */

static struct pick_node *add_node(struct pick *p, const struct pick_node *node)
{
	if (p->n == p->capacity) {
		size_t capacity = MAX(2 * p->capacity, (size_t)256);
		struct pick_node *v = reallocarray(p->v, capacity, sizeof(*v));

		if (!v)
			return NULL;
		p->v = v;
		p->capacity = capacity;
	}
	p->v[p->n] = *node;
	p->v[p->n].depth = node->parent == PICK_NONE ? 0 : p->v[node->parent].depth + 1;
	p->v[p->n].ticked = true;
	return &p->v[p->n++];
}

static const char *keep_dir(struct pick *p, const char *path, size_t size)
{
	char **grown = reallocarray(p->dirs, p->n_dirs + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	p->dirs = grown;
	grown[p->n_dirs] = strndup(path, size);
	return grown[p->n_dirs] ? grown[p->n_dirs++] : NULL;
}

/* Returns the innermost node that holds the entry, above or at the latest node. */
static size_t holder_of(const struct pick *p, size_t at, const struct fold_entry *e)
{
	while (at != PICK_NONE &&
	       (p->v[at].resource_path != e->resource_path || (e->flags & PATH_PART && *p->v[at].path) ||
		(p->v[at].entry && (p->v[at].entry->flags & PATH_PART)) || !pick_lies_below(e->path, p->v[at].path)))
		at = p->v[at].parent;
	return at;
}

/* Adds nodes for the directories between the holder and the entry. */
static int add_directories(struct pick *p, size_t *holder, const struct fold_entry *e)
{
	size_t from = *holder == PICK_NONE ? 0 : strlen(p->v[*holder].path);
	const char *slash;

	for (from += from > 0; !(e->flags & PATH_PART) && (slash = strchr(e->path + from, '/'));
	     from = (size_t)(slash - e->path) + 1) {
		struct pick_node dir = { .path = keep_dir(p, e->path, (size_t)(slash - e->path)),
					 .resource_path = e->resource_path,
					 .parent = *holder };

		dir.is_whole = dir.path && is_git_directory(dir.path);
		if (!dir.path || !add_node(p, &dir))
			return -ENOMEM;
		*holder = p->n - 1;
	}
	return 0;
}

static int add_entry(struct pick *p, const struct atoll_info *info, const struct fold_entry *e)
{
	bool is_root = !*e->path, is_whole = is_whole_resource(info, e);
	size_t holder = p->n ? holder_of(p, p->n - 1, e) : PICK_NONE;
	struct pick_node node = { .path = e->path, .entry = e, .resource_path = e->resource_path };

	if (holder == PICK_NONE && (p->several || is_whole || is_root)) {
		struct pick_node top = { .path = "", .resource_path = e->resource_path, .parent = PICK_NONE };

		top.is_whole = is_whole;
		top.entry = is_root ? e : NULL;
		if (!add_node(p, &top))
			return -ENOMEM;
		holder = p->n - 1;
		if (is_root)
			return 0;
	}
	if (add_directories(p, &holder, e) < 0)
		return -ENOMEM;
	node.parent = holder;
	node.is_whole = is_whole_change(e) || (!(e->flags & PATH_PART) && is_git_directory(e->path));
	return add_node(p, &node) ? 0 : -ENOMEM;
}

static void find_ends(struct pick *p)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].end = i + 1;
	for (size_t i = p->n; i-- > 0;)
		if (p->v[i].parent != PICK_NONE)
			p->v[p->v[i].parent].end = MAX(p->v[p->v[i].parent].end, p->v[i].end);
}

static int add_change(const struct atoll_change *change, void *arg)
{
	struct pick *p = arg;

	if (change->kind == ATOLL_SKIPPED) {
		p->skipped++;
		return 0;
	}
	return fold_add(p->changes, change, p->several) < 0;
}

static int make_tree(struct pick *p, const struct atoll_info *info)
{
	fold_find_ignored(p->changes);
	fold_sort(p->changes, p->changes->n);
	for (size_t i = 0; i < p->changes->n; i++)
		if (add_entry(p, info, &p->changes->entries[i]) < 0)
			return -ENOMEM;
	find_ends(p);
	pick_recount(p);
	return 0;
}

int pick_load(struct cli *cli, const struct atoll_info *info, struct pick *ret, struct atoll_error *err)
{
	AUTO_PICK p = { .changes = fold_new(), .several = info->n_resources > 1 };
	int r;

	if (!p.changes)
		return error_oom(err, "choose");
	r = atoll_changes(cli->a, info->name, NULL, add_change, &p, err);
	if (r < 0)
		return r;
	if (make_tree(&p, info) < 0)
		return error_oom(err, "choose");
	*ret = p;
	p = (struct pick){ 0 };
	return 0;
}
