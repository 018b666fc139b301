/* SPDX-License-Identifier: Apache-2.0 */
/* A btrfs as the directory of a test, which goes with the test's process. Needs root, to mount it; else the test is skipped. */
#ifndef TESTS_LIB_BTRFS_H
#define TESTS_LIB_BTRFS_H

#include <linux/btrfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "tap.h"

TAP_UNUSED static void btrfs_ground(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		tap_skip("a btrfs to test on can be mounted by root alone");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		tap_fail(__FILE__, __LINE__, "the mounts cannot be made private: %s", strerror(errno));
	if (system("command -v mkfs.btrfs >/dev/null && { modprobe -q btrfs 2>/dev/null; grep -qw btrfs /proc/filesystems; }") !=
	    0)
		tap_skip("no btrfs on this machine");
	/* The image lies in memory, where flushing takes no time, below the mount it is for. */
	if (system("mount -t tmpfs -o size=320m none \"$PWD\" && cd \"$PWD\" && truncate -s 160M image &&"
		   " mkfs.btrfs -q -f -K image >/dev/null 2>&1 && mount -o loop image \"$PWD\"") != 0)
		tap_fail(__FILE__, __LINE__, "a btrfs cannot be made in %s", tap_dir);
	close(tap_dirfd);
	tap_dirfd = open(tap_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tap_dirfd < 0 || fchdir(tap_dirfd) < 0 || fchmod(tap_dirfd, 0755) < 0)
		tap_fail(__FILE__, __LINE__, "cannot enter %s: %s", tap_dir, strerror(errno));
}

/* A new subvolume; its parent is named by path. */
TAP_UNUSED static void btrfs_subvolume(const char *path)
{
	const char *slash = strrchr(path, '/');
	char parent[4096];
	int fd;

	snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct btrfs_ioctl_vol_args args = { 0 };
	snprintf(args.name, sizeof args.name, "%s", slash ? slash + 1 : path);
	if (fd < 0 || ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0)
		tap_fail(__FILE__, __LINE__, "the subvolume %s cannot be made: %s", path, strerror(errno));
	close(fd);
}

#endif
