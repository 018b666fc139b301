/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ctimes that Atoll's own steps leave on inodes with several names.
 *
 * Renaming one name of a hard-linked file moves the ctime that all of its names show. Atoll finds foreign changes by ctime, so it must
 * know which ctimes are its own doing. Three sources tell, in this order:
 *
 *	the table of this op         exact: own_note() enters the ctime right after each step
 *	stamps of inodes             exact: earlier ops of this sandbox left them on record by own_add_stamps()
 *	the journaled steps          recovery alone, which cannot know when the op that died moved an inode: an entry passes if
 *	                             one of the steps names its inode and it looks as journaled
 */
#include "engine/step.h"

#include <string.h>

struct own_inode {
	struct tree_id id;
	int64_t ctime;
};

void own_release(struct op *op)
{
	tree_inodes_release(&op->own.index);
	tree_inodes_release(&op->own.named);
	free(op->own.v);
	free(op->own.looks);
	free(op->own.landed);
	op->own = (struct own){ 0 };
}

int own_note(struct op *op, const struct tree_id *id, const struct tree_stat *st)
{
	struct own *own = &op->own;
	uint64_t *at;

	if (S_ISDIR(st->mode) || st->nlink < 2)
		return 0;
	if (own->n == own->capacity) {
		size_t capacity = own->capacity ? own->capacity * 2 : 16;
		struct own_inode *grown = reallocarray(own->v, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		own->v = grown;
		own->capacity = capacity;
	}
	at = tree_inodes_add(&own->index, st, own->n);
	if (!at)
		return -ENOMEM;
	own->v[*at] = (struct own_inode){ *id, st->ctime };
	own->n += *at == own->n;
	return 0;
}

const int64_t *own_ctime(const struct op *op, const struct tree_stat *st)
{
	const uint64_t *at = tree_inodes_find(&op->own.index, st);

	return at ? &op->own.v[*at].ctime : NULL;
}

/* ---- recovery: what the journaled steps have moved ---- */

static int compare_ids(const struct tree_id *a, const struct tree_id *b)
{
	return a->size != b->size ? (int)a->size - (int)b->size : memcmp(a->data, b->data, a->size);
}

static int compare_looks(const void *a, const void *b)
{
	return compare_ids(&(*(const struct store_look *const *)a)->id, &(*(const struct store_look *const *)b)->id);
}

static int compare_with_look(const void *id, const void *look)
{
	return compare_ids(id, &(*(const struct store_look *const *)look)->id);
}

static int collect_looks(struct op *op)
{
	struct own *own = &op->own;

	if (own->looks)
		return 0;
	own->looks = reallocarray(NULL, 2 * op->n + 1, sizeof *own->looks);
	if (!own->looks)
		return -ENOMEM;
	for (size_t i = 0; i < op->n; i++) {
		const struct store_look *both[2] = { &op->steps[i].before, &op->steps[i].after };

		for (size_t k = 0; k < ARRAY_SIZE(both) && op->steps[i].kind != STORE_STEP_RETIRE; k++)
			if (both[k]->id.size && !S_ISDIR(both[k]->mode))
				own->looks[own->n_looks++] = both[k];
	}
	qsort(own->looks, own->n_looks, sizeof *own->looks, compare_looks);
	return 0;
}

/* Whether a journaled step names the inode and it looks as it did then: 1, 0 or -errno. */
static int is_of_step(struct op *op, const struct tree_id *id, const struct tree_stat *st)
{
	const struct store_look *const *found;
	int r = collect_looks(op);

	if (r < 0)
		return r;
	found = bsearch(id, op->own.looks, op->own.n_looks, sizeof *op->own.looks, compare_with_look);
	return found && (*found)->mode == st->mode && (*found)->uid == st->uid && (*found)->gid == st->gid &&
	       (*found)->size == st->size && (*found)->mtime == st->mtime;
}

int own_explains(struct op *op, const struct resource *r, int dirfd, const char *name, const struct tree_stat *st)
{
	const int64_t *ctime = own_ctime(op, st);
	struct tree_id id;
	int rc;

	if (S_ISDIR(st->mode))
		return 0;
	if (ctime)
		return *ctime == st->ctime;
	if (!r->n_stamps && !op->salvage)
		return 0;
	rc = tree_identify(dirfd, name, st, &id);
	if (rc < 0)
		return rc;
	if (resource_ctime_is_own(r, &id, st->ctime))
		return 1;
	return op->salvage ? is_of_step(op, &id, st) : 0;
}

/* ---- names of files that the op puts into the original ---- */

static int compare_landed(const void *a, const void *b)
{
	return compare_ids(*(const struct tree_id *const *)a, *(const struct tree_id *const *)b);
}

static int collect_landed(struct op *op)
{
	struct own *own = &op->own;

	if (own->landed)
		return 0;
	own->landed = reallocarray(NULL, op->n + 1, sizeof *own->landed);
	if (!own->landed)
		return -ENOMEM;
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].kind == STORE_STEP_EXCHANGE || op->steps[i].kind == STORE_STEP_INSTALL)
			own->landed[own->n_landed++] = &op->steps[i].after.id;
	qsort(own->landed, own->n_landed, sizeof *own->landed, compare_landed);
	return 0;
}

