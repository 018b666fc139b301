/* SPDX-License-Identifier: Apache-2.0 */
/* What the transaction has defined, changed and dropped: the catalogs as they are seen inside, beside what everybody else sees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/schema.h"

#define TOLD_MAX 200
#define SQL_SHOWN 4000

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

/* ---- words, by the server, inside ---- */

static void add_create(struct strbuf *sql, const struct schema_class *c)
{
	strbuf_adds(sql, c->create);
}

static void add_alter(struct strbuf *sql, const struct schema_class *c)
{
	strbuf_adds(sql, c->alter ? c->alter : c->create);
}

static bool differs(const struct schema_item *item, size_t column)
{
	const char *a = item->now_details[column], *b = item->was_details[column];

	return strcmp(a ? a : "", b ? b : "") != 0;
}

static bool is_new(const struct schema_item *item)
{
	return item->told && !item->was;
}

/* Whether the definition itself changed. If only other facts changed, the diff lists those. */
static bool is_altered(const struct schema_item *item)
{
	return item->told && item->now && item->was && differs(item, SCHEMA_PRINT);
}

static int find_words(struct schema *d, struct table *ret, struct atoll_error *err)
{
	AUTO_TABLE altered = { 0 };
	int r = schema_ask(d, true, add_alter, is_altered, &altered, err);

	if (r >= 0)
		r = schema_ask(d, true, add_create, is_new, ret, err);
	if (r < 0)
		return r;
	table_append(ret, &altered);
	schema_sort(ret);
	return ret->failed ? error_oom(err, "diff") : 0;
}

/* ---- facts ---- */

/* What differs between the facts of both sides. Of a new one the owner is told only if it is not who has made it. */
static int add_facts(struct schema *d, const struct schema_item *item, struct strbuf *note, struct atoll_error *err)
{
	const char *now = item->now_details[SCHEMA_FACTS];
	const char *before = item->was ? item->was_details[SCHEMA_FACTS] : NULL;
	AUTO_TABLE found = { 0 };
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	strbuf_adds(&sql, "SELECT string_agg(concat(key, ' ', COALESCE(n.value, w.unset), ");
	strbuf_adds(&sql, before ? "' (was ' || COALESCE(o.value, w.unset) || ')'), " : "''), ");
	strbuf_adds(&sql, "', ' ORDER BY key) FROM jsonb_each_text(");
	sides_add_literal(&sql, now ? now : "{}");
	strbuf_adds(&sql, ") n FULL JOIN jsonb_each_text(");
	sides_add_literal(&sql, before ? before : "{}");
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

/* ---- telling ---- */

static void tell(char kind, const char *label, const struct strbuf *note)
{
	putchar(kind);
	output_field(stdout, label ? label : "");
	output_field(stdout, strbuf_str(note));
}

static int tell_new(struct schema *d, const struct schema_item *item, const struct table *words,
		    struct atoll_error *err)
{
	AUTO_STRBUF note = STRBUF_INIT;
	char *const *word = schema_find(words, (const char *const *)item->now);
	int r;

	if (word && word[SCHEMA_WORD])
		add_line(&note, word[SCHEMA_WORD]);
	r = add_facts(d, item, &note, err);
	if (r < 0)
		return r;
	if (item->was && differs(item, SCHEMA_LABEL))
		strbuf_addf(&note, "; was %s", item->was_details[SCHEMA_LABEL]);
	tell(item->was || item->was_member ? 'm' : 'a', item->now_details[SCHEMA_LABEL], &note);
	return 0;
}

static void tell_dropped(const struct schema_item *item)
{
	AUTO_STRBUF note = STRBUF_INIT;

	strbuf_adds(&note, item->was_details[SCHEMA_DROP] ? item->was_details[SCHEMA_DROP] : "");
	tell('d', item->was_details[SCHEMA_LABEL], &note);
}

/* False if only the version differs, or if a client has undone the change since the lists were
 * made. */
static bool is_change(const struct schema_item *item)
{
	if ((item->now && !item->now_details) || (item->was && !item->was_details))
		return false;
	return !item->now || !item->was || differs(item, SCHEMA_PRINT) || differs(item, SCHEMA_FACTS);
}

/* Returns how many are not told. */
static size_t choose(struct schema *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_items; i++)
		if (is_change(&d->items[i]))
			d->items[i].told = n++ < TOLD_MAX;
	return n > TOLD_MAX ? n - TOLD_MAX : 0;
}

static int tell_all(struct schema *d, struct atoll_error *err)
{
	AUTO_TABLE words = { 0 };
	AUTO_STRBUF note = STRBUF_INIT;
	size_t more = choose(d);
	int r = find_words(d, &words, err);

	for (size_t i = 0; i < d->n_items && r >= 0; i++) {
		if (d->items[i].told && d->items[i].now)
			r = tell_new(d, &d->items[i], &words, err);
		else if (d->items[i].told)
			tell_dropped(&d->items[i]);
	}
	if (r < 0 || more == 0)
		return r;
	strbuf_addf(&note, "%zu more definitions are not listed", more);
	tell('m', "more", &note);
	return 0;
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
	CLEANUP(schema_release) struct schema d = { .s = s };
	int r = check_isolation(s, err);

	if (r >= 0)
		r = find_rights(&d, err);
	if (r >= 0)
		r = schema_compare(&d, err);
	if (r >= 0)
		r = tell_all(&d, err);
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
