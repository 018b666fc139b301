/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <dirent.h>

static struct tree_sync *sync_here(void)
{
	struct tree_sync *s = NULL;

	CHECK_OK(tree_sync_new(tap_dirfd, &s));
	return s;
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

TEST(nothing_is_flushed_at_once)
{
	struct tree_sync *s = sync_here();

	CHECK_OK(tree_sync_flush(s));
	CHECK(!tree_sync_free(s));
	CHECK(!tree_sync_free(NULL));
}

TEST(with_everything_added_nothing_is_looked_at)
{
	struct tree_sync *s = sync_here();
	int before = open_fds();

	tap_write(tap_dirfd, "f", "x");
	tree_sync_add_all(s);
	CHECK_OK(tree_sync_add(s, tap_dirfd, "f", 1));
	CHECK_OK(tree_sync_add(s, tap_dirfd, "missing", 1));
	CHECK_EQ(open_fds(), before);
	CHECK_OK(tree_sync_flush(s));
	CHECK_EQ(tree_sync_add(s, tap_dirfd, "missing", 0), -ENOENT);
	tree_sync_free(s);
}

TEST(files_directories_links_and_specials_can_be_added)
{
	struct tree_sync *s = sync_here();

	tap_write(tap_dirfd, "f", "x");
	CHECK_OK(tree_sync_add(s, tap_dirfd, "f", 1));
	CHECK_OK(tree_sync_add(s, tap_dirfd, "", 0));
	CHECK_OK(tree_sync_flush(s));
	scene_specials(tap_dirfd);
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_OK(tree_sync_add(s, tap_dirfd, "f", 1));
	CHECK_OK(tree_sync_add(s, tap_dirfd, "fifo", 0));
	CHECK_OK(tree_sync_flush(s));
	CHECK_OK(tree_sync_add(s, tap_dirfd, "l", 0));
	CHECK_OK(tree_sync_flush(s));
	CHECK_EQ(tree_sync_add(s, tap_dirfd, "missing", 0), -ENOENT);
	tree_sync_free(s);
}

TEST(many_cost_no_fds)
{
	struct tree_sync *s = sync_here();
	int before = open_fds();
	char name[16];

	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		tap_write(tap_dirfd, name, "x");
		CHECK_OK(tree_sync_add(s, tap_dirfd, name, 1));
		CHECK_OK(tree_sync_add(s, tap_dirfd, "", 0));
		CHECK(open_fds() <= before + 16);
	}
	CHECK_OK(tree_sync_flush(s));
	CHECK_EQ(open_fds(), before);
	tree_sync_free(s);
	CHECK_EQ(open_fds(), before - 1);
}

static void unreadable(int dirfd)
{
	struct tree_sync *s = NULL;

	tap_write(dirfd, "f", "x");
	CHECK_EQ(fchmodat(dirfd, "f", 0, 0), 0);
	CHECK_OK(tree_sync_new(dirfd, &s));
	CHECK_OK(tree_sync_add(s, dirfd, "f", 1));
	CHECK_OK(tree_sync_flush(s));
	tree_sync_free(s);
}

TEST(an_unreadable_file_is_made_durable_all_the_same)
{
	scene_as_user(unreadable);
}

TEST(any_fd_on_the_filesystem_will_do)
{
	struct tree_sync *s = NULL;

	tap_write(tap_dirfd, "f", "x");
	AUTO_FD path = openat(tap_dirfd, "f", O_PATH | O_CLOEXEC);

	CHECK_OK(tree_sync_new(path, &s));
	CHECK_OK(tree_sync_add(s, path, "", 1));
	CHECK_OK(tree_sync_flush(s));
	tree_sync_free(s);
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	AUTO_FD link = openat(tap_dirfd, "l", O_PATH | O_NOFOLLOW | O_CLOEXEC);

	CHECK_EQ(tree_sync_new(link, &s), -EINVAL);
}

TEST(what_lies_on_another_filesystem_is_flushed_by_itself)
{
	struct tree_sync *s = sync_here();
	char name[] = "/dev/shm/atoll-sync-XXXXXX";
	AUTO_FD elsewhere = mkstemp(name);

	CHECK_OK(elsewhere);
	CHECK_OK(unlink(name));
	tap_write(tap_dirfd, "f", "x");
	for (int i = 0; i < 6; i++)
		CHECK_OK(tree_sync_add_anywhere(s, elsewhere, ""));
	CHECK_OK(tree_sync_add_anywhere(s, tap_dirfd, "f"));
	CHECK_OK(tree_sync_flush(s));
	CHECK_EQ(tree_sync_add_anywhere(s, tap_dirfd, "missing"), -ENOENT);
	tree_sync_add_all(s);
	CHECK_OK(tree_sync_add_anywhere(s, elsewhere, ""));
	tree_sync_free(s);
}

TEST(writeback_begins_without_opening_specials_or_leaving_the_tree)
{
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	scene_specials(d);
	tap_write(d, "f", "x");
	tap_write(tap_dirfd, "empty", "");
	CHECK_EQ(symlinkat("/dev/zero", tap_dirfd, "l"), 0);
	CHECK_OK(tree_start_writeback(tap_dirfd));
}

static void partly_closed(int dirfd)
{
	close(scene_dir(dirfd, "d"));
	close(scene_dir(dirfd, "e"));
	tap_write(dirfd, "e/f", "x");
	tap_write(dirfd, "f", "x");
	CHECK_EQ(fchmodat(dirfd, "f", 0, 0), 0);
	CHECK_EQ(fchmodat(dirfd, "e", 0400, 0), 0);
	CHECK_EQ(fchmodat(dirfd, "d", 0, 0), 0);
	CHECK_OK(tree_start_writeback(dirfd));
}

TEST(writeback_passes_over_what_cannot_be_read)
{
	scene_as_user(partly_closed);
}
