/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

static const char *refusal(const char *name)
{
	static struct atoll_error err;
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	AUTO_FREE char *path = str_format("%s/%s", tap_dir, name);

	err = (struct atoll_error){ 0 };
	return git_repo_open(path, &repo, &err) < 0 ? err.message : "";
}

TEST(what_cannot_be_a_resource_is_refused_by_name)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	scene_shell(
		"mkdir plain; git init -q --bare bare.git; git -C repo worktree add -q ../linked 2>/dev/null; cp -r repo "
		"other; git -C other config extensions.refStorage files");
	CHECK_STR(refusal("repo"), "");
	CHECK_CONTAINS(refusal("plain"), "is not a git repository");
	CHECK_CONTAINS(refusal("bare.git"), "is a bare repository");
	CHECK_CONTAINS(refusal("repo/d"), "lies in the repository");
	CHECK_CONTAINS(refusal("repo/.git"), "git directory");
	CHECK_CONTAINS(refusal("linked"), "name the main checkout");
	CHECK(refusal("other")[0]);
}

static const char *branch_or_refusal(const struct git_repo *repo)
{
	static struct atoll_error err;
	static char text[256];
	AUTO_FREE char *branch = NULL;
	struct git_id id;

	err = (struct atoll_error){ 0 };
	if (git_repo_check_calm(repo, "test", &err) < 0 || git_repo_branch(repo, "test", false, &branch, &id, &err) < 0)
		return err.message;
	snprintf(text, sizeof text, "%s", branch);
	return text;
}

TEST(states_that_a_commit_would_disturb_are_named)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	CHECK_STR(branch_or_refusal(&repo), "refs/heads/main");
	scene_shell("touch repo/.git/MERGE_HEAD");
	CHECK_CONTAINS(branch_or_refusal(&repo), "a merge is in progress");
	scene_shell("rm repo/.git/MERGE_HEAD; git -C repo checkout -q --detach");
	CHECK_CONTAINS(branch_or_refusal(&repo), "detached HEAD");
	scene_shell("git -C repo checkout -q --orphan new");
	CHECK_CONTAINS(branch_or_refusal(&repo), "no commit yet");
	scene_shell("git -C repo checkout -qf main; git -C repo worktree add -qf ../second main 2>/dev/null");
	CHECK_CONTAINS(branch_or_refusal(&repo), "checked out in its worktree \"second\"");
}

TEST(entries_are_listed_with_any_name)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	AUTO_GIT_ENTRIES all = { 0 }, from = { 0 }, to = { 0 }, open = { 0 };
	struct atoll_error err = { 0 };
	struct git_call call = { .repo = &repo, .operation = "test" };
	struct git_id first, second;
	bool staged;

	scene_repo(&repo);
	CHECK_EQ(git_id_parse(scene_print("git -C repo rev-parse HEAD"), &first), 1);
	scene_shell("cd repo; printf 'x' >\"$(printf 'a\\nb\\tc ')\"; git rm -q d/b; git add .; git commit -qm two");
	CHECK_EQ(git_id_parse(scene_print("git -C repo rev-parse HEAD"), &second), 1);
	CHECK_EQ(git_entries_of_index(&call, &all, &err), 0);
	CHECK_EQ(all.n, 2);
	CHECK(git_entries_find(&all, "a\nb\tc ") != NULL);
	CHECK_EQ(git_entries_between(&call, &first, &second, &from, &to, &err), 0);
	CHECK_EQ(from.n, 2);
	CHECK_EQ(from.v[0].mode, 0);
	CHECK_EQ(to.v[0].mode, 0100644);
	CHECK_STR(to.v[1].path, "d/b");
	CHECK_EQ(to.v[1].mode, 0);
	CHECK_EQ(git_entries_uncommitted(&call, &open, &staged, &err), 0);
	CHECK_EQ(open.n, 0);
	scene_shell("cd repo; echo more >>a; echo new >new; git add new");
	CHECK_EQ(git_entries_uncommitted(&call, &open, &staged, &err), 0);
	CHECK_EQ(open.n, 2);
	CHECK(staged);
	CHECK_STR(open.v[0].path, "a");
	CHECK_EQ(open.v[0].mode, 0100644);
	CHECK_EQ(open.v[1].mode, 0);
}
