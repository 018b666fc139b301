/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_on_write: a private copy of the whole tree, sharing blocks where the filesystem can (reflink). The fallback for machines and
 * filesystems without overlayfs. The workspace is "tree", its baseline a file beside it. Changes are found by walking the copy;
 * the original is only looked at where the copy was touched.
 */
#include "strategy/strategies.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "strategy/copy.h"

struct clone {
	struct resource *r;
	struct baseline *base;
	struct tree_inodes linked; /* copies with several names: their ctimes, which move with each further name */
	uint64_t mnt_id;           /* of the resource's root; for copy_can_begin() alone */
};

static bool skip_excluded(const struct tree_entry *from, void *arg)
{
	struct clone *c = arg;

	if (c->r->only && *from->path && !path_is_below(from->path, c->r->only))
		return (!S_ISREG(from->stat.mode) && !S_ISLNK(from->stat.mode)) || strchr(from->path, '/') != NULL;
	return *from->path && resource_excludes(c->r, from->path);
}

static int note_left_out(const char *path, const struct tree_stat *st, void *arg)
{
	struct clone *c = arg;
	struct base_entry *e = baseline_add(c->base, path);

	if (!e)
		return -ENOMEM;
	e->special = true;
	e->original.mode = st->mode;
	return 0;
}

void copy_describe(struct base_entry *e, const struct tree_stat *st)
{
	e->ino = st->ino;
	e->size = S_ISDIR(st->mode) ? 0 : st->size;
	e->ctime = st->ctime;
	e->mtime = st->mtime;
	e->btime = st->btime;
	e->mode = st->mode;
	e->uid = st->uid;
	e->gid = st->gid;
}

/* Those of the original are known only if nobody has changed it since the sandbox began: else they may be newer than the copy's. */
static int note_attributes(const struct clone *c, struct base_entry *e, int from_dir, const char *from_name, int to_dir,
			   const char *to_name)
{
	struct tree_stat st;
	int r = base_xattrs_read(&e->xattrs, to_dir, to_name);

	e->settled = true;
	if (r >= 0)
		r = base_xattrs_read(&e->original_xattrs, from_dir, from_name);
	if (r >= 0)
		r = tree_stat(from_dir, from_name, &st);
	if (r >= 0 && st.ctime >= c->r->row.stamp)
		base_xattrs_release(&e->original_xattrs);
	return r;
}

static int note_copied(const char *path, const struct tree_stat *from, int from_dir, const char *from_name,
		       const struct tree_stat *to, int to_dir, const char *to_name, void *arg)
{
	struct clone *c = arg;
	struct base_entry *e = baseline_add(c->base, path);
	int r;

	if (!e)
		return -ENOMEM;
	copy_describe(e, to);
	if (!S_ISDIR(to->mode) && to->nlink > 1) {
		uint64_t *ctime = tree_inodes_add(&c->linked, to, 0);

		if (!ctime)
			return -ENOMEM;
		*ctime = (uint64_t)to->ctime;
	}
	r = resource_look(from_dir, from_name, from, &e->original);
	return r < 0 || !S_ISDIR(from->mode) ? r : note_attributes(c, e, from_dir, from_name, to_dir, to_name);
}

/* All names of a copy show the ctime that the last of them left. */
static void settle_linked(struct clone *c, int tree_fd)
{
	struct tree_stat st;

	if (!c->linked.n || tree_stat(tree_fd, "", &st) < 0)
		return;
	for (size_t i = 0; i < c->base->n; i++) {
		const uint64_t *ctime;

		st.ino = c->base->v[i].ino;
		ctime = tree_inodes_find(&c->linked, &st);
		if (ctime)
			c->base->v[i].ctime = (int64_t)*ctime;
	}
}

static int make_mount_point(int tree_fd, const char *path)
{
	AUTO_FD parent = -EBADF;
	struct tree_stat st;
	const char *name;
	int r = fd_open_parent(tree_fd, path, &parent, &name);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r >= 0)
		r = tree_stat(parent, "", &st);
	if (r >= 0)
		r = sys_mkdir(parent, name, 0755);
	if (r >= 0) {
		const struct timespec times[2] = { tree_atime(&st), tree_mtime(&st) };

		r = sys_utimens(parent, "", times);
	}
	return r == -EEXIST ? 0 : r;
}

