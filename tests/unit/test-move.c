/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a directory name by name. What others do meanwhile is done here in between, by whoever is asked whether to go on. */
#include "tree-scene.h"

#include <linux/fs.h>

static bool always(void *arg)
{
	(void)arg;
	return true;
}

static struct tree_move move_of(const char *from, const char *to, bool (*is_wanted)(void *arg))
{
	struct tree_move m = {
		.from_dir = tap_dirfd, .to_dir = tap_dirfd, .from_name = from, .to_name = to, .is_wanted = is_wanted
	};

	tree_move_name(&m);
	return m;
}

TEST(a_directory_is_moved_with_the_very_files_in_it)
{
	struct tree_move m = move_of("a", "z", always);
	AUTO_FD a = scene_dir(tap_dirfd, "a");
	AUTO_FD b = scene_dir(a, "b");
	struct tree_stat file, dir;

	tap_write(b, "f", "x");
	CHECK_EQ(linkat(b, "f", a, "hard", 0), 0);
	CHECK_EQ(symlinkat("b/f", a, "soft"), 0);
	scene_times(tap_dirfd, "a", 1000, 2000);
	file = scene_stat(b, "f");
	dir = scene_stat(tap_dirfd, "a");
	CHECK_OK(tree_move(&m));
	CHECK(!scene_has(tap_dirfd, "a"));
	CHECK_EQ(scene_count(tap_dirfd), 5);
	CHECK(scene_stat(tap_dirfd, "z/b/f").ino == file.ino && scene_stat(tap_dirfd, "z/hard").ino == file.ino);
	CHECK_EQ(scene_stat(tap_dirfd, "z/hard").nlink, 2);
	CHECK(scene_stat(tap_dirfd, "z").mtime == dir.mtime);
}

TEST(what_cannot_be_moved_stays_and_nothing_is_left)
{
	struct tree_move m = move_of("a", "z", always);
	AUTO_FD a = scene_dir(tap_dirfd, "a");

	CHECK_EQ(mkfifoat(a, "fifo", 0644), 0);
	CHECK_EQ(tree_move(&m), -EXDEV);
	CHECK_EQ(scene_count(tap_dirfd), 2);
	CHECK_EQ(unlinkat(a, "fifo", 0), 0);
	close(scene_dir(tap_dirfd, "z"));
	m.flags = RENAME_NOREPLACE;
	CHECK_EQ(tree_move(&m), -EEXIST);
	m.flags = 0;
	tap_write(tap_dirfd, "z/x", "x");
	CHECK_EQ(tree_move(&m), -ENOTEMPTY);
	tap_write(tap_dirfd, "file", "x");
	m.to_name = "file";
	CHECK_EQ(tree_move(&m), -ENOTDIR);
	CHECK_EQ(scene_count(tap_dirfd), 4);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

TEST(nobody_waiting_leaves_all_as_it_was)
{
	struct tree_move m = move_of("a", "z", never);
	AUTO_FD a = scene_dir(tap_dirfd, "a");
	int64_t before;

	tap_write(a, "f", "x");
	scene_times(tap_dirfd, ".", 1000, 2000);
	before = scene_stat(tap_dirfd, "").mtime;
	CHECK_EQ(tree_move(&m), -ECANCELED);
	CHECK_EQ(scene_count(tap_dirfd), 2);
	CHECK_EQ(scene_stat(tap_dirfd, "a/f").nlink, 1);
	CHECK(scene_stat(tap_dirfd, "").mtime == before);
}

/* Called when a name was linked: of "f" something else is made, "g" goes, and more comes. */
static bool disturb(void *arg)
{
	bool *done = arg;

	if (*done || !scene_has(tap_dirfd, "a/f"))
		return true;
	*done = true;
	tap_write(tap_dirfd, "a/other", "new");
	CHECK_EQ(renameat(tap_dirfd, "a/other", tap_dirfd, "a/f"), 0);
	CHECK_EQ(unlinkat(tap_dirfd, "a/g", 0), 0);
	tap_write(tap_dirfd, "a/b/late", "late");
	CHECK_EQ(mkdirat(tap_dirfd, "a/c", 0755), 0);
	tap_write(tap_dirfd, "a/c/later", "later");
	return true;
}

TEST(what_is_replaced_added_or_removed_meanwhile_is_so_afterwards)
{
	bool done = false;
	struct tree_move m = move_of("a", "z", disturb);
	AUTO_FD a = scene_dir(tap_dirfd, "a");

	m.arg = &done;
	close(scene_dir(a, "b"));
	tap_write(a, "f", "old");
	tap_write(a, "g", "old");
	CHECK_OK(tree_move(&m));
	CHECK(done && !scene_has(tap_dirfd, "a") && !scene_has(tap_dirfd, "z/g"));
	CHECK_STR(tap_read(tap_dirfd, "z/f"), "new");
	CHECK_STR(tap_read(tap_dirfd, "z/b/late"), "late");
	CHECK_STR(tap_read(tap_dirfd, "z/c/later"), "later");
	CHECK_EQ(scene_count(tap_dirfd), 6);
}

TEST(names_of_private_directories_are_told_from_others)
{
	struct tree_move m = move_of("a", "z", always);

	CHECK(tree_is_move_name(m.name) && tree_is_move_name(".atoll-move-0123456789abcdef"));
	CHECK(!tree_is_move_name(".atoll-move-0123456789abcde") && !tree_is_move_name(".atoll-move-0123456789abcdefg"));
	CHECK(!tree_is_move_name(".atoll-move-") && !tree_is_move_name("x.atoll-move-0123456789abcdef"));
}

static struct tree_move exchange_of(const char *from, const char *to)
{
	struct tree_move m = move_of(from, to, always);

	m.flags = RENAME_EXCHANGE;
	return m;
}

TEST(two_directories_are_exchanged)
{
	struct tree_move m = exchange_of("a", "z");
	AUTO_FD a = scene_dir(tap_dirfd, "a");
	AUTO_FD z = scene_dir(tap_dirfd, "z");

	tap_write(a, "f", "x");
	tap_write(z, "g", "x");
	CHECK_OK(tree_move(&m));
	CHECK(scene_has(tap_dirfd, "a/g") && scene_has(tap_dirfd, "z/f"));
	CHECK_EQ(scene_count(tap_dirfd), 4);
}

TEST(an_exchange_that_cannot_be_done_leaves_both)
{
	struct tree_move m = exchange_of("a", "z");
	AUTO_FD a = scene_dir(tap_dirfd, "a");
	AUTO_FD z = scene_dir(tap_dirfd, "z");

	tap_write(a, "f", "x");
	CHECK_EQ(mkfifoat(z, "fifo", 0644), 0);
	CHECK_EQ(tree_move(&m), -EXDEV);
	CHECK(scene_has(tap_dirfd, "a/f") && scene_has(tap_dirfd, "z/fifo"));
	m.to_name = "a/below"; /* names of two components are no names: every step fails, and is taken back */
	CHECK(tree_move(&m) < 0);
	m.to_name = "nothing";
	CHECK_EQ(tree_move(&m), -ENOENT);
	CHECK(scene_has(tap_dirfd, "a/f"));
	CHECK_EQ(scene_count(tap_dirfd), 4);
}
