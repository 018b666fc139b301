/* SPDX-License-Identifier: Apache-2.0 */
/* What the transaction has defined, changed and dropped: the catalogs as they are seen inside, beside what everybody else sees. */
#include "hold/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/inside.h"

#define TOLD_MAX 200
#define SQL_SHOWN 4000
#define TRIES 3

enum { CLASS, KEY, PARENT, LABEL, PRINT, FACTS, DROP, N_COLUMNS };

struct schema {
	struct sides *s;
	struct table old, new; /* in the order of class and key */
	bool all;              /* the role may read every catalog that a class needs */
	size_t told;
};

static void add_class(struct strbuf *sql, size_t i)
{
	const struct schema_class *c = &schema_classes[i];

	strbuf_addf(sql, "%sSELECT '%02zu', (%s)::text, (%s)::text, %s, %s, jsonb_build_object(%s)::text, %s FROM %s",
		    i ? " UNION ALL " : "", i, c->key, c->parent ? c->parent : "''", c->label, c->print,
		    c->facts ? c->facts : "", c->drop, c->from);
}

static int load(struct schema *d, bool inside, struct table *ret, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	for (size_t i = 0; i < schema_classes_count; i++)
		if (d->all || !schema_classes[i].needs)
			add_class(&sql, i);
	r = sql.failed ? error_oom(err, "diff") : sides_ask(d->s, inside, strbuf_str(&sql), ret, err);
	if (r >= 0 && ret->n_rows && ret->n_columns != N_COLUMNS)
		return error_set(err, ATOLL_FAILED, 0, "diff", NULL, "the catalogs are not understood");
	return r;
}

static int compare_values(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare(const void *a, const void *b)
{
	char *const *x = a, *const *y = b;
	int order = compare_values(x[CLASS], y[CLASS]);

	return order ? order : compare_values(x[KEY], y[KEY]);
}

static char *const *find(const struct table *t, const char *const *key)
{
	return t->n_rows ? bsearch(key, t->values, t->n_rows, N_COLUMNS * sizeof *t->values, compare) : NULL;
}

/* Whether what it belongs to is there: tables have their class, and so have views. */
static bool has_parent(const struct table *t, const char *parent)
{
	for (size_t i = 0; i < schema_classes_count; i++) {
		char class[24];
		const char *const key[N_COLUMNS] = { class, parent };

		snprintf(class, sizeof class, "%02zu", i);
		if (schema_classes[i].is_parent && find(t, key))
			return true;
	}
	return false;
}

/* It comes or goes with its parent, and is told there. */
static bool is_told_elsewhere(const struct schema *d, char *const *row, bool added)
{
	const struct schema_class *c = &schema_classes[strtoul(row[CLASS], NULL, 10)];

	if (!c->parent || !row[PARENT])
		return false;
	return added ? c->with_parent && !has_parent(&d->old, row[PARENT]) : !has_parent(&d->new, row[PARENT]);
}

/* On one line: whatever is white becomes one space. */
static void add_line(struct strbuf *s, const char *sql)
{
	for (const char *p = sql; *p && s->size < SQL_SHOWN; p++) {
		bool white = strchr(" \t\r\n\f\v", *p) != NULL;

		if (!white)
			strbuf_addc(s, *p);
		else if (s->size && s->data[s->size - 1] != ' ')
			strbuf_addc(s, ' ');
	}
	if (s->size >= SQL_SHOWN)
		strbuf_adds(s, "…");
}

/* The words for it, by the server, inside. */
static int word(struct schema *d, char *const *row, bool added, struct strbuf *ret, struct atoll_error *err)
{
	const struct schema_class *c = &schema_classes[strtoul(row[CLASS], NULL, 10)];
	AUTO_TABLE found = { 0 };
	AUTO_FREE char *sql = str_format("SELECT %s FROM %s%s(%s)::text = '%s'",
					 added || !c->alter ? c->create : c->alter, c->from,
					 strstr(c->from, " WHERE ") ? " AND " : " WHERE ", c->key, row[KEY]);
	int r = sql ? sides_ask(d->s, true, sql, &found, err) : error_oom(err, "diff");

	if (r >= 0 && found.n_rows == 1 && table_value(&found, 0, 0))
		add_line(ret, table_value(&found, 0, 0));
	return r;
}

static void add_literal(struct strbuf *sql, const char *text)
{
	strbuf_adds(sql, "'");
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_addc(sql, '\'');
		strbuf_addc(sql, *text);
	}
	strbuf_adds(sql, "'");
}

