/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the definitions that differ between the catalogs as the transaction sees them and as other
 * sessions do.
 *
 * There may be thousands of tables, of which the transaction has changed a few. So each side first
 * lists every object with a version that is cheap to compute. Names, definitions and facts are asked
 * for only of objects whose versions differ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/schema.h"

#define TRIES 3
#define KEYS_MAX 2000 /* of one question */

/* ---- lists ---- */

static void add_class(struct strbuf *sql, size_t i)
{
	const struct schema_class *c = &schema_classes[i];

	strbuf_addf(sql, "%sSELECT '%02zu', (%s)::text, (%s)::text, ", i ? " UNION ALL " : "", i, c->key,
		    c->parent ? c->parent : "''");
	if (c->version)
		strbuf_adds(sql, c->version);
	else
		strbuf_addf(sql, "md5(concat_ws(' ', %s, jsonb_build_object(%s)))", c->print, c->facts ? c->facts : "");
	strbuf_addf(sql, " FROM %s", c->from);
}

static int compare_values(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare(const void *a, const void *b)
{
	char *const *x = a, *const *y = b;
	int order = compare_values(x[SCHEMA_CLASS], y[SCHEMA_CLASS]);

	return order ? order : compare_values(x[SCHEMA_KEY], y[SCHEMA_KEY]);
}

void schema_sort(struct table *t)
{
	if (t->n_rows)
		qsort(t->values, t->n_rows, t->n_columns * sizeof *t->values, compare);
}

char *const *schema_find(const struct table *t, const char *const *key)
{
	return t->n_rows ? bsearch(key, t->values, t->n_rows, t->n_columns * sizeof *t->values, compare) : NULL;
}

static int list(struct schema *d, bool inside, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	for (size_t i = 0; i < schema_classes_count; i++)
		if (d->all || !schema_classes[i].needs)
			add_class(&sql, i);
	r = sql.failed ? error_oom(err, "diff") : sides_ask(d->s, inside, strbuf_str(&sql), ret, err);
	if (r >= 0 && ret->n_rows && ret->n_columns != SCHEMA_LISTED)
		return error_set(err, ATOLL_FAILED, 0, "diff", NULL, "the catalogs are not understood");
	schema_sort(ret);
	return r;
}

static bool is_same(const struct table *a, const struct table *b)
{
	size_t n = a->n_rows * SCHEMA_LISTED;

	for (size_t i = 0; i < n && a->n_rows == b->n_rows; i++)
		if (compare_values(a->values[i], b->values[i]) != 0)
			return false;
	return a->n_rows == b->n_rows;
}

/* ---- objects that differ ---- */

static char *const *row_of(const struct schema_item *item)
{
	return item->now ? item->now : item->was;
}

static const struct schema_class *class_of(char *const *row)
{
	return &schema_classes[strtoul(row[SCHEMA_CLASS], NULL, 10)];
}

/* Whether what it belongs to is there: tables have their class, and so have views. */
static bool has_parent(const struct table *t, const char *parent)
{
	for (size_t i = 0; i < schema_classes_count; i++) {
		char class[24];
		const char *const key[] = { class, parent };

		snprintf(class, sizeof class, "%02zu", i);
		if (schema_classes[i].is_parent && schema_find(t, key))
			return true;
	}
	return false;
}

static bool is_member(const struct table *t, char *const *row)
{
	const struct schema_class *c = class_of(row);

	for (size_t i = 0; c->catalog && i < schema_classes_count; i++) {
		char class[24], member[80];
		const char *const key[] = { class, member };

		snprintf(class, sizeof class, "%02zu", i);
		snprintf(member, sizeof member, "%s.%s", c->catalog, row[SCHEMA_KEY]);
		if (schema_classes[i].lists_members && schema_find(t, key))
			return true;
	}
	return false;
}

/* The diff lists an object that comes or goes with its parent only at the parent. An object that
 * has become a member of an extension is not dropped: its membership has a line of its own. */
static bool is_told_elsewhere(const struct schema *d, char *const *row, bool added)
{
	const struct schema_class *c = class_of(row);

	if (!added && is_member(&d->new, row))
		return true;
	if (!c->parent || !row[SCHEMA_PARENT])
		return false;
	return added ? c->with_parent && !has_parent(&d->old, row[SCHEMA_PARENT])
		     : !has_parent(&d->new, row[SCHEMA_PARENT]);
}

static void add_item(struct schema *d, char *const *now, char *const *was)
{
	bool was_member = !was && is_member(&d->old, now);

	d->items[d->n_items++] = (struct schema_item){ .now = now, .was = was, .was_member = was_member };
}

/* Lists the items in the order of the diff. */
static int list_items(struct schema *d, struct atoll_error *err)
{
	d->items = calloc(d->new.n_rows + d->old.n_rows + 1, sizeof *d->items);
	if (!d->items)
		return error_oom(err, "diff");
	for (size_t i = 0; i < d->new.n_rows; i++) {
		char *const *row = &d->new.values[i * SCHEMA_LISTED];
		char *const *before = schema_find(&d->old, (const char *const *)row);

		if (before ? compare_values(row[SCHEMA_VERSION], before[SCHEMA_VERSION]) != 0
			   : !is_told_elsewhere(d, row, true))
			add_item(d, row, before);
	}
	for (size_t i = 0; i < d->old.n_rows; i++) {
		char *const *row = &d->old.values[i * SCHEMA_LISTED];

		if (!schema_find(&d->new, (const char *const *)row) && !is_told_elsewhere(d, row, false))
			add_item(d, NULL, row);
	}
	return 0;
}

/* ---- questions about them ---- */

static int ask_class(struct schema *d, bool inside, const struct schema_class *c, schema_columns *add_columns,
		     const char *keys, struct table *ret, struct atoll_error *err)
{
	AUTO_TABLE found = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	strbuf_addf(&sql, "SELECT '%02zu', (%s)::text, ", (size_t)(c - schema_classes), c->key);
	add_columns(&sql, c);
	strbuf_addf(&sql, " FROM %s%s(%s)::text IN (SELECT unnest('{%s}'::text[]))", c->from,
		    strstr(c->from, " WHERE ") ? " AND " : " WHERE ", c->key, keys);
	r = sql.failed ? error_oom(err, "diff") : sides_ask(d->s, inside, strbuf_str(&sql), &found, err);
	if (r >= 0)
		table_append(ret, &found);
	return r >= 0 && ret->failed ? error_oom(err, "diff") : r;
}

/* Adds the keys of items from *at on: of one class, and not too many of them. */
static void take_keys(const struct schema *d, bool (*is_wanted)(const struct schema_item *), size_t *at,
		      struct strbuf *keys)
{
	const struct schema_class *c = class_of(row_of(&d->items[*at]));

	for (size_t n = 0; n < KEYS_MAX && *at < d->n_items && class_of(row_of(&d->items[*at])) == c; ++*at)
		if (is_wanted(&d->items[*at]))
			strbuf_addf(keys, "%s%s", n++ ? "," : "", row_of(&d->items[*at])[SCHEMA_KEY]);
}

int schema_ask(struct schema *d, bool inside, schema_columns *add_columns,
	       bool (*is_wanted)(const struct schema_item *), struct table *ret, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < d->n_items && r >= 0;) {
		AUTO_STRBUF keys = STRBUF_INIT;
		const struct schema_class *c = class_of(row_of(&d->items[i]));

		take_keys(d, is_wanted, &i, &keys);
		if (keys.size)
			r = ask_class(d, inside, c, add_columns, strbuf_str(&keys), ret, err);
	}
	schema_sort(ret);
	return r;
}

