/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts made of random segments, so that the text for each choice of changes is known without a
 * patch: it is put together from the same segments. Random texts with many equal lines, where a
 * choice of hunks must be what patch(1) makes of these hunks.
 */
#include "tap.h"

#include <stdint.h>

#include "base/strbuf.h"
#include "cli/patch-hunks.h"

static uint64_t random_state = 88172645463325252U;

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 11) % limit);
}

static int make_patch(struct patch *p, const struct strbuf *old_text, const struct strbuf *new_text)
{
	return patch_init(p, &(struct patch_text){ strbuf_str(old_text), old_text->size },
			  &(struct patch_text){ strbuf_str(new_text), new_text->size });
}

static bool equal(const struct strbuf *a, const struct strbuf *b)
{
	return a->size == b->size && memcmp(strbuf_str(a), strbuf_str(b), a->size) == 0;
}

static bool applies_to(const struct patch *p, const struct patch_hunks *h, const struct strbuf *wanted)
{
	AUTO_STRBUF seen = STRBUF_INIT;

	patch_hunks_apply(p, h, &seen);
	return !seen.failed && equal(&seen, wanted);
}

static void choose_all(struct patch_hunks *h, bool chosen)
{
	for (size_t i = 0; i < h->n; i++)
		h->v[i].chosen = chosen;
}

static bool split_all(const struct patch *p, struct patch_hunks *h)
{
	for (size_t i = 0; i < h->n;) {
		bool can = patch_hunks_can_split(p, &h->v[i]);
		int n = patch_hunks_split(p, h, i);

		if (n < 1 || can != (n > 1))
			return false;
		i += (size_t)n;
	}
	return true;
}

/* ---- segments ---- */

#define CHANGES 6

struct segments {
	struct strbuf equal[CHANGES + 1]; /* before, between and behind the changes */
	struct strbuf sides[CHANGES][2];
	unsigned gaps[CHANGES + 1]; /* lines of equal[] */
};

static void add_lines(struct strbuf *s, unsigned *number, unsigned n)
{
	static const char *const ends[] = { "\n", "\r\n", " \n" };

	for (unsigned i = 0; i < n; i++)
		strbuf_addf(s, "%u%s", ++*number, ends[random_below(ARRAY_SIZE(ends))]);
}

static void end_without_newline(struct strbuf *s)
{
	if (s->size > 0)
		strbuf_truncate(s, s->size - 1);
}

/* No line occurs twice, so that the hunks must be these changes. */
static void make_segments(struct segments *s)
{
	unsigned number = 0;

	*s = (struct segments){ 0 };
	for (unsigned i = 0; i <= CHANGES; i++) {
		s->gaps[i] = random_below(12) + (i > 0 && i < CHANGES);
		add_lines(&s->equal[i], &number, s->gaps[i]);
		for (unsigned side = 0; i < CHANGES && side < 2; side++)
			add_lines(&s->sides[i][side], &number, random_below(4) + (side && !s->sides[i][0].size));
	}
	if (random_below(2))
		end_without_newline(&s->equal[CHANGES]);
	for (unsigned side = 0; s->gaps[CHANGES] == 0 && side < 2; side++)
		if (random_below(2))
			end_without_newline(&s->sides[CHANGES - 1][side]);
}

static void release_segments(struct segments *s)
{
	for (unsigned i = 0; i <= CHANGES; i++) {
		strbuf_release(&s->equal[i]);
		for (unsigned side = 0; i < CHANGES && side < 2; side++)
			strbuf_release(&s->sides[i][side]);
	}
}

static void join(struct strbuf *to, const struct segments *s, const bool *chosen)
{
	strbuf_truncate(to, 0);
	for (unsigned i = 0; i <= CHANGES; i++) {
		strbuf_add(to, strbuf_str(&s->equal[i]), s->equal[i].size);
		if (i < CHANGES)
			strbuf_add(to, strbuf_str(&s->sides[i][chosen[i]]), s->sides[i][chosen[i]].size);
	}
}

