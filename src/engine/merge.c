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
 *
 * What a partial commit took out of the workspace comes back entry by entry, by the same table: where something newer has its place, it is
 * put beneath that.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/sys.h"

struct merge {
	struct resource *r;
	int older_root;
	bool root_returned; /* the undo has set the time of the older root */
	struct peer older;
};

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

static int make_opaque(const struct merge *m, int dirfd, const char *name)
{
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : tree_mark_set(fd, resource_marks(m->r), "opaque", "y", 1);
}

static int is_opaque(const struct merge *m, int fd)
{
	return tree_is_opaque(fd, resource_marks(m->r));
}

static bool original_has(struct merge *m, const char *path)
{
	AUTO_FD fd = fd_open_beneath(m->r->root_fd, path, O_PATH);

	return fd >= 0;
}

static int replace(const struct merge *m, const struct tree_entry *e, int dir, bool hide)
{
	/* The mark first: once the older entry is gone nothing tells any more that it is needed. */
	int r = hide ? make_opaque(m, e->dirfd, e->name) : 0;

	if (r >= 0)
		r = tree_remove(dir, e->name);
	if (r >= 0)
		r = sys_rename(e->dirfd, e->name, dir, e->name, 0);
	return r;
}

#define NOTE "atoll-mtime"

struct note {
	int64_t mtime;
	int64_t era; /* not there in notes of earlier versions: 0 */
};

static bool read_note(const struct merge *m, int fd, struct note *ret)
{
	ssize_t size;

	*ret = (struct note){ 0 };
	size = tree_mark_get(fd, resource_marks(m->r), NOTE, ret, sizeof *ret);
	return size == (ssize_t)sizeof ret->mtime || size == (ssize_t)sizeof *ret;
}

/* Moving entries out of a directory changes its mtime. What it was is noted on it before the first one goes, for a merge that goes on after
 * an interruption; an attribute with the overlay's own prefix is copied nowhere. */
static int note_mtime(const struct merge *m, const struct tree_entry *e)
{
	struct note note;

	if (read_note(m, e->fd, &note))
		return 0;
	note = (struct note){ .mtime = e->stat.mtime, .era = e->stat.mtime_era };
	return tree_mark_set(e->fd, resource_marks(m->r), NOTE, &note, sizeof note);
}

/* How the newer directory looked before anything was moved out of it. */
static struct tree_stat noted_stat(const struct merge *m, const struct tree_entry *e)
{
	struct tree_stat st = e->stat;
	struct note note;

	if (read_note(m, e->fd, &note)) {
		st.mtime = note.mtime;
		st.mtime_era = (int16_t)note.era;
	}
	return st;
}

