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
	static const char sql[] = "INSERT OR IGNORE INTO touch VALUES(?,?, ?,?,?,?,?,?,?, ?,?)";
	sqlite3_stmt *stmt;
	int i = 1;
	int r = store_prepare_kept(s, KEPT_TOUCH_INSERT, sql, &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, i++, resource);
	bind_text(stmt, i++, t->path);
	i = bind_look(stmt, i, &t->look);
	if (t->xattrs)
		sqlite3_bind_blob64(stmt, i++, t->xattrs, t->xattrs_size, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(stmt, i++);
	sqlite3_bind_int64(stmt, i++, t->trusted);
	return store_run_kept(s, stmt, err);
}

int store_touch_list(struct store *s, int64_t resource, struct store_touch **ret, size_t *ret_n,
		     struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_touch *list = NULL;
	size_t n = 0;
	int r = store_prepare(
		s,
		"SELECT path,id,mode,uid,gid,size,mtime,atime,xattrs,trusted FROM touch WHERE resource=? ORDER BY path",
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

static int delete_all_touches(struct store *s, int64_t resource, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM touch WHERE resource=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	return store_run(s, stmt, err);
}

static int delete_touches_below(struct store *s, int64_t resource, const char *path, struct atoll_error *err)
{
	AUTO_FREE char *below = str_format("%s/", path);
	AUTO_FREE char *past = str_format("%s0", path); /* '0' follows '/' */
	sqlite3_stmt *stmt;
	int r;

	if (!below || !past)
		return error_oom(err, "store");
	r = store_prepare_kept(s, KEPT_TOUCH_DELETE_BELOW, "DELETE FROM touch WHERE resource=? AND path>=? AND path<?",
			       &stmt, err);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	bind_text(stmt, 2, below);
	bind_text(stmt, 3, past);
	return store_run_kept(s, stmt, err);
}

int store_touch_delete(struct store *s, int64_t resource, const char *path, bool below_too, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r;

	if (!path)
		return delete_all_touches(s, resource, err);
	r = store_prepare_kept(s, KEPT_TOUCH_DELETE, "DELETE FROM touch WHERE resource=? AND path=?", &stmt, err);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	bind_text(stmt, 2, path);
	r = store_run_kept(s, stmt, err);
	return r < 0 || !below_too ? r : delete_touches_below(s, resource, path, err);
}

int store_stamp_put(struct store *s, int64_t resource, const char *path, int64_t stamp, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare_kept(s, KEPT_STAMP_INSERT, "INSERT OR REPLACE INTO stamp VALUES(?,?,?)", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	bind_text(stmt, 2, path);
	sqlite3_bind_int64(stmt, 3, stamp);
	return store_run_kept(s, stmt, err);
}

int store_stamp_list(struct store *s, int64_t resource, struct store_stamp **ret, size_t *ret_n,
		     struct atoll_error *err)
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
