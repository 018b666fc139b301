/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content that a commit lands in place of a file's whole edit. The plan exchanges a staged copy that
 * has this content, and takes nothing from the workspace (slot 'h' in plan.c). The file in the
 * workspace stays, and differs from the original by the rest of the edit.
 */
#include "engine/protocol.h"

#include <string.h>

/* Why the content cannot land in place of the change; NULL: it can. */
static const char *find_obstacle(const struct change *c)
{
	if (!c || c->part || !c->has_before || !c->has_after || c->renamed || c->old_path)
		return "is no file that the sandbox has modified, so no part of an edit can land";
	if (c->kind == ATOLL_SKIPPED || c->gone || c->displaced || c->in_opaque)
		return "stays inside, or its directory was replaced, so no part of its edit can land";
	if (!S_ISREG(c->before.mode) || !S_ISREG(c->after.mode) || c->kind != ATOLL_MODIFIED)
		return "is no file that the sandbox has modified, so no part of an edit can land";
	if (c->before.nlink > 1 || c->after.nlink > 1)
		return "has several names, so no part of its edit can land";
	if ((c->before.mode | c->after.mode) & (S_ISUID | S_ISGID))
		return "has set-user-ID or set-group-ID, so no part of its edit can land";
	return NULL;
}

/* A part that lands, the commits of a repository say, contains the file as the sandbox has it. */
static bool lands_with_part(const struct op *op, size_t index)
{
	const struct resource *r = &op->s->resources[index];
	bool divides = r->ops->divides && r->ops->divides(&r->row);

	return (r->ops->capabilities & STRATEGY_PART) && part_is_selected(r, &op->selections[index]) &&
	       (!divides || part_is_changed(op->changes[index], op->options->refs));
}

static int assign(struct op *op, size_t index, const char *path, const struct atoll_content *content)
{
	struct resource *r = &op->s->resources[index];
	struct change *c = (struct change *)changes_find(op->changes[index], path);
	const char *why = find_obstacle(c);

	if (!why && !selection_has(&op->selections[index], path))
		why = "is not selected, but its content was given";
	if (!why && c->content)
		why = "was given two contents";
	if (!why && lands_with_part(op, index))
		why = "lands with a repository as a whole, so no part of its edit can land";
	if (why)
		return result_add(op->result, ATOLL_ITEM_REFUSED, r->row.seq, path, why) ? 0 : -ENOMEM;
	c->content = content;
	return 0;
}

static int find_and_assign(struct op *op, const struct atoll_content *content, struct atoll_error *err)
{
	const struct atoll_selection wanted = { .paths = &content->path, .n_paths = 1, .exact = true };
	struct selection *v = NULL;
	size_t n = 0;
	int r;

	if (!content->data && content->size)
		return error_set(err, ATOLL_INVALID, 0, "commit", content->path, "no content was given for \"%s\"",
				 content->path ? content->path : "");
	r = selection_for(&wanted, op->s, &v, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		for (size_t k = 0; k < v[i].n && r >= 0; k++)
			/* A resource that is a single file is also selected as a whole. */
			if (*v[i].paths[k] || !op->s->resources[i].only) {
				r = assign(op, i, v[i].paths[k], content);
				n++;
			}
	selection_free(v, op->s->n);
	if (r < 0)
		return error_oom(err, "commit");
	return n ? 0
		 : error_set(err, ATOLL_REFUSED, 0, "commit", content->path,
			     "\"%s\" is no file that the sandbox has modified, so no part of an edit can land",
			     content->path);
}

int content_assign(struct op *op, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < op->options->n_contents && r >= 0; i++)
		r = find_and_assign(op, &op->options->contents[i], err);
	return r;
}
