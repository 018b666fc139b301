/* SPDX-License-Identifier: Apache-2.0 */
/* One change as a JSON object. */
#include "base/json.h"
#include "cli/changes.h"

static void put_mode(struct json *j, const char *key, mode_t mode)
{
	char text[16];

	snprintf(text, sizeof(text), "%06o", mode);
	json_string(j, key, mode ? text : NULL);
}

static void put_what(struct json *j, unsigned what)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
		{ ATOLL_WHAT_CONTENT, "content" }, { ATOLL_WHAT_TARGET, "target" }, { ATOLL_WHAT_MODE, "mode" },
		{ ATOLL_WHAT_OWNER, "owner" },     { ATOLL_WHAT_XATTR, "xattr" },   { ATOLL_WHAT_TIME, "time" },
		{ ATOLL_WHAT_LINKS, "links" },
	};

	json_array(j, "what");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (what & names[i].bit)
			json_string(j, NULL, names[i].name);
	json_array_end(j);
}

/* Owner and size exist only where the entry did. */
static void put_side(struct json *j, const char *key, mode_t mode, uid_t uid, gid_t gid, int64_t size)
{
	if (mode == 0) {
		json_null(j, key);
		return;
	}
	json_object(j, key);
	put_mode(j, "mode", mode);
	json_int(j, "uid", uid);
	json_int(j, "gid", gid);
	json_int(j, "size", size);
	json_object_end(j);
}

static void put_values(struct json *j, const char *key, const struct atoll_row *row, const char *const *values)
{
	if (!values) {
		json_null(j, key);
		return;
	}
	json_object(j, key);
	for (size_t i = 0; i < row->n_columns; i++)
		json_string(j, row->columns[i], values[i]);
	json_object_end(j);
}

struct rows {
	struct json *j;
	bool begun;
};

static int put_row(const struct atoll_row *row, void *arg)
{
	const char *const *any = row->new_values ? row->new_values : row->old_values;
	struct rows *rows = arg;
	struct json *j = rows->j;

	if (!rows->begun)
		json_array(j, "rows");
	rows->begun = true;
	json_object(j, NULL);
	json_string(j, "change", atoll_change_kind_name(row->kind));
	json_object(j, "key");
	for (size_t i = 0; i < row->n_columns; i++)
		if (row->keys[i])
			json_string(j, row->columns[i], any[i]);
	json_object_end(j);
	put_values(j, "old", row, row->old_values);
	put_values(j, "new", row, row->new_values);
	json_object_end(j);
	return 0;
}

/* Of a table that has a primary key. */
static void put_rows(struct json *j, const struct atoll_change *change)
{
	struct rows rows = { .j = j };
	struct atoll_error err = { 0 };
	int r = atoll_change_rows(change, put_row, &rows, &err);

	if (rows.begun)
		json_array_end(j);
	if (r < 0)
		json_string(j, "rows_error", err.message);
}

int changes_json_print(struct json *j, const struct atoll_change *change)
{
	json_object(j, NULL);
	json_string(j, "change", atoll_change_kind_name(change->kind));
	json_string(j, "path", change->path);
	if (change->part)
		json_bool(j, "part", true);
	if (change->old_path) {
		json_string(j, "old_path", change->old_path);
		json_bool(j, "modified", change->what & (ATOLL_WHAT_CONTENT | ATOLL_WHAT_TARGET));
	}
	json_int(j, "resource", change->resource);
	json_string(j, "resource_path", change->resource_path);
	put_what(j, change->what);
	put_side(j, "old", change->old_mode, change->old_uid, change->old_gid, change->old_size);
	put_side(j, "new", change->new_mode, change->new_uid, change->new_gid, change->new_size);
	json_string(j, "note", change->note);
	if (change->part)
		put_rows(j, change);
	json_object_end(j);
	return 0;
}
