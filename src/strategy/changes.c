/* SPDX-License-Identifier: Apache-2.0 */
/* The list of changes, and the one way in which a workspace entry is compared with its original. */
#include "strategy/strategy.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

struct changes *changes_new(void)
{
	return calloc(1, sizeof(struct changes));
}

struct changes *changes_free(struct changes *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].path);
		free(c->v[i].old_path);
		free(c->v[i].words);
	}
	free(c->v);
	free(c);
	return NULL;
}

struct change *changes_add(struct changes *c, const char *path, enum atoll_change_kind kind)
{
	struct change *change;

	if (c->n == c->capacity) {
		size_t capacity = c->capacity ? c->capacity * 2 : 32;
		struct change *v = reallocarray(c->v, capacity, sizeof *v);

		if (!v)
			return NULL;
		c->v = v;
		c->capacity = capacity;
	}
	change = &c->v[c->n];
	*change = (struct change){ .path = strdup(path), .kind = kind };
	if (!change->path)
		return NULL;
	c->n++;
	return change;
}

struct change *changes_add_part(struct changes *c, const char *label, enum atoll_change_kind kind, const char *note)
{
	struct change *added = changes_add(c, label, kind);

	if (!added)
		return NULL;
	added->part = true;
	added->note = added->words = strdup(note);
	return added->words ? added : NULL;
}

int path_compare(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;

	while (*x && *x == *y)
		x++, y++;
	if (*x == *y)
		return 0;
	/* The end of a path comes first, then '/', so that a directory's content follows it at once. */
	if (!*x || !*y)
		return *x ? 1 : -1;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return *x < *y ? -1 : 1;
}

bool path_is_below(const char *path, const char *top)
{
	size_t size = strlen(top);

	if (size == 0)
		return true;
	if (top[size - 1] == '/') /* the root directory */
		size--;
	return strncmp(path, top, size) == 0 && (path[size] == 0 || path[size] == '/');
}

const char *path_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

size_t path_parent_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static int compare_changes(const void *a, const void *b)
{
	return path_compare(((const struct change *)a)->path, ((const struct change *)b)->path);
}

const struct change *changes_find(const struct changes *c, const char *path)
{
	struct change key = { .path = (char *)path };

	return c->n ? bsearch(&key, c->v, c->n, sizeof *c->v, compare_changes) : NULL;
}

static bool is_child(const char *path, const char *dir)
{
	size_t size = strlen(dir);

	if (!*path)
		return false;
	if (size == 0)
		return !strchr(path, '/');
	return strncmp(path, dir, size) == 0 && path[size] == '/' && !strchr(path + size + 1, '/');
}

/* A directory's times are implied if anything directly in it was added, deleted or replaced. Sorted order puts its content behind
 * it, but the next child may be far: a stack of open directories finds the parent of each entry in one pass. */
static void mark_implied(struct changes *c)
{
	AUTO_FREE size_t *stack = reallocarray(NULL, c->n ? c->n : 1, sizeof *stack);
	size_t depth = 0;

	if (!stack)
		return;
	for (size_t i = 0; i < c->n; i++) {
		struct change *change = &c->v[i];

		while (depth && !path_is_below(change->path, c->v[stack[depth - 1]].path))
			depth--;
		if (depth && is_child(change->path, c->v[stack[depth - 1]].path)) {
			struct change *parent = &c->v[stack[depth - 1]];

			if (parent->kind == ATOLL_META && parent->what == ATOLL_WHAT_TIME)
				parent->implied = true;
		}
		if (change->has_after && S_ISDIR(change->after.mode))
			stack[depth++] = i;
	}
}

void changes_sort(struct changes *c)
{
	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, compare_changes);
	mark_implied(c);
}

/* ---- neighbours in the original ---- */

int peer_dir(struct peer *p, const char *path, size_t size)
{
	if (p->path && strlen(p->path) == size && memcmp(p->path, path, size) == 0)
		return p->fd;
	peer_release(p);
	p->path = strndup(path, size);
	if (!p->path)
		return -ENOMEM;
	p->fd = fd_open_beneath(p->root_fd, p->path, O_PATH | O_DIRECTORY);
	return p->fd;
}

void peer_release(struct peer *p)
{
	free(p->path);
	p->path = NULL;
	if (p->fd >= 0)
		fd_close(p->fd);
	p->fd = -EBADF;
}

