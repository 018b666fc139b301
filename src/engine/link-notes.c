/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes about hard links. A commit replaces a file by name: the names of the file that the commit does not change keep
 * the old content, and a note says how many they are. The inode's link count includes names that the undo records of
 * earlier commits hold, which are no names in the original. The journaled steps of those commits tell how many they are;
 * the steps of a commit that was undone are no longer in the journal, because its names are back in the original.
 */
#include "engine/protocol.h"

#include <stdio.h>
#include <string.h>

struct link_notes {
	struct op *op;
	struct resource *r;
	const struct selection *selection;
	const struct changes *changes;
	struct tree_inodes changing; /* how many names of each file the commit changes or removes */
	struct tree_id *held;        /* the inode of each name that an undo record holds, sorted */
	size_t n_held, capacity;
	bool held_is_read;
};

static void link_notes_release(struct link_notes *l)
{
	tree_inodes_release(&l->changing);
	free(l->held);
}

/* Whether the commit changes or removes this name of a file that has several in the original. */
static bool is_name_of_several(const struct link_notes *l, const struct change *change)
{
	return change->has_before && S_ISREG(change->before.mode) && change->before.nlink > 1 &&
	       selection_has(l->selection, change->path);
}

static int count_changing(struct link_notes *l)
{
	for (size_t i = 0; i < l->changes->n; i++) {
		const struct change *change = &l->changes->v[i];
		uint64_t *names;

		if (!is_name_of_several(l, change))
			continue;
		names = tree_inodes_add(&l->changing, &change->before, 0);
		if (!names)
			return -ENOMEM;
		(*names)++;
	}
	return 0;
}

/* ---- names in undo records ---- */

static int compare_ids(const void *a, const void *b)
{
	const struct tree_id *x = a, *y = b;

	return x->size != y->size ? (int)x->size - (int)y->size : memcmp(x->data, y->data, x->size);
}

static int add_held(struct link_notes *l, const struct store_step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct store_step *step = &steps[i];

		if ((step->kind != STORE_STEP_EXCHANGE && step->kind != STORE_STEP_TAKE) || !S_ISREG(step->before.mode))
			continue;
		if (l->n_held == l->capacity) {
			size_t capacity = l->capacity ? l->capacity * 2 : 64;
			struct tree_id *grown = reallocarray(l->held, capacity, sizeof *grown);

			if (!grown)
				return -ENOMEM;
			l->held = grown;
			l->capacity = capacity;
		}
		l->held[l->n_held++] = step->before.id;
	}
	return 0;
}

static int read_held(struct link_notes *l, struct atoll_error *err)
{
	struct session *s = l->op->s;
	struct store_op *ops = NULL;
	size_t n_ops = 0;
	int r = store_op_list(s->store, s->box.id, &ops, &n_ops, err);

	for (size_t i = 0; i < n_ops && r >= 0; i++) {
		struct store_step *steps = NULL;
		size_t n = 0;

		if (ops[i].kind != STORE_OP_COMMIT || ops[i].phase != STORE_DONE || ops[i].taken_back)
			continue;
		r = store_steps_list(s->store, ops[i].id, &steps, &n, err);
		if (r >= 0 && add_held(l, steps, n) < 0)
			r = error_oom(err, "commit");
		store_steps_free(steps, n);
	}
	store_ops_free(ops, n_ops);
	if (l->n_held)
		qsort(l->held, l->n_held, sizeof *l->held, compare_ids);
	l->held_is_read = r >= 0;
	return r;
}

static size_t count_held(const struct link_notes *l, const struct tree_id *id)
{
	size_t low = 0, high = l->n_held, n = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_ids(&l->held[middle], id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low + n < l->n_held && compare_ids(&l->held[low + n], id) == 0)
		n++;
	return n;
}

/* How many names of the change's original the undo records of this sandbox hold. A commit or undo of this sandbox that
 * moves a name leaves its ctime on the inode: the journal is read only if the inode shows such a ctime. */
static int find_held(struct link_notes *l, struct change *change, size_t *ret, struct atoll_error *err)
{
	struct peer original = { l->r->root_fd, NULL, -EBADF };
	struct store_look now;
	bool own = l->r->n_stamps && change_look(change, &original, &now) >= 0 &&
		   resource_ctime_is_own(l->r, &now.id, change->before.ctime);
	int r = own && !l->held_is_read ? read_held(l, err) : 0;

	peer_release(&original);
	*ret = own && r >= 0 ? count_held(l, &now.id) : 0;
	return r;
}

/* ---- the notes ---- */

static int add_note(struct link_notes *l, struct change *change, struct atoll_error *err)
{
	size_t changing = *tree_inodes_find(&l->changing, &change->before), names = change->before.nlink, held;
	char text[128];
	int r;

	if (changing >= names)
		return 0;
	r = find_held(l, change, &held, err);
	if (r < 0 || changing + held >= names)
		return r;
	names -= held;
	snprintf(text, sizeof text, "has %zu names, %zu of them outside the change; those keep the old content", names,
		 names - changing);
	return result_add(l->op->result, ATOLL_ITEM_NOTE, l->r->row.seq, change->path, text) ? 0
											     : error_oom(err, "commit");
}

int link_notes_add(struct op *op, size_t index, struct atoll_error *err)
{
	CLEANUP(link_notes_release)
	struct link_notes l = { .op = op,
				.r = &op->s->resources[index],
				.selection = &op->selections[index],
				.changes = op->changes[index] };
	int r = count_changing(&l) < 0 ? error_oom(err, "commit") : 0;

	for (size_t i = 0; i < l.changes->n && l.changing.n && r >= 0; i++) {
		struct change *change = &l.changes->v[i];

		if (is_name_of_several(&l, change) && change->has_after)
			r = add_note(&l, change, err);
	}
	return r;
}
