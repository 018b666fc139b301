/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <sys/xattr.h>

#include "base/clock.h"

static struct tree_stat wanted(mode_t mode)
{
	return (struct tree_stat){
		.mode = mode,
		.uid = geteuid(),
		.gid = getegid(),
		.atime = 11 * NSEC_PER_SEC + 1,
		.mtime = -22 * NSEC_PER_SEC - 999999999,
	};
}

static void check_times(struct tree_stat now, struct tree_stat st)
{
	CHECK_EQ(now.atime, st.atime);
	CHECK_EQ(now.mtime, st.mtime);
}

TEST(mode_and_times_are_set_exactly_on_files_and_directories)
{
	struct tree_stat file = wanted(S_IFREG | 0640), dir = wanted(S_IFDIR | 01555);
	bool kept = false;

	tap_write(tap_dirfd, "f", "x");
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	CHECK_OK(tree_set_meta(tap_dirfd, "f", &file, false, &kept));
	CHECK(kept);
	CHECK_OK(tree_set_meta(d, "", &dir, false, NULL));
	CHECK_EQ(scene_stat(tap_dirfd, "f").mode, file.mode);
	check_times(scene_stat(tap_dirfd, "f"), file);
	CHECK_EQ(scene_stat(d, "").mode, dir.mode);
	check_times(scene_stat(d, ""), dir);
}

TEST(a_link_gets_its_own_times_and_its_target_none)
{
	struct tree_stat link = wanted(S_IFLNK | 0777);

	tap_write(tap_dirfd, "f", "x");
	struct tree_stat before = scene_stat(tap_dirfd, "f");

	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_OK(tree_set_meta(tap_dirfd, "l", &link, false, NULL));
	check_times(scene_stat(tap_dirfd, "l"), link);
	check_times(scene_stat(tap_dirfd, "f"), before);
	CHECK_EQ(scene_stat(tap_dirfd, "f").mode, before.mode);
}

TEST(specials_are_given_metadata_without_being_opened)
{
	struct tree_stat st = wanted(S_IFIFO | 0604);

	scene_specials(tap_dirfd);
	CHECK_OK(tree_set_meta(tap_dirfd, "fifo", &st, false, NULL));
	CHECK_EQ(scene_stat(tap_dirfd, "fifo").mode, st.mode);
}

TEST(another_type_in_its_place_is_left_alone)
{
	struct tree_stat st = wanted(S_IFREG | 0777);

	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(tree_set_meta(tap_dirfd, "l", &st, false, NULL), -EINVAL);
	CHECK_EQ(tree_set_meta(tap_dirfd, "missing", &st, false, NULL), -ENOENT);
}

TEST(set_id_bits_come_along_only_if_wanted_but_a_directorys_always)
{
	struct tree_stat file = wanted(S_IFREG | 06755), dir = wanted(S_IFDIR | 02775);

	tap_write(tap_dirfd, "f", "x");
	close(scene_dir(tap_dirfd, "d"));
	CHECK_OK(tree_set_meta(tap_dirfd, "f", &file, false, NULL));
	CHECK_EQ(scene_stat(tap_dirfd, "f").mode & 07777, 0755);
	CHECK_OK(tree_set_meta(tap_dirfd, "f", &file, true, NULL));
	CHECK_EQ(scene_stat(tap_dirfd, "f").mode & 07777, 06755);
	CHECK_OK(tree_set_meta(tap_dirfd, "d", &dir, false, NULL));
	CHECK_EQ(scene_stat(tap_dirfd, "d").mode & 07777, 02775);
}

TEST(the_owner_is_set_before_the_mode)
{
	struct tree_stat st = wanted(S_IFREG | 06755);
	bool kept = false;

	if (geteuid() != 0)
		tap_skip("needs root");
	st.uid = 1234;
	st.gid = 4321;
	tap_write(tap_dirfd, "f", "x");
	CHECK_OK(tree_set_meta(tap_dirfd, "f", &st, true, &kept));
	CHECK(kept);
	CHECK_EQ(scene_stat(tap_dirfd, "f").uid, 1234);
	CHECK_EQ(scene_stat(tap_dirfd, "f").gid, 4321);
	CHECK_EQ(scene_stat(tap_dirfd, "f").mode & 07777, 06755);
}

