/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the ticks into the selection and the contents for atoll_commit(). */
#include <errno.h>
#include <string.h>

#include "cli/pick.h"

struct collector {
	const struct pick *p;
	const struct atoll_info *info;
	const struct pick_node **origins; /* renames that are not ticked */
	size_t n_origins;
	const char **paths;
	size_t n, capacity;
	bool failed;
};

static char *absolute(const struct pick_node *node, const char *path)
{
	if (!*path)
		return strdup(node->resource_path);
	return str_format("%s/%s", strcmp(node->resource_path, "/") == 0 ? "" : node->resource_path, path);
}

char *pick_absolute(const struct pick_node *node)
{
	return absolute(node, node->path);
}

static void collect(struct collector *c, const struct pick_node *node, const char *path)
{
	if (c->n == c->capacity) {
		size_t capacity = MAX(2 * c->capacity, (size_t)64);
		const char **v = reallocarray(c->paths, capacity, sizeof(*v));

		if (!v) {
			c->failed = true;
			return;
		}
		c->paths = v;
		c->capacity = capacity;
	}
	c->paths[c->n] = absolute(node, path);
	c->failed |= !c->paths[c->n];
	c->n++;
}

/* A path above another resource would select that resource too. */
static bool holds_resource(const struct collector *c, const struct pick_node *node)
{
	AUTO_FREE char *dir = absolute(node, node->path);

	for (size_t i = 0; dir && i < c->info->n_resources; i++)
		if (c->info->resources[i].path && strcmp(c->info->resources[i].path, dir) != 0 &&
		    pick_lies_below(c->info->resources[i].path, strcmp(dir, "/") == 0 ? "" : dir))
			return true;
	return false;
}

static void find_unticked_origins(struct collector *c)
{
	c->origins = reallocarray(NULL, c->p->n + 1, sizeof(const struct pick_node *));
	c->failed |= !c->origins;
	for (size_t i = 0; c->origins && i < c->p->n; i++)
		if (!c->p->v[i].ticked && c->p->v[i].entry && c->p->v[i].entry->old_path)
			c->origins[c->n_origins++] = &c->p->v[i];
}

/* The path of a directory selects the renames out of the directory too. */
static bool holds_unticked_origin(const struct collector *c, const struct pick_node *node)
{
	for (size_t i = 0; i < c->n_origins; i++)
		if (c->origins[i]->resource_path == node->resource_path &&
		    pick_lies_below(c->origins[i]->entry->old_path, node->path))
			return true;
	return false;
}

/* Whether one path can stand for the node with everything below. */
static bool can_be_named(const struct collector *c, size_t i)
{
	const struct pick_node *node = &c->p->v[i];

	if (!pick_has_below(c->p, i) || node->is_whole)
		return true;
	return !holds_resource(c, node) && !holds_unticked_origin(c, node);
}

static void collect_origins(struct collector *c, size_t from, size_t end)
{
	for (size_t i = from; i < end; i++)
		if (c->p->v[i].entry && c->p->v[i].entry->old_path)
			collect(c, &c->p->v[i], c->p->v[i].entry->old_path);
}

/* atoll_commit() wants the path of each file with chosen hunks in the selection, even if the selection
 * has a directory above it. */
static void collect_partly(struct collector *c, size_t above)
{
	for (size_t i = above + 1; i < c->p->v[above].end; i++)
		if (c->p->v[i].content)
			collect(c, &c->p->v[i], c->p->v[i].path);
}

static void collect_ticked(struct collector *c)
{
	for (size_t i = 0; i < c->p->n && !c->failed;) {
		const struct pick_node *node = &c->p->v[i];

		if (node->n_ticked == node->n && can_be_named(c, i)) {
			collect(c, node, node->path);
			collect_origins(c, i, node->end);
			collect_partly(c, i);
			i = node->end;
		} else {
			i = node->n_ticked == 0 ? node->end : i + 1;
		}
	}
}

static int collect_contents(const struct pick *p, struct atoll_commit_options *ret)
{
	struct atoll_content *contents = calloc(pick_partly(p), sizeof(*contents));
	size_t n = 0;

	if (!contents)
		return -ENOMEM;
	ret->contents = contents;
	for (size_t i = 0; i < p->n; i++) {
		const struct pick_content *content = p->v[i].content;

		if (!content)
			continue;
		contents[n] = (struct atoll_content){ pick_absolute(&p->v[i]), content->data, content->size };
		if (!contents[n].path)
			return -ENOMEM;
		ret->n_contents = ++n;
	}
	return 0;
}

int pick_selection(const struct pick *p, const struct atoll_info *info, struct atoll_commit_options *ret)
{
	struct collector c = { .p = p, .info = info };

	*ret = (struct atoll_commit_options){ 0 };
	if (pick_ticked(p) == pick_total(p) && pick_partly(p) == 0)
		return 0;
	find_unticked_origins(&c);
	collect_ticked(&c);
	free(c.origins);
	ret->selection = (struct atoll_selection){ .paths = c.paths, .n_paths = c.n, .exact = true };
	if (!c.failed && (pick_partly(p) == 0 || collect_contents(p, ret) >= 0))
		return 0;
	pick_selection_release(ret);
	return -ENOMEM;
}

void pick_selection_release(struct atoll_commit_options *o)
{
	for (size_t i = 0; i < o->selection.n_paths; i++)
		free((char *)o->selection.paths[i]);
	free((void *)o->selection.paths);
	for (size_t i = 0; i < o->n_contents; i++)
		free((char *)o->contents[i].path);
	free((void *)o->contents);
	*o = (struct atoll_commit_options){ 0 };
}
