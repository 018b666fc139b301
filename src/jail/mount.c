/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single mounts, made attached to nothing and put in place later. Everything but mount_style() is child side.
 *
 * Layers must be fds of the new mount namespace: the kernel takes no layer, and clones no mount, that belongs to another
 * namespace (EINVAL), and an fd opened before the namespace was made belongs to the host's. mount_reopen() therefore
 * looks the same inode up again inside.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "jail/private.h"
#include "tree/tree.h"

#define NAME_SIZE 256   /* of one component, with its NUL */
#define OPTION_SIZE 256 /* the kernel takes no longer string */

static bool kernel_is(unsigned wanted_major, unsigned wanted_minor)
{
	const char *old = getenv("ATOLL_OLD_KERNEL");
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (old && old[0] != '\0' && strcmp(old, "0") != 0)
		return false;
	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > wanted_major || (major == wanted_major && minor >= wanted_minor));
}

bool jail_overlay_takes_fds(void)
{
	return kernel_is(6, 13);
}

void mount_style(struct mount_style *ret)
{
	ret->tmpfs_size[0] = '\0';
	ret->by_fd = jail_overlay_takes_fds();
	ret->detached = kernel_is(6, 15);
	ret->user_xattrs = tree_overlay_marks() == TREE_MARKS_USER;
}

/* The kernel's own words, "e overlay: …": the first line without its head. */
static void read_detail(int fs_fd, char *detail)
{
	ssize_t n;
	char *text, *end;

	if (!detail)
		return;
	n = read(fs_fd, detail, MOUNT_DETAIL_SIZE - 1);
	detail[n > 0 ? n : 0] = '\0';
	end = strchr(detail, '\n');
	if (end)
		*end = '\0';
	text = strncmp(detail, "e ", 2) == 0 ? detail + 2 : detail;
	memmove(detail, text, strlen(text) + 1);
}

