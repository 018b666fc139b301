/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rows that lie on pages in which a patched database differs from its base, by the file format of SQLite
 * (https://www.sqlite.org/fileformat2.html).
 *
 * The trees of both sides are walked from their roots; pages of the lowest level are read only if they differ. A leaf that belongs to the same
 * tree on both sides and has the same content holds the same rows, except for what lies on overflow pages. So each page that differs must be
 * accounted for on the new side: as a page of a tree, as an overflow page of a cell on a page that differs, as a free page or a map page. Then
 * every row that differs lies on a leaf that differs, on one side or the other.
 *
 * Nothing is concluded from a file that is not as it should be in any of the pages that are looked at: the answer is 0 then, and the caller
 * compares all rows.
 */
#include <string.h>

#include "database/private.h"

#define DEPTH_MAX 20
#define LOCK_BYTE 0x40000000U

enum { INTERIOR_INDEX = 2, INTERIOR_TABLE = 5, LEAF_INDEX = 10, LEAF_TABLE = 13 };

struct walk {
	const struct sqlite_patch *p;
	struct sqlite_trees *trees;
	uint32_t usable, n[2]; /* pages of the old and the new side */
	uint32_t *owner[2];    /* by page: 1 + the index of the tree that it belongs to; 0: none */
	uint8_t *other;        /* by page of the new side: is something else than a page of a tree */
	unsigned char *pages;  /* one for each level */
};

static void walk_release(struct walk *w)
{
	free(w->owner[0]);
	free(w->owner[1]);
	free(w->other);
	free(w->pages);
}

/* ---- numbers ---- */

static uint32_t get16(const unsigned char *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const unsigned char *at)
{
	return get16(at) << 16 | get16(at + 2);
}

/* How many bytes it has; 0 if it does not end before `end`. */
static size_t get_varint(const unsigned char *at, const unsigned char *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 9 && at + i < end; i++) {
		if (i == 8) {
			*ret = v << 8 | at[i];
			return 9;
		}
		v = v << 7 | (at[i] & 0x7f);
		if (!(at[i] & 0x80)) {
			*ret = v;
			return i + 1;
		}
	}
	return 0;
}

/* ---- one page ---- */

struct head {
	unsigned type;
	bool is_leaf, is_table;
	uint32_t n, right;
	const unsigned char *page, *cells;
};

static bool parse_head(const struct walk *w, const unsigned char *page, uint32_t number, struct head *ret)
{
	uint32_t at = number == 1 ? 100 : 0;

	ret->type = page[at];
	ret->is_leaf = ret->type == LEAF_INDEX || ret->type == LEAF_TABLE;
	ret->is_table = ret->type == INTERIOR_TABLE || ret->type == LEAF_TABLE;
	if (!ret->is_leaf && ret->type != INTERIOR_INDEX && ret->type != INTERIOR_TABLE)
		return false;
	ret->n = get16(page + at + 3);
	ret->right = ret->is_leaf ? 0 : get32(page + at + 8);
	ret->page = page;
	ret->cells = page + at + (ret->is_leaf ? 8 : 12);
	return (size_t)(ret->cells - page) + 2 * (size_t)ret->n <= w->usable;
}

struct cell {
	uint32_t child;
	uint64_t payload;
	int64_t rowid;
	uint32_t overflow; /* its first overflow page; 0: none */
};

/* How much of a payload lies on the page of a tree. */
static uint64_t local_size(const struct walk *w, uint64_t payload, bool is_table)
{
	uint64_t u = w->usable, least = (u - 12) * 32 / 255 - 23;
	uint64_t most = is_table ? u - 35 : (u - 12) * 64 / 255 - 23;
	uint64_t k = least + (payload - least) % (u - 4);

	if (payload <= most)
		return payload;
	return k <= most ? k : least;
}

static bool parse_payload(const struct walk *w, const struct head *h, const unsigned char *at, struct cell *ret)
{
	const unsigned char *end = h->page + w->usable;
	uint64_t local = local_size(w, ret->payload, h->is_table);

	if ((uint64_t)(end - at) < local)
		return false;
	if (local == ret->payload)
		return true;
	at += local;
	if (end - at < 4)
		return false;
	ret->overflow = get32(at);
	return ret->overflow != 0;
}

static bool parse_cell(const struct walk *w, const struct head *h, uint32_t i, struct cell *ret)
{
	uint32_t offset = get16(h->cells + 2 * (size_t)i);
	const unsigned char *at = h->page + offset, *end = h->page + w->usable;
	uint64_t rowid = 0;
	size_t size;

	*ret = (struct cell){ 0 };
	if (at < h->cells + 2 * (size_t)h->n || offset + 4 > w->usable)
		return false;
	if (!h->is_leaf) {
		ret->child = get32(at);
		at += 4;
	}
	if (h->type != INTERIOR_TABLE) {
		size = get_varint(at, end, &ret->payload);
		if (!size)
			return false;
		at += size;
	}
	if (h->is_table) {
		size = get_varint(at, end, &rowid);
		if (!size)
			return false;
		at += size;
		ret->rowid = (int64_t)rowid;
	}
	return h->type == INTERIOR_TABLE || parse_payload(w, h, at, ret);
}

