/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's lock files: whoever has made NAME.lock, exclusively, may change NAME. Ours say whose they are, so that after a crash exactly those
 * are removed. They are symbolic links to their owner's name: what a link says is there from the instant it has a name, also on a disk that
 * lost its power, where a file could be found empty. Git looks at nothing but whether there is something.
 */
#include "git/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

struct place {
	int dir;
	char *name; /* of the lock */
	char *says;
};

static void place_release(struct place *p)
{
	fd_close(p->dir);
	free(p->name);
	free(p->says);
}

static int place_open(int dir_fd, const char *path, const char *owner, bool make, struct place *ret)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);

	*ret = (struct place){ -EBADF, str_format("%s.lock", slash ? slash + 1 : path), str_format("atoll-%s", owner) };
	if (!parent || !ret->name || !ret->says)
		return -ENOMEM;
	ret->dir = fd_open_beneath(dir_fd, parent, O_RDONLY | O_DIRECTORY);
	if (ret->dir == -ENOENT && make)
		ret->dir = fd_make_path(dir_fd, parent);
	return MIN(ret->dir, 0);
}

static int is_owners(const struct place *p)
{
	AUTO_FREE char *target = NULL;
	int r = fd_readlink(p->dir, p->name, &target);

	if (r == -ENOENT || r == -EINVAL)
		return 0;
	return r < 0 ? r : strcmp(target, p->says) == 0;
}

int git_lock_is_held(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, false, &p);

	return r == -ENOENT || r == -ENOTDIR ? 0 : r < 0 ? r : is_owners(&p);
}

int git_lock_take(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, true, &p);

	if (r >= 0)
		r = is_owners(&p);
	return r != 0 ? MIN(r, 0) : sys_symlink(p.says, p.dir, p.name);
}

int git_lock_drop(int dir_fd, const char *path, const char *owner)
{
	CLEANUP(place_release) struct place p;
	int r = place_open(dir_fd, path, owner, false, &p);

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	r = is_owners(&p);
	return r > 0 ? sys_unlink(p.dir, p.name, 0) : r;
}
