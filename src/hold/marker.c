/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "hold/hold.h"
#include "hold/message.h"

/* The op's directory lies in the area; its name is of letters, digits and a hyphen. */
static int open_op(int area_fd, const char *token)
{
	return *token && !strchr(token, '/') && *token != '.' ? fd_open_beneath(area_fd, token, O_RDONLY | O_DIRECTORY)
							      : -EINVAL;
}

int marker_write(int area_fd, const char *token, const struct pg_marker *m, struct atoll_error *err)
{
	AUTO_FD dir = open_op(area_fd, token);
	AUTO_FD fd = dir < 0 ? dir : sys_open(dir, HOLD_MARKER, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? fd : sys_write(fd, m, sizeof *m);

	if (r >= 0)
		r = sys_fsync(fd);
	if (r >= 0)
		r = sys_fsync(dir);
	return r < 0 ? error_sys(err, r, "commit", token, "cannot keep the marker of the transaction") : 0;
}

bool marker_was_removed(int area_fd, const char *token)
{
	AUTO_FD dir = open_op(area_fd, token);

	return dir >= 0 && faccessat(dir, HOLD_MARKER, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int marker_remove(int area_fd, const char *token, struct atoll_error *err)
{
	AUTO_FD dir = open_op(area_fd, token);
	int r = dir < 0 ? dir : sys_unlink(dir, HOLD_MARKER, 0);

	return r < 0 ? error_sys(err, r, "commit", token, "cannot remove the marker of the transaction") : 0;
}

int marker_read(int area_fd, const char *token, struct pg_marker *ret, struct atoll_error *err)
{
	AUTO_FD dir = open_op(area_fd, token);
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	int r = dir < 0 ? dir : fd_read_file(dir, HOLD_MARKER, sizeof *ret, &data, &size);

	if (r < 0 || size != sizeof *ret)
		return error_sys(err, r < 0 ? r : -EIO, "recover", token, "cannot read the marker of the transaction");
	memcpy(ret, data, sizeof *ret);
	return 0;
}