/* Both are directories, and the newer one does not hide the older: its content follows entry by entry. */
static int merge_directory(const struct merge *m, const struct tree_entry *e, int dir)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD older = openat(dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool kept;
	int r;

	if (older < 0)
		return -errno;
	r = note_mtime(m, e);
	if (r >= 0)
		r = tree_xattrs_read(e->fd, resource_marks(m->r), &x);
	if (r >= 0)
		r = tree_xattrs_write(older, resource_marks(m->r), &x);
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

/* The mark that records the time which a commit gave the root of its fresh layer. If the root still
 * has that time, no edit has changed it since. */
#define BEGUN "atoll-begun"

int merge_begin_root(const struct resource *r, int fd, const struct tree_stat *st)
{
	struct note note = { .mtime = st->mtime, .era = st->mtime_era };

	return tree_mark_set(fd, resource_marks(r), BEGUN, &note, sizeof note);
}

static bool has_begun_time(const struct merge *m, const struct tree_entry *e)
{
	struct note begun = { 0 };

	return tree_mark_get(e->fd, resource_marks(m->r), BEGUN, &begun, sizeof begun) == (ssize_t)sizeof begun &&
	       begun.mtime == e->stat.mtime && begun.era == e->stat.mtime_era;
}

/* If no edit has changed the time of the newer root, the older root keeps the time that the undo
 * gave it. Another process may have given the original that time since the commit. */
static int note_root_mtime(const struct merge *m, const struct tree_entry *e)
{
	struct tree_entry noted = *e;
	struct note note;
	int r = 0;

	if (m->root_returned && !read_note(m, e->fd, &note) && has_begun_time(m, e))
		r = tree_stat(m->older_root, "", &noted.stat);
	return r < 0 ? r : note_mtime(m, &noted);
}

/* Its times last, as for every directory. */
static int merge_root(struct merge *m, const struct tree_entry *e)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	struct tree_stat st;
	bool kept;
	int r;

	if (!e->leaving) {
		r = note_root_mtime(m, e);
		return r < 0 ? r : TREE_WALK_GO;
	}
	st = noted_stat(m, e);
	r = tree_xattrs_read(e->fd, resource_marks(m->r), &x);
	if (r >= 0)
		r = tree_xattrs_write(m->older_root, resource_marks(m->r), &x);
	if (r >= 0)
		r = tree_set_meta(m->older_root, "", &st, true, &kept);
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
		struct tree_stat st = noted_stat(m, e);
		bool kept;

		/* Times last: moving its content has changed them. */
		r = parent < 0 ? parent : tree_set_meta(parent, e->name, &st, true, &kept);
		return r < 0 && r != -ENOENT ? r : TREE_WALK_GO;
	}
	dir = peer_dir(&m->older, e->path, slash ? (size_t)(slash - e->path) : 0);
	if (dir < 0)
		return dir;
	/* A guest's: what hides the names of the original beside its file does so whether they are there just now or not. */
	if (resource_is_claimed(m->r, e->path)) {
		r = replace(m, e, dir, false);
		return r < 0 ? r : TREE_WALK_SKIP;
	}
	if (is_whiteout(&e->stat)) {
		r = merge_whiteout(m, e, dir);
		return r < 0 ? r : TREE_WALK_GO;
	}
	r = tree_stat(dir, e->name, &older);
	if (r < 0 && r != -ENOENT)
		return r;
	if (S_ISDIR(e->stat.mode) && r >= 0 && S_ISDIR(older.mode) && e->fd >= 0 && is_opaque(m, e->fd) == 0) {
		r = merge_directory(m, e, dir);
		return r < 0 ? r : TREE_WALK_GO;
	}
	r = replace(m, e, dir, S_ISDIR(e->stat.mode) && r >= 0 && !S_ISDIR(older.mode));
	return r < 0 ? r : TREE_WALK_SKIP;
}

int merge_newer(struct resource *r, int newer_fd, int older_fd, bool root_returned)
{
	struct merge m = {
		.r = r, .older_root = older_fd, .root_returned = root_returned, .older = { older_fd, NULL, -EBADF }
	};
	int rc = tree_walk(newer_fd, TREE_WALK_LEAVING, merge_entry, &m, NULL);

	peer_release(&m.older);
	return rc;
}

/* ---- beneath what is newer ---- */

struct entry {
	int dir;
	const char *name;
	mode_t mode;
	int fd; /* of a directory */
};

struct under {
	struct merge m;
	const char *top; /* of the walk, in the resource */
};

int merge_is_hidden(const struct resource *res, int workspace_fd, const char *path)
{
	AUTO_FREE char *at = strdup(path);
	int r = at ? 0 : -ENOMEM;

	for (char *slash = at ? strrchr(at, '/') : NULL; slash && r == 0; slash = strrchr(at, '/')) {
		AUTO_FD fd = -EBADF;

		*slash = 0;
		fd = fd_open_beneath(workspace_fd, at, O_RDONLY | O_DIRECTORY);
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			return 1;
		r = fd < 0 ? fd : tree_is_opaque(fd, resource_marks(res));
	}
	return r;
}

