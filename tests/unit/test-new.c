/* SPDX-License-Identifier: Apache-2.0 */
/* Making a sandbox: what a copy costs is told before it is begun. */
#include "engine/engine.h"
#include "store-scene.h"

static struct atoll *a;
static struct atoll_error err;

struct told {
	int calls;
	struct atoll_cost cost;
	bool begun, declines;
};

static int find_copied(const struct tree_entry *e, void *arg)
{
	*(bool *)arg |= strcmp(e->name, "file") == 0;
	return TREE_WALK_GO;
}

/* Looks whether anything was copied yet. */
static int tell(const struct atoll_cost *cost, void *arg)
{
	AUTO_FD state = open("state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct told *told = arg;

	told->calls++;
	told->cost = *cost;
	CHECK_OK(tree_walk(state, 0, find_copied, &told->begun, NULL));
	return told->declines;
}

/* Three files, two of them one inode, and a hole. */
static void make_tree(void)
{
	AUTO_FD fd = -EBADF;

	CHECK_OK(mkdir("tree", 0755));
	CHECK_OK(mkdir("tree/dir", 0755));
	fd = open("tree/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_EQ(write(fd, "0123456789", 10), 10);
	CHECK_OK(link("tree/file", "tree/dir/again"));
	fd = fd_close(fd);
	fd = open("tree/dir/hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_OK(ftruncate(fd, 1 << 30));
}

static struct atoll_info *make_box(const char *strategy, struct told *told)
{
	const struct atoll_resource_spec spec = { ATOLL_KIND_DIR, "tree", strategy };
	const struct atoll_new_options options = {
		.name = "box", .resources = &spec, .n_resources = 1, .cost = tell, .cost_arg = told
	};
	struct atoll_info *info = NULL;

	CHECK_OK(mkdir("state", 0755));
	make_tree();
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_DONE(atoll_new(a, &options, &info, &err), err);
	return info;
}

TEST(a_copy_tells_how_many_files_and_bytes_before_it_begins)
{
	struct told told = { 0 };
	struct atoll_info *info = make_box("copy_on_write", &told);

	if (tree_can_share(tap_dirfd, tap_dirfd)) {
		CHECK_EQ(told.calls, 0);
		CHECK_EQ(info->resources[0].copied_files, 0);
	} else {
		CHECK_EQ(told.calls, 1);
		CHECK(!told.begun);
		CHECK_EQ(told.cost.resource, 1);
		CHECK_EQ(told.cost.files, 3);
		CHECK_EQ(told.cost.bytes, 10);
		CHECK_EQ(info->resources[0].copied_files, 3);
		CHECK_EQ(info->resources[0].copied_bytes, 10);
	}
	atoll_info_free(info);
	atoll_close(a);
}

TEST(a_copy_that_the_caller_declines_makes_nothing)
{
	const struct atoll_resource_spec spec = { ATOLL_KIND_DIR, "tree", "copy_on_write" };
	struct told told = { .declines = true };
	const struct atoll_new_options options = {
		.name = "box", .resources = &spec, .n_resources = 1, .cost = tell, .cost_arg = &told
	};
	struct atoll_info *info = NULL;

	CHECK_OK(mkdir("state", 0755));
	make_tree();
	if (tree_can_share(tap_dirfd, tap_dirfd))
		return;
	CHECK_DONE(atoll_open(&(struct atoll_options){ "state" }, &a, &err), err);
	CHECK_EQ(atoll_new(a, &options, &info, &err), -ATOLL_REFUSED);
	CHECK(!told.begun);
	CHECK_EQ(atoll_show(a, "box", &info, &err), -ATOLL_NOT_FOUND);
	atoll_close(a);
}

TEST(what_copies_nothing_tells_no_cost)
{
	struct told told = { 0 };

	atoll_info_free(make_box("none", &told));
	CHECK_EQ(told.calls, 0);
	atoll_close(a);
}
