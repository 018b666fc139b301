/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work area of a SQLite resource:
 *
 *	upper/NAME                          the clone that is worked on, in the overlay's upper layer
 *	mask/NAME-wal, -shm, -journal       whiteouts: those of the original beside it would be taken for the clone's
 *	upper/NAME-wal and so on            likewise, or those of the clone
 *	db-N/base                           another clone, as it was then: what the edits are told by
 *	db-N/untouched                      what the clone's inode looked like when it was put there
 *	db-N/original                       how the original looked when the base was the same; absent: not known
 *	db-N/clone.new, base.new            both until they are renamed to their places, the clone first
 *	db-N/clone.later                    the clone is not there yet: it will be a copy of the base (of no guest)
 *	db-N/look-UUID/                     while somebody looks
 *
 * Databases of one directory share the area, for there is one view of the directory; N is a database's place among their names.
 *
 * A guest has the area of its host. Its clone lies in the host's workspace, at its place there, and N is "s" and the number of the resource. A
 * workspace that is a whole tree needs no whiteouts; what was copied into it beside the database is removed.
 */
#include "strategy/sqlite-place.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

#define CLONE_NEW "clone.new"
#define BASE_NEW "base.new"
#define BASE_MOVED "base.moved"
#define LATER "clone.later"
#define UNTOUCHED "untouched"
#define SEEN "original"
#define SEEN_NEW "original.new"

const char *const sqlite_place_beside[] = { "-wal", "-shm", "-journal", SQLITE_ARRIVING, NULL };
#define N_HIDDEN 3

/* The resources of a sandbox stay what they are, and so does the order of their names. */
static size_t rank(const struct resource *r, const char *name)
{
	size_t n = strcmp(r->only, name) < 0;

	for (size_t i = 0; i < r->n_siblings; i++)
		n += strcmp(r->siblings[i], name) < 0;
	return n;
}

/* The database's directory, as the host knows it. */
static const char *below_host(const struct resource *r)
{
	size_t size = strlen(r->host->root_path);

	if (size == 1)
		size = 0;
	return r->root_path + size + (r->root_path[size] == '/');
}

int sqlite_place_open(struct sqlite_place *p, const struct resource *r, const char *name, struct atoll_error *err)
{
	const char *below = r->host ? below_host(r) : "";
	char dir[32];

	*p = (struct sqlite_place){ r, name, NULL, NULL, -EBADF };
	p->label = str_format("%s/%s", strcmp(r->root_path, "/") == 0 ? "" : r->root_path, name);
	p->seat = str_format("%s%s%s", r->host ? r->host->ops->workspace : OVERLAY_UPPER, *below ? "/" : "", below);
	if (!p->label || !p->seat)
		return error_oom(err, "database");
	if (r->host)
		snprintf(dir, sizeof dir, "db-s%d", r->row.seq);
	else
		snprintf(dir, sizeof dir, "db-%zu", rank(r, name));
	p->fd = fd_make_path(r->work_fd, dir);
	return p->fd < 0 ? error_sys(err, p->fd, "database", p->label, "cannot open the work area of \"%s\" in \"%s\"",
				     p->label, r->row.work)
			 : 0;
}

void sqlite_place_close(struct sqlite_place *p)
{
	p->fd = fd_close(p->fd);
	free(p->label);
	free(p->seat);
	p->label = p->seat = NULL;
}

int sqlite_place_seat(const struct sqlite_place *p)
{
	return fd_open_beneath(p->r->work_fd, p->seat, O_RDONLY | O_DIRECTORY);
}

struct sqlite_file sqlite_place_file(int dirfd, const char *name, const char *label)
{
	return (struct sqlite_file){ dirfd, name, label, SQLITE_BUSY_MS };
}

struct sqlite_file sqlite_place_original(const struct sqlite_place *p)
{
	return sqlite_place_file(p->r->root_fd, p->name, p->label);
}

static int fail(const struct sqlite_place *p, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "database", p->label, "cannot make the copy of \"%s\" in \"%s\"", p->label,
			 p->r->row.work);
}

/* ---- a fresh clone ---- */

static int unlink_if_there(int dirfd, const char *name)
{
	int rc = sys_unlink(dirfd, name, 0);

	return rc == -ENOENT ? 0 : rc;
}

/* What a kill has left of an earlier attempt. The base goes first: alone it would say that its clone is in place. */
static int remove_new(const struct sqlite_place *p)
{
	static const char *const names[] = { SEEN_NEW,  BASE_NEW "-journal",   BASE_NEW,  CLONE_NEW "-journal",
					     CLONE_NEW, BASE_MOVED "-journal", BASE_MOVED };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc >= 0; i++)
		rc = unlink_if_there(p->fd, names[i]);
	return rc;
}

