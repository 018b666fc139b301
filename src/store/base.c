/* SPDX-License-Identifier: Apache-2.0 */
/* What conflicts are judged by: originals as first touched, and later stamps of single paths. */
#include "store/internal.h"

#include <string.h>

void store_touch_release(struct store_touch *t)
{
	free(t->path);
	free(t->xattrs);
	*t = (struct store_touch){ 0 };
}

void store_touches_free(struct store_touch *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_touch_release(&t[i]);
	free(t);
}

int store_touch_add(struct store *s, int64_t resource, const struct store_touch *t, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int i = 1;

	if (!s->touch_insert) {
		int r = store_prepare(s, "INSERT OR IGNORE INTO touch VALUES(?,?, ?,?,?,?,?,?,?, ?,?)", &s->touch_insert, err);

		if (r < 0)
			return r;
	}
	stmt = s->touch_insert;
	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, i++, resource);
	bind_text(stmt, i++, t->path);
	i = bind_look(stmt, i, &t->look);
	if (t->xattrs)
		sqlite3_bind_blob64(stmt, i++, t->xattrs, t->xattrs_size, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(stmt, i++);
	sqlite3_bind_int64(stmt, i++, t->trusted);
	if (sqlite3_step(stmt) != SQLITE_DONE)
		return store_fail(s, err, "run");
	return 0;
}

int store_touch_list(struct store *s, int64_t resource, struct store_touch **ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_touch *list = NULL;
	size_t n = 0;
	int r = store_prepare(s, "SELECT path,id,mode,uid,gid,size,mtime,atime,xattrs,trusted FROM touch WHERE resource=? ORDER BY path",
			      &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	while ((r = store_next(s, stmt, err)) > 0) {
		struct store_touch *t;
		int i;

		if (array_grow(&list, n, sizeof *list) < 0) {
			r = error_oom(err, "store");
			break;
		}
		t = &list[n++];
		t->path = column_text(stmt, 0);
		i = column_look(stmt, 1, &t->look);
		t->xattrs = column_data(stmt, i++, &t->xattrs_size);
		t->trusted = (unsigned)sqlite3_column_int64(stmt, i);
		if (!t->path) {
			r = error_oom(err, "store");
			break;
		}
	}
	if (r < 0) {
		store_touches_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_touch_delete(struct store *s, int64_t resource, const char *path, bool below_too, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	AUTO_FREE char *below = path ? str_format("%s/", path) : NULL;
	AUTO_FREE char *past = path ? str_format("%s0", path) : NULL; /* '0' follows '/' */
	int r = store_prepare(s,
			      !path ? "DELETE FROM touch WHERE resource=?1" :
			      !below_too ? "DELETE FROM touch WHERE resource=?1 AND path=?2" :
					   "DELETE FROM touch WHERE resource=?1 AND (path=?2 OR (path>=?3 AND path<?4))",
			      &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	if (path)
		bind_text(stmt, 2, path);
	if (path && below_too) {
		bind_text(stmt, 3, below);
		bind_text(stmt, 4, past);
	}
	return store_run(s, stmt, err);
}

int store_stamp_put(struct store *s, int64_t resource, const char *path, int64_t stamp, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "INSERT OR REPLACE INTO stamp VALUES(?,?,?)", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	bind_text(stmt, 2, path);
	sqlite3_bind_int64(stmt, 3, stamp);
	return store_run(s, stmt, err);
}

int store_stamp_list(struct store *s, int64_t resource, struct store_stamp **ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_stamp *list = NULL;
	size_t n = 0;
	int r = store_prepare(s, "SELECT path,stamp FROM stamp WHERE resource=? ORDER BY path", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	while ((r = store_next(s, stmt, err)) > 0) {
		if (array_grow(&list, n, sizeof *list) < 0) {
			r = error_oom(err, "store");
			break;
		}
		list[n].path = column_text(stmt, 0);
		list[n].stamp = sqlite3_column_int64(stmt, 1);
		if (!list[n++].path) {
			r = error_oom(err, "store");
			break;
		}
	}
	if (r < 0) {
		store_stamps_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

void store_stamps_free(struct store_stamp *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

int store_stamp_clear(struct store *s, int64_t resource, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM stamp WHERE resource=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	return store_run(s, stmt, err);
}
