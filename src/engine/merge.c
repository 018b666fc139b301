/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two upper layers become one: the edits of a commit that was taken back, and those made after it. The newer ones win. Entries are moved one
 * by one out of the newer layer, so that a merge that was interrupted goes on where it stood.
 *
 *	newer              older             becomes
 *	anything           nothing           newer
 *	file, link         anything          newer
 *	whiteout           anything          newer, or nothing if the original has nothing there
 *	directory          directory         both, merged; newer attributes; opaque if either is
 *	opaque directory   anything          newer
 *	directory          file, whiteout    newer, made opaque: it must go on hiding the original
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/sys.h"

struct merge {
	struct resource *r;
	int older_root;
	struct peer older;
};

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

static int make_opaque(int dirfd, const char *name)
{
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = sys_setxattr(fd, "trusted.overlay.opaque", "y", 1);
	return r == -EPERM || r == -ENOTSUP ? sys_setxattr(fd, "user.overlay.opaque", "y", 1) : r;
}

static bool original_has(struct merge *m, const char *path)
{
	AUTO_FD fd = fd_open_beneath(m->r->root_fd, path, O_PATH);

	return fd >= 0;
}

static int replace(const struct tree_entry *e, int dir, bool hide)
{
	/* The mark first: once the older entry is gone nothing tells any more that it is needed. */
	int r = hide ? make_opaque(e->dirfd, e->name) : 0;

	if (r >= 0)
		r = tree_remove(dir, e->name);
	if (r >= 0)
		r = sys_rename(e->dirfd, e->name, dir, e->name, 0);
	return r;
}

/* Both are directories, and the newer one does not hide the older: its content follows entry by entry. */
static int merge_directory(const struct tree_entry *e, int dir)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD older = openat(dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool kept;
	int r;

	if (older < 0)
		return -errno;
	r = tree_xattrs_read(e->fd, &x);
	if (r >= 0)
		r = tree_xattrs_write(older, &x);
	return r < 0 ? r : tree_set_meta(dir, e->name, &e->stat, true, &kept);
}

static int merge_whiteout(struct merge *m, const struct tree_entry *e, int dir)
{
	int r = tree_remove(dir, e->name);

	if (r < 0)
		return r;
	return original_has(m, e->path) ? sys_rename(e->dirfd, e->name, dir, e->name, 0)
					: sys_unlink(e->dirfd, e->name, 0);
}

/* Its times last, as for every directory. */
static int merge_root(struct merge *m, const struct tree_entry *e)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	bool kept;
	int r;

	if (!e->leaving)
		return TREE_WALK_GO;
	r = tree_xattrs_read(e->fd, &x);
	if (r >= 0)
		r = tree_xattrs_write(m->older_root, &x);
	if (r >= 0)
		r = tree_set_meta(m->older_root, "", &e->stat, true, &kept);
	return r < 0 ? r : TREE_WALK_GO;
}

static int merge_entry(const struct tree_entry *e, void *arg)
{
	struct merge *m = arg;
	const char *slash = strrchr(e->path, '/');
	struct tree_stat older;
	int dir, r;

	if (!*e->path)
		return merge_root(m, e);
	if (e->leaving) {
		AUTO_FREE char *path = strdup(e->path);
		int parent = path ? peer_dir(&m->older, path, slash ? (size_t)(slash - e->path) : 0) : -ENOMEM;
		bool kept;

		/* Times last: moving its content has changed them. */
		r = parent < 0 ? parent : tree_set_meta(parent, e->name, &e->stat, true, &kept);
		return r < 0 && r != -ENOENT ? r : TREE_WALK_GO;
	}
	dir = peer_dir(&m->older, e->path, slash ? (size_t)(slash - e->path) : 0);
	if (dir < 0)
		return dir;
	if (is_whiteout(&e->stat)) {
		r = merge_whiteout(m, e, dir);
		return r < 0 ? r : TREE_WALK_GO;
	}
	r = tree_stat(dir, e->name, &older);
	if (r < 0 && r != -ENOENT)
		return r;
	if (S_ISDIR(e->stat.mode) && r >= 0 && S_ISDIR(older.mode) && e->fd >= 0 && tree_is_opaque(e->fd) == 0) {
		r = merge_directory(e, dir);
		return r < 0 ? r : TREE_WALK_GO;
	}
	r = replace(e, dir, S_ISDIR(e->stat.mode) && r >= 0 && !S_ISDIR(older.mode));
	return r < 0 ? r : TREE_WALK_SKIP;
}

int merge_newer(struct resource *r, int newer_fd, int older_fd)
{
	struct merge m = { .r = r, .older_root = older_fd, .older = { older_fd, NULL, -EBADF } };
	int rc = tree_walk(newer_fd, TREE_WALK_LEAVING, merge_entry, &m, NULL);

	peer_release(&m.older);
	return rc;
}