static int set_string(int fs_fd, const char *key, const char *value)
{
	return fsconfig(fs_fd, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

bool mount_add_number(char *text, size_t size, int number)
{
	char digits[12];
	size_t n = 0, length = strlen(text);

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	if (length + n + 1 > size)
		return false;
	while (n > 0)
		text[length++] = digits[--n];
	text[length] = '\0';
	return true;
}

/* Kernels before 6.13. Names relative to /proc/self/fd keep the option within its length. */
static int layers_by_name(int fs_fd, const int *lower, size_t n_lower, int upper, int work)
{
	char text[OPTION_SIZE] = "";
	int r;

	if (chdir("/proc/self/fd") < 0)
		return -errno;
	for (size_t i = 0; i < n_lower; i++) {
		/* One byte is left for the colon. */
		if (!mount_add_number(text, sizeof(text) - 1, lower[i]))
			return -E2BIG;
		if (i + 1 < n_lower)
			memcpy(text + strlen(text), ":", 2);
	}
	r = set_string(fs_fd, "lowerdir", text);
	if (upper < 0)
		return r;
	text[0] = '\0';
	if (r == 0 && mount_add_number(text, sizeof(text), upper))
		r = set_string(fs_fd, "upperdir", text);
	text[0] = '\0';
	if (r == 0 && mount_add_number(text, sizeof(text), work))
		r = set_string(fs_fd, "workdir", text);
	return r;
}

static int layers_by_fd(int fs_fd, const int *lower, size_t n_lower, int upper, int work)
{
	for (size_t i = 0; i < n_lower; i++) {
		if (fsconfig(fs_fd, FSCONFIG_SET_FD, "lowerdir+", NULL, lower[i]) < 0)
			return -errno;
	}
	if (upper < 0)
		return 0;
	if (fsconfig(fs_fd, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_FD, "workdir", NULL, work) < 0)
		return -errno;
	return 0;
}

/* Every option that a kernel's configuration could set otherwise is said. */
static int set_overlay_options(int fs_fd, const struct mount_style *style, bool writable)
{
	static const char *const options[][2] = {
		{ "metacopy", "off" }, { "index", "off" }, { "xino", "off" }, { "redirect_dir", "nofollow" }
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(options) && r == 0; i++)
		r = set_string(fs_fd, options[i][0], options[i][1]);
	if (r == 0 && writable && fsconfig(fs_fd, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
		r = -errno;
	if (r == 0 && style->user_xattrs && fsconfig(fs_fd, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		r = -errno;
	return r;
}

static int finish(int fs_fd, unsigned attributes)
{
	int fd;

	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, attributes);
	return fd < 0 ? -errno : fd;
}

static int try_overlay(const struct mount_style *style, bool by_fd, const int *lower, size_t n_lower, int upper,
		       int work, char *detail)
{
	AUTO_FD fs_fd = fsopen("overlay", FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	r = set_overlay_options(fs_fd, style, upper >= 0);
	if (r == 0)
		r = by_fd ? layers_by_fd(fs_fd, lower, n_lower, upper, work)
			  : layers_by_name(fs_fd, lower, n_lower, upper, work);
	if (r == 0)
		r = finish(fs_fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (upper < 0 ? MOUNT_ATTR_RDONLY : 0));
	if (r < 0)
		read_detail(fs_fd, detail);
	return r;
}

int mount_overlay(const struct mount_style *style, const int *lower, size_t n_lower, int upper, int work, char *detail)
{
	int r = try_overlay(style, style->by_fd, lower, n_lower, upper, work, detail);

	/* Of a layer given by fd the kernel wants to know the path, for mountinfo; of a name it does not. */
	if (r == -ENAMETOOLONG && style->by_fd)
		r = try_overlay(style, false, lower, n_lower, upper, work, detail);
	return r;
}

/* The directory above is the kernel's, of mode 0 and made anew at each mount. */
void mount_clear_marker(int work)
{
	(void)unlinkat(work, "work/incompat/volatile/dirty", 0);
	(void)unlinkat(work, "work/incompat/volatile", AT_REMOVEDIR);
}

/* All that is private shares its room, so that is not what one place would get. */
static int make_tmpfs(const struct mount_style *style)
{
	AUTO_FD fs_fd = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	r = set_string(fs_fd, "mode", "0700");
	if (r == 0)
		r = set_string(fs_fd, "size", style->tmpfs_size[0] ? style->tmpfs_size : "100%");
	return r < 0 ? r : finish(fs_fd, MOUNT_ATTR_NOSUID);
}

int mount_proc(unsigned attributes)
{
	AUTO_FD fs_fd = fsopen("proc", FSOPEN_CLOEXEC);

	if (fs_fd < 0)
		return -errno;
	return finish(fs_fd, attributes | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

int mount_devpts(void)
{
	AUTO_FD fs_fd = fsopen("devpts", FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	r = set_string(fs_fd, "ptmxmode", "0666");
	if (r == 0)
		r = set_string(fs_fd, "mode", "0620");
	return r < 0 ? r : finish(fs_fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

int mount_bind(int fd)
{
	int r = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	return r < 0 ? -errno : r;
}

int mount_bind_at(int dir, const char *name, unsigned attributes)
{
	struct mount_attr attr = { .attr_set = attributes };
	AUTO_FD fd = open_tree(dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int mount_attach(int mount_fd, int target_fd)
{
	if (move_mount(mount_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int mount_make_private(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int mount_stage(const struct mount_style *style)
{
	AUTO_FD root = -EBADF;
	AUTO_FD fd = make_tmpfs(style);
	int r;

	if (fd < 0 || style->detached)
		return TAKE_FD(fd);
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = root < 0 ? -errno : mount_attach(fd, root);
	return r < 0 ? r : TAKE_FD(fd);
}

int mount_unstage(const struct mount_style *style, int stage_fd)
{
	char path[32] = "/proc/self/fd/";

	if (stage_fd < 0 || style->detached)
		return stage_fd;
	/* The layers keep the filesystem; only the way to it goes. */
	if (mount_add_number(path, sizeof(path), stage_fd))
		(void)umount2(path, MNT_DETACH);
	return fd_close(stage_fd);
}

/* Copies the next component of *path into name and moves behind it; 0 at the end, -ENAMETOOLONG if it is too long. */
static int next_name(const char **path, char name[NAME_SIZE])
{
	size_t length;

	*path += strspn(*path, "/");
	length = strcspn(*path, "/");
	if (length >= NAME_SIZE)
		return -ENAMETOOLONG;
	memcpy(name, *path, length);
	name[length] = '\0';
	*path += length;
	*path += strspn(*path, "/");
	return length > 0;
}

/* Mount points are made in private tmpfs alone, which is no durable state. */
static int make_name(int dir, const char *name, bool is_file)
{
	AUTO_FD fd = -EBADF;

	if (!is_file)
		return mkdirat(dir, name, 0755) < 0 ? -errno : 0;
	fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : 0;
}

/* Without a link on the way, in one call. Whatever keeps it from working is found out name by name. */
static int open_at_once(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int mount_open_path(const char *path, enum mount_make make)
{
	AUTO_FD fd = open_at_once(path);
	char name[NAME_SIZE];
	int r;

	if (fd >= 0)
		return TAKE_FD(fd);
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((r = next_name(&path, name)) > 0) {
		int next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (next < 0 && errno == ENOENT && make != MOUNT_MAKE_NOTHING) {
			r = make_name(fd, name, make == MOUNT_MAKE_FILE && *path == '\0');
			if (r < 0)
				return r;
			next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		}
		if (next < 0)
			return -errno;
		close(fd);
		fd = next;
	}
	return r < 0 ? r : TAKE_FD(fd);
}

char mount_decode(const char **text)
{
	const char *p = *text;

	if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] && p[3]) {
		*text += 4;
		return (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
	}
	(*text)++;
	return *p;
}

int mount_reopen(int fd, const char *path, int flags)
{
	AUTO_FD node = mount_open_path(path, MOUNT_MAKE_NOTHING);
	AUTO_FD again = -EBADF;
	struct stat given, found;

	if (node < 0)
		return node;
	if (fstat(fd, &given) < 0 || fstat(node, &found) < 0)
		return -errno;
	if (given.st_dev != found.st_dev || given.st_ino != found.st_ino)
		return -ESTALE;
	if (flags & O_PATH)
		return TAKE_FD(node);
	again = openat(node, ".", flags | O_CLOEXEC);
	return again < 0 ? -errno : TAKE_FD(again);
}
