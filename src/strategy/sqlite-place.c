/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work area of a SQLite resource:
 *
 *	upper/NAME                          the clone that is worked on, in the overlay's upper layer
 *	upper/NAME-wal, -shm, -journal      whiteouts: those of the original beside it would be taken for the clone's
 *	base                                another clone, as it was then: what the edits are told by
 *	untouched                           what the clone's inode looked like when it was put there
 *	clone.new, base.new                 both until they are renamed to their places, the clone first
 *	look-UUID/                          while somebody looks
 */
#include "strategy/sqlite-place.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"

#define CLONE_NEW "clone.new"
#define BASE_NEW "base.new"
#define BASE_MOVED "base.moved"
#define UNTOUCHED "untouched"
#define LOOK "look-"

static const char *const beside[] = { "-wal", "-shm", "-journal" };

struct sqlite_file sqlite_place_file(int dirfd, const char *name, const struct resource *r)
{
	return (struct sqlite_file){ dirfd, name, r->row.path, SQLITE_BUSY_MS };
}

struct sqlite_file sqlite_place_original(const struct resource *r)
{
	return sqlite_place_file(r->root_fd, r->only, r);
}

static int fail(const struct resource *r, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "database", r->row.path, "cannot make the copy of \"%s\" in \"%s\"", r->row.path,
			 r->row.work);
}

/* ---- a fresh clone ---- */

static int unlink_if_there(int dirfd, const char *name)
{
	int rc = sys_unlink(dirfd, name, 0);

	return rc == -ENOENT ? 0 : rc;
}

/* What a kill has left of an earlier attempt. The base goes first: alone it would say that its clone is in place. */
static int remove_new(const struct resource *r)
{
	static const char *const names[] = { UNTOUCHED, BASE_NEW "-journal",   BASE_NEW,  CLONE_NEW "-journal",
					     CLONE_NEW, BASE_MOVED "-journal", BASE_MOVED };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc >= 0; i++)
		rc = unlink_if_there(r->work_fd, names[i]);
	return rc;
}

