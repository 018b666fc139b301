/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the store share: a store in the test's own directory, rows to put into it, and bytes that text cannot hold. */
#ifndef TESTS_STORE_SCENE_H
#define TESTS_STORE_SCENE_H

#include "store/store.h"
#include "tap.h"

/* Quotes, newline, control characters, invalid UTF-8, SQL's and LIKE's own characters. */
#define ODD_BYTES "o'd\"d\n\t\x01\xff\xfe%_;--\\ \xc3("

/* What version 9 has added. */
#define DROP_PRUNABLE                                                                            \
	"ALTER TABLE sandbox DROP COLUMN prunable; ALTER TABLE sandbox DROP COLUMN measured_op;" \
	"ALTER TABLE sandbox DROP COLUMN measured;"
#define DROP_COUNTS                                                                                \
	"ALTER TABLE op_resource DROP COLUMN added; ALTER TABLE op_resource DROP COLUMN modified;" \
	"ALTER TABLE op_resource DROP COLUMN deleted; ALTER TABLE op_resource DROP COLUMN meta;"

#define AUTO_STORE CLEANUP(cleanup_store) struct store

/* A result of the kind "0, or a negative code and *err". */
#define CHECK_DONE(got, err)                                                                                        \
	do {                                                                                                        \
		int _code = (got);                                                                                  \
		if (_code != 0)                                                                                     \
			tap_fail(__FILE__, __LINE__, "%s is %d (%s: %s)", #got, _code, atoll_code_name((err).code), \
				 (err).message);                                                                    \
	} while (0)

TAP_UNUSED static struct store *scene_store(void)
{
	struct atoll_error err = { 0 };
	struct store *s = NULL;

	CHECK_DONE(store_open(tap_dir, &s, &err), err);
	return s;
}

TAP_UNUSED static void scene_begin(struct store *s)
{
	struct atoll_error err = { 0 };

	CHECK_DONE(store_begin(s, true, &err), err);
}

TAP_UNUSED static void scene_commit(struct store *s)
{
	struct atoll_error err = { 0 };

	CHECK_DONE(store_commit(s, &err), err);
}

TAP_UNUSED static struct tree_id scene_id(unsigned seed, size_t size)
{
	struct tree_id id = { .size = (uint8_t)size };

	/* Zero bytes inside: an identity is no string. */
	for (size_t i = 0; i < size; i++)
		id.data[i] = (unsigned char)(i % 3 ? seed * 31 + i : 0);
	return id;
}

TAP_UNUSED static struct store_look scene_look(unsigned seed)
{
	return (struct store_look){ .id = scene_id(seed, TREE_ID_MAX - seed % 3),
				    .mode = 0107777,
				    .uid = UINT32_MAX - seed,
				    .gid = UINT32_MAX - 1 - seed,
				    .size = UINT64_MAX - seed,
				    .mtime = -1000000007LL * seed,
				    .atime = INT64_MAX - seed };
}

TAP_UNUSED static bool same_look(const struct store_look *a, const struct store_look *b)
{
	return tree_id_equal(&a->id, &b->id) == (a->id.size || b->id.size) && a->mode == b->mode && a->uid == b->uid &&
	       a->gid == b->gid && a->size == b->size && a->mtime == b->mtime && a->atime == b->atime;
}

/* Adds a sandbox in a transaction of its own. */
TAP_UNUSED static int64_t scene_box(struct store *s, const char *name)
{
	struct store_sandbox box = { .name = (char *)name, .created_ns = 1, .active_ns = 2 };
	struct atoll_error err = { 0 };

	snprintf(box.uuid, sizeof box.uuid, "uuid-of-%.20s", name);
	scene_begin(s);
	CHECK_DONE(store_sandbox_add(s, &box, &err), err);
	scene_commit(s);
	return box.id;
}

/* Adds a resource in a transaction of its own. */
TAP_UNUSED static int64_t scene_resource(struct store *s, int64_t sandbox, int seq)
{
	struct store_resource r = { .sandbox = sandbox,
				    .seq = seq,
				    .path = (char *)"/somewhere",
				    .strategy = (char *)"overlay",
				    .work = (char *)"",
				    .stage = (char *)"" };
	struct atoll_error err = { 0 };

	scene_begin(s);
	CHECK_DONE(store_resource_add(s, &r, &err), err);
	scene_commit(s);
	return r.id;
}

#endif
