/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of whole trees. The walk of the source drives a chain of directories of the target beside it. A directory is
 * made with mode 0700 and gets its own metadata when all below it is done: then 0555 is no obstacle and times last.
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

struct tree_copier {
	unsigned flags;
	const struct tree_copy_hooks *hooks;
	struct tree_copy_report *report;
	int to_root;
	uint64_t mnt_id;
	struct tree_chain to;
	struct tree_links seen; /* in the target */
};

static void copier_release(struct tree_copier *c)
{
	tree_links_release(&c->seen);
	tree_chain_release(&c->to);
}

/* Makes the entry a further name of the copy its inode already has: 1, 0 if there is none or it can take no more. */
static int link_to_seen(struct tree_copier *c, const struct tree_entry *e)
{
	const char *first = e->stat.nlink < 2 ? NULL : tree_links_find(&c->seen, &e->stat);
	AUTO_FD parent = -EBADF;
	const char *name;
	int r;

	if (!first)
		return 0;
	r = fd_open_parent(c->to_root, first, &parent, &name);
	if (r == 0)
		r = sys_link(parent, name, tree_chain_top(&c->to), e->name);
	if (r == -EMLINK)
		return 0;
	return r < 0 ? r : 1;
}

static int tell_copied(struct tree_copier *c, const struct tree_entry *e, int to_dir)
{
	struct tree_stat st;
	int r;

	if (!c->hooks || !c->hooks->copied)
		return 0;
	r = tree_stat(to_dir, e->name, &st);
	if (r < 0)
		return r;
	return c->hooks->copied(e->path, &e->stat, e->dirfd, e->name, &st, to_dir, e->name, c->hooks->arg);
}

static int copy_leaf(struct tree_copier *c, const struct tree_entry *e)
{
	int to_dir = tree_chain_top(&c->to);
	int r;

	if (e->stat.mnt_id != c->mnt_id)
		return -EXDEV;
	r = link_to_seen(c, e);
	if (r == 0) {
		r = c->flags & TREE_COPY_LINK && S_ISREG(e->stat.mode)
			    ? sys_link(e->dirfd, e->name, to_dir, e->name)
			    : tree_copy_entry(e->dirfd, e->name, to_dir, e->name, c->flags, c->report);
		if (r == 0 && e->stat.nlink > 1)
			r = tree_links_put(&c->seen, &e->stat, e->path);
	}
	return r < 0 ? r : tell_copied(c, e, to_dir);
}

static int enter_dir(struct tree_copier *c, const struct tree_entry *e)
{
	bool is_root = c->to.n == 0;
	struct tree_stat st;
	int fd, r = 0;

	/* Where e->fd is none the walk tries again, and fails or goes in. */
	if (!is_root)
		r = sys_mkdir(tree_chain_top(&c->to), e->name, 0700);
	if (r < 0)
		return r;
	fd = openat(is_root ? c->to_root : tree_chain_top(&c->to), is_root ? "." : e->name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = tree_stat(fd, "", &st);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	return tree_chain_push(&c->to, fd, st.dev, st.ino);
}

static int leave_dir(struct tree_copier *c, const struct tree_entry *e)
{
	int to_dir = c->to.n > 1 ? tree_chain_parent(&c->to) : c->to_root;
	int r;

	if (to_dir < 0)
		return to_dir;
	r = tree_copy_meta(e->fd, &e->stat, tree_chain_top(&c->to), c->flags, c->report);
	if (r < 0)
		return r;
	tree_chain_pop(&c->to);
	return tell_copied(c, e, to_dir);
}

static int copy_visit(const struct tree_entry *e, void *arg)
{
	struct tree_copier *c = arg;
	const struct tree_copy_hooks *h = c->hooks;
	bool is_root = e->path[0] == '\0';

	if (e->leaving)
		return leave_dir(c, e);
	if (tree_is_special(e->stat.mode) || (!is_root && h && h->skip && h->skip(e, h->arg))) {
		int r = h && h->left_out ? h->left_out(e->path, &e->stat, h->arg) : 0;

		return r < 0 ? r : TREE_WALK_SKIP;
	}
	if (!S_ISDIR(e->stat.mode))
		return copy_leaf(c, e);
	return e->stat.mnt_id == c->mnt_id ? enter_dir(c, e) : TREE_WALK_GO;
}

int tree_copy(int from_fd, int to_fd, unsigned flags, const struct tree_copy_hooks *hooks,
	      struct tree_copy_report *report, char **ret_path)
{
	struct tree_copy_report ignored = { 0 };
	CLEANUP(copier_release) struct tree_copier c = { .flags = flags, .hooks = hooks, .to_root = to_fd };
	struct tree_stat st;
	int r;

	c.report = report ? report : &ignored;
	if (ret_path)
		*ret_path = NULL;
	r = tree_stat(from_fd, "", &st);
	if (r < 0)
		return r;
	if (!S_ISDIR(st.mode))
		return -ENOTDIR;
	c.mnt_id = st.mnt_id;
	return tree_walk(from_fd, TREE_WALK_LEAVING, copy_visit, &c, ret_path);
}
