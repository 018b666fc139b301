/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include "tree/private.h"

static void push(struct tree_chain *c, int fd)
{
	struct tree_stat st = scene_stat(fd, "");

	CHECK_OK(tree_chain_push(c, fd, st.dev, st.ino));
}

static void push_deep(struct tree_chain *c, int levels)
{
	scene_deep(tap_dirfd, levels);
	push(c, openat(tap_dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (int i = 0; i < levels; i++)
		push(c, openat(tree_chain_top(c), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int open_links(const struct tree_chain *c)
{
	int n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->v[i].fd >= 0;
	return n;
}

TEST(only_the_innermost_directories_are_held_open)
{
	CLEANUP(tree_chain_release) struct tree_chain c = { 0 };

	push_deep(&c, 1000);
	CHECK_EQ(open_links(&c), TREE_CHAIN_OPEN);
}

TEST(the_way_back_leads_through_the_same_directories)
{
	CLEANUP(tree_chain_release) struct tree_chain c = { 0 };

	push_deep(&c, 1000);
	while (c.n > 1) {
		int parent = tree_chain_parent(&c);

		CHECK_OK(parent);
		CHECK_EQ(scene_stat(parent, "").ino, c.v[c.n - 2].ino);
		tree_chain_pop(&c);
		CHECK_EQ(tree_chain_top(&c), parent);
	}
	CHECK_EQ(scene_stat(tree_chain_top(&c), "").ino, scene_stat(tap_dirfd, "").ino);
}

TEST(a_directory_moved_elsewhere_is_stale)
{
	CLEANUP(tree_chain_release) struct tree_chain c = { 0 };
	int r = 0;

	push_deep(&c, 100);
	CHECK_EQ(renameat(tap_dirfd, "d/d/d", tap_dirfd, "moved"), 0);
	while (r >= 0 && c.n > 1) {
		r = tree_chain_parent(&c);
		if (r >= 0)
			tree_chain_pop(&c);
	}
	CHECK_EQ(r, -ESTALE);
	CHECK_EQ(c.n, 4); /* at "moved", which was d/d/d */
}