/* The first id that is not before this one or, with `behind`, is behind it. */
static size_t find_landed_id(const struct own *own, const struct tree_id *id, bool behind)
{
	size_t low = 0, high = own->n_landed;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_ids(own->landed[middle], id);

		if (order < 0 || (behind && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int own_count_landed(struct op *op, const struct tree_id *id, uint64_t *ret)
{
	int r = collect_landed(op);

	if (r >= 0)
		*ret = find_landed_id(&op->own, id, true) - find_landed_id(&op->own, id, false);
	return r;
}

bool own_has_known_names(const struct op *op, const struct tree_stat *st)
{
	return tree_inodes_find(&op->own.named, st) != NULL;
}

int own_know_names(struct op *op, const struct tree_stat *st)
{
	return tree_inodes_add(&op->own.named, st, 0) ? 0 : -ENOMEM;
}

/* ---- for later ops ---- */

/* Recovery: the inodes at both places of each step, which the op that died may have moved. */
static int note_found(struct op *op, struct resource *r, struct atoll_error *err)
{
	struct step_site *site = step_site_new(op, r, err);
	int rc = 0;

	if (!site)
		return -(int)err->code;
	for (size_t i = 0; i < op->n && rc >= 0; i++)
		if (op->steps[i].resource == r->row.id && !op->steps[i].dropped)
			rc = step_note_own(site, &op->steps[i]);
	step_site_free(site);
	return rc < 0 ? error_sys(err, rc, "recover", r->row.path, "cannot look at \"%s\"", r->row.path) : 0;
}

static int add_stamps(struct op *op, struct resource *r, struct atoll_error *err)
{
	AUTO_FREE struct store_stamp *list = calloc(op->own.n, sizeof *list);
	int rc = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < op->own.n && rc >= 0; i++) {
		list[i] = (struct store_stamp){ resource_inode_key(&op->own.v[i].id), op->own.v[i].ctime };
		rc = list[i].path ? 0 : -ENOMEM;
	}
	rc = rc < 0 ? error_oom(err, "commit") : store_stamp_add(op->s->store, r->row.id, list, op->own.n, err);
	for (size_t i = 0; list && i < op->own.n; i++)
		free(list[i].path);
	return rc;
}

static bool overrides_any(const struct op *op)
{
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].overrides)
			return true;
	return false;
}

int own_add_stamps(struct op *op, struct atoll_error *err)
{
	int r = 0;

	/* What was landed against a conflict must stay one for the other names of its inode. */
	if (overrides_any(op))
		return 0;
	for (size_t i = 0; i < op->s->n && r >= 0 && op->salvage; i++)
		r = op->resources[i].op ? note_found(op, &op->s->resources[i], err) : 0;
	for (size_t i = 0; i < op->s->n && r >= 0 && op->own.n; i++)
		r = resource_isolates(&op->s->resources[i]) ? add_stamps(op, &op->s->resources[i], err) : 0;
	return r;
}
