/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old and new rows of a table, brought together by their keys. A key that is on both sides is an update, or nothing where all values are the same;
 * one that is on one side only was inserted or deleted. Without a key the whole row is it: equal ones cancel each other out one by one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "hold/inside.h"

#define SUM_SHOWN 8

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789+-.eE") == strlen(text);
}

static void add_shortened(struct strbuf *s, const char *value)
{
	char *rest;
	long long length = strtoll(value, &rest, 10);
	const char *sum = *rest ? rest + 1 : rest, *text = strchr(sum, ' ');

	sides_add_literal(s, text ? text + 1 : "");
	strbuf_addf(s, "… (%lld characters, md5 %.*s…)", length, SUM_SHOWN, sum);
}

static void print_value(FILE *out, const struct column *c, const char *value)
{
	AUTO_STRBUF s = STRBUF_INIT;

	if (!value)
		strbuf_adds(&s, "NULL");
	else if (*value == 's')
		add_shortened(&s, value + 1);
	else if (c->category == 'B' && (strcmp(value, "vt") == 0 || strcmp(value, "vf") == 0))
		strbuf_adds(&s, value[1] == 't' ? "true" : "false");
	else if (c->category == 'N' && is_number(value + 1))
		strbuf_adds(&s, value + 1);
	else
		sides_add_literal(&s, value + 1);
	output_field(out, strbuf_str(&s));
}

static void print_side(FILE *out, const struct pairs *p, const struct table *t, size_t row)
{
	for (size_t i = 0; i < p->n_columns; i++)
		print_value(out, &p->columns[i], table_value(t, row, i));
}

/* ---- order ---- */

static int compare_values(const struct column *c, const char *a, const char *b)
{
	if (!a || !b)
		return (a ? 1 : 0) - (b ? 1 : 0);
	if (c->category == 'N' && is_number(a + 1) && is_number(b + 1)) {
		long double x = strtold(a + 1, NULL), y = strtold(b + 1, NULL);

		if (x < y || x > y)
			return x < y ? -1 : 1;
	}
	return strcmp(a, b);
}

static int compare_rows(const struct pairs *p, bool keys_only, char *const *a, char *const *b)
{
	int order = 0;

	for (size_t i = 0; i < p->n_columns && order == 0; i++)
		if (!keys_only || p->columns[i].key)
			order = compare_values(&p->columns[i], a[i], b[i]);
	return order;
}

static int compare_keys(const void *a, const void *b, void *arg)
{
	const struct pairs *p = arg;

	return compare_rows(p, p->keyed, a, b);
}

/* Its values lie row by row: a row is what is moved. */
static void sort(struct pairs *p, struct table *t)
{
	if (t->n_rows)
		qsort_r(t->values, t->n_rows, t->n_columns * sizeof *t->values, compare_keys, p);
}

/* ---- the walk ---- */

struct walk {
	struct pairs *p;
	FILE *out;
	size_t shown_max, shown, hidden;
};

static void show(struct walk *w, char kind, const size_t *old, const size_t *new)
{
	if (w->shown == w->shown_max) {
		w->hidden++;
		return;
	}
	w->shown++;
	putc(kind, w->out);
	if (old)
		print_side(w->out, w->p, &w->p->old, *old);
	if (new)
		print_side(w->out, w->p, &w->p->new, *new);
}

static void one_side(struct walk *w, size_t *old, size_t *new)
{
	if (old && !w->p->new_is_cut)
		show(w, 'd', old, NULL);
	if (new && !w->p->old_is_cut)
		show(w, w->p->old_unknown ? 'n' : 'i', NULL, new);
	if (old)
		++*old;
	if (new)
		++*new;
}

static void both_sides(struct walk *w, size_t *old, size_t *new)
{
	struct pairs *p = w->p;

	if (compare_rows(p, false, &p->old.values[*old * p->n_columns], &p->new.values[*new * p->n_columns]) != 0)
		show(w, 'u', old, new);
	++*old;
	++*new;
}

size_t pairs_print(struct pairs *p, FILE *out, size_t shown_max)
{
	struct walk w = { .p = p, .out = out, .shown_max = shown_max };
	size_t o = 0, n = 0;

	sort(p, &p->old);
	sort(p, &p->new);
	while (o < p->old.n_rows || n < p->new.n_rows) {
		int order = o == p->old.n_rows   ? 1
			    : n == p->new.n_rows ? -1
						 : compare_keys(&p->old.values[o * p->n_columns],
								&p->new.values[n * p->n_columns], p);

		if (order == 0)
			both_sides(&w, &o, &n);
		else
			one_side(&w, order < 0 ? &o : NULL, order < 0 ? NULL : &n);
	}
	return w.hidden;
}

void output_field(FILE *out, const char *text)
{
	fprintf(out, "%zu:%s", strlen(text), text);
}
