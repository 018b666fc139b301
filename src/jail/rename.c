/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames a directory of the original. Overlayfs refuses that (EXDEV) unless it may leave redirects
 * behind. It may not do so in a user namespace, and redirects would make the layer unreadable for
 * any program but overlayfs. Programs other than mv take the refusal as final.
 *
 * The filter (wall-seccomp.c) reports every rename of the command to the caller, which lets the
 * kernel continue with all but those of directories. The caller renames a directory itself, at the
 * path that the command named, with no more rights than the requesting process has (rights.c). It
 * does not act for a process that has another root or a Landlock domain of its own (confined.c),
 * and does not rename a mount point (EBUSY). If the overlay refuses, the mover makes the directory
 * anew within the view (mover.c).
 *
 * This is a convenience, not a wall: the caller reads the strings of the command once and uses what
 * it read, and the kernel judges as usual every rename that the caller lets continue.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"
#include "tree/tree.h"

#define PAGE 4096

/* ---- the caller: what was asked for ---- */

void rename_side_release(struct rename_side *s)
{
	fd_close(s->base);
	fd_close(s->dir);
	free(s->path);
	free(s->way);
}

void rename_request_release(struct rename_request *r)
{
	rename_side_release(&r->from);
	rename_side_release(&r->to);
}

static int read_string(pid_t pid, uint64_t address, char **ret)
{
	AUTO_STRBUF text = STRBUF_INIT;
	char chunk[PAGE];

	while (text.size < 2 * PAGE) {
		size_t size = PAGE - address % PAGE;
		struct iovec here = { chunk, size }, there = { (void *)(uintptr_t)address, size };
		ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
		size_t length;

		if (n <= 0)
			return n < 0 ? -errno : -EFAULT;
		length = strnlen(chunk, (size_t)n);
		strbuf_add(&text, chunk, length);
		if (length < (size_t)n) {
			*ret = strbuf_take(&text);
			if (!*ret)
				*ret = strdup("");
			return *ret ? 0 : -ENOMEM;
		}
		address += (uint64_t)n;
	}
	return -ENAMETOOLONG;
}

#define PROC_PATH_SIZE 48

static void base_path(pid_t pid, int dirfd, bool absolute, char path[PROC_PATH_SIZE])
{
	if (absolute)
		snprintf(path, PROC_PATH_SIZE, "/proc/%d/root", (int)pid);
	else if (dirfd == AT_FDCWD)
		snprintf(path, PROC_PATH_SIZE, "/proc/%d/cwd", (int)pid);
	else
		snprintf(path, PROC_PATH_SIZE, "/proc/%d/fd/%d", (int)pid, dirfd);
}

static int open_base(pid_t pid, int dirfd, bool absolute)
{
	char path[PROC_PATH_SIZE];
	int fd;

	base_path(pid, dirfd, absolute, path);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rename_open_dir(const struct rename_side *s)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = s->resolve };
	int fd = (int)syscall(SYS_openat2, s->base, s->above, &how, sizeof how);

	return fd < 0 ? -errno : fd;
}

/* Splits the path and opens the directory of its last name. Links on the way are followed only where their absolute targets can be found in
 * the command's own root. */
static int open_parent(struct rename_side *s)
{
	bool absolute = s->path[0] == '/';
	size_t size = strlen(s->path);
	char *slash;

	while (size > 1 && s->path[size - 1] == '/')
		s->path[--size] = '\0';
	slash = strrchr(s->path, '/');
	s->name = slash ? slash + 1 : s->path;
	if (!*s->name || strcmp(s->name, ".") == 0 || strcmp(s->name, "..") == 0)
		return -EINVAL;
	if (slash)
		*slash = '\0';
	s->above = slash && *s->path ? s->path : ".";
	s->resolve = RESOLVE_NO_MAGICLINKS | (absolute ? RESOLVE_IN_ROOT : RESOLVE_NO_SYMLINKS);
	s->dir = rename_open_dir(s);
	return MIN(s->dir, 0);
}

static bool is_same_directory(int a, int b)
{
	struct tree_stat x, y;

	return tree_stat(a, "", &x) == 0 && tree_stat(b, "", &y) == 0 && x.dev == y.dev && x.ino == y.ino &&
	       x.mnt_id == y.mnt_id;
}

/* A relative path with a link in it, whose target may be absolute: it is followed from the command's own root, by way of the path that the
 * directory has there. */
static int open_parent_from_root(pid_t pid, int dirfd, struct rename_side *s)
{
	char link[PROC_PATH_SIZE], start[PATH_MAX];
	AUTO_FREE char *path = NULL;
	AUTO_FD root = open_base(pid, AT_FDCWD, true);
	AUTO_FD found = -EBADF;
	struct rename_side from_root = { .base = root,
					 .above = start,
					 .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT };
	ssize_t size;

	base_path(pid, dirfd, false, link);
	size = root < 0 ? -1 : readlink(link, start, sizeof(start));
	if (size <= 0 || size == (ssize_t)sizeof(start))
		return -ELOOP;
	start[size] = '\0';
	found = rename_open_dir(&from_root);
	path = str_format("%s/%s", start, s->above);
	/* It may lie elsewhere by now, or have no path at all. */
	if (found < 0 || !is_same_directory(found, s->base) || !path)
		return -ELOOP;
	from_root.above = path;
	s->dir = rename_open_dir(&from_root);
	if (s->dir < 0)
		return s->dir;
	/* Found again by the same way (rights.c). */
	fd_close(s->base);
	s->base = TAKE_FD(root);
	s->way = TAKE_PTR(path);
	s->above = s->way;
	s->resolve = from_root.resolve;
	return 0;
}