/* Places where a nested resource is mounted, or Atoll's own directories are hidden, must exist in the copy. */
static int make_mount_points(struct resource *r, int tree_fd)
{
	for (size_t i = 0; i < r->n_excluded; i++) {
		int rc = make_mount_point(tree_fd, r->excluded[i]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Later writes must be told apart from the copying itself by their ctime. */
int copy_settle(int tree_fd)
{
	int64_t ignored;

	return tree_stamp(tree_fd, &ignored);
}

struct costing {
	struct clone clone;
	struct strategy_cost cost;
};

/* Holes are not copied, and of an inode with several names each counts for its part. */
static int add_cost(const struct tree_entry *e, void *arg)
{
	struct costing *c = arg;

	if (skip_excluded(e, &c->clone))
		return TREE_WALK_SKIP;
	if (S_ISREG(e->stat.mode)) {
		c->cost.files++;
		c->cost.bytes += MIN(e->stat.size, e->stat.blocks * 512) / e->stat.nlink;
	}
	return TREE_WALK_GO;
}

/* The stage area lies on the original's filesystem. */
static int copy_cost(struct resource *r, struct strategy_cost *ret, struct atoll_error *err)
{
	struct costing c = { .clone = { .r = r } };
	AUTO_FREE char *path = NULL;
	int rc = tree_can_share(r->stage_fd, r->work_fd) ? 0 : tree_walk(r->root_fd, 0, add_cost, &c, &path);

	if (rc < 0)
		return error_sys(err, rc, "new", r->row.path, "cannot look at \"%s%s%s\"", r->row.path,
				 path && *path ? "/" : "", path ? path : "");
	*ret = c.cost;
	return 0;
}

static int visit_copied(const struct tree_entry *e, void *arg)
{
	struct clone *c = arg;

	if (skip_excluded(e, c))
		return TREE_WALK_SKIP;
	return e->stat.mnt_id != c->mnt_id && !tree_is_special(e->stat.mode) ? -EXDEV : TREE_WALK_GO;
}

/* copy_begin() copies no other filesystem, and nothing below a directory that it cannot list. */
static int copy_can_begin(struct resource *r, struct atoll_error *err)
{
	struct clone clone = { .r = r };
	AUTO_FREE char *path = NULL;
	struct tree_stat st;
	int rc = tree_stat(r->root_fd, "", &st);

	clone.mnt_id = st.mnt_id;
	if (rc >= 0)
		rc = tree_walk(r->root_fd, TREE_WALK_NO_ROOT, visit_copied, &clone, &path);
	if (rc == -EXDEV)
		return error_set(
			err, ATOLL_REFUSED, EXDEV, "rollback", r->row.path,
			"\"%s\" has another filesystem mounted at \"%s/%s\", and cannot be copied into a workspace",
			r->row.path, r->root_path, path ? path : "");
	if (rc < 0)
		return error_sys(err, rc, "rollback", r->row.path, "cannot read \"%s%s%s\"", r->root_path,
				 path && *path ? "/" : "", path ? path : "");
	return 0;
}

static int copy_begin(struct resource *r, struct atoll_error *err)
{
	struct baseline *base = calloc(1, sizeof *base);
	struct clone clone = { .r = r, .base = base };
	struct tree_copy_hooks hooks = { skip_excluded, note_left_out, note_copied, &clone };
	struct tree_copy_report report = { 0 };
	AUTO_FREE char *path = NULL;
	AUTO_FD tree = -EBADF;
	int rc;

	if (!base)
		return error_oom(err, "new");
	rc = sys_mkdir(r->work_fd, COPY_TREE, 0700);
	tree = rc < 0 ? rc : fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	rc = tree < 0 ? tree : tree_copy(r->root_fd, tree, TREE_COPY_KEEP_SET_ID, &hooks, &report, &path);
	if (rc >= 0)
		rc = make_mount_points(r, tree);
	if (rc >= 0) {
		settle_linked(&clone, tree);
		baseline_sort(base);
		rc = baseline_save(r->work_fd, COPY_BASELINE, base);
	}
	if (rc >= 0)
		rc = copy_settle(r->work_fd);
	tree_inodes_release(&clone.linked);
	baseline_free(base);
	if (rc < 0)
		return error_sys(err, rc, "new", r->row.path, "cannot copy \"%s%s%s\" into its workspace", r->row.path,
				 path && *path ? "/" : "", path ? path : "");
	return 0;
}

int copy_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);

	if (tree < 0)
		return error_sys(err, tree, "run", r->row.path, "the workspace of \"%s\" is gone from \"%s\"",
				 r->row.path, r->row.work);
	*ret = (struct strategy_view){ STRATEGY_VIEW_BIND, TAKE_FD(tree), -EBADF, -EBADF };
	return 0;
}

/* ---- changes ---- */

int copy_load(struct resource *r, struct baseline **ret, struct atoll_error *err)
{
	int rc = 0;

	if (!r->priv) {
		struct baseline *b = NULL;

		rc = baseline_load(r->work_fd, COPY_BASELINE, &b);
		if (rc < 0)
			return error_set(err, rc == -EBADMSG ? ATOLL_CORRUPT : ATOLL_FAILED, -rc, "diff", r->row.path,
					 "the baseline of \"%s\" in \"%s\" cannot be read: %s", r->row.path,
					 r->row.work, strerror(-rc));
		r->priv = b;
	}
	*ret = r->priv;
	return 0;
}

void copy_release(struct resource *r)
{
	r->priv = baseline_free(r->priv);
}

/* Whoever holds a special file that the copy does not have cannot be removed as a whole. */
static void pin_parents_of_specials(struct baseline *base)
{
	for (size_t i = 0; i < base->n; i++) {
		AUTO_FREE char *path = base->v[i].special ? strdup(base->v[i].path) : NULL;
		char *slash;

		while (path && (slash = strrchr(path, '/'))) {
			struct base_entry *parent;

			*slash = 0;
			parent = baseline_find(base, path);
			if (parent)
				parent->pinned = true;
		}
	}
}

static int find_recorded(struct copy_walk *w, const char *path, struct base_entry **ret)
{
	*ret = baseline_find(w->arg, path);
	return 0;
}

static struct changes *copy_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	CLEANUP(cleanup_changes) struct changes *changes = changes_new();
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	struct copy_walk w = { .classify = { r, changes, { r->root_fd, NULL, -EBADF }, exact }, .find = find_recorded };
	struct baseline *base = NULL;
	AUTO_FREE char *path = NULL;
	int rc;

	if (!changes) {
		error_oom(err, "diff");
		return NULL;
	}
	if (tree < 0) {
		error_sys(err, tree, "diff", r->row.path, "the workspace of \"%s\" is gone from \"%s\"", r->row.path,
			  r->row.work);
		return NULL;
	}
	if (copy_load(r, &base, err) < 0)
		return NULL;
	w.arg = base;
	for (size_t i = 0; i < base->n; i++)
		base->v[i].seen = base->v[i].pinned = false;
	rc = tree_walk(tree, TREE_WALK_SORTED, copy_visit, &w, &path);
	if (rc >= 0) {
		pin_parents_of_specials(base);
		rc = copy_find_missing(&w, base);
	}
	if (rc >= 0)
		rc = copy_find_linked(&w, tree);
	if (rc >= 0)
		rc = changes_settle_links(changes);
	copy_walk_release(&w);
	if (rc < 0) {
		error_sys(err, rc, "diff", r->row.path, "cannot read the changes of \"%s\" at \"%s\"", r->row.path,
			  path ? path : "");
		return NULL;
	}
	return TAKE_PTR(changes);
}

