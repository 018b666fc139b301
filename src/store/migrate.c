/* SPDX-License-Identifier: Apache-2.0 */
/* From version 3 to 4: steps, touches and stamps had a row each, and are packed now. From 5 to 6: areas in the state directory had absolute
 * paths, and are relative to it now. */
#include "store/internal.h"

#include <string.h>

static int read_look(sqlite3_stmt *stmt, int i, struct store_look *ret)
{
	column_id(stmt, i++, &ret->id);
	ret->mode = (uint32_t)sqlite3_column_int64(stmt, i++);
	ret->uid = (uint32_t)sqlite3_column_int64(stmt, i++);
	ret->gid = (uint32_t)sqlite3_column_int64(stmt, i++);
	ret->size = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->mtime = sqlite3_column_int64(stmt, i++);
	ret->atime = sqlite3_column_int64(stmt, i++);
	return i;
}

/* One list: the rows with one owner, who is in the first column. */
struct rows {
	void *list;
	size_t n, size;
	int (*read)(sqlite3_stmt *stmt, void *element); /* 0 or -ENOMEM */
	int (*put)(struct store *s, int64_t owner, const void *list, size_t n, struct atoll_error *err);
	void (*free)(void *list, size_t n);
};

static int put_rows(struct store *s, struct rows *rows, int64_t owner, struct atoll_error *err)
{
	int r = rows->n ? rows->put(s, owner, rows->list, rows->n, err) : 0;

	rows->free(rows->list, rows->n);
	rows->list = NULL;
	rows->n = 0;
	return r;
}

static int move_rows(struct store *s, const char *select, struct rows *rows, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int64_t owner = 0;
	int r = store_prepare(s, select, &stmt, err);

	while (r >= 0 && (r = store_next(s, stmt, err)) > 0) {
		if (owner != sqlite3_column_int64(stmt, 0))
			r = put_rows(s, rows, owner, err);
		owner = sqlite3_column_int64(stmt, 0);
		if (r >= 0 && (array_grow(&rows->list, rows->n, rows->size) < 0 ||
			       rows->read(stmt, (char *)rows->list + rows->n++ * rows->size) < 0))
			r = error_oom(err, "store");
	}
	if (r >= 0)
		return put_rows(s, rows, owner, err);
	rows->free(rows->list, rows->n);
	return r;
}

static int read_step(sqlite3_stmt *stmt, void *element)
{
	struct store_step *step = element;
	int i = 1;

	step->seq = sqlite3_column_int64(stmt, i++);
	step->resource = sqlite3_column_int64(stmt, i++);
	step->kind = (enum store_step_kind)sqlite3_column_int(stmt, i++);
	step->path = column_text(stmt, i++);
	step->slot = column_text(stmt, i++);
	step->change = (enum atoll_change_kind)sqlite3_column_int(stmt, i++);
	i = read_look(stmt, i, &step->before);
	i = read_look(stmt, i, &step->after);
	step->xattrs_before = column_data(stmt, i++, &step->xattrs_before_size);
	step->xattrs_after = column_data(stmt, i++, &step->xattrs_after_size);
	return step->path ? 0 : -ENOMEM;
}

static int read_touch(sqlite3_stmt *stmt, void *element)
{
	struct store_touch *t = element;
	int i;

	t->path = column_text(stmt, 1);
	i = read_look(stmt, 2, &t->look);
	t->xattrs = column_data(stmt, i++, &t->xattrs_size);
	t->trusted = (unsigned)sqlite3_column_int64(stmt, i);
	return t->path ? 0 : -ENOMEM;
}

static int read_stamp(sqlite3_stmt *stmt, void *element)
{
	struct store_stamp *stamp = element;

	stamp->path = column_text(stmt, 1);
	stamp->stamp = sqlite3_column_int64(stmt, 2);
	return stamp->path ? 0 : -ENOMEM;
}

static int put_steps(struct store *s, int64_t owner, const void *list, size_t n, struct atoll_error *err)
{
	return store_steps_put(s, owner, list, n, err);
}

static int put_touches(struct store *s, int64_t owner, const void *list, size_t n, struct atoll_error *err)
{
	return store_touch_put(s, owner, list, n, err);
}

static int put_stamps(struct store *s, int64_t owner, const void *list, size_t n, struct atoll_error *err)
{
	return store_stamp_add(s, owner, list, n, err);
}

static void free_steps(void *list, size_t n)
{
	store_steps_free(list, n);
}

static void free_touches(void *list, size_t n)
{
	store_touches_free(list, n);
}

static void free_stamps(void *list, size_t n)
{
	store_stamps_free(list, n);
}

int migrate_rows(struct store *s, struct atoll_error *err)
{
	struct rows steps = { NULL, 0, sizeof(struct store_step), read_step, put_steps, free_steps };
	struct rows touches = { NULL, 0, sizeof(struct store_touch), read_touch, put_touches, free_touches };
	struct rows stamps = { NULL, 0, sizeof(struct store_stamp), read_stamp, put_stamps, free_stamps };
	int r = move_rows(s, "SELECT * FROM step ORDER BY op, seq", &steps, err);

	if (r >= 0)
		r = move_rows(s, "SELECT * FROM touch ORDER BY resource, path", &touches, err);
	if (r >= 0)
		r = move_rows(s, "SELECT * FROM stamp ORDER BY resource, path", &stamps, err);
	if (r >= 0 &&
	    sqlite3_exec(s->db, "DROP TABLE step; DROP TABLE touch; DROP TABLE stamp", NULL, NULL, NULL) != SQLITE_OK)
		r = store_fail(s, err, "open");
	return r;
}

/* `top` ends in a slash. */
static int make_relative(struct store *s, const char *top, const char *sql, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, sql, &stmt, err);

	if (r < 0)
		return r;
	bind_text(stmt, 1, top);
	sqlite3_bind_int64(stmt, 2, (int64_t)strlen(top));
	return store_run(s, stmt, err);
}

/* The directory may have been moved before: the owner's path is the one that the areas were recorded with. */
int migrate_areas(struct store *s, struct atoll_error *err)
{
	static const char work[] = "UPDATE resource SET work=substr(work,?2+1) WHERE substr(work,1,?2)=?1";
	static const char stage[] = "UPDATE resource SET stage=substr(stage,?2+1) WHERE substr(stage,1,?2)=?1";
	struct store_owner owner = { 0 };
	int r = store_owner_get(s, &owner, err);
	AUTO_FREE char *top = r > 0 ? str_format("%s/", owner.path) : strdup(s->path);

	free(owner.path);
	if (r < 0)
		return r;
	if (!top)
		return error_oom(err, "open");
	if (r == 0)
		strrchr(top, '/')[1] = 0;
	r = make_relative(s, top, work, err);
	return r < 0 ? r : make_relative(s, top, stage, err);
}
