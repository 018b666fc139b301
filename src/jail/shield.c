/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the host that lie in its filesystem. A read-only mount does not keep anybody from connecting to them, but a socket seen
 * through an overlay is not the one that somebody listens at: whatever the host can put sockets into is seen through a read-only
 * overlay. All of it is child side.
 *
 * No overlay may cover a directory below which the host has mounted something: that would be gone, and in a user namespace the kernel
 * forbids it. There each of its directories gets one, and the sockets that lie in it are covered one by one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "jail/private.h"

#define DEPTH_MAX 16

/* Of the root. Programs and settings, in which no service makes sockets, stay as they are: they are what is read most. The
 * others are private anyway, or hold no sockets. */
static const char *const untouched[] = { "bin",  "boot", "dev", "etc",  "gnu", "lib", "lib32", "lib64", "libx32",
					 "proc", "run",  "nix", "sbin", "sys", "tmp", "usr",   "snap" };

struct shield {
	const struct mount_style *style;
	const char *mount_points;
	int empty; /* an empty directory: an overlay without upper layer wants a second lower */
	int stage;
	size_t length; /* of the path of the directory being looked at; without its last slash */
	char path[PATH_MAX];
};

static bool is_untouched(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(untouched); i++) {
		if (strcmp(name, untouched[i]) == 0)
			return true;
	}
	return false;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int cover_socket(const struct shield *s, int dir, const char *name)
{
	AUTO_FD target = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD file = target < 0 ? -EBADF : openat(s->stage, "empty", O_CREAT | O_RDONLY | O_CLOEXEC, 0);
	AUTO_FD fd = file < 0 ? -EBADF : mount_bind(file);

	if (target < 0)
		return 0; /* gone */
	return fd < 0 ? (file < 0 ? -errno : fd) : mount_attach(fd, target);
}

static int cover_tree(struct shield *s, int dir, const char *name, unsigned depth);

static int cover_entry(struct shield *s, int dir, const struct dirent *e, unsigned depth)
{
	unsigned char type = e->d_type;
	struct stat st;

	if (is_dot(e->d_name) || (depth == 0 && is_untouched(e->d_name)))
		return 0;
	if (type == DT_UNKNOWN && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	if (type == DT_SOCK)
		return cover_socket(s, dir, e->d_name);
	return type == DT_DIR ? cover_tree(s, dir, e->d_name, depth + 1) : 0;
}

/* Each entry of a directory. Returns how many there are, at most so many as were looked at before something failed. */
static int cover_entries(struct shield *s, int dir, unsigned depth)
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

/* Asked by a copy, which is left to be closed with the other fds: a mount that fails, like one that goes, makes the kernel wait for all
 * its processors. */
static bool can_be_covered(const struct shield *s, int dir)
{
	for (const char *m = s->mount_points; m && *m; m += strlen(m) + 1) {
		if (strncmp(m, s->path, s->length) == 0 && m[s->length] == '/')
			return false;
	}
	return s->mount_points || mount_bind(dir) >= 0;
}

static int cover_directory(struct shield *s, int dir, const char *name, unsigned depth)
{
	AUTO_FD node = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char detail[MOUNT_DETAIL_SIZE] = "";
	AUTO_FD fd = -EBADF;

	/* What cannot be opened by us cannot be passed by the command. */
	if (node < 0 || is_empty(node))
		return 0;
	if (can_be_covered(s, node)) {
		fd = mount_overlay(s->style, (int[]){ node, s->empty }, 2, -EBADF, -EBADF, detail);
		if (fd >= 0)
			return mount_attach(fd, node);
	}
	return depth < DEPTH_MAX ? cover_entries(s, node, depth) : 0;
}

static int cover_tree(struct shield *s, int dir, const char *name, unsigned depth)
{
	size_t before = s->length, size = strlen(name);
	int r;

	if (before + size + 2 > sizeof(s->path))
		return -ENAMETOOLONG;
	s->path[before] = '/';
	memcpy(s->path + before + 1, name, size + 1);
	s->length += size + 1;
	r = cover_directory(s, dir, name, depth);
	s->length = before;
	return r;
}

static int cover_root(struct shield *s)
{
	AUTO_FD root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (mkdirat(s->stage, "d", 0755) < 0)
		return -errno;
	s->empty = openat(s->stage, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || s->empty < 0)
		return -errno;
	return cover_entries(s, root, 0);
}

int shield_raise(const struct mount_style *style, const char *mount_points)
{
	struct shield s = {
		.style = style, .mount_points = mount_points, .empty = -EBADF, .stage = mount_stage(style)
	};
	int r = s.stage < 0 ? s.stage : cover_root(&s);

	fd_close(s.empty);
	mount_unstage(style, s.stage);
	return r;
}
