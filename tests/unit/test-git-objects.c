/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

/* A store "theirs" with one commit more than the repository, and an empty quarantine "q". */
static void make_stores(struct git_repo *repo, struct git_id *ret_tip, struct git_id *ret_known)
{
	scene_repo(repo);
	scene_shell(
		"git clone -q --bare repo theirs.git; git -C theirs.git worktree add -q ../w 2>/dev/null; cd w; echo "
		"c >c; git add c; git commit -qm 'second'; cd ..; mkdir q");
	CHECK_EQ(git_id_parse(scene_print("git -C w rev-parse HEAD"), ret_tip), 1);
	CHECK_EQ(git_id_parse(scene_print("git -C repo rev-parse HEAD"), ret_known), 1);
}

static int land(const struct git_repo *repo, const struct git_id *tip, const struct git_id *known)
{
	AUTO_FREE char *quarantine = str_format("%s/q", tap_dir);
	AUTO_FREE char *revisions = str_format("%s\n^%s\n", tip->hex, known->hex);
	struct atoll_error err = { 0 };

	AUTO_FD pack = -EBADF;
	struct git_running running = { 0 };
	int r = git_objects_pack_start(repo, quarantine, revisions, &running, &pack, &err);

	if (r >= 0)
		r = git_call_finish(&running, &err);
	if (r >= 0)
		r = git_objects_land_start(repo, pack, &running, &err);
	return r < 0 || !running.started ? r : git_call_finish(&running, &err);
}

static int import(void)
{
	AUTO_FD from = openat(tap_dirfd, "theirs.git/objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD to = openat(tap_dirfd, "q", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return git_objects_import(from, to);
}

TEST(what_is_new_lands_as_one_pack)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct git_id tip, known;

	make_stores(&repo, &tip, &known);
	CHECK_EQ(import(), 0);
	CHECK_EQ(land(&repo, &tip, &known), 0);
	scene_shell("cd repo; git fsck --strict; git update-ref refs/heads/x $(git -C ../w rev-parse HEAD); "
		    "git show x:c | grep -q c; test $(ls .git/objects/pack/*.pack | wc -l) = 1");
	/* There is nothing more to land, and nothing is written. */
	CHECK_EQ(land(&repo, &tip, &tip), 0);
}

TEST(what_is_no_object_is_left_behind)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct git_id tip, known;

	make_stores(&repo, &tip, &known);
	scene_shell(
		"cd theirs.git/objects; mkdir -p info pack; echo /etc >info/alternates; ln -s /etc/passwd "
		"pack/pack-1111111111111111111111111111111111111111.pack; mkdir -p aa/bb; echo x >aa/readme; mkfifo "
		"aa/22222222222222222222222222222222222222; ln -s /etc zz; rm -rf ff; ln -s /etc ff");
	CHECK_EQ(import(), 0);
	scene_shell(
		"cd q; test ! -e info; test ! -e zz; test ! -e ff; test ! -e aa/readme; test -z \"$(find . -type p)\"; "
		"test -z \"$(find . -type l)\"; test -n \"$(find . -type f)\"");
}

TEST(a_forged_object_does_not_land)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct git_id tip, known;

	make_stores(&repo, &tip, &known);
	/* Another content under the blob's name. */
	scene_shell(
		"cd theirs.git; blob=$(git -C ../w rev-parse HEAD:c); other=$(echo evil | git hash-object -w --stdin); f() "
		"{ echo objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }; chmod +w $(f $blob); cp $(f $other) "
		"$(f $blob)");
	CHECK_EQ(import(), 0);
	CHECK(land(&repo, &tip, &known) < 0);
	scene_shell("cd repo; git fsck --strict; ! ls .git/objects/pack/*.pack 2>/dev/null");
}

TEST(a_commit_that_lacks_objects_does_not_land)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct git_id tip, known;

	make_stores(&repo, &tip, &known);
	scene_shell(
		"cd theirs.git; blob=$(git -C ../w rev-parse HEAD:c); rm -f objects/$(echo $blob | cut -c1-2)/$(echo "
		"$blob | cut -c3-)");
	CHECK_EQ(import(), 0);
	CHECK(land(&repo, &tip, &known) < 0);
}
