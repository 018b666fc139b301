/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: of a database in use, by SQLite's backup, and of one that nobody uses, with all that lies beside it. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/stop.h"
#include "base/sys.h"
#include "database/private.h"
#include "tree/tree.h"

#define OPERATION "database"

/* ---- whether it is one, and whole ---- */

/* Rows that a later rule of their table would refuse are no damage. A rule that needs a function of some program's own cannot be looked at. */
static bool is_damage(const char *line)
{
	return strcmp(line, "ok") != 0 && strncmp(line, "CHECK constraint failed", 23) != 0 &&
	       strncmp(line, "NULL value in", 13) != 0;
}

static int check_damage(struct sqlite_db *d, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r, rc = sqlite3_prepare_v2(d->db, "PRAGMA quick_check", -1, &stmt, NULL);

	if (rc == SQLITE_ERROR)
		return 0;
	if (rc != SQLITE_OK)
		return sqlite_fail(d, err);
	while ((r = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *line = (const char *)sqlite3_column_text(stmt, 0);

		if (line && is_damage(line))
			return sqlite_fail_code(SQLITE_CORRUPT, 0, line, d->label, err);
	}
	return r == SQLITE_DONE || (r & 0xff) == SQLITE_ERROR ? 0 : sqlite_fail(d, err);
}

int sqlite_probe(const struct sqlite_file *file, bool write, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int64_t n;
	int r = sqlite_open(file, write ? SQLITE_DB_WRITE : 0, &d, err);

	if (r >= 0)
		r = sqlite_int(d, &n, err, "SELECT count(*) FROM sqlite_schema");
	return r;
}

/* ---- online ---- */

/* So many pages at a time, so that writers are not kept waiting for all of it. Each write by somebody else begins it again: what has copied
 * three times as much as there is takes the rest in one go. */
#define PAGES 512

static int copy_pages(sqlite3_backup *b, int64_t end)
{
	int64_t copied = 0;
	int rc;

	do {
		bool patient = copied > 3 * (int64_t)sqlite3_backup_pagecount(b) + PAGES;

		rc = sqlite3_backup_step(b, patient ? -1 : PAGES);
		copied += PAGES;
		if ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && clock_monotonic_ns() < end) {
			sqlite3_sleep(1);
			rc = SQLITE_OK;
		}
	} while (rc == SQLITE_OK && stop_check() == 0);
	return rc == SQLITE_OK ? SQLITE_INTERRUPT : rc;
}

static int back_up(struct sqlite_db *from, struct sqlite_db *to, int busy_ms, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + (int64_t)busy_ms * 1000000;
	sqlite3_backup *b = sqlite3_backup_init(to->db, "main", from->db, "main");
	int rc;

	if (!b)
		return sqlite_fail(to, err);
	rc = copy_pages(b, end);
	sqlite3_backup_finish(b);
	if (rc == SQLITE_DONE)
		return 0;
	return sqlite_fail_code(rc, sqlite3_system_errno(to->db), sqlite3_errstr(rc), from->label, err);
}

static int make_durable(const struct sqlite_file *file, struct atoll_error *err)
{
	AUTO_FD fd = fd_open_beneath(file->dirfd, file->name, O_RDWR);
	int r = fd < 0 ? fd : sys_fsync(fd);

	return r < 0 ? error_sys(err, r, OPERATION, file->name, "cannot make the copy \"%s\" durable", file->name) : 0;
}

/* Made here, so that nobody else may read it, and none is there already. */
static int make_empty(const struct sqlite_file *file, struct atoll_error *err)
{
	AUTO_FD fd = sys_open(file->dirfd, file->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);

	return fd < 0 ? error_sys(err, fd, OPERATION, file->name, "cannot make the copy \"%s\"", file->name) : 0;
}

/* ---- by bytes ---- */

/* So much at a time: as long as that takes nobody else can write. */
#define BYTES (16U << 20)
#define PIECE (1U << 20)