/* A directory that receives or loses something here keeps its times: they are the newer edits'. */
static int put_beside(int from_dir, const char *from_name, int dir, const char *name)
{
	struct tree_stat st;
	int r = tree_stat(dir, "", &st);

	if (r >= 0)
		r = sys_rename(from_dir, from_name, dir, name, RENAME_NOREPLACE);
	return r < 0 ? r : tree_restore_mtime(dir, &st);
}

/* The older entry goes first: once the whiteout is gone nothing tells any more that it was removed. */
static int drop_idle_whiteout(struct merge *m, int dir, const char *name, const char *path, const struct entry *older)
{
	struct tree_stat st;
	int r = original_has(m, path) ? 1 : tree_stat(dir, "", &st);

	if (r > 0)
		return 0;
	if (r >= 0)
		r = tree_remove(older->dir, older->name);
	if (r >= 0)
		r = sys_unlink(dir, name, 0);
	return r < 0 ? r : tree_restore_mtime(dir, &st);
}

/* Directories above that a rollback has dropped from the workspace since. 1: a newer edit has removed or replaced one of them, and hides
 * what is below; nothing is made there. */
static int make_parents(struct merge *m, int workspace_fd, const char *path)
{
	AUTO_FREE char *at = strdup(path);
	int r = at ? 0 : -ENOMEM;

	for (char *slash = at ? strchr(at, '/') : NULL; slash && r == 0; slash = strchr(slash + 1, '/')) {
		AUTO_FD fd = -EBADF;

		*slash = 0;
		fd = fd_open_beneath(workspace_fd, at, O_RDONLY | O_DIRECTORY);
		if (fd == -ENOENT)
			r = tree_copy_up(m->r->root_fd, workspace_fd, at, resource_marks(m->r));
		else
			r = fd == -ENOTDIR || fd == -ELOOP ? 1 : fd < 0 ? fd : is_opaque(m, fd);
		*slash = '/';
	}
	return is_absent(r) ? 0 : r;
}

/* Something newer is there. 1: both are directories, and the newer one shows what is below the older. */
static int join_newer(struct under *u, const struct tree_stat *newer, int dir, const char *name, const char *path,
		      const struct entry *older)
{
	AUTO_FD fd = -EBADF;
	int opaque;

	if (is_whiteout(newer))
		return drop_idle_whiteout(&u->m, dir, name, path, older);
	if (!S_ISDIR(newer->mode))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	opaque = is_opaque(&u->m, fd);
	if (opaque != 0)
		return MIN(opaque, 0);
	/* It was a copy of the original's, which is gone again: now it stands for itself. */
	if (!original_has(&u->m, path)) {
		int stripped = tree_strip_overlay(dir, name, resource_marks(u->m.r));

		return stripped < 0 ? stripped : S_ISDIR(older->mode);
	}
	if (!S_ISDIR(older->mode))
		return make_opaque(&u->m, dir, name);
	opaque = older->fd < 0 ? older->fd : is_opaque(&u->m, older->fd);
	if (opaque > 0)
		opaque = make_opaque(&u->m, dir, name);
	return opaque < 0 ? opaque : 1;
}

static int put_under(const struct tree_entry *e, void *arg)
{
	struct under *u = arg;
	AUTO_FREE char *path = str_format("%s/%s", u->top, e->path);
	const char *slash = strrchr(e->path, '/');
	struct tree_stat newer;
	int dir, r;

	if (!path)
		return -ENOMEM;
	dir = peer_dir(&u->m.older, e->path, slash ? (size_t)(slash - e->path) : 0);
	r = dir < 0 ? dir : tree_stat(dir, e->name, &newer);
	if (r == -ENOENT)
		r = put_beside(e->dirfd, e->name, dir, e->name);
	else if (r >= 0)
		r = join_newer(u, &newer, dir, e->name, path,
			       &(struct entry){ e->dirfd, e->name, e->stat.mode, e->fd });
	return r < 0 ? r : r > 0 ? TREE_WALK_GO : TREE_WALK_SKIP;
}

