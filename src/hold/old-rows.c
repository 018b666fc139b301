/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table that the transaction has deleted or replaced, as everybody else sees them still; rows.c says how they are found. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/rows.h"

#define LOOKED_AT_MAX 100000 /* marked rows */
#define PAGES_MAX 200000
#define BATCH 2000
#define PAGE "((t.ctid::text::point)[0])::bigint"

/* Marked by somebody since the transaction began. A mark of several is a number of another kind. */
static void add_is_marked(struct strbuf *sql, const struct relation *rel)
{
	strbuf_adds(sql, "t.xmax::text <> '0' AND (");
	relation_add_distance(sql, rel, "xmax");
	strbuf_adds(sql, " < 2147483648 OR mxid_age(t.xmax) BETWEEN 0 AND 2147483646) AND (");
	relation_add_distance(sql, rel, "xmin");
	strbuf_adds(sql, " >= 2147483648 OR txid_visible_in_snapshot(");
	relation_add_distance(sql, rel, "xmin");
	strbuf_addf(sql, " + %" PRIu64 ", '%s'))", rel->xid, relation_about(rel, ABOUT_SNAPSHOT));
}

/* The places of marked rows, and who made them; on these pages only, unless it is NULL. */
static int ask_marked(struct relation *rel, const char *pages, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "SELECT t.ctid, t.xmin FROM ONLY %s t WHERE ", rel->name);
	add_is_marked(&sql, rel);
	if (pages)
		strbuf_addf(&sql, " AND " PAGE " = ANY ('{%s}')", pages);
	strbuf_addf(&sql, " LIMIT %d", LOOKED_AT_MAX + 1);
	return sql.failed ? error_oom(err, "diff") : sides_ask(rel->s, false, strbuf_str(&sql), ret, err);
}

/* ---- very many rows that are locked, and few that are gone ---- */

static int ask_pages(struct relation *rel, bool inside, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_addf(&sql, "SELECT " PAGE " AS page, count(*), sum((t.ctid::text::point)[1]) FROM ONLY %s t WHERE ",
		    rel->name);
	add_is_marked(&sql, rel);
	strbuf_addf(&sql, " GROUP BY page ORDER BY page LIMIT %d", PAGES_MAX);
	return sql.failed ? error_oom(err, "diff") : sides_ask(rel->s, inside, strbuf_str(&sql), ret, err);
}

static bool is_same_page(const struct table *a, size_t i, const struct table *b, size_t k)
{
	return strcmp(table_value(a, i, 1), table_value(b, k, 1)) == 0 &&
	       strcmp(table_value(a, i, 2), table_value(b, k, 2)) == 0;
}

static long long page_of(const struct table *t, size_t i)
{
	return i < t->n_rows ? strtoll(table_value(t, i, 0), NULL, 10) : LLONG_MAX;
}

/* Pages on which not the same marked rows are seen on both sides: a row that is only locked is seen on both. */
static int find_pages(struct relation *rel, struct strbuf *ret, struct atoll_error *err)
{
	AUTO_TABLE outside = { 0 }, inside = { 0 };
	int r = ask_pages(rel, false, &outside, err);

	if (r >= 0)
		r = ask_pages(rel, true, &inside, err);
	rel->is_cut = outside.n_rows == PAGES_MAX || inside.n_rows == PAGES_MAX;
	for (size_t i = 0, k = 0; r >= 0 && i < outside.n_rows; i++) {
		while (page_of(&inside, k) < page_of(&outside, i))
			k++;
		if (page_of(&inside, k) != page_of(&outside, i) || !is_same_page(&outside, i, &inside, k))
			strbuf_addf(ret, "%s%lld", ret->size ? "," : "", page_of(&outside, i));
	}
	return r >= 0 && ret->failed ? error_oom(err, "diff") : r;
}

static int find_marked(struct relation *rel, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF pages = STRBUF_INIT;
	int r = ask_marked(rel, NULL, ret, err);

	if (r < 0 || ret->n_rows <= LOOKED_AT_MAX)
		return r;
	table_release(ret);
	r = find_pages(rel, &pages, err);
	return r < 0 ? r : ask_marked(rel, strbuf_str(&pages), ret, err);
}

/* ---- the rows themselves ---- */

static void add_array(struct strbuf *sql, const struct table *t, size_t column, size_t from, size_t to)
{
	strbuf_adds(sql, "'{");
	for (size_t i = from; i < to; i++)
		strbuf_addf(sql, "%s\"%s\"", i > from ? "," : "", table_value(t, i, column));
	strbuf_adds(sql, "}'");
}

static int compare_places(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of these places, those where inside nothing is seen: the others are taken out of the list, whose end is returned. */
static int keep_unseen(struct relation *rel, struct table *marked, size_t from, size_t *to, struct atoll_error *err)
{
	AUTO_TABLE seen = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;
	size_t kept = from;
	int r;

	strbuf_addf(&sql, "SELECT t.ctid FROM ONLY %s t WHERE t.ctid = ANY (", rel->name);
	add_array(&sql, marked, 0, from, *to);
	strbuf_adds(&sql, "::tid[])");
	r = sql.failed ? error_oom(err, "diff") : sides_ask(rel->s, true, strbuf_str(&sql), &seen, err);
	if (r < 0)
		return r;
	if (seen.n_rows)
		qsort(seen.values, seen.n_rows, sizeof *seen.values, compare_places);
	for (size_t i = from; i < *to; i++) {
		char **row = &marked->values[2 * i], **free_row = &marked->values[2 * kept];

		if (seen.n_rows && bsearch(row, seen.values, seen.n_rows, sizeof *row, compare_places))
			continue;
		for (size_t k = 0; k < 2 && kept != i; k++) {
			char *other = free_row[k];

			free_row[k] = row[k];
			row[k] = other;
		}
		kept++;
	}
	*to = kept;
	return 0;
}

/* Who made them is compared too: meanwhile the place could be somebody else's. */
static int ask_old(struct relation *rel, const struct table *marked, size_t from, size_t to, struct pairs *p,
		   struct atoll_error *err)
{
	AUTO_TABLE more = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	strbuf_adds(&sql, "SELECT ");
	relation_add_values(&sql, rel);
	strbuf_addf(&sql, " FROM ONLY %s t WHERE t.ctid = ANY (", rel->name);
	add_array(&sql, marked, 0, from, to);
	strbuf_adds(&sql, "::tid[]) AND t.xmin::text = ANY (");
	add_array(&sql, marked, 1, from, to);
	strbuf_adds(&sql, "::text[])");
	r = sql.failed ? error_oom(err, "diff") : sides_ask(rel->s, false, strbuf_str(&sql), &more, err);
	if (r >= 0)
		table_append(&p->old, &more);
	return r >= 0 && p->old.failed ? error_oom(err, "diff") : r;
}

int old_rows_collect(struct relation *rel, struct pairs *p, struct atoll_error *err)
{
	AUTO_TABLE marked = { 0 };
	int r = find_marked(rel, &marked, err);

	p->old_is_cut = marked.n_rows > LOOKED_AT_MAX || rel->is_cut;
	for (size_t at = 0; r >= 0 && at < marked.n_rows && p->old.n_rows <= FETCH_MAX; at += BATCH) {
		size_t to = MIN(at + BATCH, marked.n_rows);

		r = keep_unseen(rel, &marked, at, &to, err);
		if (r >= 0 && to > at)
			r = ask_old(rel, &marked, at, to, p, err);
	}
	p->old_is_cut = p->old_is_cut || p->old.n_rows > FETCH_MAX;
	return r;
}
