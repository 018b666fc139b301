/* SPDX-License-Identifier: Apache-2.0 */
/* Old and new rows of a table, brought together. */
#include "hold/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/strbuf.h"
#include "tap.h"

static const struct column columns[] = { { "id", 'N', true }, { "name", 'S', false } };

/* Rows of two values, NULL at the end; "-" is NULL. */
static struct table table_of(const char *const *values)
{
	struct table t = { .n_columns = 2 };

	while (values && values[2 * t.n_rows])
		t.n_rows++;
	t.values = calloc(2 * t.n_rows + 1, sizeof *t.values);
	for (size_t i = 0; i < 2 * t.n_rows; i++)
		t.values[i] = strcmp(values[i], "-") == 0 ? NULL : strdup(values[i]);
	return t;
}

static char *print(struct pairs p, const char *const *old, const char *const *new, size_t max, size_t *ret_hidden)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	p.columns = columns;
	p.n_columns = 2;
	p.old = table_of(old);
	p.new = table_of(new);
	*ret_hidden = pairs_print(&p, out, max);
	fclose(out);
	table_release(&p.old);
	table_release(&p.new);
	return text;
}

#define ROWS(...) ((const char *const[]){ __VA_ARGS__, NULL, NULL })
#define CHECK_PRINTED(p, old, new, wanted)                                 \
	do {                                                               \
		size_t hidden_;                                            \
		AUTO_FREE char *text_ = print(p, old, new, 100, &hidden_); \
		CHECK_STR(text_, wanted);                                  \
		CHECK_EQ(hidden_, 0);                                      \
	} while (0)

TEST(a_key_on_both_sides_is_an_update_and_on_one_side_none)
{
	const struct pairs keyed = { .keyed = true };

	CHECK_PRINTED(keyed, ROWS("v1", "va"), ROWS("v1", "vb"), "u1:13:'a'1:13:'b'");
	CHECK_PRINTED(keyed, ROWS("v1", "va"), NULL, "d1:13:'a'");
	CHECK_PRINTED(keyed, NULL, ROWS("v1", "va"), "i1:13:'a'");
	CHECK_PRINTED(keyed, ROWS("v1", "va"), ROWS("v2", "va"), "d1:13:'a'i1:23:'a'");
}

TEST(what_is_the_same_on_both_sides_is_not_shown)
{
	const struct pairs keyed = { .keyed = true };

	CHECK_PRINTED(keyed, ROWS("v2", "-", "v1", "va"), ROWS("v1", "va", "v2", "-"), "");
	CHECK_PRINTED(keyed, ROWS("v1", "-"), ROWS("v1", "v"), "u1:14:NULL1:12:''");
}

TEST(keys_that_are_numbers_are_in_the_order_of_numbers)
{
	const struct pairs keyed = { .keyed = true };

	CHECK_PRINTED(keyed, NULL, ROWS("v10", "va", "v9", "va", "v-3", "va"), "i2:-33:'a'i1:93:'a'i2:103:'a'");
}

TEST(without_a_key_equal_rows_cancel_each_other_out_one_by_one)
{
	const struct pairs whole = { 0 };

	CHECK_PRINTED(whole, ROWS("v1", "va", "v1", "va"), ROWS("v1", "va"), "d1:13:'a'");
	CHECK_PRINTED(whole, ROWS("v1", "va"), ROWS("v1", "vb"), "d1:13:'a'i1:13:'b'");
}

TEST(what_is_not_known_whole_is_not_guessed)
{
	const struct pairs new_is_cut = { .keyed = true, .new_is_cut = true };
	const struct pairs old_is_cut = { .keyed = true, .old_is_cut = true };
	const struct pairs unknown = { .keyed = true, .old_unknown = true };

	CHECK_PRINTED(new_is_cut, ROWS("v1", "va", "v2", "va"), ROWS("v2", "vb"), "u1:23:'a'1:23:'b'");
	CHECK_PRINTED(old_is_cut, ROWS("v1", "va"), ROWS("v1", "vb", "v2", "vb"), "u1:13:'a'1:13:'b'");
	CHECK_PRINTED(unknown, NULL, ROWS("v1", "va"), "n1:13:'a'");
}

TEST(values_are_literals_and_a_cut_one_says_so)
{
	const struct pairs keyed = { .keyed = true };

	CHECK_PRINTED(keyed, NULL, ROWS("vNaN", "vit's"), "i5:'NaN'7:'it''s'");
	CHECK_PRINTED(keyed, NULL, ROWS("v1", "s5000 0123456789abcdef beg in"),
		      "i1:146:'beg in'… (5000 characters, md5 01234567…)");
}

TEST(no_more_are_shown_than_was_asked_for)
{
	size_t hidden = 0;
	AUTO_FREE char *text =
		print((struct pairs){ .keyed = true }, NULL, ROWS("v1", "va", "v2", "va", "v3", "va"), 1, &hidden);

	CHECK_STR(text, "i1:13:'a'");
	CHECK_EQ(hidden, 2);
}
