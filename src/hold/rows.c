/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a table that the transaction has changed.
 *
 * New ones are seen inside, and have a row version that one of the transaction's own (sub)transactions made: their ids are not below that of the
 * transaction, and not ended. Old ones are seen outside, marked as deleted or locked by somebody (xmax); those that are not seen inside, and
 * still outside after that, are what the transaction itself has deleted or replaced: whatever others have deleted meanwhile is gone
 * outside too. So a lock alone, and what was taken back to a savepoint, shows nothing, and unchanged rows are not read out of the server.
 *
 * A table that the transaction has locked against everybody (its definition was changed, or it was emptied) cannot be read outside.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/rows.h"

#define SHOWN_MAX 1000
#define VALUE_MAX 1000 /* characters */

static void relation_release(struct relation *rel)
{
	table_release(&rel->about);
	table_release(&rel->columns);
	free(rel->v);
}

static int find(struct relation *rel, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	int r;

	strbuf_adds(
		&sql,
		"SELECT c.oid, txid_current_if_assigned(), txid_current_snapshot(), current_setting('transaction_isolation'), "
		"c.relfilenode, EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.granted AND "
		"l.locktype = 'relation' AND l.relation = c.oid AND l.mode = 'AccessExclusiveLock') "
		"FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'm') AND "
		"format('%I.%I', n.nspname, c.relname) = ");
	sides_add_literal(&sql, rel->name);
	r = sql.failed ? error_oom(err, "diff") : sides_ask(rel->s, true, strbuf_str(&sql), &rel->about, err);
	if (r >= 0 && (rel->about.n_rows != 1 || rel->about.n_columns != ABOUT_LOCKED + 1))
		return error_set(err, ATOLL_NOT_FOUND, 0, "diff", rel->name, "there is no table %s any more",
				 rel->name);
	if (r < 0)
		return r;
	rel->xid = strtoull(relation_about(rel, ABOUT_XID), NULL, 10);
	rel->locked = *relation_about(rel, ABOUT_LOCKED) == 't';
	if (strcmp(relation_about(rel, ABOUT_ISOLATION), "serializable") == 0)
		return error_set(err, ATOLL_UNSUPPORTED, 0, "diff", rel->name,
				 "the transaction is serializable: reading %s would count in it", rel->name);
	return 0;
}

static int find_outside(struct relation *rel, struct atoll_error *err)
{
	AUTO_TABLE found = { 0 };
	AUTO_FREE char *sql =
		str_format("SELECT relfilenode FROM pg_class WHERE oid = %s", relation_about(rel, ABOUT_OID));
	int r = sql ? sides_ask(rel->s, false, sql, &found, err) : error_oom(err, "diff");

	if (r < 0)
		return r;
	rel->is_new = found.n_rows == 0;
	rel->rewritten = !rel->is_new && strcmp(table_value(&found, 0, 0), relation_about(rel, ABOUT_FILE)) != 0;
	return 0;
}

/* The primary key, else the replica identity, else any other index of the kind. How many of an index's columns are its key is told since version 11. */
static const char columns_sql[] =
	"SELECT a.attname, quote_ident(a.attname), t.typcategory, a.attnum = ANY (COALESCE((SELECT ARRAY(SELECT i.indkey[k] FROM "
	"generate_series(0, COALESCE((to_jsonb(i)->>'indnkeyatts')::int, i.indnatts) - 1) k) FROM pg_index i WHERE i.indrelid = "
	"a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND NOT EXISTS (SELECT 1 FROM "
	"pg_attribute b WHERE b.attrelid = i.indrelid AND b.attnum = ANY (i.indkey::int2[]) AND NOT b.attnotnull) ORDER BY "
	"i.indisprimary DESC, i.indisreplident DESC, i.indexrelid LIMIT 1), '{}')) FROM pg_attribute a JOIN pg_type t ON t.oid = "
	"a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

static int find_columns(struct relation *rel, struct atoll_error *err)
{
	AUTO_FREE char *sql = str_format(columns_sql, relation_about(rel, ABOUT_OID));
	int r = sql ? sides_ask(rel->s, true, sql, &rel->columns, err) : error_oom(err, "diff");

	if (r < 0)
		return r;
	rel->v = calloc(rel->columns.n_rows + 1, sizeof *rel->v);
	for (size_t i = 0; rel->v && i < rel->columns.n_rows; i++)
		rel->v[i] = (struct column){ .name = table_value(&rel->columns, i, 0),
					     .category = *table_value(&rel->columns, i, 2),
					     .key = *table_value(&rel->columns, i, 3) == 't' };
	return rel->v ? 0 : error_oom(err, "diff");
}

/* ---- questions ---- */

