/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a copy of a state directory is whole. Workspaces in the state directory need their times,
 * hard links and extended attributes: overlayfs notes in an attribute that a directory hides its
 * original, and the copying strategies compare times and attributes with those of the original. A
 * copy without them (tar, rsync -a, cp -r) lacks some edits, and shows edits that no command made.
 * So the state directory holds the file "whole" with a fixed time, a second name and an attribute.
 * If the file lacks one of the three in a copy, the copy was made without it.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <sys/xattr.h>

#include "base/sys.h"

#define MARK "whole"
#define MARK_LINK "whole.link"
#define MARK_NEW "whole.new"
#define MARK_TIME 1000000000

/* Like overlays, the mark uses trusted.* where the process may set it. Tools copy user.* more
 * readily: a mark there would not show that the overlays' trusted.* attributes are missing. */
static const char *const names[] = { "trusted.atoll.whole", "user.atoll.whole" };

static int set_attribute(int fd)
{
	int r = -EPERM;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r < 0; i++)
		r = sys_setxattr(fd, names[i], "1", 1);
	return r;
}

static int make(int state_fd)
{
	const struct timespec times[2] = { { .tv_sec = MARK_TIME }, { .tv_sec = MARK_TIME } };
	AUTO_FD fd = sys_open(state_fd, MARK_NEW, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
	int r = fd < 0 ? fd : set_attribute(fd);

	if (r >= 0)
		r = sys_unlink(state_fd, MARK_LINK, 0);
	if (r >= 0 || r == -ENOENT)
		r = sys_link(state_fd, MARK_NEW, state_fd, MARK_LINK);
	if (r >= 0)
		r = sys_utimens(fd, "", times);
	return r < 0 ? r : sys_rename(state_fd, MARK_NEW, state_fd, MARK, 0);
}

int whole_mark(int state_fd)
{
	int r = make(state_fd);

	if (r >= 0)
		return 0;
	(void)sys_unlink(state_fd, MARK_NEW, 0);
	/* A filesystem that cannot hold the mark cannot hold a workspace either. */
	return r == -EOPNOTSUPP || r == -EPERM || r == -EMLINK ? 0 : r;
}

bool whole_is_marked(int state_fd)
{
	return faccessat(state_fd, MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool whole_is(int state_fd)
{
	AUTO_FD fd = openat(state_fd, MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool has_attribute = false;
	struct stat st;

	/* A state directory of an older version of Atoll has no mark. */
	if (fd < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		has_attribute |= fgetxattr(fd, names[i], NULL, 0) > 0;
	return has_attribute && fstat(fd, &st) == 0 && st.st_mtim.tv_sec == MARK_TIME && st.st_nlink > 1;
}
