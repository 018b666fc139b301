/* SPDX-License-Identifier: Apache-2.0 */
/* Differential test of src/cli/patch.c: what patch(1) makes of our patches must be the new text, and diff(1) must not
 * need fewer lines than we do. */
#include "tap.h"

#include <stdint.h>

#include "base/strbuf.h"
#include "cli/patch.h"

static uint64_t random_state = 88172645463325252U;

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 11) % limit);
}

static void random_text(struct strbuf *s, unsigned lines, unsigned alphabet)
{
	for (unsigned i = 0; i < lines; i++)
		strbuf_addf(s, "line %u\n", random_below(alphabet));
	if (s->size > 0 && random_below(4) == 0)
		strbuf_truncate(s, s->size - 1);
}

/* A copy with about one line in `every` dropped, replaced or doubled. */
static void edit_text(struct strbuf *to, const struct strbuf *from, unsigned every)
{
	const char *p = strbuf_str(from), *end = p + from->size;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t size = newline ? (size_t)(newline - p) + 1 : (size_t)(end - p);
		unsigned what = random_below(every);

		if (what == 1)
			strbuf_addf(to, "new %u\n", random_below(50));
		if (what == 2)
			strbuf_adds(to, "\n");
		if (what != 0 && what != 1)
			strbuf_add(to, p, size);
		p += size;
	}
}

static bool write_file(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "we");
	bool ok = f && fwrite(data, 1, size, f) == size;

	return f && fclose(f) == 0 && ok;
}

static bool read_file(const char *path, struct strbuf *s)
{
	char buffer[65536];
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return false;
	while ((n = fread(buffer, 1, sizeof(buffer), f)) > 0)
		strbuf_add(s, buffer, n);
	return fclose(f) == 0 && !s->failed;
}

static int run(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool equal(const struct strbuf *a, const struct strbuf *b)
{
	return a->size == b->size && memcmp(strbuf_str(a), strbuf_str(b), a->size) == 0;
}

/* Applies our patch of old -> new to old and compares; in the current directory. */
static bool round_trip(const struct strbuf *old_text, const struct strbuf *new_text, struct patch *p)
{
	AUTO_STRBUF seen = STRBUF_INIT;
	FILE *f = fopen("p", "we");

	if (!f)
		return false;
	fputs("--- a/f\n+++ b/f\n", f);
	patch_print(p, f, &(struct patch_style){ 0 });
	if (fclose(f) != 0 || !write_file("f", strbuf_str(old_text), old_text->size))
		return false;
	if (p->added + p->removed > 0 && run("patch -s -p1 -i p >log 2>&1") != 0) {
		printf("# patch(1) refused\n");
		return false;
	}
	return read_file("f", &seen) && equal(&seen, new_text);
}

/* Lines that diff(1) --minimal removes and adds. */
static size_t reference_cost(const struct strbuf *old_text, const struct strbuf *new_text)
{
	AUTO_STRBUF seen = STRBUF_INIT;
	size_t cost = 0;

	if (!write_file("old", strbuf_str(old_text), old_text->size) ||
	    !write_file("new", strbuf_str(new_text), new_text->size))
		return SIZE_MAX;
	if (run("diff --minimal old new | grep -c '^[<>]' >count") > 1 || !read_file("count", &seen))
		return SIZE_MAX;
	cost = strtoul(strbuf_str(&seen), NULL, 10);
	return cost;
}

static bool try_pair(const struct strbuf *old_text, const struct strbuf *new_text, bool minimal)
{
	AUTO_PATCH p = { 0 };
	size_t cost;

	if (patch_init(&p, &(struct patch_text){ old_text->data, old_text->size },
		       &(struct patch_text){ new_text->data, new_text->size }) < 0)
		return false;
	if (!round_trip(old_text, new_text, &p))
		return false;
	if (!minimal)
		return true;
	cost = reference_cost(old_text, new_text);
	if (p.added + p.removed != cost)
		printf("# ours %zu, diff --minimal %zu\n", p.added + p.removed, cost);
	return p.added + p.removed == cost;
}

TEST(random_pairs_apply_and_are_minimal)
{
	bool ok = true;

	for (int i = 0; i < 250 && ok; i++) {
		AUTO_STRBUF a = STRBUF_INIT;
		AUTO_STRBUF b = STRBUF_INIT;

		random_text(&a, random_below(60), 1 + random_below(30));
		if (i % 2)
			random_text(&b, random_below(60), 1 + random_below(30));
		else
			edit_text(&b, &a, 4 + random_below(20));
		ok = try_pair(&a, &b, true);
		if (!ok)
			printf("# pair %d\n", i);
	}
	CHECK(ok);
}

TEST(long_text_with_few_changes_applies_and_is_minimal)
{
	AUTO_STRBUF a = STRBUF_INIT;
	AUTO_STRBUF b = STRBUF_INIT;

	random_text(&a, 50000, 100000);
	edit_text(&b, &a, 500);
	CHECK(try_pair(&a, &b, true));
}

TEST(costly_pair_falls_back_to_replacement)
{
	AUTO_STRBUF a = STRBUF_INIT;
	AUTO_STRBUF b = STRBUF_INIT;

	random_text(&a, 30000, 1000000);
	random_text(&b, 30000, 1000000);
	CHECK(try_pair(&a, &b, false));
}

static void check_prints(const char *old_text, const char *new_text, const char *wanted)
{
	AUTO_PATCH p = { 0 };
	AUTO_FREE char *seen = NULL;
	size_t size;
	FILE *f;

	CHECK_EQ(patch_init(&p, &(struct patch_text){ old_text, strlen(old_text) },
			    &(struct patch_text){ new_text, strlen(new_text) }),
		 0);
	f = open_memstream(&seen, &size);
	CHECK(f);
	patch_print(&p, f, &(struct patch_style){ .escape = true });
	CHECK_EQ(fclose(f), 0);
	CHECK_STR(seen, wanted);
}

TEST(equal_empty_texts_print_nothing)
{
	check_prints("", "", "");
}

TEST(equal_texts_print_nothing)
{
	check_prints("a\n", "a\n", "");
}

TEST(addition_to_nothing_starts_at_zero)
{
	check_prints("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
}

TEST(removal_of_all_ends_at_zero)
{
	check_prints("a\n", "", "@@ -1 +0,0 @@\n-a\n");
}

TEST(missing_newline_is_a_difference_and_said)
{
	check_prints("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

TEST(control_characters_are_escaped_when_asked)
{
	check_prints("", "\033[31m\302\233x\t\177\n", "@@ -0,0 +1 @@\n+^[[31m<U+009B>x\t^?\n");
}

TEST(what_is_no_utf8_and_changes_of_direction_are_named_when_asked)
{
	check_prints("", "a\xe2\x80\xae\xff\x9b\xc3\xbc\xc3\n", "@@ -0,0 +1 @@\n+a<U+202E><FF><9B>\xc3\xbc<C3>\n");
	check_prints("", "\xe2\x80", "@@ -0,0 +1 @@\n+<E2><80>\n\\ No newline at end of file\n");
}

TEST(changes_seven_lines_apart_make_two_hunks)
{
	check_prints("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
		     "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

TEST(changes_six_lines_apart_share_a_hunk)
{
	check_prints("1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
		     "@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n");
}
