/* SPDX-License-Identifier: Apache-2.0 */
/* Directories whose entries only root and this user can rename or remove. */
#include <sys/xattr.h>

#include "tree-scene.h"

static int guarded(const char *path)
{
	AUTO_FD fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	CHECK_OK(fd);
	return tree_is_guarded(fd);
}

static int with_mode(mode_t mode)
{
	CHECK_OK(chmod("dir", mode));
	return guarded("dir");
}

TEST(modes_say_who_else_can_change_a_directory)
{
	CHECK_OK(mkdir("dir", 0700));
	CHECK_EQ(with_mode(0700), 1);
	CHECK_EQ(with_mode(0755), 1);
	CHECK_EQ(with_mode(0757), 0);
	CHECK_EQ(with_mode(0777), 0);
	CHECK_EQ(with_mode(01777), 1);
	CHECK_EQ(with_mode(01757), 1);
}

TEST(roots_directories_are_trusted_by_every_user)
{
	CHECK_EQ(guarded("/"), 1);
	CHECK_EQ(guarded("/etc"), 1);
}

TEST(another_users_directory_is_not_trusted)
{
	if (geteuid() != 0)
		tap_skip("only root can make a directory of another user");
	CHECK_OK(mkdir("dir", 0700));
	CHECK_OK(chown("dir", 64999, 0));
	CHECK_EQ(with_mode(0700), 0);
	CHECK_EQ(with_mode(01777), 0);
}

TEST(an_acl_hides_who_may_write)
{
	/* The group bits of such a directory are the mask of its list. */
	static const struct {
		uint32_t version;
		struct {
			uint16_t tag, perm;
			uint32_t id;
		} entries[5];
	} list = { 2,
		   { { 0x01, 7, UINT32_MAX }, /* user::rwx */
		     { 0x02, 7, 64999 },
		     { 0x04, 5, UINT32_MAX }, /* group::r-x */
		     { 0x10, 7, UINT32_MAX }, /* mask::rwx */
		     { 0x20, 5, UINT32_MAX } } };

	CHECK_OK(mkdir("dir", 0700));
	if (setxattr("dir", "system.posix_acl_access", &list, sizeof list, 0) < 0)
		tap_skip("no ACLs on this filesystem");
	CHECK_EQ(guarded("dir"), 0);
}

TEST(what_is_no_open_file_is_an_error)
{
	CHECK_EQ(tree_is_guarded(-EBADF), -EBADF);
}
