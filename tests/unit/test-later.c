/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are classified after the walk, few of them and very many, are the changes they are, each in its place. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/fd.h"
#include "strategy/strategy.h"
#include "tap.h"

#define MANY 1200
#define BELOW 300
#define AUTO_CHANGES CLEANUP(cleanup_changes) struct changes

static struct resource r = { .root_fd = -EBADF };
static int workspace = -EBADF;
static atomic_int judged;

static void put_file(int dirfd, const char *name, const char *text)
{
	const struct timespec then[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	tap_write(dirfd, name, text);
	CHECK_OK(utimensat(dirfd, name, then, 0));
}

/* Of every three one is the same on both sides, one has another size, one is new. */
static void make_files(size_t n)
{
	CHECK_OK(mkdirat(tap_dirfd, "original", 0755));
	CHECK_OK(mkdirat(tap_dirfd, "workspace", 0755));
	r.ops = strategy_find("copy_on_write", ATOLL_KIND_DIR);
	r.root_fd = openat(tap_dirfd, "original", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	workspace = openat(tap_dirfd, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof name, "f%04zu", i);
		put_file(workspace, name, "text");
		if (i % 3 < 2)
			put_file(r.root_fd, name, i % 3 ? "other text" : "text");
	}
}

/* A directory in the original, and a file in its place. */
static void replace_directory(void)
{
	AUTO_FD fd = -EBADF;

	CHECK_OK(mkdirat(r.root_fd, "full", 0755));
	fd = openat(r.root_fd, "full", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < BELOW; i++) {
		char name[16];

		snprintf(name, sizeof name, "%d", i);
		put_file(fd, name, "");
	}
	put_file(workspace, "full", "text");
}

static void close_all(void)
{
	r.root_fd = fd_close(r.root_fd);
	workspace = fd_close(workspace);
}

static void judge(struct change *c, void *arg)
{
	judged++;
	c->gone = arg && strcmp(c->path, arg) == 0;
}

static void add_files(struct later *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof name, "f%04zu", i);
		CHECK_OK(later_add(l, name, false, i == 1));
	}
}

static void check_files(const struct changes *c, size_t first, size_t n)
{
	for (size_t i = 0, k = first; i < n; i++) {
		char name[16];

		if (i % 3 == 0)
			continue;
		snprintf(name, sizeof name, "f%04zu", i);
		CHECK_STR(c->v[k].path, name);
		CHECK_EQ(c->v[k].kind, i % 3 == 1 ? ATOLL_MODIFIED : ATOLL_ADDED);
		CHECK_EQ(c->v[k].in_opaque, i == 1);
		CHECK_EQ(c->v[k].gone, i == 2);
		CHECK_EQ(c->v[k].after.size, 4);
		k++;
	}
}

static void classify_files(size_t n)
{
	AUTO_CHANGES *changes = changes_new();
	struct classify classify = { &r, changes, { r.root_fd, NULL, -EBADF }, false };
	struct later later = { .classify = &classify };
	char *path = NULL;

	judged = 0;
	CHECK(changes_add(changes, "before", ATOLL_META));
	add_files(&later, n);
	CHECK_OK(later_classify(&later, workspace, judge, (void *)"f0002", &path));
	CHECK_EQ(changes->n, 1 + n / 3 * 2);
	CHECK_EQ(judged, n / 3 * 2);
	CHECK_STR(changes->v[0].path, "before");
	check_files(changes, 1, n);
	later_release(&later);
	peer_release(&classify.peer);
}

TEST(a_few_files_are_the_changes_they_are)
{
	make_files(30);
	classify_files(30);
	close_all();
}

TEST(very_many_files_are_the_changes_they_are)
{
	make_files(MANY);
	classify_files(MANY);
	close_all();
}

TEST(what_is_below_a_replaced_directory_comes_with_it)
{
	AUTO_CHANGES *changes = changes_new();
	struct classify classify = { &r, changes, { -EBADF, NULL, -EBADF }, false };
	struct later later = { .classify = &classify };
	char *path = NULL;
	size_t below = 0;

	make_files(MANY);
	classify.peer.root_fd = r.root_fd;
	replace_directory();
	add_files(&later, MANY / 2);
	CHECK_OK(later_add(&later, "full", false, false));
	CHECK_OK(later_classify(&later, workspace, NULL, NULL, &path));
	CHECK_EQ(changes->n, MANY / 3 + 1 + BELOW);
	CHECK_STR(changes->v[MANY / 3].path, "full");
	CHECK_EQ(changes->v[MANY / 3].kind, ATOLL_TYPE);
	for (size_t i = MANY / 3 + 1; i < changes->n; i++)
		below += changes->v[i].below && changes->v[i].kind == ATOLL_DELETED;
	CHECK_EQ(below, BELOW);
	later_release(&later);
	peer_release(&classify.peer);
	close_all();
}

TEST(what_has_vanished_is_no_change)
{
	AUTO_CHANGES *changes = changes_new();
	struct classify classify = { &r, changes, { -EBADF, NULL, -EBADF }, false };
	struct later later = { .classify = &classify };
	char *path = NULL;

	make_files(3);
	classify.peer.root_fd = r.root_fd;
	CHECK_OK(later_add(&later, "nothing", false, false));
	CHECK_OK(later_add(&later, "f0001", false, false));
	CHECK_OK(later_classify(&later, workspace, NULL, NULL, &path));
	CHECK_EQ(changes->n, 1);
	CHECK_STR(changes->v[0].path, "f0001");
	later_release(&later);
	peer_release(&classify.peer);
	close_all();
}

/* The list grows while what was below is added. */
TEST(the_change_of_a_replaced_directory_is_where_it_is_said_to_be)
{
	AUTO_CHANGES *changes = changes_new();
	struct classify classify = { &r, changes, { -EBADF, NULL, -EBADF }, false };
	struct tree_entry e = { .name = "full", .path = "full", .fd = -EBADF };
	struct change *c = NULL;

	make_files(0);
	replace_directory();
	classify.peer.root_fd = r.root_fd;
	e.dirfd = workspace;
	CHECK_OK(tree_stat(workspace, "full", &e.stat));
	CHECK_OK(classify_entry(&classify, &e, false, NULL, &c));
	CHECK_EQ(changes->n, 1 + BELOW);
	CHECK(c == &changes->v[0]);
	peer_release(&classify.peer);
	close_all();
}
