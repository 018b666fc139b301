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

int changes_json_print(struct json *j, const struct atoll_change *change)
{
	json_object(j, NULL);
	json_string(j, "change", atoll_change_kind_name(change->kind));
	json_string(j, "path", change->path);
	if (change->part)
		json_bool(j, "part", true);
	if (change->old_path)
		json_string(j, "old_path", change->old_path);
	json_int(j, "resource", change->resource);
	json_string(j, "resource_path", change->resource_path);
	put_what(j, change->what);
	put_side(j, "old", change->old_mode, change->old_uid, change->old_gid, change->old_size);
	put_side(j, "new", change->new_mode, change->new_uid, change->new_gid, change->new_size);
	json_string(j, "note", change->note);
	json_object_end(j);
	return 0;
}
