/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's lock files: whoever has made NAME.lock, exclusively, may change NAME. Ours say whose they are, so that after a crash exactly those
 * are removed. Git looks at nothing but whether the file is there.
 */
#include "git/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

struct place {
	int dir;
	char *name; /* of the lock */
	char *tmp; /* it is made complete under this name, which git passes over: a lock without its owner is never there */
};

static void place_release(struct place *p)
{
	fd_close(p->dir);
	free(p->name);
	free(p->tmp);
}

static int place_open(int dir_fd, const char *path, const char *owner, bool make, struct place *ret)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);

	*ret = (struct place){ -EBADF, str_format("%s.lock", slash ? slash + 1 : path),
			       str_format("atoll-%s.lock", owner) };
	if (!parent || !ret->name || !ret->tmp)
		return -ENOMEM;
	ret->dir = fd_open_beneath(dir_fd, parent, O_RDONLY | O_DIRECTORY);
	if (ret->dir == -ENOENT && make)
		ret->dir = fd_make_path(dir_fd, parent);
	return MIN(ret->dir, 0);
}

static int is_owners(const struct place *p, const char *owner)
{
	AUTO_FREE char *content = NULL;
	int r = fd_read_file(p->dir, p->name, 4096, &content, NULL);

	/* Git's own may be long: a whole index. */
	if (r == -ENOENT || r == -EFBIG || r == -EINVAL || r == -ELOOP)
		return 0;
	return r < 0 ? r : strcmp(content, owner) == 0;
}

int git_lock_is_held(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, false, &p);

	return r == -ENOENT || r == -ENOTDIR ? 0 : r < 0 ? r : is_owners(&p, owner);
}

static int make_lock(const struct place *p, const char *owner)
{
	AUTO_FD fd = -EBADF;
	int r = sys_unlink(p->dir, p->tmp, 0), dropped;

	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(p->dir, p->tmp, O_WRONLY | O_CREAT | O_EXCL, 0666);
	if (fd < 0)
		return fd;
	r = sys_write(fd, owner, strlen(owner));
	if (r >= 0)
		r = sys_link(p->dir, p->tmp, p->dir, p->name);
	dropped = sys_unlink(p->dir, p->tmp, 0);
	return r < 0 ? r : dropped;
}

int git_lock_take(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, true, &p);

	if (r >= 0)
		r = is_owners(&p, owner);
	return r != 0 ? MIN(r, 0) : make_lock(&p, owner);
}

int git_lock_drop(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, false, &p);

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	r = sys_unlink(p.dir, p.tmp, 0);
	if (r < 0 && r != -ENOENT)
		return r;
	r = is_owners(&p, owner);
	return r > 0 ? sys_unlink(p.dir, p.name, 0) : r;
}