/* What is known of the base and of the clone, before one of them becomes another. */
static int forget(const struct sqlite_place *p)
{
	int rc = unlink_if_there(p->fd, SEEN);

	return rc < 0 ? rc : unlink_if_there(p->fd, UNTOUCHED);
}

static bool is_there(const struct sqlite_place *p, const char *name)
{
	return faccessat(p->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* After a kill between the two renames. */
static int finish_renames(const struct sqlite_place *p)
{
	return is_there(p, BASE_NEW) && !is_there(p, CLONE_NEW) ? sys_rename(p->fd, BASE_NEW, p->fd, SQLITE_BASE, 0)
								: 0;
}

/* Into an empty file if there is one. */
static int copy_file(int dirfd, const char *from_name, int to_dir, const char *to_name)
{
	AUTO_FD from = fd_open_beneath(dirfd, from_name, O_RDONLY);
	AUTO_FD to = from < 0 ? from : sys_open(to_dir, to_name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
	struct stat st;

	if (to < 0)
		return to;
	return fstat(from, &st) < 0 ? -errno : tree_copy_data(from, to, (uint64_t)st.st_size);
}

/* The original is only looked at by a path: to close a file that was opened for reading drops locks that this very process may hold on it. */
static int copy_looks(const struct sqlite_place *p, int dirfd, const char *name)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD from = fd_open_beneath(p->r->root_fd, p->name, O_PATH);
	AUTO_FD to = fd_open_beneath(dirfd, name, O_RDONLY);
	struct tree_stat st;
	bool kept;
	int rc = from < 0 ? from : to < 0 ? to : tree_stat(from, "", &st);

	if (rc >= 0)
		rc = tree_xattrs_read(from, resource_marks(p->r), &x);
	if (rc >= 0)
		rc = tree_xattrs_write(to, resource_marks(p->r), &x);
	if (rc == -ENOTSUP || rc == -EPERM)
		rc = 0;
	return rc < 0 ? rc : tree_set_meta(dirfd, name, &st, false, &kept);
}

bool sqlite_place_is_layered(const struct resource *r)
{
	return !r->host || (r->host->ops->capabilities & STRATEGY_LAYERED);
}

/* Hides one of the original's, whatever a run has put there. In a whole tree there is none of the original's to be hidden. */
static int hide(const struct sqlite_place *p, int seat, const char *suffix)
{
	AUTO_FREE char *name = str_format("%s%s", p->name, suffix);
	int rc = name ? unlink_if_there(p->fd, "whiteout.new") : -ENOMEM;

	if (rc >= 0 && sqlite_place_is_layered(p->r))
		rc = sys_whiteout(p->fd, "whiteout.new");
	if (rc >= 0)
		rc = tree_remove(seat, name);
	return rc < 0 || !sqlite_place_is_layered(p->r) ? rc : sys_rename(p->fd, "whiteout.new", seat, name, 0);
}

static int look_at(const struct sqlite_place *p, const char *suffix, struct strbuf *ret)
{
	AUTO_FREE char *path = str_format("%s/%s%s", p->seat, p->name, suffix);
	AUTO_FD fd = path ? fd_open_beneath(p->r->work_fd, path, O_PATH) : -ENOMEM;
	struct tree_stat st;
	int rc = fd < 0 ? fd : tree_stat(fd, "", &st);

	if (rc >= 0)
		strbuf_addf(ret, "%llu %llu %lld %lld\n", (unsigned long long)st.ino, (unsigned long long)st.size,
			    (long long)st.mtime, (long long)st.ctime);
	return rc < 0 ? rc : ret->failed ? -ENOMEM : 0;
}

char *sqlite_place_state(const struct sqlite_place *p)
{
	static const char *const parts[] = { "", "-wal", "-journal" };
	AUTO_STRBUF state = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int rc = look_at(p, parts[i], &state);

		if (rc < 0)
			strbuf_addf(&state, "%d\n", rc);
	}
	return state.failed ? NULL : strbuf_take(&state);
}

int sqlite_place_carry(int from_dir, const char *from_name, int to_dir, const char *to_name)
{
	int rc = sys_rename(from_dir, from_name, to_dir, to_name, 0);
	AUTO_FD fd = -EBADF;

	if (rc != -EXDEV)
		return rc;
	rc = copy_file(from_dir, from_name, to_dir, to_name);
	if (rc >= 0)
		rc = fd = fd_open_beneath(to_dir, to_name, O_RDWR);
	return rc < 0 ? rc : sys_fsync(fd);
}

/* After a moment from which on every change of the clone has another time. */
int sqlite_place_note_untouched(const struct sqlite_place *p)
{
	AUTO_STRBUF look = STRBUF_INIT;
	AUTO_FD fd = -EBADF;
	int64_t stamp;
	int rc = look_at(p, "", &look);

	if (rc >= 0)
		rc = tree_stamp(p->fd, &stamp);
	if (rc >= 0)
		rc = unlink_if_there(p->fd, UNTOUCHED);
	if (rc >= 0)
		rc = fd = sys_open(p->fd, UNTOUCHED, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	return rc < 0 ? rc : sys_write(fd, look.data, look.size);
}

/* The directory in the workspace that the clone goes to; of a host there may be nothing yet. */
static int make_seat(const struct sqlite_place *p)
{
	AUTO_FD workspace = -EBADF;
	AUTO_FREE char *path = NULL;
	int rc = 0;

	if (p->r->host) {
		workspace = fd_open_beneath(p->r->work_fd, p->r->host->ops->workspace, O_RDONLY | O_DIRECTORY);
		path = str_format("%s%s%s", below_host(p->r), *below_host(p->r) ? "/" : "", p->name);
		rc = !path ? -ENOMEM : workspace < 0 ? workspace : guest_make_parents(p->r->host, workspace, path);
	}
	return rc < 0 ? rc : sqlite_place_seat(p);
}

/* In the upper layer alone the whiteouts would go with the first file that SQLite makes and removes there while the original has none. */
static int make_mask(const struct sqlite_place *p)
{
	const char *below = p->r->host ? below_host(p->r) : "";
	AUTO_FREE char *path = str_format("%s%s%s", below, *below ? "/" : "", p->name);
	AUTO_FREE char *dir = str_format("%s%s%s", OVERLAY_MASK, *below ? "/" : "", below);
	AUTO_FD mask = fd_make_path(p->r->work_fd, OVERLAY_MASK);
	AUTO_FD at = -EBADF;
	int rc = !path || !dir ? -ENOMEM : mask;

	if (rc >= 0 && p->r->host)
		rc = guest_make_parents(p->r->host, mask, path);
	if (rc >= 0)
		rc = at = fd_open_beneath(p->r->work_fd, dir, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < N_HIDDEN && rc >= 0; i++) {
		AUTO_FREE char *name = str_format("%s%s", p->name, sqlite_place_beside[i]);

		rc = name ? sys_whiteout(at, name) : -ENOMEM;
		rc = rc == -EEXIST ? 0 : rc;
	}
	return rc < 0 ? rc : sys_fsync(at);
}

/* A workspace may be a filesystem of its own as far as renaming goes (a subvolume). The name in between is known to be the database's. */
static int carry(const struct sqlite_place *p, int seat)
{
	AUTO_FREE char *arriving = str_format("%s%s", p->name, SQLITE_ARRIVING);
	int rc = arriving ? unlink_if_there(seat, arriving) : -ENOMEM;

	if (rc >= 0)
		rc = copy_file(p->fd, CLONE_NEW, seat, arriving);
	if (rc >= 0)
		rc = copy_looks(p, seat, arriving);
	if (rc >= 0)
		rc = sys_rename(seat, arriving, seat, p->name, 0);
	if (rc >= 0)
		rc = sys_fsync(seat);
	return rc < 0 ? rc : sys_unlink(p->fd, CLONE_NEW, 0);
}

static int put_clone(const struct sqlite_place *p, int seat)
{
	int rc = copy_looks(p, p->fd, CLONE_NEW);

	/* Whatever a run has made of it: a directory is not renamed over. */
	if (rc >= 0)
		rc = tree_remove(seat, p->name);
	if (rc >= 0)
		rc = sys_rename(p->fd, CLONE_NEW, seat, p->name, 0);
	return rc == -EXDEV ? carry(p, seat) : rc;
}

/* The times of a host's directory are edits of its own, or those of the original. */
static int put_in_seat(const struct sqlite_place *p, int seat)
{
	struct tree_stat st;
	int rc = tree_stat(seat, "", &st);

	for (size_t i = 0; i < N_HIDDEN && rc >= 0; i++)
		rc = hide(p, seat, sqlite_place_beside[i]);
	if (rc >= 0)
		rc = put_clone(p, seat);
	if (rc >= 0 && p->r->host) {
		const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_mtime(&st) };

		rc = sys_utimens(seat, "", times);
	}
	return rc;
}

static bool is_later(const struct sqlite_place *p)
{
	AUTO_FREE char *path = str_format("%s/%s", p->seat, p->name);

	return path && is_there(p, LATER) && faccessat(p->r->work_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

/* Nothing is there until a view needs it. */
static int clear_seat(const struct sqlite_place *p, int seat)
{
	int rc = 0;

	for (size_t i = 0; i < N_HIDDEN && rc >= 0; i++)
		rc = hide(p, seat, sqlite_place_beside[i]);
	if (rc >= 0)
		rc = tree_remove(seat, p->name);
	return rc < 0 ? rc : sys_rename(p->fd, CLONE_NEW, p->fd, LATER, 0);
}

static int put_in_place(const struct sqlite_place *p)
{
	AUTO_FD seat = make_seat(p);
	int rc = seat < 0 ? seat : sqlite_place_is_layered(p->r) ? make_mask(p) : 0;

	if (rc >= 0)
		rc = p->r->host ? put_in_seat(p, seat) : clear_seat(p, seat);
	if (rc >= 0)
		rc = sys_rename(p->fd, BASE_NEW, p->fd, SQLITE_BASE, 0);
	if (rc >= 0 && is_there(p, SEEN_NEW))
		rc = sys_rename(p->fd, SEEN_NEW, p->fd, SEEN, 0);
	if (rc >= 0)
		rc = sys_fsync(seat);
	if (rc >= 0)
		rc = sys_fsync(p->fd);
	return rc < 0 || !p->r->host ? rc : sqlite_place_note_untouched(p);
}

static int write_text(const struct sqlite_place *p, const char *name, const char *text)
{
	AUTO_FD fd = sys_open(p->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);

	return fd < 0 ? fd : sys_write(fd, text, strlen(text));
}

char *sqlite_place_seen(const struct sqlite_place *p)
{
	char *seen = NULL;

	return fd_read_file(p->fd, SEEN, 512, &seen, NULL) < 0 ? NULL : seen;
}

int sqlite_place_note_seen(const struct sqlite_place *p, const char *seen)
{
	int rc = unlink_if_there(p->fd, SEEN);

	if (rc >= 0)
		rc = unlink_if_there(p->fd, SEEN_NEW);
	if (rc < 0 || !seen)
		return rc;
	rc = write_text(p, SEEN_NEW, seen);
	return rc < 0 ? rc : sys_rename(p->fd, SEEN_NEW, p->fd, SEEN, 0);
}

/* The stage is where the original is. */
int sqlite_place_stamp_fd(const struct sqlite_place *p)
{
	return p->r->stage_fd >= 0 ? p->r->stage_fd : p->fd;
}

/* Before the copy is begun: what others write during it or later is seen by it. */
static int look_at_original(const struct sqlite_place *p)
{
	struct sqlite_file original = sqlite_place_original(p);
	AUTO_FREE char *seen = NULL;
	int rc = sqlite_seen(&original, sqlite_place_stamp_fd(p), &seen);

	return rc < 0 || !seen ? rc : write_text(p, SEEN_NEW, seen);
}

/* A clone is in the journal mode of the original; the base has no log. */
static int make_clone(const struct sqlite_place *p, const char *base, bool log, struct atoll_error *err)
{
	struct sqlite_file clone = sqlite_place_file(p->fd, CLONE_NEW, p->label);
	int rc = copy_file(p->fd, base, p->fd, CLONE_NEW);

	if (rc < 0)
		return fail(p, rc, err);
	return log ? sqlite_set_log(&clone, true, err) : 0;
}

/* The file that stands for the clone is there before the base: a base without it would say that the clone is in its place. */
int sqlite_place_clone(const struct sqlite_place *p, struct atoll_error *err)
{
	struct sqlite_file original = sqlite_place_original(p), base = sqlite_place_file(p->fd, BASE_NEW, p->label);
	AUTO_FD later = -EBADF;
	int rc = finish_renames(p);
	int log;

	if (rc >= 0)
		rc = forget(p);
	if (rc >= 0)
		rc = remove_new(p);
	if (rc >= 0)
		rc = look_at_original(p);
	if (rc >= 0)
		rc = later = sys_open(p->fd, CLONE_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (rc < 0)
		return fail(p, rc, err);
	rc = sqlite_clone(&original, &base, err);
	rc = log = rc < 0 ? rc : sqlite_set_log(&base, false, err);
	if (rc < 0)
		return rc;
	if (p->r->host)
		return make_clone(p, BASE_NEW, log, err);
	rc = sys_write(later, log ? "wal" : "", log ? 3 : 0);
	return rc < 0 ? fail(p, rc, err) : 0;
}

static int put_later(const struct sqlite_place *p, struct atoll_error *err)
{
	struct sqlite_file base = sqlite_place_file(p->fd, SQLITE_BASE, p->label);
	AUTO_FREE char *mode = NULL;
	AUTO_FD seat = make_seat(p);
	int rc = seat < 0 ? seat : fd_read_file(p->fd, LATER, 16, &mode, NULL);

	if (rc >= 0)
		rc = remove_new(p);
	if (rc < 0)
		return fail(p, rc, err);
	rc = sqlite_probe(&base, false, err); /* rolls back what a killed process has left in it */
	if (rc >= 0)
		rc = make_clone(p, SQLITE_BASE, strcmp(mode, "wal") == 0, err);
	if (rc < 0)
		return rc;
	rc = put_in_seat(p, seat);
	if (rc >= 0)
		rc = sqlite_place_note_untouched(p);
	if (rc >= 0)
		rc = sys_fsync(seat);
	return rc < 0 ? fail(p, rc, err) : 0;
}

int sqlite_place_ready(const struct sqlite_place *p, struct atoll_error *err)
{
	int rc = finish_renames(p);

	if (rc < 0)
		return fail(p, rc, err);
	if (!is_there(p, LATER))
		return 0;
	if (is_later(p)) {
		rc = put_later(p, err);
		if (rc < 0)
			return rc;
	}
	/* Durable before a command writes to the clone: it would be made again otherwise. */
	rc = sys_unlink(p->fd, LATER, 0);
	if (rc >= 0)
		rc = sys_fsync(p->fd);
	return rc < 0 ? fail(p, rc, err) : 0;
}

int sqlite_place_put(const struct sqlite_place *p, struct atoll_error *err)
{
	int rc = put_in_place(p);

	return rc < 0 ? fail(p, rc, err) : 0;
}

/* ---- whether it was touched ---- */

static bool has_beside(const struct sqlite_place *p, const char *suffix)
{
	AUTO_FREE char *path = str_format("%s/%s%s", p->seat, p->name, suffix);
	struct stat st;

	return !path ||
	       (fstatat(p->r->work_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size > 0);
}

bool sqlite_place_is_untouched(const struct sqlite_place *p)
{
	AUTO_FREE char *noted = NULL;
	AUTO_STRBUF look = STRBUF_INIT;

	if (is_later(p))
		return true;
	if (has_beside(p, "-wal") || has_beside(p, "-journal"))
		return false;
	return fd_read_file(p->fd, UNTOUCHED, 256, &noted, NULL) >= 0 && look_at(p, "", &look) >= 0 &&
	       strcmp(noted, strbuf_str(&look)) == 0;
}

/* ---- when edits land, or come back ---- */

/* By a copy that takes the base's place. */
static int move_image(const struct sqlite_place *p, int dir_fd, const char *image, struct atoll_error *err)
{
	struct sqlite_file base = sqlite_place_file(p->fd, BASE_MOVED, p->label);
	int rc = copy_file(dir_fd, image, p->fd, BASE_MOVED);

	if (rc < 0)
		return fail(p, rc, err);
	rc = sqlite_adapt(&base, &base, err);
	if (rc < 0)
		return rc;
	rc = sys_rename(p->fd, BASE_MOVED, p->fd, SQLITE_BASE, 0);
	if (rc >= 0)
		rc = sys_fsync(p->fd);
	return rc < 0 ? fail(p, rc, err) : 0;
}

/* Rows go to the base itself, in a transaction of SQLite's: the work is in proportion to the edits. force: whatever somebody else may have
 * made of their rows before the base was copied. */
int sqlite_place_move_base(const struct sqlite_place *p, int dir_fd, bool forward, struct atoll_error *err)
{
	struct sqlite_file base = sqlite_place_file(p->fd, SQLITE_BASE, p->label),
			   edits = sqlite_place_file(dir_fd, "edits", p->label);
	const char *image = forward ? "new" : "old";
	int rc = sqlite_place_ready(p, err); /* a clone is what the base was when it was put there */

	if (rc < 0)
		return rc;
	rc = forget(p);
	if (rc >= 0)
		rc = remove_new(p);
	if (rc < 0)
		return fail(p, rc, err);
	if (faccessat(dir_fd, image, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return move_image(p, dir_fd, image, err);
	return sqlite_edits_move(&base, &edits, forward, true, NULL, err);
}
