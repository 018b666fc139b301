/* SPDX-License-Identifier: Apache-2.0 */
/* What was touched since a snapshot was made is found by its names, and nothing else is. */
#include "btrfs.h"
#include "tree-scene.h"

static char list[65536];
static struct tree_subvolume workspace;
static int fd = -EBADF;

static int note(const char *path, void *arg)
{
	++*(int *)arg;
	snprintf(list + strlen(list), sizeof list - strlen(list), " <%s>", path);
	return 0;
}

static int search(void)
{
	int n = 0;

	list[0] = '\0';
	CHECK_EQ(tree_subvolume_touched(fd, workspace.generation, note, &n), 0);
	return n;
}

static void make(int files)
{
	btrfs_ground();
	btrfs_subvolume("o");
	int original = open("o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(original);
	CHECK_OK(mkdirat(original, "dir", 0755));
	for (int i = 0; i < files; i++) {
		char name[32];

		snprintf(name, sizeof name, "dir/%d", i);
		tap_write(original, name, "content");
	}
	CHECK_OK(mkdirat(original, "empty", 0755));
	CHECK_OK(tree_snapshot(original, tap_dirfd, "w", false));
	close(original);
	fd = open("w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(fd);
	CHECK_OK(tree_subvolume(fd, &workspace));
}

TEST(in_a_fresh_snapshot_nothing_was_touched)
{
	make(500);
	CHECK_EQ(search(), 0);
}

TEST(one_file_among_thousands_is_found_by_its_path_without_the_others)
{
	make(4000);
	tap_write(fd, "dir/1234", "other");
	CHECK_EQ(search(), 1);
	CHECK_STR(list, " <dir/1234>");
	CHECK_OK(unlinkat(fd, "dir/77", 0));
	CHECK_EQ(search(), 2);
	CHECK_CONTAINS(list, "<dir>");
}

/* Nothing but the data of a file is written, into the file as it is: its inode item is brought up to date when the data is on disk. */
TEST(files_are_found_right_after_they_were_written)
{
	make(200);
	for (int i = 0; i < 200; i++) {
		char name[32];
		int file;

		snprintf(name, sizeof name, "dir/%d", i);
		file = openat(fd, name, O_WRONLY | O_CLOEXEC);
		CHECK_OK(file);
		CHECK_EQ(pwrite(file, "more", 4, i % 2 ? 0 : 100000), 4);
		close(file);
		CHECK_EQ(search(), i + 1);
	}
}

TEST(every_name_of_a_touched_inode_is_told_and_those_of_the_root)
{
	make(3);
	for (int i = 0; i < 700; i++) {
		char name[300];

		/* More than fit into one item. */
		snprintf(name, sizeof name, "empty/%0200d", i);
		CHECK_OK(linkat(fd, "dir/0", fd, name, 0));
	}
	CHECK_OK(linkat(fd, "dir/0", fd, "top", 0));
	CHECK_EQ(search(), 700 + 4);
	CHECK_CONTAINS(list, "<>");
	CHECK_CONTAINS(list, "<top>");
	CHECK_CONTAINS(list, "<dir/0>");
}

TEST(mode_attributes_and_renames_are_touches)
{
	make(3);
	CHECK_OK(fchmodat(fd, "dir/0", 0600, 0));
	CHECK_OK(renameat(fd, "dir/1", fd, "empty/1"));
	CHECK_OK(search());
	CHECK_CONTAINS(list, "<dir/0>");
	CHECK_CONTAINS(list, "<empty/1>");
	CHECK_CONTAINS(list, "<empty>");
	CHECK_CONTAINS(list, "<dir>");
	CHECK(!strstr(list, "<dir/2>"));
}

static void search_as_user(int dirfd)
{
	int n = 0;

	CHECK_EQ(tree_subvolume_touched(fd, workspace.generation, note, &n), -EPERM);
}

TEST(an_ordinary_user_may_not_search)
{
	make(3);
	scene_as_user(search_as_user);
}
