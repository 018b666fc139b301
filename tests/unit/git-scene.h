/* SPDX-License-Identifier: Apache-2.0 */
/* A repository of its own for each test, made by the real git, and a shell to do things to it. */
#ifndef TESTS_UNIT_GIT_SCENE_H
#define TESTS_UNIT_GIT_SCENE_H

#include "tap.h"

#include "base/child.h"
#include "git/git.h"

/* In the test's directory, with nobody's configuration but the one given here. */
TAP_UNUSED static void scene_shell(const char *script)
{
	char *const argv[] = { (char *)"sh", (char *)"-ec", (char *)script, NULL };
	struct child_result r = { 0 };

	CHECK_EQ(child_run(argv, 50000, &r), 0);
	if (r.exit_status != 0)
		tap_fail(__FILE__, __LINE__, "%s: %s", script, r.output);
}

TAP_UNUSED static void scene_environment(void)
{
	CHECK_EQ(setenv("HOME", tap_dir, 1), 0);
	CHECK_EQ(setenv("GIT_CONFIG_NOSYSTEM", "1", 1), 0);
	tap_write(tap_dirfd, ".gitconfig",
		  "[user]\n\tname = Somebody\n\temail = s@example.org\n[init]\n\tdefaultBranch = main\n");
}

/* "repo", with the files a and d/b, one commit on main. */
TAP_UNUSED static void scene_repo(struct git_repo *ret)
{
	AUTO_FREE char *path = str_format("%s/repo", tap_dir);
	struct atoll_error err = { 0 };

	scene_environment();
	scene_shell("git init -q repo; cd repo; mkdir d; echo a >a; echo b >d/b; git add .; git commit -qm first");
	CHECK_EQ(git_repo_open(path, ret, &err), 0);
}

/* What a command prints, without its last line end. */
TAP_UNUSED static const char *scene_print(const char *command)
{
	const char *text;
	AUTO_FREE char *script = str_format("%s >%s/.printed", command, tap_dir);

	scene_shell(script);
	text = tap_read(tap_dirfd, ".printed");
	((char *)text)[strcspn(text, "\n")] = 0;
	return text;
}

#endif