/* Chooses hunks at random and returns which changes these are. */
static size_t choose_some(const struct segments *s, struct patch_hunks *h, bool is_split, bool *ret_chosen)
{
	size_t hunk = 0;

	for (size_t i = 0; i < h->n; i++)
		h->v[i].chosen = random_below(2);
	for (unsigned i = 0; i < CHANGES; i++) {
		hunk += i > 0 && (is_split || s->gaps[i] > 2 * PATCH_CONTEXT);
		if (hunk < h->n)
			ret_chosen[i] = h->v[hunk].chosen;
	}
	return hunk + 1;
}

static bool try_segments(const struct segments *s)
{
	static const bool none[CHANGES], all[CHANGES] = { true, true, true, true, true, true };
	AUTO_STRBUF old_text = STRBUF_INIT, new_text = STRBUF_INIT, wanted = STRBUF_INIT;
	AUTO_PATCH_HUNKS h = { 0 };
	AUTO_PATCH p = { 0 };
	bool chosen[CHANGES] = { false };

	join(&old_text, s, none);
	join(&new_text, s, all);
	if (make_patch(&p, &old_text, &new_text) < 0 || patch_hunks_find(&p, &h) < 0)
		return false;
	for (unsigned round = 0; round < 20; round++) {
		if (round == 10 && !split_all(&p, &h))
			return false;
		if (choose_some(s, &h, round >= 10, chosen) != h.n)
			return false;
		join(&wanted, s, chosen);
		if (!applies_to(&p, &h, &wanted))
			return false;
	}
	return true;
}

TEST(each_choice_of_hunks_is_the_text_put_together_from_its_segments)
{
	bool ok = true;

	for (int i = 0; i < 500 && ok; i++) {
		struct segments s;

		make_segments(&s);
		ok = try_segments(&s);
		release_segments(&s);
		if (!ok)
			printf("# text %d\n", i);
	}
	CHECK(ok);
}

/* ---- texts with many equal lines ---- */

static void random_text(struct strbuf *s, unsigned lines, unsigned alphabet)
{
	for (unsigned i = 0; i < lines; i++)
		strbuf_addf(s, "line %u\n", random_below(alphabet));
	if (s->size > 0 && random_below(4) == 0)
		strbuf_truncate(s, s->size - 1);
}

static bool write_file(const char *path, const struct strbuf *s)
{
	FILE *f = fopen(path, "we");
	bool ok = f && fwrite(strbuf_str(s), 1, s->size, f) == s->size;

	return f && fclose(f) == 0 && ok;
}

static bool read_file(const char *path, struct strbuf *s)
{
	char buffer[4096];
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return false;
	while ((n = fread(buffer, 1, sizeof(buffer), f)) > 0)
		strbuf_add(s, buffer, n);
	return fclose(f) == 0 && !s->failed;
}

/* Prints the chosen hunks and has patch(1) apply them; in the current directory. */
static bool patch_by_program(const struct patch *p, const struct patch_hunks *h, const struct strbuf *old_text,
			     struct strbuf *ret)
{
	FILE *f = fopen("p", "we");

	if (!f)
		return false;
	fputs("--- a/f\n+++ b/f\n", f);
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].chosen)
			patch_hunks_print(p, &h->v[i], f, &(struct patch_style){ 0 });
	if (fclose(f) != 0 || !write_file("f", old_text))
		return false;
	if (patch_hunks_chosen(h) > 0 && system("patch -s -p1 -i p >log 2>&1") != 0) {
		printf("# patch(1) refused\n");
		return false;
	}
	return read_file("f", ret);
}

static bool try_pair(const struct strbuf *old_text, const struct strbuf *new_text)
{
	AUTO_STRBUF wanted = STRBUF_INIT;
	AUTO_PATCH_HUNKS h = { 0 };
	AUTO_PATCH p = { 0 };

	if (make_patch(&p, old_text, new_text) < 0 || patch_hunks_find(&p, &h) < 0)
		return false;
	for (size_t i = 0; i < h.n; i++)
		h.v[i].chosen = random_below(2);
	if (!patch_by_program(&p, &h, old_text, &wanted) || !applies_to(&p, &h, &wanted))
		return false;
	for (int round = 0; round < 2; round++) {
		choose_all(&h, false);
		if (!applies_to(&p, &h, old_text))
			return false;
		choose_all(&h, true);
		if (!applies_to(&p, &h, new_text) || patch_hunks_chosen(&h) != h.n || !split_all(&p, &h))
			return false;
	}
	return applies_to(&p, &h, new_text);
}

