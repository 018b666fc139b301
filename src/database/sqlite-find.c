/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was edited in a clone, in proportion to what was written to it: the pages in which it differs from its base are found first
 * (sqlite-pages.c), and then the rows that lie on them (sqlite-btree.c). Where that does not tell, because too much was written or the file is
 * not as it should be, the clone is checked for damage and all rows are compared.
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "database/private.h"

/* ---- the trees of both sides ---- */

void sqlite_trees_release(struct sqlite_trees *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].name);
		free(t->v[i].rows);
	}
	free(t->v);
	*t = (struct sqlite_trees){ 0 };
}

static struct sqlite_tree *get_tree(struct sqlite_trees *t, const char *name, bool is_index)
{
	struct sqlite_tree *grown;

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].is_index == is_index && strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	grown = reallocarray(t->v, t->n + 1, sizeof *grown);
	if (!grown)
		return NULL;
	t->v = grown;
	grown[t->n] = (struct sqlite_tree){ .name = strdup(name), .is_index = is_index };
	return grown[t->n].name ? &grown[t->n++] : NULL;
}

/* 1, or 0 if a root is none. */
static int add_trees(struct sqlite_db *d, struct sqlite_trees *t, int side, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = sqlite_prepare(d, &stmt, err,
			       "SELECT name, type='index', rootpage FROM \"%w\".sqlite_schema WHERE rootpage > 0"
			       " UNION ALL SELECT 'sqlite_schema', 0, 1",
			       side ? "new" : "old");

	while (r >= 0 && (r = sqlite_next(d, stmt, err)) > 0) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);
		struct sqlite_tree *tree = get_tree(t, name ? name : "", sqlite3_column_int(stmt, 1));
		int64_t root = sqlite3_column_int64(stmt, 2);

		if (!tree)
			return error_oom(err, "database");
		if (root > UINT32_MAX || tree->root[side])
			return 0;
		tree->root[side] = (uint32_t)root;
	}
	return r < 0 ? r : 1;
}

int sqlite_trees_find(struct sqlite_db *d, const struct sqlite_patch *p, struct sqlite_trees *ret,
		      struct atoll_error *err)
{
	int r = add_trees(d, ret, 0, err);

	if (r > 0)
		r = add_trees(d, ret, 1, err);
	if (r <= 0)
		return r;
	r = sqlite_btree_find(p, ret);
	return r < 0 ? error_sys(err, r, "database", d->label, "cannot read the pages of \"%s\"", d->label) : r;
}

const struct sqlite_tree *sqlite_trees_get(const struct sqlite_trees *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (!t->v[i].is_index && strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	return NULL;
}

/* ---- the clone, as a patch ---- */

/* So many pages and a quarter of all may differ. Beyond that all rows are compared. */
#define PAGES_FEW 256

static bool is_little(const struct sqlite_patch *p)
{
	return p->n_own <= PAGES_FEW + p->size / p->page_size / 4;
}

/* What a killed process left in its journal is rolled back or written back, as it is for a clone that was copied. */
static int settle(const struct sqlite_patch *p, const struct sqlite_file *new, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int64_t size = 0;
	int r = sqlite_open_vfs(new, SQLITE_DB_WRITE, p->name, &d, err);

	if (r >= 0)
		r = sqlite_execute(
			d, err,
			"PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; PRAGMA journal_mode=DELETE; SELECT count(*) FROM sqlite_schema");
	if (r >= 0)
		r = sqlite_int(d, &size, err, "PRAGMA page_size");
	return r < 0 ? r : size == p->page_size;
}

/* A journal of the base that a killed process left is rolled back before its pages are read. */
static int settle_base(const struct sqlite_file *base, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int64_t n = 0;
	int r = sqlite_open(base, 0, &d, err);

	return r < 0 ? r : sqlite_int(d, &n, err, "SELECT count(*) FROM sqlite_schema");
}

/* ---- edits ---- */

static int by_pages(struct sqlite_patch *p, const struct sqlite_file *base, const struct sqlite_file *new,
		    const struct sqlite_file *edits, struct atoll_error *err)
{
	int r;

	if (!is_little(p))
		return 0;
	r = settle(p, new, err);
	if (r <= 0)
		return r;
	free(p->beside[1]);
	p->beside[1] = sqlite_path(edits);
	return p->beside[1] ? sqlite_edits_compare(base, new, edits, p, err) : error_oom(err, "database");
}

/* Whether an error says something about the place or the machine, not about the database. */
static bool is_about_room(int code)
{
	return code == -ATOLL_NO_SPACE || code == -ATOLL_BUSY;
}

static int remove_edits(const struct sqlite_file *edits, struct atoll_error *err)
{
	int r = sys_unlink(edits->dirfd, edits->name, 0);

	return r < 0 && r != -ENOENT ? error_sys(err, r, "database", edits->name, "cannot remove \"%s\"", edits->name)
				     : 0;
}

static int flatten(struct sqlite_patch *p, const struct sqlite_file *new, struct atoll_error *err)
{
	int r = sqlite_patch_flatten(p);

	return r < 0 ? error_sys(err, r, "database", new->label, "cannot copy the database \"%s\"",
				 new->label ? new->label : new->name)
		     : sqlite_settle_copy(new, err);
}

static int find(struct sqlite_patch *p, const struct sqlite_file *base, const struct sqlite_file *new,
		const struct sqlite_file *edits, struct sqlite_find *how, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int r = how->all_rows ? 0 : by_pages(p, base, new, edits, &why);

	how->by_pages = r > 0;
	if (is_about_room(r)) {
		if (err)
			*err = why;
		return r;
	}
	if (r > 0) {
		int kind = r - 1;

		r = kind == SQLITE_EDITS_WHOLE ? flatten(p, new, err) : 0;
		return r < 0 ? r : sqlite_edits_flush(edits, kind, err);
	}
	r = remove_edits(edits, err);
	if (r >= 0)
		r = flatten(p, new, err);
	return r < 0 ? r : sqlite_edits_make(base, new, edits, err);
}

int sqlite_edits_find(const struct sqlite_file *base, const struct sqlite_file *clone, const struct sqlite_file *new,
		      const struct sqlite_file *edits, struct sqlite_find *how, struct atoll_error *err)
{
	CLEANUP(cleanup_patch) struct sqlite_patch *p = NULL;
	int r = settle_base(base, err);

	how->by_pages = false;
	if (r >= 0)
		r = sqlite_settle_patch(clone, how, base, new, &p, err);
	if (r < 0)
		return r;
	if (r == SQLITE_PATCHED)
		return find(p, base, new, edits, how, err);
	if (r == SQLITE_COPIED)
		return sqlite_edits_make(base, new, edits, err);
	return SQLITE_EDITS_GONE;
}
