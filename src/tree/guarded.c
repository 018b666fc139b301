/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories whose entries only root and this user can rename or remove.
 *
 * A user namespace that maps few ids shows all unmapped owners as the same user. There the process
 * outside (outside.c) looks at the directory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/accounts.h"
#include "base/fd.h"
#include "tree/private.h"

/* Whether /etc/passwd gives the group to another user as primary group. */
static bool is_first_group_of_others(const char *passwd, gid_t gid)
{
	for (const char *line = passwd; line; line = accounts_next(line))
		if (accounts_field_is_id(line, PASSWD_GID, gid) && !accounts_field_is_id(line, PASSWD_UID, geteuid()))
			return true;
	return false;
}

/* Returns true if the file does not list the group: its members are then unknown. */
static bool has_other_members(const char *groups, gid_t gid, const char *name)
{
	for (const char *line = groups; line; line = accounts_next(line))
		if (accounts_field_is_id(line, GROUP_GID, gid))
			return !accounts_field_is(line, GROUP_MEMBERS, "") &&
			       !accounts_field_is(line, GROUP_MEMBERS, name);
	return true;
}

/* Many systems give each user a private group and a umask that lets this group write to all files
 * of the user. */
static bool is_private_group(gid_t gid)
{
	AUTO_FREE char *passwd = NULL;
	AUTO_FREE char *groups = NULL;
	AUTO_FREE char *name = NULL;

	if (fd_read_file(AT_FDCWD, "/etc/passwd", ACCOUNTS_MAX, &passwd, NULL) < 0 ||
	    fd_read_file(AT_FDCWD, "/etc/group", ACCOUNTS_MAX, &groups, NULL) < 0)
		return false;
	name = accounts_of_user(passwd, geteuid(), 0);
	return name && !is_first_group_of_others(passwd, gid) && !has_other_members(groups, gid, name);
}

/* Whether this user namespace maps all ids. Then the overflow uid as owner is a real user, not an
 * unmapped one. */
static bool knows_all_owners(void)
{
	AUTO_FREE char *map = NULL;
	unsigned first, outside, count;

	return fd_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &map, NULL) < 0 ||
	       (sscanf(map, "%u %u %u", &first, &outside, &count) == 3 && count == UINT32_MAX);
}

static uid_t unknown_owner(void)
{
	AUTO_FREE char *text = NULL;
	unsigned id = 65534;

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/overflowuid", 64, &text, NULL) >= 0)
		(void)sscanf(text, "%u", &id);
	return id;
}

static bool is_trusted(uid_t owner)
{
	return owner == 0 || owner == geteuid() || (owner == unknown_owner() && !knows_all_owners());
}

/* With an access control list the group bits do not say who may write: they are the mask of the
 * list. */
static bool has_list(int fd)
{
	char path[48];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

int tree_look_whether_guarded(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!is_trusted(st.st_uid))
		return 0;
	if (!(st.st_mode & 022) || (st.st_mode & S_ISVTX))
		return 1;
	return !(st.st_mode & 002) && !has_list(fd) && is_private_group(st.st_gid);
}

int tree_is_guarded(int fd)
{
	struct stat st;

	if (!tree_outside_is_there())
		return tree_look_whether_guarded(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 1;
	return tree_outside_copy(fd, fd, TREE_OUTSIDE_GUARDED);
}
