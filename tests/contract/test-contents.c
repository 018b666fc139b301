/* SPDX-License-Identifier: Apache-2.0 */
/* A commit lands other content than a file has in the sandbox: some hunks of its edit. The rest of the
 * edit stays in the sandbox. For every strategy. */
#include "base/fd.h"
#include "contract.h"

#define OLD "1\n2\n3\n4\n5\n6\n"
#define FULL "one\n2\n3\n4\n5\nsix\n"
#define PART "one\n2\n3\n4\n5\n6\n"

static void make(const char *script)
{
	scene_open();
	scene_tree("original");
	tap_write(tap_dirfd, "original/dir/text", OLD);
	CHECK_OK(chmod("original/dir/text", 0640));
	scene_new("original");
	scene_run(script);
}

#define EDIT "sed -i 's/1/one/; s/6/six/' original/dir/text; "

static int land(const char *const *names, size_t n, const char *name, const char *content, struct atoll_result **result,
		struct atoll_error *err)
{
	AUTO_FREE char *path = str_format("%s/original/%s", tap_dir, name);
	const struct atoll_content contents = { path, content, strlen(content) };
	struct atoll_commit_options options = { .contents = &contents, .n_contents = 1 };
	char *paths[4] = { 0 };
	int r;

	for (size_t i = 0; i < n; i++)
		paths[i] = str_format("%s/original/%s", tap_dir, names[i]);
	options.selection = (struct atoll_selection){ (const char *const *)paths, n, true };
	r = atoll_commit(a, "box", &options, result, err);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	return r;
}

static void land_part(void)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	CHECK_DONE(land((const char *const[]){ "dir/text" }, 1, "dir/text", PART, &result, &err), err);
	CHECK(result && result->success);
	atoll_result_free(result);
}

static void check_file(const char *path, const char *expected)
{
	AUTO_FREE char *text = NULL;

	CHECK_OK(fd_read_file(AT_FDCWD, path, 4096, &text, NULL));
	CHECK_STR(text, expected);
}

static void undo(void)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	CHECK_DONE(atoll_undo(a, "box", NULL, &result, &err), err);
	atoll_result_free(result);
}

static void check_inside(const char *expected)
{
	AUTO_FREE char *script =
		str_format("test \"$(cat original/dir/text)\" = \"%.*s\"", (int)strlen(expected) - 1, expected);

	scene_run(script);
}

CONTRACT_ISOLATING(a_part_of_an_edit_lands_and_the_rest_stays)
{
	struct stat st;

	make(EDIT "echo new > original/one");
	land_part();
	check_file("original/dir/text", PART);
	check_file("original/one", "one\n");
	CHECK_OK(stat("original/dir/text", &st));
	CHECK_EQ(st.st_mode & 07777, 0640);
	CHECK_EQ(scene_state(), ATOLL_ACTIVE);
	CHECK_EQ(scene_pending(), 2);
	check_inside(FULL);
	CHECK_EQ(scene_pending(), 2);
	scene_commit();
	check_file("original/dir/text", FULL);
	check_file("original/one", "new\n");
	CHECK_EQ(scene_pending(), 0);
	check_inside(FULL);
}

CONTRACT_ISOLATING(the_undo_of_a_part_keeps_the_whole_edit)
{
	AUTO_FREE char *before = NULL;

	make(EDIT);
	before = manifest("original");
	land_part();
	undo();
	check_manifest("original", before);
	CHECK_EQ(scene_pending(), 1);
	check_inside(FULL);
	scene_commit();
	check_file("original/dir/text", FULL);
	undo();
	check_manifest("original", before);
	check_inside(FULL);
}

CONTRACT_ISOLATING(parts_land_one_after_the_other_and_are_undone_one_by_one)
{
	make(EDIT);
	land_part();
	scene_run("echo seven >> original/dir/text");
	check_file("original/dir/text", PART);
	scene_commit();
	check_file("original/dir/text", FULL "seven\n");
	undo();
	check_file("original/dir/text", PART);
	check_inside(FULL "seven\n");
	undo();
	check_file("original/dir/text", OLD);
	check_inside(FULL "seven\n");
	scene_commit();
	check_file("original/dir/text", FULL "seven\n");
}

