/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline file: what is saved is loaded again, and damage is told, wherever it is. */
#include "strategy/baseline.h"
#include "tap.h"

static inline void cleanup_baseline(struct baseline **b)
{
	*b = baseline_free(*b);
}
#define AUTO_BASELINE CLEANUP(cleanup_baseline) struct baseline

static const char *const paths[] = { "", "d", "d/\xff\n", "d-", "z \"'\\" };

static struct baseline *make(void)
{
	struct baseline *b = calloc(1, sizeof *b);

	for (size_t i = ARRAY_SIZE(paths); i-- > 0;) {
		struct base_entry *e = baseline_add(b, paths[i]);

		CHECK(e != NULL);
		e->special = i % 2;
		e->ino = UINT64_MAX - i;
		e->size = i;
		e->ctime = INT64_MAX - (int64_t)i;
		e->mtime = INT64_MIN + (int64_t)i;
		e->mode = 0107777;
		e->uid = UINT32_MAX;
		e->gid = (uint32_t)i;
		e->original = (struct store_look){ .mode = 040755,
						   .uid = 7,
						   .gid = UINT32_MAX,
						   .size = 1ull << 63,
						   .mtime = -1,
						   .atime = 5,
						   .mtime_era = -32768,
						   .atime_era = 32767 };
		e->original.id.size = (uint8_t)(i ? TREE_ID_MAX : 0);
		memset(e->original.id.data, (int)i, e->original.id.size);
		e->settled = i % 2 == 0;
		/* Not known, none, and some. */
		CHECK_OK(base_xattrs_set(&e->xattrs, i % 3 ? "value\0more" : NULL, i % 3 == 1 ? 0 : 10));
		CHECK_OK(base_xattrs_set(&e->original_xattrs, i % 2 ? "other" : NULL, 5));
	}
	baseline_sort(b);
	return b;
}

TEST(a_baseline_comes_back_as_it_was_saved)
{
	AUTO_BASELINE *b = make();
	AUTO_BASELINE *again = NULL;

	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	CHECK_OK(baseline_load(tap_dirfd, "base", &again));
	CHECK_EQ(again->n, ARRAY_SIZE(paths));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct base_entry *x = baseline_find(b, paths[i]), *y = baseline_find(again, paths[i]);

		CHECK(x && y);
		CHECK_STR(y->path, paths[i]);
		CHECK(x->special == y->special && x->ino == y->ino && x->size == y->size && x->ctime == y->ctime &&
		      x->mtime == y->mtime);
		CHECK(x->mode == y->mode && x->uid == y->uid && x->gid == y->gid);
		CHECK(x->settled == y->settled);
		CHECK(x->xattrs.data ? base_xattrs_equal(&x->xattrs, &y->xattrs) : !y->xattrs.data);
		CHECK(x->original_xattrs.data ? base_xattrs_equal(&x->original_xattrs, &y->original_xattrs)
					      : !y->original_xattrs.data);
		CHECK(memcmp(&x->original.id, &y->original.id, sizeof x->original.id) == 0);
		CHECK(x->original.mode == y->original.mode && x->original.uid == y->original.uid &&
		      x->original.gid == y->original.gid);
		CHECK(x->original.size == y->original.size && x->original.mtime == y->original.mtime &&
		      x->original.atime == y->original.atime);
		CHECK(x->original.mtime_era == y->original.mtime_era && x->original.atime_era == y->original.atime_era);
	}
	CHECK(baseline_find(again, "d/") == NULL);
}

TEST(an_empty_baseline_is_saved_and_loaded)
{
	struct baseline empty = { 0 };
	AUTO_BASELINE *again = NULL;

	CHECK_OK(baseline_save(tap_dirfd, "base", &empty));
	CHECK_OK(baseline_load(tap_dirfd, "base", &again));
	CHECK_EQ(again->n, 0);
	CHECK(baseline_find(again, "") == NULL);
}

TEST(a_path_beyond_path_max_is_kept)
{
	struct baseline *b = calloc(1, sizeof *b);
	AUTO_BASELINE *again = NULL;
	char path[20000];

	memset(path, 'x', sizeof path);
	path[sizeof path - 1] = 0;
	CHECK(baseline_add(b, path) != NULL);
	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	baseline_free(b);
	CHECK_OK(baseline_load(tap_dirfd, "base", &again));
	CHECK_STR(again->v[0].path, path);
}

TEST(a_saved_baseline_replaces_the_old_one_and_leftovers_of_an_interrupted_save)
{
	struct baseline empty = { 0 };
	AUTO_BASELINE *b = make();
	AUTO_BASELINE *again = NULL;
	struct stat st;

	CHECK_OK(baseline_save(tap_dirfd, "base", &empty));
	CHECK_OK(symlinkat("/etc/passwd", tap_dirfd, "base.new"));
	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	CHECK_OK(baseline_load(tap_dirfd, "base", &again));
	CHECK_EQ(again->n, ARRAY_SIZE(paths));
	CHECK_EQ(fstatat(tap_dirfd, "base.new", &st, AT_SYMLINK_NOFOLLOW), -1);
	CHECK_OK(fstatat(tap_dirfd, "base", &st, AT_SYMLINK_NOFOLLOW));
	CHECK_EQ(st.st_mode & 07777, 0600);
}

