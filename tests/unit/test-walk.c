/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <sys/resource.h>

struct record {
	struct strbuf text;
	const char *stop_at, *skip, *fail_at;
	bool remove;
};

static int record_visit(const struct tree_entry *e, void *arg)
{
	struct record *r = arg;

	CHECK(!e->leaving || e->fd >= 0);
	CHECK(e->fd < 0 || S_ISDIR(e->stat.mode));
	if (e->fd >= 0)
		CHECK_EQ(scene_stat(e->fd, "").ino, e->stat.ino);
	CHECK_EQ(scene_stat(e->dirfd, e->name).ino, e->stat.ino);
	strbuf_addf(&r->text, "%s%s ", e->leaving ? "-" : "", e->path[0] ? e->path : ".");
	if (r->fail_at && strcmp(r->fail_at, e->path) == 0)
		return -EIO;
	if (r->stop_at && strcmp(r->stop_at, e->path) == 0)
		return TREE_WALK_STOP;
	return r->skip && strcmp(r->skip, e->path) == 0 ? TREE_WALK_SKIP : TREE_WALK_GO;
}

static const char *walked(unsigned flags, struct record *r)
{
	strbuf_release(&r->text);
	CHECK_OK(tree_walk(tap_dirfd, flags | TREE_WALK_SORTED, record_visit, r, NULL));
	return strbuf_str(&r->text);
}

static void small_scene(void)
{
	close(scene_dir(tap_dirfd, "b"));
	close(scene_dir(tap_dirfd, "b/e"));
	tap_write(tap_dirfd, "b/c", "");
	tap_write(tap_dirfd, "a", "");
	tap_write(tap_dirfd, "d", "");
	CHECK_EQ(symlinkat("b", tap_dirfd, "l"), 0);
}

TEST(parents_come_before_children_in_byte_order_and_again_when_left)
{
	struct record r = { 0 };

	small_scene();
	CHECK_STR(walked(0, &r), ". a b b/c b/e d l ");
	CHECK_STR(walked(TREE_WALK_NO_ROOT, &r), "a b b/c b/e d l ");
	CHECK_STR(walked(TREE_WALK_LEAVING, &r), ". a b b/c b/e -b/e -b d l -. ");
	CHECK_STR(walked(TREE_WALK_LEAVING | TREE_WALK_NO_ROOT, &r), "a b b/c b/e -b/e -b d l ");
	strbuf_release(&r.text);
}

TEST(an_empty_tree_is_its_root)
{
	struct record r = { 0 };

	CHECK_STR(walked(TREE_WALK_LEAVING, &r), ". -. ");
	CHECK_STR(walked(TREE_WALK_LEAVING | TREE_WALK_NO_ROOT, &r), "");
	strbuf_release(&r.text);
}

TEST(skip_does_not_descend_and_stop_ends_well)
{
	struct record skip = { .skip = "b" }, stop = { .stop_at = "b/c" }, none = { .skip = "" };

	small_scene();
	CHECK_STR(walked(TREE_WALK_LEAVING, &skip), ". a b d l -. ");
	CHECK_STR(walked(TREE_WALK_LEAVING, &stop), ". a b b/c ");
	CHECK_STR(walked(TREE_WALK_LEAVING, &none), ". ");
	strbuf_release(&skip.text);
	strbuf_release(&stop.text);
	strbuf_release(&none.text);
}

TEST(an_error_of_the_callback_ends_the_walk_and_names_the_path)
{
	struct record r = { .fail_at = "b/e" };
	AUTO_FREE char *path = NULL;

	small_scene();
	CHECK_EQ(tree_walk(tap_dirfd, TREE_WALK_SORTED, record_visit, &r, &path), -EIO);
	CHECK_STR(path, "b/e");
	strbuf_release(&r.text);
}

TEST(something_that_is_no_directory_is_walked_as_itself)
{
	struct record r = { 0 };

	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	AUTO_FD file = openat(tap_dirfd, "f", O_PATH | O_CLOEXEC);
	AUTO_FD link = openat(tap_dirfd, "l", O_PATH | O_NOFOLLOW | O_CLOEXEC);

	CHECK_OK(tree_walk(file, TREE_WALK_LEAVING, record_visit, &r, NULL));
	CHECK_OK(tree_walk(link, TREE_WALK_LEAVING, record_visit, &r, NULL));
	CHECK_STR(strbuf_str(&r.text), ". . ");
	strbuf_release(&r.text);
}

