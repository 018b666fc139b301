/* SPDX-License-Identifier: Apache-2.0 */
/* Ops and steps: numbers, phases, order, and what is put in comes out again. */
#include <sqlite3.h>

#include "store-scene.h"

static struct store_op add_op(struct store *s, int64_t sandbox, enum store_op_kind kind, int64_t number)
{
	struct store_op op = { .sandbox = sandbox, .kind = kind, .number = number, .dir = (char *)"op-x" };
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_op_add(s, &op, &err), err);
	scene_commit(s);
	return op;
}

static size_t list_ops(struct store *s, int64_t sandbox, struct store_op **ret)
{
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_op_list(s, sandbox, ret, &n, &err), err);
	return n;
}

TEST(an_op_comes_back_as_it_was_put_in)
{
	AUTO_STORE *s = scene_store();
	struct store_op op = { .sandbox = scene_box(s, "one"),
			       .kind = STORE_OP_UNDO,
			       .phase = STORE_DECIDED,
			       .number = 7,
			       .commit_op = 3,
			       .rollback = true,
			       .dir = (char *)"op-0123",
			       .message = (char *)ODD_BYTES,
			       .started_ns = -5,
			       .ended_ns = INT64_MAX,
			       .added = 1,
			       .modified = UINT64_MAX,
			       .deleted = 3,
			       .meta = 4 };
	struct store_op *list = NULL;
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_op_add(s, &op, &err), err);
	scene_commit(s);
	CHECK_EQ(list_ops(s, op.sandbox, &list), 1);
	CHECK_EQ(list->id, op.id);
	CHECK_EQ(list->kind, STORE_OP_UNDO);
	CHECK_EQ(list->phase, STORE_DECIDED);
	CHECK_EQ(list->number, 7);
	CHECK_EQ(list->commit_op, 3);
	CHECK(list->rollback && !list->taken_back);
	CHECK_STR(list->dir, "op-0123");
	CHECK_STR(list->message, ODD_BYTES);
	CHECK_EQ(list->started_ns, -5);
	CHECK_EQ(list->ended_ns, INT64_MAX);
	CHECK(list->added == 1 && list->modified == UINT64_MAX && list->deleted == 3 && list->meta == 4);
	store_ops_free(list, 1);
}

TEST(no_message_and_an_empty_one_are_told_apart)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one");
	struct store_op op = { .sandbox = box, .dir = (char *)"d", .message = (char *)"" }, *list = NULL;
	struct atoll_error err = { 0 };

	add_op(s, box, STORE_OP_COMMIT, 0);
	scene_begin(s);
	CHECK_DONE(store_op_add(s, &op, &err), err);
	scene_commit(s);
	CHECK_EQ(list_ops(s, box, &list), 2);
	CHECK_STR(list[0].message, "");
	CHECK(list[1].message == NULL);
	store_ops_free(list, 2);
}

TEST(commits_are_numbered_from_one_in_each_sandbox_and_an_undo_carries_its_commits_number)
{
	AUTO_STORE *s = scene_store();
	int64_t one = scene_box(s, "one"), two = scene_box(s, "two");

	CHECK_EQ(add_op(s, one, STORE_OP_COMMIT, 0).number, 1);
	CHECK_EQ(add_op(s, one, STORE_OP_COMMIT, 0).number, 2);
	CHECK_EQ(add_op(s, two, STORE_OP_COMMIT, 0).number, 1);
	CHECK_EQ(add_op(s, one, STORE_OP_UNDO, 1).number, 1);
	CHECK_EQ(add_op(s, one, STORE_OP_COMMIT, 0).number, 3);
}

