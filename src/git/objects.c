/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: from a store that anybody may have written, through a quarantine, into the original. */
#include "git/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tree/tree.h"

static bool is_hex(const char *text, size_t size)
{
	return strlen(text) >= size && strspn(text, "0123456789abcdef") >= size;
}

/* "ab", and in it the other digits. */
static bool is_fan_out(const char *name)
{
	return strlen(name) == 2 && is_hex(name, 2);
}

static bool is_loose(const char *name)
{
	return (strlen(name) == 38 || strlen(name) == 62) && is_hex(name, strlen(name));
}

/* Indexes that several packs share, bitmaps and the like are only for speed: git does without. */
static bool is_pack(const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t size = dot ? (size_t)(dot - name) : 0;

	if (strncmp(name, "pack-", 5) != 0 || (size != 45 && size != 69) || !is_hex(name + 5, size - 5))
		return false;
	return strcmp(dot, ".pack") == 0 || strcmp(dot, ".idx") == 0;
}

struct import {
	int to_fd;
	int dir; /* in it, of the directory one is in */
	char at[8];
};

static int enter(struct import *i, const char *name)
{
	int r = strcmp(name, "info") == 0 ? -EINVAL : sys_mkdir(i->to_fd, name, 0700);

	if (r < 0 && r != -EEXIST)
		return r;
	fd_close(i->dir);
	i->dir = fd_open_beneath(i->to_fd, name, O_RDONLY | O_DIRECTORY);
	snprintf(i->at, sizeof i->at, "%s", name);
	return MIN(i->dir, 0);
}

static int take(const struct tree_entry *e, void *arg)
{
	struct import *i = arg;
	bool below = strchr(e->path, '/') != NULL;
	int r;

	if (S_ISDIR(e->stat.mode)) {
		if (below || (!is_fan_out(e->name) && strcmp(e->name, "pack") != 0))
			return TREE_WALK_SKIP;
		r = enter(i, e->name);
		return r < 0 ? r : TREE_WALK_GO;
	}
	if (!below || !S_ISREG(e->stat.mode) || !(strcmp(i->at, "pack") == 0 ? is_pack(e->name) : is_loose(e->name)))
		return TREE_WALK_GO;
	r = sys_link(e->dirfd, e->name, i->dir, e->name);
	return r < 0 && r != -EEXIST ? r : TREE_WALK_GO;
}

int git_objects_import(int from_fd, int to_fd)
{
	struct import i = { .to_fd = to_fd, .dir = -EBADF };
	int r = tree_walk(from_fd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, take, &i, NULL);

	fd_close(i.dir);
	return r;
}

/* How many objects a pack says it has. */
static int count_packed(int fd, uint32_t *ret)
{
	unsigned char header[12];
	ssize_t n = pread(fd, header, sizeof header, 0);

	if (n != (ssize_t)sizeof header)
		return n < 0 ? -errno : -EINVAL;
	*ret = (uint32_t)header[8] << 24 | (uint32_t)header[9] << 16 | (uint32_t)header[10] << 8 | header[11];
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* Through a file: the one git has ended when the other begins, and each is asked how it went. */
int git_objects_pack_start(const struct git_repo *r, const char *quarantine, const char *revisions,
			   struct git_running *ret, int *ret_pack, struct atoll_error *err)
{
	AUTO_FD pack = open(quarantine, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct git_call call = { .repo = r, .operation = "commit", .quarantine = quarantine };
	int rc;

	if (pack < 0)
		return error_sys(err, errno, "commit", quarantine, "cannot make a file in \"%s\"", quarantine);
	call.input = revisions;
	call.input_size = strlen(revisions);
	call.output_fd = pack;
	rc = git_call_start(&call, ret, err, (const char *const[]){ "pack-objects", "-q", "--revs", "--stdout", NULL });
	if (rc >= 0)
		*ret_pack = TAKE_FD(pack);
	return rc;
}

int git_objects_land_start(const struct git_repo *r, int pack, struct git_running *ret, struct atoll_error *err)
{
	struct git_call call = { .repo = r, .operation = "commit", .input_fd = pack };
	uint32_t n = 0;
	int rc = count_packed(pack, &n);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->top, "cannot read the objects for \"%s\"", r->top);
	if (n == 0)
		return 0;
	return git_call_start(&call, ret, err, (const char *const[]){ "index-pack", "--strict", "--stdin", NULL });
}
