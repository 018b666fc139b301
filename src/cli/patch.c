/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines are first numbered by class, so that comparing two is comparing two integers; equal heads and tails are cut
 * off; the rest is halved at the middle of a shortest edit path until nothing is left to compare.
 */
#include "cli/patch.h"

#include <string.h>

/* ---- Lines and their classes ------------------------------------------------------------------------------------- */

static size_t count_lines(const struct patch_text *text)
{
	const char *p = text->data, *end = text->size > 0 ? text->data + text->size : p;
	size_t n = 0;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));

		n++;
		p = newline ? newline + 1 : end;
	}
	return n;
}

static int split(struct patch_side *side, const struct patch_text *text)
{
	const char *p = text->data, *end = text->size > 0 ? text->data + text->size : p;
	size_t n = count_lines(text);

	if (n > INT32_MAX / 2)
		return -EFBIG;
	side->lines = calloc(n + 1, sizeof(*side->lines));
	if (!side->lines)
		return -ENOMEM;
	for (side->n = 0; side->n < n; side->n++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *next = newline ? newline + 1 : end;

		side->lines[side->n] = (struct patch_line){ .data = p, .size = (size_t)(next - p) };
		p = next;
	}
	return 0;
}

static uint64_t hash(const char *data, size_t size)
{
	uint64_t h = 0xcbf29ce484222325U;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)data[i]) * 0x100000001b3U;
	return h ^ (h >> 29);
}

struct classes {
	const struct patch_line **slots;
	size_t mask;
	uint32_t n;
};

static void classify(struct classes *c, struct patch_side *side)
{
	for (size_t i = 0; i < side->n; i++) {
		struct patch_line *line = &side->lines[i];
		size_t at = hash(line->data, line->size) & c->mask;
		const struct patch_line *other;

		while ((other = c->slots[at]) &&
		       (other->size != line->size || memcmp(other->data, line->data, line->size) != 0))
			at = (at + 1) & c->mask;
		if (other) {
			line->class = other->class;
		} else {
			line->class = c->n++;
			c->slots[at] = line;
		}
	}
}

static int number_lines(struct patch *p)
{
	AUTO_FREE const struct patch_line **slots = NULL;
	size_t size = 64;

	while (size < 2 * (p->old_side.n + p->new_side.n))
		size *= 2;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	struct classes c = { .slots = slots, .mask = size - 1 };

	classify(&c, &p->old_side);
	classify(&c, &p->new_side);
	return 0;
}

/* ---- Myers ------------------------------------------------------------------------------------------------------- */

/* The part of both texts that is being compared: [a, a_end) against [b, b_end). */
struct box {
	long a, a_end, b, b_end;
};

struct search {
	struct patch_line *old_lines, *new_lines;
	long *forward, *backward; /* furthest point by diagonal, offset by `middle` */
	long middle;
};

static bool same(const struct search *s, long a, long b)
{
	return s->old_lines[a].class == s->new_lines[b].class;
}

/* Whether the furthest points of both searches, on one diagonal and inside the box, have met. */
static bool met(const struct box *box, long x, long y, long back_x, long back_y)
{
	long n = box->a_end - box->a, m = box->b_end - box->b;

	return x + back_x >= n && x <= n && y <= m && y >= 0 && back_x <= n && back_y <= m && back_y >= 0;
}

/* One step further from the start, on all diagonals that d edits reach. True when it met the path from the end. */
static bool search_forward(struct search *s, const struct box *box, long d, long *ret_a, long *ret_b)
{
	long n = box->a_end - box->a, m = box->b_end - box->b, delta = n - m;
	long *v = s->forward + s->middle, *w = s->backward + s->middle;

	for (long k = -d; k <= d; k += 2) {
		long x = k == -d || (k != d && v[k - 1] < v[k + 1]) ? v[k + 1] : v[k - 1] + 1;
		long y = x - k;

		while (x >= 0 && y >= 0 && x < n && y < m && same(s, box->a + x, box->b + y)) {
			x++;
			y++;
		}
		v[k] = x;
		if ((delta & 1) && labs(delta - k) < d && met(box, x, y, w[delta - k], w[delta - k] - delta + k)) {
			*ret_a = box->a + x;
			*ret_b = box->b + y;
			return true;
		}
	}
	return false;
}

