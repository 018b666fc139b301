/* SPDX-License-Identifier: Apache-2.0 */
/* How many rows of which tables the open transaction has changed, as the server counts them. */
#include <string.h>

#include "pg/private.h"

/* What was rolled back to a savepoint counts too: the server's counters go one way only. */
static const char tables_sql[] =
	"SELECT pg_catalog.format('%I.%I', schemaname, relname), n_tup_ins, n_tup_upd, n_tup_del "
	"FROM pg_catalog.pg_stat_xact_user_tables "
	"WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 AND schemaname NOT LIKE 'pg\\_temp%' ORDER BY 1";

int pg_proxy_tables(struct pg_proxy *p, void (*fn)(const struct pg_table *table, void *arg), void *arg,
		    struct atoll_error *err)
{
	AUTO_ANSWER a = { 0 };
	int r = pg_proxy_can_ask(p, err);

	if (r == 0)
		r = pg_question(p, tables_sql, &a, err);
	for (size_t i = 0; r == 0 && i + 3 < a.values.n; i += 4) {
		const struct pg_table table = { a.values.v[i], strtoll(a.values.v[i + 1], NULL, 10),
						strtoll(a.values.v[i + 2], NULL, 10),
						strtoll(a.values.v[i + 3], NULL, 10) };

		fn(&table, arg);
	}
	return r;
}

/* Large objects and statistics are kept in catalogs too. */
static const char definitions_sql[] =
	"SELECT COALESCE(pg_catalog.sum(n_tup_ins + n_tup_upd + n_tup_del), 0) > 0 FROM pg_catalog.pg_stat_xact_sys_tables "
	"WHERE schemaname = 'pg_catalog' AND relname NOT IN "
	"('pg_largeobject', 'pg_largeobject_metadata', 'pg_shdepend', 'pg_statistic', 'pg_statistic_ext_data')";

int pg_proxy_definitions(struct pg_proxy *p, bool *ret, struct atoll_error *err)
{
	AUTO_ANSWER a = { 0 };
	int r = pg_proxy_can_ask(p, err);

	if (r == 0)
		r = pg_question(p, definitions_sql, &a, err);
	if (r == 0)
		*ret = a.values.n == 1 && *a.values.v[0] == 't';
	return r;
}
