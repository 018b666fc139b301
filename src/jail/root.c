/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the root of the process by the root of the view. root_put() attaches the new root over
 * the old one, where no path leads to it, so that shield_fill() can still fill it from the old one.
 * root_enter() then detaches the old root: no path and no umount leads back. All of it is child
 * side.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "jail/private.h"

int root_put(int tree_fd)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -errno : mount_attach(tree_fd, root);
}

int root_enter(int tree_fd)
{
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
