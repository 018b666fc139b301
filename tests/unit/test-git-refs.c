/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

#include <sys/sysmacros.h>

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"

/* Two directories, "upper" over "lower". */
static struct git_refs two(void)
{
	struct git_refs g = { .marks = tree_overlay_marks() };

	scene_shell("mkdir -p upper lower/refs/heads");
	g.upper_fd = openat(tap_dirfd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g.lower_fd = openat(tap_dirfd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return g;
}

static const char *value(const struct git_refs *g, const char *name)
{
	static struct git_id id;

	return git_refs_read(g, name, &id) < 0 ? NULL : id.hex;
}

TEST(names_are_told_from_what_git_refuses)
{
	static const char *const bad[] = { "HEAD",
					   "refs",
					   "refs/",
					   "refs//x",
					   "refs/heads/../x",
					   "refs/heads/.x",
					   "refs/heads/x.lock",
					   "refs/heads/a b",
					   "refs/heads/a\nb",
					   "refs/heads/a~1",
					   "refs/heads/a@{1}",
					   "refs/heads/x." };

	CHECK(git_refs_is_name("refs/heads/main"));
	CHECK(git_refs_is_name("refs/heads/atoll/a-b_c.d"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!git_refs_is_name(bad[i]));
}

TEST(loose_refs_win_over_packed_ones_and_the_upper_over_the_lower)
{
	struct git_refs g = two();

	scene_shell("echo '# pack-refs with: peeled' >lower/packed-refs; echo " A " refs/heads/p >>lower/packed-refs; "
		    "echo '^" B "' >>lower/packed-refs; echo " A " refs/heads/l >>lower/packed-refs; echo " B
		    " >lower/refs/heads/l; echo " A " >lower/refs/heads/u; mkdir -p upper/refs/heads; echo " B
		    " >upper/refs/heads/u");
	CHECK_STR(value(&g, "refs/heads/p"), A);
	CHECK_STR(value(&g, "refs/heads/l"), B);
	CHECK_STR(value(&g, "refs/heads/u"), B);
	CHECK_STR(value(&g, "refs/heads/none"), NULL);
}

TEST(what_was_removed_above_is_not_found_below)
{
	struct git_refs g = two();

	scene_shell("echo " A " >lower/refs/heads/x; mkdir -p lower/refs/tags upper/refs/heads; echo " A
		    " >lower/refs/tags/t");
	if (mknodat(g.upper_fd, "refs/heads/x", S_IFCHR, makedev(0, 0)) < 0)
		tap_skip("a whiteout cannot be made here");
	CHECK_STR(value(&g, "refs/heads/x"), NULL);
	CHECK_STR(value(&g, "refs/tags/t"), A);
}

TEST(symbolic_refs_are_followed_but_not_for_ever)
{
	struct git_refs g = two();
	AUTO_FREE char *ref = NULL;
	struct git_id id;

	scene_shell("echo 'ref: refs/heads/two' >lower/refs/heads/one; echo " A " >lower/refs/heads/two; "
		    "echo 'ref: refs/heads/loop' >lower/refs/heads/loop; echo 'ref: refs/heads/one' >upper/HEAD");
	CHECK_STR(value(&g, "refs/heads/one"), A);
	CHECK_EQ(git_refs_read(&g, "refs/heads/loop", &id), -ELOOP);
	CHECK_EQ(git_refs_head(&g, &ref, &id), 0);
	CHECK_STR(ref, "refs/heads/one");
}

TEST(what_is_no_value_is_refused)
{
	struct git_refs g = two();
	AUTO_FREE char *ref = NULL;
	struct git_id id;

	scene_shell("echo rubbish >lower/refs/heads/x; echo " A "2 >lower/refs/heads/long; "
		    "ln -s /etc/passwd upper/HEAD; mkdir -p upper/refs/heads; ln -s /etc/passwd upper/refs/heads/link");
	CHECK_EQ(git_refs_read(&g, "refs/heads/x", &id), -EINVAL);
	CHECK_EQ(git_refs_read(&g, "refs/heads/long", &id), -EINVAL);
	CHECK(git_refs_head(&g, &ref, &id) < 0);
	CHECK(git_refs_read(&g, "refs/heads/link", &id) < 0);
	CHECK_EQ(git_refs_read(&g, "../../etc/passwd", &id), -EINVAL);
}

TEST(a_name_is_free_if_nothing_is_there_above_or_below)
{
	struct git_refs g = two();

	scene_shell("mkdir -p lower/refs/heads/dir; echo " A " >lower/refs/heads/dir/x; echo " A " refs/heads/p/q "
		    ">lower/packed-refs");
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/new"), 1);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/dir/y"), 1);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/dir"), 0);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/dir/x/y"), 0);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/p"), 0);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/p/q/r"), 0);
	CHECK_EQ(git_refs_is_free(&g, "refs/heads/pp"), 1);
}

