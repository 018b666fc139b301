/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <linux/fs.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/sys.h"

static int copy(const char *from, const char *to)
{
	struct tree_copy_report report = { 0 };

	return tree_copy_entry(tap_dirfd, from, tap_dirfd, to, 0, &report);
}

static void check_same_look(int dir_a, const char *a, int dir_b, const char *b)
{
	struct tree_stat one = scene_stat(dir_a, a), two = scene_stat(dir_b, b);

	CHECK_EQ(one.mode, two.mode);
	CHECK_EQ(one.uid, two.uid);
	CHECK_EQ(one.gid, two.gid);
	if (!S_ISLNK(one.mode)) /* reading a link moves its own */
		CHECK_EQ(one.atime, two.atime);
	CHECK_EQ(one.mtime, two.mtime);
	CHECK_EQ(tree_xattrs_same(dir_a, a, dir_b, b, TREE_MARKS_NONE), 1);
	if (!S_ISDIR(one.mode))
		CHECK_EQ(one.size, two.size);
	if (S_ISREG(one.mode))
		CHECK_EQ(tree_same_content(dir_a, a, dir_b, b), 1);
	if (S_ISLNK(one.mode))
		CHECK_EQ(tree_same_target(dir_a, a, dir_b, b), 1);
}

TEST(a_file_is_copied_with_all_that_belongs_to_it)
{
	tap_write(tap_dirfd, "f", "content\n");
	(void)setxattr("f", "user.x", "y", 1, 0);
	if (geteuid() == 0)
		CHECK_EQ(fchownat(tap_dirfd, "f", 1234, 4321, 0), 0);
	CHECK_EQ(fchmodat(tap_dirfd, "f", 0604, 0), 0);
	scene_times(tap_dirfd, "f", 100, 200);
	CHECK_OK(copy("f", "g"));
	check_same_look(tap_dirfd, "f", tap_dirfd, "g");
	CHECK(scene_stat(tap_dirfd, "f").ino != scene_stat(tap_dirfd, "g").ino);
}

TEST(links_of_all_kinds_stay_links)
{
	static const char *const targets[] = { "f", ".", "missing", "l3", "/etc/passwd" };
	char from[8], to[8];

	tap_write(tap_dirfd, "f", "x");
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		snprintf(from, sizeof(from), "l%zu", i);
		snprintf(to, sizeof(to), "m%zu", i);
		CHECK_EQ(symlinkat(targets[i], tap_dirfd, from), 0);
		scene_times(tap_dirfd, from, 5, 6);
		int64_t atime = scene_stat(tap_dirfd, from).atime;

		CHECK_OK(copy(from, to));
		CHECK_EQ(scene_stat(tap_dirfd, to).atime, atime);
		check_same_look(tap_dirfd, from, tap_dirfd, to);
	}
}

TEST(a_directory_is_copied_without_its_children)
{
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	tap_write(d, "f", "x");
	(void)setxattr("d", "user.x", "y", 1, 0);
	CHECK_EQ(fchmod(d, 0555), 0);
	scene_times(tap_dirfd, "d", 7, 8);
	CHECK_OK(copy("d", "e"));
	check_same_look(tap_dirfd, "d", tap_dirfd, "e");
	AUTO_FD e = openat(tap_dirfd, "e", O_RDONLY | O_CLOEXEC);

	CHECK_EQ(scene_count(e), 0);
}

TEST(specials_are_refused_and_not_opened)
{
	alarm(10);
	scene_specials(tap_dirfd);
	CHECK_EQ(copy("fifo", "x"), -EOPNOTSUPP);
	CHECK_EQ(copy("socket", "x"), -EOPNOTSUPP);
	CHECK(!scene_has(tap_dirfd, "x"));
}

