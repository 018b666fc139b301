/* SPDX-License-Identifier: Apache-2.0 */
/* The order of paths, what lies below what, and which times of directories are implied. */
#include "strategy/strategy.h"
#include "tap.h"

#define AUTO_CHANGES CLEANUP(cleanup_changes) struct changes

/* Each before all that follow. */
static const char *const ordered[] = {
	"",     "\x01",  " ",   "!",  "-",  "0",  "a",  "a/", "a/\x01", "a/-",      "a/b",  "a/b/c",  "a/b-",
	"a/bc", "a\x01", "a b", "a-", "a.", "a0", "aa", "b",  "\x7f",   "\xc3\xa9", "\xff", "\xff/x", "\xff\xff",
};

static int sign(int n)
{
	return (n > 0) - (n < 0);
}

TEST(paths_are_ordered_by_bytes_with_a_directorys_content_right_behind_it)
{
	for (int i = 0; i < (int)ARRAY_SIZE(ordered); i++) {
		for (int k = 0; k < (int)ARRAY_SIZE(ordered); k++) {
			if (sign(path_compare(ordered[i], ordered[k])) != sign(i - k))
				tap_fail(__FILE__, __LINE__, "\"%s\" and \"%s\" stand the wrong way round", ordered[i],
					 ordered[k]);
		}
	}
}

TEST(below_means_the_path_itself_or_what_lies_in_it)
{
	CHECK(path_is_below("a", "a") && path_is_below("a/b", "a") && path_is_below("a/b/c", "a"));
	CHECK(!path_is_below("ab", "a") && !path_is_below("a", "a/b") && !path_is_below("a-/b", "a"));
	CHECK(path_is_below("a", "") && path_is_below("", "") && path_is_below("/x/y", ""));
	CHECK(!path_is_below("", "a"));
	CHECK(path_is_below("/srv/app", "/srv") && !path_is_below("/srv2", "/srv"));
}

/* Every absolute path lies below "/". */
TEST(everything_absolute_is_below_the_root_directory)
{
	CHECK(path_is_below("/", "/"));
	CHECK(path_is_below("/srv", "/"));
	CHECK(path_is_below("/srv/app", "/"));
}

static void add(struct changes *c, const char *path, enum atoll_change_kind kind, unsigned what, mode_t mode)
{
	struct change *change = changes_add(c, path, kind);

	CHECK(change != NULL);
	change->what = what;
	change->has_after = kind != ATOLL_DELETED;
	change->after.mode = mode;
}

static void add_times(struct changes *c, const char *path)
{
	add(c, path, ATOLL_META, ATOLL_WHAT_TIME, S_IFDIR | 0755);
}

static const struct change *find(const struct changes *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].path, path) == 0)
			return &c->v[i];
	tap_fail(__FILE__, __LINE__, "no change of \"%s\"", path);
}

TEST(sorting_puts_parents_before_children_and_keeps_every_change)
{
	AUTO_CHANGES *c = changes_new();
	unsigned seed = 1;

	for (int i = 0; i < 1000; i++)
		add(c, ordered[(unsigned)rand_r(&seed) % ARRAY_SIZE(ordered)], ATOLL_ADDED, 0, S_IFREG);
	changes_sort(c);
	CHECK_EQ(c->n, 1000);
	for (size_t i = 1; i < c->n; i++)
		CHECK(path_compare(c->v[i - 1].path, c->v[i].path) <= 0);
}

TEST(times_of_a_directory_are_implied_by_a_change_directly_in_it)
{
	AUTO_CHANGES *c = changes_new();

	add_times(c, "");
	add_times(c, "d");
	add_times(c, "d/sub");
	add_times(c, "e");
	add_times(c, "f");
	add(c, "d/sub/new", ATOLL_ADDED, 0, S_IFREG);
	add(c, "e/old", ATOLL_DELETED, 0, 0);
	changes_sort(c);
	CHECK(find(c, "d/sub")->implied && find(c, "e")->implied);
	CHECK(!find(c, "f")->implied);
}

TEST(the_roots_times_are_implied_by_its_own_children_only)
{
	AUTO_CHANGES *deep = changes_new();
	AUTO_CHANGES *direct = changes_new();

	add_times(deep, "");
	add(deep, "d/new", ATOLL_ADDED, 0, S_IFREG);
	changes_sort(deep);
	CHECK(!find(deep, "")->implied);
	add_times(direct, "");
	add(direct, "new", ATOLL_ADDED, 0, S_IFREG);
	changes_sort(direct);
	CHECK(find(direct, "")->implied);
}

TEST(a_child_far_behind_its_directory_still_implies_its_times)
{
	AUTO_CHANGES *c = changes_new();

	add_times(c, "d");
	for (int i = 0; i < 100; i++) {
		char path[32];

		snprintf(path, sizeof path, "d/a%02d", i);
		add_times(c, path);
		snprintf(path, sizeof path, "d/a%02d/x/y", i);
		add(c, path, ATOLL_ADDED, 0, S_IFREG);
	}
	add(c, "d/z", ATOLL_ADDED, 0, S_IFREG);
	changes_sort(c);
	CHECK(find(c, "d")->implied);
	CHECK(!find(c, "d/a50")->implied);
}

TEST(more_than_times_is_never_implied)
{
	AUTO_CHANGES *c = changes_new();

	add(c, "d", ATOLL_META, ATOLL_WHAT_TIME | ATOLL_WHAT_MODE, S_IFDIR);
	add(c, "d/new", ATOLL_ADDED, 0, S_IFREG);
	add(c, "f", ATOLL_META, ATOLL_WHAT_TIME, S_IFREG);
	add(c, "f-", ATOLL_ADDED, 0, S_IFREG);
	changes_sort(c);
	CHECK(!find(c, "d")->implied && !find(c, "f")->implied);
}

TEST(an_empty_list_is_sorted_and_freed)
{
	struct changes *c = changes_new();

	changes_sort(c);
	CHECK(changes_free(c) == NULL);
	CHECK(changes_free(NULL) == NULL);
}

TEST(a_peer_finds_a_directory_again_and_says_why_there_is_none)
{
	struct peer p = { .root_fd = tap_dirfd, .fd = -EBADF };
	int first;

	CHECK_OK(mkdirat(tap_dirfd, "d", 0755));
	CHECK_OK(symlinkat("d", tap_dirfd, "link"));
	tap_write(tap_dirfd, "file", "");
	first = peer_dir(&p, "d/name", 1);
	CHECK_OK(first);
	CHECK_EQ(peer_dir(&p, "d/other", 1), first);
	CHECK_EQ(peer_dir(&p, "gone/x", 4), -ENOENT);
	CHECK_EQ(peer_dir(&p, "gone/y", 4), -ENOENT);
	CHECK_EQ(peer_dir(&p, "file/x", 4), -ENOTDIR);
	CHECK(peer_dir(&p, "link/x", 4) == -ELOOP || peer_dir(&p, "link/x", 4) == -ENOTDIR);
	CHECK_OK(peer_dir(&p, "name", 0));
	peer_release(&p);
	peer_release(&p);
}

TEST(a_change_of_a_part_keeps_its_own_words)
{
	CLEANUP(cleanup_changes) struct changes *c = changes_new();
	char text[] = "3 inserted";
	struct change *added = changes_add_part(c, "table people", ATOLL_MODIFIED, text);

	text[0] = '9';
	CHECK(added && added->part);
	CHECK_STR(added->note, "3 inserted");
}
