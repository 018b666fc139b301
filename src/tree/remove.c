/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removal of a tree: every entry by its name in an open directory, never through a link, never into another mount. What
 * cannot be removed is left, the rest goes, and the first failure is the answer.
 */
#include <fcntl.h>

#include "base/sys.h"
#include "tree/private.h"

struct removal {
	uint64_t mnt_id;
	int first_error;
};

static void note_error(struct removal *rm, int r)
{
	if (r < 0 && r != -ENOENT && rm->first_error == 0)
		rm->first_error = r;
}

static bool can_work_in(int fd)
{
	return faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) == 0;
}

/* An owner may always give himself the permission; somebody else's directory may do without. */
static void make_workable(int dirfd, const char *name, mode_t mode)
{
	AUTO_FD node = tree_open_node(dirfd, name);

	if (node >= 0 && !can_work_in(node))
		(void)sys_chmod(node, (mode & 07777) | S_IRWXU);
}

/* Whether the walk could list and stat what is below. */
static bool can_enter(int dirfd, const char *name)
{
	return faccessat(dirfd, name, R_OK | X_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

/* A subvolume goes in one call, or is emptied as any directory once it can be written. On btrfs each root has this inode number. */
static bool went_as_subvolume(int dirfd, const char *name, const struct tree_stat *st)
{
	return st->ino == 256 && tree_subvolume_remove(dirfd, name) == 0;
}

static int enter_dir(const struct tree_entry *entry, struct removal *rm)
{
	int r;

	if (entry->stat.mnt_id != rm->mnt_id) {
		note_error(rm, -EBUSY);
		return TREE_WALK_SKIP;
	}
	if (went_as_subvolume(entry->dirfd, entry->name, &entry->stat))
		return TREE_WALK_SKIP;
	make_workable(entry->dirfd, entry->name, entry->stat.mode);
	if (can_enter(entry->dirfd, entry->name))
		return TREE_WALK_GO;
	r = sys_unlink(entry->dirfd, entry->name, AT_REMOVEDIR); /* being empty it can go even so */
	note_error(rm, r == -ENOTEMPTY || r == -EEXIST ? -EACCES : r);
	return TREE_WALK_SKIP;
}

static int remove_visit(const struct tree_entry *entry, void *arg)
{
	struct removal *rm = arg;

	if (entry->leaving)
		note_error(rm, sys_unlink(entry->dirfd, entry->name, AT_REMOVEDIR));
	else if (S_ISDIR(entry->stat.mode))
		return enter_dir(entry, rm);
	else
		note_error(rm,
			   sys_unlink(entry->dirfd, entry->name, 0)); /* a file that is a mount point stays: -EBUSY */
	return TREE_WALK_GO;
}

int tree_empty(int dirfd)
{
	struct removal rm = { 0 };
	struct tree_stat st;
	int r;

	r = tree_stat(dirfd, "", &st);
	if (r < 0)
		return r;
	if (!S_ISDIR(st.mode))
		return -ENOTDIR;
	rm.mnt_id = st.mnt_id;
	r = tree_walk(dirfd, TREE_WALK_LEAVING | TREE_WALK_NO_ROOT | TREE_WALK_TYPES, remove_visit, &rm, NULL);
	return rm.first_error < 0 ? rm.first_error : r;
}

static int remove_dir(int dirfd, const char *name, const struct tree_stat *st)
{
	AUTO_FD fd = -EBADF;
	int r, first;

	if (went_as_subvolume(dirfd, name, st))
		return 0;
	make_workable(dirfd, name, st->mode);
	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	first = tree_empty(fd);
	r = sys_unlink(dirfd, name, AT_REMOVEDIR);
	if (r == 0 || r == -ENOENT)
		return 0;
	return first < 0 ? first : r;
}

int tree_remove(int dirfd, const char *name)
{
	struct tree_stat st = { 0 }, parent = { 0 };
	int r;

	if (name[0] == '\0')
		return -EINVAL;
	r = tree_stat(dirfd, name, &st);
	if (r == 0)
		r = tree_stat(dirfd, "", &parent);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (st.mnt_id != parent.mnt_id)
		return -EBUSY;
	r = S_ISDIR(st.mode) ? remove_dir(dirfd, name, &st) : sys_unlink(dirfd, name, 0);
	return r == -ENOENT ? 0 : r;
}
