/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a view. A read-only mount keeps no command from connecting to a socket of the host or
 * from opening a FIFO of the host. In an overlay, sockets and FIFOs are other inodes, with no
 * daemon behind them. So a view shows the host's filesystems only through read-only overlays, and
 * as single plain files. This also holds for entries that the host makes while the command runs.
 *
 * Root's view is one overlay of the root filesystem, with one more overlay for each filesystem that
 * is mounted on it.
 *
 * In a user namespace the kernel lets no process see the files under a mount of the host, so it
 * makes no overlay of a directory below which the host has mounted a filesystem. The view has a
 * mirror of each such directory (mirror.c), the root among them.
 *
 * The view shows some filesystems directly, because they cannot be layers of an overlay or may
 * never answer: the kernel's own (/sys, and /proc where Atoll can make no new one), network
 * filesystems and FUSE.
 *
 * When the host replaces a file, the kernel detaches the mounts over that file. It does not detach
 * mounts over files of an overlay or of a mirror, so a hidden file stays hidden.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "jail/shield.h"

#define MOUNTINFO_MAX (16 << 20)

/* Entries of the root over which the view has private mounts. */
static const char *const covered[] = { "dev", "run", "tmp" };

/* Filesystems of which the view makes overlays. Others may be remote and never answer. */
static const char *const local[] = { "bcachefs", "btrfs",   "ext2",  "ext3",  "ext4", "f2fs",
				     "jfs",      "overlay", "ramfs", "tmpfs", "xfs",  "zfs" };

/* ---- the caller: what the host has mounted ---- */

static bool is_local(const char *line, const char *end)
{
	const char *type = memmem(line, (size_t)(end - line), " - ", 3);

	for (size_t i = 0; type && i < ARRAY_SIZE(local); i++) {
		size_t n = strlen(local[i]);

		if (strncmp(type + 3, local[i], n) == 0 && type[3 + n] == ' ')
			return true;
	}
	return false;
}

/* Decodes the fifth word of the line in place, since decoding makes it no longer. */
static char *cut_path(char *line, const char *end)
{
	const char *word = line;
	char *out = line;

	for (int i = 0; i < 4 && word; i++) {
		word = memchr(word, ' ', (size_t)(end - word));
		word = word ? word + 1 : NULL;
	}
	while (word && word < end && *word != ' ')
		*out++ = mount_decode(&word);
	*out = '\0';
	return line;
}

static int compare(const void *a, const void *b)
{
	const struct host_mount *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	return r ? r : (x->order > y->order) - (x->order < y->order);
}

/* Sorts outer mounts before inner ones, and keeps only the last mount of each path. */
static void sort(struct shield *s)
{
	size_t n = 0;

	qsort(s->mounts, s->n, sizeof(*s->mounts), compare);
	for (size_t i = 0; i < s->n; i++)
		if (i + 1 == s->n || strcmp(s->mounts[i].path, s->mounts[i + 1].path) != 0)
			s->mounts[n++] = s->mounts[i];
	s->n = n;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void read_mounts(struct shield *s)
{
	char *end;

	for (char *line = s->text; (end = strchr(line, '\n')); line = end + 1) {
		struct host_mount m = { .order = s->n, .is_local = is_local(line, end) };

		m.path = cut_path(line, end);
		s->mounts[s->n++] = m;
	}
	sort(s);
}

int shield_new(struct shield **ret)
{
	struct shield *s = calloc(1, sizeof(*s));
	int r = s ? fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &s->text, NULL) : -ENOMEM;

	if (r == 0)
		s->mounts = calloc(count_lines(s->text) + 1, sizeof(*s->mounts));
	if (r < 0 || !s->mounts) {
		shield_free(s);
		return r < 0 ? r : -ENOMEM;
	}
	read_mounts(s);
	*ret = s;
	return 0;
}

void shield_free(struct shield *s)
{
	if (s) {
		free(s->text);
		free(s->mounts);
	}
	free(s);
}

/* ---- paths ---- */

bool shield_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/' && path[n + 1] != '\0';
}

static bool is_top(const char *path, const char *name)
{
	size_t n = strlen(name);

	return path[0] == '/' && strncmp(path + 1, name, n) == 0 && (path[1 + n] == '/' || path[1 + n] == '\0');
}

bool shield_is_covered(const struct shield_work *s, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(covered); i++)
		if (is_top(path, covered[i]))
			return true;
	return s->new_proc && is_top(path, "proc");
}