TEST(names_are_any_bytes)
{
	static const char *const names[] = { "\n",           " ",     "-rf", ".. ",     "...", "\\",
					     "\x01\xff\xfe", "a,b:c", "*",   "\xc3\xa4" };
	struct record r = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		tap_write(tap_dirfd, names[i], "");
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_NO_ROOT, record_visit, &r, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_CONTAINS(strbuf_str(&r.text), names[i]);
	strbuf_release(&r.text);
}

TEST(specials_are_visited_without_being_opened)
{
	struct record r = { 0 };

	alarm(10);
	scene_specials(tap_dirfd);
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, record_visit, &r, NULL));
	CHECK_CONTAINS(strbuf_str(&r.text), "fifo socket ");
	strbuf_release(&r.text);
}

struct depth {
	size_t longest;
	int visits, leavings;
};

static int depth_visit(const struct tree_entry *e, void *arg)
{
	struct depth *d = arg;

	d->longest = MAX(d->longest, strlen(e->path));
	d->visits += !e->leaving;
	d->leavings += e->leaving;
	if (e->leaving)
		CHECK_EQ(scene_stat(e->dirfd, e->name).ino, e->stat.ino);
	return TREE_WALK_GO;
}

TEST(depth_beyond_path_max_needs_few_fds)
{
	struct rlimit few = { 90, 90 };
	struct depth d = { 0 };

	scene_deep(tap_dirfd, 5000);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_LEAVING, depth_visit, &d, NULL));
	CHECK_EQ(d.longest, 2 * 5000 + strlen("bottom"));
	CHECK_EQ(d.visits, 5002);
	CHECK_EQ(d.leavings, 5001);
}

static int branch_visit(const struct tree_entry *e, void *arg)
{
	int *n = arg;

	*n += !e->leaving;
	return TREE_WALK_GO;
}

TEST(deep_branches_come_back_to_the_right_directory)
{
	AUTO_FD fd = dup(tap_dirfd);
	int n = 0;

	for (int i = 0; i < 300; i++) { /* siblings at every level, to be visited after the way back up */
		tap_write(fd, "a", "");
		tap_write(fd, "z", "");
		int next = scene_dir(fd, "d");

		close(fd);
		fd = next;
	}
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, branch_visit, &n, NULL));
	CHECK_EQ(n, 900);
}

static int removing_visit(const struct tree_entry *e, void *arg)
{
	(void)arg;
	if (!S_ISDIR(e->stat.mode) || e->leaving)
		CHECK_EQ(unlinkat(e->dirfd, e->name, S_ISDIR(e->stat.mode) ? AT_REMOVEDIR : 0), 0);
	return TREE_WALK_GO;
}

TEST(entries_may_be_removed_on_the_way)
{
	char name[32];

	scene_deep(tap_dirfd, 500);
	AUTO_FD many = scene_dir(tap_dirfd, "many");

	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_EQ(mknodat(many, name, S_IFREG | 0600, 0), 0);
	}
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_LEAVING | TREE_WALK_NO_ROOT, removing_visit, NULL, NULL));
	CHECK_EQ(scene_count(tap_dirfd), 0);
}

static int vanish_visit(const struct tree_entry *e, void *arg)
{
	int *n = arg;

	++*n;
	if (strcmp(e->path, "a") == 0)
		CHECK_EQ(unlinkat(e->dirfd, "b", 0), 0);
	return TREE_WALK_GO;
}

TEST(what_vanishes_meanwhile_is_passed_over)
{
	int n = 0;

	tap_write(tap_dirfd, "a", "");
	tap_write(tap_dirfd, "b", "");
	tap_write(tap_dirfd, "c", "");
	CHECK_OK(tree_walk(tap_dirfd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, vanish_visit, &n, NULL));
	CHECK_EQ(n, 2);
}

TEST(listing_leaves_access_times_alone)
{
	close(scene_dir(tap_dirfd, "d"));
	scene_times(tap_dirfd, "d", 100, 1000); /* relatime would move it */
	int64_t before = scene_stat(tap_dirfd, "d").atime;

	CHECK_EQ(scene_count(tap_dirfd), 1);
	CHECK_EQ(scene_stat(tap_dirfd, "d").atime, before);
}

static int closed_visit(const struct tree_entry *e, void *arg)
{
	if (strcmp(e->path, "closed") != 0)
		return TREE_WALK_GO;
	CHECK_EQ(e->fd, -EBADF);
	CHECK(!e->leaving);
	return *(int *)arg;
}