/* The same from the end; diagonals are counted from there. */
static bool search_backward(struct search *s, const struct box *box, long d, long *ret_a, long *ret_b)
{
	long n = box->a_end - box->a, m = box->b_end - box->b, delta = n - m;
	long *v = s->forward + s->middle, *w = s->backward + s->middle;

	for (long k = -d; k <= d; k += 2) {
		long x = k == -d || (k != d && w[k - 1] < w[k + 1]) ? w[k + 1] : w[k - 1] + 1;
		long y = x - k;

		while (x >= 0 && y >= 0 && x < n && y < m && same(s, box->a_end - 1 - x, box->b_end - 1 - y)) {
			x++;
			y++;
		}
		w[k] = x;
		if (!(delta & 1) && labs(delta - k) <= d && met(box, v[delta - k], v[delta - k] - delta + k, x, y)) {
			*ret_a = box->a_end - x;
			*ret_b = box->b_end - y;
			return true;
		}
	}
	return false;
}

/* A point on a shortest edit path, about half-way. False if the path is longer than the limit. */
static bool find_middle(struct search *s, const struct box *box, long *ret_a, long *ret_b)
{
	s->forward[s->middle + 1] = 0;
	s->backward[s->middle + 1] = 0;
	for (long d = 0; d <= PATCH_COST_LIMIT / 2; d++)
		if (search_forward(s, box, d, ret_a, ret_b) || search_backward(s, box, d, ret_a, ret_b))
			return true;
	return false;
}

static void mark(struct search *s, const struct box *box)
{
	for (long a = box->a; a < box->a_end; a++)
		s->old_lines[a].changed = true;
	for (long b = box->b; b < box->b_end; b++)
		s->new_lines[b].changed = true;
}

/* Each half needs at most half the edits, so the depth of recursion is the limit's logarithm. */
static void compare(struct search *s, struct box box)
{
	long a, b;

	while (box.a < box.a_end && box.b < box.b_end && same(s, box.a, box.b)) {
		box.a++;
		box.b++;
	}
	while (box.a < box.a_end && box.b < box.b_end && same(s, box.a_end - 1, box.b_end - 1)) {
		box.a_end--;
		box.b_end--;
	}
	if (box.a == box.a_end || box.b == box.b_end || !find_middle(s, &box, &a, &b) || (a == box.a && b == box.b) ||
	    (a == box.a_end && b == box.b_end)) {
		mark(s, &box);
		return;
	}
	compare(s, (struct box){ box.a, a, box.b, b });
	compare(s, (struct box){ a, box.a_end, b, box.b_end });
}

static int find_changes(struct patch *p)
{
	AUTO_FREE long *vectors = NULL;
	size_t width = PATCH_COST_LIMIT + 8;
	struct search s = { .old_lines = p->old_side.lines, .new_lines = p->new_side.lines };

	vectors = calloc(2 * width, sizeof(*vectors));
	if (!vectors)
		return -ENOMEM;
	s.forward = vectors;
	s.backward = vectors + width;
	s.middle = (long)(width / 2);
	compare(&s, (struct box){ 0, (long)p->old_side.n, 0, (long)p->new_side.n });
	for (size_t i = 0; i < p->old_side.n; i++)
		p->removed += p->old_side.lines[i].changed;
	for (size_t i = 0; i < p->new_side.n; i++)
		p->added += p->new_side.lines[i].changed;
	return 0;
}

int patch_init(struct patch *p, const struct patch_text *old_text, const struct patch_text *new_text)
{
	AUTO_PATCH made = { 0 };
	int r;

	r = split(&made.old_side, old_text);
	if (r >= 0)
		r = split(&made.new_side, new_text);
	if (r >= 0)
		r = number_lines(&made);
	if (r >= 0)
		r = find_changes(&made);
	if (r < 0)
		return r;
	*p = made;
	made = (struct patch){ 0 };
	return 0;
}

void patch_release(struct patch *p)
{
	free(p->old_side.lines);
	free(p->new_side.lines);
	*p = (struct patch){ 0 };
}
