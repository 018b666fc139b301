/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <linux/btrfs.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "base/macros.h"
#include "base/sys-fault.h"

/* One counted call: its result, or -errno. A call that a signal interrupted is made again and is still the same one. */
#define COUNTED(call)                                     \
	({                                                \
		ssize_t _r = sys_fault(__func__);         \
                                                          \
		if (_r == 0) {                            \
			do                                \
				_r = (call);              \
			while (_r < 0 && errno == EINTR); \
			_r = _r < 0 ? -errno : _r;        \
			sys_fault_after();                \
		}                                         \
		_r;                                       \
	})

#define PROC_FD_SIZE (sizeof("/proc/self/fd/") + 12)

static const char *proc_fd(char buffer[PROC_FD_SIZE], int fd)
{
	snprintf(buffer, PROC_FD_SIZE, "/proc/self/fd/%d", fd);
	return buffer;
}

/* In Linux 5.14 and later. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int sys_allocate_mapped(void *at, size_t size)
{
	int r = (int)COUNTED(madvise(at, size, MADV_POPULATE_WRITE));

	/* The kernel says EFAULT where a write would raise SIGBUS, and EINVAL where it does not know the request. */
	return r == -EFAULT ? -ENOSPC : r == -EINVAL ? 0 : r;
}

int sys_open(int dirfd, const char *name, int flags, mode_t mode)
{
	return (int)COUNTED(openat(dirfd, name, flags | O_CLOEXEC, mode));
}

int sys_rename(int old_dir, const char *old_name, int new_dir, const char *new_name, unsigned flags)
{
	return (int)COUNTED(renameat2(old_dir, old_name, new_dir, new_name, flags));
}

int sys_link(int old_dir, const char *old_name, int new_dir, const char *new_name)
{
	return (int)COUNTED(linkat(old_dir, old_name, new_dir, new_name, 0));
}

int sys_unlink(int dirfd, const char *name, int flags)
{
	return (int)COUNTED(unlinkat(dirfd, name, flags));
}

int sys_mkdir(int dirfd, const char *name, mode_t mode)
{
	return (int)COUNTED(mkdirat(dirfd, name, mode));
}

int sys_symlink(const char *target, int dirfd, const char *name)
{
	return (int)COUNTED(symlinkat(target, dirfd, name));
}

int sys_whiteout(int dirfd, const char *name)
{
	return (int)COUNTED(mknodat(dirfd, name, S_IFCHR, 0));
}

int sys_write(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size > 0) {
		ssize_t n = COUNTED(write(fd, p, size));

		if (n < 0)
			return (int)n;
		if (n == 0)
			return -EIO;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int sys_pwrite(int fd, const void *data, size_t size, off_t at)
{
	ssize_t n = COUNTED(pwrite(fd, data, size, at));

	return n < 0 ? (int)n : (size_t)n == size ? 0 : -EIO;
}

int sys_truncate(int fd, off_t size)
{
	return (int)COUNTED(ftruncate(fd, size));
}

static int chmod_fd(int fd, mode_t mode)
{
	char path[PROC_FD_SIZE];
	int r = fchmod(fd, mode);

	return r < 0 && errno == EBADF ? chmod(proc_fd(path, fd), mode) : r;
}

int sys_chmod(int fd, mode_t mode)
{
	return (int)COUNTED(chmod_fd(fd, mode));
}

int sys_chown(int dirfd, const char *name, uid_t uid, gid_t gid)
{
	int flags = AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH);

	return (int)COUNTED(fchownat(dirfd, name, uid, gid, flags));
}

int sys_utimens(int dirfd, const char *name, const struct timespec times[2])
{
	int flags = AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH);

	return (int)COUNTED(utimensat(dirfd, name, times, flags));
}

static int setxattr_fd(int fd, const char *name, const void *value, size_t size)
{
	char path[PROC_FD_SIZE];
	int r = fsetxattr(fd, name, value, size, 0);

	return r < 0 && errno == EBADF ? setxattr(proc_fd(path, fd), name, value, size, 0) : r;
}

int sys_setxattr(int fd, const char *name, const void *value, size_t size)
{
	return (int)COUNTED(setxattr_fd(fd, name, value, size));
}

