/* SPDX-License-Identifier: Apache-2.0 */
/* Two upper layers become one: every row of the table in merge.c, and what an interruption leaves. */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "engine/protocol.h"
#include "tree-scene.h"

static int original, older, newer;

static void set_scene(void)
{
	original = scene_dir(tap_dirfd, "original");
	older = scene_dir(tap_dirfd, "older");
	newer = scene_dir(tap_dirfd, "newer");
}

static int merge(void)
{
	struct resource r = { .ops = strategy_find("overlay", ATOLL_KIND_DIR),
			      .root_fd = original,
			      .marks = tree_overlay_marks() };

	return merge_newer(&r, newer, older, false);
}

static void whiteout(int dirfd, const char *name)
{
	CHECK_EQ(mknodat(dirfd, name, S_IFCHR, makedev(0, 0)), 0);
}

static void opaque(int dirfd, const char *name)
{
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	CHECK_EQ(fsetxattr(fd,
			   tree_overlay_marks() == TREE_MARKS_TRUSTED ? "trusted.overlay.opaque"
								      : "user.overlay.opaque",
			   "y", 1, 0),
		 0);
}

static bool is_opaque(int dirfd, const char *name)
{
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	return tree_is_opaque(fd, tree_overlay_marks()) == 1;
}

static bool is_whiteout(int dirfd, const char *name)
{
	struct tree_stat st;

	return tree_stat(dirfd, name, &st) == 0 && S_ISCHR(st.mode) && st.rdev_major == 0 && st.rdev_minor == 0;
}

static void dir(int dirfd, const char *name)
{
	CHECK_EQ(mkdirat(dirfd, name, 0755), 0);
}

TEST(anything_newer_stands_where_the_older_layer_has_nothing)
{
	set_scene();
	tap_write(newer, "file", "n");
	CHECK_EQ(symlinkat("target", newer, "link"), 0);
	dir(newer, "dir");
	tap_write(newer, "dir/x", "x");
	dir(newer, "opaque");
	opaque(newer, "opaque");
	dir(original, "dir");
	CHECK_OK(merge());
	CHECK_STR(tap_read(older, "file"), "n");
	CHECK(S_ISLNK(scene_stat(older, "link").mode));
	CHECK_STR(tap_read(older, "dir/x"), "x");
	CHECK(!is_opaque(older, "dir"));
	CHECK(is_opaque(older, "opaque"));
}

TEST(a_newer_file_or_link_stands_in_place_of_anything_older)
{
	set_scene();
	for (int i = 0; i < 2; i++) {
		static const char *const names[2][4] = { { "f-file", "f-link", "f-dir", "f-white" },
							 { "l-file", "l-link", "l-dir", "l-white" } };

		tap_write(older, names[i][0], "old");
		CHECK_EQ(symlinkat("old", older, names[i][1]), 0);
		scene_deep(scene_dir(older, names[i][2]), 3);
		whiteout(older, names[i][3]);
		for (int k = 0; k < 4; k++) {
			if (i == 0)
				tap_write(newer, names[i][k], "new");
			else
				CHECK_EQ(symlinkat("new", newer, names[i][k]), 0);
		}
	}
	CHECK_OK(merge());
	CHECK_STR(tap_read(older, "f-file"), "new");
	CHECK_STR(tap_read(older, "f-link"), "new");
	CHECK_STR(tap_read(older, "f-dir"), "new");
	CHECK_STR(tap_read(older, "f-white"), "new");
	CHECK(S_ISLNK(scene_stat(older, "l-file").mode) && S_ISLNK(scene_stat(older, "l-dir").mode));
	CHECK(S_ISLNK(scene_stat(older, "l-link").mode) && S_ISLNK(scene_stat(older, "l-white").mode));
	CHECK_EQ(scene_count(older), 8);
}

