/* SPDX-License-Identifier: Apache-2.0 */
/* Mode, owner and times of an entry, and the overlay's private attributes. The list of all the others is in xattr.c. */
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

#define SET_ID (S_ISUID | S_ISGID)

/* EINVAL: the id does not exist in our user namespace. */
static bool owner_refused(int r)
{
	return r == -EPERM || r == -EINVAL;
}

int tree_set_owner(int fd, const struct tree_stat *now, uid_t uid, gid_t gid, bool *ret_kept)
{
	int r = 0;

	if (now->uid != uid || now->gid != gid)
		r = sys_chown(fd, "", uid, gid);
	*ret_kept = r == 0;
	if (owner_refused(r) && now->gid != gid) /* one's own groups may be given even so */
		r = sys_chown(fd, "", (uid_t)-1, gid);
	return owner_refused(r) ? 0 : r;
}

/* A directory's set-group-id bit hands a group down and gives nobody power: it is an ordinary bit of the mode. */
static mode_t wanted_mode(mode_t mode, bool keep_set_id)
{
	mode &= 07777 | S_IFMT;
	return S_ISDIR(mode) || keep_set_id ? mode & 07777 : mode & 07777 & ~(mode_t)SET_ID;
}

int tree_set_meta(int dirfd, const char *name, const struct tree_stat *st, bool keep_set_id, bool *ret_owner_kept)
{
	const struct timespec times[2] = { tree_atime(st), tree_mtime(st) };
	AUTO_FD fd = tree_open_node(dirfd, name);
	struct tree_stat now;
	bool kept;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	r = tree_stat(fd, "", &now);
	if (r < 0)
		return r;
	if ((now.mode ^ st->mode) & S_IFMT)
		return -EINVAL;
	r = tree_set_owner(fd, &now, st->uid, st->gid, &kept);
	if (r == 0)
		r = tree_stat(fd, "", &now); /* a new owner takes set-id bits away */
	if (r == 0 && !S_ISLNK(now.mode)) {
		mode_t mode = wanted_mode(st->mode, keep_set_id && kept);

		if (mode != (now.mode & 07777))
			r = sys_chmod(fd, mode);
	}
	if (r == 0)
		r = sys_utimens(fd, "", times);
	if (r == 0 && ret_owner_kept)
		*ret_owner_kept = kept;
	return r;
}

int tree_set_nodump(int fd)
{
	AUTO_FD real = fd_reopen(fd, O_RDONLY | O_NONBLOCK);
	int flags, r;

	if (real < 0 || ioctl(real, FS_IOC_GETFLAGS, &flags) < 0 || (flags & FS_NODUMP_FL))
		return 0;
	r = sys_set_flags(real, flags | FS_NODUMP_FL);
	return r == -EOPNOTSUPP || r == -ENOTTY || r == -EPERM ? 0 : r;
}

static bool is_overlay_private(const char *name)
{
	return strncmp(name, "trusted.overlay.", 16) == 0 || strncmp(name, "user.overlay.", 13) == 0;
}

/* Takes the private ones of a list away, by whichever way the entry is reached; returns how many. */
static int strip_listed(int dirfd, const char *name, const char *list, ssize_t size)
{
	int n = 0;

	for (const char *at = list; at < list + size; at += strlen(at) + 1) {
		int r;

		if (!is_overlay_private(at))
			continue;
		r = *name ? sys_removexattr_at(dirfd, name, at) : sys_removexattr(dirfd, at);
		if (r < 0 && r != -ENODATA)
			return r;
		n++;
	}
	return n;
}

int tree_strip_overlay(int dirfd, const char *name)
{
	char few[TREE_XATTR_NAMES];
	ssize_t size = tree_xattr_names_at(dirfd, name, few, sizeof(few));
	AUTO_FREE char *list = NULL;
	AUTO_FD fd = -EBADF;

	if (size != -ENOSYS)
		return size < 0 ? (int)size : strip_listed(dirfd, name, few, size);
	if (!*name) {
		/* Nearly always these few. */
		size = flistxattr(dirfd, few, sizeof(few));
		if (size >= 0)
			return strip_listed(dirfd, "", few, size);
	}
	fd = tree_open_node(dirfd, name);
	if (fd < 0)
		return TAKE_FD(fd);
	size = tree_xattr_names(fd, &list);
	return size < 0 ? (int)size : strip_listed(fd, "", list, size);
}

int tree_is_opaque(int fd)
{
	static const char *const names[] = { "trusted.overlay.opaque", "user.overlay.opaque" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *value = NULL;
		ssize_t size = tree_xattr_get(fd, names[i], &value);

		if (size == -ENODATA || size == -ENOTSUP || size == -EPERM)
			continue;
		if (size < 0)
			return (int)size;
		if (size == 1 && value[0] == 'y')
			return 1;
	}
	return 0;
}
