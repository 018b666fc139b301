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

/* ---- removing one ---- */

static bool names(const char *line, const char *name)
{
	struct git_id id;
	const char *at;

	if (!git_id_parse(line, &id))
		return false;
	at = line + strlen(id.hex);
	return *at == ' ' && strncmp(at + 1, name, strlen(name)) == 0 && at[1 + strlen(name)] == '\n';
}

/* Copies packed-refs but for the lines of the ref: its value and, with a "^", what a tag leads to. */
static bool leave_out(const char *text, const char *name, struct strbuf *ret)
{
	bool found = false, skips = false;

	for (const char *line = text; *line;) {
		size_t size = strcspn(line, "\n");

		size += line[size] == '\n';
		skips = names(line, name) || (skips && *line == '^');
		found |= skips;
		if (!skips)
			strbuf_add(ret, line, size);
		line += size;
	}
	return found;
}

static int remove_packed(int dir_fd, const char *name, const char *tmp)
{
	AUTO_FREE char *text = NULL;
	AUTO_STRBUF rest = STRBUF_INIT;
	AUTO_FD fd = -EBADF;
	int r = fd_read_file(dir_fd, "packed-refs", (size_t)256 << 20, &text, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!leave_out(text, name, &rest))
		return rest.failed ? -ENOMEM : 0;
	r = rest.failed ? -ENOMEM : sys_unlink(dir_fd, tmp, 0);
	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL, 0666);
	r = fd < 0 ? fd : sys_write(fd, strbuf_str(&rest), rest.size);
	if (r >= 0)
		r = sys_fsync(fd);
	return r < 0 ? r : sys_rename(dir_fd, tmp, dir_fd, "packed-refs", 0);
}

/* The packed value goes first: it may be an older one, and would show once the loose ref is gone. */
int git_refs_remove(int dir_fd, const char *name, const char *tmp)
{
	AUTO_FD parent = -EBADF;
	const char *last;
	int r = git_refs_is_name(name) ? remove_packed(dir_fd, name, tmp) : -EINVAL;

	if (r >= 0)
		r = fd_open_parent(dir_fd, name, &parent, &last);
	if (r >= 0)
		r = sys_unlink(parent, last, 0);
	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

/* ---- logs ---- */

/* The lines of a log end in one line each: whatever is in a message. */
static void add_line(struct strbuf *s, const char *text)
{
	for (; *text && *text != '\n'; text++)
		strbuf_addc(s, (unsigned char)*text < ' ' ? ' ' : *text);
}

static int open_log(int dir_fd, const char *path, bool make)
{
	int fd = fd_open_beneath(dir_fd, path, O_WRONLY | O_APPEND);
	AUTO_FREE char *above = NULL;
	AUTO_FD parent = -EBADF;

	if (fd != -ENOENT || !make)
		return fd;
	above = strndup(path, (size_t)(strrchr(path, '/') - path));
	parent = above ? fd_make_path(dir_fd, above) : -ENOMEM;
	return parent < 0 ? parent : sys_open(parent, strrchr(path, '/') + 1, O_WRONLY | O_CREAT | O_APPEND, 0666);
}

int git_refs_log(int dir_fd, const char *name, const struct git_id *from, const struct git_id *to, const char *who,
		 const char *message, bool make)
{
	static const char zero[] = "0000000000000000000000000000000000000000000000000000000000000000";
	const char *none = zero + GIT_HEX_MAX - MAX(strlen(from->hex), strlen(to->hex));
	AUTO_FREE char *path = str_format("logs/%s", name);
	AUTO_STRBUF line = STRBUF_INIT;
	time_t now = time(NULL);
	struct tm tm;
	AUTO_FD fd = path ? open_log(dir_fd, path, make) : -ENOMEM;

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	localtime_r(&now, &tm);
	strbuf_addf(&line, "%s %s ", *from->hex ? from->hex : none, *to->hex ? to->hex : none);
	add_line(&line, who);
	strbuf_addf(&line, " %lld %c%02ld%02ld\t", (long long)now, tm.tm_gmtoff < 0 ? '-' : '+',
		    labs(tm.tm_gmtoff) / 3600, labs(tm.tm_gmtoff) / 60 % 60);
	add_line(&line, message);
	strbuf_addc(&line, '\n');
	if (line.failed)
		return -ENOMEM;
	return sys_write(fd, line.data, line.size);
}
