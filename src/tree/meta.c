/* SPDX-License-Identifier: Apache-2.0 */
/* Mode, owner and times of an entry, and the overlay's private attributes. The list of all the others is in xattr.c. */
#include <assert.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* trusted.* belongs to root of the first user namespace alone: everybody else mounts overlays with "userxattr". */
enum tree_marks tree_overlay_marks(void)
{
	const ino_t first_userns = 0xEFFFFFFDU; /* PROC_USER_INIT_INO, <linux/proc_ns.h> */
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct stat st;

	if (geteuid() != 0 || syscall(SYS_capget, &header, data) < 0 || !(data[0].effective & (1U << CAP_SYS_ADMIN)))
		return TREE_MARKS_USER;
	return stat("/proc/self/ns/user", &st) == 0 && st.st_ino == first_userns ? TREE_MARKS_TRUSTED : TREE_MARKS_USER;
}

static const char *prefix_of(enum tree_marks marks)
{
	return marks == TREE_MARKS_TRUSTED ? "trusted.overlay." : "user.overlay.";
}

bool tree_is_mark(const char *name, enum tree_marks marks)
{
	return marks != TREE_MARKS_NONE && strncmp(name, prefix_of(marks), strlen(prefix_of(marks))) == 0;
}

#define MARK_SIZE 40
static void mark_name(char buffer[MARK_SIZE], enum tree_marks marks, const char *mark)
{
	int n = snprintf(buffer, MARK_SIZE, "%s%s", prefix_of(marks), mark);

	assert(n < MARK_SIZE);
}

int tree_mark_set(int fd, enum tree_marks marks, const char *mark, const void *value, size_t size)
{
	char name[MARK_SIZE];

	if (marks == TREE_MARKS_NONE)
		return -ENOTSUP;
	mark_name(name, marks, mark);
	return sys_setxattr(fd, name, value, size);
}

ssize_t tree_mark_get(int fd, enum tree_marks marks, const char *mark, void *value, size_t size)
{
	char name[MARK_SIZE];
	ssize_t n;

	if (marks == TREE_MARKS_NONE)
		return -ENODATA;
	mark_name(name, marks, mark);
	n = fgetxattr(fd, name, value, size);
	return n < 0 ? -errno : n;
}

/* Takes the private ones of a list away, by whichever way the entry is reached; returns how many. */
static int strip_listed(int dirfd, const char *name, const char *list, ssize_t size, enum tree_marks marks)
{
	int n = 0;

	for (const char *at = list; at < list + size; at += strlen(at) + 1) {
		int r;

		if (!tree_is_mark(at, marks))
			continue;
		r = *name ? sys_removexattr_at(dirfd, name, at) : sys_removexattr(dirfd, at);
		if (r < 0 && r != -ENODATA)
			return r;
		n++;
	}
	return n;
}

int tree_strip_overlay(int dirfd, const char *name, enum tree_marks marks)
{
	char few[TREE_XATTR_NAMES];
	ssize_t size = tree_xattr_names_at(dirfd, name, few, sizeof(few));
	AUTO_FREE char *list = NULL;
	AUTO_FD fd = -EBADF;

	if (size != -ENOSYS)
		return size < 0 ? (int)size : strip_listed(dirfd, name, few, size, marks);
	if (!*name) {
		/* Nearly always these few. */
		size = flistxattr(dirfd, few, sizeof(few));
		if (size >= 0)
			return strip_listed(dirfd, "", few, size, marks);
	}
	fd = tree_open_node(dirfd, name);
	if (fd < 0)
		return TAKE_FD(fd);
	size = tree_xattr_names(fd, &list);
	return size < 0 ? (int)size : strip_listed(fd, "", list, size, marks);
}

int tree_is_opaque(int fd, enum tree_marks marks)
{
	AUTO_FREE char *value = NULL;
	char name[MARK_SIZE];
	ssize_t size;

	if (marks == TREE_MARKS_NONE)
		return 0;
	mark_name(name, marks, "opaque");
	size = tree_xattr_get(fd, name, &value);
	if (size == -ENODATA || size == -ENOTSUP || size == -EPERM)
		return 0;
	return size < 0 ? (int)size : size == 1 && value[0] == 'y';
}
