/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "tree/private.h"

static struct tree_id id_of(int dirfd, const char *name)
{
	struct tree_stat st = scene_stat(dirfd, name);
	struct tree_id id;

	CHECK_OK(tree_identify(dirfd, name, &st, &id));
	CHECK(id.size > 0);
	return id;
}

static bool same_id(struct tree_id a, struct tree_id b)
{
	return tree_id_equal(&a, &b);
}

TEST(stat_tells_type_size_and_nanoseconds)
{
	tap_write(tap_dirfd, "f", "12345");
	CHECK_EQ(fchmodat(tap_dirfd, "f", 0640, 0), 0);
	scene_times(tap_dirfd, "f", 1000, -2); /* before 1970 too */
	struct tree_stat st = scene_stat(tap_dirfd, "f");

	CHECK_EQ(st.mode, S_IFREG | 0640);
	CHECK_EQ(st.size, 5);
	CHECK_EQ(st.nlink, 1);
	CHECK_EQ(st.atime, 1000 * NSEC_PER_SEC + 123456789);
	CHECK_EQ(st.mtime, -2 * NSEC_PER_SEC + 987654321);
	CHECK(!st.is_mount_root && !st.is_immutable);
}

TEST(stat_of_a_link_is_of_the_link)
{
	CHECK_EQ(symlinkat("nowhere", tap_dirfd, "l"), 0);
	CHECK(S_ISLNK(scene_stat(tap_dirfd, "l").mode));
	CHECK_EQ(scene_stat(tap_dirfd, "l").size, 7);
}

TEST(stat_of_the_empty_name_is_of_the_fd_itself)
{
	CHECK(S_ISDIR(scene_stat(tap_dirfd, "").mode));
	CHECK_EQ(scene_stat(tap_dirfd, "").ino, scene_stat(tap_dirfd, ".").ino);
}

TEST(stat_of_a_missing_name_is_an_error)
{
	struct tree_stat st;

	CHECK_EQ(tree_stat(tap_dirfd, "missing", &st), -ENOENT);
}

TEST(a_mount_point_is_known_as_one)
{
	AUTO_FD root = open("/", O_PATH | O_CLOEXEC);
	struct tree_stat st = scene_stat(root, "proc");

	CHECK(st.is_mount_root);
	CHECK(st.mnt_id != scene_stat(root, "").mnt_id);
}

TEST(an_immutable_file_is_known_as_one)
{
	int flags = FS_IMMUTABLE_FL;

	tap_write(tap_dirfd, "f", "x");
	AUTO_FD fd = openat(tap_dirfd, "f", O_RDONLY | O_CLOEXEC);

	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
		tap_skip("files cannot be made immutable here");
	struct tree_stat st = scene_stat(tap_dirfd, "f");

	flags = 0;
	CHECK_EQ(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
	CHECK(st.is_immutable);
}

TEST(identity_survives_rename_link_and_change)
{
	tap_write(tap_dirfd, "f", "x");
	struct tree_id before = id_of(tap_dirfd, "f");

	CHECK_EQ(renameat(tap_dirfd, "f", tap_dirfd, "g"), 0);
	CHECK_EQ(linkat(tap_dirfd, "g", tap_dirfd, "h", 0), 0);
	tap_write(tap_dirfd, "g", "longer than before");
	CHECK(same_id(before, id_of(tap_dirfd, "g")));
	CHECK(same_id(before, id_of(tap_dirfd, "h")));
	AUTO_FD fd = openat(tap_dirfd, "h", O_PATH | O_CLOEXEC);

	CHECK(same_id(before, id_of(fd, "")));
}

TEST(a_file_made_anew_has_another_identity_whatever_its_inode_number)
{
	for (int i = 0; i < 200; i++) {
		tap_write(tap_dirfd, "f", "x");
		struct tree_id before = id_of(tap_dirfd, "f");

		CHECK_EQ(unlinkat(tap_dirfd, "f", 0), 0);
		tap_write(tap_dirfd, "f", "x");
		CHECK(!same_id(before, id_of(tap_dirfd, "f")));
	}
}

TEST(identity_of_a_link_is_not_that_of_its_target)
{
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(symlinkat("nowhere", tap_dirfd, "broken"), 0);
	CHECK(!same_id(id_of(tap_dirfd, "f"), id_of(tap_dirfd, "l")));
	CHECK(!same_id(id_of(tap_dirfd, "broken"), id_of(tap_dirfd, "l")));
}

TEST(specials_have_an_identity_and_are_not_opened_for_it)
{
	scene_specials(tap_dirfd);
	CHECK(!same_id(id_of(tap_dirfd, "fifo"), id_of(tap_dirfd, "socket")));
}

TEST(without_file_handles_inode_and_birth_time_serve)
{
	AUTO_FD proc = open("/proc", O_PATH | O_CLOEXEC);
	struct tree_id one = id_of(proc, "version");

	CHECK_EQ(one.data[0], 2);
	CHECK(same_id(one, id_of(proc, "version")));
	CHECK(!same_id(one, id_of(proc, "cmdline")));
}

TEST(no_identity_equals_only_none)
{
	struct tree_id none = { 0 }, empty = { 0 };

	tap_write(tap_dirfd, "f", "x");
	CHECK(same_id(none, empty));
	CHECK(!same_id(none, id_of(tap_dirfd, "f")));
}

TEST(only_regular_files_are_opened_for_reading)
{
	struct tree_stat st;

	scene_specials(tap_dirfd);
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	AUTO_FD fd = tree_open_file(tap_dirfd, "f", &st);

	CHECK_OK(fd);
	CHECK_EQ(tree_open_file(tap_dirfd, "fifo", &st), -EINVAL);
	CHECK_EQ(tree_open_file(tap_dirfd, "socket", &st), -EINVAL);
	CHECK_EQ(tree_open_file(tap_dirfd, "l", &st), -EINVAL);
	CHECK_EQ(tree_open_file(tap_dirfd, "", &st), -EINVAL);
	CHECK_EQ(tree_open_file(tap_dirfd, "missing", &st), -ENOENT);
}