/* FICLONE needs a descriptor of the file. To close one drops all locks that this process holds on the file, those of SQLite included: so a
 * child opens it. 0, or it could not. */
static int share_blocks(const struct sqlite_file *from, int to_fd)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		int fd = openat(from->dirfd, from->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		_exit(fd >= 0 && sys_clone_file(to_fd, fd) == 0 ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return pid > 0 && status == 0 ? 0 : -1;
}

struct bytes {
	struct sqlite_db *source;
	const struct sqlite_file *from;
	int fd, to_dir;  /* where they go */
	int64_t version; /* of the data; 0: nothing was read yet */
	sqlite3_int64 at, size;
	char *buffer;
};

static int share_blocks_if_possible(const struct bytes *b)
{
	struct stat from, to;

	if (fstatat(b->from->dirfd, b->from->name, &from, AT_SYMLINK_NOFOLLOW) < 0 || fstat(b->fd, &to) < 0 ||
	    from.st_dev != to.st_dev || !tree_can_share(b->to_dir, b->to_dir))
		return -1;
	return share_blocks(b->from, b->fd);
}

static bool log_is_empty(const struct sqlite_file *from)
{
	AUTO_FREE char *name = str_format("%s-wal", from->name);
	struct stat st;

	return name && (fstatat(from->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno == ENOENT : st.st_size == 0);
}

/* Within a transaction for reading, which keeps others from writing to the file; with a log, from writing to it what is in the log. 1, or 0 if
 * they have written since, or the log holds pages that the file does not. */
static int read_bytes(struct bytes *b, struct atoll_error *err)
{
	sqlite3_file *file = NULL;
	int64_t version = 0, n;
	sqlite3_int64 end;
	int rc, r = sqlite_int(b->source, &n, err, "SELECT count(*) FROM sqlite_schema");

	if (r >= 0)
		r = sqlite_int(b->source, &version, err, "PRAGMA main.data_version");
	if (r < 0)
		return r;
	if (!log_is_empty(b->from) || (b->at && version != b->version) ||
	    sqlite3_file_control(b->source->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
	    !file->pMethods || file->pMethods->xFileSize(file, &b->size) != SQLITE_OK)
		return 0;
	b->version = version;
	if (b->at == 0 && share_blocks_if_possible(b) == 0) {
		b->at = b->size;
		return 1;
	}
	for (end = MIN(b->size, b->at + BYTES); b->at < end; b->at += n) {
		n = MIN(end - b->at, (sqlite3_int64)PIECE);
		rc = file->pMethods->xRead(file, b->buffer, (int)n, b->at);
		if (rc != SQLITE_OK)
			return 0;
		rc = sys_write(b->fd, b->buffer, (size_t)n);
		if (rc < 0)
			return error_sys(err, rc, OPERATION, b->from->name, "cannot copy the database \"%s\"",
					 b->source->label);
	}
	return 1;
}

/* 1, or 0 if others do not let it come to an end. */
static int copy_bytes(struct sqlite_db *source, const struct sqlite_file *from, int fd, int to_dir,
		      struct atoll_error *err)
{
	AUTO_FREE char *buffer = malloc(PIECE);
	struct bytes b = { .source = source, .from = from, .fd = fd, .to_dir = to_dir, .buffer = buffer };
	int r = buffer ? 1 : error_oom(err, OPERATION);

	for (b.size = 1; r > 0 && b.at < b.size;) {
		r = sqlite_execute(source, err, "BEGIN");
		if (r >= 0)
			r = read_bytes(&b, err);
		sqlite_cancel(source);
	}
	return r;
}

/* By bytes if others let it, else by SQLite's backup. */
static int copy_pages_or_bytes(struct sqlite_db *source, const struct sqlite_file *from, const struct sqlite_file *to,
			       struct atoll_error *err)
{
	AUTO_FD fd = fd_open_beneath(to->dirfd, to->name, O_RDWR);
	AUTO_DB *target = NULL;
	int r = fd < 0 ? error_sys(err, fd, OPERATION, to->name, "cannot make the copy \"%s\"", to->name)
		       : copy_bytes(source, from, fd, to->dirfd, err);

	if (r != 0)
		return MIN(r, 0);
	r = sys_truncate(fd, 0);
	if (r < 0)
		return error_sys(err, r, OPERATION, to->name, "cannot make the copy \"%s\"", to->name);
	r = sqlite_open(to, SQLITE_DB_WRITE | SQLITE_DB_CREATE, &target, err);
	if (r >= 0)
		r = sqlite_execute(target, err, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF");
	return r < 0 ? r : back_up(source, target, from->busy_ms, err);
}

int sqlite_clone(const struct sqlite_file *from, const struct sqlite_file *to, struct atoll_error *err)
{
	AUTO_DB *source = NULL;
	int64_t n;
	int r = sqlite_open(from, 0, &source, err);

	if (r >= 0)
		r = sqlite_int(source, &n, err, "SELECT count(*) FROM sqlite_schema");
	if (r >= 0)
		r = make_empty(to, err);
	if (r >= 0)
		r = copy_pages_or_bytes(source, from, to, err);
	return r < 0 ? r : make_durable(to, err);
}

int sqlite_set_log(const struct sqlite_file *file, bool log, struct atoll_error *err)
{
	AUTO_FD fd = fd_open_beneath(file->dirfd, file->name, O_RDWR);
	unsigned char now[2], wanted[2] = { log ? 2 : 1, log ? 2 : 1 };
	ssize_t got = fd < 0 ? fd : pread(fd, now, sizeof now, 18);
	int r = got < 0 ? (fd < 0 ? fd : -errno) : 0;

	/* A database without a page yet has neither. */
	if (r < 0 || got < 2 || (now[0] == wanted[0] && now[1] == wanted[1]))
		return r < 0 ? error_sys(err, r, OPERATION, file->name, "cannot read the copy \"%s\"", file->name)
			     : got == 2 && now[0] == 2;
	r = lseek(fd, 18, SEEK_SET) < 0 ? -errno : sys_write(fd, wanted, sizeof wanted);
	if (r >= 0)
		r = sys_fsync(fd);
	return r < 0 ? error_sys(err, r, OPERATION, file->name, "cannot write the copy \"%s\"", file->name)
		     : now[0] == 2;
}

/* ---- at rest ---- */

/* A regular file or nothing: what else somebody put there (a link, a device, the overlay's whiteout) is not the database's. 1, 0 or -errno. */
static int copy_file(int from_dir, const char *from_name, int to_dir, const char *to_name)
{
	AUTO_FD from = fd_open_beneath(from_dir, from_name, O_PATH);
	AUTO_FD data = -EBADF, to = -EBADF;
	struct stat st;
	int r;

	if (from == -ENOENT || from == -ELOOP)
		return 0;
	if (from < 0 || fstat(from, &st) < 0)
		return from < 0 ? from : -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	data = fd_reopen(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	to = data < 0 ? data : sys_open(to_dir, to_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (to < 0)
		return to;
	r = tree_copy_data(data, to, (uint64_t)st.st_size);
	return r < 0 ? r : 1;
}

/* The database itself, and what belongs to it. */
static const char *const parts[] = { "", "-wal", "-journal" };

static int copy_all(const struct sqlite_file *from, const struct sqlite_file *to)
{
	int found = 1;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && found > 0; i++) {
		AUTO_FREE char *a = str_format("%s%s", from->name, parts[i]);
		AUTO_FREE char *b = str_format("%s%s", to->name, parts[i]);
		int r = a && b ? copy_file(from->dirfd, a, to->dirfd, b) : -ENOMEM;

		if (r < 0 || i == 0)
			found = r;
	}
	return found;
}

static int remove_all(const struct sqlite_file *file)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && rc >= 0; i++) {
		AUTO_FREE char *name = str_format("%s%s", file->name, parts[i]);

		rc = name ? sys_unlink(file->dirfd, name, 0) : -ENOMEM;
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc;
}

static bool is_regular(int node, struct stat *ret)
{
	return fstat(node, ret) == 0 && S_ISREG(ret->st_mode);
}

/* The pages that differ from the base, and what lies beside the database. The size of its pages must be that of the base. */
static int take_pages(const struct sqlite_file *from, const struct sqlite_file *to, struct sqlite_patch *p)
{
	AUTO_FD node = fd_open_beneath(from->dirfd, from->name, O_PATH);
	AUTO_FD data = -EBADF;
	struct stat st;
	int r;

	if (node == -ENOENT || node == -ELOOP || (node >= 0 && !is_regular(node, &st)))
		return SQLITE_ABSENT;
	data = node < 0 ? node : fd_reopen(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (data < 0)
		return data;
	/* Of a file with large holes all would be read; copied it keeps them. */
	if (sqlite_patch_page_size(data) != p->page_size || st.st_blocks < st.st_size / 1024)
		return SQLITE_COPIED;
	r = sqlite_pages_take(p, data, (uint64_t)st.st_size);
	for (size_t i = 1; i < ARRAY_SIZE(parts) && r >= 0; i++) {
		AUTO_FREE char *a = str_format("%s%s", from->name, parts[i]);
		AUTO_FREE char *b = str_format("%s%s", to->name, parts[i]);

		r = a && b ? copy_file(from->dirfd, a, to->dirfd, b) : -ENOMEM;
	}
	return r < 0 ? r : SQLITE_PATCHED;
}

/* As a patch where that can be, else as it is. */
static int copy_once(const struct sqlite_file *from, const struct sqlite_file *base, const struct sqlite_file *to,
		     struct sqlite_patch **ret)
{
	CLEANUP(cleanup_patch) struct sqlite_patch *p = NULL;
	int r = base ? sqlite_patch_new(base, to, &p) : 0;

	if (r > 0) {
		r = take_pages(from, to, p);
		if (r == SQLITE_PATCHED)
			*ret = TAKE_PTR(p);
		if (r != SQLITE_COPIED)
			return r;
	}
	if (r >= 0)
		r = remove_all(to);
	if (r >= 0)
		r = copy_all(from, to);
	return r > 0 ? SQLITE_COPIED : r;
}

struct looks {
	struct tree_stat v[ARRAY_SIZE(parts)];
};

static void look_at(const struct sqlite_file *file, struct looks *ret)
{
	memset(ret, 0, sizeof *ret);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		AUTO_FREE char *name = str_format("%s%s", file->name, parts[i]);

		if (!name || tree_stat(file->dirfd, name, &ret->v[i]) < 0)
			ret->v[i] = (struct tree_stat){ 0 };
	}
}

static bool is_same_look(const struct looks *a, const struct looks *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (a->v[i].ino != b->v[i].ino || a->v[i].size != b->v[i].size || a->v[i].mtime != b->v[i].mtime ||
		    a->v[i].ctime != b->v[i].ctime)
			return false;
	return true;
}

/* An error code of this file: Atoll cannot tell whether the super-journal that a copied journal
 * names exists. */
#define NO_SUPER (-EREMOTE)

static int copy_with_super(const struct sqlite_file *from, const struct sqlite_find *how,
			   const struct sqlite_file *base, const struct sqlite_file *to, struct sqlite_patch **ret)
{
	int kind = copy_once(from, base, to, ret);
	int r = kind == SQLITE_PATCHED || kind == SQLITE_COPIED ? sqlite_super_settle(from, how, to) : 0;

	return r == SQLITE_SUPER_UNKNOWN ? NO_SUPER : r < 0 ? r : kind;
}

/* In an overlay's layer the locks of those who use the view are not seen. A copy during which nothing was written is of one instant all the
 * same. -EAGAIN if there was none. */
static int copy_still(const struct sqlite_file *from, const struct sqlite_find *how, const struct sqlite_file *base,
		      const struct sqlite_file *to, struct sqlite_patch **ret)
{
	int64_t end = clock_monotonic_ns() + (int64_t)from->busy_ms * 1000000;

	for (;;) {
		struct looks before, after;
		int r;

		look_at(from, &before);
		r = copy_with_super(from, how, base, to, ret);
		look_at(from, &after);
		if ((r < 0 && r != NO_SUPER) || is_same_look(&before, &after))
			return r;
		if (ret)
			*ret = sqlite_patch_free(*ret);
		r = remove_all(to);
		if (r < 0)
			return r;
		if (clock_monotonic_ns() >= end)
			return -EAGAIN;
		usleep(2000);
	}
}

/* Rolls back or writes back what was left in the middle, and leaves one plain file. */
int sqlite_settle_copy(const struct sqlite_file *to, struct atoll_error *err)
{
	AUTO_DB *d = NULL;
	int r = sqlite_open(to, SQLITE_DB_WRITE | SQLITE_DB_GUARDED, &d, err);

	if (r >= 0)
		r = sqlite_execute(d, err, "PRAGMA synchronous=OFF; PRAGMA journal_mode=DELETE");
	return r < 0 ? r : check_damage(d, err);
}

int sqlite_settle_patch(const struct sqlite_file *from, const struct sqlite_find *how, const struct sqlite_file *base,
			const struct sqlite_file *to, struct sqlite_patch **ret, struct atoll_error *err)
{
	const char *label = from->label ? from->label : from->name;
	int r = copy_still(from, how, base, to, ret);

	if (r == -EAGAIN)
		return error_set(err, ATOLL_BUSY, EAGAIN, OPERATION, label,
				 "the database \"%s\" is written to without a pause; try again when that is over",
				 label);
	if (r == NO_SUPER)
		return error_set(
			err, ATOLL_REFUSED, 0, OPERATION, label,
			"\"%s\" holds a transaction over databases of several directories that a process left unfinished; once a command in the sandbox has read all of these databases, SQLite has settled it",
			label);
	if (r < 0)
		return error_sys(err, r, OPERATION, label, "cannot copy the database \"%s\"", label);
	if (r == SQLITE_COPIED) {
		int settled = sqlite_settle_copy(to, err);

		return settled < 0 ? settled : r;
	}
	return r;
}

int sqlite_settle(const struct sqlite_file *from, const struct sqlite_file *to, struct atoll_error *err)
{
	const struct sqlite_find how = { 0 };
	int r = sqlite_settle_patch(from, &how, NULL, to, NULL, err);

	return r < 0 ? r : r != SQLITE_ABSENT;
}

int sqlite_adapt(const struct sqlite_file *file, const struct sqlite_file *like, struct atoll_error *err)
{
	AUTO_DB *model = NULL;
	AUTO_DB *d = NULL;
	int64_t wanted = 0, present = 0;
	int r = sqlite_open(like, 0, &model, err);

	if (r >= 0)
		r = sqlite_int(model, &wanted, err, "PRAGMA page_size");
	if (r >= 0)
		r = sqlite_open(file, SQLITE_DB_WRITE, &d, err);
	if (r >= 0)
		r = sqlite_execute(d, err, "PRAGMA synchronous=OFF; PRAGMA journal_mode=DELETE");
	if (r >= 0)
		r = sqlite_int(d, &present, err, "PRAGMA page_size");
	if (r >= 0 && present != wanted)
		r = sqlite_execute(d, err, "PRAGMA page_size=%lld; VACUUM", (long long)wanted);
	if (r < 0)
		return r;
	d = sqlite_close(d);
	return make_durable(file, err);
}
