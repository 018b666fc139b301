/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a ref of a git directory, by whoever holds its lock. */
#include "git/git.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/sys.h"

int git_refs_stage(int dir_fd, const struct git_id *id, const char *tmp, int *ret_fd)
{
	AUTO_FD fd = -EBADF;
	int r = sys_unlink(dir_fd, tmp, 0);

	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL, 0666);
	if (fd < 0)
		return fd;
	r = sys_write(fd, id->hex, strlen(id->hex));
	if (r >= 0)
		r = sys_write(fd, "\n", 1);
	if (r >= 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

/* Where there was a packed ref alone, an empty directory of that name may be left from others. */
static int put(int dir_fd, const char *tmp, int parent, const char *name)
{
	int r = sys_rename(dir_fd, tmp, parent, name, 0);

	if (r == -EISDIR && sys_unlink(parent, name, AT_REMOVEDIR) >= 0)
		r = sys_rename(dir_fd, tmp, parent, name, 0);
	return r;
}

int git_refs_put(int dir_fd, const char *name, const char *tmp, int *ret_parent)
{
	const char *slash = strrchr(name, '/');
	AUTO_FREE char *above = slash ? strndup(name, (size_t)(slash - name)) : NULL;
	AUTO_FD parent = -EBADF;
	int r;

	if (!git_refs_is_name(name))
		return -EINVAL;
	if (!above)
		return -ENOMEM;
	parent = fd_make_path(dir_fd, above);
	r = parent < 0 ? parent : put(dir_fd, tmp, parent, slash + 1);
	if (r >= 0)
		*ret_parent = TAKE_FD(parent);
	return r;
}

int git_refs_write(int dir_fd, const char *name, const struct git_id *id, const char *tmp)
{
	AUTO_FD fd = -EBADF, parent = -EBADF;
	int r = git_refs_is_name(name) ? git_refs_stage(dir_fd, id, tmp, &fd) : -EINVAL;

	if (r >= 0)
		r = sys_fsync(fd);
	if (r >= 0)
		r = git_refs_put(dir_fd, name, tmp, &parent);
	return r < 0 ? r : sys_fsync(parent);
}

/* The lines of a log end in one line each: whatever is in a message. */
static void add_line(struct strbuf *s, const char *text)
{
	for (; *text && *text != '\n'; text++)
		strbuf_addc(s, (unsigned char)*text < ' ' ? ' ' : *text);
}

int git_refs_log(int dir_fd, const char *name, const struct git_id *from, const struct git_id *to, const char *who,
		 const char *message)
{
	AUTO_FREE char *path = str_format("logs/%s", name);
	AUTO_STRBUF line = STRBUF_INIT;
	time_t now = time(NULL);
	struct tm tm;
	AUTO_FD fd = path ? fd_open_beneath(dir_fd, path, O_WRONLY | O_APPEND) : -ENOMEM;

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	localtime_r(&now, &tm);
	strbuf_addf(&line, "%s %s ", from->hex, to->hex);
	add_line(&line, who);
	strbuf_addf(&line, " %lld %c%02ld%02ld\t", (long long)now, tm.tm_gmtoff < 0 ? '-' : '+',
		    labs(tm.tm_gmtoff) / 3600, labs(tm.tm_gmtoff) / 60 % 60);
	add_line(&line, message);
	strbuf_addc(&line, '\n');
	if (line.failed)
		return -ENOMEM;
	return sys_write(fd, line.data, line.size);
}
