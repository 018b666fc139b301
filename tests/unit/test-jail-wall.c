/* SPDX-License-Identifier: Apache-2.0 */
/* What a command may not do: src/jail/wall.c, wall-landlock.c, wall-seccomp.c. tests/e2e has the attempts to get out. */
#include <sys/syscall.h>

#include "jail-scene.h"

/* The errno of a system call made inside, with zeros as arguments. */
static const char *errno_of_call(struct scene *s, long number)
{
	char script[256];

	snprintf(script, sizeof(script),
		 "python3 -c 'import ctypes, errno\nl = ctypes.CDLL(None, use_errno=True)\nl.syscall(%ld, 0, 0, 0, 0)\n"
		 "print(errno.errorcode.get(ctypes.get_errno()))' >&9",
		 number);
	return scene_says(s, script);
}

JAIL_TEST(a_command_has_no_capability_over_the_host)
{
	struct scene s = scene_new("orig");
	char text[32] = "CapEff:\t0000000000000000\n", host[64] = "";

	/* Root has some, over its own user namespace. */
	if (geteuid() == 0)
		strcpy(text, "CapEff:\t00000000000005fb\n");
	CHECK_STR(scene_says(&s, "grep CapEff /proc/self/status >&9"), text);
	CHECK(readlink("/proc/self/ns/user", host, sizeof(host) - 1) > 0);
	CHECK(strncmp(scene_says(&s, "readlink /proc/self/ns/user >&9"), host, strlen(host)) != 0);
}

JAIL_TEST(nothing_can_be_gained_by_exec)
{
	struct scene s = scene_new("orig");

	CHECK_STR(scene_says(&s, "grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\n' ' ' >&9"),
		  geteuid() == 0 ? "CapBnd:\t00000000000005fb NoNewPrivs:\t1 Seccomp:\t2 "
				 : "CapBnd:\t0000000000000000 NoNewPrivs:\t1 Seccomp:\t2 ");
}

JAIL_TEST(root_handles_files_of_all_owners_and_can_become_somebody_else)
{
	struct scene s = scene_new("orig");

	if (geteuid() != 0)
		tap_skip("needs root");
	CHECK_EQ(
		scene_sh(
			&s,
			"echo x > a && chown 777:778 a && chmod 600 a && echo y >> a && su -s /bin/sh nobody -c 'test ! -r a'"),
		0);
	CHECK_STR(tap_read(s.upper, "a"), "x\ny\n");
}

JAIL_TEST(a_command_has_no_fd_but_the_standard_ones_and_what_it_was_given)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(dup2(tap_dirfd, 8), 8);
	CHECK_STR(scene_says(&s, "ls /proc/self/fd | grep -v -e 3 | xargs >&9"), "0 1 2 9\n");
}

JAIL_TEST(a_directory_as_input_is_refused)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(dup2(tap_dirfd, 0), 0);
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_INVALID);
}

JAIL_TEST(namespaces_of_the_host_are_left)
{
	static const char *const kinds[] = { "cgroup", "ipc", "mnt", "pid", "user", "uts" };
	struct scene s = scene_new("orig");
	char path[64], host[64], script[128];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		memset(host, 0, sizeof(host));
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		CHECK(readlink(path, host, sizeof(host) - 1) > 0);
		snprintf(script, sizeof(script), "readlink %s >&9", path);
		CHECK(strncmp(scene_says(&s, script), host, strlen(host)) != 0);
	}
}

JAIL_TEST(calls_are_refused_by_the_table)
{
	struct scene s = scene_new("orig");

	CHECK_STR(errno_of_call(&s, SYS_mount), "EPERM\n");
	CHECK_STR(errno_of_call(&s, SYS_bpf), "EPERM\n");
	CHECK_STR(errno_of_call(&s, SYS_io_uring_setup), "ENOSYS\n");
	CHECK_STR(errno_of_call(&s, SYS_clone3), "ENOSYS\n");
}

JAIL_TEST(calls_that_nobody_judged_do_not_exist)
{
	struct scene s = scene_new("orig");

	CHECK_STR(errno_of_call(&s, 470), "ENOSYS\n");
	CHECK_STR(errno_of_call(&s, 0x40000000L + SYS_getpid), "ENOSYS\n");
}

/* The mount that it came through is writable, so only Landlock is in the way. */
JAIL_TEST(a_file_of_the_host_that_came_as_input_cannot_be_written)
{
	struct scene s = scene_new("orig");
	int fd;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 3)
		tap_skip("no Landlock of Linux 6.2");
	tap_write(tap_dirfd, "input", "input\n");
	fd = openat(tap_dirfd, "input", O_RDONLY);
	CHECK_EQ(dup2(fd, 0), 0);
	CHECK_STR(
		scene_says(
			&s,
			"cat >&9; exec 2>&-; echo x >> /proc/self/fd/0 || echo no >&9; true > /dev/stdin || echo no >&9"),
		"input\nno\nno\n");
	CHECK_STR(tap_read(tap_dirfd, "input"), "input\n");
}

JAIL_TEST(files_can_be_moved_and_linked_between_directories)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(
		scene_sh(
			&s,
			"mkdir a b && touch a/f && mv a/f b/g && ln b/g a/h && mv a/h /tmp/i && mv /tmp/i a && : > b/g"),
		0);
}