static void foreign_owner(int dirfd)
{
	struct tree_stat st = wanted(S_IFREG | 06755);
	bool kept = true;

	st.uid = 1;
	st.gid = 1;
	tap_write(dirfd, "f", "x");
	CHECK_OK(tree_set_meta(dirfd, "f", &st, true, &kept));
	CHECK(!kept);
	CHECK_EQ(scene_stat(dirfd, "f").uid, geteuid());
	CHECK_EQ(scene_stat(dirfd, "f").mode & 07777, 0755);
	check_times(scene_stat(dirfd, "f"), st);
}

TEST(an_owner_that_cannot_be_given_is_said_and_takes_set_id_with_it)
{
	scene_as_user(foreign_owner);
}

TEST(the_overlays_own_attributes_are_stripped_from_every_type)
{
	tap_write(tap_dirfd, "f", "x");
	close(scene_dir(tap_dirfd, "d"));
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	if (lsetxattr("l", "trusted.overlay.origin", "x", 1, 0) < 0 ||
	    setxattr("f", "user.overlay.origin", "x", 1, 0) < 0)
		tap_skip("no trusted or user attributes here");
	CHECK_EQ(setxattr("d", "trusted.overlay.opaque", "y", 1, 0), 0);
	CHECK_EQ(setxattr("d", "trusted.overlay.impure", "y", 1, 0), 0);
	CHECK_EQ(setxattr("d", "user.overlay.impure", "y", 1, 0), 0);
	CHECK_EQ(setxattr("d", "user.mine", "1", 1, 0), 0);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "l", TREE_MARKS_USER), 0);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "l", TREE_MARKS_TRUSTED), 1);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "l", TREE_MARKS_TRUSTED), 0);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "d", TREE_MARKS_NONE), 0);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "d", TREE_MARKS_TRUSTED), 2);
	CHECK_EQ(getxattr("d", "user.overlay.impure", NULL, 0), 1); /* of the other namespace */
	CHECK_EQ(getxattr("f", "user.overlay.origin", NULL, 0), 1); /* not through the link */
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "f", TREE_MARKS_USER), 1);
	CHECK_EQ(getxattr("d", "user.mine", NULL, 0), 1);
	CHECK_EQ(tree_strip_overlay(tap_dirfd, "missing", TREE_MARKS_USER), -ENOENT);
}

TEST(opaque_is_known_in_the_namespace_of_the_overlay_alone)
{
	static const char *const names[] = { "trusted.overlay.opaque", "user.overlay.opaque" };
	static const enum tree_marks marks[] = { TREE_MARKS_TRUSTED, TREE_MARKS_USER };
	AUTO_FD d = scene_dir(tap_dirfd, "d");
	AUTO_FD path = openat(tap_dirfd, "d", O_PATH | O_CLOEXEC);

	CHECK_EQ(tree_is_opaque(d, marks[1]), 0);
	for (size_t i = geteuid() == 0 ? 0 : 1; i < ARRAY_SIZE(names); i++) {
		if (setxattr("d", names[i], "y", 1, 0) < 0)
			tap_skip("%s cannot be set here", names[i]);
		CHECK_EQ(tree_is_opaque(d, marks[i]), 1);
		CHECK_EQ(tree_is_opaque(path, marks[i]), 1);
		CHECK_EQ(tree_is_opaque(d, marks[!i]), 0);
		CHECK_EQ(tree_is_opaque(d, TREE_MARKS_NONE), 0);
		CHECK_EQ(setxattr("d", names[i], "x", 1, 0), 0);
		CHECK_EQ(tree_is_opaque(d, marks[i]), 0);
		CHECK_EQ(removexattr("d", names[i]), 0);
	}
}