int change_look(struct change *c, struct peer *original, struct store_look *ret)
{
	int dir, r;

	if (c->before_id.size) {
		*ret = store_look_of(&c->before, &c->before_id);
		return 0;
	}
	dir = peer_dir(original, c->path, path_parent_size(c->path));
	r = dir < 0 ? dir : resource_look(dir, path_base_name(c->path), &c->before, ret);
	if (r >= 0)
		c->before_id = ret->id;
	return r;
}

/* ---- comparing ---- */

static int content_differs(const struct pair *p, bool exact, unsigned *what)
{
	int r;

	if (S_ISLNK(p->a->mode)) {
		r = tree_same_target(p->dir_a, p->name_a, p->dir_b, p->name_b);
		if (r == 0)
			*what |= ATOLL_WHAT_TARGET;
		return MIN(r, 0);
	}
	if (!S_ISREG(p->a->mode))
		return 0;
	if (p->a->size != p->b->size || (!exact && p->a->mtime != p->b->mtime)) {
		*what |= ATOLL_WHAT_CONTENT;
		return 0;
	}
	r = tree_same_content(p->dir_a, p->name_a, p->dir_b, p->name_b);
	/* What may not be read cannot be proven equal. */
	if (r == 0 || r == -EACCES || r == -EPERM) {
		*what |= ATOLL_WHAT_CONTENT;
		return 0;
	}
	return MIN(r, 0);
}

int pair_differs(const struct pair *p, bool exact, unsigned *ret_what)
{
	unsigned what = 0;
	int r = content_differs(p, exact, &what);

	if (r < 0)
		return r;
	if (!S_ISLNK(p->a->mode) && (p->a->mode & 07777) != (p->b->mode & 07777))
		what |= ATOLL_WHAT_MODE;
	if (p->a->uid != p->uid || p->a->gid != p->gid)
		what |= ATOLL_WHAT_OWNER;
	if (p->a->mtime != p->b->mtime)
		what |= ATOLL_WHAT_TIME;
	if (!S_ISDIR(p->a->mode) && p->a->nlink > 1 && p->a->nlink != p->b->nlink)
		what |= ATOLL_WHAT_LINKS;
	/* A file of which the content lands lands as a whole; only of what can be run the attributes matter, for they may give powers. */
	if (!exact && S_ISREG(p->a->mode) && (what & ATOLL_WHAT_CONTENT) && !(p->a->mode & 0111)) {
		*ret_what = what;
		return 0;
	}
	r = tree_xattrs_same(p->dir_a, p->name_a, p->dir_b, p->name_b, p->marks);
	if (r < 0 && r != -EACCES && r != -EPERM)
		return r;
	if (r == 0)
		what |= ATOLL_WHAT_XATTR;
	*ret_what = what;
	return 0;
}

/* ---- deleted trees ---- */

struct deleted_walk {
	struct changes *changes;
	struct resource *r;
	const char *top;
	uint64_t mnt_id; /* of the resource's root */
	struct strbuf path;
};

static int add_deleted(const struct tree_entry *e, void *arg)
{
	struct deleted_walk *w = arg;
	struct change *change;

	strbuf_truncate(&w->path, 0);
	strbuf_adds(&w->path, w->top);
	if (*e->path) {
		strbuf_addc(&w->path, '/');
		strbuf_adds(&w->path, e->path);
	}
	if (w->path.failed)
		return -ENOMEM;
	if (resource_excludes(w->r, strbuf_str(&w->path)))
		return TREE_WALK_SKIP;
	change = changes_add(w->changes, strbuf_str(&w->path), ATOLL_DELETED);
	if (!change)
		return -ENOMEM;
	change->below = true;
	change->has_before = true;
	change->before = e->stat;
	/* The sandbox never saw what another process has mounted since: the mount point alone is listed, and the commit
	 * refuses it (check.c). */
	return e->stat.mnt_id != w->mnt_id ? TREE_WALK_SKIP : TREE_WALK_GO;
}

int changes_add_deleted_below(struct changes *c, struct resource *r, int dirfd, const char *name, const char *path)
{
	struct deleted_walk w = { .changes = c, .r = r, .top = path };
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct tree_stat root, top;
	int rc;

	if (fd < 0)
		return -errno;
	rc = tree_stat(r->root_fd, "", &root);
	if (rc >= 0)
		rc = tree_stat(fd, "", &top);
	if (rc < 0 || top.mnt_id != root.mnt_id)
		return rc;
	w.mnt_id = root.mnt_id;
	rc = tree_walk(fd, TREE_WALK_NO_ROOT, add_deleted, &w, NULL);
	strbuf_release(&w.path);
	return rc;
}

/* ---- classifying ---- */

