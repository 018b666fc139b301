/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of one file's data, and of one entry with all that belongs to it. Whole trees: copy-tree.c. */
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/stop.h"
#include "base/sys.h"
#include "tree/private.h"

/* At most so much per call, so that a signal is not kept waiting for a whole large file. */
#define CHUNK ((size_t)256 << 20)
#define STOPPABLE_CHUNK ((size_t)16 << 20)
#define BUFFER_SIZE ((size_t)128 << 10)

/* The ways to copy a range, best first. Once one has proved unfit for two files, the next is tried and kept. */
enum way { WAY_COPY_RANGE, WAY_SENDFILE, WAY_READ_WRITE };

struct data_copy {
	int from_fd, to_fd;
	enum way way;
	char *buffer;
};

static void data_copy_release(struct data_copy *c)
{
	free(c->buffer);
}

/* Refused for the kind of file or filesystem, so that another way may work. */
static bool is_unfit(ssize_t r)
{
	return r == -EXDEV || r == -EOPNOTSUPP || r == -EINVAL || r == -ENOSYS || r == -ENOTTY || r == -EPERM ||
	       r == -EACCES || r == -ETXTBSY || r == -EBADF;
}

static ssize_t read_write(struct data_copy *c, off_t at, size_t size)
{
	ssize_t got;
	int r;

	if (!c->buffer)
		c->buffer = malloc(BUFFER_SIZE);
	if (!c->buffer)
		return -ENOMEM;
	do
		got = pread(c->from_fd, c->buffer, MIN(size, BUFFER_SIZE), at);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	r = sys_write(c->to_fd, c->buffer, (size_t)got);
	return r < 0 ? r : got;
}

/* Copies some of the range to the same place; how much, 0 at the end of the file, or -errno. */
static ssize_t copy_some(struct data_copy *c, off_t at, size_t size)
{
	off_t from = at, to = at;

	if (c->way == WAY_COPY_RANGE)
		return sys_copy_range(c->from_fd, &from, c->to_fd, &to, size);
	if (lseek(c->to_fd, at, SEEK_SET) < 0)
		return -errno;
	if (c->way == WAY_SENDFILE)
		return sys_sendfile(c->to_fd, c->from_fd, &from, size);
	return read_write(c, at, size);
}

/* 1, or 0 if the file ended before. */
static int copy_range(struct data_copy *c, uint64_t at, uint64_t end)
{
	uint64_t chunk = stop_is_possible() ? STOPPABLE_CHUNK : CHUNK;

	while (at < end) {
		ssize_t got = stop_check();

		if (got == 0)
			got = copy_some(c, (off_t)at, (size_t)MIN(end - at, chunk));

		/* Some filesystems answer what they cannot copy with "nothing": believe only the simplest way. */
		if (c->way != WAY_READ_WRITE && (got == 0 || is_unfit(got))) {
			c->way++;
			continue;
		}
		if (got < 0)
			return (int)got;
		if (got == 0)
			return 0;
		at += (uint64_t)got;
	}
	return 1;
}

/* The next range of data at or behind at: 1, 0 if there is none, or -errno. Without holes all is one range. */
static int next_data(int fd, uint64_t at, uint64_t size, uint64_t *ret_start, uint64_t *ret_end)
{
	off_t start = lseek(fd, (off_t)at, SEEK_DATA), end;

	if (start < 0 && errno == ENXIO)
		return 0;
	if (start < 0 && errno != EINVAL && errno != EOPNOTSUPP)
		return -errno;
	if (start < 0)
		start = (off_t)at;
	end = lseek(fd, start, SEEK_HOLE);
	*ret_start = (uint64_t)start;
	*ret_end = end < 0 ? size : MIN((uint64_t)end, size);
	return *ret_start < *ret_end;
}

static int copy_ranges(struct data_copy *c, uint64_t size)
{
	uint64_t at = 0, start = 0, end = 0;
	int r = 1;

	while (r > 0 && at < size) {
		r = next_data(c->from_fd, at, size, &start, &end);
		if (r > 0)
			r = copy_range(c, start, end);
		if (r > 0)
			at = end;
	}
	return MIN(r, 0);
}

bool tree_can_share(int from_dir, int to_dir)
{
	AUTO_FD from = tree_open_private(from_dir);
	AUTO_FD to = from < 0 ? -EBADF : tree_open_private(to_dir);

	return to >= 0 && sys_clone_file(to, from) == 0;
}

int tree_copy_data(int from_fd, int to_fd, uint64_t size)
{
	CLEANUP(data_copy_release) struct data_copy c = { .from_fd = from_fd, .to_fd = to_fd };
	struct tree_stat st;
	int r;

	if (size == 0)
		return 0;
	r = sys_clone_file(to_fd, from_fd);
	if (is_unfit(r))
		r = copy_ranges(&c, size);
	if (r < 0)
		return r;
	/* A file that somebody shortened meanwhile is copied as short as it is, one that grew as it was. */
	r = tree_stat(from_fd, "", &st);
	return r < 0 ? r : sys_truncate(to_fd, (off_t)MIN(size, st.size));
}

