/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes of btrfs: what one is, snapshots of it, what lies in it, and its removal. All of it can be asked without privilege. */
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

static bool is_btrfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

int tree_subvolume(int fd, struct tree_subvolume *ret)
{
	struct btrfs_ioctl_get_subvol_info_args info = { 0 };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_ino != BTRFS_FIRST_FREE_OBJECTID || !is_btrfs(fd))
		return -ENOTTY;
	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
		return -errno;
	*ret = (struct tree_subvolume){ info.treeid, info.otransid };
	return 0;
}

static int filesystem_of(int fd, struct btrfs_ioctl_fs_info_args *ret)
{
	*ret = (struct btrfs_ioctl_fs_info_args){ 0 };
	if (!is_btrfs(fd))
		return -ENOTTY;
	return ioctl(fd, BTRFS_IOC_FS_INFO, ret) < 0 ? -errno : 0;
}

bool tree_same_btrfs(int fd_a, int fd_b)
{
	struct btrfs_ioctl_fs_info_args a, b;

	return filesystem_of(fd_a, &a) == 0 && filesystem_of(fd_b, &b) == 0 &&
	       memcmp(a.fsid, b.fsid, sizeof a.fsid) == 0;
}

int tree_snapshot(int subvolume_fd, int dirfd, const char *name, bool read_only)
{
	AUTO_FD dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? -errno : sys_snapshot(subvolume_fd, dir, name, read_only);
}

/* ---- what lies in one ---- */

static int tell_subvolume(int fd, uint64_t id, uint64_t directory, int (*fn)(const char *path, void *arg), void *arg)
{
	struct btrfs_ioctl_ino_lookup_user_args at = { .dirid = directory, .treeid = id };
	AUTO_FREE char *path = NULL;

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP_USER, &at) < 0)
		return errno == ENOENT ? 0 : fn(NULL, arg);
	path = str_format("%s%s", at.path, at.name);
	return path ? fn(path, arg) : -ENOMEM;
}

int tree_subvolumes_in(int subvolume_fd, int (*fn)(const char *path, void *arg), void *arg)
{
	struct btrfs_ioctl_get_subvol_rootref_args refs = { 0 };
	bool more = true;
	int r = 0;

	if (!is_btrfs(subvolume_fd))
		return -ENOTTY;
	while (more && r == 0) {
		more = ioctl(subvolume_fd, BTRFS_IOC_GET_SUBVOL_ROOTREF, &refs) < 0;
		if (more && errno != EOVERFLOW)
			return -errno;
		for (size_t i = 0; i < refs.num_items && r == 0; i++)
			r = tell_subvolume(subvolume_fd, refs.rootref[i].treeid, refs.rootref[i].dirid, fn, arg);
	}
	return r;
}

/* ---- removal ---- */

int tree_subvolume_remove(int dirfd, const char *name)
{
	AUTO_FD dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct tree_subvolume ignored;
	int r = dir < 0 || fd < 0 ? -errno : tree_subvolume(fd, &ignored);

	if (r < 0)
		return r;
	r = sys_subvolume_thaw(fd);
	return r < 0 ? r : sys_subvolume_destroy(dir, name);
}

/* ---- identities ---- */

/* The file handle of btrfs, as its kernel source has it: inode number, subvolume, and the low half of the transaction that made it. */
#define HANDLE_TYPE 0x4d
struct handle {
	unsigned char kind; /* of struct tree_id */
	int32_t type;
	uint64_t inode, subvolume;
	uint32_t generation;
} __attribute__((packed));

static bool get_handle(const struct tree_id *id, struct handle *ret)
{
	if (!tree_id_is_handle(id) || id->size < sizeof *ret)
		return false;
	memcpy(ret, id->data, sizeof *ret);
	return ret->type == HANDLE_TYPE;
}

void tree_id_in_subvolume(struct tree_id *id, uint64_t subvolume)
{
	struct handle h;

	/* Inode number and birth time are the same there. */
	if (!get_handle(id, &h))
		return;
	h.subvolume = subvolume;
	memcpy(id->data, &h, sizeof h);
}

bool tree_id_is_of_generation(const struct tree_id *id, uint64_t generation)
{
	struct handle h;

	return get_handle(id, &h) && h.generation <= generation && generation <= UINT32_MAX;
}
