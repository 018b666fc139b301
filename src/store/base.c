/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What conflicts are judged by: originals as first touched, and later stamps of single paths. Each list is a few rows, every one of
 * them packed: what is added is a row of its own, and from a number of rows on they are made one.
 */
#include "store/internal.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 16

enum kind { TOUCHES, STAMPS };

static int count_rows(struct store *s, int64_t resource, enum kind kind, int64_t *ret, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT count(*) FROM base WHERE resource=? AND kind=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	sqlite3_bind_int(stmt, 2, kind);
	r = store_next(s, stmt, err);
	if (r > 0)
		*ret = sqlite3_column_int64(stmt, 0);
	return MIN(r, 0);
}

static int add_row(struct store *s, int64_t resource, enum kind kind, const struct strbuf *data,
		   struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = data->failed ? error_oom(err, "store")
			     : store_prepare(s, "INSERT INTO base(resource,kind,records) VALUES(?,?,?)", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	sqlite3_bind_int(stmt, 2, kind);
	sqlite3_bind_blob64(stmt, 3, data->data, data->size, SQLITE_STATIC);
	return store_run(s, stmt, err);
}

static int clear_rows(struct store *s, int64_t resource, enum kind kind, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM base WHERE resource=? AND kind=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	sqlite3_bind_int(stmt, 2, kind);
	return store_run(s, stmt, err);
}

/* Reads rows, oldest first, each into the list. */
static int each_row(struct store *s, int64_t resource, enum kind kind,
		    int (*read)(struct unpack *u, void *list, size_t *n), void *list, size_t *n,
		    struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT records FROM base WHERE resource=? AND kind=? ORDER BY id", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, resource);
	sqlite3_bind_int(stmt, 2, kind);
	while ((r = store_next(s, stmt, err)) > 0) {
		struct unpack u = store_unpack(stmt, 0);

		while (u.at < u.end)
			if (read(&u, list, n) < 0)
				u = (struct unpack){ .failed = -ENOMEM };
		r = store_unpacked(s, &u, err);
		if (r < 0)
			break;
	}
	return r;
}

/* ---- lists by path, which is the first member of an element ---- */

struct key {
	const char *path;
	size_t at;
};

static const char *path_at(const void *list, size_t i, size_t size)
{
	const char *path;

	memcpy(&path, (const char *)list + i * size, sizeof path);
	return path;
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static bool is_sorted(const void *list, size_t n, size_t size)
{
	for (size_t i = 1; i < n; i++)
		if (strcmp(path_at(list, i - 1, size), path_at(list, i, size)) >= 0)
			return false;
	return true;
}

/* Sorts by path; of those with the same path the one that came first, or last, stays. */
static int sort_by_path(void *list, size_t *n, size_t size, bool first, void (*release)(void *element))
{
	AUTO_FREE struct key *keys = NULL;
	AUTO_FREE char *sorted = NULL;
	size_t kept = 0;

	if (is_sorted(list, *n, size))
		return 0;
	keys = reallocarray(NULL, *n, sizeof *keys);
	sorted = reallocarray(NULL, *n, size);
	if (!keys || !sorted)
		return -ENOMEM;
	for (size_t i = 0; i < *n; i++)
		keys[i] = (struct key){ path_at(list, i, size), i };
	qsort(keys, *n, sizeof *keys, compare_keys);
	for (size_t i = 0; i < *n; i++) {
		bool again = kept && strcmp(path_at(sorted, kept - 1, size), keys[i].path) == 0;
		char *element = (char *)list + keys[i].at * size;

		kept -= again && !first;
		if (again && !first)
			release(sorted + kept * size);
		if (again && first)
			release(element);
		else
			memcpy(sorted + kept++ * size, element, size);
	}
	memcpy(list, sorted, kept * size);
	*n = kept;
	return 0;
}

/* ---- touches ---- */

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

static int add_touches(struct store *s, int64_t resource, const struct store_touch *list, size_t n,
		       struct atoll_error *err)
{
	AUTO_STRBUF data = STRBUF_INIT;

	for (size_t i = 0; i < n; i++) {
		pack_text(&data, list[i].path);
		pack_look(&data, &list[i].look);
		pack_data(&data, list[i].xattrs, list[i].xattrs_size);
		pack_number(&data, list[i].trusted);
	}
	return n ? add_row(s, resource, TOUCHES, &data, err) : 0;
}

static int read_touch(struct unpack *u, void *list, size_t *n)
{
	struct store_touch **touches = list, *t;

	if (array_grow(touches, *n, sizeof **touches) < 0)
		return -ENOMEM;
	t = &(*touches)[(*n)++];
	t->path = unpack_text(u);
	unpack_look(u, &t->look);
	t->xattrs = unpack_data(u, &t->xattrs_size);
	t->trusted = (unsigned)unpack_number(u);
	if (!t->path && !u->failed)
		u->failed = -EBADMSG;
	return 0;
}

static void release_touch(void *element)
{
	store_touch_release(element);
}

int store_touch_list(struct store *s, int64_t resource, struct store_touch **ret, size_t *ret_n,
		     struct atoll_error *err)
{
	struct store_touch *list = NULL;
	size_t n = 0;
	int r = each_row(s, resource, TOUCHES, read_touch, &list, &n, err);

	if (r >= 0 && sort_by_path(list, &n, sizeof *list, true, release_touch) < 0)
		r = error_oom(err, "store");
	if (r < 0) {
		store_touches_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_touch_put(struct store *s, int64_t resource, const struct store_touch *list, size_t n,
		    struct atoll_error *err)
{
	int r = clear_rows(s, resource, TOUCHES, err);

	return r < 0 ? r : add_touches(s, resource, list, n, err);
}

int store_touch_add(struct store *s, int64_t resource, const struct store_touch *list, size_t n,
		    struct atoll_error *err)
{
	struct store_touch *all = NULL;
	int64_t rows = 0;
	size_t n_all = 0;
	int r = add_touches(s, resource, list, n, err);

	if (r >= 0 && n)
		r = count_rows(s, resource, TOUCHES, &rows, err);
	if (r < 0 || rows < ROWS_MAX)
		return r;
	r = store_touch_list(s, resource, &all, &n_all, err);
	if (r >= 0)
		r = store_touch_put(s, resource, all, n_all, err);
	store_touches_free(all, n_all);
	return r;
}

/* ---- stamps ---- */

void store_stamps_free(struct store_stamp *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

static int add_stamps(struct store *s, int64_t resource, const struct store_stamp *list, size_t n,
		      struct atoll_error *err)
{
	AUTO_STRBUF data = STRBUF_INIT;

	for (size_t i = 0; i < n; i++) {
		pack_text(&data, list[i].path);
		pack_number(&data, list[i].stamp);
	}
	return n ? add_row(s, resource, STAMPS, &data, err) : 0;
}

static int read_stamp(struct unpack *u, void *list, size_t *n)
{
	struct store_stamp **stamps = list, *stamp;

	if (array_grow(stamps, *n, sizeof **stamps) < 0)
		return -ENOMEM;
	stamp = &(*stamps)[(*n)++];
	stamp->path = unpack_text(u);
	stamp->stamp = unpack_number(u);
	if (!stamp->path && !u->failed)
		u->failed = -EBADMSG;
	return 0;
}

static void release_stamp(void *element)
{
	free(((struct store_stamp *)element)->path);
}

int store_stamp_list(struct store *s, int64_t resource, struct store_stamp **ret, size_t *ret_n,
		     struct atoll_error *err)
{
	struct store_stamp *list = NULL;
	size_t n = 0;
	int r = each_row(s, resource, STAMPS, read_stamp, &list, &n, err);

	if (r >= 0 && sort_by_path(list, &n, sizeof *list, false, release_stamp) < 0)
		r = error_oom(err, "store");
	if (r < 0) {
		store_stamps_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_stamp_clear(struct store *s, int64_t resource, struct atoll_error *err)
{
	return clear_rows(s, resource, STAMPS, err);
}

int store_stamp_add(struct store *s, int64_t resource, const struct store_stamp *list, size_t n,
		    struct atoll_error *err)
{
	struct store_stamp *all = NULL;
	int64_t rows = 0;
	size_t n_all = 0;
	int r = add_stamps(s, resource, list, n, err);

	if (r >= 0 && n)
		r = count_rows(s, resource, STAMPS, &rows, err);
	if (r < 0 || rows < ROWS_MAX)
		return r;
	r = store_stamp_list(s, resource, &all, &n_all, err);
	if (r >= 0)
		r = clear_rows(s, resource, STAMPS, err);
	if (r >= 0)
		r = add_stamps(s, resource, all, n_all, err);
	store_stamps_free(all, n_all);
	return r;
}
