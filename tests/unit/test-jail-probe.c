/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do: src/jail/probe.c. */
#include <dirent.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "jail-scene.h"

static void *ask(void *arg)
{
	(void)arg;
	CHECK_EQ(jail_probe_overlay(), 0);
	return NULL;
}

JAIL_TEST(the_overlay_is_probed_once_however_many_threads_ask)
{
	pthread_t t[8];
	unsigned before;

	jail_probe_again();
	before = jail_probe_count();
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, ask, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(jail_probe_count() - before, 1);
	jail_probe_again();
	CHECK_EQ(jail_probe_overlay(), 0);
	CHECK_EQ(jail_probe_count() - before, 2);
}

JAIL_TEST(probing_leaves_nothing_behind)
{
	static char before[65536];

	jail_probe_again();
	snprintf(before, sizeof(before), "%s", tap_read(AT_FDCWD, "/proc/self/mountinfo"));
	CHECK_EQ(jail_probe_userns(), 0);
	CHECK_EQ(jail_probe_overlay(), 0);
	CHECK(!strstr(tap_read(AT_FDCWD, "/proc/self/mountinfo"), tap_dir));
	CHECK_EQ(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

static int count_entries(int dir)
{
	int n = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buffer[4096];
	ssize_t size;

	while ((size = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < size; n++) {
			unsigned short length;

			memcpy(&length, buffer + at + 16, sizeof(length));
			at += length;
		}
	}
	close(fd);
	return n - 2;
}

JAIL_TEST(given_directories_are_probed_and_can_be_used_afterwards)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(jail_probe_overlay_at(s.lower, s.upper, s.work), 0);
	CHECK_EQ(jail_probe_overlay_at(s.lower, s.upper, s.work), 0);
	CHECK_EQ(count_entries(s.upper), 0);
	CHECK_EQ(scene_sh(&s, "echo x > f"), 0);
}

JAIL_TEST(directories_that_cannot_be_layers_are_told)
{
	struct scene s = scene_new("orig");
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(jail_probe_overlay_at(s.lower, s.upper, s.upper) < 0);
	CHECK(jail_probe_overlay_at(s.lower, proc, s.work) < 0);
}

/* As tmpfs has none of users before Linux 6.6. */
static void probe_without_xattrs(void (*become)(void))
{
	struct scene s;
	int upper, work;

	scene_as_root();
	CHECK_OK(unshare(CLONE_NEWNS));
	CHECK_OK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	CHECK_OK(mkdir("plain", 0777));
	CHECK_OK(mount("none", "plain", "ramfs", 0, "mode=0777"));
	become();
	s = scene_new("orig");
	CHECK_OK(mkdir("plain/upper", 0755));
	CHECK_OK(mkdir("plain/work", 0755));
	upper = open("plain/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	work = open("plain/work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(jail_probe_overlay_at(s.lower, upper, work), -EOPNOTSUPP);
}

TEST(an_upper_layer_that_cannot_carry_marks_is_told_as_root)
{
	probe_without_xattrs(scene_as_root);
}

TEST(an_upper_layer_that_cannot_carry_marks_is_told_as_user)
{
	probe_without_xattrs(scene_as_user);
}

JAIL_TEST(what_a_volatile_mount_leaves_does_not_hinder_the_next)
{
	struct scene s = scene_new("orig");
	char *argv[] = { (char *)"true", NULL };

	CHECK_EQ(scene_run(&s, argv), 0);
	CHECK_EQ(jail_probe_overlay_at(s.lower, s.upper, s.work), 0);
	CHECK_EQ(scene_run(&s, argv), 0);
	CHECK_EQ(scene_run(&s, argv), 0);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Becomes root of a user namespace of its own. */
static void be_root_inside(unsigned more)
{
	char map[32];

	CHECK_EQ(unshare(CLONE_NEWUSER | (int)more), 0);
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)SCENE_UID);
	write_text("/proc/self/setgroups", "deny");
	write_text("/proc/self/uid_map", map);
	write_text("/proc/self/gid_map", map);
}

/* In a namespace of our own the limit can be set to none without touching the machine's. */
static void forbid_user_namespaces(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	int fd;

	be_root_inside(0);
	fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		tap_skip("the limit of user namespaces cannot be set");
	close(fd);
	CHECK_EQ(syscall(SYS_capset, &header, none), 0);
}

TEST(user_namespaces_that_are_forbidden_are_an_error_that_says_so)
{
	struct scene s;

	if (geteuid() != 0)
		tap_skip("needs root to become an ordinary user");
	scene_as_user();
	forbid_user_namespaces();
	jail_probe_again();
	CHECK_EQ(jail_probe_userns(), -ENOSPC);
	CHECK_EQ(jail_probe_overlay(), -ENOSPC);
	s = scene_new("orig");
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_UNSUPPORTED);
	CHECK_CONTAINS(s.err.message, "user namespaces");
	CHECK_CONTAINS(s.err.message, "atoll doctor");
}

JAIL_TEST(a_gate_to_allowed_hosts_can_be_built_and_nothing_of_it_stays)
{
	CHECK_EQ(jail_probe_net(), 0);
	CHECK_EQ(jail_probe_net(), 0);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

TEST(network_namespaces_that_are_forbidden_are_told_apart)
{
	int fd;

	if (geteuid() != 0)
		tap_skip("needs root to become an ordinary user");
	scene_as_user();
	be_root_inside(CLONE_NEWNS);
	fd = open("/proc/sys/user/max_net_namespaces", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		tap_skip("the limit of network namespaces cannot be set");
	close(fd);
	CHECK_EQ(jail_probe_net(), -ENOSPC);
}

static int answer(void *arg, int out)
{
	(void)arg;
	(void)out;
	return 5;
}

TEST(work_is_done_without_a_namespace_where_there_is_none)
{
	struct atoll_error err;

	if (geteuid() != 0)
		tap_skip("needs root to become an ordinary user");
	scene_as_user();
	forbid_user_namespaces();
	CHECK_EQ(jail_call(answer, NULL, NULL, &err), 5);
}

/* Its overlays cannot use trusted attributes. */
TEST(root_of_another_user_namespace_can_run_commands)
{
	struct scene s;

	if (geteuid() != 0)
		tap_skip("needs root to become an ordinary user");
	scene_as_user();
	be_root_inside(CLONE_NEWNS);
	CHECK(jail_is_root());
	s = scene_new("orig");
	CHECK_EQ(mkdirat(s.lower, "d", 0755), 0);
	CHECK_STR(scene_says(&s, "rmdir d; mkdir d; grep \"$PWD \" /proc/self/mountinfo | grep -o userxattr >&9"),
		  "userxattr\n");
}