CONTRACT_ISOLATING(an_edit_taken_back_to_what_landed_is_no_change)
{
	make(EDIT);
	land_part();
	scene_run("printf '" PART "' > original/dir/text");
	scene_commit();
	check_file("original/dir/text", PART);
	CHECK_EQ(scene_pending(), 0);
}

CONTRACT_ISOLATING(an_edit_taken_back_to_the_oldest_version_lands_after_its_part)
{
	make(EDIT);
	land_part();
	scene_run("printf '" OLD "' > original/dir/text");
	CHECK_EQ(scene_pending(), 1);
	scene_commit();
	check_file("original/dir/text", OLD);
}

CONTRACT_ISOLATING(a_foreign_edit_of_what_landed_in_part_is_a_conflict)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	make(EDIT);
	land_part();
	tap_write(tap_dirfd, "original/dir/text", "theirs\n");
	CHECK_CODE(atoll_commit(a, "box", NULL, &result, &err), -ATOLL_CONFLICT, err);
	check_file("original/dir/text", "theirs\n");
	check_inside(FULL);
	atoll_result_free(result);
	result = NULL;
	CHECK_CODE(atoll_undo(a, "box", NULL, &result, &err), -ATOLL_CONFLICT, err);
	check_file("original/dir/text", "theirs\n");
	atoll_result_free(result);
}

CONTRACT_ISOLATING(a_part_lands_together_with_whole_changes)
{
	static const char *const names[] = { "dir/text", "one", "dir/new" };
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	make(EDIT "echo new > original/one; echo new > original/dir/new; rm original/two");
	CHECK_DONE(land(names, 3, "dir/text", PART, &result, &err), err);
	atoll_result_free(result);
	check_file("original/dir/text", PART);
	check_file("original/one", "new\n");
	check_file("original/dir/new", "new\n");
	check_file("original/two", "two\n");
	CHECK_EQ(scene_pending(), 2);
	undo();
	check_file("original/dir/text", OLD);
	check_file("original/one", "one\n");
	CHECK(access("original/dir/new", F_OK) < 0);
	scene_commit();
	check_file("original/dir/text", FULL);
	CHECK(access("original/two", F_OK) < 0);
}

CONTRACT_ISOLATING(with_everything_else_selected_only_the_rest_of_the_edit_stays)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	make(EDIT "echo new > original/one; mkdir original/made; echo x > original/made/x");
	CHECK_DONE(land(NULL, 0, "dir/text", PART, &result, &err), err);
	atoll_result_free(result);
	check_file("original/dir/text", PART);
	check_file("original/made/x", "x\n");
	CHECK_EQ(scene_pending(), 1);
	CHECK_EQ(scene_state(), ATOLL_ACTIVE);
	check_inside(FULL);
	undo();
	check_file("original/dir/text", OLD);
	CHECK(access("original/made", F_OK) < 0);
	scene_run("cat original/made/x");
	check_inside(FULL);
}

static void check_refused(const char *name)
{
	const char *names[] = { name };
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };
	AUTO_FREE char *before = manifest("original");

	CHECK_CODE(land(names, 1, name, "x\n", &result, &err), -ATOLL_REFUSED, err);
	CHECK(result && !result->success);
	check_manifest("original", before);
	atoll_result_free(result);
}

CONTRACT_ISOLATING(no_part_lands_of_what_is_no_modified_file)
{
	make("echo new > original/added; rm original/two; rm original/link; echo 1 > original/link; "
	     "chmod 600 original/one; ln original/dir/text original/again; echo x >> original/dir/text");
	check_refused("added");
	check_refused("two");
	check_refused("link");
	check_refused("one");
	check_refused("dir/text");
	CHECK(scene_pending() > 0);
}

CONTRACT_ISOLATING(a_part_of_an_edit_that_is_not_selected_is_refused)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	make(EDIT "echo new > original/one");
	CHECK_CODE(land((const char *const[]){ "one" }, 1, "dir/text", PART, &result, &err), -ATOLL_REFUSED, err);
	check_file("original/one", "one\n");
	check_file("original/dir/text", OLD);
	atoll_result_free(result);
}