/* ---- the trees ---- */

/* Rowids of a subtree: above `above`, at most `most`. */
struct bounds {
	int64_t above, most;
	bool has_above;
};

static int read_page(const struct walk *w, int side, uint32_t number, unsigned level, struct head *ret)
{
	unsigned char *page = w->pages + (size_t)level * w->p->page_size;
	int r = sqlite_patch_read_page(w->p, side, number, page);

	return r < 0 ? r : parse_head(w, page, number, ret);
}

/* How many levels lie above the leaves: DEPTH_MAX if the file is not as it should be, or -errno. */
static int find_depth(const struct walk *w, int side, uint32_t root, bool *ret_table)
{
	uint32_t number = root;

	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		struct head h;
		struct cell c;
		int r = number >= 1 && number <= w->n[side] ? read_page(w, side, number, 0, &h) : 0;

		if (r <= 0)
			return r < 0 ? r : DEPTH_MAX;
		*ret_table = h.is_table;
		if (h.is_leaf)
			return depth;
		if (h.n && !parse_cell(w, &h, 0, &c))
			return DEPTH_MAX;
		number = h.n ? c.child : h.right;
	}
	return DEPTH_MAX;
}

static bool is_in_order(const struct walk *w, const struct head *h, struct bounds b)
{
	struct cell c;

	for (uint32_t i = 0; h->is_table && i < h->n; i++) {
		if (!parse_cell(w, h, i, &c) || c.rowid > b.most || (b.has_above && c.rowid <= b.above))
			return false;
		b.above = c.rowid;
		b.has_above = true;
	}
	return true;
}

struct visit {
	struct walk *w;
	int side, depth;
	uint32_t tree;
	bool is_table;
};

static int visit(const struct visit *v, uint32_t number, int level, bool read_leaf, struct bounds b);

static int visit_children(const struct visit *v, const struct head *h, int level, bool differs, struct bounds b)
{
	struct cell c;
	int r = 1;

	for (uint32_t i = 0; i < h->n && r > 0; i++) {
		struct bounds below = b;

		if (!parse_cell(v->w, h, i, &c))
			return 0;
		if (h->is_table)
			below.most = c.rowid;
		r = visit(v, c.child, level + 1, differs, below);
		if (h->is_table) {
			b.above = c.rowid;
			b.has_above = true;
		}
	}
	return r > 0 ? visit(v, h->right, level + 1, differs, b) : r;
}

/* read_leaf: what lies above it differs, so that its rows may be out of place although it does not. */
static int visit(const struct visit *v, uint32_t number, int level, bool read_leaf, struct bounds b)
{
	struct walk *w = v->w;
	bool differs = sqlite_patch_has(w->p, number);
	struct head h;
	int r;

	if (number < 1 || number > w->n[v->side] || w->owner[v->side][number])
		return 0;
	w->owner[v->side][number] = v->tree + 1;
	if (level == v->depth && !differs && !read_leaf)
		return 1;
	r = read_page(w, v->side, number, (unsigned)level, &h);
	if (r <= 0)
		return r;
	if (h.is_table != v->is_table || h.is_leaf != (level == v->depth) || !is_in_order(w, &h, b))
		return 0;
	return h.is_leaf ? 1 : visit_children(v, &h, level, differs, b);
}

static int walk_tree(struct walk *w, int side, uint32_t index)
{
	struct sqlite_tree *t = &w->trees->v[index];
	struct visit v = { .w = w, .side = side, .tree = index };
	const struct bounds all = { .most = INT64_MAX };

	if (!t->root[side])
		return 1;
	v.depth = find_depth(w, side, t->root[side], &v.is_table);
	if (v.depth < 0 || v.depth == DEPTH_MAX)
		return MIN(v.depth, 0);
	if (side == 1 && t->root[0] && t->is_table != v.is_table)
		return 0;
	t->is_table = v.is_table;
	return visit(&v, t->root[side], 0, false, all);
}

/* ---- what else pages are ---- */

static bool claim(struct walk *w, uint32_t number)
{
	if (number < 1 || number > w->n[1] || w->other[number] || w->owner[1][number])
		return false;
	w->other[number] = 1;
	return true;
}

static int claim_free(struct walk *w, const unsigned char *head)
{
	unsigned char *page = w->pages;
	uint32_t trunk = get32(head + 32), left = get32(head + 36);

	while (trunk) {
		uint32_t n;
		int r;

		if (!left-- || !claim(w, trunk))
			return 0;
		r = sqlite_patch_read_page(w->p, true, trunk, page);
		if (r < 0)
			return r;
		n = get32(page + 4);
		if (n > left || n > w->usable / 4 - 2)
			return 0;
		for (uint32_t i = 0; i < n; i++)
			if (!claim(w, get32(page + 8 + 4 * (size_t)i)))
				return 0;
		left -= n;
		trunk = get32(page);
	}
	return left == 0;
}