static int classify_pair(struct classify *c, const struct tree_entry *e, int peer, const struct tree_stat *before,
			 const struct tree_stat *owner, struct change **ret)
{
	struct pair pair = { e->dirfd,
			     e->name,
			     &e->stat,
			     peer,
			     e->name,
			     before,
			     owner ? owner->uid : before->uid,
			     owner ? owner->gid : before->gid,
			     resource_marks(c->r) };
	enum atoll_change_kind kind = ATOLL_META;
	size_t at = c->changes->n;
	unsigned what = 0;
	bool linked = false;
	int r;

	if ((e->stat.mode & S_IFMT) != (before->mode & S_IFMT)) {
		kind = ATOLL_TYPE;
	} else {
		r = pair_differs(&pair, c->exact, &what);
		if (r < 0)
			return r;
		linked = !what && !S_ISDIR(e->stat.mode) && e->stat.nlink > 1;
		if (linked)
			what = ATOLL_WHAT_LINKS;
		if (!what)
			return 0;
		if (what & (ATOLL_WHAT_CONTENT | ATOLL_WHAT_TARGET))
			kind = ATOLL_MODIFIED;
	}
	*ret = changes_add(c->changes, e->path, kind);
	if (!*ret)
		return -ENOMEM;
	(*ret)->what = what;
	(*ret)->maybe_linked = linked;
	(*ret)->has_before = (*ret)->has_after = true;
	(*ret)->before = *before;
	(*ret)->after = e->stat;
	if (kind != ATOLL_TYPE || !S_ISDIR(before->mode))
		return 0;
	r = changes_add_deleted_below(c->changes, c->r, peer, e->name, e->path);
	*ret = &c->changes->v[at]; /* the list may have moved */
	return r;
}

static int add_skipped(struct classify *c, const struct tree_entry *e, const char *note, struct change **ret)
{
	*ret = changes_add(c->changes, e->path, ATOLL_SKIPPED);
	if (!*ret)
		return -ENOMEM;
	(*ret)->note = note;
	(*ret)->has_after = true;
	(*ret)->after = e->stat;
	return 0;
}

/* The original of a directory above the entry is no directory: whether it is a FIFO, socket or device. */
static bool lies_below_special(struct classify *c, const char *path)
{
	AUTO_FREE char *at = strdup(path);
	int peer = -ENOTDIR;

	while (at && peer == -ENOTDIR && path_parent_size(at)) {
		struct tree_stat st;

		at[path_parent_size(at)] = 0;
		peer = peer_dir(&c->peer, at, path_parent_size(at));
		if (peer >= 0)
			return tree_stat(peer, path_base_name(at), &st) >= 0 && tree_is_special(st.mode);
	}
	return false;
}

static int add_new(struct classify *c, const struct tree_entry *e, bool covered, struct change **ret)
{
	*ret = changes_add(c->changes, e->path, ATOLL_ADDED);
	if (!*ret)
		return -ENOMEM;
	(*ret)->below = covered;
	(*ret)->has_after = true;
	(*ret)->after = e->stat;
	return 0;
}

int classify_entry(struct classify *c, const struct tree_entry *e, bool covered, const struct tree_stat *owner,
		   struct change **ret)
{
	const char *slash = strrchr(e->path, '/');
	struct tree_stat before;
	int peer, r;

	*ret = NULL;
	if (tree_is_special(e->stat.mode))
		return add_skipped(c, e, "is a FIFO, socket or device", ret);
	if (covered)
		return add_new(c, e, true, ret);
	peer = peer_dir(&c->peer, e->path, slash ? (size_t)(slash - e->path) : 0);
	if (peer < 0 && peer != -ENOENT && peer != -ENOTDIR && peer != -ELOOP)
		return peer;
	if (peer == -ENOTDIR && lies_below_special(c, e->path)) {
		r = add_skipped(c, e, "in the original a FIFO, socket or device has the place of its directory", ret);
		if (r >= 0)
			(*ret)->usurped = true;
		return r;
	}
	r = peer < 0 ? -ENOENT : tree_stat(peer, e->name, &before);
	if (r == -ENOENT)
		return add_new(c, e, false, ret);
	if (r < 0)
		return r;
	if (tree_is_special(before.mode)) {
		r = add_skipped(c, e, CHANGE_NOTE_SPECIAL, ret);
		if (r >= 0) {
			(*ret)->has_before = true;
			(*ret)->before = before;
		}
		return r;
	}
	return classify_pair(c, e, peer, &before, owner, ret);
}
