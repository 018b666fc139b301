/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/patch-hunks.h"

#include <errno.h>
#include <string.h>

/* ---- finding ---- */

static bool is_at_change(const struct patch *p, size_t a, size_t b)
{
	return (a < p->old_side.n && p->old_side.lines[a].changed) ||
	       (b < p->new_side.n && p->new_side.lines[b].changed);
}

/* Moves the end of the hunk behind the changed lines there. Both texts then stand at equal lines, or
 * at their ends. */
static void take_changes(const struct patch *p, struct patch_hunk *hunk)
{
	while (hunk->a_end < p->old_side.n && p->old_side.lines[hunk->a_end].changed)
		hunk->a_end++;
	while (hunk->b_end < p->new_side.n && p->new_side.lines[hunk->b_end].changed)
		hunk->b_end++;
}

/* Returns the number of equal lines between the end of the hunk and the next change; SIZE_MAX if
 * no change follows, or not within `limit` lines. */
static size_t distance_to_next(const struct patch *p, const struct patch_hunk *hunk, size_t limit)
{
	for (size_t n = 0; n <= limit && hunk->a_end + n <= p->old_side.n; n++)
		if (is_at_change(p, hunk->a_end + n, hunk->b_end + n))
			return n;
	return SIZE_MAX;
}

/* Finds the next change from the end of the hunk on, and lets the hunk be this change alone. */
static bool next_change(const struct patch *p, struct patch_hunk *hunk)
{
	size_t distance = distance_to_next(p, hunk, p->old_side.n);

	if (distance == SIZE_MAX)
		return false;
	hunk->a = hunk->a_end += distance;
	hunk->b = hunk->b_end += distance;
	hunk->chosen = false;
	take_changes(p, hunk);
	return true;
}

bool patch_hunks_next(const struct patch *p, struct patch_hunk *hunk)
{
	size_t distance;

	if (!next_change(p, hunk))
		return false;
	while ((distance = distance_to_next(p, hunk, 2 * (size_t)PATCH_CONTEXT)) != SIZE_MAX) {
		hunk->a_end += distance;
		hunk->b_end += distance;
		take_changes(p, hunk);
	}
	return true;
}

/* Makes room for n more hunks behind hunk i. */
static int make_room(struct patch_hunks *h, size_t i, size_t n)
{
	struct patch_hunk *v = reallocarray(h->v, h->n + n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	h->v = v;
	memmove(v + i + n, v + i, (h->n - i) * sizeof(*v));
	h->n += n;
	return 0;
}

int patch_hunks_find(const struct patch *p, struct patch_hunks *ret)
{
	AUTO_PATCH_HUNKS found = { 0 };
	struct patch_hunk hunk = { 0 };

	while (patch_hunks_next(p, &hunk)) {
		if (make_room(&found, found.n, 1) < 0)
			return -ENOMEM;
		found.v[found.n - 1] = hunk;
	}
	*ret = found;
	found = (struct patch_hunks){ 0 };
	return 0;
}

void patch_hunks_release(struct patch_hunks *h)
{
	free(h->v);
	*h = (struct patch_hunks){ 0 };
}

/* ---- splitting ---- */

static size_t count_changes(const struct patch *p, const struct patch_hunk *hunk)
{
	struct patch_hunk at = { .a_end = hunk->a, .b_end = hunk->b };
	size_t n = 0;

	while ((at.a_end < hunk->a_end || at.b_end < hunk->b_end) && next_change(p, &at))
		n++;
	return n;
}

bool patch_hunks_can_split(const struct patch *p, const struct patch_hunk *hunk)
{
	return count_changes(p, hunk) > 1;
}

int patch_hunks_split(const struct patch *p, struct patch_hunks *h, size_t i)
{
	const struct patch_hunk whole = h->v[i];
	struct patch_hunk at = { .a_end = whole.a, .b_end = whole.b };
	size_t n = count_changes(p, &whole);

	if (n > 1 && make_room(h, i, n - 1) < 0)
		return -ENOMEM;
	for (size_t k = i; k < i + n && next_change(p, &at); k++) {
		h->v[k] = at;
		h->v[k].chosen = whole.chosen;
	}
	return (int)n;
}

/* ---- applying ---- */

size_t patch_hunks_chosen(const struct patch_hunks *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->v[i].chosen;
	return n;
}

static void add_lines(struct strbuf *s, const struct patch_side *side, size_t from, size_t end)
{
	for (size_t i = from; i < end; i++)
		strbuf_add(s, side->lines[i].data, side->lines[i].size);
}

/* No choice of hunks puts another line behind a line without newline. Such a line is the last of its
 * text, so no equal line follows it: the lines that the other text has there are in the same hunk. */
void patch_hunks_apply(const struct patch *p, const struct patch_hunks *h, struct strbuf *s)
{
	size_t at = 0;

	for (size_t i = 0; i < h->n; i++) {
		const struct patch_hunk *hunk = &h->v[i];

		add_lines(s, &p->old_side, at, hunk->a);
		if (hunk->chosen)
			add_lines(s, &p->new_side, hunk->b, hunk->b_end);
		else
			add_lines(s, &p->old_side, hunk->a, hunk->a_end);
		at = hunk->a_end;
	}
	add_lines(s, &p->old_side, at, p->old_side.n);
}
