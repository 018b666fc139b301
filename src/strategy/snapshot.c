/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot: btrfs subvolumes. The workspace is "tree", a writable snapshot of a read-only one, "base", which was taken of the original and
 * stays as the record of how it began; making both takes no time that depends on their size. What lands or comes back is recorded as a
 * partial baseline over `base`, so that nothing but one small file ever follows a commit.
 */
#include "strategy/snapshot.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

/* ---- whether and where ---- */

struct nested {
	const struct strategy_probe *probe;
	char *path;
};

static bool lies_apart(const struct strategy_probe *p, const char *path)
{
	size_t size = strlen(p->root_path);

	size = size == 1 ? 0 : size;
	for (size_t i = 0; i < p->n_apart; i++)
		if (path_is_below(p->apart[i], p->root_path) && p->apart[i][size] &&
		    path_is_below(path, p->apart[i] + size + 1))
			return true;
	return false;
}

static int note_nested(const char *path, void *arg)
{
	struct nested *n = arg;

	if (path && lies_apart(n->probe, path))
		return 0;
	n->path = path ? str_format("%s/%s", n->probe->root_path, path) : strdup("a directory that you may not see");
	return n->path ? 1 : -ENOMEM;
}

/* The first subvolume within the original that is nobody's own resource: 1 and its path, or 0. */
static int find_nested(const struct strategy_probe *p, char **ret)
{
	struct nested n = { p, NULL };
	int r = tree_subvolumes_in(p->root_fd, note_nested, &n);

	*ret = n.path;
	return r;
}

