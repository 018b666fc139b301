/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pages in which a file differs from another, and takes them over. Blocks that both files share on a filesystem that shares blocks
 * (XFS, btrfs) are the same without being read.
 */
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "database/private.h"

#define CHUNK (256U << 10)

/* ---- blocks that are shared ---- */

struct extent {
	uint64_t at, end, place;
};

struct extents {
	struct extent *v;
	size_t n, capacity;
};

static void extents_release(struct extents *e)
{
	free(e->v);
}

static int add_extent(struct extents *e, uint64_t at, uint64_t end, uint64_t place)
{
	if (e->n == e->capacity) {
		size_t capacity = e->capacity ? e->capacity * 2 : 64;
		struct extent *grown = reallocarray(e->v, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		e->v = grown;
		e->capacity = capacity;
	}
	e->v[e->n++] = (struct extent){ at, end, place };
	return 0;
}

/* What is said of an extent that tells nothing about the content: not on disk, or in a form of its own. */
#define UNFIT                                                                                                    \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED | \
	 FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_UNWRITTEN)

/* Those that are shared with some file. FIEMAP_FLAG_SYNC writes back what was written since: before that the old place is told. -errno where
 * the filesystem cannot tell. */
static int read_extents(int fd, uint64_t size, struct extents *ret)
{
	union {
		struct fiemap map;
		char space[sizeof(struct fiemap) + 256 * sizeof(struct fiemap_extent)];
	} u;
	uint64_t at = 0;

	while (at < size) {
		bool last = false;

		memset(&u, 0, sizeof u.map);
		u.map.fm_start = at;
		u.map.fm_length = size - at;
		u.map.fm_flags = FIEMAP_FLAG_SYNC;
		u.map.fm_extent_count = 256;
		if (ioctl(fd, FS_IOC_FIEMAP, &u.map) < 0)
			return -errno;
		if (!u.map.fm_mapped_extents)
			return 0;
		for (uint32_t i = 0; i < u.map.fm_mapped_extents; i++) {
			const struct fiemap_extent *x = &u.map.fm_extents[i];

			at = x->fe_logical + x->fe_length;
			last |= x->fe_flags & FIEMAP_EXTENT_LAST;
			if ((x->fe_flags & FIEMAP_EXTENT_SHARED) && !(x->fe_flags & UNFIT) &&
			    add_extent(ret, x->fe_logical, at, x->fe_physical) < 0)
				return -ENOMEM;
		}
		if (last)
			return 0;
	}
	return 0;
}

/* Where both have the same place. */
static int find_shared(int a_fd, int b_fd, uint64_t size, struct extents *ret)
{
	CLEANUP(extents_release) struct extents a = { 0 };
	CLEANUP(extents_release) struct extents b = { 0 };
	int r = read_extents(a_fd, size, &a);

	if (r >= 0 && a.n)
		r = read_extents(b_fd, size, &b);
	for (size_t i = 0, k = 0; r >= 0 && i < a.n && k < b.n;) {
		uint64_t at = MAX(a.v[i].at, b.v[k].at), end = MIN(a.v[i].end, b.v[k].end);

		if (at < end && a.v[i].place - a.v[i].at == b.v[k].place - b.v[k].at)
			r = add_extent(ret, at, end, 0);
		if (a.v[i].end < b.v[k].end)
			i++;
		else
			k++;
	}
	return r;
}

/* ---- pages ---- */

static ssize_t read_some(int fd, char *to, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, to + done, size - done, (off_t)(at + done));

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			break;
		done += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)done;
}

static int take_differing(struct sqlite_patch *p, const char *a, size_t a_size, const char *b, size_t size, uint64_t at)
{
	for (size_t i = 0; i < size; i += p->page_size) {
		size_t n = MIN(size - i, (size_t)p->page_size);
		int r = 0;

		if (i + n > a_size || n < p->page_size || memcmp(a + i, b + i, n) != 0)
			r = sqlite_patch_write(p, b + i, n, at + i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int compare_chunk(struct sqlite_patch *p, int fd, char *buffer, uint64_t at, size_t size)
{
	char *a = buffer, *b = buffer + CHUNK;
	ssize_t n = read_some(p->base_fd, a, size, at);
	ssize_t m = n < 0 ? n : read_some(fd, b, size, at);

	if (m < 0)
		return (int)m;
	if (n >= m && memcmp(a, b, (size_t)m) == 0 && m % p->page_size == 0)
		return 0;
	return take_differing(p, a, (size_t)n, b, (size_t)m, at);
}

/* Pages at either end of a shared range may be shared in part only. */
static uint64_t skip_shared(const struct sqlite_patch *p, const struct extents *shared, size_t *index, uint64_t at)
{
	while (*index < shared->n && shared->v[*index].end <= at)
		++*index;
	if (*index < shared->n && shared->v[*index].at <= at)
		return shared->v[*index].end - shared->v[*index].end % p->page_size;
	return at;
}

int sqlite_pages_take(struct sqlite_patch *p, int fd, uint64_t size)
{
	CLEANUP(extents_release) struct extents shared = { 0 };
	AUTO_FREE char *buffer = malloc(2 * (size_t)CHUNK);
	size_t index = 0;
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	if (find_shared(p->base_fd, fd, MIN(size, p->base_size), &shared) < 0)
		shared.n = 0;
	for (uint64_t at = 0; at < size && r >= 0;) {
		uint64_t skipped = skip_shared(p, &shared, &index, at);
		uint64_t end = MIN(size, at + CHUNK);

		if (skipped > at) {
			at = skipped;
			continue;
		}
		if (index < shared.n && shared.v[index].at > at)
			end = MIN(end, (shared.v[index].at + p->page_size - 1) / p->page_size * p->page_size);
		r = compare_chunk(p, fd, buffer, at, (size_t)(end - at));
		at = end;
	}
	return r < 0 ? r : sqlite_patch_truncate(p, size);
}
