/* SPDX-License-Identifier: Apache-2.0 */
/* Values in a byte string: what is put in comes out, and what is cut or wrong is noticed. */
#include "store/pack.h"

#include "store-scene.h"

static struct unpack unpack_of(const struct strbuf *s, size_t size)
{
	const unsigned char *data = (const unsigned char *)s->data;

	return (struct unpack){ .at = data, .end = data + size };
}

TEST(numbers_come_back)
{
	static const int64_t numbers[] = {
		0, 1, -1, 63, 64, -64, -65, 127, 128, 1LL << 31, 1700000000123456789, INT64_MAX, INT64_MIN
	};
	AUTO_STRBUF s = STRBUF_INIT;
	struct unpack u;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		pack_number(&s, numbers[i]);
	u = unpack_of(&s, s.size);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		CHECK_EQ(unpack_number(&u), numbers[i]);
	CHECK_EQ(u.failed, 0);
	CHECK(u.at == u.end);
}

TEST(bytes_come_back_and_nothing_is_told_from_empty)
{
	static const char bytes[] = { 'a', 0, 'b' };
	AUTO_STRBUF s = STRBUF_INIT;
	AUTO_FREE char *data = NULL;
	AUTO_FREE char *empty = NULL;
	AUTO_FREE char *text = NULL;
	struct unpack u;
	size_t size = 0;

	pack_data(&s, bytes, sizeof bytes);
	pack_text(&s, NULL);
	pack_text(&s, "");
	pack_text(&s, ODD_BYTES);
	u = unpack_of(&s, s.size);
	data = unpack_data(&u, &size);
	CHECK_EQ(size, sizeof bytes);
	CHECK(data && memcmp(data, bytes, sizeof bytes) == 0);
	CHECK(unpack_text(&u) == NULL);
	empty = unpack_text(&u);
	CHECK_STR(empty, "");
	text = unpack_text(&u);
	CHECK_STR(text, ODD_BYTES);
	CHECK_EQ(u.failed, 0);
}

TEST(looks_come_back_with_and_without_an_identity)
{
	struct store_look with = scene_look(2), without = scene_look(5), got;
	AUTO_STRBUF s = STRBUF_INIT;
	struct unpack u;

	without.id.size = 0;
	pack_look(&s, &with);
	pack_look(&s, &without);
	u = unpack_of(&s, s.size);
	unpack_look(&u, &got);
	CHECK(same_look(&got, &with));
	unpack_look(&u, &got);
	CHECK_EQ(got.id.size, 0);
	CHECK_EQ(got.mtime, without.mtime);
	CHECK_EQ(u.failed, 0);
}

TEST(times_of_other_eras_come_back_and_records_without_them_are_of_this_one)
{
	struct store_look look = scene_look(2), got;
	AUTO_STRBUF old = STRBUF_INIT;
	AUTO_STRBUF s = STRBUF_INIT;
	struct unpack u;

	look.uid = look.gid = UINT32_MAX;
	look.mtime_era = 1;
	look.atime_era = -1;
	pack_look(&s, &look);
	u = unpack_of(&s, s.size);
	unpack_look(&u, &got);
	CHECK(got.uid == UINT32_MAX && got.gid == UINT32_MAX);
	CHECK(got.mtime_era == 1 && got.atime_era == -1);
	/* As they were written before there were eras. */
	pack_data(&old, "id", 2);
	for (int64_t i = 1; i <= 6; i++)
		pack_number(&old, i == 2 || i == 3 ? (int64_t)UINT32_MAX : i);
	u = unpack_of(&old, old.size);
	unpack_look(&u, &got);
	CHECK(u.failed == 0 && got.uid == UINT32_MAX && got.gid == UINT32_MAX && got.atime == 6);
	CHECK(got.mtime_era == 0 && got.atime_era == 0);
}

TEST(wherever_it_is_cut_that_is_noticed)
{
	struct store_look look = scene_look(2), got;
	AUTO_STRBUF s = STRBUF_INIT;

	pack_text(&s, "path");
	pack_look(&s, &look);
	for (size_t size = 0; size < s.size; size++) {
		struct unpack u = unpack_of(&s, size);

		free(unpack_text(&u));
		unpack_look(&u, &got);
		CHECK_EQ(u.failed, -EBADMSG);
		CHECK(u.at == u.end);
	}
}

TEST(what_is_too_long_is_noticed)
{
	static const unsigned char endless[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
	struct unpack u = { .at = endless, .end = endless + sizeof endless };
	char id[TREE_ID_MAX + 1] = { 0 };
	AUTO_STRBUF s = STRBUF_INIT;
	struct store_look got;

	CHECK_EQ(unpack_number(&u), 0);
	CHECK_EQ(u.failed, -EBADMSG);
	pack_data(&s, id, sizeof id);
	u = unpack_of(&s, s.size);
	unpack_look(&u, &got);
	CHECK_EQ(u.failed, -EBADMSG);
}
