/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Project ids, by which XFS and ext4 count the space that a tree of directories takes. A directory may hand its id down, and then takes no
 * entry of another project by rename (EXDEV). So what is to be put there gets the id first, as it would have had it from the beginning. The
 * kernel lets only processes outside of a user namespace change it (outside.c).
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

int tree_project_copy(int dir, int fd)
{
	struct fsxattr wanted, now;

	if (ioctl(dir, FS_IOC_FSGETXATTR, &wanted) < 0)
		return -errno;
	if (ioctl(fd, FS_IOC_FSGETXATTR, &now) < 0)
		return errno == EBADF ? sys_set_link_project(fd, wanted.fsx_projid) : -errno;
	if (now.fsx_projid == wanted.fsx_projid)
		return 0;
	now.fsx_projid = wanted.fsx_projid;
	return sys_set_project(fd, &now);
}

/* Symbolic links cannot be opened: before Linux 6.17 they keep what they have, and are refused when they are put in place. */
static int give(const struct tree_entry *e, void *arg)
{
	const int *dir = arg;
	AUTO_FD fd = -EBADF;
	int r;

	if (tree_is_special(e->stat.mode))
		return TREE_WALK_GO;
	fd = S_ISLNK(e->stat.mode) ? openat(e->dirfd, e->name, O_PATH | O_NOFOLLOW | O_CLOEXEC)
	     : *e->name            ? openat(e->dirfd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
				   : openat(e->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = tree_project_copy(*dir, fd);
	if (r == -EINVAL || r == -EPERM)
		r = tree_outside_copy(*dir, fd, TREE_OUTSIDE_PROJECT);
	if (S_ISLNK(e->stat.mode) && r == -ENOSYS)
		r = 0;
	return r < 0 ? r : TREE_WALK_GO;
}

bool tree_hands_project_down(int dir)
{
	struct fsxattr x;

	return ioctl(dir, FS_IOC_FSGETXATTR, &x) == 0 && (x.fsx_xflags & FS_XFLAG_PROJINHERIT);
}

int tree_project_give(int dir, int from_dir, const char *name)
{
	struct tree_entry e = { .dirfd = from_dir, .name = name, .path = "", .fd = -EBADF };
	AUTO_FD fd = -EBADF;
	int r = tree_stat(from_dir, name, &e.stat);

	if (r < 0)
		return r;
	if (!S_ISDIR(e.stat.mode)) {
		r = give(&e, &dir);
		return MIN(r, 0);
	}
	fd = fd_open_beneath(from_dir, name, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? fd : tree_walk(fd, 0, give, &dir, NULL);
}
