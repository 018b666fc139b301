/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <limits.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/strbuf.h"

/* A path of `levels` directories with names of 200 bytes, made piece by piece below the test's directory. */
static char *make_deep(int levels)
{
	AUTO_STRBUF path = STRBUF_INIT;
	char name[201];

	memset(name, 'd', 200);
	name[200] = '\0';
	for (int i = 0; i < levels; i++)
		strbuf_set_child(&path, path.size, name);
	AUTO_FD fd = fd_make_path(tap_dirfd, strbuf_str(&path));

	CHECK_OK(fd);
	return strbuf_take(&path);
}

static ino_t inode_of(int fd)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return st.st_ino;
}

TEST(a_file_beneath_is_opened_close_on_exec)
{
	tap_write(tap_dirfd, "f", "x");
	AUTO_FD fd = fd_open_beneath(tap_dirfd, "f", O_RDONLY);

	CHECK_OK(fd);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST(the_empty_path_and_dot_open_the_directory_again)
{
	AUTO_FD empty = fd_open_beneath(tap_dirfd, "", O_RDONLY | O_DIRECTORY);
	AUTO_FD dot = fd_open_beneath(tap_dirfd, ".", O_PATH);

	CHECK_OK(empty);
	CHECK_OK(dot);
	CHECK_EQ(inode_of(empty), inode_of(tap_dirfd));
	CHECK_EQ(inode_of(dot), inode_of(tap_dirfd));
}

TEST(links_are_never_followed_and_the_top_never_left)
{
	CHECK_EQ(mkdirat(tap_dirfd, "d", 0755), 0);
	tap_write(tap_dirfd, "d/f", "x");
	CHECK_EQ(symlinkat("d", tap_dirfd, "l"), 0);
	CHECK_EQ(symlinkat("d/f", tap_dirfd, "lf"), 0);
	CHECK_EQ(fd_open_beneath(tap_dirfd, "l/f", O_RDONLY), -ELOOP);
	CHECK_EQ(fd_open_beneath(tap_dirfd, "lf", O_RDONLY), -ELOOP);
	CHECK_EQ(fd_open_beneath(tap_dirfd, "../x", O_RDONLY), -EXDEV);
	CHECK_EQ(fd_open_beneath(tap_dirfd, "/etc/passwd", O_RDONLY), -EXDEV);
	CHECK_EQ(fd_open_beneath(tap_dirfd, "missing", O_RDONLY), -ENOENT);
}

TEST(a_link_itself_can_be_opened_as_a_path)
{
	CHECK_EQ(symlinkat("nowhere", tap_dirfd, "l"), 0);
	AUTO_FD fd = fd_open_beneath(tap_dirfd, "l", O_PATH);
	AUTO_FREE char *target = NULL;

	CHECK_OK(fd);
	CHECK_OK(fd_readlink(fd, "", &target));
	CHECK_STR(target, "nowhere");
}

TEST(paths_beyond_path_max_can_be_made_and_opened)
{
	for (int levels = 18; levels <= 66; levels += 3) {
		AUTO_FREE char *path = make_deep(levels);
		AUTO_FREE char *file = str_format("%s/file", path);
		AUTO_FD dir = fd_open_beneath(tap_dirfd, path, O_RDONLY | O_DIRECTORY);
		AUTO_FD parent = -EBADF, fd = -EBADF;
		const char *name;

		CHECK_OK(dir);
		tap_write(dir, "file", "deep");
		fd = fd_open_beneath(tap_dirfd, file, O_RDONLY);
		CHECK_OK(fd);
		CHECK_OK(fd_open_parent(tap_dirfd, file, &parent, &name));
		CHECK_STR(name, "file");
		CHECK_EQ(inode_of(parent), inode_of(dir));
	}
}

TEST(long_paths_are_cut_at_every_place_rightly)
{
	/* One component of every length, so that the cut falls before, into and behind a slash. */
	for (size_t n = 1; n <= 210; n += 1) {
		AUTO_FREE char *deep = make_deep(20);
		AUTO_FREE char *path = NULL, *slashes = NULL;
		char last[256];
		AUTO_FD made = -EBADF, opened = -EBADF, slashed = -EBADF;

		memset(last, 'e', n);
		last[n] = '\0';
		path = str_format("%s/%s/%s", last, deep, last);
		slashes = str_format("%s//%s///%s//", last, deep, last);
		made = fd_make_path(tap_dirfd, path);
		CHECK_OK(made);
		opened = fd_open_beneath(tap_dirfd, path, O_RDONLY);
		CHECK_OK(opened);
		slashed = fd_open_beneath(tap_dirfd, slashes, O_RDONLY);
		CHECK_OK(slashed);
		CHECK_EQ(inode_of(opened), inode_of(made));
		CHECK_EQ(inode_of(slashed), inode_of(made));
	}
}

TEST(links_in_the_middle_of_a_long_path_are_refused)
{
	AUTO_FREE char *deep = make_deep(22);
	AUTO_FREE char *path = str_format("l/%s/%s", deep, deep);

	CHECK_EQ(symlinkat(".", tap_dirfd, "l"), 0);
	CHECK_EQ(fd_open_beneath(tap_dirfd, path, O_RDONLY), -ELOOP);
}

TEST(a_component_beyond_every_limit_is_refused)
{
	char name[PATH_MAX * 2];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	CHECK_EQ(fd_open_beneath(tap_dirfd, name, O_RDONLY), -ENAMETOOLONG);
	CHECK_EQ(fd_make_path(tap_dirfd, name), -ENAMETOOLONG);
	name[300] = '\0';
	CHECK_EQ(fd_open_beneath(tap_dirfd, name, O_RDONLY), -ENAMETOOLONG);
	name[0] = '/';
	memset(name + 1, 'x', sizeof(name) - 2);
	CHECK_EQ(fd_open_beneath(tap_dirfd, name, O_RDONLY), -EXDEV);
}

TEST(the_parent_of_a_single_name_is_the_directory_itself)
{
	AUTO_FD parent = -EBADF;
	const char *name;

	CHECK_OK(fd_open_parent(tap_dirfd, "f", &parent, &name));
	CHECK_STR(name, "f");
	CHECK_EQ(inode_of(parent), inode_of(tap_dirfd));
}

TEST(a_path_without_a_last_component_has_no_parent)
{
	static const char *const bad[] = { "", ".", "..", "a/", "a/.", "a/.." };
	int parent;
	const char *name;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(fd_open_parent(tap_dirfd, bad[i], &parent, &name), -EINVAL);
	CHECK_EQ(fd_open_parent(tap_dirfd, "/etc", &parent, &name), -EXDEV);
	CHECK_EQ(fd_open_parent(tap_dirfd, "missing/f", &parent, &name), -ENOENT);
}

TEST(make_path_makes_what_is_missing_privately_and_keeps_what_is_there)
{
	struct stat st;

	CHECK_EQ(mkdirat(tap_dirfd, "a", 0755), 0);
	AUTO_FD first = fd_make_path(tap_dirfd, "a//b/c/");
	AUTO_FD second = fd_make_path(tap_dirfd, "a/b/c");
	AUTO_FD top = fd_make_path(tap_dirfd, "");

	CHECK_OK(first);
	CHECK_OK(second);
	CHECK_EQ(inode_of(first), inode_of(second));
	CHECK_EQ(inode_of(top), inode_of(tap_dirfd));
	CHECK_EQ(fstatat(tap_dirfd, "a/b", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(fstatat(tap_dirfd, "a", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
}

TEST(make_path_refuses_links_files_and_ways_out)
{
	CHECK_EQ(symlinkat("/tmp", tap_dirfd, "l"), 0);
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(fd_make_path(tap_dirfd, "l/x"), -ENOTDIR);
	CHECK_EQ(fd_make_path(tap_dirfd, "f/x"), -ENOTDIR);
	CHECK_EQ(fd_make_path(tap_dirfd, "../x"), -EXDEV);
	CHECK_EQ(fd_make_path(tap_dirfd, "/x"), -EXDEV);
}

TEST(a_path_fd_can_be_reopened_for_reading)
{
	tap_write(tap_dirfd, "f", "x");
	AUTO_FD path = fd_open_beneath(tap_dirfd, "f", O_PATH);
	AUTO_FD fd = fd_reopen(path, O_RDONLY);
	char c;

	CHECK_OK(fd);
	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fd_reopen(9999, O_RDONLY), -ENOENT);
}

TEST(a_small_file_is_read_whole_and_a_larger_one_refused)
{
	AUTO_FREE char *data = NULL, *big = NULL, *empty = NULL;
	size_t size;

	tap_write(tap_dirfd, "f", "twelve bytes");
	CHECK_OK(fd_read_file(tap_dirfd, "f", 12, &data, &size));
	CHECK_EQ(size, 12);
	CHECK_STR(data, "twelve bytes");
	CHECK_EQ(fd_read_file(tap_dirfd, "f", 11, &big, &size), -EFBIG);
	CHECK(!big);
	tap_write(tap_dirfd, "e", "");
	CHECK_OK(fd_read_file(tap_dirfd, "e", 0, &empty, NULL));
	CHECK_STR(empty, "");
}

TEST(files_of_proc_are_read_by_absolute_path)
{
	AUTO_FREE char *data = NULL;

	CHECK_OK(fd_read_file(AT_FDCWD, "/proc/self/status", 65536, &data, NULL));
	CHECK_CONTAINS(data, "Name:");
}

TEST(only_regular_files_are_read_and_nothing_blocks)
{
	AUTO_FREE char *data = NULL;

	CHECK_EQ(mkfifoat(tap_dirfd, "fifo", 0600), 0);
	CHECK_EQ(fd_read_file(tap_dirfd, "fifo", 10, &data, NULL), -EINVAL);
	CHECK_EQ(fd_read_file(tap_dirfd, ".", 10, &data, NULL), -EISDIR);
	CHECK_EQ(fd_read_file(tap_dirfd, "missing", 10, &data, NULL), -ENOENT);
	CHECK(!data);
}

TEST(links_of_every_length_are_read)
{
	char target[4096];

	for (size_t n = 1; n < sizeof(target); n = n < 250 ? n + 83 : n + 1) {
		AUTO_FREE char *got = NULL;

		if (n > 520 && n < 4090)
			n = 4090;
		memset(target, 't', n);
		target[n] = '\0';
		CHECK_EQ(symlinkat(target, tap_dirfd, "l"), 0);
		CHECK_OK(fd_readlink(tap_dirfd, "l", &got));
		CHECK_STR(got, target);
		CHECK_EQ(unlinkat(tap_dirfd, "l", 0), 0);
	}
}

TEST(the_path_of_a_directory_is_found_unless_it_is_removed)
{
	AUTO_FREE char *path = NULL, *gone = NULL, *expected = realpath(tap_dir, NULL);

	CHECK_OK(fd_path(tap_dirfd, &path));
	CHECK_STR(path, expected);
	AUTO_FD fd = fd_make_path(tap_dirfd, "d");

	CHECK_EQ(unlinkat(tap_dirfd, "d", AT_REMOVEDIR), 0);
	CHECK_EQ(fd_path(fd, &gone), -ENOENT);
	CHECK(!gone);
}

TEST(raising_the_limit_makes_soft_equal_hard)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(limit.rlim_cur, (rlim_t)100);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fd_raise_limit();
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(limit.rlim_cur, limit.rlim_max);
}

/* How large the kernel's table of this process is. */
static size_t table_size(void)
{
	AUTO_FREE char *text = NULL;
	const char *line;

	CHECK_OK(fd_read_file(AT_FDCWD, "/proc/self/status", 65536, &text, NULL));
	line = strstr(text, "FDSize:");
	return line ? strtoul(line + strlen("FDSize:"), NULL, 10) : 0;
}

TEST(room_is_made_for_many_fds_as_far_as_the_limit_goes)
{
	struct rlimit limit;
	int next, after;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	next = open("/", O_PATH | O_CLOEXEC);
	close(next);
	fd_reserve(0);
	fd_reserve(MIN((size_t)limit.rlim_cur / 2, (size_t)4000));
	CHECK(table_size() >= MIN((size_t)limit.rlim_cur / 2, (size_t)4000));
	fd_reserve(SIZE_MAX / 2);
	after = open("/", O_PATH | O_CLOEXEC);
	CHECK_EQ(after, next);
	close(after);
}

TEST(all_fds_but_those_of_two_lists_are_closed)
{
	int fds[6];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK_OK(fds[i]);
	}
	fd_close_others(fds[0], (int[]){ fds[4], -1, fds[1] }, 3, (int[]){ fds[3] }, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHECK_EQ(fcntl(fds[i], F_GETFD) >= 0, i == 1 || i == 3 || i == 4);
	fd_close_others(fds[0], NULL, 0, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHECK(fcntl(fds[i], F_GETFD) < 0);
}
