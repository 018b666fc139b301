/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in a workspace that is a whole tree: each entry by what is known of it from the beginning, and what is no longer there. */
#include "strategy/copy.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

bool copy_is_untouched(const struct base_entry *b, const struct tree_stat *st)
{
	return b->ctime == st->ctime && b->ino == st->ino && b->mtime == st->mtime && b->mode == st->mode &&
	       b->uid == st->uid && b->gid == st->gid && (S_ISDIR(st->mode) || b->size == st->size);
}

/* A directory's ctime moves when anything in it does; what counts is what was done to itself. */
static bool directory_unchanged(const struct base_entry *b, const struct tree_stat *st)
{
	return b->ctime != 0 && b->mtime == st->mtime && b->mode == st->mode && b->uid == st->uid &&
	       b->gid == st->gid && b->ctime == st->ctime;
}

/* Compared with the copy's own base: what others did to the original's directory is not this sandbox's change. An older baseline knows no
 * attributes, and nothing of what came back by an undo. */
static int judge_by_base(struct copy_walk *w, const struct tree_entry *e, const struct base_entry *b, struct change *c)
{
	struct base_xattrs now = { 0 }, read = { 0 };
	const struct base_xattrs *known = w->xattrs ? &read : &b->xattrs;
	int r = 0;

	if (!b->settled && !b->ctime)
		return 0;
	if (b->mtime == e->stat.mtime)
		c->what &= ~(unsigned)ATOLL_WHAT_TIME;
	if ((b->mode & 07777) == (e->stat.mode & 07777))
		c->what &= ~(unsigned)ATOLL_WHAT_MODE;
	if (!(c->what & ATOLL_WHAT_XATTR) || !b->settled)
		return 0;
	if (w->xattrs)
		r = w->xattrs(w, e->path, &read);
	if (r >= 0)
		r = base_xattrs_read(&now, e->dirfd, e->name);
	if (r >= 0 && base_xattrs_equal(&now, known))
		c->what &= ~(unsigned)ATOLL_WHAT_XATTR;
	base_xattrs_release(&now);
	base_xattrs_release(&read);
	return r;
}

/* ---- files of several names ---- */

struct copy_linked {
	char *path;
	struct tree_stat stat;
};

static int note_linked(struct copy_walk *w, const struct tree_entry *e)
{
	if (S_ISDIR(e->stat.mode) || e->stat.nlink < 2)
		return 0;
	if (w->n_linked == w->linked_capacity) {
		size_t capacity = w->linked_capacity ? w->linked_capacity * 2 : 64;
		struct copy_linked *grown = reallocarray(w->linked, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		w->linked = grown;
		w->linked_capacity = capacity;
	}
	w->linked[w->n_linked] = (struct copy_linked){ strdup(e->path), e->stat };
	if (!w->linked[w->n_linked].path)
		return -ENOMEM;
	w->n_linked++;
	return 0;
}

/* Whether the original still has the file that was copied. The sandboxed command did nothing to this name, so a file that another process
 * has replaced or removed there stays replaced or removed. */
static int has_original(struct copy_walk *w, const struct copy_linked *l)
{
	int dir = peer_dir(&w->classify.peer, l->path, path_parent_size(l->path));
	struct tree_stat st;
	int r = dir < 0 ? dir : tree_stat(dir, path_base_name(l->path), &st);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	return r < 0 ? r
		     : (st.mode & S_IFMT) == (l->stat.mode & S_IFMT) && st.size == l->stat.size &&
			       st.mtime == l->stat.mtime;
}

/* Renaming a directory leaves the ctime of the files in it alone, and so that of their other names. */
int copy_find_linked(struct copy_walk *w, int tree)
{
	CLEANUP(tree_inodes_release) struct tree_inodes inodes = { 0 };
	struct changes *c = w->classify.changes;
	int r = 0;

	for (size_t i = 0; i < c->n && w->n_linked; i++)
		if (c->v[i].has_after && !S_ISDIR(c->v[i].after.mode) && c->v[i].after.nlink > 1 &&
		    !tree_inodes_add(&inodes, &c->v[i].after, 0))
			return -ENOMEM;
	for (size_t i = 0; i < w->n_linked && r >= 0; i++) {
		const char *path = w->linked[i].path;
		AUTO_FREE char *above = strndup(path, path_parent_size(path));
		AUTO_FD dir = -EBADF;
		struct tree_entry e = {
			.name = path_base_name(path), .path = path, .stat = w->linked[i].stat, .fd = -EBADF
		};
		struct change *added;

		if (!tree_inodes_find(&inodes, &e.stat))
			continue;
		r = has_original(w, &w->linked[i]);
		if (r <= 0)
			continue;
		/* The copy has the owner that it had: what an ordinary user copied belongs to that user. */
		dir = above ? fd_open_beneath(tree, above, O_PATH | O_DIRECTORY) : -ENOMEM;
		e.dirfd = dir;
		r = dir < 0 ? dir : classify_entry(&w->classify, &e, false, &e.stat, &added);
	}
	return r;
}

bool copy_lacks_names(const struct changes *c)
{
	CLEANUP(tree_inodes_release) struct tree_inodes names = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		const struct tree_stat *st = &c->v[i].after;
		uint64_t *n;

		if (!c->v[i].has_after || S_ISDIR(st->mode) || st->nlink < 2)
			continue;
		n = tree_inodes_add(&names, st, 0);
		if (!n)
			return true;
		++*n;
	}
	for (size_t i = 0; i < c->n; i++) {
		const struct tree_stat *st = &c->v[i].after;
		const uint64_t *n = c->v[i].has_after && !S_ISDIR(st->mode) ? tree_inodes_find(&names, st) : NULL;

		if (n && *n < st->nlink)
			return true;
	}
	return false;
}

