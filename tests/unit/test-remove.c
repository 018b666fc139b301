/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

TEST(removing_what_is_not_there_is_fine)
{
	CHECK_OK(tree_remove(tap_dirfd, "missing"));
	CHECK_EQ(tree_remove(tap_dirfd, ""), -EINVAL);
}

TEST(a_tree_goes_with_everything_in_it)
{
	AUTO_FD d = scene_dir(tap_dirfd, "d");
	AUTO_FD e = scene_dir(d, "e");

	tap_write(e, "\xff\n-rf", "x");
	scene_specials(e);
	CHECK_OK(tree_remove(tap_dirfd, "d"));
	CHECK(!scene_has(tap_dirfd, "d"));
}

TEST(links_are_removed_and_what_they_point_to_is_not)
{
	close(scene_dir(tap_dirfd, "kept"));
	tap_write(tap_dirfd, "kept/f", "x");
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	CHECK_EQ(symlinkat("../kept", d, "to-dir"), 0);
	CHECK_EQ(symlinkat("../kept/f", d, "to-file"), 0);
	CHECK_EQ(symlinkat("kept", tap_dirfd, "l"), 0);
	CHECK_OK(tree_remove(tap_dirfd, "d"));
	CHECK_OK(tree_remove(tap_dirfd, "l"));
	CHECK_STR(tap_read(tap_dirfd, "kept/f"), "x");
	CHECK_EQ(scene_count(tap_dirfd), 2);
}

TEST(emptying_keeps_the_directory_itself)
{
	AUTO_FD d = scene_dir(tap_dirfd, "d");
	AUTO_FD path = openat(tap_dirfd, "d", O_PATH | O_CLOEXEC);

	tap_write(d, "f", "x");
	close(scene_dir(d, "e"));
	CHECK_OK(tree_empty(path));
	CHECK_EQ(scene_count(d), 0);
	CHECK_OK(tree_empty(d));
	CHECK(scene_has(tap_dirfd, "d"));
	tap_write(tap_dirfd, "f", "x");
	AUTO_FD f = openat(tap_dirfd, "f", O_PATH | O_CLOEXEC);

	CHECK_EQ(tree_empty(f), -ENOTDIR);
}

TEST(any_depth_can_be_removed)
{
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	scene_deep(d, 5000);
	CHECK_OK(tree_remove(tap_dirfd, "d"));
	CHECK_EQ(scene_count(tap_dirfd), 0);
}

static void remove_closed(int dirfd)
{
	static const mode_t modes[] = { 0, 0100, 0200, 0300, 0400, 0500, 0555, 0600, 0700 };
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		AUTO_FD d = scene_dir(dirfd, "d");

		for (size_t j = 0; j < ARRAY_SIZE(modes); j++) {
			snprintf(name, sizeof(name), "e%zu", j);
			AUTO_FD e = scene_dir(d, name);

			tap_write(e, "f", "x");
			CHECK_EQ(fchmodat(e, "f", 0, 0), 0);
			CHECK_EQ(fchmod(e, modes[j]), 0);
		}
		CHECK_EQ(fchmod(d, modes[i]), 0);
		CHECK_OK(tree_remove(dirfd, "d"));
		CHECK(!scene_has(dirfd, "d"));
	}
}

TEST(directories_without_permission_are_no_obstacle_to_their_owner)
{
	scene_as_user(remove_closed);
}

static void remove_foreign(int dirfd)
{
	CHECK_EQ(tree_remove(dirfd, "d"), -EACCES);
	CHECK(scene_has(dirfd, "d/foreign/f"));
	CHECK(!scene_has(dirfd, "d/a") && !scene_has(dirfd, "d/z"));
	CHECK(!scene_has(dirfd, "d/empty"));
}

TEST(what_cannot_go_stays_and_the_rest_goes)
{
	if (geteuid() != 0)
		tap_skip("needs root to make another's directory");
	AUTO_FD home = scene_dir(tap_dirfd, "home");
	AUTO_FD d = scene_dir(home, "d");
	AUTO_FD foreign = scene_dir(d, "foreign");

	close(scene_dir(d, "empty"));
	CHECK_EQ(fchmodat(d, "empty", 0, 0), 0);
	tap_write(foreign, "f", "x");
	tap_write(d, "a", "x");
	tap_write(d, "z", "x");
	CHECK_EQ(fchown(d, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(fchown(home, SCENE_UID, SCENE_UID), 0);
	scene_as_user_in(home, remove_foreign);
}

TEST(mounts_are_neither_entered_nor_removed)
{
	scene_need_mounts();
	AUTO_FD d = scene_dir(tap_dirfd, "d");
	AUTO_FD kept = scene_dir(tap_dirfd, "kept");

	close(scene_dir(d, "m"));
	tap_write(kept, "f", "x");
	tap_write(d, "mf", "");
	tap_write(d, "g", "");
	CHECK_EQ(mount("kept", "d/m", NULL, MS_BIND, NULL), 0);
	CHECK_EQ(mount("kept/f", "d/mf", NULL, MS_BIND, NULL), 0);
	CHECK_EQ(tree_remove(tap_dirfd, "d"), -EBUSY);
	CHECK_EQ(tree_remove(d, "m"), -EBUSY);
	CHECK_STR(tap_read(kept, "f"), "x");
	CHECK(!scene_has(d, "g"));
	CHECK_EQ(umount2("d/m", MNT_DETACH), 0);
	CHECK_EQ(umount2("d/mf", MNT_DETACH), 0);
	CHECK_OK(tree_remove(tap_dirfd, "d"));
	CHECK_STR(tap_read(kept, "f"), "x");
}

TEST(a_directory_swapped_for_a_link_meanwhile_does_not_lead_outside)
{
	AUTO_FD kept = scene_dir(tap_dirfd, "kept");
	pid_t pid;

	tap_write(kept, "f", "x");
	CHECK_EQ(symlinkat("kept", tap_dirfd, "link"), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		for (;;)
			renameat2(tap_dirfd, "d", tap_dirfd, "link", RENAME_EXCHANGE);
	}
	for (int i = 0; i < 3000; i++) {
		mkdirat(tap_dirfd, "d", 0755);
		(void)tree_remove(tap_dirfd, "d");
		if (!scene_has(tap_dirfd, "link"))
			CHECK_EQ(symlinkat("kept", tap_dirfd, "link"), 0);
		CHECK(scene_has(kept, "f"));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
