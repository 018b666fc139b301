/* SPDX-License-Identifier: Apache-2.0 */
/* What an inode is (a lasting identity) and what it looks like (one statx). */
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tree/private.h"

/* The first byte of an identity says what the rest is. */
enum id_kind {
	ID_HANDLE = 1, /* type of the file handle, then its bytes */
	ID_BIRTH = 2,  /* inode number, then birth time */
};

static struct timespec time_of(struct statx_timestamp t)
{
	return (struct timespec){ .tv_sec = (time_t)t.tv_sec, .tv_nsec = t.tv_nsec };
}

static int64_t statx_ns(struct statx_timestamp t)
{
	return clock_ns(time_of(t));
}

int tree_stat(int dirfd, const char *name, struct tree_stat *ret)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
	struct statx x;

	if (statx(dirfd, name, flags, STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, &x) < 0)
		return -errno;
	*ret = (struct tree_stat){
		.mode = x.stx_mode,
		.uid = x.stx_uid,
		.gid = x.stx_gid,
		.size = x.stx_size,
		.blocks = x.stx_blocks,
		.ino = x.stx_ino,
		.dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.mnt_id = (x.stx_mask & STATX_MNT_ID) ? x.stx_mnt_id : 0,
		.nlink = x.stx_nlink,
		.rdev_major = x.stx_rdev_major,
		.rdev_minor = x.stx_rdev_minor,
		.atime = statx_ns(x.stx_atime),
		.mtime = statx_ns(x.stx_mtime),
		.ctime = statx_ns(x.stx_ctime),
		.btime = (x.stx_mask & STATX_BTIME) ? statx_ns(x.stx_btime) : 0,
		.atime_era = clock_era(time_of(x.stx_atime)),
		.mtime_era = clock_era(time_of(x.stx_mtime)),
		.is_mount_root = x.stx_attributes & STATX_ATTR_MOUNT_ROOT,
		.is_nodump = x.stx_attributes & STATX_ATTR_NODUMP,
		.is_immutable = x.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND),
	};
	return 0;
}

bool tree_id_equal(const struct tree_id *a, const struct tree_id *b)
{
	return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static void id_add(struct tree_id *id, const void *data, size_t size)
{
	memcpy(id->data + id->size, data, size);
	id->size = (uint8_t)(id->size + size);
}

static void id_from_birth(const struct tree_stat *st, struct tree_id *ret)
{
	const unsigned char kind = ID_BIRTH;

	*ret = (struct tree_id){ 0 };
	id_add(ret, &kind, 1);
	id_add(ret, &st->ino, sizeof(st->ino));
	id_add(ret, &st->btime, sizeof(st->btime));
}

/* The filesystem has no handles, has none that fit, or a seccomp filter keeps them from us. */
static bool has_no_handle(int error)
{
	return error == EOPNOTSUPP || error == EOVERFLOW || error == ENOSYS || error == EPERM;
}

bool tree_id_is_handle(const struct tree_id *id)
{
	return id->size && id->data[0] == ID_HANDLE;
}

void tree_id_from_handle(int32_t type, const void *handle, size_t size, struct tree_id *ret)
{
	const unsigned char kind = ID_HANDLE;

	*ret = (struct tree_id){ 0 };
	if (size > TREE_ID_MAX - 1 - sizeof(type))
		return;
	id_add(ret, &kind, 1);
	id_add(ret, &type, sizeof(type));
	id_add(ret, handle, size);
}

int tree_identify(int dirfd, const char *name, const struct tree_stat *st, struct tree_id *ret)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + TREE_ID_MAX];
	} u = { 0 };
	int mount_id;

	u.handle.handle_bytes = TREE_ID_MAX - 1 - sizeof(int32_t);
	if (name_to_handle_at(dirfd, name, &u.handle, &mount_id, AT_EMPTY_PATH) < 0) {
		if (!has_no_handle(errno))
			return -errno;
		id_from_birth(st, ret);
		return 0;
	}
	tree_id_from_handle(u.handle.handle_type, u.handle.f_handle, u.handle.handle_bytes, ret);
	return 0;
}

int tree_open_node(int dirfd, const char *name)
{
	int fd;

	if (name[0] == '\0')
		fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	else
		fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int tree_open_file(int dirfd, const char *name, struct tree_stat *ret)
{
	AUTO_FD node = tree_open_node(dirfd, name);
	struct tree_stat st = { 0 };
	int fd, r;

	if (node < 0)
		return TAKE_FD(node);
	r = tree_stat(node, "", &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.mode))
		return -EINVAL;
	fd = fd_reopen(node, O_RDONLY | O_NOATIME);
	if (fd == -EPERM) /* O_NOATIME is for the owner only */
		fd = fd_reopen(node, O_RDONLY);
	if (fd >= 0)
		*ret = st;
	return fd;
}
