/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of src/jail share: being root or an ordinary user, a resource with its layers, and running a script over it.
 *
 *	JAIL_TEST(writes_land_in_the_upper_layer)
 *	{
 *		struct scene s = scene_new("orig");
 *
 *		CHECK_EQ(scene_sh(&s, "echo new > f"), 0);
 *	}
 *
 * makes two tests of it, one as root and one as an ordinary user. A script says what it sees by writing to fd 9.
 */
#ifndef TESTS_UNIT_JAIL_SCENE_H
#define TESTS_UNIT_JAIL_SCENE_H

#include <grp.h>
#include <linux/close_range.h>
#include <sys/prctl.h>

#include "base/macros.h"
#include "jail/jail.h"
#include "tap.h"

#define SCENE_UID 12345
#define SCENE_SAYS 9

/* Root becomes somebody without any rights; anybody else stays what they are. */
TAP_UNUSED static void scene_as_user(void)
{
	if (geteuid() != 0)
		return;
	CHECK_EQ(chown(tap_dir, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setgroups(0, NULL), 0);
	CHECK_EQ(setresgid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setresuid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	/* A change of uid takes away what a freshly started program has. */
	CHECK_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	if (jail_probe_userns() < 0)
		tap_skip("user namespaces are not permitted here");
}

TAP_UNUSED static void scene_as_root(void)
{
	if (!jail_is_root())
		tap_skip("needs root");
}

/* For tests of what lies beside the resource, which a private tmpfs would cover. */
TAP_UNUSED static void scene_not_in_tmp(void)
{
	if (strncmp(tap_dir, "/tmp/", 5) == 0 || strncmp(tap_dir, "/dev/shm/", 9) == 0)
		tap_skip("the test's own directory lies in a place that is private inside");
}

#define JAIL_TEST(test_name)                \
	static void both_##test_name(void); \
	TEST(test_name##_as_root)           \
	{                                   \
		scene_as_root();            \
		both_##test_name();         \
	}                                   \
	TEST(test_name##_as_user)           \
	{                                   \
		scene_as_user();            \
		both_##test_name();         \
	}                                   \
	static void both_##test_name(void)

struct scene {
	char path[5000]; /* of the resource */
	int lower, upper, work;
	struct jail_mount mounts[8]; /* the first is the resource */
	size_t n_mounts;
	struct jail_spec spec;
	struct atoll_run_result result;
	struct atoll_error err;
};

TAP_UNUSED static int scene_dir(const char *name)
{
	int fd;

	CHECK_EQ(mkdirat(tap_dirfd, name, 0755), 0);
	fd = openat(tap_dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* A resource of this name in the test's directory, with one file "f" that says "original". */
TAP_UNUSED static struct scene scene_new(const char *name)
{
	static const int passed[] = { SCENE_SAYS };
	struct scene s = { .n_mounts = 1 };

	/* Whatever the tests themselves were started with is not the commands'. */
	CHECK_EQ(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC), 0);
	CHECK_EQ(setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1), 0);
	CHECK_EQ(dup2(tap_dirfd, SCENE_SAYS), SCENE_SAYS); /* so that no other fd gets this number */
	CHECK(snprintf(s.path, sizeof(s.path), "%s/%s", tap_dir, name) < (int)sizeof(s.path));
	s.lower = scene_dir(name);
	s.upper = scene_dir("upper");
	s.work = scene_dir("work");
	tap_write(s.lower, "f", "original\n");
	s.mounts[0] =
		(struct jail_mount){ .kind = JAIL_MOUNT_OVERLAY, .n_lower = 1, .upper_fd = s.upper, .work_fd = s.work };
	s.mounts[0].lower_fds[0] = s.lower;
	s.spec.hold_fd = -EBADF;
	s.spec.pass_fds = passed;
	s.spec.n_pass_fds = 1;
	return s;
}

TAP_UNUSED static struct jail_mount *scene_mount(struct scene *s, enum jail_mount_kind kind, const char *path)
{
	s->mounts[s->n_mounts] =
		(struct jail_mount){ .kind = kind, .path = path, .upper_fd = -EBADF, .work_fd = -EBADF };
	return &s->mounts[s->n_mounts++];
}

/* Runs it and returns jail_run()'s answer. */
TAP_UNUSED static int scene_try(struct scene *s, char *const *argv)
{
	s->mounts[0].path = s->path;
	s->spec.mounts = s->mounts;
	s->spec.n_mounts = s->n_mounts;
	s->spec.argv = argv;
	if (!s->spec.cwd)
		s->spec.cwd = s->path;
	return jail_run(&s->spec, &s->result, &s->err);
}

/* Runs it, which must work, and returns the command's exit status. */
TAP_UNUSED static int scene_run(struct scene *s, char *const *argv)
{
	if (scene_try(s, argv) < 0)
		tap_fail(__FILE__, __LINE__, "%s", s->err.message);
	return s->result.exit_status;
}

TAP_UNUSED static int scene_sh(struct scene *s, const char *script)
{
	return scene_run(s, (char *[]){ (char *)"sh", (char *)"-c", (char *)script, NULL });
}

TAP_UNUSED static void scene_open_says(void)
{
	int fd = openat(tap_dirfd, "says", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(dup2(fd, SCENE_SAYS), SCENE_SAYS);
	close(fd);
}

/* What the script writes to fd 9. */
TAP_UNUSED static const char *scene_says(struct scene *s, const char *script)
{
	scene_open_says();
	(void)scene_sh(s, script);
	return tap_read(tap_dirfd, "says");
}

#endif
