/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's index, read as data: the list of what is tracked, what was known of each file when it was last looked at, and the tree that the whole
 * list is, if that is noted in it.
 *
 * One that a command inside has written may hold anything: every length is checked. A form that is not known here (split, sparse, out of order)
 * is left to git, which understands it or says what is wrong.
 */
#include "git/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define INDEX_MAX ((size_t)1 << 30)
#define GITLINK 0160000u
#define HEADER_SIZE 12
#define STAT_SIZE 40 /* ten numbers of four bytes, in front of the hash */

#define FLAG_ASSUME 0x8000u
#define FLAG_EXTENDED 0x4000u
#define FLAG_STAGE 0x3000u
#define FLAG_NAME 0x0fffu
#define MORE_SKIP 0x4000u
#define MORE_INTENT 0x2000u

struct reader {
	const unsigned char *data;
	size_t at, end; /* behind the last extension: there is the checksum */
	size_t hash;
	unsigned version;
	struct strbuf path; /* version 4: of the entry before */
	const struct git_index_filter *filter;
	struct git_index_file *ret;
};

static uint32_t read32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static unsigned read16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static void read_id(const unsigned char *p, size_t size, struct git_id *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		ret->hex[2 * i] = digits[p[i] >> 4];
		ret->hex[2 * i + 1] = digits[p[i] & 15];
	}
	ret->hex[2 * size] = 0;
}

/* ---- paths ---- */