TEST(a_newer_whiteout_stays_where_the_original_has_something_and_vanishes_where_not)
{
	set_scene();
	tap_write(original, "file", "o");
	scene_deep(scene_dir(original, "dir"), 2);
	CHECK_EQ(symlinkat("dangling", original, "link"), 0);
	whiteout(newer, "file");
	whiteout(newer, "dir");
	whiteout(newer, "link");
	whiteout(newer, "added");
	whiteout(newer, "added-dir");
	tap_write(older, "file", "changed");
	dir(older, "dir");
	tap_write(older, "dir/x", "");
	tap_write(older, "added", "came with the commit");
	scene_deep(scene_dir(older, "added-dir"), 3);
	CHECK_OK(merge());
	CHECK(is_whiteout(older, "file") && is_whiteout(older, "dir") && is_whiteout(older, "link"));
	CHECK(!scene_has(older, "added") && !scene_has(older, "added-dir"));
	CHECK_EQ(scene_count(older), 3);
}

TEST(two_directories_are_merged_with_the_newer_attributes)
{
	set_scene();
	dir(older, "d");
	tap_write(older, "d/both", "old");
	tap_write(older, "d/old", "old");
	dir(newer, "d");
	tap_write(newer, "d/both", "new");
	tap_write(newer, "d/new", "new");
	CHECK_EQ(fchmodat(newer, "d", 0710, 0), 0);
	{
		AUTO_FD fd = openat(newer, "d", O_RDONLY | O_CLOEXEC);

		CHECK_EQ(fsetxattr(fd, "user.colour", "blue", 4, 0), 0);
	}
	scene_times(newer, "d", 1000, 2000);
	CHECK_OK(merge());
	CHECK_STR(tap_read(older, "d/both"), "new");
	CHECK_STR(tap_read(older, "d/old"), "old");
	CHECK_STR(tap_read(older, "d/new"), "new");
	CHECK_EQ(scene_stat(older, "d").mode & 07777, 0710);
	CHECK_EQ(scene_stat(older, "d").mtime, 2000987654321);
	{
		AUTO_FD fd = openat(older, "d", O_RDONLY | O_CLOEXEC);
		char value[8] = "";

		CHECK_EQ(fgetxattr(fd, "user.colour", value, sizeof value), 4);
	}
	CHECK(!is_opaque(older, "d"));
}

TEST(the_root_of_the_layer_gets_the_newer_attributes_too)
{
	set_scene();
	tap_write(newer, "x", "");
	CHECK_EQ(fchmod(newer, 0700), 0);
	scene_times(tap_dirfd, "newer", 1000, 3000);
	CHECK_OK(merge());
	CHECK_EQ(scene_stat(older, "").mode & 07777, 0700);
	CHECK_EQ(scene_stat(older, "").mtime, 3000987654321);
}

TEST(an_older_opaque_directory_stays_opaque_when_merged)
{
	set_scene();
	dir(older, "d");
	opaque(older, "d");
	tap_write(older, "d/old", "old");
	dir(newer, "d");
	tap_write(newer, "d/new", "new");
	CHECK_OK(merge());
	CHECK(is_opaque(older, "d") && scene_has(older, "d/old") && scene_has(older, "d/new"));
}

TEST(a_newer_opaque_directory_stands_in_place_of_anything_older)
{
	static const char *const names[] = { "file", "dir", "white" };

	set_scene();
	tap_write(older, "file", "old");
	scene_deep(scene_dir(older, "dir"), 3);
	whiteout(older, "white");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		dir(newer, names[i]);
		opaque(newer, names[i]);
	}
	tap_write(newer, "dir/new", "new");
	CHECK_OK(merge());
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(is_opaque(older, names[i]));
	CHECK_EQ(scene_count(older), 4);
	CHECK_STR(tap_read(older, "dir/new"), "new");
}

TEST(a_newer_directory_over_an_older_file_link_or_whiteout_is_made_opaque)
{
	static const char *const names[] = { "file", "link", "white" };

	set_scene();
	tap_write(older, "file", "old");
	CHECK_EQ(symlinkat("old", older, "link"), 0);
	whiteout(older, "white");
	dir(original, "white");
	tap_write(original, "white/hidden", "o");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		dir(newer, names[i]);
	tap_write(newer, "white/new", "new");
	CHECK_OK(merge());
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(is_opaque(older, names[i]));
	CHECK_STR(tap_read(older, "white/new"), "new");
}

