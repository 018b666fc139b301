/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

static int same(const char *a, const char *b)
{
	int r = tree_same_content(tap_dirfd, a, tap_dirfd, b);

	CHECK_EQ(r, tree_same_content(tap_dirfd, b, tap_dirfd, a));
	return r;
}

TEST(bytes_count_and_nothing_else)
{
	tap_write(tap_dirfd, "a", "same");
	tap_write(tap_dirfd, "b", "same");
	tap_write(tap_dirfd, "c", "sane");
	tap_write(tap_dirfd, "d", "same\n");
	tap_write(tap_dirfd, "e", "");
	tap_write(tap_dirfd, "f", "");
	scene_times(tap_dirfd, "a", 1, 1);
	scene_times(tap_dirfd, "c", 1, 1); /* D-16: same size, same time */
	CHECK_EQ(same("a", "b"), 1);
	CHECK_EQ(same("a", "a"), 1);
	CHECK_EQ(same("a", "c"), 0);
	CHECK_EQ(same("a", "d"), 0);
	CHECK_EQ(same("a", "e"), 0);
	CHECK_EQ(same("e", "f"), 1);
}

static void big(const char *name, size_t size, size_t differs_at)
{
	AUTO_FREE char *data = malloc(size);
	AUTO_FD fd = openat(tap_dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 7 + (i >> 9));
	if (differs_at < size)
		data[differs_at] ^= 1;
	CHECK_EQ(write(fd, data, size), size);
}

TEST(every_byte_of_a_large_file_counts)
{
	static const size_t places[] = { 0, 262143, 262144, 524287, 700000, 1048576 + 2 };
	const size_t size = 1048576 + 3;
	char name[16];

	big("a", size, size);
	big("b", size, size);
	CHECK_EQ(same("a", "b"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(name, sizeof(name), "x%zu", i);
		big(name, size, places[i]);
		CHECK_EQ(same("a", name), 0);
	}
}

static void sparse(const char *name, off_t size, off_t at, const char *data)
{
	AUTO_FD fd = openat(tap_dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	CHECK_EQ(ftruncate(fd, size), 0);
	CHECK_EQ(pwrite(fd, data, strlen(data), at), strlen(data));
}

TEST(holes_equal_zeros_and_large_ones_take_no_time)
{
	const off_t huge = (off_t)1 << 40;
	char zeros[4096] = { 0 };

	sparse("a", huge, huge - 5000, "end");
	sparse("b", huge, huge - 5000, "end");
	sparse("c", huge, huge - 5000, "enD");
	sparse("d", huge, huge / 2, "end");
	AUTO_FD b = openat(tap_dirfd, "b", O_WRONLY | O_CLOEXEC);

	CHECK_EQ(pwrite(b, zeros, sizeof(zeros), 8192), sizeof(zeros)); /* data, but zeros */
	CHECK_EQ(same("a", "b"), 1);
	CHECK_EQ(same("a", "c"), 0);
	CHECK_EQ(same("a", "d"), 0);
}

TEST(only_regular_files_are_compared)
{
	scene_specials(tap_dirfd);
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(tree_same_content(tap_dirfd, "f", tap_dirfd, "l"), -EINVAL);
	CHECK_EQ(tree_same_content(tap_dirfd, "fifo", tap_dirfd, "f"), -EINVAL);
	CHECK_EQ(tree_same_content(tap_dirfd, "f", tap_dirfd, "fifo"), -EINVAL);
	CHECK_EQ(tree_same_content(tap_dirfd, "f", tap_dirfd, "missing"), -ENOENT);
}

TEST(reading_leaves_the_access_time_alone)
{
	tap_write(tap_dirfd, "a", "x");
	tap_write(tap_dirfd, "b", "x");
	scene_times(tap_dirfd, "a", 100, 1000); /* relatime would move it */
	int64_t before = scene_stat(tap_dirfd, "a").atime;

	CHECK_EQ(same("a", "b"), 1);
	CHECK_EQ(scene_stat(tap_dirfd, "a").atime, before);
}

TEST(targets_are_compared_as_text)
{
	char target[1000]; /* XFS takes no more than 1,023 */

	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "a"), 0);
	CHECK_EQ(symlinkat("f", tap_dirfd, "b"), 0);
	CHECK_EQ(symlinkat("./f", tap_dirfd, "c"), 0); /* D-02 */
	CHECK_EQ(symlinkat(target, tap_dirfd, "d"), 0);
	CHECK_EQ(symlinkat(target, tap_dirfd, "e"), 0);
	CHECK_EQ(tree_same_target(tap_dirfd, "a", tap_dirfd, "b"), 1);
	CHECK_EQ(tree_same_target(tap_dirfd, "a", tap_dirfd, "c"), 0);
	CHECK_EQ(tree_same_target(tap_dirfd, "d", tap_dirfd, "e"), 1);
	CHECK_EQ(tree_same_target(tap_dirfd, "a", tap_dirfd, "f"), -EINVAL);
	CHECK_EQ(tree_same_target(tap_dirfd, "missing", tap_dirfd, "a"), -ENOENT);
}