static bool is_there(const struct resource *r, const char *name)
{
	return faccessat(r->work_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* After a kill between the two renames. */
static int finish_renames(const struct resource *r)
{
	return is_there(r, BASE_NEW) && !is_there(r, CLONE_NEW)
		       ? sys_rename(r->work_fd, BASE_NEW, r->work_fd, SQLITE_BASE, 0)
		       : 0;
}

static int copy_file(int dirfd, const char *from_name, int to_dir, const char *to_name)
{
	AUTO_FD from = fd_open_beneath(dirfd, from_name, O_RDONLY);
	AUTO_FD to = from < 0 ? from : sys_open(to_dir, to_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	struct stat st;

	if (to < 0)
		return to;
	return fstat(from, &st) < 0 ? -errno : tree_copy_data(from, to, (uint64_t)st.st_size);
}

/* The original is only looked at by a path: to close a file that was opened for reading drops locks that this very process may hold on it. */
static int copy_looks(const struct resource *r, const char *name)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD from = fd_open_beneath(r->root_fd, r->only, O_PATH);
	AUTO_FD to = fd_open_beneath(r->work_fd, name, O_RDONLY);
	struct tree_stat st;
	bool kept;
	int rc = from < 0 ? from : to < 0 ? to : tree_stat(from, "", &st);

	if (rc >= 0)
		rc = tree_xattrs_read(from, &x);
	if (rc >= 0)
		rc = tree_xattrs_write(to, &x);
	if (rc == -ENOTSUP || rc == -EPERM)
		rc = 0;
	return rc < 0 ? rc : tree_set_meta(r->work_fd, name, &st, false, &kept);
}

/* Hides one of the original's, whatever a run has put there. */
static int hide(const struct resource *r, int upper, const char *suffix)
{
	AUTO_FREE char *name = str_format("%s%s", r->only, suffix);
	int rc = name ? unlink_if_there(r->work_fd, "whiteout.new") : -ENOMEM;

	if (rc >= 0)
		rc = sys_whiteout(r->work_fd, "whiteout.new");
	if (rc >= 0)
		rc = tree_remove(upper, name);
	return rc < 0 ? rc : sys_rename(r->work_fd, "whiteout.new", upper, name, 0);
}

static int look_at_clone(const struct resource *r, struct strbuf *ret)
{
	AUTO_FREE char *path = str_format("%s/%s", OVERLAY_UPPER, r->only);
	AUTO_FD fd = path ? fd_open_beneath(r->work_fd, path, O_PATH) : -ENOMEM;
	struct tree_stat st;
	int rc = fd < 0 ? fd : tree_stat(fd, "", &st);

	if (rc >= 0)
		strbuf_addf(ret, "%llu %llu %lld %lld\n", (unsigned long long)st.ino, (unsigned long long)st.size,
			    (long long)st.mtime, (long long)st.ctime);
	return rc < 0 ? rc : ret->failed ? -ENOMEM : 0;
}

/* After a moment from which on every change of the clone has another time. */
static int note_untouched(const struct resource *r)
{
	AUTO_STRBUF look = STRBUF_INIT;
	AUTO_FD fd = -EBADF;
	int64_t stamp;
	int rc = look_at_clone(r, &look);

	if (rc >= 0)
		rc = tree_stamp(r->work_fd, &stamp);
	if (rc >= 0)
		rc = fd = sys_open(r->work_fd, UNTOUCHED, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	return rc < 0 ? rc : sys_write(fd, look.data, look.size);
}

static int put_in_place(const struct resource *r)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	int rc = upper;

	for (size_t i = 0; i < ARRAY_SIZE(beside) && rc >= 0; i++)
		rc = hide(r, upper, beside[i]);
	if (rc >= 0)
		rc = copy_looks(r, CLONE_NEW);
	/* Whatever a run has made of it: a directory is not renamed over. */
	if (rc >= 0)
		rc = tree_remove(upper, r->only);
	if (rc >= 0)
		rc = sys_rename(r->work_fd, CLONE_NEW, upper, r->only, 0);
	if (rc >= 0)
		rc = sys_rename(r->work_fd, BASE_NEW, r->work_fd, SQLITE_BASE, 0);
	if (rc >= 0)
		rc = sys_fsync(upper);
	if (rc >= 0)
		rc = sys_fsync(r->work_fd);
	return rc < 0 ? rc : note_untouched(r);
}

int sqlite_place_clone(struct resource *r, struct atoll_error *err)
{
	struct sqlite_file original = sqlite_place_original(r), base = sqlite_place_file(r->work_fd, BASE_NEW, r),
			   clone = sqlite_place_file(r->work_fd, CLONE_NEW, r);
	int rc = finish_renames(r);

	if (rc >= 0)
		rc = remove_new(r);
	if (rc < 0)
		return fail(r, rc, err);
	rc = sqlite_clone(&original, &clone, err);
	if (rc < 0)
		return rc;
	rc = copy_file(r->work_fd, CLONE_NEW, r->work_fd, BASE_NEW);
	if (rc < 0)
		return fail(r, rc, err);
	return sqlite_adapt(&base, &clone, err);
}

int sqlite_place_put(struct resource *r, struct atoll_error *err)
{
	int rc = put_in_place(r);

	return rc < 0 ? fail(r, rc, err) : 0;
}

/* ---- whether it was touched ---- */

static bool has_beside(const struct resource *r, const char *suffix)
{
	AUTO_FREE char *path = str_format("%s/%s%s", OVERLAY_UPPER, r->only, suffix);
	struct stat st;

	return !path ||
	       (fstatat(r->work_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size > 0);
}

bool sqlite_place_is_untouched(const struct resource *r)
{
	AUTO_FREE char *noted = NULL;
	AUTO_STRBUF look = STRBUF_INIT;

	if (has_beside(r, "-wal") || has_beside(r, "-journal"))
		return false;
	return fd_read_file(r->work_fd, UNTOUCHED, 256, &noted, NULL) >= 0 && look_at_clone(r, &look) >= 0 &&
	       strcmp(noted, strbuf_str(&look)) == 0;
}

/* ---- when edits land, or come back ---- */

/* force: whatever somebody else may have made of their rows before the clone was taken. */
static int move_rows(struct resource *r, int dir_fd, bool forward, struct atoll_error *err)
{
	struct sqlite_file base = sqlite_place_file(r->work_fd, BASE_MOVED, r),
			   edits = sqlite_place_file(dir_fd, "edits", r);
	int rc = copy_file(r->work_fd, SQLITE_BASE, r->work_fd, BASE_MOVED);

	return rc < 0 ? fail(r, rc, err) : sqlite_edits_move(&base, &edits, forward, true, NULL, err);
}

int sqlite_place_move_base(struct resource *r, int dir_fd, bool forward, struct atoll_error *err)
{
	struct sqlite_file base = sqlite_place_file(r->work_fd, BASE_MOVED, r);
	const char *image = forward ? "new" : "old";
	int rc = finish_renames(r);

	if (rc >= 0)
		rc = remove_new(r);
	if (rc < 0)
		return fail(r, rc, err);
	if (faccessat(dir_fd, image, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		rc = copy_file(dir_fd, image, r->work_fd, BASE_MOVED);
		rc = rc < 0 ? fail(r, rc, err) : 0;
	} else {
		rc = move_rows(r, dir_fd, forward, err);
	}
	if (rc >= 0)
		rc = sqlite_adapt(&base, &base, err);
	if (rc < 0)
		return rc;
	rc = sys_rename(r->work_fd, BASE_MOVED, r->work_fd, SQLITE_BASE, 0);
	if (rc >= 0)
		rc = sys_fsync(r->work_fd);
	return rc < 0 ? fail(r, rc, err) : 0;
}

/* ---- looking ---- */

int sqlite_place_look(struct sqlite_look *s, const struct resource *r, struct atoll_error *err)
{
	char unique[37];
	int rc;

	random_uuid(unique);
	snprintf(s->name, sizeof s->name, "%s%s", LOOK, unique);
	s->area_fd = r->work_fd;
	s->fd = -EBADF;
	rc = sys_mkdir(r->work_fd, s->name, 0700);
	if (rc >= 0)
		rc = s->fd = fd_open_beneath(r->work_fd, s->name, O_RDONLY | O_DIRECTORY);
	return rc < 0 ? fail(r, rc, err) : 0;
}

void sqlite_place_look_end(struct sqlite_look *s)
{
	s->fd = fd_close(s->fd);
	if (s->name[0])
		(void)tree_remove(s->area_fd, s->name);
	s->name[0] = 0;
}

void sqlite_place_drop_looks(const struct resource *r)
{
	AUTO_FD fd = fd_open_beneath(r->work_fd, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!dir)
		return;
	(void)TAKE_FD(fd);
	while ((e = readdir(dir)))
		if (strncmp(e->d_name, LOOK, strlen(LOOK)) == 0)
			(void)tree_remove(r->work_fd, e->d_name);
	closedir(dir);
}
