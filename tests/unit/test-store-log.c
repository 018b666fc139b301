/* SPDX-License-Identifier: Apache-2.0 */
/* The write-ahead log: laid out with zeros, which are an empty one, and made where there is none. */
#include "store-scene.h"

static off_t log_size(void)
{
	struct stat st;

	CHECK_OK(stat("atoll.db-wal", &st));
	return st.st_size;
}

static bool log_is_zeros(void)
{
	FILE *f = fopen("atoll.db-wal", "r");
	int c = 0;

	CHECK(f != NULL);
	while (f && (c = getc(f)) == 0)
		;
	if (f)
		fclose(f);
	return c == EOF;
}

static void add_box(const char *name)
{
	AUTO_STORE *s = scene_store();

	scene_box(s, name);
}

static void check_boxes(size_t wanted)
{
	AUTO_STORE *s = scene_store();
	struct store_sandbox *list = NULL;
	struct atoll_error err = { 0 };
	size_t n = 0;

	CHECK_DONE(store_sandbox_list(s, &list, &n, &err), err);
	CHECK_EQ(n, wanted);
	for (size_t i = 0; i < n; i++)
		store_sandbox_release(&list[i]);
	free(list);
}

TEST(of_a_new_store_the_log_is_laid_out_and_empty)
{
	store_close(scene_store());
	CHECK(log_size() > 64 * 4096);
	CHECK(log_is_zeros());
	check_boxes(0);
}

TEST(what_is_written_does_not_let_the_log_grow)
{
	off_t before;

	store_close(scene_store());
	before = log_size();
	add_box("one");
	add_box("two");
	CHECK_EQ(log_size(), before);
	CHECK(!log_is_zeros());
	check_boxes(2);
}

TEST(a_log_that_became_long_is_emptied_and_laid_out_again)
{
	size_t boxes = 0;

	store_close(scene_store());
	do {
		AUTO_FREE char *name = str_format("box-%zu", boxes++);

		add_box(name);
	} while (!log_is_zeros() && boxes < 1000);
	CHECK(boxes > 2 && boxes < 1000);
	CHECK(log_size() > 64 * 4096);
	check_boxes(boxes);
}

TEST(a_log_that_is_gone_is_made_again)
{
	store_close(scene_store());
	CHECK_OK(unlinkat(tap_dirfd, "atoll.db-wal", 0));
	add_box("one");
	check_boxes(1);
}

TEST(a_log_that_was_laid_out_in_part_is_as_good)
{
	store_close(scene_store());
	CHECK_OK(truncate("atoll.db-wal", 5000));
	add_box("one");
	check_boxes(1);
}
