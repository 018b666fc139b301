/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a directory that the overlay does not rename. Nothing that others do to its files meanwhile is lost, since no file is copied:
 *
 *   1. in a private directory beside the new place all directories are made again, and every file gets a further name there. The old
 *      place is whole and in use; whoever writes, by name or through an open file, writes to both;
 *   2. one rename puts the new directory in place;
 *   3. of the old one each name is taken out by a rename, not by an unlink: what turns out to be another file than the one that was linked
 *      was put there meanwhile, and goes to the new place. A directory goes when it is empty, so nothing can have been added unseen.
 *
 * Killed in 1, the old place is whole and the private directory is removed by whoever opens the sandbox next; killed in 3, the new place is
 * whole and a part of the old one is left beside it.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"
#include "tree/private.h"

#define PREFIX ".atoll-move-"
#define DIGITS 16
#define NEW "new"
#define TAKEN "taken"
/* How often the old directory may turn out not to be empty. */
#define DRAIN_MAX 1000
#define REMOVE_TRIES 3
#define PUT_TRIES 100
#define STALE_MAX 100

void tree_move_name(struct tree_move *m)
{
	uint64_t number;

	random_bytes(&number, sizeof(number));
	snprintf(m->name, sizeof(m->name), PREFIX "%016llx", (unsigned long long)number);
}

bool tree_is_move_name(const char *name)
{
	size_t size = strlen(PREFIX);

	return strncmp(name, PREFIX, size) == 0 && strspn(name + size, "0123456789abcdef") == DIGITS &&
	       name[size + DIGITS] == '\0';
}

/* ---- before ---- */

static int any_entry(const struct tree_entry *e, void *arg)
{
	(void)e;
	(void)arg;
	return -ENOTEMPTY;
}

