/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private /dev: a part of the view's tmpfs with the few devices that every program may have, pseudo-terminals of its own, and links. All of it is
 * child side. Root makes the devices; in a user namespace nobody can, so there the host's are mounted one by one.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "jail/private.h"

static const struct {
	const char *name, *path;
	unsigned major, minor;
} devices[] = {
	{ "null", "/dev/null", 1, 3 },     { "zero", "/dev/zero", 1, 5 },       { "full", "/dev/full", 1, 7 },
	{ "random", "/dev/random", 1, 8 }, { "urandom", "/dev/urandom", 1, 9 }, { "tty", "/dev/tty", 5, 0 },
};
_Static_assert(ARRAY_SIZE(devices) == DEV_NODES, "private.h says how many");

static const struct {
	const char *name, *target;
} links[] = {
	{ "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" }, { "core", "/proc/kcore" },      { "ptmx", "pts/ptmx" },
};

const char *dev_name(size_t i)
{
	static const char *const others[] = { "pts", "console" };

	if (i < ARRAY_SIZE(devices))
		return devices[i].name;
	i -= ARRAY_SIZE(devices);
	if (i < ARRAY_SIZE(links))
		return links[i].name;
	i -= ARRAY_SIZE(links);
	return i < ARRAY_SIZE(others) ? others[i] : NULL;
}

static int make_file(int dir, const char *name)
{
	AUTO_FD fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : 0;
}

static int bind_path(const char *path)
{
	AUTO_FD node = open(path, O_PATH | O_CLOEXEC);

	return node < 0 ? -errno : mount_bind(node);
}

/* A device that the host does not have is left out. */
static int make_device(int dir, size_t i, bool root, int *ret_fd)
{
	*ret_fd = -EBADF;
	if (root && mknodat(dir, devices[i].name, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) == 0)
		return 0;
	*ret_fd = bind_path(devices[i].path);
	if (*ret_fd < 0)
		return *ret_fd == -ENOENT ? 0 : *ret_fd;
	return make_file(dir, devices[i].name);
}

static int make_terminals(int dir, struct dev *ret)
{
	if (mkdirat(dir, "pts", 0755) < 0)
		return -errno;
	ret->pts = mount_devpts();
	return ret->pts < 0 ? ret->pts : 0;
}

/* The terminal that the caller is at, so that ttyname() knows a name for it. */
static int make_console(int dir, const char *terminal, struct dev *ret)
{
	if (!terminal)
		return 0;
	ret->console = bind_path(terminal);
	return ret->console < 0 ? 0 : make_file(dir, "console");
}

void dev_init(struct dev *d)
{
	d->pts = d->console = -EBADF;
	for (size_t i = 0; i < DEV_NODES; i++)
		d->nodes[i] = -EBADF;
}

int dev_make(int stage, bool root, const char *terminal, struct dev *ret)
{
	AUTO_FD fd = mkdirat(stage, LAYERS_DEVICES_DIR, 0755) < 0
			     ? -errno
			     : mount_bind_at(stage, LAYERS_DEVICES_DIR, MOUNT_ATTR_NOEXEC);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; i < ARRAY_SIZE(devices) && r == 0; i++)
		r = make_device(fd, i, root, &ret->nodes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(links) && r == 0; i++)
		r = symlinkat(links[i].target, fd, links[i].name) < 0 ? -errno : 0;
	if (r == 0)
		r = make_terminals(fd, ret);
	if (r == 0)
		r = make_console(fd, terminal, ret);
	return r < 0 ? r : TAKE_FD(fd);
}

static int put(int dir, const char *name, int *mount_fd)
{
	AUTO_FD target = -EBADF;
	int r;

	if (*mount_fd < 0)
		return 0;
	target = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = target < 0 ? -errno : mount_attach(*mount_fd, target);
	*mount_fd = fd_close(*mount_fd);
	return r;
}

int dev_fill(int dev_fd, struct dev *d)
{
	int r = put(dev_fd, "pts", &d->pts);

	for (size_t i = 0; i < ARRAY_SIZE(devices) && r == 0; i++)
		r = put(dev_fd, devices[i].name, &d->nodes[i]);
	return r < 0 ? r : put(dev_fd, "console", &d->console);
}