/* The text of each value, by the type's own output; a long one by its beginning, length and sum. */
void relation_add_values(struct strbuf *sql, const struct relation *rel)
{
	for (size_t i = 0; i < rel->columns.n_rows; i++) {
		const char *name = table_value(&rel->columns, i, 1);

		strbuf_addf(
			sql,
			"%s(SELECT CASE WHEN length(f.v) > %d THEN 's' || length(f.v) || ' ' || md5(f.v) || ' ' || left(f.v, %d) "
			"ELSE 'v' || f.v END FROM (SELECT format('%%s', t.%s) OFFSET 0) AS f(v) WHERE num_nulls(t.%s) = 0)",
			i ? ", " : "", VALUE_MAX, VALUE_MAX, name, name);
	}
}

/* How far an id of 32 bits lies behind that of the transaction. */
void relation_add_distance(struct strbuf *sql, const struct relation *rel, const char *column)
{
	strbuf_addf(sql, "((t.%s::text::bigint - %" PRIu64 " + 4294967296) %% 4294967296)", column,
		    rel->xid & UINT32_MAX);
}

/* What is seen inside and not ended at the moment of the question is the transaction's own. */
static int ask_new(struct relation *rel, struct pairs *p, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	AUTO_STRBUF distance = STRBUF_INIT;
	int r;

	relation_add_distance(&distance, rel, "xmin");
	strbuf_adds(&sql, "SELECT ");
	relation_add_values(&sql, rel);
	strbuf_addf(&sql,
		    " FROM ONLY %s t WHERE CASE WHEN %s >= 2147483648 THEN false WHEN %s + %" PRIu64
		    " >= (SELECT txid_snapshot_xmax(txid_current_snapshot())) THEN true ELSE txid_status(%s + %" PRIu64
		    ") = 'in progress' END LIMIT %d",
		    rel->name, strbuf_str(&distance), strbuf_str(&distance), rel->xid, strbuf_str(&distance), rel->xid,
		    FETCH_MAX + 1);
	r = sql.failed || distance.failed ? error_oom(err, "diff")
					  : sides_ask(rel->s, true, strbuf_str(&sql), &p->new, err);
	p->new_is_cut = p->new.n_rows > FETCH_MAX;
	return r;
}

/* ---- what is said ---- */

static void print_columns(const struct relation *rel, bool keyed)
{
	AUTO_FREE char *n = str_format("%zu", rel->columns.n_rows);

	putchar('c');
	output_field(stdout, n ? n : "0");
	for (size_t i = 0; i < rel->columns.n_rows; i++) {
		output_field(stdout, rel->v[i].name);
		output_field(stdout, keyed && rel->v[i].key ? "1" : "0");
	}
}

static void print_remark(const struct relation *rel, const struct pairs *p, size_t hidden)
{
	AUTO_STRBUF s = STRBUF_INIT;

	if (p->old_unknown)
		strbuf_addf(&s,
			    "%s was %s inside, and nobody else can read it now: what its rows were before is not known",
			    rel->name, rel->rewritten ? "emptied or written anew" : "locked or defined otherwise");
	if (p->old_is_cut || p->new_is_cut)
		strbuf_addf(&s, "%s%s has more than %d changed rows: not all were looked at", s.size ? "; " : "",
			    rel->name, FETCH_MAX);
	if (hidden)
		strbuf_addf(&s, "%sand %zu more rows of %s", s.size ? "; " : "", hidden, rel->name);
	if (s.size) {
		putchar('m');
		output_field(stdout, strbuf_str(&s));
	}
}

static bool has_key(const struct relation *rel)
{
	for (size_t i = 0; i < rel->columns.n_rows; i++)
		if (rel->v[i].key)
			return true;
	return false;
}

static int compare(struct relation *rel, struct pairs *p, struct atoll_error *err)
{
	int r;

	p->columns = rel->v;
	p->n_columns = rel->columns.n_rows;
	p->keyed = has_key(rel);
	p->old_unknown = rel->locked && !rel->is_new;
	r = ask_new(rel, p, err);
	if (r >= 0 && !rel->is_new && !p->old_unknown)
		r = old_rows_collect(rel, p, err);
	if (r < 0)
		return r;
	print_columns(rel, p->keyed);
	print_remark(rel, p, pairs_print(p, stdout, SHOWN_MAX));
	return 0;
}

int rows_print(struct sides *s, const char *name, struct atoll_error *err)
{
	CLEANUP(relation_release) struct relation rel = { .s = s, .name = name };
	struct pairs p = { 0 };
	int r = find(&rel, err);

	if (r >= 0)
		r = find_outside(&rel, err);
	if (r >= 0)
		r = find_columns(&rel, err);
	/* Nothing was written, or there is nothing to be seen in a row. */
	if (r >= 0 && rel.xid && rel.columns.n_rows)
		r = compare(&rel, &p, err);
	table_release(&p.old);
	table_release(&p.new);
	putchar('.');
	return r;
}
