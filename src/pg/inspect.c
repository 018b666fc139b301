/* SPDX-License-Identifier: Apache-2.0 */
/* What the server knows of the open transaction. */
#include <libpq-fe.h>
#include <string.h>

#include "pg/private.h"

/* Nobody else can see, and so wait for, a relation that this transaction has made. Its first system column is written when it is made and never
 * again; a view has none, so there the dependency of its row type is looked at. */
#define IS_NEW                                                                                                    \
	"(EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = -1 "            \
	"AND " PG_IS_OWN(                                                                                         \
		"a.xmin") ") OR (c.relkind = 'v' AND EXISTS (SELECT 1 FROM pg_catalog.pg_depend d "               \
			  "WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = c.reltype "  \
			  "AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = c.oid " \
			  "AND " PG_IS_OWN("d.xmin") ")))"

#define LOCK_COLUMNS 4
#define MAKES_WAIT "l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
#define IS_USED "c.relkind IN ('r', 'p', 'f', 'm', 'v', 'S')"

static const char locks_sql[] = "SELECT CASE WHEN n.nspname IS NULL THEN l.relation::text "
				"ELSE pg_catalog.format('%I.%I', n.nspname, c.relname) END, l.mode, " MAKES_WAIT
				" AND " IS_USED " AND NOT " IS_NEW ", c.oid IS NULL AND " MAKES_WAIT " "
				"FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation "
				"LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
				"WHERE l.pid = pg_catalog.pg_backend_pid() AND l.granted AND l.locktype = 'relation' "
				"AND (n.nspname IS NULL OR n.nspname <> 'pg_catalog') ORDER BY 1, 2";

void pg_inspection_release(struct pg_inspection *i)
{
	for (size_t k = 0; k < i->n_locks; k++) {
		free(i->locks[k].relation);
		free(i->locks[k].mode);
	}
	free(i->locks);
	*i = (struct pg_inspection){ 0 };
}

static int take_locks(struct pg_answer *a, struct pg_inspection *ret)
{
	size_t n = a->values.n / LOCK_COLUMNS;

	ret->locks = calloc(n + 1, sizeof(*ret->locks));
	if (!ret->locks)
		return -ENOMEM;
	for (; ret->n_locks < n; ret->n_locks++) {
		char **row = &a->values.v[LOCK_COLUMNS * ret->n_locks];

		ret->locks[ret->n_locks].relation = TAKE_PTR(row[0]);
		ret->locks[ret->n_locks].mode = TAKE_PTR(row[1]);
		ret->locks[ret->n_locks].exclusive = *row[2] == 't';
		ret->locks[ret->n_locks].dropped = *row[3] == 't';
	}
	return 0;
}

/* ---- relations that the transaction has dropped ---- */

/* Lists the OIDs of dropped relations that were not looked up yet; "" if there are none. */
static void list_dropped(const struct pg_proxy *p, const struct pg_inspection *i, struct strbuf *ret)
{
	for (size_t k = 0; k < i->n_locks; k++)
		if (i->locks[k].dropped && !pg_settings_find(&p->dropped, i->locks[k].relation))
			strbuf_addf(ret, "%s%s", ret->size ? ", " : "", i->locks[k].relation);
}

static PGresult *ask_others(void *conn, const char *numbers)
{
	AUTO_FREE char *sql = str_format(
		PG_NEUTRAL
		"SET LOCAL lock_timeout = 500; SELECT c.oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname) "
		"FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
		"ON n.oid = c.relnamespace WHERE c.oid IN (%s) AND " IS_USED,
		numbers);
	PGresult *result = sql ? PQexec(conn, sql) : NULL;

	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	PQclear(result);
	return NULL;
}

/* Only another connection, which does not see this transaction, can name a relation that the
 * transaction has dropped. A relation that this connection does not know either was made by the
 * transaction. Neither changes while the transaction lasts, so each relation is looked up once. */
static int learn_dropped(struct pg_proxy *p, const struct pg_inspection *i)
{
	AUTO_STRBUF numbers = STRBUF_INIT;
	void *conn;
	PGresult *result;
	int r = 0;

	list_dropped(p, i, &numbers);
	if (numbers.size == 0 || numbers.failed)
		return numbers.failed ? -ENOMEM : 0;
	conn = pg_connect(p->conninfo, "inspect", NULL);
	result = conn ? ask_others(conn, strbuf_str(&numbers)) : NULL;
	for (size_t k = 0; result && k < i->n_locks && r == 0; k++)
		if (i->locks[k].dropped && !pg_settings_find(&p->dropped, i->locks[k].relation))
			r = pg_settings_put(&p->dropped, i->locks[k].relation, "");
	for (int k = 0; k < PQntuples(result) && r == 0; k++)
		r = pg_settings_put(&p->dropped, PQgetvalue(result, k, 0), PQgetvalue(result, k, 1));
	PQclear(result);
	pg_connect_close(conn);
	return r;
}

static int name_dropped(struct pg_proxy *p, struct pg_inspection *i)
{
	int r = learn_dropped(p, i);

	for (size_t k = 0; k < i->n_locks && r == 0; k++) {
		struct pg_lock *lock = &i->locks[k];
		const char *name = lock->dropped ? pg_settings_find(&p->dropped, lock->relation) : NULL;

		if (!name || !*name)
			continue;
		free(lock->relation);
		lock->relation = strdup(name);
		lock->exclusive = true;
		r = lock->relation ? 0 : -ENOMEM;
	}
	return r;
}

/* Nothing of a client is under way on the server, and it would be answered. */
static bool can_ask(const struct pg_proxy *p)
{
	const struct pg_client *c = p->owner;

	return (p->state == PG_OPEN || p->state == PG_HELD) &&
	       (!c || (!c->unit && !c->broken && !c->applying && !c->after));
}

int pg_proxy_can_ask(const struct pg_proxy *p, struct atoll_error *err)
{
	if (p->state == PG_LOST || p->state == PG_ENDED)
		return error_set(err, ATOLL_STATE, 0, "inspect", NULL, "there is no open database transaction");
	if (!can_ask(p))
		return error_set(err, ATOLL_BUSY, 0, "inspect", NULL,
				 "a client's statement is under way in the database transaction");
	return 0;
}

int pg_proxy_inspect(struct pg_proxy *p, struct pg_inspection *ret, struct atoll_error *err)
{
	AUTO_ANSWER xid = { 0 }, locks = { 0 };
	CLEANUP(pg_inspection_release) struct pg_inspection i = { 0 };
	int r = pg_proxy_can_ask(p, err);

	if (r == 0)
		r = pg_question(p, "SELECT pg_catalog.txid_current_if_assigned()", &xid, err);
	if (r == 0)
		r = pg_question(p, locks_sql, &locks, err);
	if (r < 0)
		return r;
	i.xid = xid.values.n == 1 ? strtoull(xid.values.v[0], NULL, 10) : 0;
	if (take_locks(&locks, &i) < 0 || name_dropped(p, &i) < 0)
		return error_oom(err, "inspect");
	*ret = i;
	i = (struct pg_inspection){ 0 };
	return 0;
}