/* ---- all entries ---- */

int copy_visit(const struct tree_entry *e, void *arg)
{
	struct copy_walk *w = arg;
	struct base_entry *b = NULL;
	struct tree_stat owner = { 0 };
	bool knows_owner = false;
	struct change *c;
	int r;

	if (w->in_covered && !path_is_below(e->path, strbuf_str(&w->covered)))
		w->in_covered = false;
	if (*e->path && resource_excludes(w->classify.r, e->path))
		return TREE_WALK_SKIP;
	r = w->find(w, e->path, &b);
	if (r < 0)
		return r;
	if (b)
		b->seen = true;
	if (b && !b->special &&
	    (S_ISDIR(e->stat.mode) ? directory_unchanged(b, &e->stat) : copy_is_untouched(b, &e->stat))) {
		r = note_linked(w, e);
		return r < 0 ? r : TREE_WALK_GO;
	}
	if (b && !b->special && (b->ctime || b->settled)) {
		owner.uid = b->uid;
		owner.gid = b->gid;
		knows_owner = true;
	}
	r = classify_entry(&w->classify, e, w->in_covered, knows_owner ? &owner : NULL, &c);
	if (r < 0)
		return r;
	if (c && c->kind == ATOLL_SKIPPED)
		return TREE_WALK_SKIP; /* with everything in it */
	if (c && b && c->kind == ATOLL_ADDED && !c->below)
		c->gone = true;
	if (c && b && c->kind == ATOLL_TYPE)
		c->displaced = !b->special && S_ISDIR(b->mode) && S_ISDIR(e->stat.mode);
	if (c && S_ISDIR(e->stat.mode) && (c->kind == ATOLL_ADDED || c->kind == ATOLL_TYPE) && !w->in_covered) {
		strbuf_truncate(&w->covered, 0);
		strbuf_adds(&w->covered, e->path);
		w->in_covered = true;
	}
	if (c && b && S_ISDIR(e->stat.mode) && c->kind == ATOLL_META) {
		r = judge_by_base(w, e, b, c);
		if (r < 0)
			return r;
		if (!c->what) {
			free(c->path);
			w->classify.changes->n--;
		}
	}
	return TREE_WALK_GO;
}

static int add_missing(struct copy_walk *w, const struct base_entry *b, const char *top)
{
	const char *name = path_base_name(b->path);
	int peer = peer_dir(&w->classify.peer, b->path, path_parent_size(b->path));
	struct tree_stat st;
	struct change *c;
	int r = peer < 0 ? peer : tree_stat(peer, name, &st);

	if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
		return r;
	if (r < 0 && top)
		return 0;
	c = changes_add(w->classify.changes, b->path, b->pinned ? ATOLL_SKIPPED : ATOLL_DELETED);
	if (!c)
		return -ENOMEM;
	if (b->pinned)
		c->note = resource_excluded_below(w->classify.r, b->path)
				  ? "holds another resource of the sandbox and stays"
				  : "holds a FIFO, socket or device of the original and stays";
	c->below = top != NULL;
	c->gone = r < 0;
	c->has_before = r >= 0;
	if (r >= 0)
		c->before = st;
	return 0;
}

/* What the baseline has and the copy no longer has. A directory that went as a whole takes what is below along, foreign additions
 * included: they are found by walking the original's directory. */
static int find_unseen(struct copy_walk *w, const struct baseline *base)
{
	const char *top = NULL;

	for (size_t i = 0; i < base->n; i++) {
		const struct base_entry *b = &base->v[i];
		struct change *c;
		int r;

		if (b->seen || b->special || (top && path_is_below(b->path, top)))
			continue;
		top = NULL;
		r = add_missing(w, b, NULL);
		if (r < 0)
			return r;
		c = &w->classify.changes->v[w->classify.changes->n - 1];
		if (b->pinned || c->gone || !S_ISDIR(c->before.mode)) {
			if (c->gone || !b->pinned)
				top = b->path;
			continue;
		}
		top = b->path;
		r = changes_add_deleted_below(w->classify.changes, w->classify.r, w->classify.r->root_fd, b->path,
					      b->path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The index of the first entry of a sorted list that is path, or comes after it. */
static size_t first_from(const struct baseline *base, const char *path)
{
	size_t low = 0, high = base->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (path_compare(base->v[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Below an entry that changed its type everything was listed as deleted already, and the baseline's children must not be again. Below one that is
 * skipped nothing was looked at. */
static void mark_below_types_seen(const struct copy_walk *w, struct baseline *base)
{
	for (size_t i = 0; i < w->classify.changes->n; i++) {
		const struct change *c = &w->classify.changes->v[i];

		if (c->kind != ATOLL_SKIPPED && (c->kind != ATOLL_TYPE || !S_ISDIR(c->before.mode)))
			continue;
		for (size_t k = first_from(base, c->path); k < base->n && path_is_below(base->v[k].path, c->path); k++)
			base->v[k].seen = true;
	}
}

int copy_find_missing(struct copy_walk *w, struct baseline *base)
{
	mark_below_types_seen(w, base);
	return find_unseen(w, base);
}

void copy_walk_release(struct copy_walk *w)
{
	peer_release(&w->classify.peer);
	strbuf_release(&w->covered);
	for (size_t i = 0; i < w->n_linked; i++)
		free(w->linked[i].path);
	free(w->linked);
}