TEST(rows_hold_below_directories_that_are_merged)
{
	set_scene();
	dir(older, "d");
	dir(older, "d/e");
	whiteout(older, "d/e/w");
	tap_write(older, "d/e/f", "old");
	dir(newer, "d");
	dir(newer, "d/e");
	dir(newer, "d/e/w");
	whiteout(newer, "d/e/f");
	CHECK_OK(merge());
	CHECK(is_opaque(older, "d/e/w"));
	CHECK(!scene_has(older, "d/e/f"));
}

TEST(a_second_merge_changes_nothing_more)
{
	struct tree_stat before;

	set_scene();
	dir(older, "d");
	dir(newer, "d");
	tap_write(newer, "d/x", "x");
	CHECK_OK(merge());
	before = scene_stat(older, "d/x");
	CHECK_OK(merge());
	CHECK_EQ(scene_stat(older, "d/x").ino, before.ino);
	CHECK_EQ(scene_count(older), 2);
}

#ifdef ATOLL_FAULTS

static void make_interrupted_scene(void)
{
	set_scene();
	whiteout(older, "made-opaque");
	dir(newer, "made-opaque");
	tap_write(newer, "made-opaque/x", "new");
	dir(original, "made-opaque");
	dir(older, "d");
	tap_write(older, "d/f", "old");
	dir(newer, "d");
	tap_write(newer, "d/f", "new");
	tap_write(newer, "d/g", "new");
	scene_times(newer, "d", 1000, 2000);
	tap_write(older, "gone", "old");
	whiteout(newer, "gone");
	dir(older, "replaced");
	tap_write(older, "replaced/old", "old");
	dir(newer, "replaced");
	opaque(newer, "replaced");
	scene_times(newer, ".", 3000, 4000);
}

/* Instead of tests, in a copy of this program that is given faults: the merge alone. */
__attribute__((constructor)) static void play(void)
{
	if (!getenv("PLAY"))
		return;
	original = open("original", O_RDONLY | O_DIRECTORY);
	older = open("older", O_RDONLY | O_DIRECTORY);
	newer = open("newer", O_RDONLY | O_DIRECTORY);
	exit(merge() < 0 ? 10 : 0);
}

static int play_with(const char *fault)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("PLAY", "1", 1);
		setenv("ATOLL_FAULT", fault, 1);
		setenv("ATOLL_FAULT_COUNT", "count", 1);
		execl("/proc/self/exe", "play", (char *)NULL);
		_exit(126);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void check_merged(void)
{
	CHECK(is_opaque(older, "made-opaque"));
	CHECK_STR(tap_read(older, "made-opaque/x"), "new");
	CHECK_STR(tap_read(older, "d/f"), "new");
	CHECK_STR(tap_read(older, "d/g"), "new");
	CHECK(!scene_has(older, "gone"));
	CHECK(is_opaque(older, "replaced") && !scene_has(older, "replaced/old"));
	CHECK_EQ(scene_stat(older, "d").mtime, 2000987654321);
	CHECK_EQ(scene_stat(older, "").mtime, 4000987654321);
}

static void start_over(void)
{
	static const char *const names[] = { "original", "older", "newer" };

	close(original);
	close(older);
	close(newer);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_OK(tree_remove(tap_dirfd, names[i]));
}

TEST(a_merge_interrupted_anywhere_ends_the_same_when_it_goes_on)
{
	static const char *const ways[] = { "kill", "kill-after", "EIO" };
	int total;

	make_interrupted_scene();
	CHECK_EQ(play_with("count"), 0);
	total = atoi(tap_read(tap_dirfd, "count"));
	CHECK(total > 8);
	check_merged();
	for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
		for (int n = 1; n <= total; n++) {
			char fault[32];

			start_over();
			make_interrupted_scene();
			snprintf(fault, sizeof fault, "%d:%s", n, ways[way]);
			play_with(fault);
			CHECK_OK(merge());
			check_merged();
		}
	}
}

#endif
