/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include "base/clock.h"

static void trial(int i)
{
	struct tree_stat before, after;
	int64_t t = 0;

	tap_write(tap_dirfd, "before", i & 1 ? "x" : "yy");
	if (i & 2)
		(void)scene_stat(tap_dirfd, "before"); /* a ctime that was read moves differently */
	CHECK_OK(tree_stamp(tap_dirfd, &t));
	tap_write(tap_dirfd, "after", "x");
	before = scene_stat(tap_dirfd, "before");
	after = scene_stat(tap_dirfd, "after");
	CHECK(before.ctime < t);
	CHECK(after.ctime >= t);
}

TEST(what_changed_before_is_strictly_earlier_and_what_changes_after_is_not)
{
	for (int i = 0; i < 2000; i++)
		trial(i);
	CHECK_EQ(scene_count(tap_dirfd), 2);
}

TEST(the_settling_of_older_kernels_holds_as_well)
{
	int64_t begin;

	setenv("ATOLL_OLD_KERNEL", "1", 1);
	CHECK(tree_old_kernel());
	begin = clock_monotonic_ns();
	for (int i = 0; i < 200; i++)
		trial(i);
	CHECK(clock_monotonic_ns() - begin >= 200 * 2 * 1000000LL); /* ticks are of 1 ms or more */
}

TEST(other_values_of_the_switch_do_not_force_it)
{
	unsetenv("ATOLL_OLD_KERNEL");
	bool old = tree_old_kernel();

	setenv("ATOLL_OLD_KERNEL", "0", 1);
	CHECK_EQ(tree_old_kernel(), old);
	setenv("ATOLL_OLD_KERNEL", "", 1);
	CHECK_EQ(tree_old_kernel(), old);
}

TEST(other_filesystems_have_their_own_clock)
{
	int there = scene_elsewhere();
	int64_t t = 0;

	tap_write(there, "before", "x");
	CHECK_OK(tree_stamp(there, &t));
	tap_write(there, "after", "x");
	CHECK(scene_stat(there, "before").ctime < t);
	CHECK(scene_stat(there, "after").ctime >= t);
	CHECK_EQ(scene_count(there), 2);
	scene_elsewhere_done(there);
}

static void read_only(int dirfd)
{
	AUTO_FD d = scene_dir(dirfd, "d");
	int64_t t = 0;

	CHECK_OK(tree_stamp(d, &t));
	CHECK_EQ(fchmod(d, 0555), 0);
	CHECK_EQ(tree_stamp(d, &t), -EACCES);
}

TEST(a_directory_that_may_not_be_written_has_no_stamp)
{
	scene_as_user(read_only);
}