TEST(ops_are_listed_newest_first_and_of_all_sandboxes_for_zero)
{
	AUTO_STORE *s = scene_store();
	int64_t one = scene_box(s, "one"), two = scene_box(s, "two");
	struct store_op *list = NULL;

	add_op(s, one, STORE_OP_COMMIT, 0);
	add_op(s, two, STORE_OP_COMMIT, 0);
	add_op(s, one, STORE_OP_COMMIT, 0);
	CHECK_EQ(list_ops(s, one, &list), 2);
	CHECK_EQ(list[0].number, 2);
	CHECK_EQ(list[1].number, 1);
	store_ops_free(list, 2);
	CHECK_EQ(list_ops(s, 0, &list), 3);
	CHECK(list[0].id > list[1].id && list[1].id > list[2].id);
	store_ops_free(list, 3);
}

TEST(phase_and_taken_back_change_in_their_own_op_only)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one");
	struct store_op first = add_op(s, box, STORE_OP_COMMIT, 0), second = add_op(s, box, STORE_OP_COMMIT, 0),
			*list = NULL;
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_op_set_phase(s, first.id, STORE_FAILED, 77, &err), err);
	CHECK_DONE(store_op_set_taken_back(s, second.id, &err), err);
	scene_commit(s);
	CHECK_EQ(list_ops(s, box, &list), 2);
	CHECK_EQ(list[1].phase, STORE_FAILED);
	CHECK_EQ(list[1].ended_ns, 77);
	CHECK(!list[1].taken_back);
	CHECK_EQ(list[0].phase, STORE_PREPARED);
	CHECK_EQ(list[0].ended_ns, 0);
	CHECK(list[0].taken_back);
	store_ops_free(list, 2);
}

static int64_t unfinished(struct store *s, int64_t sandbox)
{
	struct atoll_error err = { 0 };
	struct store_op op = { 0 };
	int r = store_op_unfinished(s, sandbox, &op, &err);
	int64_t id = op.id;

	CHECK_EQ(r, id != 0);
	store_op_release(&op);
	return id;
}

TEST(the_newest_op_that_is_prepared_or_decided_is_the_unfinished_one)
{
	AUTO_STORE *s = scene_store();
	int64_t one = scene_box(s, "one"), two = scene_box(s, "two");
	static const enum store_op_phase phases[] = { STORE_DONE, STORE_DECIDED, STORE_FAILED };
	struct atoll_error err = { 0 };
	struct store_op op = { 0 };

	CHECK_EQ(unfinished(s, one), 0);
	for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
		op = add_op(s, one, STORE_OP_COMMIT, 0);
		CHECK_EQ(unfinished(s, one), op.id);
		CHECK_EQ(unfinished(s, two), 0);
		scene_begin(s);
		CHECK_DONE(store_op_set_phase(s, op.id, phases[i], 0, &err), err);
		scene_commit(s);
	}
	CHECK_EQ(unfinished(s, one), op.id - 1);
}