int merge_beneath(struct resource *r, int workspace_fd, const char *path, int slot_dir, const char *slot)
{
	struct under u = { .m = { .r = r, .older = { -EBADF, NULL, -EBADF } }, .top = path };
	AUTO_FD dir = -EBADF, older_fd = -EBADF, newer_fd = -EBADF;
	struct tree_stat older, newer;
	const char *name;
	int rc = tree_stat(slot_dir, slot, &older);

	if (rc == -ENOENT)
		return 0;
	if (rc >= 0)
		rc = make_parents(&u.m, workspace_fd, path);
	if (rc == 0)
		rc = merge_is_hidden(r, workspace_fd, path);
	if (rc != 0)
		return MIN(rc, 0);
	rc = fd_open_parent(workspace_fd, path, &dir, &name);
	if (rc >= 0)
		rc = tree_stat(dir, name, &newer);
	if (rc == -ENOENT)
		return put_beside(slot_dir, slot, dir, name);
	if (rc < 0)
		return rc;
	if (S_ISDIR(older.mode)) {
		older_fd = openat(slot_dir, slot, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (older_fd < 0)
			return -errno;
	}
	rc = join_newer(&u, &newer, dir, name, path, &(struct entry){ slot_dir, slot, older.mode, older_fd });
	if (rc <= 0)
		return rc;
	newer_fd = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY);
	u.m.older.root_fd = newer_fd;
	rc = newer_fd < 0 ? newer_fd : tree_walk(older_fd, TREE_WALK_NO_ROOT, put_under, &u, NULL);
	peer_release(&u.m.older);
	return rc;
}

/* ---- metadata of a directory ---- */

#define META_SLOT "metadata"

/* A directory as the original's is, but with the metadata that the step had landed. */
static int make_edited(struct resource *r, const struct store_step *step, int slot_dir)
{
	struct tree_copy_report report = { 0 };
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD original = fd_open_beneath(r->root_fd, step->path, O_RDONLY | O_DIRECTORY);
	AUTO_FD fd = -EBADF;
	struct tree_stat st;
	bool kept;
	int rc = original < 0 ? original : tree_remove(slot_dir, META_SLOT);

	if (rc >= 0)
		rc = tree_copy_entry(original, "", slot_dir, META_SLOT, TREE_COPY_KEEP_SET_ID | resource_marks(r),
				     &report);
	if (rc >= 0)
		rc = tree_stat(slot_dir, META_SLOT, &st);
	if (rc < 0)
		return rc;
	fd = openat(slot_dir, META_SLOT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (step->xattrs_after) {
		rc = tree_xattrs_decode(step->xattrs_after, step->xattrs_after_size, &x);
		if (rc >= 0)
			rc = tree_xattrs_write(fd, resource_marks(r), &x);
	}
	st.mode = step->after.mode;
	st.uid = step->after.uid;
	st.gid = step->after.gid;
	return rc < 0 ? rc : tree_set_meta(slot_dir, META_SLOT, &st, true, &kept);
}

int merge_metadata(struct resource *r, int workspace_fd, const struct store_step *step, int slot_dir)
{
	struct merge m = { .r = r };
	AUTO_FD there = -EBADF, dir = -EBADF;
	const char *name;
	int rc = *step->path ? make_parents(&m, workspace_fd, step->path) : 1;

	if (rc != 0)
		return MIN(rc, 0);
	there = fd_open_beneath(workspace_fd, step->path, O_PATH);
	if (there != -ENOENT)
		return there < 0 && !is_absent(there) ? there : 0;
	rc = fd_open_parent(workspace_fd, step->path, &dir, &name);
	if (rc >= 0)
		rc = make_edited(r, step, slot_dir);
	if (rc >= 0)
		rc = put_beside(slot_dir, META_SLOT, dir, name);
	return is_absent(rc) ? 0 : rc;
}
