/* SPDX-License-Identifier: Apache-2.0 */
/* A database in which steps, touches and stamps have a row each is brought up with all that is in it. */
#include <limits.h>
#include <sqlite3.h>

#include "store-scene.h"

/* What version 3 had, with two commits and two resources. */
static const char version_3[] =
	"ALTER TABLE owner DROP COLUMN registry; DROP INDEX op_unfinished; DROP TABLE plan; DROP TABLE base;"
	"ALTER TABLE op_resource DROP COLUMN stays_active;" DROP_COUNTS DROP_PRUNABLE
	"CREATE TABLE step(op INTEGER NOT NULL REFERENCES op(id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	" resource INTEGER NOT NULL, kind INTEGER NOT NULL, path BLOB NOT NULL, slot BLOB, change INTEGER NOT NULL,"
	" b_id BLOB, b_mode INTEGER, b_uid INTEGER, b_gid INTEGER, b_size INTEGER, b_mtime INTEGER, b_atime INTEGER,"
	" a_id BLOB, a_mode INTEGER, a_uid INTEGER, a_gid INTEGER, a_size INTEGER, a_mtime INTEGER, a_atime INTEGER,"
	" b_xattrs BLOB, a_xattrs BLOB, PRIMARY KEY(op, seq)) WITHOUT ROWID;"
	"CREATE TABLE touch(resource INTEGER NOT NULL REFERENCES resource(id) ON DELETE CASCADE, path BLOB NOT NULL,"
	" id BLOB, mode INTEGER, uid INTEGER, gid INTEGER, size INTEGER, mtime INTEGER, atime INTEGER, xattrs BLOB,"
	" trusted INTEGER NOT NULL, PRIMARY KEY(resource, path)) WITHOUT ROWID;"
	"CREATE TABLE stamp(resource INTEGER NOT NULL REFERENCES resource(id) ON DELETE CASCADE, path BLOB NOT NULL,"
	" stamp INTEGER NOT NULL, PRIMARY KEY(resource, path)) WITHOUT ROWID;"
	"INSERT INTO op(id,sandbox,number,kind,phase,dir,started,added,modified,deleted,meta)"
	" VALUES(1,1,1,0,2,'op-1',0,0,0,0,0),(2,1,2,0,2,'op-2',0,0,0,0,0);"
	"INSERT INTO step VALUES(1,1,7,1,x'61',NULL,2, x'01ff',1,2,3,4,5,6, x'0102',11,12,13,14,15,16, NULL,NULL),"
	"(1,2,7,4,x'62',x'7331',3, NULL,1,2,3,4,5,6, NULL,11,12,13,14,15,16, x'00',x''),"
	"(2,1,8,3,x'63',x'7431',4, x'01',1,2,3,4,5,6, NULL,0,0,0,0,0,0, NULL,NULL);"
	"INSERT INTO touch VALUES(1,x'62',x'05',1,2,3,4,5,6,x'0061',3),(1,x'61',x'06',1,2,3,4,5,6,NULL,0),"
	"(2,x'63',NULL,1,2,3,4,5,6,NULL,1);"
	"INSERT INTO stamp VALUES(1,x'61',-5),(2,x'642f2e',9223372036854775807);"
	"PRAGMA user_version=3";

static struct store *brought_up(void)
{
	struct store *s = scene_store();
	int64_t box = scene_box(s, "one");
	char *why = NULL;
	sqlite3 *db = NULL;

	scene_resource(s, box, 1);
	scene_resource(s, box, 2);
	store_close(s);
	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	if (sqlite3_exec(db, version_3, NULL, NULL, &why) != SQLITE_OK)
		tap_fail(__FILE__, __LINE__, "%s", why);
	sqlite3_close(db);
	return scene_store();
}

