/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

TEST(exchange_works_within_a_filesystem_and_leaves_nothing)
{
	AUTO_FD a = scene_dir(tap_dirfd, "a");
	AUTO_FD b = scene_dir(tap_dirfd, "b");

	CHECK_EQ(tree_has_exchange(a), 1);
	CHECK_EQ(tree_can_exchange(a, b), 1);
	CHECK_EQ(scene_count(tap_dirfd), 2);
}

TEST(exchange_does_not_work_across_filesystems_and_leaves_nothing)
{
	int there = scene_elsewhere();

	CHECK_EQ(tree_can_exchange(tap_dirfd, there), 0);
	CHECK_EQ(tree_can_exchange(there, tap_dirfd), 0);
	CHECK_EQ(scene_count(there), 0);
	CHECK_EQ(scene_count(tap_dirfd), 0);
	scene_elsewhere_done(there);
}

TEST(the_same_device_through_another_mount_does_not_count)
{
	scene_need_mounts();
	close(scene_dir(tap_dirfd, "a"));
	close(scene_dir(tap_dirfd, "m"));
	CHECK_EQ(mount("a", "m", NULL, MS_BIND, NULL), 0);
	AUTO_FD a = open("a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD m = open("m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_EQ(scene_stat(a, "").dev, scene_stat(m, "").dev);
	CHECK_EQ(tree_can_exchange(a, m), 0);
	CHECK_EQ(scene_count(a), 0);
	close(TAKE_FD(m));
	CHECK_EQ(umount2("m", MNT_DETACH), 0);
}

static void without_permission(int dirfd)
{
	AUTO_FD a = scene_dir(dirfd, "a");
	AUTO_FD b = scene_dir(dirfd, "b");

	CHECK_EQ(fchmod(b, 0555), 0);
	CHECK_EQ(tree_can_exchange(a, b), -EACCES);
	CHECK_EQ(tree_has_exchange(b), -EACCES);
	CHECK_EQ(scene_count(dirfd), 2);
}

TEST(a_directory_that_may_not_be_written_is_an_error_and_leaves_nothing)
{
	scene_as_user(without_permission);
}