/* What differs between the facts of both sides. Of a new one the owner is told only if it is not who has made it. */
static int add_facts(struct schema *d, char *const *row, char *const *before, struct strbuf *note,
		     struct atoll_error *err)
{
	AUTO_TABLE found = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	strbuf_adds(&sql, "SELECT string_agg(concat(key, ' ', COALESCE(n.value, w.unset), ");
	strbuf_adds(&sql, before ? "' (was ' || COALESCE(o.value, w.unset) || ')'), " : "''), ");
	strbuf_adds(&sql, "', ' ORDER BY key) FROM jsonb_each_text(");
	add_literal(&sql, row[FACTS] ? row[FACTS] : "{}");
	strbuf_adds(&sql, ") n FULL JOIN jsonb_each_text(");
	add_literal(&sql, before && before[FACTS] ? before[FACTS] : "{}");
	strbuf_adds(
		&sql,
		") o USING (key), LATERAL (SELECT CASE WHEN key IN ('partition of', 'inherits', 'generated', 'identity', "
		"'clustered on', 'owned by', 'of type') THEN 'none' "
		"ELSE 'default' END AS unset) w WHERE n.value IS DISTINCT FROM o.value");
	if (!before)
		strbuf_adds(&sql,
			    " AND key <> 'partition of' AND (key <> 'owner' OR n.value <> quote_ident(session_user))");
	r = sql.failed ? error_oom(err, "diff") : sides_ask(d->s, true, strbuf_str(&sql), &found, err);
	if (r < 0 || found.n_rows != 1 || !table_value(&found, 0, 0))
		return r;
	if (note->size)
		strbuf_adds(note, "; ");
	add_line(note, table_value(&found, 0, 0));
	return 0;
}

static void tell(char kind, const char *label, const struct strbuf *note)
{
	putchar(kind);
	output_field(stdout, label ? label : "");
	output_field(stdout, strbuf_str(note));
}

static int tell_new(struct schema *d, char *const *row, char *const *before, struct atoll_error *err)
{
	AUTO_STRBUF note = STRBUF_INIT;
	int r;

	if (d->told++ >= TOLD_MAX)
		return 0;
	/* A definition is put into words where it has changed; the rest is told by what has. */
	r = before && compare_values(before[PRINT], row[PRINT]) == 0 ? 0 : word(d, row, !before, &note, err);
	if (r >= 0)
		r = add_facts(d, row, before, &note, err);
	if (r < 0)
		return r;
	if (before && compare_values(before[LABEL], row[LABEL]) != 0)
		strbuf_addf(&note, "; was %s", before[LABEL]);
	tell(before ? 'm' : 'a', row[LABEL], &note);
	return 0;
}

static void tell_dropped(struct schema *d, char *const *row)
{
	AUTO_STRBUF note = STRBUF_INIT;

	if (d->told++ >= TOLD_MAX)
		return;
	strbuf_adds(&note, row[DROP] ? row[DROP] : "");
	tell('d', row[LABEL], &note);
}

static bool is_other(char *const *row, char *const *before)
{
	return compare_values(before[PRINT], row[PRINT]) != 0 || compare_values(before[FACTS], row[FACTS]) != 0;
}

static int tell_all(struct schema *d, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < d->new.n_rows &&r >= 0; i++) {
		char *const *row = &d->new.values[i * N_COLUMNS];
		char *const *before = find(&d->old, (const char *const *)row);

		if (before ? is_other(row, before) : !is_told_elsewhere(d, row, true))
			r = tell_new(d, row, before, err);
	}
	for (size_t i = 0; i < d->old.n_rows && r >= 0; i++) {
		char *const *row = &d->old.values[i * N_COLUMNS];

		if (!find(&d->new, (const char *const *)row) && !is_told_elsewhere(d, row, false))
			tell_dropped(d, row);
	}
	return r;
}