static int note(const char *name, const struct git_id *id, void *arg)
{
	strbuf_addf(arg, "%s=%.2s ", name, id->hex);
	return 0;
}

TEST(refs_made_above_are_told_once_each)
{
	struct git_refs g = two();
	AUTO_STRBUF told = STRBUF_INIT;

	scene_shell("echo " A " >lower/refs/heads/same; mkdir -p upper/refs/heads; echo " A
		    " >upper/refs/heads/same; echo " B " >upper/refs/heads/new; echo " B
		    " refs/heads/new >upper/packed-refs; "
		    "echo " B " refs/tags/t >>upper/packed-refs; echo " A " refs/heads/same >>upper/packed-refs");
	CHECK_EQ(git_refs_differing(&g, note, &told), 0);
	CHECK_STR(strbuf_str(&told), "refs/heads/new=22 refs/tags/t=22 ");
}

TEST(refs_removed_above_are_told_once_each)
{
	struct git_refs g = two();
	AUTO_STRBUF told = STRBUF_INIT;

	scene_shell("echo " A " >lower/refs/heads/x; echo " A " >lower/refs/heads/moved; mkdir -p upper/refs/heads; "
		    "printf '%s\\n' '" A " refs/heads/gone' '" A " refs/heads/kept' '" A " refs/heads/keptlong' '" A
		    " refs/tags/last' >lower/packed-refs; sleep 0.02; "
		    "printf '%s\\n' '" A " refs/heads/kept' '" B " refs/heads/keptlong' '" A
		    " refs/heads/moved' >upper/packed-refs");
	if (mknodat(g.upper_fd, "refs/heads/x", S_IFCHR, makedev(0, 0)) < 0 ||
	    mknodat(g.upper_fd, "refs/heads/moved", S_IFCHR, makedev(0, 0)) < 0)
		tap_skip("a whiteout cannot be made here");
	CHECK_EQ(git_refs_removed(&g, note, &told), 0);
	CHECK_STR(strbuf_str(&told), "refs/heads/x=11 refs/heads/gone=11 refs/tags/last=11 ");
	strbuf_truncate(&told, 0);
	scene_shell("sleep 0.02; echo '" A " refs/heads/later' >lower/packed-refs");
	CHECK_EQ(git_refs_removed(&g, note, &told), 0);
	CHECK_STR(strbuf_str(&told), "refs/heads/x=11 ");
}

TEST(a_written_ref_is_what_git_reads)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct git_refs g = { .marks = tree_overlay_marks() };
	struct git_id id;

	scene_repo(&repo);
	g = (struct git_refs){ -EBADF, repo.dir_fd };
	CHECK_EQ(git_refs_read(&g, "refs/heads/main", &id), 0);
	CHECK_EQ(git_refs_write(repo.dir_fd, "refs/heads/a/b", &id, "tmp"), 0);
	CHECK_STR(scene_print("git -C repo rev-parse refs/heads/a/b"), id.hex);
	CHECK_EQ(git_refs_log(repo.dir_fd, "refs/heads/main", &id, &id, "S <s@x>", "atoll: a\nb", false), 0);
	CHECK_STR(scene_print("git -C repo reflog -1 --format=%gs main"), "atoll: a");
	/* The branch's only value is packed, and an empty directory has its place. */
	scene_shell("cd repo; git branch gone; git pack-refs --all; mkdir -p .git/refs/heads/gone");
	CHECK_EQ(git_refs_write(repo.dir_fd, "refs/heads/gone", &id, "tmp"), 0);
	CHECK_STR(scene_print("git -C repo rev-parse refs/heads/gone"), id.hex);
}
