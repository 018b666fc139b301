/* SPDX-License-Identifier: Apache-2.0 */
/* What conflicts are judged by: touches and stamps. */
#include <sqlite3.h>

#include "store-scene.h"

static int64_t resource_of(struct store *s, const char *name)
{
	return scene_resource(s, scene_box(s, name), 1);
}

static void add_touch(struct store *s, int64_t resource, const char *path, unsigned seed)
{
	struct store_touch t = { .path = (char *)path, .look = scene_look(seed) };
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_touch_add(s, resource, &t, 1, &err), err);
	scene_commit(s);
}

/* The paths on record, each followed by '|'. */
static const char *touched(struct store *s, int64_t resource)
{
	static char text[4096];
	struct store_touch *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_touch_list(s, resource, &list, &n, &err), err);
	text[0] = 0;
	for (size_t i = 0; i < n; i++) {
		strcat(text, list[i].path);
		strcat(text, "|");
	}
	store_touches_free(list, n);
	return text;
}

TEST(a_touch_comes_back_as_it_was_put_in)
{
	static const char bytes[] = { 0, 'x', 0 };
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one");
	struct store_touch t = { .path = (char *)ODD_BYTES,
				 .look = scene_look(3),
				 .xattrs = (char *)bytes,
				 .xattrs_size = sizeof bytes,
				 .trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY };
	struct store_touch *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_touch_add(s, resource, &t, 1, &err), err);
	scene_commit(s);
	CHECK_DONE(store_touch_list(s, resource, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	CHECK_STR(list->path, ODD_BYTES);
	CHECK(same_look(&list->look, &t.look));
	CHECK_EQ(list->xattrs_size, sizeof bytes);
	CHECK(memcmp(list->xattrs, bytes, sizeof bytes) == 0);
	CHECK_EQ(list->trusted, STORE_TRUST_META | STORE_TRUST_IDENTITY);
	store_touches_free(list, n);
}

TEST(the_first_touch_of_a_path_stays)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one");
	struct store_look first = scene_look(1);
	struct store_touch *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	add_touch(s, resource, "p", 1);
	add_touch(s, resource, "p", 2);
	CHECK_DONE(store_touch_list(s, resource, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	CHECK(same_look(&list->look, &first));
	CHECK(list->xattrs == NULL);
	store_touches_free(list, n);
}

TEST(touches_are_sorted_by_bytes_and_kept_apart_by_resource)
{
	AUTO_STORE *s = scene_store();
	int64_t one = resource_of(s, "one"), two = resource_of(s, "two");

	add_touch(s, one, "\xff", 1);
	add_touch(s, one, "a/b", 2);
	add_touch(s, one, "a", 3);
	add_touch(s, one, "", 4);
	add_touch(s, two, "z", 5);
	CHECK_STR(touched(s, one), "|a|a/b|\xff|");
	CHECK_STR(touched(s, two), "z|");
}

TEST(touches_are_put_in_place_of_those_of_one_resource)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one"), other = resource_of(s, "two");
	struct store_touch list[] = { { .path = (char *)"c" }, { .path = (char *)"b" } };
	struct atoll_error err = { 0 };

	add_touch(s, resource, "a", 1);
	add_touch(s, other, "a", 1);
	scene_begin(s);
	CHECK_DONE(store_touch_put(s, resource, list, ARRAY_SIZE(list), &err), err);
	scene_commit(s);
	CHECK_STR(touched(s, resource), "b|c|");
	CHECK_STR(touched(s, other), "a|");
	scene_begin(s);
	CHECK_DONE(store_touch_put(s, resource, NULL, 0, &err), err);
	scene_commit(s);
	CHECK_STR(touched(s, resource), "");
}

static int64_t count_rows(void)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	int64_t n;

	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_prepare_v2(db, "SELECT count(*) FROM base", -1, &stmt, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

TEST(however_often_something_is_added_the_rows_stay_few_and_the_first_touch_and_the_last_stamp_count)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one");
	struct store_look first = scene_look(0);
	struct store_touch *touches = NULL;
	struct store_stamp *stamps = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	for (unsigned i = 0; i < 100; i++) {
		AUTO_FREE char *path = str_format("p%u", i % 7);
		struct store_stamp stamp = { path, i };

		add_touch(s, resource, path, i);
		scene_begin(s);
		CHECK_DONE(store_stamp_add(s, resource, &stamp, 1, &err), err);
		scene_commit(s);
	}
	CHECK(count_rows() <= 32);
	CHECK_DONE(store_touch_list(s, resource, &touches, &n, &err), err);
	CHECK_EQ(n, 7);
	CHECK_STR(touches[0].path, "p0");
	CHECK(same_look(&touches[0].look, &first));
	store_touches_free(touches, n);
	CHECK_DONE(store_stamp_list(s, resource, &stamps, &n, &err), err);
	CHECK_EQ(n, 7);
	CHECK_STR(stamps[1].path, "p1");
	CHECK_EQ(stamps[1].stamp, 99);
	store_stamps_free(stamps, n);
}

TEST(stamps_are_replaced_listed_by_path_and_cleared_for_one_resource)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one"), other = resource_of(s, "two");
	struct store_stamp first[] = { { (char *)ODD_BYTES, INT64_MIN }, { (char *)"d/.", 5 } };
	struct store_stamp later[] = { { (char *)"d/.", INT64_MAX }, { (char *)"", 3 } };
	struct store_stamp theirs[] = { { (char *)"x", 1 } }, *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_stamp_add(s, resource, first, ARRAY_SIZE(first), &err), err);
	CHECK_DONE(store_stamp_add(s, resource, later, ARRAY_SIZE(later), &err), err);
	CHECK_DONE(store_stamp_add(s, other, theirs, ARRAY_SIZE(theirs), &err), err);
	scene_commit(s);
	CHECK_DONE(store_stamp_list(s, resource, &list, &n, &err), err);
	CHECK_EQ(n, 3);
	CHECK_STR(list[0].path, "");
	CHECK_STR(list[1].path, "d/.");
	CHECK_EQ(list[1].stamp, INT64_MAX);
	CHECK_STR(list[2].path, ODD_BYTES);
	CHECK_EQ(list[2].stamp, INT64_MIN);
	store_stamps_free(list, n);
	scene_begin(s);
	CHECK_DONE(store_stamp_clear(s, resource, &err), err);
	scene_commit(s);
	CHECK_DONE(store_stamp_list(s, resource, &list, &n, &err), err);
	CHECK_EQ(n, 0);
	free(list);
	CHECK_DONE(store_stamp_list(s, other, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	store_stamps_free(list, n);
}
