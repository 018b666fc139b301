/* SPDX-License-Identifier: Apache-2.0 */
/* Where workspaces and staging lie, what is private about it, and that nothing of it stays. */
#include "engine/sandbox.h"
#include "tree-scene.h"

#define UUID "00000000-0000-4000-8000-000000000000"

static struct atoll a;
static char original[4200], state[4200];
static char *work, *stage;
static bool copies;

static void set_scene(void)
{
	snprintf(state, sizeof state, "%s/state", tap_dir);
	snprintf(original, sizeof original, "%s/original", tap_dir);
	CHECK_OK(mkdir("state", 0700));
	CHECK_OK(mkdir("state/boxes", 0700));
	CHECK_OK(mkdir("original", 0755));
	a = (struct atoll){ .state_dir = state, .state_fd = open("state", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
}

static int choose(const char *path, bool overlay, struct atoll_error *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	free(work);
	free(stage);
	work = stage = NULL;
	return area_choose(&a, UUID, 1, fd, path, &(struct area_needs){ overlay, NULL }, &work, &stage, &copies, err);
}

static void mount_tmpfs(const char *path)
{
	CHECK_EQ(mount("none", path, "tmpfs", 0, "size=4m,mode=0755"), 0);
}

TEST(the_state_directory_is_the_first_choice_and_serves_both)
{
	struct atoll_error err = { 0 };

	set_scene();
	CHECK_EQ(choose(original, false, &err), 0);
	CHECK_STR(work, stage);
	CHECK(path_is_below(work, state) && !copies);
	CHECK_EQ(scene_stat(AT_FDCWD, work).mode & 07777, 0700);
	CHECK_EQ(scene_count(open("original", O_RDONLY | O_DIRECTORY)), 0);
	CHECK_OK(area_remove(work));
	CHECK_EQ(scene_count(open("state/boxes", O_RDONLY | O_DIRECTORY)), 0);
}

TEST(an_original_on_another_mount_gets_a_private_place_at_that_mounts_root)
{
	struct atoll_error err = { 0 };
	char deep[4300], place[4300];

	scene_need_mounts();
	set_scene();
	mount_tmpfs(original);
	snprintf(deep, sizeof deep, "%s/a", original);
	CHECK_OK(mkdir(deep, 0755));
	strcat(deep, "/b");
	CHECK_OK(mkdir(deep, 0755));
	CHECK_EQ(choose(deep, false, &err), 0);
	snprintf(place, sizeof place, "%s/.atoll-%u", original, (unsigned)geteuid());
	CHECK(path_is_below(work, place) && !copies);
	CHECK_EQ(scene_stat(AT_FDCWD, place).mode & 07777, 0700);
	CHECK_OK(area_remove(work));
	CHECK(!scene_has(AT_FDCWD, place));
	CHECK_EQ(scene_count(open("state/boxes", O_RDONLY | O_DIRECTORY)), 0);
}

TEST(an_original_that_is_a_mounts_root_is_staged_inside_and_worked_on_elsewhere)
{
	struct atoll_error err = { 0 };

	scene_need_mounts();
	set_scene();
	mount_tmpfs(original);
	CHECK_EQ(choose(original, false, &err), 0);
	CHECK(path_is_below(stage, original) && !path_is_below(work, original) && copies);
	CHECK_OK(area_remove(work));
	CHECK_OK(area_remove(stage));
	CHECK_EQ(scene_count(open("original", O_RDONLY | O_DIRECTORY)), 0);
	CHECK_EQ(scene_count(open("state/boxes", O_RDONLY | O_DIRECTORY)), 0);
}

TEST(where_nothing_can_be_written_for_staging_it_is_refused_and_nothing_stays)
{
	struct atoll_error err = { 0 };

	scene_need_mounts();
	set_scene();
	mount_tmpfs(original);
	CHECK_EQ(mount(NULL, original, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	CHECK_EQ(choose(original, false, &err), -ATOLL_REFUSED);
	CHECK_CONTAINS(err.message, "original");
	CHECK_EQ(scene_count(open("state/boxes", O_RDONLY | O_DIRECTORY)), 0);
	CHECK_EQ(umount(original), 0);
}

/* A place of the guessable name that others can write, or that is a link, is not used. */
TEST(a_planted_place_is_passed_over)
{
	struct atoll_error err = { 0 };
	char place[4300], deep[4300];

	scene_need_mounts();
	set_scene();
	mount_tmpfs(original);
	snprintf(place, sizeof place, "%s/.atoll-%u", original, (unsigned)geteuid());
	snprintf(deep, sizeof deep, "%s/deep", original);
	CHECK_OK(mkdir(deep, 0755));
	CHECK_OK(mkdir("elsewhere", 0700));
	CHECK_OK(symlink("/var/tmp", place));
	CHECK_EQ(choose(deep, false, &err), 0);
	CHECK(!path_is_below(work, place) && !path_is_below(stage, place));
	CHECK_OK(area_remove(work));
	CHECK_OK(area_remove(stage));
	CHECK_OK(unlink(place));
	CHECK_OK(mkdir(place, 0777));
	CHECK_OK(chmod(place, 0777));
	CHECK_EQ(choose(deep, false, &err), 0);
	CHECK(!path_is_below(work, place) && !path_is_below(stage, place));
	CHECK_OK(area_remove(work));
	CHECK_OK(area_remove(stage));
	CHECK_EQ(scene_count(open(place, O_RDONLY | O_DIRECTORY)), 0);
}

TEST(removing_an_area_leaves_what_other_sandboxes_have_beside_it)
{
	struct atoll_error err = { 0 };

	set_scene();
	CHECK_EQ(choose(original, false, &err), 0);
	CHECK_OK(mkdir("state/boxes/another", 0700));
	scene_deep(open(work, O_RDONLY | O_DIRECTORY), 5);
	CHECK_OK(area_remove(work));
	CHECK_OK(area_remove(work));
	CHECK(scene_has(tap_dirfd, "state/boxes/another") && !scene_has(tap_dirfd, "state/boxes/" UUID));
	CHECK_OK(area_remove(""));
}

TEST(areas_of_several_resources_share_their_sandboxes_directory)
{
	struct atoll_error err = { 0 };
	AUTO_FD fd = -EBADF;
	AUTO_FREE char *second = NULL;
	AUTO_FREE char *same = NULL;

	set_scene();
	CHECK_EQ(choose(original, false, &err), 0);
	fd = open(original, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(area_choose(&a, UUID, 2, fd, original, &(struct area_needs){ 0 }, &second, &same, &copies, &err), 0);
	CHECK(strcmp(second, work) != 0);
	CHECK_OK(area_remove(work));
	CHECK(scene_has(AT_FDCWD, second));
	CHECK_OK(area_remove(second));
	CHECK_EQ(scene_count(open("state/boxes", O_RDONLY | O_DIRECTORY)), 0);
}

TEST(what_an_interrupted_new_made_in_any_place_is_found_by_its_uuid)
{
	struct session s = { .a = &a, .box.uuid = UUID };
	struct atoll_error err = { 0 };
	AUTO_FD fd = -EBADF;
	char deep[4300];

	scene_need_mounts();
	set_scene();
	mount_tmpfs(original);
	snprintf(deep, sizeof deep, "%s/deep", original);
	CHECK_OK(mkdir(deep, 0755));
	CHECK_EQ(choose(deep, false, &err), 0);
	fd = open(deep, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	area_remove_candidates(&s, 1, fd, deep);
	CHECK(!scene_has(AT_FDCWD, work));
	CHECK_EQ(scene_count(open(original, O_RDONLY | O_DIRECTORY)), 1);
}

static const char *unsafe_of(const char *dir)
{
	static char found[4200];
	AUTO_FREE char *unsafe = NULL;
	int r = area_find_unsafe(dir, &unsafe);

	CHECK_OK(r);
	snprintf(found, sizeof found, "%s", r > 0 ? unsafe : "");
	return found;
}

TEST(a_directory_that_other_users_can_write_is_named)
{
	char open_to_all[4300], below[4310];

	set_scene();
	snprintf(open_to_all, sizeof open_to_all, "%s/team", original);
	snprintf(below, sizeof below, "%s/mine", open_to_all);
	CHECK_OK(mkdir(open_to_all, 0755));
	CHECK_OK(mkdir(below, 0755));
	CHECK_STR(unsafe_of(below), "");
	CHECK_OK(chmod(open_to_all, 0777));
	CHECK_STR(unsafe_of(below), open_to_all);
	CHECK_OK(chmod(open_to_all, 01777));
	CHECK_STR(unsafe_of(below), "");
	CHECK_STR(unsafe_of("/var/tmp"), "");
	strcat(below, "/not-there");
	CHECK_STR(unsafe_of(below), "");
	if (geteuid() == 0) {
		CHECK_OK(chmod(open_to_all, 0755));
		CHECK_OK(chown(open_to_all, 12345, 0));
		CHECK_STR(unsafe_of(below), open_to_all);
		CHECK_OK(chown(open_to_all, 0, 64999)); /* a group that /etc/group does not know may have members */
		CHECK_OK(chmod(open_to_all, 0775));
		CHECK_STR(unsafe_of(below), open_to_all);
	}
}

TEST(an_area_whose_way_is_a_link_or_not_private_is_not_opened)
{
	struct atoll_error err = { 0 };
	AUTO_FREE char *box = NULL;
	AUTO_FD fd = -EBADF;

	set_scene();
	CHECK_EQ(choose(original, false, &err), 0);
	fd = area_open(work);
	CHECK_OK(fd);
	box = strndup(work, (size_t)(strrchr(work, '/') - work));
	CHECK_OK(mkdir("precious", 0700));
	CHECK_OK(mkdir("precious/1", 0700));
	CHECK_OK(rename(box, "aside"));
	CHECK_OK(symlink("../../precious", box));
	CHECK(area_open(work) < 0);
	CHECK(area_remove(work) < 0);
	CHECK(scene_has(tap_dirfd, "precious/1"));
	CHECK_OK(unlink(box));
	CHECK_OK(rename("aside", box));
	CHECK_OK(chmod(box, 0777));
	CHECK_EQ(area_open(work), -EPERM);
	CHECK_EQ(area_remove(work), -EPERM);
	CHECK_OK(chmod(box, 0700));
	CHECK_OK(area_remove(work));
}

TEST(atolls_own_places_are_known_by_path)
{
	char path[4300];

	set_scene();
	CHECK(area_owns_path(&a, state));
	snprintf(path, sizeof path, "%s/boxes/x", state);
	CHECK(area_owns_path(&a, path));
	snprintf(path, sizeof path, "/srv/.atoll-%u/x", (unsigned)geteuid());
	CHECK(area_owns_path(&a, path));
	snprintf(path, sizeof path, "/srv/.atoll-%u", (unsigned)geteuid());
	CHECK(area_owns_path(&a, path));
	snprintf(path, sizeof path, "/srv/.atoll-%u0/x", (unsigned)geteuid());
	CHECK(!area_owns_path(&a, path));
	snprintf(path, sizeof path, "/srv/x.atoll-%u/x", (unsigned)geteuid());
	CHECK(!area_owns_path(&a, path));
	snprintf(path, sizeof path, "%s-2", state);
	CHECK(!area_owns_path(&a, path));
}
