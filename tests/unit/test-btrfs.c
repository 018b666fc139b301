/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes: what is one, what a snapshot of it is and has, and how they go. */
#include <linux/btrfs_tree.h>

#include "btrfs.h"
#include "tree-scene.h"

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	return fd;
}

static char found[256];

static int note(const char *path, void *arg)
{
	snprintf(found, sizeof found, "%s", path ? path : "(not to be seen)");
	++*(int *)arg;
	return 0;
}

static int count_in(const char *path)
{
	AUTO_FD fd = open_dir(path);
	int n = 0;

	CHECK_EQ(tree_subvolumes_in(fd, note, &n), 0);
	return n;
}

TEST(what_is_no_subvolume_is_told_so)
{
	struct tree_subvolume s;
	struct stat st;
	int ignored;

	CHECK_EQ(fstat(tap_dirfd, &st), 0);
	if (st.st_ino == BTRFS_FIRST_FREE_OBJECTID)
		tap_skip("the directory of the test is one");
	CHECK_EQ(tree_subvolume(tap_dirfd, &s), -ENOTTY);
	CHECK(tree_subvolumes_in(tap_dirfd, note, &ignored) <= 0);
	CHECK(tree_subvolume_remove(tap_dirfd, ".") < 0);
}

TEST(a_snapshot_is_a_later_subvolume_of_the_same_filesystem_with_the_same_content)
{
	struct tree_subvolume original, copy;
	AUTO_FD fd = -EBADF, snapshot = -EBADF, elsewhere = open_dir("/proc");

	btrfs_ground();
	btrfs_subvolume("o");
	fd = open_dir("o");
	tap_write(fd, "file", "content");
	CHECK_OK(tree_snapshot(fd, tap_dirfd, "s", true));
	snapshot = open_dir("s");
	CHECK_STR(tap_read(snapshot, "file"), "content");
	CHECK_EQ(openat(snapshot, "file", O_WRONLY | O_CLOEXEC), -1);
	CHECK_EQ(errno, EROFS);
	CHECK_OK(tree_subvolume(fd, &original));
	CHECK_OK(tree_subvolume(snapshot, &copy));
	CHECK(copy.id != original.id && copy.generation >= original.generation);
	CHECK(tree_same_btrfs(fd, snapshot) && tree_same_btrfs(fd, tap_dirfd));
	CHECK(!tree_same_btrfs(fd, elsewhere));
	CHECK_EQ(tree_snapshot(fd, tap_dirfd, "s", true), -EEXIST);
}

TEST(the_identity_of_an_inode_in_a_snapshot_leads_to_that_in_the_original)
{
	struct tree_id in_original, in_snapshot;
	AUTO_FD fd = -EBADF, snapshot = -EBADF;
	struct tree_subvolume original, s;
	struct tree_stat st;

	btrfs_ground();
	btrfs_subvolume("o");
	fd = open_dir("o");
	tap_write(fd, "file", "content");
	CHECK_OK(tree_subvolume(fd, &original));
	CHECK_OK(tree_snapshot(fd, tap_dirfd, "s", false));
	snapshot = open_dir("s");
	CHECK_OK(tree_subvolume(snapshot, &s));
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "file" : "";

		st = scene_stat(fd, name);
		CHECK_OK(tree_identify(fd, name, &st, &in_original));
		st = scene_stat(snapshot, name);
		CHECK_OK(tree_identify(snapshot, name, &st, &in_snapshot));
		CHECK(!tree_id_equal(&in_original, &in_snapshot));
		tree_id_in_subvolume(&in_snapshot, original.id);
		CHECK(tree_id_equal(&in_original, &in_snapshot));
		CHECK(tree_id_is_of_generation(&in_snapshot, s.generation));
	}
	tap_write(snapshot, "later", "");
	st = scene_stat(snapshot, "later");
	CHECK_OK(tree_identify(snapshot, "later", &st, &in_snapshot));
	CHECK(!tree_id_is_of_generation(&in_snapshot, s.generation));
}

TEST(subvolumes_within_one_are_found_wherever_they_lie)
{
	btrfs_ground();
	btrfs_subvolume("o");
	CHECK_EQ(count_in("o"), 0);
	CHECK_OK(mkdir("o/a", 0755));
	CHECK_OK(mkdir("o/a/b", 0755));
	btrfs_subvolume("o/a/b/nested");
	CHECK_EQ(count_in("o"), 1);
	CHECK_STR(found, "a/b/nested");
	btrfs_subvolume("o/a/b/nested/deeper");
	CHECK_EQ(count_in("o"), 1);
	for (int i = 0; i < 300; i++) {
		char name[32];

		snprintf(name, sizeof name, "o/a/%d", i);
		btrfs_subvolume(name);
	}
	CHECK_EQ(count_in("o"), 301);
}

static void make_tree_of_subvolumes(void)
{
	AUTO_FD fd = -EBADF;

	CHECK_OK(mkdir("t", 0755));
	btrfs_subvolume("t/o");
	fd = open_dir("t/o");
	CHECK_OK(mkdirat(fd, "dir", 0755));
	tap_write(fd, "dir/file", "content");
	AUTO_FD top = open_dir("t");
	CHECK_OK(tree_snapshot(fd, top, "frozen", true));
	btrfs_subvolume("t/o/nested");
	tap_write(fd, "nested/file", "content");
}

TEST(a_tree_with_subvolumes_is_removed_read_only_and_nested_ones_included)
{
	btrfs_ground();
	make_tree_of_subvolumes();
	CHECK_OK(tree_remove(tap_dirfd, "t"));
	CHECK(!scene_has(tap_dirfd, "t"));
	btrfs_subvolume("alone");
	CHECK_OK(tree_remove(tap_dirfd, "alone"));
	CHECK(!scene_has(tap_dirfd, "alone"));
	CHECK_EQ(count_in("."), 0);
}

static void remove_as_user(int dirfd)
{
	CHECK_OK(fchdir(dirfd));
	make_tree_of_subvolumes();
	CHECK_OK(tree_remove(dirfd, "t"));
	CHECK(!scene_has(dirfd, "t"));
}

TEST(an_ordinary_user_who_may_not_destroy_subvolumes_empties_and_removes_them)
{
	btrfs_ground();
	scene_as_user(remove_as_user);
	CHECK_EQ(count_in("."), 0);
}
