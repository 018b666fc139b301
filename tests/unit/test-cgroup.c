/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a control group that is ours to divide. What the kernel of this machine does not offer is read from directories that look alike. */
#include "tap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strbuf.h"
#include "jail/private.h"

TEST(the_own_group_is_that_of_the_second_version)
{
	static const struct {
		const char *text, *path;
	} cases[] = { { "0::/\n", "/" },
		      { "12:pids:/a\n0::/user.slice/x y\n", "/user.slice/x y" },
		      { "12:pids:/a\n", NULL },
		      { "", NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *path = cgroup_parse_own(cases[i].text);

		CHECK_STR(path, cases[i].path);
	}
}

TEST(the_mount_is_that_of_the_second_version)
{
	AUTO_FREE char *root = NULL;
	AUTO_FREE char *other = NULL;
	AUTO_FREE char *point =
		cgroup_parse_mount("25 24 0:22 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
				   "26 24 0:23 /part /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
				   &root);
	AUTO_FREE char *none = cgroup_parse_mount("25 24 0:22 / /x rw - tmpfs cgroup2 rw\n", &other);

	CHECK_STR(point, "/sys/fs/cgroup");
	CHECK_STR(root, "/part");
	CHECK_STR(none, NULL);
}

static void put(const char *dir, const char *name, const char *text)
{
	AUTO_FREE char *path = str_format("%s/%s", dir, name);
	FILE *file = fopen(path, "w");

	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(controllers_are_used_where_they_are_given_or_can_be)
{
	char dir[] = "/tmp/test-cgroup-XXXXXX", path[64];
	const char *both[] = { "memory", "pids", NULL }, *cpu[] = { "cpu", NULL };

	CHECK(mkdtemp(dir) != NULL);
	CHECK(!cgroup_offers(dir, both));
	put(dir, "cgroup.controllers", "cpuset memory pids\n");
	put(dir, "cgroup.subtree_control", "memory pids\n");
	CHECK(cgroup_offers(dir, both));
	/* Neither a part of a name nor what is not there. */
	CHECK(!cgroup_offers(dir, cpu));
	put(dir, "cgroup.subtree_control", "memory\n");
	CHECK(cgroup_offers(dir, both)); /* asked for */
	put(dir, "memory.events", "low 0\noom 3\noom_kill 2\n");
	CHECK_EQ(cgroup_event(dir, "memory.events", "oom_kill"), 2);
	CHECK_EQ(cgroup_event(dir, "memory.events", "oom_group_kill"), 0);
	CHECK_EQ(cgroup_event(dir, "pids.events", "max"), 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "cgroup.controllers", "cgroup.subtree_control", "memory.events" };

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	CHECK_EQ(rmdir(dir), 0);
}

TEST(a_group_with_processes_of_its_own_is_not_divided_unless_it_is_the_root)
{
	static const char *const names[] = { "cgroup.procs", "cgroup.type" };
	char dir[] = "/tmp/test-cgroup-XXXXXX", path[64];

	CHECK(mkdtemp(dir) != NULL);
	CHECK(!cgroup_is_divisible(dir));
	put(dir, "cgroup.procs", "12\n34\n");
	CHECK(cgroup_is_divisible(dir)); /* no type: the root */
	put(dir, "cgroup.type", "domain\n");
	CHECK(!cgroup_is_divisible(dir));
	put(dir, "cgroup.procs", "");
	CHECK(cgroup_is_divisible(dir));
	put(dir, "cgroup.type", "domain invalid\n");
	CHECK(!cgroup_is_divisible(dir));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	CHECK_EQ(rmdir(dir), 0);
}

TEST(a_real_group_is_made_entered_left_and_removed)
{
	const char *none[] = { NULL };
	AUTO_FREE char *group = cgroup_make(none);
	struct stat st;
	pid_t pid;
	char line[64];

	if (!group)
		tap_skip("no part of the control groups (v2) is ours here");
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	CHECK_EQ(limit_enter(&(struct jail_limits){ .cgroup = group }, pid), 0);
	snprintf(line, sizeof(line), "/proc/%d/cgroup", (int)pid);
	{
		FILE *file = fopen(line, "r");
		bool found = false;

		while (file && fgets(line, sizeof(line), file))
			found |= strncmp(line, "0::", 3) == 0 && strstr(line, "/atoll-");
		CHECK(found);
		if (file)
			fclose(file);
	}
	kill(pid, SIGKILL);
	cgroup_remove(group);
	CHECK(stat(group, &st) < 0 && errno == ENOENT);
}
