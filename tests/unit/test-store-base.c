/* SPDX-License-Identifier: Apache-2.0 */
/* What conflicts are judged by: touches and stamps. */
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
	CHECK_DONE(store_touch_add(s, resource, &t, &err), err);
	scene_commit(s);
}

static void delete_touch(struct store *s, int64_t resource, const char *path, bool below)
{
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_touch_delete(s, resource, path, below, &err), err);
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
	CHECK_DONE(store_touch_add(s, resource, &t, &err), err);
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

TEST(a_touch_is_deleted_alone_or_with_what_lies_below_it_and_never_a_neighbour)
{
	static const char *const paths[] = {
		"d", "d!", "d-", "d.", "d/", "d/a", "d/a/b", "d/\xff", "d0", "d0/x", "dd"
	};
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one"), other = resource_of(s, "two");

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		add_touch(s, resource, paths[i], (unsigned)i);
	add_touch(s, other, "d/a", 1);
	delete_touch(s, resource, "d/a", false);
	CHECK_STR(touched(s, resource), "d|d!|d-|d.|d/|d/a/b|d/\xff|d0|d0/x|dd|");
	delete_touch(s, resource, "d", true);
	CHECK_STR(touched(s, resource), "d!|d-|d.|d0|d0/x|dd|");
	CHECK_STR(touched(s, other), "d/a|");
}

TEST(the_roots_touch_is_deleted_alone_and_the_root_with_everything)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one");

	add_touch(s, resource, "", 1);
	add_touch(s, resource, "a", 1);
	delete_touch(s, resource, "", false);
	CHECK_STR(touched(s, resource), "a|");
	add_touch(s, resource, "", 1);
	delete_touch(s, resource, NULL, true);
	CHECK_STR(touched(s, resource), "");
}

TEST(stamps_are_replaced_listed_by_path_and_cleared_for_one_resource)
{
	AUTO_STORE *s = scene_store();
	int64_t resource = resource_of(s, "one"), other = resource_of(s, "two");
	struct store_stamp *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_stamp_put(s, resource, ODD_BYTES, INT64_MIN, &err), err);
	CHECK_DONE(store_stamp_put(s, resource, "d/.", 5, &err), err);
	CHECK_DONE(store_stamp_put(s, resource, "d/.", INT64_MAX, &err), err);
	CHECK_DONE(store_stamp_put(s, resource, "", 3, &err), err);
	CHECK_DONE(store_stamp_put(s, other, "x", 1, &err), err);
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
