/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a view: a copy of all the host's mounts, read-only and without set-id and device files, that takes the place of the
 * one the process came with. That one is then detached: no path and no umount leads back. All of it is child side.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "jail/private.h"

int root_clone(void)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	AUTO_FD fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int root_enter(int tree_fd)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = root < 0 ? -errno : mount_attach(tree_fd, root);

	if (r < 0)
		return r;
	if (fchdir(tree_fd) < 0)
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0) {
		/* The old root lies over the new one now. */
		if (umount2(".", MNT_DETACH) < 0)
			return -errno;
	} else if (errno != EINVAL || chroot(".") < 0) {
		return -errno;
	}
	/* EINVAL: the caller's root is a directory (chroot), or the kernel's first filesystem, which cannot be moved. */
	return chdir("/") < 0 ? -errno : 0;
}
