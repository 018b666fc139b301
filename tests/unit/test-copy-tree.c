/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <sys/resource.h>
#include <sys/xattr.h>

#include "base/fd.h"

struct twin {
	int fd; /* the other tree */
	int n;
};

/* That an entry looks the same in the other tree; ino and nlink aside. */
static int twin_visit(const struct tree_entry *e, void *arg)
{
	struct twin *t = arg;
	AUTO_FD parent = -EBADF;
	const char *name = "";
	struct tree_stat st;

	if (e->path[0])
		CHECK_OK(fd_open_parent(t->fd, e->path, &parent, &name));
	else
		parent = dup(t->fd);
	st = scene_stat(parent, name);
	CHECK_EQ(st.mode, e->stat.mode);
	CHECK_EQ(st.uid, e->stat.uid);
	CHECK_EQ(st.gid, e->stat.gid);
	CHECK_EQ(st.mtime, e->stat.mtime);
	if (S_ISREG(st.mode))
		CHECK_EQ(tree_same_content(e->dirfd, e->name, parent, name), 1);
	if (S_ISLNK(st.mode))
		CHECK_EQ(tree_same_target(e->dirfd, e->name, parent, name), 1);
	CHECK_EQ(tree_xattrs_same(e->dirfd, e->name, parent, name, TREE_MARKS_NONE), 1);
	t->n++;
	return TREE_WALK_GO;
}

static void check_twins(int a, int b, int n)
{
	struct twin t = { .fd = b };

	CHECK_OK(tree_walk(a, 0, twin_visit, &t, NULL));
	CHECK_EQ(t.n, n);
	t = (struct twin){ .fd = a };
	CHECK_OK(tree_walk(b, 0, twin_visit, &t, NULL));
	CHECK_EQ(t.n, n);
}