static int claim_maps(struct walk *w, const unsigned char *head)
{
	uint32_t step = w->usable / 5 + 1, lock = LOCK_BYTE / w->p->page_size + 1;

	if (lock <= w->n[1] && !claim(w, lock))
		return 0;
	for (uint32_t at = 2; get32(head + 52) && at <= w->n[1]; at += step)
		if (!claim(w, at == lock ? at + 1 : at))
			return 0;
	return 1;
}

static int claim_overflow(struct walk *w, const struct cell *c, uint64_t local)
{
	uint64_t left = c->payload - local;
	unsigned char next[4];

	for (uint32_t number = c->overflow; number; number = get32(next)) {
		uint64_t at = (uint64_t)(number - 1) * w->p->page_size;
		int r;

		if (!left || !claim(w, number))
			return 0;
		r = sqlite_patch_read(w->p, next, sizeof next, at);
		if (r < 0)
			return r;
		left -= MIN(left, (uint64_t)w->usable - 4);
	}
	return left == 0;
}

/* ---- what lies on a page that differs ---- */

static int add_row(struct sqlite_tree *t, int64_t rowid)
{
	if (t->n == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 256;
		int64_t *grown = reallocarray(t->rows, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		t->rows = grown;
		t->capacity = capacity;
	}
	t->rows[t->n++] = rowid;
	return 0;
}

static int take_page(struct walk *w, int side, uint32_t number)
{
	struct sqlite_tree *t = &w->trees->v[w->owner[side][number] - 1];
	struct head h;
	int r = read_page(w, side, number, 1, &h);

	if (r <= 0)
		return r;
	t->is_touched = true;
	for (uint32_t i = 0; i < h.n && r > 0; i++) {
		struct cell c;

		if (!parse_cell(w, &h, i, &c))
			return 0;
		if (h.type == LEAF_TABLE && add_row(t, c.rowid) < 0)
			return -ENOMEM;
		if (c.overflow && side == 1)
			r = claim_overflow(w, &c, local_size(w, c.payload, h.is_table));
	}
	return r;
}

static int take_pages(struct walk *w)
{
	uint32_t n = MAX(w->n[0], w->n[1]);
	int r = 1;

	for (uint32_t number = 1; number <= n && r > 0; number++) {
		uint32_t old = number <= w->n[0] ? w->owner[0][number] : 0;
		uint32_t new = number <= w->n[1] ? w->owner[1][number] : 0;

		if (old == new && !sqlite_patch_has(w->p, number))
			continue;
		if (old)
			r = take_page(w, 0, number);
		if (r > 0 && new)
			r = take_page(w, 1, number);
	}
	return r;
}

static int is_accounted_for(const struct walk *w)
{
	for (uint32_t number = 1; number <= w->n[1]; number++)
		if (sqlite_patch_has(w->p, number) && !w->owner[1][number] && !w->other[number])
			return 0;
	return 1;
}

/* ---- all of it ---- */

static int begin(struct walk *w, unsigned char heads[2][100])
{
	ssize_t r = sqlite_patch_read_page(w->p, false, 1, w->pages);

	if (r < 0)
		return (int)r;
	memcpy(heads[0], w->pages, 100);
	r = sqlite_patch_read(w->p, heads[1], 100, 0);
	if (r < 0)
		return (int)r;
	for (int side = 0; side < 2; side++) {
		uint64_t size = side ? w->p->size : w->p->base_size;

		if (size % w->p->page_size || size / w->p->page_size != get32(heads[side] + 28) ||
		    heads[side][20] != heads[0][20] || get16(heads[side] + 16) != get16(heads[0] + 16))
			return 0;
		w->n[side] = get32(heads[side] + 28);
		w->owner[side] = calloc((size_t)w->n[side] + 1, sizeof *w->owner[side]);
		if (!w->owner[side])
			return -ENOMEM;
	}
	w->usable = w->p->page_size - heads[0][20];
	w->other = calloc((size_t)w->n[1] + 1, 1);
	return !w->other ? -ENOMEM : w->usable >= 480;
}

int sqlite_btree_find(const struct sqlite_patch *p, struct sqlite_trees *trees)
{
	CLEANUP(walk_release) struct walk w = { .p = p, .trees = trees };
	unsigned char heads[2][100];
	int r;

	w.pages = malloc((DEPTH_MAX + 2) * (size_t)p->page_size);
	r = w.pages ? begin(&w, heads) : -ENOMEM;
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < trees->n && r > 0; i++)
			r = walk_tree(&w, side, i);
	if (r > 0)
		r = claim_free(&w, heads[1]);
	if (r > 0)
		r = claim_maps(&w, heads[1]);
	if (r > 0)
		r = take_pages(&w);
	return r > 0 ? is_accounted_for(&w) : r;
}