TEST(all_hunks_make_the_new_text_none_the_old_and_some_what_patch_makes_of_them)
{
	bool ok = true;

	for (int i = 0; i < 250 && ok; i++) {
		AUTO_STRBUF a = STRBUF_INIT, b = STRBUF_INIT;

		random_text(&a, random_below(80), 1 + random_below(30));
		random_text(&b, random_below(80), 1 + random_below(30));
		ok = try_pair(&a, &b);
		if (!ok)
			printf("# pair %d\n", i);
	}
	CHECK(ok);
}

/* ---- single cases ---- */

static void check(const char *old_text, const char *new_text, size_t n_wanted, unsigned chosen, const char *wanted)
{
	AUTO_STRBUF seen = STRBUF_INIT;
	AUTO_PATCH_HUNKS h = { 0 };
	AUTO_PATCH p = { 0 };

	CHECK_EQ(patch_init(&p, &(struct patch_text){ old_text, strlen(old_text) },
			    &(struct patch_text){ new_text, strlen(new_text) }),
		 0);
	CHECK_EQ(patch_hunks_find(&p, &h), 0);
	CHECK(split_all(&p, &h));
	CHECK_EQ(h.n, n_wanted);
	for (size_t i = 0; i < h.n; i++)
		h.v[i].chosen = chosen >> i & 1;
	patch_hunks_apply(&p, &h, &seen);
	CHECK_STR(strbuf_str(&seen), wanted);
}

TEST(equal_texts_have_no_hunk)
{
	check("", "", 0, 0, "");
	check("a\n", "a\n", 0, 0, "a\n");
}

TEST(a_missing_newline_lands_only_with_its_hunk)
{
	check("a\nb\nc\n", "x\nb\nc", 2, 1, "x\nb\nc\n");
	check("a\nb\nc\n", "x\nb\nc", 2, 2, "a\nb\nc");
	check("a\nb\nc", "x\nb\nc\nd", 2, 1, "x\nb\nc");
	check("a\nb\nc", "x\nb\nc\nd", 2, 2, "a\nb\nc\nd");
}

TEST(line_ends_of_windows_stay)
{
	check("a\r\nb\r\nc\r\n", "x\r\nb\r\nc\n", 2, 1, "x\r\nb\r\nc\r\n");
	check("a\r\nb\r\nc\r\n", "x\r\nb\r\nc\n", 2, 2, "a\r\nb\r\nc\n");
}

TEST(a_text_that_is_emptied_or_new_has_one_hunk)
{
	check("a\nb\n", "", 1, 0, "a\nb\n");
	check("a\nb\n", "", 1, 1, "");
	check("", "a\nb", 1, 1, "a\nb");
}

static void check_prints(const char *old_text, const char *new_text, const char *wanted)
{
	AUTO_PATCH_HUNKS h = { 0 };
	AUTO_FREE char *seen = NULL;
	AUTO_PATCH p = { 0 };
	size_t size;
	FILE *f;

	CHECK_EQ(patch_init(&p, &(struct patch_text){ old_text, strlen(old_text) },
			    &(struct patch_text){ new_text, strlen(new_text) }),
		 0);
	CHECK_EQ(patch_hunks_find(&p, &h), 0);
	CHECK(split_all(&p, &h));
	f = open_memstream(&seen, &size);
	CHECK(f);
	for (size_t i = 0; i < h.n; i++)
		patch_hunks_print(&p, &h.v[i], f, &(struct patch_style){ 0 });
	CHECK_EQ(fclose(f), 0);
	CHECK_STR(seen, wanted);
}

TEST(the_context_of_a_part_ends_at_its_neighbours)
{
	check_prints("1\n2\n3\n4\n5\n", "1\nx\n3\ny\n5\n",
		     "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n@@ -3,3 +3,3 @@\n 3\n-4\n+y\n 5\n");
	check_prints("1\n2\n", "0\n1\n2\n3\n", "@@ -1,2 +1,3 @@\n+0\n 1\n 2\n@@ -1,2 +2,3 @@\n 1\n 2\n+3\n");
}
