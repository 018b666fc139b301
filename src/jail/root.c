/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a view takes the place of the one the process came with. It is put over that one first, where no path leads to it, so
 * that it can be filled with what is on the other. That one is then detached: no path and no umount leads back. All of it is child
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