TEST(what_is_already_there_is_neither_followed_nor_touched)
{
	tap_write(tap_dirfd, "f", "new");
	tap_write(tap_dirfd, "g", "old");
	CHECK_EQ(symlinkat("outside", tap_dirfd, "planted"), 0);
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(copy("f", "g"), -EEXIST);
	CHECK_EQ(copy("f", "planted"), -EEXIST);
	CHECK_EQ(copy("l", "g"), -EEXIST);
	CHECK_EQ(copy("missing", "x"), -ENOENT);
	CHECK_STR(tap_read(tap_dirfd, "g"), "old");
	CHECK(!scene_has(tap_dirfd, "outside") && !scene_has(tap_dirfd, "x"));
}

TEST(set_id_and_capabilities_come_along_only_if_wanted)
{
	static const unsigned char capability[20] = { 0, 0, 0, 2, 0, 4 };
	struct tree_copy_report report = { 0 };

	tap_write(tap_dirfd, "f", "x");
	if (setxattr("f", "security.capability", capability, sizeof(capability), 0) < 0)
		tap_skip("capabilities cannot be set here");
	CHECK_EQ(fchmodat(tap_dirfd, "f", 06755, 0), 0);
	CHECK_OK(copy("f", "g"));
	CHECK_EQ(scene_stat(tap_dirfd, "g").mode & 07777, 0755);
	CHECK(getxattr("g", "security.capability", NULL, 0) < 0);
	CHECK_OK(tree_copy_entry(tap_dirfd, "f", tap_dirfd, "h", TREE_COPY_KEEP_SET_ID, &report));
	check_same_look(tap_dirfd, "f", tap_dirfd, "h");
	CHECK_EQ(getxattr("h", "security.capability", NULL, 0), 20);
	CHECK(!report.owner_lost && !report.xattrs_lost);
}

static void copy_foreign(int dirfd)
{
	struct tree_copy_report report = { 0 };

	CHECK_OK(tree_copy_entry(dirfd, "foreign", dirfd, "copy", TREE_COPY_KEEP_SET_ID, &report));
	CHECK(report.owner_lost);
	CHECK_EQ(scene_stat(dirfd, "copy").uid, SCENE_UID);
	CHECK_EQ(scene_stat(dirfd, "copy").mode & 07777, 0755);
	CHECK_EQ(tree_copy_entry(dirfd, "closed", dirfd, "x", 0, &report), -EACCES);
	CHECK(!scene_has(dirfd, "x"));
}

TEST(without_privilege_the_owner_is_lost_and_said_to_be)
{
	if (geteuid() != 0)
		tap_skip("needs root to make another's file");
	AUTO_FD home = scene_dir(tap_dirfd, "home");

	tap_write(home, "foreign", "x");
	CHECK_EQ(fchmodat(home, "foreign", 04755, 0), 0);
	tap_write(home, "closed", "x");
	CHECK_EQ(fchmodat(home, "closed", 0600, 0), 0);
	CHECK_EQ(fchown(home, SCENE_UID, SCENE_UID), 0);
	scene_as_user_in(home, copy_foreign);
}

TEST(an_inherited_acl_does_not_stay_on_the_copy)
{
	/* user::rwx user:1234:rwx group::r-x mask::rwx other::--- */
	static const char acl[] = "\2\0\0\0"
				  "\1\0\7\0\377\377\377\377"
				  "\2\0\7\0\322\4\0\0"
				  "\4\0\5\0\377\377\377\377"
				  "\20\0\7\0\377\377\377\377"
				  "\40\0\0\0\377\377\377\377";
	struct tree_copy_report report = { 0 };

	tap_write(tap_dirfd, "f", "x");
	AUTO_FD d = scene_dir(tap_dirfd, "d");

	if (setxattr("d", "system.posix_acl_default", acl, sizeof(acl) - 1, 0) < 0)
		tap_skip("no ACLs here");
	CHECK_OK(tree_copy_entry(tap_dirfd, "f", d, "f", 0, &report));
	check_same_look(tap_dirfd, "f", d, "f");
	CHECK_OK(copy("d", "e"));
	check_same_look(tap_dirfd, "d", tap_dirfd, "e");
}

