/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline in memory and as a file: a header, then one record per entry, then its path and extended attributes. */
#include "strategy/baseline.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/sys.h"

#define MAGIC "atollB2\n"
#define MAGIC_OLD "atollB1\n" /* no attributes are known */

struct header {
	char magic[8];
	uint64_t count, bytes;
};

struct record {
	uint64_t ino, size, original_size;
	int64_t ctime, mtime, btime, original_mtime, original_atime;
	uint32_t mode, uid, gid, original_mode, original_uid, original_gid;
	uint32_t path_size;
	uint8_t marks, id_size, id[TREE_ID_MAX];
};
enum { MARK_SPECIAL = 1 << 0, MARK_WHOLE = 1 << 1, MARK_ABSENT = 1 << 2, MARK_SETTLED = 1 << 3 };

/* Sizes plus one, of what follows the path; 0: not known. */
struct attributes {
	uint32_t xattrs, original_xattrs;
};

void base_xattrs_release(struct base_xattrs *x)
{
	free(x->data);
	*x = (struct base_xattrs){ 0 };
}

int base_xattrs_set(struct base_xattrs *x, const char *data, size_t size)
{
	char *copy = data ? malloc(size + 1) : NULL;

	if (data && !copy)
		return -ENOMEM;
	if (data)
		memcpy(copy, data, size);
	free(x->data);
	*x = (struct base_xattrs){ copy, data ? size : 0 };
	return 0;
}

int base_xattrs_read(struct base_xattrs *x, int dirfd, const char *name)
{
	int r;

	base_xattrs_release(x);
	r = tree_xattrs_encoded(dirfd, name, TREE_MARKS_NONE, &x->data, &x->size);
	return r == -EACCES || r == -EPERM ? 0 : r;
}

