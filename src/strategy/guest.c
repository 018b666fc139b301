/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests: a resource that is one file, with some names beside it, in a directory of which another resource has the workspace. There is one
 * view of a directory, so the guest's file lies in the workspace of that other one, its host, which leaves it out of its own changes. When
 * the host's layer is exchanged for a fresh one, what belongs to guests is moved to it.
 */
#include "strategy/strategy.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

/* Has the overlay's own prefix, and so is neither seen inside nor copied anywhere. */
#define MADE "atoll-made"

bool guest_has_made(int dir_fd, enum tree_marks marks)
{
	return tree_mark_get(dir_fd, marks, MADE, NULL, 0) >= 0;
}

static int mark_made(int dirfd, const char *name, enum tree_marks marks)
{
	AUTO_FD fd = fd_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY);

	return fd < 0 ? fd : tree_mark_set(fd, marks, MADE, "y", 1);
}

/* The times of a workspace's directory are edits of the sandbox, which what is put there for a guest is not. */
static int make_parent(const struct resource *host, int workspace_fd, const char *path)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	int r = tree_copy_up(host->root_fd, workspace_fd, path, resource_marks(host));

	if (r < 0 || !(host->ops->capabilities & STRATEGY_LAYERED))
		return r;
	r = fd_open_parent(workspace_fd, path, &parent, &name);
	return r < 0 ? r : mark_made(parent, name, resource_marks(host));
}

int guest_make_parents(const struct resource *host, int workspace_fd, const char *path)
{
	int r = 0;

	for (const char *slash = strchr(path, '/'); slash && r >= 0; slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *part = strndup(path, (size_t)(slash - path));
		AUTO_FD there = part ? fd_open_beneath(workspace_fd, part, O_PATH | O_DIRECTORY) : -ENOMEM;

		if (there < 0)
			r = there == -ENOENT ? make_parent(host, workspace_fd, part) : there;
	}
	return r;
}

static int move_entry(int from, int to, const char *name)
{
	struct tree_stat from_st, to_st;
	int r = tree_stat(from, "", &from_st);

	if (r >= 0)
		r = tree_stat(to, "", &to_st);
	if (r >= 0)
		r = tree_remove(to, name);
	if (r >= 0)
		r = sys_rename(from, name, to, name, 0);
	if (r >= 0)
		r = tree_restore_mtime(from, &from_st);
	return r < 0 ? r : tree_restore_mtime(to, &to_st);
}

static int sync_dir(int dir)
{
	AUTO_FD fd = fd_reopen(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? fd : sys_fsync(fd);
}

static int follow_one(const struct resource *host, int from_fd, int to_fd, const char *path)
{
	AUTO_FD from = -EBADF, to = -EBADF;
	struct tree_stat st;
	const char *name;
	int r = fd_open_parent(from_fd, path, &from, &name);

	if (r >= 0)
		r = tree_stat(from, name, &st);
	/* A directory above that a command has replaced holds nothing of the guest's. */
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	if (r >= 0)
		r = guest_make_parents(host, to_fd, path);
	if (r >= 0)
		r = fd_open_parent(to_fd, path, &to, &name);
	if (r >= 0)
		r = move_entry(from, to, name);
	if (r >= 0)
		r = sync_dir(to);
	return r < 0 ? r : sync_dir(from);
}

int guest_follow(const struct resource *host, int from_fd, int to_fd)
{
	int r = 0;

	for (size_t i = 0; i < host->n_claimed && r >= 0; i++)
		r = follow_one(host, from_fd, to_fd, host->claimed[i]);
	return r;
}

int guest_bring(const struct resource *host, int slot_dir, const char *slot, int to_fd, const char *path)
{
	struct tree_stat st, dir;
	AUTO_FD to = -EBADF;
	const char *name;
	int r = tree_stat(slot_dir, slot, &st);

	if (r >= 0)
		r = guest_make_parents(host, to_fd, path);
	if (r >= 0)
		r = fd_open_parent(to_fd, path, &to, &name);
	if (r >= 0)
		r = tree_stat(to, "", &dir);
	if (r >= 0)
		r = sys_rename(slot_dir, slot, to, name, RENAME_NOREPLACE);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	if (r >= 0)
		r = tree_restore_mtime(to, &dir);
	if (r >= 0)
		r = sync_dir(to);
	return r < 0 ? r : sync_dir(slot_dir);
}