TEST(sandboxes_with_a_prepared_op_are_listed_once)
{
	AUTO_STORE *s = scene_store();
	int64_t one = scene_box(s, "one"), two = scene_box(s, "two");
	struct store_op first = add_op(s, one, STORE_OP_COMMIT, 0), second = add_op(s, two, STORE_OP_COMMIT, 0);
	struct store_sandbox *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_box(s, "none");
	add_op(s, two, STORE_OP_COMMIT, 0);
	CHECK_DONE(store_sandbox_list_prepared(s, &list, &n, &err), err);
	CHECK_EQ(n, 2);
	for (size_t i = 0; i < n; i++)
		store_sandbox_release(&list[i]);
	free(list);
	scene_begin(s);
	CHECK_DONE(store_op_set_phase(s, first.id, STORE_DECIDED, 0, &err), err);
	CHECK_DONE(store_op_set_phase(s, second.id, STORE_DONE, 0, &err), err);
	scene_commit(s);
	CHECK_DONE(store_sandbox_list_prepared(s, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	CHECK_EQ(list[0].id, two);
	store_sandbox_release(&list[0]);
	free(list);
}

TEST(how_an_op_treats_a_resource_is_kept_and_replaced)
{
	AUTO_STORE *s = scene_store();
	struct store_op op = add_op(s, scene_box(s, "one"), STORE_OP_COMMIT, 0);
	struct store_op_resource a = { op.id, 2,    STORE_SOURCE_COPY,      true, scene_id(3, 9), INT64_MAX, INT64_MIN,
				       true,  true, { 1, 2, 3, UINT32_MAX } };
	struct store_op_resource b = { op.id, 1, STORE_SOURCE_RETIRE, false, scene_id(0, 0), 1, 2, false },
				 *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_op_resource_put(s, &a, &err), err);
	CHECK_DONE(store_op_resource_put(s, &b, &err), err);
	a.landed_at = 99;
	CHECK_DONE(store_op_resource_put(s, &a, &err), err);
	scene_commit(s);
	CHECK_DONE(store_op_resource_list(s, op.id, &list, &n, &err), err);
	CHECK_EQ(n, 2);
	CHECK_EQ(list[0].resource, 1);
	CHECK_EQ(list[0].source, STORE_SOURCE_RETIRE);
	CHECK_EQ(list[0].fresh.size, 0);
	CHECK_EQ(list[1].source, STORE_SOURCE_COPY);
	CHECK(list[1].switches && tree_id_equal(&list[1].fresh, &a.fresh));
	CHECK_EQ(list[1].prepared_at, INT64_MAX);
	CHECK_EQ(list[1].landed_at, 99);
	CHECK(list[1].stays_active && !list[0].stays_active);
	CHECK(list[1].counted && !list[0].counted);
	CHECK_EQ(list[1].counts.added, 1);
	CHECK_EQ(list[1].counts.modified, 2);
	CHECK_EQ(list[1].counts.deleted, 3);
	CHECK_EQ(list[1].counts.meta, UINT32_MAX);
	free(list);
}

TEST(a_step_of_every_kind_comes_back_as_it_was_put_in)
{
	static const char bytes[] = { 'a', 0, 'b', (char)0xff, 0 };
	AUTO_STORE *s = scene_store();
	struct store_op op = add_op(s, scene_box(s, "one"), STORE_OP_COMMIT, 0);
	struct store_step steps[STORE_STEP_KIND_COUNT], *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	for (int kind = 0; kind < STORE_STEP_KIND_COUNT; kind++)
		steps[kind] = (struct store_step){ .seq = kind,
						   .resource = 40 + kind,
						   .kind = (enum store_step_kind)kind,
						   .path = (char *)(kind ? "dir/" ODD_BYTES : ""),
						   .slot = kind % 2 ? (char *)"slot" : NULL,
						   .before = scene_look(1 + (unsigned)kind),
						   .after = scene_look(50 + (unsigned)kind),
						   .change = ATOLL_RENAMED };
	steps[STORE_STEP_META].xattrs_before = (char *)bytes;
	steps[STORE_STEP_META].xattrs_before_size = sizeof bytes;
	steps[STORE_STEP_META].xattrs_after = (char *)"";
	scene_begin(s);
	CHECK_DONE(store_steps_put(s, op.id, steps, STORE_STEP_KIND_COUNT, &err), err);
	scene_commit(s);
	CHECK_DONE(store_steps_list(s, op.id, &list, &n, &err), err);
	CHECK_EQ(n, STORE_STEP_KIND_COUNT);
	for (int kind = 0; kind < STORE_STEP_KIND_COUNT; kind++) {
		struct store_look before = scene_look(1 + (unsigned)kind), after = scene_look(50 + (unsigned)kind);

		CHECK_EQ(list[kind].seq, kind);
		CHECK_EQ(list[kind].resource, 40 + kind);
		CHECK_EQ(list[kind].kind, kind);
		CHECK_STR(list[kind].path, kind ? "dir/" ODD_BYTES : "");
		CHECK_STR(list[kind].slot, kind % 2 ? "slot" : NULL);
		CHECK(same_look(&list[kind].before, &before) && same_look(&list[kind].after, &after));
		CHECK_EQ(list[kind].change, ATOLL_RENAMED);
		CHECK(!list[kind].dropped);
		CHECK_EQ(list[kind].xattrs_before != NULL, kind == STORE_STEP_META);
	}
	CHECK_EQ(list[STORE_STEP_META].xattrs_before_size, sizeof bytes);
	CHECK(memcmp(list[STORE_STEP_META].xattrs_before, bytes, sizeof bytes) == 0);
	CHECK(list[STORE_STEP_META].xattrs_after && list[STORE_STEP_META].xattrs_after_size == 0);
	store_steps_free(list, n);
}

TEST(dropped_steps_are_left_out_and_those_of_one_op_forgotten)
{
	AUTO_STORE *s = scene_store();
	int64_t box = scene_box(s, "one");
	struct store_op a = add_op(s, box, STORE_OP_COMMIT, 0), b = add_op(s, box, STORE_OP_COMMIT, 0);
	struct store_step steps[] = { { .seq = 0, .path = (char *)"p" },
				      { .seq = 1, .path = (char *)"p", .dropped = true },
				      { .seq = 2, .path = (char *)"p" } };
	struct store_step *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_steps_put(s, a.id, steps, ARRAY_SIZE(steps), &err), err);
	CHECK_DONE(store_steps_put(s, b.id, steps, ARRAY_SIZE(steps), &err), err);
	CHECK_DONE(store_steps_forget(s, b.id, &err), err);
	scene_commit(s);
	CHECK_DONE(store_steps_list(s, a.id, &list, &n, &err), err);
	CHECK_EQ(n, 2);
	CHECK_EQ(list[1].seq, 2);
	store_steps_free(list, n);
	CHECK_DONE(store_steps_list(s, b.id, &list, &n, &err), err);
	CHECK_EQ(n, 0);
	store_steps_free(list, n);
}

