/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

TEST(a_lock_keeps_git_out_until_it_is_dropped)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	CHECK_EQ(git_lock_take(repo.dir_fd, "index", "me"), 0);
	CHECK_EQ(git_lock_take(repo.dir_fd, "index", "me"), 0);
	CHECK_EQ(git_lock_is_held(repo.dir_fd, "index", "me"), 1);
	CHECK_EQ(git_lock_is_held(repo.dir_fd, "index", "you"), 0);
	CHECK_EQ(git_lock_take(repo.dir_fd, "index", "you"), -EEXIST);
	scene_shell("cd repo; echo x >>a; ! git add a 2>/dev/null");
	CHECK_EQ(git_lock_drop(repo.dir_fd, "index", "you"), 0);
	CHECK_EQ(git_lock_is_held(repo.dir_fd, "index", "me"), 1);
	CHECK_EQ(git_lock_drop(repo.dir_fd, "index", "me"), 0);
	CHECK_EQ(git_lock_drop(repo.dir_fd, "index", "me"), 0);
	scene_shell("cd repo; git add a; git commit -qm two; ! ls .git/*.lock 2>/dev/null");
}

TEST(a_packed_branch_can_be_locked_too)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	scene_shell("cd repo; git branch deep/branch; git pack-refs --all; rm -rf .git/refs/heads/deep");
	CHECK_EQ(git_lock_drop(repo.dir_fd, "refs/heads/deep/branch", "me"), 0);
	CHECK_EQ(git_lock_take(repo.dir_fd, "refs/heads/deep/branch", "me"), 0);
	scene_shell("cd repo; ! git update-ref refs/heads/deep/branch HEAD~0 HEAD 2>/dev/null || "
		    "! git branch -f deep/branch HEAD 2>/dev/null; test $(git branch | wc -l) = 2");
	CHECK_EQ(git_lock_drop(repo.dir_fd, "refs/heads/deep/branch", "me"), 0);
	scene_shell("cd repo; git branch -D deep/branch");
}

TEST(a_lock_of_gits_own_is_not_ours)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	scene_shell("head -c 9000 /dev/zero >repo/.git/index.lock; : >repo/.git/HEAD.lock");
	CHECK_EQ(git_lock_take(repo.dir_fd, "index", "me"), -EEXIST);
	CHECK_EQ(git_lock_take(repo.dir_fd, "HEAD", "me"), -EEXIST);
	CHECK_EQ(git_lock_drop(repo.dir_fd, "HEAD", "me"), 0);
	CHECK_EQ(faccessat(repo.dir_fd, "HEAD.lock", F_OK, 0), 0);
}