/* What rename() would find out at the end is found out before anything is made. */
static int check_target(const struct tree_move *m)
{
	AUTO_FD fd = -EBADF;
	struct stat st;

	if (fstatat(m->to_dir, m->to_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (m->flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	fd = fd_open_beneath(m->to_dir, m->to_name, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? fd : tree_walk(fd, TREE_WALK_NO_ROOT, any_entry, NULL, NULL);
}

/* Whether a tree can be made again whole and taken away afterwards. */
static int check_movable(const struct tree_entry *e, void *arg)
{
	(void)arg;
	if (tree_is_special(e->stat.mode))
		return -EXDEV;
	if (!S_ISDIR(e->stat.mode))
		return TREE_WALK_GO;
	return e->fd >= 0 && (e->stat.uid == geteuid() || faccessat(e->fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		       ? TREE_WALK_GO
		       : -EXDEV;
}

/* ---- 1: further names ---- */

/* The command may have been killed meanwhile. */
static int go_on(const char *path, const struct tree_stat *from, int from_dir, const char *from_name,
		 const struct tree_stat *to, int to_dir, const char *to_name, void *arg)
{
	const struct tree_move *m = arg;

	return m->is_wanted(m->arg) ? 0 : -ECANCELED;
}

/* What was removed after it got its further name, or is called otherwise now. */
static int drop_vanished(const struct tree_entry *e, void *arg)
{
	const int *from = arg;
	AUTO_FD parent = -EBADF;
	const char *name;
	struct stat st;
	int r = fd_open_parent(*from, e->path, &parent, &name);

	if (r == 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return TREE_WALK_GO;
	r = S_ISDIR(e->stat.mode) ? tree_remove(e->dirfd, e->name) : sys_unlink(e->dirfd, e->name, 0);
	return r < 0 ? r : TREE_WALK_SKIP;
}

static int make_new(const struct tree_move *m, int from, int place)
{
	const struct tree_copy_hooks hooks = { .copied = go_on, .arg = (void *)m };
	struct tree_copy_report report = { 0 };
	AUTO_FD fd = -EBADF;
	int r = sys_mkdir(place, NEW, 0700);

	if (r < 0)
		return r;
	fd = fd_open_beneath(place, NEW, O_RDONLY | O_DIRECTORY);
	r = fd < 0 ? fd : tree_copy(from, fd, TREE_COPY_KEEP_SET_ID | TREE_COPY_LINK, &hooks, &report, NULL);
	/* Files of others, for whom there is no further name. */
	if (r == -EPERM || r == -EMLINK || r == -EOVERFLOW || (r == 0 && (report.owner_lost || report.xattrs_lost)))
		return -EXDEV;
	return r < 0 ? r : tree_walk(fd, TREE_WALK_NO_ROOT, drop_vanished, &from, NULL);
}

/* ---- 3: taking the old one away ---- */

struct drain {
	int to, place; /* the new directory, and the private one */
	bool again;    /* something was added */
	int stale;     /* how often the overlay had something else in mind than was there */
};

/* Whether what was taken is what the new place has already: the same inode, or another name of what were links to one file in the original,
 * of which the overlay makes several when they are written. */
static bool is_there(const struct drain *d, const struct tree_entry *e, int parent, const char *name)
{
	struct stat st, taken;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(d->place, TAKEN, &taken, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISLNK(st.st_mode) && S_ISLNK(taken.st_mode))
		return tree_same_target(d->place, TAKEN, parent, name) == 1;
	if (st.st_dev == taken.st_dev && st.st_ino == taken.st_ino)
		return true;
	return e->stat.nlink > 1 && S_ISREG(taken.st_mode) && st.st_mode == taken.st_mode &&
	       st.st_size == taken.st_size && st.st_mtim.tv_sec == taken.st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == taken.st_mtim.tv_nsec;
}

/* To the new place, or back to the old one: an overlay refuses either for an instant when others rename there too (ESTALE). */
static int put_taken(const struct drain *d, const struct tree_entry *e, int parent, const char *name)
{
	int r = 0;

	for (int i = 0; i < PUT_TRIES; i++) {
		r = sys_rename(d->place, TAKEN, parent, name, 0);
		if (r == 0 || sys_rename(d->place, TAKEN, e->dirfd, e->name, RENAME_NOREPLACE) == 0)
			return r;
	}
	return r;
}

static int take(struct drain *d, const struct tree_entry *e)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	int r = fd_open_parent(d->to, e->path, &parent, &name);

	if (r < 0)
		return r;
	r = sys_rename(e->dirfd, e->name, d->place, TAKEN, 0);
	if (r == 0)
		r = is_there(d, e, parent, name) ? sys_unlink(d->place, TAKEN, 0) : put_taken(d, e, parent, name);
	if (r == -ESTALE)
		d->stale++;
	return r == -ENOENT || (r == -ESTALE && d->stale < STALE_MAX) ? 0 : r;
}

/* One that was made meanwhile goes as it is. */
static int enter(struct drain *d, const struct tree_entry *e)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	struct stat st;
	int r = fd_open_parent(d->to, e->path, &parent, &name);

	if (r < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return r < 0 ? r : TREE_WALK_GO;
	r = sys_rename(e->dirfd, e->name, parent, name, 0);
	if (r == -ESTALE && d->stale++ < STALE_MAX)
		return TREE_WALK_SKIP;
	return r < 0 ? r : TREE_WALK_SKIP;
}

static int drain_visit(const struct tree_entry *e, void *arg)
{
	struct drain *d = arg;
	int r;

	if (!S_ISDIR(e->stat.mode)) {
		r = take(d, e);
		return r < 0 ? r : TREE_WALK_GO;
	}
	if (!e->leaving)
		return enter(d, e);
	r = sys_unlink(e->dirfd, e->name, AT_REMOVEDIR);
	d->again |= r == -ENOTEMPTY || r == -EEXIST;
	return r < 0 && r != -ENOENT && !d->again ? r : TREE_WALK_GO;
}

static int drain(const struct tree_move *m, int from, int place)
{
	struct drain d = { .place = place };
	AUTO_FD to = fd_open_beneath(m->to_dir, m->to_name, O_RDONLY | O_DIRECTORY);
	int r = to < 0 ? to : 0;

	d.to = to;
	for (int i = 0; i < DRAIN_MAX && r == 0; i++) {
		d.again = false;
		r = tree_walk(from, TREE_WALK_LEAVING | TREE_WALK_NO_ROOT, drain_visit, &d, NULL);
		if (r < 0 || d.again)
			continue;
		r = sys_unlink(m->from_dir, m->from_name, AT_REMOVEDIR);
		if (r != -ENOTEMPTY && r != -EEXIST)
			return r;
		r = 0;
	}
	return r < 0 ? r : -EBUSY;
}

/* ---- all of it ---- */

/* As if nothing had been tried, unless somebody else was there too. */
static void put_time_back(int dir, const struct tree_stat *before, const struct tree_stat *during)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_mtime(before) };

	if (before->mtime != during->mtime)
		(void)sys_utimens(dir, "", times);
}

/* Nobody else would do it, unless the run is killed. */
static void remove_place(const struct tree_move *m)
{
	for (int i = 0; i < REMOVE_TRIES && tree_remove(m->to_dir, m->name) < 0; i++)
		;
}

static int move_with(const struct tree_move *m, int from)
{
	struct tree_stat before = { 0 }, during = { 0 }, now = { 0 };
	AUTO_FD place = -EBADF;
	int r = tree_stat(m->to_dir, "", &before);

	if (r == 0)
		r = sys_mkdir(m->to_dir, m->name, 0700);
	if (r < 0)
		return r;
	(void)tree_stat(m->to_dir, "", &during);
	place = fd_open_beneath(m->to_dir, m->name, O_RDONLY | O_DIRECTORY);
	r = place < 0 ? place : make_new(m, from, place);
	if (r == 0)
		r = sys_rename(place, NEW, m->to_dir, m->to_name, m->flags & RENAME_NOREPLACE);
	if (r == 0) {
		r = drain(m, from, place);
		remove_place(m);
		return r;
	}
	(void)tree_stat(m->to_dir, "", &now);
	remove_place(m);
	if (now.mtime == during.mtime)
		put_time_back(m->to_dir, &before, &during);
	return r;
}

int tree_move_check(int dir, const char *name)
{
	AUTO_FD fd = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY);

	if (fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	return fd < 0 ? fd : tree_walk(fd, 0, check_movable, NULL, NULL);
}

int tree_move(const struct tree_move *m)
{
	AUTO_FD from = -EBADF;
	int r;

	if (m->flags & RENAME_EXCHANGE)
		return tree_move_exchange(m);
	from = fd_open_beneath(m->from_dir, m->from_name, O_RDONLY | O_DIRECTORY);
	r = check_target(m);
	sys_fault_mark("move");
	if (r == 0)
		r = from < 0 ? from : tree_walk(from, 0, check_movable, NULL, NULL);
	return r < 0 ? r : move_with(m, from);
}