/* The strings of *ret stay the resource's. */
static int copy_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err)
{
	struct base_entry *e;
	struct baseline *b = NULL;
	int rc = copy_load(r, &b, err);

	if (rc < 0)
		return rc;
	e = baseline_find(b, path);
	if (!e || e->special)
		return 0;
	*ret = (struct store_touch){ .path = e->path,
				     .look = e->original,
				     .xattrs = e->original_xattrs.data,
				     .xattrs_size = e->original_xattrs.size,
				     .trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY };
	return 1;
}

/* An inode of the copy that is at another path now. */
static int copy_origin(struct resource *r, const struct change *c, struct tree_id *ret)
{
	const struct base_entry *found;
	struct baseline *b = NULL;

	if (copy_load(r, &b, NULL) < 0)
		return 0;
	found = baseline_find_inode(b, c->after.ino, c->after.btime);
	if (found)
		*ret = found->original.id;
	return found != NULL;
}

/* Whether the copy still has the ctime from when it was made, and the original is unchanged since.
 * A rename of the directory above leaves the file's ctime alone. */
static bool copy_is_as_origin(struct resource *r, const struct change *c, const struct change *old)
{
	const struct base_entry *found;
	struct baseline *b = NULL;

	if (copy_load(r, &b, NULL) < 0)
		return false;
	found = baseline_find_inode(b, c->after.ino, c->after.btime);
	return found && copy_is_untouched(found, &c->after) && old->before.ctime < resource_stamp(r, old->path);
}

const struct strategy_ops strategy_copy = {
	.name = "copy_on_write",
	.summary = "a private copy of the tree, by reflink where the filesystem can; works everywhere",
	.strength = 30,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_DIR) | STRATEGY_SERVES(ATOLL_KIND_FILE),
	.workspace = COPY_TREE,
	.begin = copy_begin,
	.can_begin = copy_can_begin,
	.cost = copy_cost,
	.view = copy_view,
	.changes = copy_changes,
	.base = copy_base,
	.origin = copy_origin,
	.is_as_origin = copy_is_as_origin,
	.landed = copy_landed,
	.returned = copy_returned,
	.release = copy_release,
};