bool shield_is_kernels(const char *path)
{
	return is_top(path, "sys") || is_top(path, "proc");
}

/* ---- single mounts, not attached yet ---- */

static int make_overlay(const struct shield_work *s, int node)
{
	return mount_overlay(&s->view->style, (int[]){ node, s->empty }, 2, -EBADF, -EBADF, NULL);
}

int shield_bind(int dir, const char *name, unsigned recursive)
{
	const unsigned flags = AT_SYMLINK_NOFOLLOW | recursive | (*name ? 0 : AT_EMPTY_PATH);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	AUTO_FD fd = open_tree(dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int shield_cover(const struct shield_work *s, int node, unsigned recursive)
{
	int fd = make_overlay(s, node);

	return fd < 0 ? shield_bind(node, "", recursive) : fd;
}

int shield_look_at(int dir, const char *name, struct statx *ret)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC | (*name ? 0 : AT_EMPTY_PATH);

	return statx(dir, name, flags, STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID, ret) < 0 ? -errno
													       : 0;
}

/* ---- the host's mounts, attached to a tree of the view ---- */

static int open_beneath(int tree, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_IN_ROOT };

	return (int)syscall(SYS_openat2, tree, path, &how, sizeof(how));
}

static int make_mount(const struct shield_work *s, const struct host_mount *m, int node, const struct statx *st)
{
	if (shield_is_kernels(m->path))
		return shield_bind(node, "", AT_RECURSIVE);
	if (S_ISDIR(st->stx_mode))
		return m->is_local ? shield_cover(s, node, 0) : shield_bind(node, "", 0);
	return S_ISREG(st->stx_mode) ? shield_bind(node, "", 0) : -EBADF;
}

int shield_add_mount(const struct shield_work *s, int tree, const struct host_mount *m, size_t skip)
{
	AUTO_FD node = mount_open_path(m->path, MOUNT_MAKE_NOTHING);
	AUTO_FD target = node < 0 ? -EBADF : open_beneath(tree, m->path + skip);
	AUTO_FD fd = -EBADF;
	struct statx st;

	if (target < 0 || shield_look_at(node, "", &st) < 0 || !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return 0;
	fd = make_mount(s, m, node, &st);
	if (fd < 0)
		return fd == -EBADF ? 0 : fd;
	return mount_attach(fd, target);
}

static int add_mounts(const struct shield_work *s, int tree)
{
	const struct shield *shield = s->view->shield;
	int r = 0;

	for (size_t i = 0; i < shield->n && r == 0; i++) {
		const char *path = shield->mounts[i].path;

		/* The mounts below /sys came with the recursive mount of /sys. */
		if (path[1] != '\0' && !shield_is_covered(s, path) &&
		    !(shield_is_kernels(path) && strchr(path + 1, '/')))
			r = shield_add_mount(s, tree, &shield->mounts[i], 0);
	}
	return r;
}

/* ---- the root ---- */

static int make_mirror(int stage)
{
	return mkdirat(stage, "root", 0755) < 0 ? -errno : mount_bind_at(stage, "root", 0);
}

static int open_empty(int stage)
{
	int fd = mkdirat(stage, "d", 0755) < 0 ? -1 : openat(stage, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int shield_root(const struct view *v, bool *ret_mirror)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD empty = root < 0 ? -errno : open_empty(v->stage);
	int fd = empty;

	/* In a user namespace the kernel would refuse this overlay. */
	if (empty >= 0)
		fd = v->root ? make_overlay(&(struct shield_work){ .view = v, .empty = empty }, root) : -EINVAL;
	*ret_mirror = empty >= 0 && fd < 0;
	return *ret_mirror ? make_mirror(v->stage) : fd;
}

static int fill(struct shield_work *s, int stage, int tree)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	s->empty = openat(stage, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->empty < 0)
		s->empty = open_empty(stage);
	if (s->empty < 0)
		return s->empty;
	return s->view->mirror ? mirror_fill(s, root, tree, 0) : add_mounts(s, tree);
}

int shield_fill(const struct view *v, bool new_proc)
{
	struct shield_work s = { .view = v, .new_proc = new_proc, .empty = -EBADF };
	int stage = v->stage < 0 ? mount_stage(&v->style) : v->stage;
	int r = stage < 0 ? stage : fill(&s, stage, v->root_fd);

	fd_close(s.empty);
	if (v->stage < 0)
		(void)mount_unstage(&v->style, stage);
	return r;
}