static void sort(struct table *t)
{
	if (t->n_rows)
		qsort(t->values, t->n_rows, N_COLUMNS * sizeof *t->values, compare);
}

static bool is_same(const struct table *a, const struct table *b)
{
	size_t n = a->n_rows * N_COLUMNS;

	for (size_t i = 0; i < n && a->n_rows == b->n_rows; i++)
		if (compare_values(a->values[i], b->values[i]) != 0)
			return false;
	return a->n_rows == b->n_rows;
}

/* What others define meanwhile must not look like the sandbox's doing: outside it is the same before and after, or it is done again. */
static int load_both(struct schema *d, struct atoll_error *err)
{
	bool same = false;
	int r = 0;

	for (int i = 0; i < TRIES && r >= 0 && !same; i++) {
		AUTO_TABLE after = { 0 };

		table_release(&d->old);
		table_release(&d->new);
		r = load(d, false, &d->old, err);
		if (r >= 0)
			r = load(d, true, &d->new, err);
		if (r >= 0)
			r = load(d, false, &after, err);
		sort(&d->old);
		sort(&d->new);
		sort(&after);
		same = is_same(&d->old, &after);
	}
	return r < 0 || same ? r
			     : error_set(err, ATOLL_BUSY, 0, "diff", NULL, "others are changing definitions just now");
}

static int find_rights(struct schema *d, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	int r = 0;

	strbuf_adds(&sql, "SELECT true");
	for (size_t i = 0; i < schema_classes_count; i++)
		if (schema_classes[i].needs)
			strbuf_addf(&sql, " AND has_table_privilege('%s', 'SELECT')", schema_classes[i].needs);
	d->all = true;
	for (int inside = 0; inside < 2 && r >= 0; inside++) {
		AUTO_TABLE found = { 0 };

		r = sql.failed ? error_oom(err, "diff") : sides_ask(d->s, inside, strbuf_str(&sql), &found, err);
		d->all = d->all && r >= 0 && found.n_rows == 1 && *table_value(&found, 0, 0) == 't';
	}
	return r;
}

/* With another isolation level the catalogs inside are those of long ago, and others' work would look like the sandbox's. */
static int check_isolation(struct sides *s, struct atoll_error *err)
{
	AUTO_TABLE level = { 0 };
	int r = sides_ask(s, true, "SHOW transaction_isolation", &level, err);

	if (r < 0 || (level.n_rows == 1 && strcmp(table_value(&level, 0, 0), "read committed") == 0))
		return r;
	return error_set(err, ATOLL_UNSUPPORTED, 0, "diff", NULL, "the isolation level of the transaction is %s",
			 level.n_rows == 1 ? table_value(&level, 0, 0) : "unknown");
}

static int print_definitions(struct sides *s, struct atoll_error *err)
{
	struct schema d = { .s = s };
	int r = check_isolation(s, err);

	if (r >= 0)
		r = find_rights(&d, err);
	if (r >= 0)
		r = load_both(&d, err);
	if (r >= 0)
		r = tell_all(&d, err);
	if (d.told > TOLD_MAX) {
		AUTO_STRBUF note = STRBUF_INIT;

		strbuf_addf(&note, "%zu more definitions are not listed", d.told - TOLD_MAX);
		tell('m', "more", &note);
	}
	table_release(&d.old);
	table_release(&d.new);
	return r < 0 ? r : catalogs_print(s, err);
}

/* Tables that were emptied are told also where definitions cannot be compared. */
int schema_print(struct sides *s, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int r = rewritten_print(s, err);

	if (r >= 0 && print_definitions(s, &why) < 0) {
		putchar('x');
		output_field(stdout, why.message);
	}
	putchar('.');
	return r;
}
