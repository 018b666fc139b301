/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mirror is a directory of the view's own tmpfs that stands for a directory of the host of which
 * the kernel makes no overlay (shield.c). It has an entry for each entry of the host's directory.
 * Child side.
 *
 *	directory		an overlay of it, or a mirror again if something is mounted below it
 *	plain file		a mount of it
 *	link			a copy
 *	socket, FIFO		a new node, with no process at the other end
 *	device			nothing: the view does not open devices
 *
 * Atoll fills a mirror once: the view does not show entries that the host makes there later.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "jail/shield.h"

#define DEPTH_MAX 32
#define FILES_MAX 4096 /* plain files in all mirrors of a view: each is a mount */

static bool has_mounts_below(const struct shield_work *s)
{
	const struct shield *shield = s->view->shield;

	for (size_t i = 0; i < shield->n; i++)
		if (shield_is_below(shield->mounts[i].path, s->path))
			return true;
	return false;
}

static bool is_foreign(const struct shield_work *s)
{
	const struct shield *shield = s->view->shield;

	for (size_t i = 0; i < shield->n; i++)
		if (strcmp(shield->mounts[i].path, s->path) == 0)
			return !shield->mounts[i].is_local;
	return false;
}

static int attach_at(int fd, int dir, const char *name)
{
	return fd < 0 ? fd : move_mount(fd, "", dir, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* Whether the user may access the entry. Trusts the mode's bits for others, although an access list
 * may still refuse: the view shows an empty directory in either case. */
static bool may(int dir, const char *name, const struct statx *st, int what)
{
	const unsigned for_all = what == R_OK ? S_IROTH : S_IXOTH;

	return st->stx_mode & for_all || faccessat(dir, name, what, AT_EACCESS) == 0 || errno != EACCES;
}

static int mirror_link(int from, int to, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return 0; /* gone */
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static bool is_gone(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* A file that the user may not read is an empty file in the mirror. */
static int mirror_file(struct shield_work *s, int from, int to, const char *name, const struct statx *st)
{
	AUTO_FD fd = -EBADF;
	struct statx now;
	int r;

	if (mknodat(to, name, S_IFREG, 0) < 0)
		return -errno;
	if (s->files >= FILES_MAX || !may(from, name, st, R_OK))
		return 0;
	s->files++;
	fd = shield_bind(from, name, 0);
	r = fd < 0 ? fd : shield_look_at(fd, "", &now);
	/* The host may have replaced the file meanwhile. */
	if (r == 0 && S_ISREG(now.stx_mode))
		r = attach_at(fd, to, name);
	return r < 0 && is_gone(from, name) ? 0 : r;
}

/* On most filesystems a directory's link count is the number of directories in it plus two. */
static bool is_empty(int dir, const struct statx *st)
{
	AUTO_FD fd = st->stx_nlink > 2 ? -EBADF : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buffer[512];
	long n = fd < 0 ? LONG_MAX : syscall(SYS_getdents64, fd, buffer, sizeof(buffer));

	return n == 2 * 24; /* "." and ".." */
}

/* Shows a filesystem that cannot be a layer of an overlay as it is, but local filesystems mounted
 * below it through overlays. */
static int mirror_foreign(struct shield_work *s, int node, int to, const char *name)
{
	const struct shield *shield = s->view->shield;
	AUTO_FD fd = shield_bind(node, "", AT_RECURSIVE);
	AUTO_FD tree = -EBADF;
	int r = attach_at(fd, to, name);

	for (size_t i = 0; i < shield->n && r == 0; i++) {
		if (!shield->mounts[i].is_local || !shield_is_below(shield->mounts[i].path, s->path))
			continue;
		if (tree < 0)
			tree = openat(to, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = shield_add_mount(s, tree, &shield->mounts[i], strlen(s->path));
	}
	return r;
}

/* Gives an empty directory of the mirror the content of the host's directory. */
static int mirror_content(struct shield_work *s, int node, const struct statx *st, int to, const char *name,
			  unsigned depth)
{
	AUTO_FD inner = -EBADF;

	if (shield_is_kernels(s->path)) {
		AUTO_FD fd = shield_bind(node, "", AT_RECURSIVE);

		return attach_at(fd, to, name);
	}
	if (is_foreign(s))
		return mirror_foreign(s, node, to, name);
	if (has_mounts_below(s)) {
		inner = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return inner < 0 ? -errno : depth < DEPTH_MAX ? mirror_fill(s, node, inner, depth + 1) : 0;
	}
	if (is_empty(node, st))
		return 0;
	inner = shield_cover(s, node, AT_RECURSIVE);
	return attach_at(inner, to, name);
}

/* A directory that the user may not enter is an empty directory in the mirror. */
static int mirror_directory(struct shield_work *s, int from, int to, const char *name, const struct statx *st,
			    unsigned depth)
{
	bool closed = !is_foreign(s) && !may(from, name, st, X_OK);
	AUTO_FD node = -EBADF;
	int r;

	if (mkdirat(to, name, closed ? 0 : st->stx_mode & 07777) < 0)
		return -errno;
	/* A user namespace cannot set owners that it does not map. */
	if (s->view->root)
		(void)!fchownat(to, name, st->stx_uid, st->stx_gid, AT_SYMLINK_NOFOLLOW);
	if (closed || shield_is_covered(s, s->path))
		return 0;
	node = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = node < 0 ? -errno : mirror_content(s, node, st, to, name, depth);
	return r < 0 && is_gone(from, name) ? 0 : r;
}

static int mirror_node(struct shield_work *s, int from, int to, const char *name, unsigned depth)
{
	struct statx st;
	int r = shield_look_at(from, name, &st);

	if (r < 0)
		return r == -ENOENT || mkdirat(to, name, 0) == 0 ? 0 : -errno;
	switch (st.stx_mode & S_IFMT) {
	case S_IFDIR:
		return mirror_directory(s, from, to, name, &st, depth);
	case S_IFREG:
		return mirror_file(s, from, to, name, &st);
	case S_IFLNK:
		return mirror_link(from, to, name);
	case S_IFSOCK:
	case S_IFIFO:
		return mknodat(to, name, st.stx_mode, 0) < 0 ? -errno : 0;
	default:
		return 0; /* a device: the view would not open it */
	}
}

static int mirror_entry(struct shield_work *s, int from, int to, const char *name, unsigned depth)
{
	size_t length = strlen(s->path), more = strlen(name);
	int r;

	if (length + more + 2 > sizeof(s->path))
		return 0;
	s->path[length] = '/';
	memcpy(s->path + length + 1, name, more + 1);
	r = mirror_node(s, from, to, name, depth);
	s->path[length] = '\0';
	return r == -EEXIST ? 0 : r; /* a directory that changes meanwhile may list an entry twice */
}

/* Mirrors the entry of the current directory through which the path leads. */
static int mirror_known(struct shield_work *s, int from, int to, const char *path, unsigned depth)
{
	char name[NAME_MAX + 1];
	size_t at = strlen(s->path) + 1, n;

	if (!shield_is_below(path, s->path))
		return 0;
	n = strcspn(path + at, "/");
	if (n >= sizeof(name))
		return 0;
	memcpy(name, path + at, n);
	name[n] = '\0';
	return is_gone(to, name) ? mirror_entry(s, from, to, name, depth) : 0;
}

/* A directory that the user may enter but not list has only the entries that lead to a mount. */
static int mirror_unlisted(struct shield_work *s, int from, int to, unsigned depth)
{
	const struct view *v = s->view;
	int r = 0;

	for (size_t i = 0; i < v->shield->n && r == 0; i++)
		r = mirror_known(s, from, to, v->shield->mounts[i].path, depth);
	for (size_t i = 0; i < v->n_mounts && r == 0; i++)
		r = mirror_known(s, from, to, v->mounts[i].path, depth);
	return r;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

int mirror_fill(struct shield_work *s, int from, int to, unsigned depth)
{
	_Alignas(struct dirent) char buffer[4096];
	AUTO_FD list = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;
	long n;

	if (list < 0)
		return mirror_unlisted(s, from, to, depth);
	while (r == 0 && (n = syscall(SYS_getdents64, list, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n && r == 0;) {
			const struct dirent *e = (const void *)(buffer + at);

			r = is_dot(e->d_name) ? 0 : mirror_entry(s, from, to, e->d_name, depth);
			at += e->d_reclen;
		}
	}
	return r;
}