static void add_details(struct strbuf *sql, const struct schema_class *c)
{
	strbuf_addf(sql, "%s, %s, jsonb_build_object(%s)::text, %s", c->label, c->print, c->facts ? c->facts : "",
		    c->drop);
}

static bool is_inside(const struct schema_item *item)
{
	return item->now;
}

static bool is_outside(const struct schema_item *item)
{
	return item->was;
}

static int ask_details(struct schema *d, struct atoll_error *err)
{
	int r = schema_ask(d, true, add_details, is_inside, &d->new_details, err);

	if (r >= 0)
		r = schema_ask(d, false, add_details, is_outside, &d->old_details, err);
	for (size_t i = 0; r >= 0 && i < d->n_items; i++) {
		struct schema_item *item = &d->items[i];

		if (item->now)
			item->now_details = schema_find(&d->new_details, (const char *const *)item->now);
		if (item->was)
			item->was_details = schema_find(&d->old_details, (const char *const *)item->was);
	}
	return r;
}

/* ---- both sides ---- */

void schema_release(struct schema *d)
{
	table_release(&d->old);
	table_release(&d->new);
	table_release(&d->old_details);
	table_release(&d->new_details);
	free(d->items);
	d->items = NULL;
	d->n_items = 0;
}

static int compare_once(struct schema *d, bool *ret_same, struct atoll_error *err)
{
	AUTO_TABLE after = { 0 };
	int r = list(d, false, &d->old, err);

	if (r >= 0)
		r = list(d, true, &d->new, err);
	if (r >= 0)
		r = list_items(d, err);
	if (r >= 0)
		r = ask_details(d, err);
	if (r >= 0)
		r = list(d, false, &after, err);
	*ret_same = is_same(&d->old, &after);
	return r;
}

/* Definitions that other sessions change meanwhile must not look like the sandbox's: if the list
 * outside has changed in between, all is compared again. */
int schema_compare(struct schema *d, struct atoll_error *err)
{
	bool same = false;
	int r = 0;

	for (int i = 0; i < TRIES && r >= 0 && !same; i++) {
		schema_release(d);
		r = compare_once(d, &same, err);
	}
	return r < 0 || same ? r
			     : error_set(err, ATOLL_BUSY, 0, "diff", NULL, "others are changing definitions just now");
}