bool base_xattrs_equal(const struct base_xattrs *a, const struct base_xattrs *b)
{
	return a->data && b->data && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

void base_entry_release(struct base_entry *e)
{
	free(e->path);
	base_xattrs_release(&e->xattrs);
	base_xattrs_release(&e->original_xattrs);
}

struct base_entry *baseline_add(struct baseline *b, const char *path)
{
	if (b->n == b->capacity) {
		size_t capacity = b->capacity ? b->capacity * 2 : 64;
		struct base_entry *v = reallocarray(b->v, capacity, sizeof *v);

		if (!v)
			return NULL;
		b->v = v;
		b->capacity = capacity;
	}
	b->v[b->n] = (struct base_entry){ .path = strdup(path) };
	return b->v[b->n].path ? &b->v[b->n++] : NULL;
}

static int compare_entries(const void *a, const void *b)
{
	return path_compare(((const struct base_entry *)a)->path, ((const struct base_entry *)b)->path);
}

void baseline_sort(struct baseline *b)
{
	if (b->n)
		qsort(b->v, b->n, sizeof *b->v, compare_entries);
}

struct base_entry *baseline_find(const struct baseline *b, const char *path)
{
	struct base_entry key = { .path = (char *)path };

	return b->n ? bsearch(&key, b->v, b->n, sizeof *b->v, compare_entries) : NULL;
}

int baseline_look(const struct baseline *b, const char *path, struct base_entry **ret)
{
	struct base_entry *e = baseline_find(b, path);
	AUTO_FREE char *above = NULL;

	if (e || !b->n) {
		*ret = e && !e->absent ? e : NULL;
		return e != NULL;
	}
	above = strdup(path);
	if (!above)
		return -ENOMEM;
	while (*above) {
		char *slash = strrchr(above, '/');

		*(slash ? slash : above) = 0;
		e = baseline_find(b, above);
		if (e && e->whole) {
			*ret = NULL;
			return 1;
		}
	}
	return 0;
}

static int compare_inodes(const void *a, const void *b, void *entries)
{
	const struct base_entry *v = entries;
	uint64_t x = v[*(const size_t *)a].ino, y = v[*(const size_t *)b].ino;

	return x < y ? -1 : x > y;
}

const struct base_entry *baseline_find_inode(struct baseline *b, uint64_t ino, int64_t btime)
{
	size_t low = 0, high = b->n;

	if (!b->by_inode && b->n) {
		b->by_inode = reallocarray(NULL, b->n, sizeof *b->by_inode);
		if (!b->by_inode)
			return NULL;
		for (size_t i = 0; i < b->n; i++)
			b->by_inode[i] = i;
		qsort_r(b->by_inode, b->n, sizeof *b->by_inode, compare_inodes, b->v);
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (b->v[b->by_inode[middle]].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < b->n && b->v[b->by_inode[low]].ino == ino; low++) {
		const struct base_entry *e = &b->v[b->by_inode[low]];

		if (S_ISREG(e->mode) && !e->special && btime && e->btime == btime)
			return e;
	}
	return NULL;
}

struct baseline *baseline_free(struct baseline *b)
{
	if (!b)
		return NULL;
	for (size_t i = 0; i < b->n; i++)
		base_entry_release(&b->v[i]);
	free(b->v);
	free(b->by_inode);
	free(b);
	return NULL;
}

static void pack(const struct base_entry *e, struct record *r)
{
	memset(r, 0, sizeof *r);
	r->ino = e->ino;
	r->size = e->size;
	r->ctime = e->ctime;
	r->mtime = e->mtime;
	r->btime = e->btime;
	r->mode = (uint32_t)(uint16_t)e->original.atime_era << 16 | (e->mode & 0xffff);
	r->uid = e->uid;
	r->gid = e->gid;
	r->original_size = e->original.size;
	r->original_mtime = e->original.mtime;
	r->original_atime = e->original.atime;
	/* Half of the bits are enough for a mode. */
	r->original_mode = (uint32_t)(uint16_t)e->original.mtime_era << 16 | (e->original.mode & 0xffff);
	r->original_uid = e->original.uid;
	r->original_gid = e->original.gid;
	r->marks = (uint8_t)((e->special ? MARK_SPECIAL : 0) | (e->whole ? MARK_WHOLE : 0) |
			     (e->absent ? MARK_ABSENT : 0) | (e->settled ? MARK_SETTLED : 0));
	r->id_size = e->original.id.size;
	memcpy(r->id, e->original.id.data, sizeof r->id);
	r->path_size = (uint32_t)strlen(e->path);
}

static void unpack(const struct record *r, struct base_entry *e)
{
	e->ino = r->ino;
	e->size = r->size;
	e->ctime = r->ctime;
	e->mtime = r->mtime;
	e->btime = r->btime;
	e->original.atime_era = (int16_t)(uint16_t)(r->mode >> 16);
	e->mode = r->mode & 0xffff;
	e->uid = r->uid;
	e->gid = r->gid;
	e->special = r->marks & MARK_SPECIAL;
	e->whole = r->marks & MARK_WHOLE;
	e->absent = r->marks & MARK_ABSENT;
	e->settled = r->marks & MARK_SETTLED;
	e->original.size = r->original_size;
	e->original.mtime = r->original_mtime;
	e->original.atime = r->original_atime;
	e->original.mtime_era = (int16_t)(uint16_t)(r->original_mode >> 16);
	e->original.mode = r->original_mode & 0xffff;
	e->original.uid = r->original_uid;
	e->original.gid = r->original_gid;
	e->original.id.size = r->id_size;
	memcpy(e->original.id.data, r->id, sizeof r->id);
}

static void write_entry(struct strbuf *out, const struct base_entry *e)
{
	struct attributes a = { e->xattrs.data ? (uint32_t)e->xattrs.size + 1 : 0,
				e->original_xattrs.data ? (uint32_t)e->original_xattrs.size + 1 : 0 };
	struct record r;

	pack(e, &r);
	strbuf_add(out, &r, sizeof r);
	strbuf_add(out, &a, sizeof a);
	strbuf_adds(out, e->path);
	strbuf_add(out, e->xattrs.data, e->xattrs.size);
	strbuf_add(out, e->original_xattrs.data, e->original_xattrs.size);
}

static int write_all(int fd, const struct baseline *b)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct header h = { .magic = MAGIC, .count = b->n };

	strbuf_add(&out, &h, sizeof h);
	for (size_t i = 0; i < b->n; i++)
		write_entry(&out, &b->v[i]);
	if (out.failed)
		return -ENOMEM;
	h.bytes = out.size;
	memcpy(out.data, &h, sizeof h);
	return sys_write(fd, out.data, out.size);
}

int baseline_save(int dirfd, const char *name, const struct baseline *b)
{
	AUTO_FREE char *fresh = str_format("%s.new", name);
	AUTO_FD fd = -EBADF;
	int r;

	if (!fresh)
		return -ENOMEM;
	r = sys_unlink(dirfd, fresh, 0);
	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(dirfd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	r = write_all(fd, b);
	if (r >= 0)
		r = sys_fsync(fd);
	if (r >= 0)
		r = sys_rename(dirfd, fresh, dirfd, name, 0);
	if (r >= 0)
		r = sys_fsync(dirfd);
	return MIN(r, 0);
}

struct reader {
	const char *at, *end;
	bool old; /* without attributes */
};

/* What follows, if there is so much. */
static const char *next_bytes(struct reader *in, size_t size)
{
	const char *at = in->at;

	if (size > (size_t)(in->end - in->at))
		return NULL;
	in->at += size;
	return at;
}

static int parse_attributes(struct reader *in, uint32_t size, struct base_xattrs *ret)
{
	const char *data = size ? next_bytes(in, size - 1) : NULL;

	if (size && !data)
		return -EBADMSG;
	return base_xattrs_set(ret, data, size ? size - 1 : 0);
}

static int parse_entry(struct reader *in, struct baseline *b)
{
	AUTO_FREE char *path = NULL;
	struct attributes a = { 0 };
	struct base_entry *e;
	struct record r;
	const char *at = next_bytes(in, sizeof r);
	int rc;

	if (!at)
		return -EBADMSG;
	memcpy(&r, at, sizeof r);
	at = in->old ? NULL : next_bytes(in, sizeof a);
	if (at)
		memcpy(&a, at, sizeof a);
	else if (!in->old)
		return -EBADMSG;
	at = next_bytes(in, r.path_size);
	if (!at || r.id_size > TREE_ID_MAX)
		return -EBADMSG;
	path = strndup(at, r.path_size);
	e = path ? baseline_add(b, path) : NULL;
	if (!e)
		return -ENOMEM;
	unpack(&r, e);
	rc = parse_attributes(in, a.xattrs, &e->xattrs);
	return rc < 0 ? rc : parse_attributes(in, a.original_xattrs, &e->original_xattrs);
}

static int parse(const char *data, size_t size, struct baseline *b)
{
	struct reader in = { data, data + size, false };
	struct header h;
	int r = 0;

	if (size < sizeof h)
		return -EBADMSG;
	memcpy(&h, next_bytes(&in, sizeof h), sizeof h);
	in.old = memcmp(h.magic, MAGIC_OLD, sizeof h.magic) == 0;
	if ((!in.old && memcmp(h.magic, MAGIC, sizeof h.magic) != 0) || h.bytes != size)
		return -EBADMSG;
	for (uint64_t i = 0; i < h.count && r >= 0; i++)
		r = parse_entry(&in, b);
	return r < 0 ? r : in.at == in.end ? 0 : -EBADMSG;
}

int baseline_load(int dirfd, const char *name, struct baseline **ret)
{
	AUTO_FD fd = fd_open_beneath(dirfd, name, O_RDONLY);
	struct baseline *b;
	struct stat st;
	char *data;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0)
		return -EBADMSG;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	b = calloc(1, sizeof *b);
	r = b ? parse(data, (size_t)st.st_size, b) : -ENOMEM;
	munmap(data, (size_t)st.st_size);
	if (r < 0) {
		baseline_free(b);
		return r;
	}
	*ret = b;
	return 0;
}
