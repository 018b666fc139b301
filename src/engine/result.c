/* SPDX-License-Identifier: Apache-2.0 */
/* Results: one structure for success and every failure. */
#include "engine/engine.h"

#include <string.h>

#include "base/clock.h"

static char *now_text(void)
{
	char buffer[CLOCK_TEXT_SIZE];

	clock_now(buffer);
	return strdup(buffer);
}

struct atoll_result *result_new(const char *operation, const char *sandbox)
{
	struct atoll_result *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->operation = operation;
	r->sandbox = sandbox ? strdup(sandbox) : NULL;
	r->started_at = now_text();
	r->atomic = true;
	return r;
}

struct atoll_result *atoll_result_free(struct atoll_result *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n_resources; i++) {
		free(r->resources[i].path);
		free(r->resources[i].cause);
	}
	for (size_t i = 0; i < r->n_items; i++) {
		free(r->items[i].path);
		free(r->items[i].note);
		free(r->items[i].kept);
	}
	free(r->resources);
	free(r->items);
	free(r->sandbox);
	free(r->message);
	free(r->started_at);
	free(r->ended_at);
	free(r);
	return NULL;
}

void atoll_result_list_free(struct atoll_result **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		atoll_result_free(list[i]);
	free(list);
}

/* Makes room for one more element; capacity is the next power of two. */
static int grow(void *v, size_t n, size_t size)
{
	void **array = v;
	void *grown;

	if (n & (n - 1))
		return 0;
	grown = reallocarray(*array, n ? n * 2 : 1, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	return 0;
}

struct atoll_item *result_add(struct atoll_result *r, enum atoll_item_kind kind, int resource, const char *path,
			      const char *note)
{
	struct atoll_item *item;

	if (grow(&r->items, r->n_items, sizeof *r->items) < 0)
		return NULL;
	item = &r->items[r->n_items];
	*item = (struct atoll_item){
		.kind = kind,
		.resource = resource,
		.path = strdup(path && *path ? path : "."),
		.note = note ? strdup(note) : NULL,
	};
	if (!item->path)
		return NULL;
	r->n_items++;
	return item;
}

struct atoll_resource_result *result_find(struct atoll_result *r, int seq)
{
	for (size_t i = 0; i < r->n_resources; i++)
		if (r->resources[i].seq == seq)
			return &r->resources[i];
	return NULL;
}

struct atoll_resource_result *result_resource(struct atoll_result *r, const struct store_resource *row,
					      enum atoll_outcome outcome)
{
	struct atoll_resource_result *found = result_find(r, row->seq);

	if (!found) {
		if (grow(&r->resources, r->n_resources, sizeof *r->resources) < 0)
			return NULL;
		found = &r->resources[r->n_resources];
		*found =
			(struct atoll_resource_result){ .seq = row->seq, .path = strdup(row->path), .kind = row->kind };
		if (!found->path)
			return NULL;
		r->n_resources++;
	}
	found->outcome = outcome;
	return found;
}

void result_count(struct atoll_resource_result *r, enum atoll_change_kind kind)
{
	switch (kind) {
	case ATOLL_ADDED:
		r->added++;
		break;
	case ATOLL_DELETED:
		r->deleted++;
		break;
	case ATOLL_META:
		r->meta++;
		break;
	case ATOLL_SKIPPED:
		r->skipped++;
		break;
	case ATOLL_MODIFIED:
	case ATOLL_TYPE:
	case ATOLL_RENAMED:
	default:
		r->modified++;
		break;
	}
}

int result_finish(struct atoll_result *r, int code, struct atoll_error *err)
{
	free(r->ended_at);
	r->ended_at = now_text();
	r->success = code >= 0;
	if (code < 0 && err)
		r->error = *err;
	return MIN(code, 0);
}

static int compare_items(const void *a, const void *b)
{
	const struct atoll_item *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->resource != y->resource)
		return x->resource < y->resource ? -1 : 1;
	return path_compare(x->path, y->path);
}

void result_sort(struct atoll_result *r)
{
	/* A plan's steps are in the order of execution. */
	if (!r->dry_run && r->n_items)
		qsort(r->items, r->n_items, sizeof *r->items, compare_items);
}

const char *atoll_outcome_name(enum atoll_outcome outcome)
{
	static const char *const names[ATOLL_OUTCOME_COUNT] = {
		[ATOLL_OUTCOME_NOT_ATTEMPTED] = "not attempted", [ATOLL_OUTCOME_COMMITTED] = "committed",
		[ATOLL_OUTCOME_ROLLED_BACK] = "rolled back",     [ATOLL_OUTCOME_ROLLBACK_FAILED] = "rollback failed",
		[ATOLL_OUTCOME_NOT_ISOLATED] = "not isolated",   [ATOLL_OUTCOME_UNCHANGED] = "unchanged",
		[ATOLL_OUTCOME_IRREVERSIBLE] = "irreversible",   [ATOLL_OUTCOME_IN_DOUBT] = "in doubt",
	};

	return (unsigned)outcome < ATOLL_OUTCOME_COUNT ? names[outcome] : "unknown";
}

const char *atoll_item_kind_name(enum atoll_item_kind kind)
{
	static const char *const names[ATOLL_ITEM_KIND_COUNT] = {
		[ATOLL_ITEM_CHANGE] = "change",   [ATOLL_ITEM_CONFLICT] = "conflict", [ATOLL_ITEM_REFUSED] = "refused",
		[ATOLL_ITEM_BUSY] = "busy",       [ATOLL_ITEM_SKIPPED] = "skipped",   [ATOLL_ITEM_NOTE] = "note",
		[ATOLL_ITEM_FOREIGN] = "foreign", [ATOLL_ITEM_STEP] = "step",         [ATOLL_ITEM_LOST] = "lost",
	};

	return (unsigned)kind < ATOLL_ITEM_KIND_COUNT ? names[kind] : "unknown";
}