static void walk_closed(int dirfd)
{
	AUTO_FREE char *path = NULL;
	int action = TREE_WALK_GO;

	close(scene_dir(dirfd, "closed"));
	CHECK_EQ(fchmodat(dirfd, "closed", 0, 0), 0);
	CHECK_EQ(tree_walk(dirfd, TREE_WALK_LEAVING, closed_visit, &action, &path), -EACCES);
	CHECK_STR(path, "closed");
	action = TREE_WALK_SKIP;
	CHECK_OK(tree_walk(dirfd, TREE_WALK_LEAVING, closed_visit, &action, NULL));
}

TEST(an_unreadable_directory_is_named_unless_skipped)
{
	scene_as_user(walk_closed);
}

static int opening_visit(const struct tree_entry *e, void *arg)
{
	int *n = arg;

	++*n;
	if (strcmp(e->path, "closed") == 0)
		CHECK_EQ(fchmodat(e->dirfd, e->name, 0700, 0), 0);
	return TREE_WALK_GO;
}

static void walk_opened(int dirfd)
{
	int n = 0;

	close(scene_dir(dirfd, "closed"));
	tap_write(dirfd, "closed/f", "");
	CHECK_EQ(fchmodat(dirfd, "closed", 0, 0), 0);
	CHECK_OK(tree_walk(dirfd, TREE_WALK_NO_ROOT, opening_visit, &n, NULL));
	CHECK_EQ(n, 2);
}

TEST(a_callback_may_make_a_directory_readable)
{
	scene_as_user(walk_opened);
}

static int mount_visit(const struct tree_entry *e, void *arg)
{
	if (strcmp(e->path, "m") != 0)
		return TREE_WALK_GO;
	CHECK(e->stat.is_mount_root);
	CHECK_EQ(e->fd, -EBADF);
	return *(int *)arg;
}

TEST(another_mount_is_not_entered)
{
	AUTO_FREE char *path = NULL;
	int action = TREE_WALK_GO;

	scene_need_mounts();
	close(scene_dir(tap_dirfd, "m"));
	close(scene_dir(tap_dirfd, "same"));
	CHECK_EQ(mount("same", "m", NULL, MS_BIND, NULL), 0); /* the same device all the same */
	CHECK_EQ(tree_walk(tap_dirfd, 0, mount_visit, &action, &path), -EXDEV);
	CHECK_STR(path, "m");
	action = TREE_WALK_SKIP;
	CHECK_OK(tree_walk(tap_dirfd, 0, mount_visit, &action, NULL));
	AUTO_FD inside = open("m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_EQ(scene_count(inside), 0); /* as the root of a walk it is as good as any */
	close(TAKE_FD(inside));
	CHECK_EQ(umount2("m", MNT_DETACH), 0);
}

static int moving_visit(const struct tree_entry *e, void *arg)
{
	int *root = arg;

	if (strcmp(e->name, "bottom") == 0)
		CHECK_EQ(renameat(*root, "from/d/d/d", *root, "moved"), 0);
	return TREE_WALK_GO;
}

TEST(a_directory_moved_away_meanwhile_never_leads_to_a_foreign_one)
{
	AUTO_FD from = scene_dir(tap_dirfd, "from");

	scene_deep(from, 200);
	CHECK_EQ(tree_walk(from, TREE_WALK_LEAVING, moving_visit, &tap_dirfd, NULL), -ESTALE);
}

/* Opens fail from the root's visit on, until the next visit. */
static int exhausted_visit(const struct tree_entry *e, void *arg)
{
	struct rlimit *saved = arg, none;

	if (e->path[0]) {
		setrlimit(RLIMIT_NOFILE, saved);
		return TREE_WALK_GO;
	}
	getrlimit(RLIMIT_NOFILE, saved);
	none = (struct rlimit){ 0, saved->rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	return TREE_WALK_GO;
}

TEST(a_directory_that_fails_to_open_but_for_permissions_is_not_visited)
{
	AUTO_FREE char *path = NULL;
	struct rlimit saved;
	int r;

	close(scene_dir(tap_dirfd, "d"));
	close(scene_dir(tap_dirfd, "d/e"));
	r = tree_walk(tap_dirfd, 0, exhausted_visit, &saved, &path);
	setrlimit(RLIMIT_NOFILE, &saved);
	CHECK_EQ(r, -EMFILE);
	CHECK_STR(path, "d");
}