TEST(a_missing_file_a_link_and_an_empty_file_are_told_apart_from_a_baseline)
{
	struct baseline *none = NULL;

	CHECK_EQ(baseline_load(tap_dirfd, "base", &none), -ENOENT);
	tap_write(tap_dirfd, "base", "");
	CHECK_EQ(baseline_load(tap_dirfd, "base", &none), -EBADMSG);
	CHECK_OK(symlinkat("base", tap_dirfd, "link"));
	CHECK_EQ(baseline_load(tap_dirfd, "link", &none), -ELOOP);
	CHECK(none == NULL);
}

static size_t file_size(const char *name)
{
	struct stat st;

	CHECK_OK(fstatat(tap_dirfd, name, &st, 0));
	return (size_t)st.st_size;
}

/* The first version had no attributes: 8 bytes less before the path. */
TEST(a_baseline_of_the_first_version_is_read_and_knows_no_attributes)
{
	struct baseline *b = calloc(1, sizeof *b);
	AUTO_BASELINE *again = NULL;
	struct base_entry *e = baseline_add(b, "dir");
	char data[1024];
	uint64_t size;
	int fd;

	CHECK(e != NULL);
	e->mode = 040755;
	e->ctime = 5;
	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	baseline_free(b);
	size = file_size("base");
	CHECK(size <= sizeof data);
	fd = openat(tap_dirfd, "base", O_RDWR | O_CLOEXEC);
	CHECK_EQ(pread(fd, data, size, 0), (ssize_t)size);
	memmove(data + size - 3 - 8, data + size - 3, 3);
	size -= 8;
	memcpy(data, "atollB1\n", 8);
	memcpy(data + 16, &size, sizeof size);
	CHECK_EQ(pwrite(fd, data, size, 0), (ssize_t)size);
	CHECK_OK(ftruncate(fd, (off_t)size));
	close(fd);
	CHECK_OK(baseline_load(tap_dirfd, "base", &again));
	CHECK_EQ(again->n, 1);
	CHECK_STR(again->v[0].path, "dir");
	CHECK(again->v[0].mode == 040755 && again->v[0].ctime == 5);
	CHECK(!again->v[0].settled && !again->v[0].xattrs.data && !again->v[0].original_xattrs.data);
}

TEST(a_file_cut_short_anywhere_or_grown_is_damage)
{
	AUTO_BASELINE *b = make();
	struct baseline *none = NULL;
	size_t size;
	int fd;

	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	size = file_size("base");
	fd = openat(tap_dirfd, "base", O_RDWR | O_CLOEXEC);
	CHECK_OK(ftruncate(fd, (off_t)size + 1));
	CHECK_EQ(baseline_load(tap_dirfd, "base", &none), -EBADMSG);
	for (size_t at = size; at-- > 1;) {
		CHECK_OK(ftruncate(fd, (off_t)at));
		CHECK_EQ(baseline_load(tap_dirfd, "base", &none), -EBADMSG);
	}
	close(fd);
}

/* Any flipped byte: an error or another baseline, never a crash or a wild read (run under the address sanitizer). */
TEST(a_flipped_byte_anywhere_never_crashes_the_reader)
{
	AUTO_BASELINE *b = make();
	size_t size;
	int fd;

	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	size = file_size("base");
	fd = openat(tap_dirfd, "base", O_RDWR | O_CLOEXEC);
	for (size_t at = 0; at < size; at++) {
		AUTO_BASELINE *read = NULL;
		unsigned char byte, flipped;

		CHECK_EQ(pread(fd, &byte, 1, (off_t)at), 1);
		flipped = byte ^ 0xff;
		CHECK_EQ(pwrite(fd, &flipped, 1, (off_t)at), 1);
		if (baseline_load(tap_dirfd, "base", &read) == 0)
			CHECK_EQ(read->n, ARRAY_SIZE(paths));
		CHECK_EQ(pwrite(fd, &byte, 1, (off_t)at), 1);
	}
	close(fd);
}

TEST(damage_to_the_magic_or_the_counts_is_told)
{
	AUTO_BASELINE *b = make();
	struct baseline *none = NULL;
	int fd;

	CHECK_OK(baseline_save(tap_dirfd, "base", b));
	fd = openat(tap_dirfd, "base", O_RDWR | O_CLOEXEC);
	for (off_t at = 0; at < 24; at++) {
		unsigned char byte, flipped;

		CHECK_EQ(pread(fd, &byte, 1, at), 1);
		flipped = byte ^ 1;
		CHECK_EQ(pwrite(fd, &flipped, 1, at), 1);
		CHECK_EQ(baseline_load(tap_dirfd, "base", &none), -EBADMSG);
		CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
	}
	CHECK_OK(baseline_load(tap_dirfd, "base", &none));
	baseline_free(none);
	close(fd);
}
