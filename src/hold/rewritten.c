/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that the transaction has truncated or rewritten, and the sequences that it has restarted: none of this counts as a changed row.
 *
 * Each gives the relation a new file. So the relations of which the transaction has written the row of pg_class are asked for their file
 * inside and outside. That row inside is the transaction's own, so nothing that others do can be taken for it, on any isolation level.
 * The server does not tell what gave the relation its new file. ALTER TABLE makes a new TOAST table, TRUNCATE and CLUSTER keep it. For the rest the size,
 * the rows inserted since and the columns tell in most cases; where they do not, both words are said.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/inside.h"

static const char inside_sql[] =
	"SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relfilenode, c.reltoastrelid, c.reltablespace, c.relkind, "
	"pg_relation_size(c.oid) = 0, pg_stat_get_xact_tuples_inserted(c.oid) > 0, "
	"EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND " PG_IS_OWN(
		"a.xmin") ") FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
			  "WHERE c.relkind IN ('r', 'm', 'S') AND c.relfilenode <> 0 AND n.nspname !~ '^pg_(toast|temp)' "
			  "AND " PG_IS_OWN("c.xmin") " ORDER BY 2";
enum { OID, NAME, FILE_NODE, TOAST, TABLESPACE, KIND, EMPTY, INSERTED, COLUMNS, N_INSIDE };

/* Only the transaction inside can count the rows of a relation that it has locked, so the number before it is the one in the server's
 * statistics. */
static const char outside_sql[] =
	"SELECT c.relfilenode, c.reltoastrelid, c.reltablespace, "
	"GREATEST(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid), 0) FROM pg_class c WHERE c.oid = %s";
enum { OLD_FILE_NODE, OLD_TOAST, OLD_TABLESPACE, OLD_ROWS, N_OUTSIDE };

static bool is_true(const struct table *t, size_t row, size_t column)
{
	const char *value = table_value(t, row, column);

	return value && *value == 't';
}

static bool is_same(const struct table *now, size_t row, size_t column, const struct table *old, size_t old_column)
{
	const char *a = table_value(now, row, column), *b = table_value(old, 0, old_column);

	return strcmp(a ? a : "", b ? b : "") == 0;
}

static const char *what_happened(const struct table *now, size_t row, const struct table *old)
{
	const char *toast = table_value(old, 0, OLD_TOAST);
	bool has_toast = toast && strcmp(toast, "0") != 0;

	if (*table_value(now, row, KIND) == 'm' || !is_same(now, row, TABLESPACE, old, OLD_TABLESPACE) ||
	    (has_toast && !is_same(now, row, TOAST, old, OLD_TOAST)))
		return "rewritten";
	if (is_true(now, row, EMPTY) && (has_toast || !is_true(now, row, COLUMNS)))
		return "truncated";
	if (!is_true(now, row, EMPTY) && !is_true(now, row, INSERTED))
		return "rewritten";
	return "truncated or rewritten";
}

static void print_one(const struct table *now, size_t row, const struct table *old)
{
	AUTO_STRBUF label = STRBUF_INIT;
	AUTO_STRBUF note = STRBUF_INIT;
	long long rows = strtoll(table_value(old, 0, OLD_ROWS), NULL, 10);

	if (*table_value(now, row, KIND) == 'S') {
		strbuf_addf(&label, "sequence %s", table_value(now, row, NAME));
		strbuf_adds(&note, "restarted or defined otherwise");
	} else {
		strbuf_addf(&label, "table %s", table_value(now, row, NAME));
		strbuf_adds(&note, what_happened(now, row, old));
		if (rows > 0)
			strbuf_addf(&note, ", about %lld row%s before", rows, rows == 1 ? "" : "s");
	}
	putchar('o');
	output_field(stdout, strbuf_str(&label));
	output_field(stdout, strbuf_str(&note));
}

int rewritten_print(struct sides *s, struct atoll_error *err)
{
	AUTO_TABLE now = { 0 };
	int r = sides_ask(s, true, inside_sql, &now, err);

	for (size_t i = 0; r >= 0 && i < now.n_rows && now.n_columns == N_INSIDE; i++) {
		AUTO_TABLE old = { 0 };
		AUTO_FREE char *sql = str_format(outside_sql, table_value(&now, i, OID));

		r = sql ? sides_ask(s, false, sql, &old, err) : error_oom(err, "diff");
		/* There is none outside where the transaction has made the relation. */
		if (r >= 0 && old.n_rows == 1 && old.n_columns == N_OUTSIDE &&
		    !is_same(&now, i, FILE_NODE, &old, OLD_FILE_NODE))
			print_one(&now, i, &old);
	}
	return r;
}