static int snapshot_probe(const struct strategy_probe *p, struct strbuf *reason)
{
	struct tree_subvolume ignored;
	AUTO_FREE char *nested = NULL;
	struct stat st;
	int r = tree_subvolume(p->root_fd, &ignored);

	if (r == -ENOTTY) {
		strbuf_addf(reason, "it is not a btrfs subvolume");
		return 1;
	}
	if (r >= 0 && fstat(p->root_fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (geteuid() != 0 && st.st_uid != geteuid()) {
		strbuf_addf(reason, "the subvolume belongs to somebody else");
		return 1;
	}
	r = find_nested(p, &nested);
	if (r > 0)
		strbuf_addf(
			reason,
			"a snapshot has nothing of the subvolume within it, \"%s\"; make that a resource of its own",
			nested);
	return r;
}

/* ---- the workspace ---- */

static int check_nested(struct resource *r, struct atoll_error *err)
{
	struct strategy_probe p = { r->root_fd, r->root_path, NULL, 0 };
	AUTO_FREE char **apart = calloc(r->n_excluded + 1, sizeof *apart);
	AUTO_FREE char *nested = NULL;
	int rc = apart ? 0 : -ENOMEM;

	for (size_t i = 0; i < r->n_excluded && rc >= 0; i++) {
		apart[i] = str_format("%s/%s", strcmp(r->root_path, "/") == 0 ? "" : r->root_path, r->excluded[i]);
		rc = apart[i] ? 0 : -ENOMEM;
	}
	p.apart = (const char *const *)apart;
	p.n_apart = r->n_excluded;
	if (rc >= 0)
		rc = find_nested(&p, &nested);
	for (size_t i = 0; apart && i < r->n_excluded; i++)
		free(apart[i]);
	if (rc > 0)
		return error_set(
			err, ATOLL_REFUSED, 0, "new", nested,
			"a snapshot of \"%s\" has nothing of the subvolume within it, \"%s\"; make that a resource of its own",
			r->row.path, nested);
	return rc < 0 ? error_sys(err, rc, "new", r->row.path, "cannot look for subvolumes in \"%s\"", r->row.path) : 0;
}

/* A stage inside the original is PLACE/UUID/SEQ, and PLACE is Atoll's own: its copy in the workspace would only be seen by the command. Its
 * directory keeps its time. */
static int drop_stage(struct resource *r)
{
	AUTO_FREE char *place = r->row.stage ? strdup(r->row.stage) : NULL;
	AUTO_FD tree = -EBADF, parent = -EBADF;
	struct tree_stat st;
	const char *name;
	int rc;

	for (int i = 0; place && i < 2 && path_parent_size(place); i++)
		place[path_parent_size(place)] = 0;
	if (!place || strcmp(place, r->root_path) == 0 || !path_is_below(place, r->root_path))
		return 0;
	tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	rc = tree < 0 ? tree : fd_open_parent(tree, place + strlen(r->root_path) + 1, &parent, &name);
	if (rc >= 0)
		rc = tree_stat(parent, "", &st);
	if (rc >= 0)
		rc = tree_remove(parent, name);
	/* What another user has put there stays; the view covers it. */
	if (rc == -EPERM || rc == -EACCES)
		rc = 0;
	return rc < 0 ? rc : tree_restore_mtime(parent, &st);
}

/* Both are of the same instant. */
static int make_snapshots(struct resource *r)
{
	AUTO_FD base = -EBADF;
	int rc = tree_snapshot(r->root_fd, r->work_fd, SNAPSHOT_BASE, true);

	if (rc < 0)
		return rc;
	base = fd_open_beneath(r->work_fd, SNAPSHOT_BASE, O_RDONLY | O_DIRECTORY);
	rc = base < 0 ? base : tree_snapshot(base, r->work_fd, COPY_TREE, false);
	return rc < 0 ? rc : drop_stage(r);
}

static int snapshot_begin(struct resource *r, struct atoll_error *err)
{
	/* From before a rollback. */
	int rc = tree_remove(r->work_fd, SNAPSHOT_BASE);

	if (rc >= 0)
		rc = baseline_save(r->work_fd, COPY_BASELINE, &(struct baseline){ .partial = true });
	if (rc >= 0)
		rc = make_snapshots(r);
	if (rc >= 0)
		rc = copy_settle(r->work_fd);
	if (rc < 0)
		return error_sys(err, rc, "new", r->row.path, "cannot make a snapshot of \"%s\" in \"%s\"", r->row.path,
				 r->row.work);
	/* What was put into the original since is in neither. */
	return check_nested(r, err);
}

/* ---- what is known of the original ---- */

static void snapshot_release(struct resource *r)
{
	struct snapshot *s = r->priv;

	if (!s)
		return;
	baseline_free(s->record);
	fd_close(s->base_fd);
	free(s->path);
	base_xattrs_release(&s->xattrs);
	free(s);
	r->priv = NULL;
}

static int read_record(struct resource *r, struct snapshot *s)
{
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	struct tree_subvolume original, workspace;
	int rc;

	s->base_fd = fd_open_beneath(r->work_fd, SNAPSHOT_BASE, O_RDONLY | O_DIRECTORY);
	if (tree < 0 || s->base_fd < 0)
		return tree < 0 ? tree : s->base_fd;
	rc = tree_subvolume(r->root_fd, &original);
	if (rc >= 0)
		rc = tree_subvolume(tree, &workspace);
	if (rc >= 0)
		rc = baseline_load(r->work_fd, COPY_BASELINE, &s->record);
	if (rc < 0)
		return rc;
	s->original = original.id;
	s->generation = workspace.generation;
	s->record->partial = true;
	/* In a snapshot nothing is left out. */
	for (size_t i = 0; i < s->record->n; i++)
		s->record->v[i].special = false;
	return 0;
}

int snapshot_load(struct resource *r, struct snapshot **ret, struct atoll_error *err)
{
	struct snapshot *s = r->priv;
	int rc = 0;

	if (!s) {
		s = r->priv = calloc(1, sizeof *s);
		if (!s)
			return error_oom(err, "diff");
		s->base_fd = -EBADF;
		rc = read_record(r, s);
	}
	if (rc < 0) {
		snapshot_release(r);
		return error_set(err, rc == -EBADMSG || rc == -ENOTTY ? ATOLL_CORRUPT : ATOLL_FAILED, -rc, "diff",
				 r->row.path, "the snapshots of \"%s\" in \"%s\" cannot be read: %s", r->row.path,
				 r->row.work, strerror(-rc));
	}
	*ret = s;
	return 0;
}

int snapshot_stat(struct snapshot *s, struct peer *base, const char *path, struct tree_stat *ret)
{
	int dir = peer_dir(base, path, path_parent_size(path));
	int r = dir < 0 ? dir : tree_stat(dir, path_base_name(path), ret);

	return r >= 0 ? 1 : r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

/* In `base` every inode has the number, and the rest of its identity, that it had in the original. The attributes are those of a
 * directory. */
static int look_in_base(struct snapshot *s, const char *path, struct tree_stat *st, struct store_look *ret,
			struct base_xattrs *xattrs)
{
	struct peer base = { s->base_fd, NULL, -EBADF };
	const char *name = path_base_name(path);
	int r = snapshot_stat(s, &base, path, st);
	int known = r > 0 ? resource_look(base.fd, name, st, ret) : 0;

	base_xattrs_release(xattrs);
	if (r > 0 && known >= 0 && S_ISDIR(st->mode))
		known = base_xattrs_read(xattrs, base.fd, name);
	peer_release(&base);
	if (r > 0 && known >= 0)
		tree_id_in_subvolume(&ret->id, s->original);
	return known < 0 ? known : r;
}

static int snapshot_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err)
{
	struct base_entry *e = NULL;
	struct snapshot *s = NULL;
	struct store_look look;
	struct tree_stat st;
	int rc = snapshot_load(r, &s, err);

	if (rc < 0)
		return rc;
	rc = baseline_look(s->record, path, &e);
	if (rc > 0 && !e)
		return 0;
	if (rc > 0)
		look = e->original;
	else if (rc == 0)
		rc = look_in_base(s, path, &st, &look, &s->xattrs);
	if (rc < 0)
		return error_sys(err, rc, "diff", r->row.path, "cannot look at \"%s\" of the snapshot of \"%s\"", path,
				 r->row.path);
	if (rc == 0)
		return 0;
	free(s->path);
	s->path = strdup(path);
	if (!s->path)
		return error_oom(err, "diff");
	*ret = (struct store_touch){ .path = s->path,
				     .look = look,
				     .xattrs = e ? e->original_xattrs.data : s->xattrs.data,
				     .xattrs_size = e ? e->original_xattrs.size : s->xattrs.size,
				     .trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY };
	return 1;
}

/* An inode that was there in the beginning, and is at another path now. */
static int snapshot_origin(struct resource *r, const struct change *c, struct tree_id *ret)
{
	const struct base_entry *found;
	struct snapshot *s = NULL;
	AUTO_FD tree = -EBADF;

	if (snapshot_load(r, &s, NULL) < 0)
		return 0;
	found = baseline_find_inode(s->record, c->after.ino, c->after.btime);
	if (found) {
		*ret = found->original.id;
		return 1;
	}
	tree = fd_open_beneath(r->work_fd, COPY_TREE, O_PATH | O_DIRECTORY);
	if (tree >= 0) {
		struct peer at = { tree, NULL, -EBADF };
		int dir = peer_dir(&at, c->path, path_parent_size(c->path));
		int rc = dir < 0 ? dir : tree_identify(dir, path_base_name(c->path), &c->after, ret);

		peer_release(&at);
		if (rc >= 0 && tree_id_is_of_generation(ret, s->generation)) {
			tree_id_in_subvolume(ret, s->original);
			return 1;
		}
	}
	return 0;
}

/* A snapshot keeps the inode number and the ctime of each file: if both sides still have them,
 * neither file was changed. */
static bool snapshot_is_as_origin(struct resource *r, const struct change *c, const struct change *old)
{
	(void)r;
	return c->after.ino == old->before.ino && c->after.btime == old->before.btime &&
	       c->after.ctime == old->before.ctime && c->after.mtime == old->before.mtime &&
	       c->after.size == old->before.size;
}

/* ---- after a commit or undo ---- */

/* In the beginning the workspace was what the original was. */
static int begin_record(struct resource *r, struct base_entry *e)
{
	struct snapshot *s = r->priv;
	struct tree_stat st;
	int rc = look_in_base(s, e->path, &st, &e->original, &e->original_xattrs);

	if (rc <= 0 || !S_ISDIR(st.mode))
		return MIN(rc, 0);
	copy_describe(e, &st);
	e->settled = true;
	rc = base_xattrs_set(&e->xattrs, e->original_xattrs.data, e->original_xattrs.size);
	return rc < 0 ? rc : 1;
}

static int rebase(struct resource *r, const struct store_step *steps, size_t n, bool undone, struct atoll_error *err)
{
	struct snapshot *s = NULL;
	int rc;

	snapshot_release(r);
	rc = snapshot_load(r, &s, err);
	return rc < 0 ? rc : copy_rebase(r, s->record, steps, n, undone, begin_record, err);
}

static int snapshot_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	return rebase(r, steps, n, false, err);
}

static int snapshot_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	return rebase(r, steps, n, true, err);
}

static struct changes *changes_quickly(struct resource *r, bool exact, struct atoll_error *err)
{
	return snapshot_changes(r, exact, SNAPSHOT_QUICKLY, err);
}

const struct strategy_ops strategy_snapshot = {
	.name = "snapshot",
	.summary = "a btrfs snapshot of a subvolume; changes are found without a walk",
	.strength = 40,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_DIR),
	.workspace = COPY_TREE,
	.probe = snapshot_probe,
	.fits = tree_same_btrfs,
	.begin = snapshot_begin,
	.view = copy_view,
	.changes = changes_quickly,
	.base = snapshot_base,
	.origin = snapshot_origin,
	.is_as_origin = snapshot_is_as_origin,
	.landed = snapshot_landed,
	.returned = snapshot_returned,
	.release = snapshot_release,
};