TEST(steps_are_put_once_and_a_failure_leaves_those_that_were_there)
{
	AUTO_STORE *s = scene_store();
	struct store_op op = add_op(s, scene_box(s, "one"), STORE_OP_COMMIT, 0);
	struct store_step step = { .seq = 1, .path = (char *)"p" }, *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_steps_put(s, op.id, &step, 1, &err), err);
	CHECK(store_steps_put(s, op.id, &step, 1, &err) < 0);
	scene_commit(s);
	CHECK_DONE(store_steps_list(s, op.id, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	store_steps_free(list, n);
}

TEST(ten_thousand_steps_come_back_in_order)
{
	enum { MANY = 10000 };
	AUTO_STORE *s = scene_store();
	struct store_op op = add_op(s, scene_box(s, "one"), STORE_OP_COMMIT, 0);
	struct store_step *steps = calloc(MANY, sizeof *steps), *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	for (int i = 0; i < MANY; i++)
		steps[i] = (struct store_step){ .seq = i, .path = (char *)"p" };
	scene_begin(s);
	CHECK_DONE(store_steps_put(s, op.id, steps, MANY, &err), err);
	scene_commit(s);
	CHECK_DONE(store_steps_list(s, op.id, &list, &n, &err), err);
	CHECK_EQ(n, MANY);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(list[i].seq, i);
	store_steps_free(list, n);
	free(steps);
}

TEST(steps_that_cannot_be_read_are_told_as_damage)
{
	AUTO_STORE *s = scene_store();
	struct store_op op = add_op(s, scene_box(s, "one"), STORE_OP_COMMIT, 0);
	struct store_step step = { .seq = 1, .path = (char *)"p" }, *list = NULL;
	struct atoll_error err = { 0 };
	sqlite3 *db = NULL;
	size_t n = 0;

	scene_begin(s);
	CHECK_DONE(store_steps_put(s, op.id, &step, 1, &err), err);
	scene_commit(s);
	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, "UPDATE plan SET steps=substr(steps,1,length(steps)-1)", NULL, NULL, NULL),
		 SQLITE_OK);
	sqlite3_close(db);
	CHECK_EQ(store_steps_list(s, op.id, &list, &n, &err), -ATOLL_CORRUPT);
	CHECK_CONTAINS(err.message, "damaged");
	CHECK(list == NULL);
}