TEST(steps_are_there_in_their_order)
{
	AUTO_STORE *s = brought_up();
	struct store_step *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_steps_list(s, 1, &list, &n, &err), err);
	CHECK_EQ(n, 2);
	CHECK(list[0].seq == 1 && list[0].resource == 7 && list[0].kind == STORE_STEP_EXCHANGE);
	CHECK_STR(list[0].path, "a");
	CHECK_STR(list[0].slot, NULL);
	CHECK_EQ(list[0].change, 2);
	CHECK(list[0].before.id.size == 2 && list[0].before.id.data[1] == 0xff && list[0].before.mode == 1);
	CHECK(list[0].before.atime == 6 && list[0].after.mode == 11 && list[0].after.atime == 16);
	CHECK(list[0].xattrs_before == NULL);
	CHECK_STR(list[1].slot, "s1");
	CHECK(list[1].xattrs_before_size == 1 && list[1].xattrs_after && list[1].xattrs_after_size == 0);
	store_steps_free(list, n);
	CHECK_DONE(store_steps_list(s, 2, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	CHECK_STR(list[0].path, "c");
	store_steps_free(list, n);
}

TEST(touches_and_stamps_are_there)
{
	AUTO_STORE *s = brought_up();
	struct store_touch *touches = NULL;
	struct store_stamp *stamps = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_touch_list(s, 1, &touches, &n, &err), err);
	CHECK_EQ(n, 2);
	CHECK_STR(touches[0].path, "a");
	CHECK(touches[0].look.id.data[0] == 6 && touches[0].look.size == 4 && !touches[0].xattrs);
	CHECK(touches[1].xattrs_size == 2 && touches[1].trusted == 3);
	store_touches_free(touches, n);
	CHECK_DONE(store_touch_list(s, 2, &touches, &n, &err), err);
	CHECK_EQ(n, 1);
	store_touches_free(touches, n);
	CHECK_DONE(store_stamp_list(s, 1, &stamps, &n, &err), err);
	CHECK(n == 1 && stamps[0].stamp == -5);
	store_stamps_free(stamps, n);
	CHECK_DONE(store_stamp_list(s, 2, &stamps, &n, &err), err);
	CHECK(n == 1 && stamps[0].stamp == INT64_MAX);
	CHECK_STR(stamps[0].path, "d/.");
	store_stamps_free(stamps, n);
}

TEST(it_is_brought_up_once)
{
	struct store_step *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	store_close(brought_up());
	{
		AUTO_STORE *s = scene_store();

		CHECK_DONE(store_steps_list(s, 1, &list, &n, &err), err);
		CHECK_EQ(n, 2);
		store_steps_free(list, n);
	}
}

static char *area_on_record(void)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	char *text;

	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_prepare_v2(db, "SELECT CAST(work AS TEXT) FROM resource", -1, &stmt, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_step(stmt), SQLITE_ROW);
	text = strdup((const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return text;
}

/* A database of version 5 whose state directory was at `top` when the area was recorded. */
static void make_version_5(const char *top, bool owner)
{
	struct store *s = scene_store();
	char sql[1024];
	sqlite3 *db = NULL;

	scene_resource(s, scene_box(s, "one"), 1);
	store_close(s);
	snprintf(sql, sizeof sql,
		 "UPDATE resource SET work=CAST('%s/boxes/u/1' AS BLOB), stage=CAST('/elsewhere/.atoll-0/u/1' AS BLOB);"
		 "ALTER TABLE owner DROP COLUMN registry; DELETE FROM owner;"
		 "ALTER TABLE op_resource DROP COLUMN stays_active;" DROP_COUNTS DROP_PRUNABLE
		 "%s%s%s PRAGMA user_version=5",
		 top, owner ? "INSERT INTO owner VALUES(1,NULL,0,CAST('" : "", owner ? top : "",
		 owner ? "' AS BLOB));" : "");
	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void check_areas(void)
{
	AUTO_STORE *s = scene_store();
	struct store_resource *list = NULL;
	struct atoll_error err = { 0 };
	char expected[PATH_MAX + 16];
	char *recorded;
	size_t n = 0;

	snprintf(expected, sizeof expected, "%s/boxes/u/1", tap_dir);
	CHECK_DONE(store_resource_list(s, 1, &list, &n, &err), err);
	CHECK_EQ(n, 1);
	CHECK_STR(list[0].work, expected);
	CHECK_STR(list[0].stage, "/elsewhere/.atoll-0/u/1");
	scene_begin(s);
	CHECK_DONE(store_resource_update(s, &list[0], &err), err);
	scene_commit(s);
	recorded = area_on_record();
	CHECK_STR(recorded, "boxes/u/1");
	free(recorded);
	store_resource_release(&list[0]);
	free(list);
}

TEST(areas_of_a_state_directory_that_was_moved_are_found_where_it_is_now)
{
	make_version_5("/where/it/was", true);
	check_areas();
}

TEST(areas_of_a_state_directory_without_an_owner_on_record_are_found)
{
	make_version_5(tap_dir, false);
	check_areas();
}

/* Sandboxes of version 9 were made to be kept. */
TEST(a_sandbox_of_an_earlier_version_is_not_pruned)
{
	struct atoll_error err = { 0 };
	sqlite3 *db = NULL;

	{
		AUTO_STORE *s = scene_store();

		scene_box(s, "one");
	}
	CHECK_EQ(sqlite3_open("atoll.db", &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, DROP_PRUNABLE "PRAGMA user_version=9", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	{
		AUTO_STORE *s = scene_store();
		struct store_sandbox box = { 0 };

		CHECK_DONE(store_sandbox_find(s, "one", &box, &err), err);
		CHECK(!box.prunable && box.measured_op == 0);
		store_sandbox_release(&box);
	}
}
