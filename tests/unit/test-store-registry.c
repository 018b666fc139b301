/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes and resources: what is put in comes out again, byte for byte. */
#include "store-scene.h"

static void release_boxes(struct store_sandbox *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_sandbox_release(&list[i]);
	free(list);
}

static void release_resources(struct store_resource *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_resource_release(&list[i]);
	free(list);
}

static size_t list_resources(struct store *s, int64_t sandbox, struct store_resource **ret)
{
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_resource_list(s, sandbox, ret, &n, &err), err);
	return n;
}

TEST(a_sandbox_comes_back_as_it_was_put_in)
{
	CLEANUP(store_sandbox_release) struct store_sandbox found = { 0 };
	struct store_sandbox box = { .uuid = "0123-uuid",
				     .name = (char *)ODD_BYTES,
				     .created_ns = INT64_MIN,
				     .active_ns = INT64_MAX,
				     .durable_workspace = true };
	struct atoll_error err = { 0 };
	AUTO_STORE *s = scene_store();

	scene_begin(s);
	CHECK_DONE(store_sandbox_add(s, &box, &err), err);
	scene_commit(s);
	CHECK(box.id > 0);
	CHECK_DONE(store_sandbox_find(s, ODD_BYTES, &found, &err), err);
	CHECK_EQ(found.id, box.id);
	CHECK_STR(found.uuid, box.uuid);
	CHECK_STR(found.name, ODD_BYTES);
	CHECK_EQ(found.created_ns, INT64_MIN);
	CHECK_EQ(found.active_ns, INT64_MAX);
	CHECK(found.durable_workspace && !found.removing);
}

TEST(a_missing_sandbox_is_not_found_and_says_which)
{
	struct store_sandbox found = { 0 };
	struct atoll_error err = { 0 };
	AUTO_STORE *s = scene_store();

	scene_box(s, "one");
	CHECK_EQ(store_sandbox_find(s, "On%", &found, &err), -ATOLL_NOT_FOUND);
	CHECK_STR(err.object, "On%");
	CHECK(found.name == NULL);
}

TEST(a_name_that_is_taken_gives_exists_and_keeps_the_first)
{
	CLEANUP(store_sandbox_release) struct store_sandbox found = { 0 };
	struct store_sandbox again = { .uuid = "another", .name = (char *)"one" };
	struct atoll_error err = { 0 };
	AUTO_STORE *s = scene_store();
	int64_t id = scene_box(s, "one");

	scene_begin(s);
	CHECK_EQ(store_sandbox_add(s, &again, &err), -ATOLL_EXISTS);
	store_abort(s);
	CHECK_DONE(store_sandbox_find(s, "one", &found, &err), err);
	CHECK_EQ(found.id, id);
	CHECK_STR(found.uuid, "uuid-of-one");
}

TEST(sandboxes_are_listed_in_order_of_creation_and_never_get_an_old_number)
{
	struct store_sandbox *list = NULL;
	struct atoll_error err = { 0 };
	AUTO_STORE *s = scene_store();
	int64_t last;
	size_t n = 0;

	scene_box(s, "zz");
	scene_box(s, "mm");
	last = scene_box(s, "aa");
	CHECK_DONE(store_sandbox_list(s, &list, &n, &err), err);
	CHECK_EQ(n, 3);
	CHECK_STR(list[0].name, "zz");
	CHECK_STR(list[2].name, "aa");
	release_boxes(list, n);
	scene_begin(s);
	CHECK_DONE(store_sandbox_delete(s, last, &err), err);
	scene_commit(s);
	CHECK(scene_box(s, "aa") > last);
}

TEST(activity_and_the_mark_of_removal_are_kept)
{
	CLEANUP(store_sandbox_release) struct store_sandbox found = { 0 };
	struct atoll_error err = { 0 };
	AUTO_STORE *s = scene_store();
	int64_t id = scene_box(s, "one");

	scene_begin(s);
	CHECK_DONE(store_sandbox_touch(s, id, 1234567890123456789, &err), err);
	CHECK_DONE(store_sandbox_set_removing(s, id, &err), err);
	scene_commit(s);
	CHECK_DONE(store_sandbox_find(s, "one", &found, &err), err);
	CHECK_EQ(found.active_ns, 1234567890123456789);
	CHECK(found.removing);
}

static struct store_resource odd_resource(int64_t sandbox, int seq)
{
	struct store_resource r = { .sandbox = sandbox,
				    .seq = seq,
				    .kind = ATOLL_KIND_FILE,
				    .state = ATOLL_ROLLED_BACK,
				    .path = (char *)"/" ODD_BYTES,
				    .strategy = (char *)"copy_on_write",
				    .mode = (char *)ODD_BYTES,
				    .reason = (char *)"",
				    .work = (char *)"/w/" ODD_BYTES,
				    .stage = (char *)"/s/" ODD_BYTES,
				    .copies = true,
				    .root_id = scene_id(5, TREE_ID_MAX),
				    .stamp = INT64_MAX - 1,
				    .clock_offset = -17,
				    .boot_id = "boot",
				    .synced_at = INT64_MIN,
				    .dirty = true };
	return r;
}

