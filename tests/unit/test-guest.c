/* SPDX-License-Identifier: Apache-2.0 */
/* What a workspace holds for guests: whose a path is, and how it follows when the layer is exchanged. */
#include "base/fd.h"
#include "strategy/strategy.h"
#include "tree-scene.h"

static char *claimed[] = { (char *)"data/x.db", (char *)"data/x.db-wal" };
static char *excluded[] = { (char *)"vendor/repo" };

static struct resource host(int root_fd)
{
	return (struct resource){ .ops = strategy_find("overlay", ATOLL_KIND_DIR),
				  .marks = tree_overlay_marks(),
				  .root_fd = root_fd,
				  .claimed = claimed,
				  .n_claimed = 2,
				  .excluded = excluded,
				  .n_excluded = 1 };
}

TEST(each_path_is_its_owners)
{
	const struct resource r = host(-EBADF);

	CHECK(resource_excludes(&r, "data/x.db") && resource_is_claimed(&r, "data/x.db-wal"));
	CHECK(resource_excludes(&r, "vendor/repo") && !resource_is_claimed(&r, "vendor/repo"));
	CHECK(!resource_excludes(&r, "data/x.db2") && !resource_excludes(&r, "data") && !resource_excludes(&r, ""));
	CHECK(resource_is_others(&r, "vendor/repo/f") && resource_is_others(&r, "data/x.db") &&
	      !resource_is_others(&r, "vendor/repository") && !resource_is_others(&r, "vendor"));
	CHECK_STR(resource_excluded_below(&r, "vendor"), "vendor/repo");
	CHECK_STR(resource_excluded_below(&r, "data"), "data/x.db");
	CHECK(resource_excluded_below(&r, "dat") == NULL && resource_excluded_below(&r, "other") == NULL);
}

TEST(directories_above_a_guest_look_like_the_originals)
{
	int original = scene_dir(tap_dirfd, "original"), upper = scene_dir(tap_dirfd, "upper");
	const struct timespec times[2] = { { 1000, 5 }, { 2000, 7 } };
	const struct resource r = host(original);
	struct tree_stat st, before;
	AUTO_FD made = -EBADF;

	CHECK_OK(mkdirat(original, "data", 0750));
	CHECK_OK(utimensat(original, "data", times, 0));
	CHECK_OK(tree_stat(upper, "", &before));
	CHECK_OK(guest_make_parents(&r, upper, "data/x.db"));
	CHECK_OK(guest_make_parents(&r, upper, "data/x.db"));
	CHECK_OK(tree_stat(upper, "data", &st));
	CHECK_EQ(st.mode & 07777, 0750);
	CHECK_EQ(st.mtime, 2000 * 1000000000LL + 7);
	made = openat(upper, "data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(guest_has_made(made, r.marks) && !guest_has_made(original, r.marks));
	CHECK_OK(tree_stat(upper, "", &st));
	CHECK_EQ(st.mtime, before.mtime);
	CHECK_EQ(guest_make_parents(&r, upper, "nowhere/x.db"), -ENOENT);
}

TEST(what_is_a_guests_follows_to_the_fresh_layer_and_nothing_else)
{
	int original = scene_dir(tap_dirfd, "original"), old = scene_dir(tap_dirfd, "old"),
	    fresh = scene_dir(tap_dirfd, "fresh");
	const struct resource r = host(original);

	CHECK_OK(mkdirat(original, "data", 0755));
	CHECK_OK(mkdirat(old, "data", 0755));
	tap_write(old, "data/x.db", "clone");
	tap_write(old, "data/other", "edit");
	CHECK_OK(guest_follow(&r, old, fresh));
	CHECK_OK(faccessat(fresh, "data/x.db", F_OK, 0));
	CHECK(faccessat(fresh, "data/other", F_OK, 0) < 0 && faccessat(old, "data/other", F_OK, 0) == 0);
	CHECK(faccessat(old, "data/x.db", F_OK, 0) < 0);
	/* Cut off in the middle it goes on: what has moved stays, what has not follows. */
	tap_write(old, "data/x.db-wal", "log");
	CHECK_OK(guest_follow(&r, old, fresh));
	CHECK_OK(faccessat(fresh, "data/x.db-wal", F_OK, 0));
	CHECK_OK(faccessat(fresh, "data/x.db", F_OK, 0));
	/* A command may have put anything in the directory's place. */
	CHECK_OK(unlinkat(old, "data/other", 0));
	CHECK_OK(unlinkat(old, "data", AT_REMOVEDIR));
	CHECK_OK(symlinkat("/", old, "data"));
	CHECK_OK(guest_follow(&r, old, fresh));
	CHECK_OK(faccessat(fresh, "data/x.db", F_OK, 0));
}