/* Data at the beginning, in the middle and beyond 4 GiB; holes between. */
static void make_sparse(int dirfd, const char *name)
{
	AUTO_FD fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	AUTO_FREE char *data = calloc(1, 300000);

	for (size_t i = 0; i < 300000; i++)
		data[i] = (char)(i * 31 + (i >> 8));
	CHECK_EQ(write(fd, data, 300000), 300000);
	CHECK_EQ(pwrite(fd, data, 5000, (off_t)100 << 20), 5000);
	CHECK_EQ(pwrite(fd, data, 5000, ((off_t)5 << 30) + 17), 5000);
	CHECK_EQ(ftruncate(fd, ((off_t)6 << 30) + 1), 0);
}

static void check_sparse(int dir_a, const char *a, int dir_b, const char *b)
{
	CHECK_EQ(tree_same_content(dir_a, a, dir_b, b), 1);
	CHECK_EQ(scene_stat(dir_b, b).size, ((off_t)6 << 30) + 1);
	CHECK(scene_stat(dir_b, b).blocks * 512 < 1 << 20);
}

TEST(holes_and_sizes_beyond_4_gib_survive)
{
	make_sparse(tap_dirfd, "f");
	CHECK_OK(copy("f", "g"));
	check_sparse(tap_dirfd, "f", tap_dirfd, "g");
}

TEST(copies_to_another_filesystem_are_as_good)
{
	struct tree_copy_report report = { 0 };
	int there = scene_elsewhere();

	make_sparse(tap_dirfd, "f");
	(void)setxattr("f", "trusted.x", "y", 1, 0);
	CHECK_OK(tree_copy_entry(tap_dirfd, "f", there, "g", 0, &report));
	check_sparse(tap_dirfd, "f", there, "g");
	check_same_look(tap_dirfd, "f", there, "g");
	CHECK_OK(tree_copy_entry(there, "g", tap_dirfd, "h", 0, &report));
	check_sparse(tap_dirfd, "f", tap_dirfd, "h");
	CHECK(!report.owner_lost && !report.xattrs_lost);
	scene_elsewhere_done(there);
}