/* A tree with every sort of entry, read-only directories and old, distinct times; 11 entries with its root. */
static int make_scene(int dirfd, const char *name)
{
	static const char *const all[] = { "d/e/\xff\n", "d/e/bin", "d/e", "d/to-dir", "d/broken",
					   "d/loop",     "d",       "f",   "empty",    "g" };
	int from = scene_dir(dirfd, name);
	int64_t age = 1000;

	close(scene_dir(from, "d"));
	close(scene_dir(from, "d/e"));
	close(scene_dir(from, "empty"));
	tap_write(from, "f", "f");
	tap_write(from, "g", "");
	tap_write(from, "d/e/\xff\n", "odd");
	AUTO_FD bin = openat(from, "d/e/bin", O_WRONLY | O_CREAT | O_CLOEXEC, 0400);

	CHECK_EQ(write(bin, "\0\1\2\0", 4), 4);
	CHECK_EQ(symlinkat("../f", from, "d/to-dir"), 0);
	CHECK_EQ(symlinkat("nowhere", from, "d/broken"), 0);
	CHECK_EQ(symlinkat("loop", from, "d/loop"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++, age += 100)
		scene_times(from, all[i], age, age + 1);
	CHECK_EQ(fchmodat(from, "d/e", 0555, 0), 0);
	CHECK_EQ(fchmodat(from, "d", 0500, 0), 0);
	CHECK_EQ(fchmodat(from, "f", 0754, 0), 0);
	CHECK_EQ(fchmod(from, 0551), 0);
	scene_times(from, ".", 7, 8);
	return from;
}

static void copy_everything(int dirfd)
{
	AUTO_FD from = make_scene(dirfd, "from");
	AUTO_FD to = scene_dir(dirfd, "to");
	struct tree_copy_report report = { 0 };

	CHECK_OK(tree_copy(from, to, 0, NULL, &report, NULL));
	CHECK(!report.owner_lost && !report.xattrs_lost);
	check_twins(from, to, 11);
	CHECK_EQ(scene_stat(to, "").atime, 7000000000 + 123456789);
}

TEST(a_tree_is_copied_with_modes_times_and_links)
{
	copy_everything(tap_dirfd);
}

TEST(an_ordinary_user_copies_read_only_directories_too)
{
	scene_as_user(copy_everything);
}

TEST(an_empty_tree_is_copied_with_the_look_of_its_root)
{
	AUTO_FD from = scene_dir(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");

	CHECK_EQ(fchmod(from, 02770), 0);
	scene_times(tap_dirfd, "from", 3, 4);
	CHECK_OK(tree_copy(from, to, 0, NULL, NULL, NULL));
	check_twins(from, to, 1);
}

TEST(a_tree_is_copied_to_another_filesystem_and_back)
{
	AUTO_FD from = make_scene(tap_dirfd, "from");
	AUTO_FD back = scene_dir(tap_dirfd, "back");
	int there = scene_elsewhere();

	CHECK_OK(tree_copy(from, there, 0, NULL, NULL, NULL));
	check_twins(from, there, 11);
	CHECK_OK(tree_copy(there, back, 0, NULL, NULL, NULL));
	check_twins(from, back, 11);
	scene_elsewhere_done(there);
}

TEST(hard_links_within_the_tree_are_kept)
{
	AUTO_FD from = scene_dir(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");
	char a[16], b[16];

	close(scene_dir(from, "d"));
	for (int i = 0; i < 300; i++) {
		snprintf(a, sizeof(a), "a%d", i);
		snprintf(b, sizeof(b), "d/b%d", i);
		tap_write(from, a, a);
		CHECK_EQ(linkat(from, a, from, b, 0), 0);
	}
	tap_write(tap_dirfd, "outside", "x");
	CHECK_EQ(linkat(tap_dirfd, "outside", from, "half", 0), 0);
	CHECK_EQ(symlinkat("x", from, "l"), 0);
	CHECK_EQ(linkat(from, "l", from, "m", 0), 0);
	CHECK_OK(tree_copy(from, to, 0, NULL, NULL, NULL));
	for (int i = 0; i < 300; i++) {
		snprintf(a, sizeof(a), "a%d", i);
		snprintf(b, sizeof(b), "d/b%d", i);
		CHECK_STR(tap_read(to, b), a);
		CHECK_EQ(scene_stat(to, a).ino, scene_stat(to, b).ino);
		CHECK_EQ(scene_stat(to, a).nlink, 2);
	}
	CHECK_EQ(scene_stat(to, "half").nlink, 1);
	CHECK_EQ(scene_stat(to, "l").ino, scene_stat(to, "m").ino);
	CHECK_EQ(scene_count(to), 604);
}

TEST(any_depth_is_copied_with_few_fds)
{
	AUTO_FD from = scene_dir(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");
	struct rlimit few = { 180, 180 };

	scene_deep(from, 5000);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_OK(tree_copy(from, to, 0, NULL, NULL, NULL));
	CHECK_EQ(scene_count(to), 5001);
}

struct told {
	struct strbuf copied, left_out;
	int fail_with;
};

static bool skip_d(const struct tree_entry *from, void *arg)
{
	(void)arg;
	return strcmp(from->path, "d") == 0;
}

static int told_left_out(const char *path, const struct tree_stat *st, void *arg)
{
	struct told *t = arg;

	(void)st;
	strbuf_addf(&t->left_out, "%s ", path);
	return 0;
}

static int told_copied(const char *path, const struct tree_stat *from, int from_dir, const char *from_name,
		       const struct tree_stat *to, int to_dir, const char *to_name, void *arg)
{
	struct told *t = arg;

	CHECK_EQ(from->mtime, to->mtime);
	CHECK_EQ(scene_stat(from_dir, from_name).ino, from->ino);
	CHECK_EQ(scene_stat(to_dir, to_name).ino, to->ino);
	CHECK_EQ(scene_stat(to_dir, to_name).mtime, to->mtime);
	strbuf_addf(&t->copied, "[%s] ", path);
	return t->fail_with;
}

TEST(what_is_copied_or_left_out_is_told)
{
	AUTO_FD from = make_scene(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");
	struct told t = { 0 };
	struct tree_copy_hooks hooks = { .skip = skip_d, .left_out = told_left_out, .copied = told_copied, .arg = &t };

	alarm(10);
	CHECK_EQ(fchmod(from, 0755), 0);
	scene_specials(from);
	CHECK_OK(tree_copy(from, to, 0, &hooks, NULL, NULL));
	CHECK_CONTAINS(strbuf_str(&t.copied), "[f] ");
	CHECK_CONTAINS(strbuf_str(&t.copied), "[g] ");
	CHECK_CONTAINS(strbuf_str(&t.copied), "[empty] ");
	CHECK_CONTAINS(strbuf_str(&t.copied), "[] ");
	CHECK_CONTAINS(strbuf_str(&t.left_out), "d ");
	CHECK_CONTAINS(strbuf_str(&t.left_out), "fifo ");
	CHECK_CONTAINS(strbuf_str(&t.left_out), "socket ");
	CHECK_EQ(scene_count(to), 3);
	CHECK(S_ISFIFO(scene_stat(from, "fifo").mode));
	strbuf_release(&t.copied);
	strbuf_release(&t.left_out);
}

TEST(an_error_of_a_hook_ends_the_copy_and_names_the_path)
{
	AUTO_FD from = scene_dir(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");
	struct told t = { .fail_with = -ECANCELED };
	struct tree_copy_hooks hooks = { .copied = told_copied, .arg = &t };
	AUTO_FREE char *path = NULL;

	tap_write(from, "f", "x");
	CHECK_EQ(tree_copy(from, to, 0, &hooks, NULL, &path), -ECANCELED);
	CHECK_STR(path, "f");
	strbuf_release(&t.copied);
}

static void copy_closed(int dirfd)
{
	AUTO_FD from = scene_dir(dirfd, "from");
	AUTO_FD one = scene_dir(dirfd, "one");
	AUTO_FD two = scene_dir(dirfd, "two");
	AUTO_FREE char *path = NULL, *file = NULL;

	close(scene_dir(from, "d"));
	tap_write(from, "d/f", "x");
	CHECK_EQ(fchmodat(from, "d/f", 0, 0), 0);
	CHECK_EQ(tree_copy(from, one, 0, NULL, NULL, &file), -EACCES);
	CHECK_STR(file, "d/f");
	CHECK_EQ(fchmodat(from, "d", 0, 0), 0);
	CHECK_EQ(tree_copy(from, two, 0, NULL, NULL, &path), -EACCES);
	CHECK_STR(path, "d");
	CHECK_EQ(fchmodat(from, "d", 0700, 0), 0);
}

TEST(an_unreadable_entry_is_named)
{
	scene_as_user(copy_closed);
}

TEST(mounts_below_are_named_and_not_copied)
{
	AUTO_FREE char *path = NULL, *file = NULL;

	scene_need_mounts();
	AUTO_FD from = scene_dir(tap_dirfd, "from");
	AUTO_FD to = scene_dir(tap_dirfd, "to");

	close(scene_dir(from, "m"));
	tap_write(from, "f", "");
	tap_write(tap_dirfd, "other", "other");
	CHECK_EQ(mount("to", "from/m", NULL, MS_BIND, NULL), 0);
	CHECK_EQ(tree_copy(from, to, 0, NULL, NULL, &path), -EXDEV);
	CHECK_STR(path, "m");
	CHECK_EQ(umount2("from/m", MNT_DETACH), 0);
	CHECK_OK(tree_empty(to));
	CHECK_EQ(mount("other", "from/f", NULL, MS_BIND, NULL), 0);
	CHECK_EQ(tree_copy(from, to, 0, NULL, NULL, &file), -EXDEV);
	CHECK_STR(file, "f");
	CHECK_EQ(umount2("from/f", MNT_DETACH), 0);
}

TEST(only_directories_are_copied_as_trees)
{
	tap_write(tap_dirfd, "f", "x");
	AUTO_FD f = openat(tap_dirfd, "f", O_RDONLY | O_CLOEXEC);

	CHECK_EQ(tree_copy(f, tap_dirfd, 0, NULL, NULL, NULL), -ENOTDIR);
}
