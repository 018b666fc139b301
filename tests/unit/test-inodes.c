/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

TEST(each_inode_has_its_own_number_and_keeps_it)
{
	struct tree_inodes t = { 0 };
	bool good = true;

	for (size_t i = 0; i < 5000; i++) {
		struct tree_stat st = { .dev = i % 7, .ino = i * 4096 };

		good &= !tree_inodes_find(&t, &st);
		good &= tree_inodes_add(&t, &st, i) != NULL;
	}
	for (size_t i = 0; i < 5000; i++) {
		struct tree_stat st = { .dev = i % 7, .ino = i * 4096 };
		uint64_t *found = tree_inodes_find(&t, &st);

		good &= found && *found == i && tree_inodes_add(&t, &st, 7) == found && *found == i;
	}
	CHECK(good);
	CHECK_EQ(t.n, 5000);
	tree_inodes_release(&t);
	CHECK(!tree_inodes_find(&t, &(struct tree_stat){ 0 }));
}

TEST(an_inode_has_the_path_that_was_put_last)
{
	const struct tree_stat a = { .ino = 1 }, b = { .ino = 2 };
	struct tree_links l = { 0 };

	CHECK(!tree_links_find(&l, &a));
	CHECK_EQ(tree_links_put(&l, &a, "first"), 0);
	CHECK_EQ(tree_links_put(&l, &b, "other"), 0);
	CHECK_EQ(tree_links_put(&l, &a, "second"), 0);
	CHECK_STR(tree_links_find(&l, &a), "second");
	CHECK_STR(tree_links_find(&l, &b), "other");
	tree_links_release(&l);
	CHECK(!tree_links_find(&l, &b));
}