/* Attributes, after the owner. */
static int copy_xattrs(int from_fd, int to_fd, enum tree_marks marks, bool capabilities, bool *lost)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	int r = tree_xattrs_read(from_fd, marks, &x);

	if (r < 0)
		return r;
	if (!capabilities)
		tree_xattrs_drop(&x, "security.capability");
	if (tree_xattrs_drop_unmapped(&x))
		*lost = true;
	return tree_xattrs_give(to_fd, marks, &x, lost);
}

int tree_copy_meta(int from_fd, const struct tree_stat *st, int to_fd, unsigned flags, struct tree_copy_report *report)
{
	bool keep = flags & TREE_COPY_KEEP_SET_ID, kept = true, group_lost = false;
	struct tree_stat now;
	int r;

	if (st->gid == NOBODYS_GROUP && tree_outside_is_there())
		group_lost = tree_outside_copy(from_fd, to_fd, TREE_OUTSIDE_GROUP) < 0;
	r = tree_stat(to_fd, "", &now);
	if (r == 0) /* first, for a new owner takes capabilities away */
		r = tree_set_owner(to_fd, &now, st->uid, st->gid, &kept);
	if (r == 0 && !S_ISLNK(st->mode))
		r = copy_xattrs(from_fd, to_fd, flags & (TREE_MARKS_TRUSTED | TREE_MARKS_USER), keep && kept,
				&report->xattrs_lost);
	if (r == 0 && st->is_nodump && !S_ISLNK(st->mode))
		r = tree_set_nodump(to_fd);
	if (r == 0)
		r = tree_set_meta(to_fd, "", st, keep, &kept);
	if (r == 0 && (!kept || group_lost))
		report->owner_lost = true;
	return r;
}

/* Makes an empty entry of the kind of st and returns an fd of it; on failure there is none. */
static int make_entry(int from_node, const struct tree_stat *st, int to_dir, const char *to_name)
{
	AUTO_FREE char *target = NULL;
	int r, fd;

	if (S_ISREG(st->mode))
		return sys_open(to_dir, to_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (S_ISDIR(st->mode)) {
		r = sys_mkdir(to_dir, to_name, 0700);
	} else {
		r = fd_readlink(from_node, "", &target);
		if (r == 0)
			r = sys_symlink(target, to_dir, to_name);
	}
	if (r < 0)
		return r;
	fd = tree_open_node(to_dir, to_name);
	if (fd < 0)
		(void)sys_unlink(to_dir, to_name, S_ISDIR(st->mode) ? AT_REMOVEDIR : 0);
	return fd;
}

struct content {
	const void *data;
	size_t size;
};

/* content: NULL, or the content that the copy of a regular file gets. */
static int copy_entry(int from_dir, const char *from_name, int to_dir, const char *to_name, unsigned flags,
		      const struct content *content, struct tree_copy_report *report)
{
	AUTO_FD node = tree_open_node(from_dir, from_name);
	AUTO_FD from = -EBADF, to = -EBADF;
	struct tree_stat st;
	int r;

	if (node < 0)
		return TAKE_FD(node);
	r = tree_stat(node, "", &st);
	if (r < 0)
		return r;
	if (tree_is_special(st.mode) || (content && !S_ISREG(st.mode)))
		return -EOPNOTSUPP;
	from = S_ISREG(st.mode) ? tree_open_file(node, "", &st) : TAKE_FD(node);
	if (from < 0)
		return TAKE_FD(from);
	to = make_entry(from, &st, to_dir, to_name);
	if (to < 0)
		return TAKE_FD(to);
	if (content)
		r = sys_write(to, content->data, content->size);
	else if (S_ISREG(st.mode))
		r = tree_copy_data(from, to, st.size);
	if (r == 0)
		r = tree_copy_meta(from, &st, to, flags, report);
	if (r == 0 && content) {
		const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };

		r = sys_utimens(to, "", times);
	}
	if (r < 0)
		(void)sys_unlink(to_dir, to_name, S_ISDIR(st.mode) ? AT_REMOVEDIR : 0);
	return r;
}

int tree_copy_entry(int from_dir, const char *from_name, int to_dir, const char *to_name, unsigned flags,
		    struct tree_copy_report *report)
{
	return copy_entry(from_dir, from_name, to_dir, to_name, flags, NULL, report);
}

int tree_copy_entry_with(int from_dir, const char *from_name, int to_dir, const char *to_name, unsigned flags,
			 const void *data, size_t size, struct tree_copy_report *report)
{
	return copy_entry(from_dir, from_name, to_dir, to_name, flags, &(struct content){ data, size }, report);
}

int tree_restore_mtime(int dir, const struct tree_stat *st)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_mtime(st) };

	return sys_utimens(dir, "", times);
}

int tree_copy_up(int root_fd, int workspace_fd, const char *path, enum tree_marks marks)
{
	struct tree_copy_report report = { 0 };
	AUTO_FD from = fd_open_beneath(root_fd, path, O_RDONLY | O_DIRECTORY);
	AUTO_FD to = -EBADF;
	struct tree_stat st;
	const char *name;
	int r = from < 0 ? from : fd_open_parent(workspace_fd, path, &to, &name);

	if (r >= 0)
		r = tree_stat(to, "", &st);
	if (r >= 0)
		r = tree_copy_entry(from, "", to, name, TREE_COPY_KEEP_SET_ID | marks, &report);
	return r < 0 ? r : tree_restore_mtime(to, &st);
}