static void check_same(const struct store_resource *a, const struct store_resource *b)
{
	CHECK_EQ(a->id, b->id);
	CHECK_EQ(a->sandbox, b->sandbox);
	CHECK_EQ(a->seq, b->seq);
	CHECK_EQ(a->kind, b->kind);
	CHECK_EQ(a->state, b->state);
	CHECK_STR(a->path, b->path);
	CHECK_STR(a->strategy, b->strategy);
	CHECK_STR(a->mode, b->mode);
	CHECK_STR(a->reason, b->reason);
	CHECK_STR(a->work, b->work);
	CHECK_STR(a->stage, b->stage);
	CHECK_EQ(a->copies, b->copies);
	CHECK_EQ(a->root_id.size, b->root_id.size);
	CHECK(!a->root_id.size || tree_id_equal(&a->root_id, &b->root_id));
	CHECK_EQ(a->stamp, b->stamp);
	CHECK_EQ(a->clock_offset, b->clock_offset);
	CHECK_STR(a->boot_id, b->boot_id);
	CHECK_EQ(a->synced_at, b->synced_at);
	CHECK_EQ(a->dirty, b->dirty);
}

TEST(a_resource_comes_back_as_it_was_put_in)
{
	AUTO_STORE *s = scene_store();
	struct store_resource r = odd_resource(scene_box(s, "one"), 1), *list = NULL;
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_resource_add(s, &r, &err), err);
	scene_commit(s);
	CHECK(r.id > 0);
	CHECK_EQ(list_resources(s, r.sandbox, &list), 1);
	check_same(&list[0], &r);
	release_resources(list, 1);
}

TEST(an_update_changes_every_field_of_one_resource_and_no_other)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one");
	int64_t first = scene_resource(s, box, 1), second = scene_resource(s, box, 2);
	struct store_resource r = odd_resource(box, 2), *list = NULL;
	struct atoll_error err = { 0 };

	r.id = second;
	r.root_id = scene_id(0, 0);
	scene_begin(s);
	CHECK_DONE(store_resource_update(s, &r, &err), err);
	scene_commit(s);
	CHECK_EQ(list_resources(s, box, &list), 2);
	check_same(&list[1], &r);
	CHECK_EQ(list[0].id, first);
	CHECK_STR(list[0].path, "/somewhere");
	release_resources(list, 2);
}

TEST(resources_are_listed_by_sequence_number_of_their_own_sandbox_only)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one"), other = scene_box(s, "two");
	struct store_resource *list = NULL;

	for (int seq = 9; seq >= 1; seq--)
		scene_resource(s, box, seq);
	scene_resource(s, other, 1);
	CHECK_EQ(list_resources(s, box, &list), 9);
	for (int i = 0; i < 9; i++)
		CHECK_EQ(list[i].seq, i + 1);
	release_resources(list, 9);
	list = NULL;
	CHECK_EQ(list_resources(s, 999, &list), 0);
	free(list);
}

TEST(a_resource_without_its_sandbox_or_with_a_used_number_is_refused)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one");
	struct store_resource r = odd_resource(999, 1), again = odd_resource(box, 1);
	struct atoll_error err = { 0 };

	scene_resource(s, box, 1);
	scene_begin(s);
	CHECK(store_resource_add(s, &r, &err) < 0 || store_commit(s, &err) < 0);
	store_abort(s);
	scene_begin(s);
	CHECK(store_resource_add(s, &again, &err) < 0);
	store_abort(s);
}

TEST(deleting_a_sandbox_takes_everything_that_hangs_on_it)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one"), kept = scene_box(s, "two");
	int64_t resource = scene_resource(s, box, 1), other = scene_resource(s, kept, 1);
	struct store_op op = { .sandbox = box, .dir = (char *)"op-1" };
	struct store_step step = { .seq = 1, .resource = resource, .path = (char *)"p" }, *steps = NULL;
	struct store_op_resource part = { .resource = resource }, *parts = NULL;
	struct store_touch touch = { .path = (char *)"p" }, *touches = NULL;
	struct store_stamp stamp = { (char *)"p", 1 }, *stamps = NULL;
	struct store_resource *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 1;

	scene_begin(s);
	CHECK_DONE(store_op_add(s, &op, &err), err);
	part.op = op.id;
	CHECK_DONE(store_op_resource_put(s, &part, &err), err);
	CHECK_DONE(store_steps_put(s, op.id, &step, 1, &err), err);
	CHECK_DONE(store_touch_add(s, resource, &touch, 1, &err), err);
	CHECK_DONE(store_touch_add(s, other, &touch, 1, &err), err);
	CHECK_DONE(store_stamp_add(s, resource, &stamp, 1, &err), err);
	CHECK_DONE(store_sandbox_delete(s, box, &err), err);
	scene_commit(s);
	CHECK_EQ(list_resources(s, box, &list), 0);
	CHECK_DONE(store_op_resource_list(s, op.id, &parts, &n, &err), err);
	CHECK_EQ(n, 0);
	CHECK_DONE(store_steps_list(s, op.id, &steps, &n, &err), err);
	CHECK_EQ(n, 0);
	CHECK_DONE(store_stamp_list(s, resource, &stamps, &n, &err), err);
	CHECK_EQ(n, 0);
	CHECK_DONE(store_touch_list(s, resource, &touches, &n, &err), err);
	CHECK_EQ(n, 0);
	CHECK_DONE(store_touch_list(s, other, &touches, &n, &err), err);
	CHECK_EQ(n, 1);
	store_touches_free(touches, n);
}
