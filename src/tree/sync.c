/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durability of a set of files and directories with the fewest flushes.
 *
 * A few are flushed one by one: that waits for nobody else's data. Many are flushed by one syncfs, which costs hardly
 * more than a single fsync on a quiet filesystem and beats them from a handful on, but waits for whatever else is
 * dirty. The fds of a small set are held as O_PATH, so that adding works whatever the permissions, and nothing is
 * looked up again.
 */
#include <fcntl.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/private.h"

/*
 * From here on one syncfs is quicker. Measured with new files of 4 KiB and their directory, on ext4 (with and without a
 * journal), XFS and btrfs: each fsync costs 0.15 to 1.5 ms of its own, while syncfs stays at 0.3 to 2 ms from 1 file
 * to 64. The lines cross at two to four. The larger is taken, since a few fsyncs are not held up by what others have
 * written.
 */
#define FEW 4

struct tree_sync {
	int fs_fd; /* open since the beginning: syncfs tells an error only to those who were there before it */
	uint64_t dev;
	bool whole;
	int *apart; /* objects on other filesystems, which a syncfs of this one does not reach */
	size_t n_apart;
	size_t n;
	struct {
		int fd;
		uint64_t dev, ino;
	} few[FEW];
};

static void forget_few(struct tree_sync *s)
{
	while (s->n > 0)
		fd_close(s->few[--s->n].fd);
}

static void forget_apart(struct tree_sync *s)
{
	while (s->n_apart > 0)
		fd_close(s->apart[--s->n_apart]);
	free(s->apart);
	s->apart = NULL;
}

struct tree_sync *tree_sync_free(struct tree_sync *s)
{
	if (!s)
		return NULL;
	forget_few(s);
	forget_apart(s);
	fd_close(s->fs_fd);
	free(s);
	return NULL;
}

int tree_sync_new(int fs_fd, struct tree_sync **ret)
{
	struct tree_sync *s = calloc(1, sizeof(*s));
	struct tree_stat st;
	int r;

	if (!s)
		return -ENOMEM;
	s->fs_fd = -EBADF;
	r = tree_stat(fs_fd, "", &st);
	if (r == 0 && !S_ISDIR(st.mode) && !S_ISREG(st.mode))
		r = -EINVAL;
	if (r == 0)
		r = s->fs_fd = fd_reopen(fs_fd, O_RDONLY);
	if (r >= 0)
		s->dev = st.dev;
	if (r < 0) {
		tree_sync_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void take_whole(struct tree_sync *s)
{
	forget_few(s);
	s->whole = true;
}

void tree_sync_add_all(struct tree_sync *s)
{
	take_whole(s);
}

int tree_sync_add(struct tree_sync *s, int dirfd, const char *name, uint64_t bytes)
{
	AUTO_FD fd = -EBADF;
	struct tree_stat st;
	int r;

	(void)bytes; /* a large file takes its time either way: only the number of flushes counts */
	if (s->whole)
		return 0;
	fd = tree_open_node(dirfd, name);
	if (fd < 0)
		return TAKE_FD(fd);
	r = tree_stat(fd, "", &st);
	if (r < 0)
		return r;
	for (size_t i = 0; i < s->n; i++)
		if (s->few[i].ino == st.ino && s->few[i].dev == st.dev)
			return 0;
	/* A link or special file cannot be opened, so it cannot be flushed alone. */
	if (s->n == FEW || (!S_ISREG(st.mode) && !S_ISDIR(st.mode))) {
		take_whole(s);
		return 0;
	}
	s->few[s->n].fd = TAKE_FD(fd);
	s->few[s->n].dev = st.dev;
	s->few[s->n].ino = st.ino;
	s->n++;
	return 0;
}

int tree_sync_add_anywhere(struct tree_sync *s, int dirfd, const char *name)
{
	AUTO_FD fd = tree_open_node(dirfd, name);
	struct tree_stat st;
	int r = fd < 0 ? fd : tree_stat(fd, "", &st);
	int *grown;

	if (r < 0 || st.dev == s->dev)
		return r < 0 ? r : tree_sync_add(s, fd, "", 0);
	grown = reallocarray(s->apart, s->n_apart + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	s->apart = grown;
	s->apart[s->n_apart++] = TAKE_FD(fd);
	return 0;
}

static int flush_apart(const struct tree_sync *s)
{
	for (size_t i = 0; i < s->n_apart; i++) {
		AUTO_FD fd = fd_reopen(s->apart[i], O_RDONLY);
		int r = fd < 0 ? fd : sys_fsync(fd);

		if (r < 0)
			return r;
	}
	return 0;
}

static int flush_few(struct tree_sync *s)
{
	for (size_t i = 0; i < s->n; i++) {
		AUTO_FD fd = fd_reopen(s->few[i].fd, O_RDONLY);
		int r;

		if (fd == -EACCES || fd == -EPERM) { /* not ours to read, but ours to make durable */
			s->whole = true;
			return 0;
		}
		if (fd < 0)
			return TAKE_FD(fd);
		r = sys_fsync(fd);
		if (r < 0)
			return r;
	}
	return 0;
}

int tree_sync_flush(struct tree_sync *s)
{
	int r = flush_apart(s);

	if (r == 0 && !s->whole)
		r = flush_few(s);
	if (r == 0 && s->whole)
		r = sys_syncfs(s->fs_fd);
	forget_few(s);
	forget_apart(s);
	s->whole = false;
	return r;
}

static int start_visit(const struct tree_entry *e, void *arg)
{
	AUTO_FD fd = -EBADF;
	struct tree_stat st;

	(void)arg;
	if (S_ISDIR(e->stat.mode)) /* unreadable, another mount, or not to be searched */
		return e->fd < 0 || faccessat(e->fd, ".", X_OK, AT_EACCESS) < 0 ? TREE_WALK_SKIP : TREE_WALK_GO;
	if (!S_ISREG(e->stat.mode) || e->stat.blocks == 0)
		return TREE_WALK_GO;
	fd = tree_open_file(e->dirfd, e->name, &st);
	if (fd >= 0) /* a mere hint: what is not begun now is done by the flush */
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	return TREE_WALK_GO;
}

int tree_start_writeback(int rootfd)
{
	return tree_walk(rootfd, 0, start_visit, NULL, NULL);
}