int rename_read_side(pid_t pid, int dirfd, uint64_t address, struct rename_side *ret)
{
	int r = read_string(pid, address, &ret->path);

	if (r < 0 || !ret->path)
		return MIN(r, -EFAULT);
	r = ret->base = open_base(pid, dirfd, ret->path[0] == '/');
	if (r >= 0)
		r = open_parent(ret);
	return r == -ELOOP && ret->resolve & RESOLVE_NO_SYMLINKS ? open_parent_from_root(pid, dirfd, ret) : r;
}

static int read_request(const struct seccomp_notif *n, struct rename_request *ret)
{
	const __u64 *a = n->data.args;
	pid_t pid = (pid_t)n->pid;
	int r;

#ifdef SYS_rename
	if (n->data.nr == SYS_rename) {
		r = rename_read_side(pid, AT_FDCWD, a[0], &ret->from);
		return r < 0 ? r : rename_read_side(pid, AT_FDCWD, a[1], &ret->to);
	}
#endif
	ret->flags = n->data.nr == SYS_renameat2 ? (unsigned)a[4] : 0;
	r = rename_read_side(pid, (int)a[0], a[1], &ret->from);
	return r < 0 ? r : rename_read_side(pid, (int)a[2], a[3], &ret->to);
}

/* ---- the caller: doing it ---- */

static bool is_one_mount(const struct rename_request *q)
{
	struct tree_stat a, b;

	return tree_stat(q->from.dir, "", &a) == 0 && tree_stat(q->to.dir, "", &b) == 0 && a.mnt_id == b.mnt_id;
}

static bool is_directory(const struct rename_side *s)
{
	struct stat st;

	return fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Everywhere else the kernel needs no help. */
static bool is_overlay(const struct rename_request *q)
{
	struct statfs fs;

	return fstatfs(q->from.dir, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Whether a directory is to be renamed, in a way that can be done here. */
static bool names_directory(const struct rename_request *q)
{
	if (!is_overlay(q))
		return false;
	switch (q->flags) {
	case 0:
	case RENAME_NOREPLACE:
		return is_directory(&q->from);
	case RENAME_EXCHANGE:
		return is_directory(&q->from) || is_directory(&q->to);
	default:
		return false;
	}
}

/* The kernel refuses to rename or replace a mount point, but looks only at the mounts of the
 * calling process. If the mount is in another namespace, the kernel detaches it. */
static bool is_mount_point(const struct rename_side *s)
{
	struct tree_stat dir, st;

	return tree_stat(s->dir, s->name, &st) == 0 &&
	       (st.is_mount_root || (tree_stat(s->dir, "", &dir) == 0 && dir.mnt_id != st.mnt_id));
}

#define MOVE INT_MIN

/* 0 or -errno for the command; 1: let the kernel do it; MOVE: the overlay does not rename the
 * directory. */
static int answer(const struct rename_waiting *w, const struct seccomp_notif *n, const struct confined *confined,
		  struct rename_request *q)
{
	int r;

	if (read_request(n, q) < 0 || !names_directory(q) || confined_is(confined, (pid_t)n->pid))
		return 1;
	if (is_mount_point(&q->from) || is_mount_point(&q->to))
		return -EBUSY;
	/* What was read was the command's only if it is still waiting. */
	if (!rename_is_waiting(w))
		return 1;
	/* Where the kernel says EXDEV, everything else was in order. */
	r = rights_rename((pid_t)n->pid, &q->from, &q->to, q->flags);
	return r == -EXDEV && is_one_mount(q) ? MOVE : r;
}

bool rename_is_waiting(const struct rename_waiting *w)
{
	return ioctl(w->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &w->id) == 0 &&
	       (w->end_at == 0 || clock_monotonic_ns() < w->end_at);
}

void rename_reply(const struct rename_waiting *w, int r)
{
	struct seccomp_notif_resp reply = { .id = w->id,
					    .error = MIN(r, 0),
					    .flags = r > 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0 };

	(void)ioctl(w->listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

static bool is_confining(const struct seccomp_notif *n)
{
	return n->data.nr == SYS_landlock_restrict_self;
}

void rename_answer(struct mover *m, int listener, struct confined *confined, int64_t end_at,
		   const struct rename_door *door)
{
	struct seccomp_notif n = { 0 };
	CLEANUP(rename_request_release)
	struct rename_request q = { .from = { .base = -EBADF, .dir = -EBADF },
				    .to = { .base = -EBADF, .dir = -EBADF } };
	struct rename_waiting w = { .listener = listener, .end_at = end_at };
	int r;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return;
	w.id = n.id;
	r = is_confining(&n) ? 1 : refine_answer(&n);
	if (is_confining(&n))
		confined_note(confined, (pid_t)n.pid);
	else if (r == -ENOSYS)
		r = answer(&w, &n, confined, &q);
	if (r == MOVE)
		mover_start(m, &w, &q, door);
	else
		rename_reply(&w, r);
}
