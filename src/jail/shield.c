/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the host that lie in its filesystem. A read-only mount does not keep anybody from connecting to them, but a socket seen
 * through an overlay is not the one that somebody listens at: whatever the host can put sockets into is seen through a read-only
 * overlay. All but shield_new() is child side.
 *
 * An overlay shows nothing of what is mounted below its directory. Where the host has mounted something, each directory on the way to
 * it gets its overlays one by one, and the sockets that lie beside them are covered.
 *
 * The host detaches a mount over one of its files when it replaces that file. A file of an overlay
 * stays as it is when the host replaces the file below: the shield therefore also covers
 * directories that contain a hidden path.
 *
 * To end an overlay the kernel waits for all processors. Root's directories are therefore parts of one, of the whole root filesystem; a
 * user namespace may not see a directory without what is mounted below it, and needs one for each.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "jail/private.h"

#define DEPTH_MAX 32
#define MOUNTINFO_MAX (16 << 20)

/* Of the root. Programs and settings, in which no service makes sockets, stay as they are: they are what is read most. The
 * others are private anyway, or hold no sockets. */
static const char *const untouched[] = { "bin",  "boot", "dev", "etc",  "gnu", "lib", "lib32", "lib64", "libx32",
					 "proc", "run",  "nix", "sbin", "sys", "tmp", "usr",   "snap" };

/* What somebody may keep sockets in. Others are left alone: they may be far away, and never answer. */
static const char *const local[] = { "bcachefs", "btrfs",   "ext2",  "ext3",  "ext4", "f2fs",
				     "jfs",      "overlay", "ramfs", "tmpfs", "xfs",  "zfs" };
#define LOCAL 'l'
#define FOREIGN 'f'

struct shield {
	/* Where the host has mounted something: of each the letter of what it is and the path, ended by NUL; an empty one at the end. */
	char *mounts;
	bool hides[ARRAY_SIZE(untouched)]; /* of each `untouched`: has a hidden path */
};

struct work {
	const struct shield *shield;
	const struct mount_style *style;
	int empty; /* an empty directory: an overlay without upper layer wants a second lower */
	int stage;
	int whole;           /* an overlay of the whole filesystem that the root is on, or -EBADF */
	uint64_t mount_id;   /* of the root */
	char path[PATH_MAX]; /* of the directory that is being looked at, "" for the root */
};

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

/* The fifth word of each line, in place: what is written is never longer than what was read. */
static void keep_mount_points(char *text)
{
	char *out = text;

	for (const char *line = text; *line;) {
		const char *word = line, *end = strchrnul(line, '\n');
		char kind = is_local(line, end) ? LOCAL : FOREIGN;

		for (int i = 0; i < 4 && word; i++) {
			word = strchr(word, ' ');
			word = word ? word + 1 : NULL;
		}
		*out++ = kind;
		while (word && word < end && *word != ' ')
			*out++ = mount_decode(&word);
		*out++ = '\0';
		line = *end ? end + 1 : end;
	}
	*out = '\0';
}

int shield_new(struct shield **ret)
{
	struct shield *s = calloc(1, sizeof(*s));
	int r = s ? fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &s->mounts, NULL) : -ENOMEM;

	if (r < 0) {
		free(s);
		return r;
	}
	keep_mount_points(s->mounts);
	*ret = s;
	return 0;
}

void shield_free(struct shield *s)
{
	if (s)
		free(s->mounts);
	free(s);
}

static bool has_mounts_below(const struct shield *s, const char *path)
{
	size_t n = strlen(path);

	for (const char *p = s->mounts; *p; p += strlen(p) + 1) {
		if (strncmp(p + 1, path, n) == 0 && p[1 + n] == '/')
			return true;
	}
	return false;
}

static bool is_foreign(const struct shield *s, const char *path)
{
	for (const char *p = s->mounts; *p; p += strlen(p) + 1) {
		if (*p == FOREIGN && strcmp(p + 1, path) == 0)
			return true;
	}
	return false;
}

/* Returns the index of the top directory that contains the path, or the size of the array if none
 * does. */
static size_t find_untouched(const char *path)
{
	size_t i = 0, n = strcspn(path, "/");

	while (i < ARRAY_SIZE(untouched) && (strncmp(path, untouched[i], n) != 0 || untouched[i][n] != '\0'))
		i++;
	return i;
}

/* The host cannot replace files that the kernel makes, nor files of private directories. */
static bool is_private(const char *name)
{
	static const char *const private[] = { "dev", "proc", "run", "sys", "tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(private); i++) {
		if (strcmp(name, private[i]) == 0)
			return true;
	}
	return false;
}

void shield_hide(struct shield *s, const char *path)
{
	size_t i = find_untouched(path + 1);

	if (i < ARRAY_SIZE(untouched) && !is_private(untouched[i]))
		s->hides[i] = true;
}

