/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

static bool has_variable(const char *wanted)
{
	char *const *env = git_environment();
	bool found = false;

	for (size_t i = 0; env[i]; i++)
		found |= strncmp(env[i], wanted, strlen(wanted)) == 0;
	return found;
}

TEST(variables_that_would_lead_git_elsewhere_are_left_out)
{
	CHECK_EQ(setenv("GIT_DIR", "/nowhere", 1), 0);
	CHECK_EQ(setenv("GIT_CONFIG_COUNT", "1", 1), 0);
	CHECK_EQ(setenv("GIT_TRACE", "/tmp/x", 1), 0);
	CHECK_EQ(setenv("GIT_AUTHOR_NAME", "Me", 1), 0);
	CHECK_EQ(setenv("LC_ALL", "xx", 1), 0);
	CHECK_EQ(setenv("OTHER", "kept", 1), 0);
	CHECK(!has_variable("GIT_DIR="));
	CHECK(!has_variable("GIT_CONFIG_COUNT="));
	CHECK(!has_variable("GIT_TRACE="));
	CHECK(!has_variable("LC_ALL=xx"));
	CHECK(has_variable("LC_ALL=C"));
	CHECK(has_variable("GIT_AUTHOR_NAME=Me"));
	CHECK(has_variable("OTHER=kept"));
	CHECK(has_variable("GIT_TERMINAL_PROMPT=0"));
	/* Built once: what comes later changes nothing for anybody. */
	CHECK_EQ(setenv("LATER", "1", 1), 0);
	CHECK(!has_variable("LATER="));
}

TEST(output_input_and_exit_status_are_passed_on)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	AUTO_STRBUF out = STRBUF_INIT;
	struct atoll_error err = { 0 };
	struct git_call call = { .repo = &repo, .operation = "test", .output = &out, .input = "x\n", .input_size = 2 };

	scene_repo(&repo);
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "hash-object", "--stdin", NULL }), 0);
	CHECK_STR(strbuf_str(&out), "587be6b4c3f93f93c489c0111bba5596147a26cb\n");
	call.also = 1;
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "diff", "--quiet", "HEAD", NULL }), 0);
	scene_shell("echo more >>repo/a");
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "diff", "--quiet", "HEAD", NULL }), 1);
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "cat-file", "-t", "nothing", NULL }), -ATOLL_FAILED);
	CHECK_CONTAINS(err.message, "git cat-file failed");
	CHECK_CONTAINS(err.message, "Not a valid object name nothing");
}

TEST(no_hook_runs_for_what_atoll_does)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	struct atoll_error err = { 0 };
	struct git_call call = { .repo = &repo, .operation = "test" };

	scene_repo(&repo);
	scene_shell("printf '#!/bin/sh\\ntouch %s/ran\\n' \"$PWD\" >repo/.git/hooks/reference-transaction; "
		    "chmod +x repo/.git/hooks/reference-transaction; git -C repo branch proof; rm ran");
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "update-ref", "refs/atoll/x", "HEAD", NULL }), 0);
	CHECK(faccessat(tap_dirfd, "ran", F_OK, 0) < 0);
}

TEST(a_quarantine_keeps_new_objects_out_of_the_original)
{
	CLEANUP(git_repo_release) struct git_repo repo = { .dir_fd = -EBADF };
	AUTO_FREE char *quarantine = NULL;
	struct atoll_error err = { 0 };
	struct git_call call = { .repo = &repo, .operation = "test", .input = "new\n", .input_size = 4 };

	scene_repo(&repo);
	scene_shell("mkdir 'odd:\"place'; mv repo 'odd:\"place/repo'; mkdir q");
	free(repo.top);
	free(repo.dir);
	repo.top = str_format("%s/odd:\"place/repo", tap_dir);
	repo.dir = str_format("%s/.git", repo.top);
	call.quarantine = quarantine = str_format("%s/q", tap_dir);
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "hash-object", "-w", "--stdin", NULL }), 0);
	CHECK_EQ(git_call(&call, &err,
			  (const char *const[]){ "cat-file", "-e", "3e757656cf36eca53338e520d134963a44f793f8", NULL }),
		 0);
	CHECK_EQ(git_call(&call, &err, (const char *const[]){ "cat-file", "-e", "HEAD", NULL }), 0);
	CHECK_EQ(faccessat(tap_dirfd, "q/3e/757656cf36eca53338e520d134963a44f793f8", F_OK, 0), 0);
	CHECK(faccessat(repo.dir_fd, "objects/3e/757656cf36eca53338e520d134963a44f793f8", F_OK, 0) < 0);
}
