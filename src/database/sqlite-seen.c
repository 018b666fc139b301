/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a database was written to, told by how its files look: the file itself and its log, if there is something in it. A program that
 * writes to either moves its ctime.
 */
#include <fcntl.h>
#include <string.h>

#include "database/private.h"
#include "tree/tree.h"

/* 1, 0 if it has a ctime that a write from now on might have too, or -errno. */
static int add_look(const struct sqlite_file *file, const char *suffix, int64_t stamp, dev_t dev, struct strbuf *s)
{
	AUTO_FREE char *name = str_format("%s%s", file->name, suffix);
	struct tree_stat st;
	struct stat look;
	int r = name ? tree_stat(file->dirfd, name, &st) : -ENOMEM;

	if (*suffix && (r == -ENOENT || (r >= 0 && st.size == 0))) {
		strbuf_adds(s, "-\n");
		return 1;
	}
	if (r < 0)
		return r;
	if (st.ctime >= stamp || fstatat(file->dirfd, name, &look, AT_SYMLINK_NOFOLLOW) < 0 || look.st_dev != dev)
		return 0;
	strbuf_addf(s, "%llu %llu %lld %lld\n", (unsigned long long)st.ino, (unsigned long long)st.size,
		    (long long)st.mtime, (long long)st.ctime);
	return 1;
}

int sqlite_seen(const struct sqlite_file *file, int stamp_fd, char **ret)
{
	AUTO_STRBUF s = STRBUF_INIT;
	struct stat place;
	int64_t stamp = 0;
	int r = fstat(stamp_fd, &place) < 0 ? -errno : tree_stamp(stamp_fd, &stamp);

	*ret = NULL;
	if (r >= 0)
		r = add_look(file, "", stamp, place.st_dev, &s);
	if (r > 0)
		r = add_look(file, "-wal", stamp, place.st_dev, &s);
	if (r <= 0)
		return r == -ENOMEM ? r : 0;
	*ret = s.failed ? NULL : strbuf_take(&s);
	return *ret ? 0 : -ENOMEM;
}

bool sqlite_seen_is_same(const struct sqlite_file *file, const char *seen)
{
	AUTO_STRBUF s = STRBUF_INIT;
	struct stat place;

	return seen && fstatat(file->dirfd, file->name, &place, AT_SYMLINK_NOFOLLOW) == 0 &&
	       add_look(file, "", INT64_MAX, place.st_dev, &s) > 0 &&
	       add_look(file, "-wal", INT64_MAX, place.st_dev, &s) > 0 && !s.failed &&
	       strcmp(strbuf_str(&s), seen) == 0;
}

/* Others are kept from writing until the time is over in which a write would look like the move. In a log the end of this connection may move
 * pages about. */
int sqlite_seen_after(struct sqlite_db *d, const struct sqlite_file *file, struct sqlite_alone *alone, int64_t version,
		      struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int64_t now = 0;
	int r = sqlite_prepare(d, &stmt, err, "PRAGMA main.journal_mode");

	if (r >= 0)
		r = sqlite_next(d, stmt, err);
	if (r > 0 && strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") == 0)
		return 0;
	sqlite3_reset(stmt);
	if (r >= 0)
		r = sqlite_execute(d, err, "BEGIN IMMEDIATE");
	if (r >= 0)
		r = sqlite_int(d, &now, err, "PRAGMA main.data_version");
	if (r >= 0 && now == version && sqlite_seen(file, alone->stamp_fd, &alone->now) < 0)
		r = error_oom(err, "database");
	sqlite_cancel(d);
	return r;
}