TEST(where_the_kernel_cannot_copy_we_read_and_write)
{
	AUTO_FREE char *data = malloc(1000000);

	memset(data, 'd', 1000000);
	/* Appending files take neither copy_file_range nor sendfile. */
	AUTO_FD from = openat(tap_dirfd, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	AUTO_FD to = openat(tap_dirfd, "g", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	CHECK_EQ(write(from, data, 1000000), 1000000);
	if (sys_clone_file(to, from) == 0)
		tap_skip("this filesystem shares blocks");
	CHECK_OK(tree_copy_data(from, to, 1000000));
	CHECK_EQ(tree_same_content(tap_dirfd, "f", tap_dirfd, "g"), 1);
}

TEST(a_file_that_shrank_or_grew_meanwhile_is_copied_as_far_as_it_is_known)
{
	tap_write(tap_dirfd, "f", "0123456789");
	AUTO_FD from = openat(tap_dirfd, "f", O_RDONLY | O_CLOEXEC);
	AUTO_FD shrunk = openat(tap_dirfd, "g", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	AUTO_FD grown = openat(tap_dirfd, "h", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK_OK(tree_copy_data(from, shrunk, 1000000));
	CHECK_STR(tap_read(tap_dirfd, "g"), "0123456789");
	CHECK_OK(tree_copy_data(from, grown, 4));
	CHECK_STR(tap_read(tap_dirfd, "h"), "0123");
}

TEST(a_full_filesystem_is_an_error_and_leaves_nothing)
{
	struct tree_copy_report report = { 0 };
	AUTO_FREE char *data = calloc(1, 1 << 20);

	scene_need_mounts();
	close(scene_dir(tap_dirfd, "small"));
	CHECK_EQ(mount("small", "small", "tmpfs", 0, "size=256k"), 0);
	AUTO_FD small = open("small", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = openat(tap_dirfd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	memset(data, 'x', 1 << 20);
	CHECK_EQ(write(fd, data, 1 << 20), 1 << 20);
	CHECK_EQ(tree_copy_entry(tap_dirfd, "f", small, "f", 0, &report), -ENOSPC);
	CHECK_EQ(scene_count(small), 0);
	close(TAKE_FD(small));
	CHECK_EQ(umount2("small", MNT_DETACH), 0);
}

TEST(a_file_swapped_for_a_link_meanwhile_never_leaks_its_target)
{
	struct tree_copy_report report = { 0 };
	int files = 0, links = 0;
	pid_t pid;

	tap_write(tap_dirfd, "f", "inside");
	tap_write(tap_dirfd, "secret", "outside");
	CHECK_EQ(symlinkat("secret", tap_dirfd, "l"), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		for (;;)
			renameat2(tap_dirfd, "f", tap_dirfd, "l", RENAME_EXCHANGE);
	}
	for (int i = 0; i < 5000; i++) {
		CHECK_OK(tree_copy_entry(tap_dirfd, "f", tap_dirfd, "g", 0, &report));
		if (S_ISREG(scene_stat(tap_dirfd, "g").mode)) {
			CHECK_STR(tap_read(tap_dirfd, "g"), "inside");
			files++;
		} else {
			AUTO_FREE char *target = NULL;

			CHECK_OK(fd_readlink(tap_dirfd, "g", &target));
			CHECK_STR(target, "secret");
			links++;
		}
		CHECK_EQ(unlinkat(tap_dirfd, "g", 0), 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(files > 0 && links > 0);
}

#ifdef ATOLL_FAULTS

/* Runs this test program again, only this test, with one call failing. */
static int run_with_fault(const char *test, const char *fault)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDOUT_FILENO);
		setenv("ATOLL_FAULT", fault, 1);
		setenv("ATOLL_FAULT_COUNT", "count", 1);
		execl("/proc/self/exe", "test-copy", test, (char *)NULL);
		_exit(126);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* Either the whole entry is there or nothing; which of them, the result says. */
static void copy_under_fault(void)
{
	static const char *const names[] = { "f", "l", "d" };
	AUTO_FD to = scene_dir(tap_dirfd, "to");

	tap_write(tap_dirfd, "f", "content");
	(void)setxattr("f", "user.x", "y", 1, 0);
	CHECK_EQ(fchmodat(tap_dirfd, "f", 0640, 0), 0);
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	close(scene_dir(tap_dirfd, "d"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct tree_copy_report report = { 0 };
		int r = tree_copy_entry(tap_dirfd, names[i], to, names[i], 0, &report);

		CHECK_EQ(scene_has(to, names[i]), r == 0);
		if (r == 0 && !report.owner_lost && !report.xattrs_lost)
			check_same_look(tap_dirfd, names[i], to, names[i]);
	}
}

TEST(a_copy_that_fails_at_any_call_leaves_nothing)
{
	static const char *const errors[] = { "ENOSPC", "EIO", "EACCES", "ENOMEM", "EXDEV", "EPERM" };
	char fault[64];
	int calls;

	if (getenv("ATOLL_FAULT")) {
		copy_under_fault();
		return;
	}
	CHECK_EQ(run_with_fault("a_copy_that_fails", "count"), 0);
	calls = atoi(tap_read(tap_dirfd, "count"));
	CHECK(calls >= 8);
	for (int n = 1; n <= calls; n++) {
		for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
			snprintf(fault, sizeof(fault), "%d:%s", n, errors[i]);
			if (run_with_fault("a_copy_that_fails", fault) != 0)
				tap_fail(__FILE__, __LINE__, "with fault %s", fault);
		}
	}
}

#endif