static bool is_untouched(const struct shield *s, const char *name)
{
	size_t i = find_untouched(name);

	return i < ARRAY_SIZE(untouched) && !s->hides[i];
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* What went away meanwhile, as other people's directories do, needs no cover. */
static int put_over(int fd, int target)
{
	int r = mount_attach(fd, target);

	return r == -ENOENT ? 0 : r;
}

static int cover_socket(struct work *s, int dir, const char *name)
{
	AUTO_FD target = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD file = target < 0 ? -EBADF : openat(s->stage, "empty", O_CREAT | O_RDONLY | O_CLOEXEC, 0);
	AUTO_FD fd = file < 0 ? -EBADF : mount_bind(file);

	if (target < 0)
		return 0; /* gone */
	return fd < 0 ? (file < 0 ? -errno : fd) : put_over(fd, target);
}

static int cover_tree(struct work *s, int dir, const char *name, unsigned depth);

static int cover_entry(struct work *s, int dir, const struct dirent *e, unsigned depth)
{
	unsigned char type = e->d_type;
	struct stat st;

	if (is_dot(e->d_name) || (depth == 0 && is_untouched(s->shield, e->d_name)))
		return 0;
	if (type == DT_UNKNOWN && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	if (type == DT_SOCK)
		return cover_socket(s, dir, e->d_name);
	return type == DT_DIR ? cover_tree(s, dir, e->d_name, depth + 1) : 0;
}

static int cover_entries(struct work *s, int dir, unsigned depth)
{
	_Alignas(struct dirent) char buffer[4096];
	int r = 0;
	long n;

	while (r == 0 && (n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n && r == 0;) {
			const struct dirent *e = (const void *)(buffer + at);

			r = cover_entry(s, dir, e, depth);
			at += e->d_reclen;
		}
	}
	return r;
}

static bool is_empty(int dir)
{
	char buffer[512];
	long n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer));

	(void)lseek(dir, 0, SEEK_SET);
	return n <= 0 || n == 2 * 24; /* "." and ".." */
}

static int make_overlay(const struct work *s, int node)
{
	return mount_overlay(s->style, (int[]){ node, s->empty }, 2, -EBADF, -EBADF, NULL);
}

static uint64_t mount_id(int fd)
{
	struct statx stx;

	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) == 0 && stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id
												    : 0;
}

/* What is seen in place of a directory below which nothing is mounted. */
static int make_cover(const struct work *s, int node)
{
	int fd = -EBADF;

	if (s->whole >= 0 && mount_id(node) == s->mount_id)
		fd = mount_bind_at(s->whole, s->path + 1, MOUNT_ATTR_RDONLY);
	return fd < 0 ? make_overlay(s, node) : fd;
}

static int cover_path(struct work *s, int dir, const char *name, unsigned depth)
{
	AUTO_FD node = -EBADF;
	AUTO_FD fd = -EBADF;
	bool listed;

	if (is_foreign(s->shield, s->path))
		return 0;
	node = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	listed = node >= 0;
	/* What cannot be listed may be passed all the same. */
	if (!listed && errno == EACCES)
		node = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (node < 0 || (listed && is_empty(node)))
		return 0;
	if (!has_mounts_below(s->shield, s->path)) {
		fd = make_cover(s, node);
		if (fd >= 0)
			return put_over(fd, node);
	}
	return listed && depth < DEPTH_MAX ? cover_entries(s, node, depth) : 0;
}

static int cover_tree(struct work *s, int dir, const char *name, unsigned depth)
{
	size_t length = strlen(s->path), more = strlen(name);
	int r;

	if (length + more + 2 > sizeof(s->path))
		return 0;
	s->path[length] = '/';
	memcpy(s->path + length + 1, name, more + 1);
	r = cover_path(s, dir, name, depth);
	s->path[length] = '\0';
	return r;
}

static int cover_root(struct work *s)
{
	AUTO_FD root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (mkdirat(s->stage, "d", 0755) < 0)
		return -errno;
	s->empty = openat(s->stage, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || s->empty < 0)
		return -errno;
	/* Parts of a mount that is attached nowhere cannot be had where it cannot be a layer either. */
	if (s->style->detached && !s->style->user_xattrs)
		s->whole = make_overlay(s, root);
	s->mount_id = mount_id(root);
	return cover_entries(s, root, 0);
}

int shield_raise(const struct shield *shield, const struct mount_style *style, int stage, int *ret_whole)
{
	struct work s = { .shield = shield, .style = style, .empty = -EBADF, .stage = stage, .whole = -EBADF };
	int r;

	if (stage < 0)
		s.stage = mount_stage(style);
	r = s.stage < 0 ? s.stage : cover_root(&s);
	fd_close(s.empty);
	if (stage < 0)
		(void)mount_unstage(style, s.stage);
	*ret_whole = s.whole;
	return r;
}