/* How many bytes of the path before are not of this one: seven bits in each byte, and no number written in two ways. */
static int read_strip(struct reader *r, size_t *ret)
{
	size_t value = 0;

	for (int i = 0; i < 5 && r->at < r->end; i++) {
		unsigned char byte = r->data[r->at++];

		value = i ? (value + 1) << 7 | (byte & 0x7f) : byte & 0x7f;
		if (!(byte & 0x80)) {
			*ret = value;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_text(struct reader *r, const char **ret, size_t *ret_size)
{
	const unsigned char *text = r->data + r->at;
	const unsigned char *nul = r->at < r->end ? memchr(text, 0, r->end - r->at) : NULL;

	if (!nul)
		return -EINVAL;
	*ret = (const char *)text;
	*ret_size = (size_t)(nul - text);
	r->at += *ret_size + 1;
	return 0;
}

static int read_compressed(struct reader *r, const char **ret, size_t *ret_size)
{
	const char *rest;
	size_t strip, size;
	int rc = read_strip(r, &strip);

	if (rc >= 0)
		rc = strip > r->path.size ? -EINVAL : read_text(r, &rest, &size);
	if (rc < 0)
		return rc;
	strbuf_truncate(&r->path, r->path.size - strip);
	strbuf_add(&r->path, rest, size);
	*ret = strbuf_str(&r->path);
	*ret_size = r->path.size;
	return r->path.failed ? -ENOMEM : 0;
}

static int read_path(struct reader *r, size_t begin, unsigned flags, const char **ret)
{
	size_t size = 0;
	int rc = r->version == 4 ? read_compressed(r, ret, &size) : read_text(r, ret, &size);

	if (rc < 0)
		return rc;
	/* Entries fill eights, with one NUL at least. */
	if (r->version != 4)
		r->at = begin + ((r->at - 1 - begin + 8) & ~(size_t)7);
	if (!size || **ret == '/' || r->at > r->end || MIN(size, (size_t)FLAG_NAME) != (flags & FLAG_NAME))
		return -EINVAL;
	return 0;
}

/* ---- entries ---- */

static bool is_known_mode(unsigned mode)
{
	return mode == 0100644 || mode == 0100755 || mode == 0120000 || mode == GITLINK;
}

static bool is_in_order(const struct git_entries *e)
{
	const struct git_entry *last = &e->v[e->n - 1];
	int order = e->n > 1 ? strcmp(last[-1].path, last->path) : -1;

	return order < 0 || (order == 0 && last[-1].stage < last->stage);
}

static struct git_look read_look(const unsigned char *p)
{
	return (struct git_look){ .known = true,
				  .ctime = (int64_t)read32(p) * 1000000000 + read32(p + 4),
				  .mtime = (int64_t)read32(p + 8) * 1000000000 + read32(p + 12),
				  .ino = read32(p + 20),
				  .size = read32(p + 36) };
}

static bool is_wanted(const struct reader *r, unsigned mode, unsigned flags, unsigned more, const char *path)
{
	return !r->filter || mode == GITLINK || (flags & (FLAG_STAGE | FLAG_ASSUME)) || (more & MORE_SKIP) ||
	       r->filter->wants(path, r->filter->arg);
}

static int add_entry(struct reader *r, const unsigned char *p, unsigned flags, unsigned more, const char *path)
{
	struct git_entries *all = &r->ret->entries;
	unsigned mode = read32(p + 24);
	int stage = (int)((flags & FLAG_STAGE) >> 12), rc;
	struct git_id id;

	if (!is_known_mode(mode))
		return -EINVAL;
	if (!is_wanted(r, mode, flags, more, path))
		return 0;
	read_id(p + STAT_SIZE, r->hash, &id);
	rc = git_entries_add(all, path, mode, &id, stage);
	if (rc < 0)
		return rc;
	all->v[all->n - 1].look = read_look(p);
	all->v[all->n - 1].marks = (more & MORE_SKIP ? GIT_MARK_SKIP : 0) | (flags & FLAG_ASSUME ? GIT_MARK_ASSUME : 0);
	return is_in_order(all) ? 0 : -EINVAL;
}

static int read_entry(struct reader *r)
{
	const unsigned char *p = r->data + r->at;
	size_t begin = r->at, fixed = STAT_SIZE + r->hash + 2;
	unsigned flags, more = 0;
	const char *path = NULL;
	int rc;

	if (r->end - r->at < fixed + 2)
		return -EINVAL;
	flags = read16(p + fixed - 2);
	if (flags & FLAG_EXTENDED) {
		more = read16(p + fixed);
		fixed += 2;
		if (r->version < 3 || (more & ~(MORE_SKIP | MORE_INTENT)))
			return -EINVAL;
	}
	r->at += fixed;
	rc = read_path(r, begin, flags, &path);
	return rc < 0 ? rc : add_entry(r, p, flags, more, path);
}

/* ---- extensions ---- */

/* Of the trees in the list the whole one comes first: "" NUL, how many entries it covers, how many trees are in it, its hash. A number below
 * zero: entries were changed since. */
static void read_trees(struct reader *r, const unsigned char *p, size_t size)
{
	const unsigned char *line = size ? memchr(p, '\n', size) : NULL;
	char text[32] = "";
	size_t used = line ? (size_t)(line + 1 - p) : 0;
	long count;

	if (!line || p[0] || used > sizeof text || size - used < r->hash)
		return;
	memcpy(text, p + 1, used - 1);
	text[used - 2] = 0;
	count = strtol(text, NULL, 10);
	if (count > 0 && (uint32_t)count == read32(r->data + 8))
		read_id(line + 1, r->hash, &r->ret->tree);
}

/* What need not be understood has a name that begins with a capital. */
static int read_extension(struct reader *r)
{
	const unsigned char *p = r->data + r->at;
	size_t size;

	if (r->end - r->at < 8 || p[0] < 'A' || p[0] > 'Z')
		return -EINVAL;
	size = read32(p + 4);
	if (size > r->end - r->at - 8)
		return -EINVAL;
	if (memcmp(p, "TREE", 4) == 0)
		read_trees(r, p + 8, size);
	r->at += 8 + size;
	return 0;
}

int git_index_file_parse(struct git_index_file *f, size_t hex_size, const struct git_index_filter *filter)
{
	struct reader r = { (const unsigned char *)f->data, HEADER_SIZE, 0, hex_size / 2, 0, STRBUF_INIT, filter, f };
	uint32_t n;
	int rc = 0;

	if (f->size < HEADER_SIZE + r.hash || memcmp(f->data, "DIRC", 4) != 0)
		return -EINVAL;
	r.end = f->size - r.hash;
	r.version = read32(r.data + 4);
	n = read32(r.data + 8);
	if (r.version < 2 || r.version > 4)
		return -EINVAL;
	for (uint32_t i = 0; i < n && rc >= 0; i++)
		rc = read_entry(&r);
	while (rc >= 0 && r.at < r.end)
		rc = read_extension(&r);
	strbuf_release(&r.path);
	if (rc < 0)
		git_entries_release(&f->entries);
	return rc;
}

/* ---- the file ---- */

void git_index_file_release(struct git_index_file *f)
{
	free(f->data);
	git_entries_release(&f->entries);
	*f = (struct git_index_file){ 0 };
}

/* Its time is asked for first: what is written meanwhile counts as younger than it. */
int git_index_file_load(int dir_fd, const char *name, struct git_index_file *ret)
{
	struct tree_stat st;
	int r = tree_stat(dir_fd, name, &st);

	if (r >= 0)
		r = fd_read_file(dir_fd, name, INDEX_MAX, &ret->data, &ret->size);
	if (r >= 0)
		ret->mtime = st.mtime;
	return r;
}

bool git_index_file_knows(const struct git_index_file *f, const struct git_entry *e, const struct tree_stat *st)
{
	bool executable = S_ISREG(st->mode) && (st->mode & 0100);
	unsigned mode = S_ISLNK(st->mode) ? 0120000 : executable ? 0100755 : 0100644;

	if ((!S_ISREG(st->mode) && !S_ISLNK(st->mode)) || e->mode != mode || !e->look.known)
		return false;
	/* What was written while the index was may have been written after that. */
	return e->look.mtime < f->mtime && e->look.mtime == st->mtime && e->look.ctime == st->ctime &&
	       e->look.size == (uint32_t)st->size;
}