static int removexattr_fd(int fd, const char *name)
{
	char path[PROC_FD_SIZE];
	int r = fremovexattr(fd, name);

	return r < 0 && errno == EBADF ? removexattr(proc_fd(path, fd), name) : r;
}

int sys_removexattr(int fd, const char *name)
{
	return (int)COUNTED(removexattr_fd(fd, name));
}

/* Since 6.13; the C library does not know it yet. */
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif

int sys_removexattr_at(int dirfd, const char *entry, const char *name)
{
	return (int)COUNTED(syscall(SYS_removexattrat, dirfd, entry, AT_SYMLINK_NOFOLLOW, name));
}

int sys_fsync(int fd)
{
	return (int)COUNTED(fsync(fd));
}

int sys_syncfs(int fd)
{
	return (int)COUNTED(syncfs(fd));
}

int sys_clone_file(int to_fd, int from_fd)
{
	return (int)COUNTED(ioctl(to_fd, FICLONE, from_fd));
}

ssize_t sys_copy_range(int from_fd, off_t *from, int to_fd, off_t *to, size_t size)
{
	return COUNTED(copy_file_range(from_fd, from, to_fd, to, size, 0));
}

ssize_t sys_sendfile(int to_fd, int from_fd, off_t *from, size_t size)
{
	return COUNTED(sendfile(to_fd, from_fd, from, size));
}

static bool put_name(char *to, size_t size, const char *name)
{
	size_t length = strlen(name);

	if (length >= size)
		return false;
	memcpy(to, name, length + 1);
	return true;
}

int sys_snapshot(int from_fd, int dirfd, const char *name, bool read_only)
{
	struct btrfs_ioctl_vol_args_v2 args = { .fd = from_fd, .flags = read_only ? BTRFS_SUBVOL_RDONLY : 0 };

	if (!put_name(args.name, sizeof args.name, name))
		return -ENAMETOOLONG;
	return (int)COUNTED(ioctl(dirfd, BTRFS_IOC_SNAP_CREATE_V2, &args));
}

int sys_subvolume_destroy(int dirfd, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	if (!put_name(args.name, sizeof args.name, name))
		return -ENAMETOOLONG;
	return (int)COUNTED(ioctl(dirfd, BTRFS_IOC_SNAP_DESTROY, &args));
}

int sys_subvolume_thaw(int fd)
{
	uint64_t flags;

	if (ioctl(fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0)
		return -errno;
	if (!(flags & BTRFS_SUBVOL_RDONLY))
		return 0;
	flags &= ~(uint64_t)BTRFS_SUBVOL_RDONLY;
	return (int)COUNTED(ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags));
}

int sys_btrfs_sync(int fd)
{
	return (int)COUNTED(ioctl(fd, BTRFS_IOC_SYNC));
}

int sys_set_flags(int fd, int flags)
{
	return (int)COUNTED(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

int sys_set_project(int fd, const struct fsxattr *x)
{
	return (int)COUNTED(ioctl(fd, FS_IOC_FSSETXATTR, x));
}

/* Not in every header: Linux 6.17. The numbers are the same on every machine. */
#define FILE_GETATTR 468
#define FILE_SETATTR 469
struct file_attributes {
	uint64_t xflags;
	uint32_t extent_size, n_extents, project, cow_extent_size;
};

int sys_set_link_project(int fd, uint32_t id)
{
	struct file_attributes a = { 0 };
	char path[PROC_FD_SIZE];

	if (syscall(FILE_GETATTR, AT_FDCWD, proc_fd(path, fd), &a, sizeof(a), 0) < 0)
		return -errno;
	if (a.project == id)
		return 0;
	a.project = id;
	return (int)COUNTED(syscall(FILE_SETATTR, AT_FDCWD, path, &a, sizeof(a), 0));
}

int sys_lease(int fd, int type)
{
	return (int)COUNTED(fcntl(fd, F_SETLEASE, type));
}

int sys_flock(int fd, int how)
{
	return (int)COUNTED(flock(fd, how));
}

#ifndef ATOLL_FAULTS

void sys_fault_mark(const char *name)
{
	(void)name;
}

void sys_fault_child(void)
{
}

void sys_fault_hook_sqlite(struct sqlite3_vfs *vfs)
{
	(void)vfs;
}

bool sys_faults_built_in(void)
{
	return false;
}

#endif
