/* SPDX-License-Identifier: Apache-2.0 */
/* What the server knows of the open transaction. */
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

static const char locks_sql[] =
	"SELECT CASE WHEN n.nspname IS NULL THEN l.relation::text ELSE pg_catalog.format('%I.%I', n.nspname, c.relname) END, l.mode, "
	"l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') "
	"AND c.relkind IN ('r', 'p', 'f', 'm', 'v', 'S') AND NOT " IS_NEW " "
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
	size_t n = a->values.n / 3;

	ret->locks = calloc(n + 1, sizeof(*ret->locks));
	if (!ret->locks)
		return -ENOMEM;
	for (; ret->n_locks < n; ret->n_locks++) {
		char **row = &a->values.v[3 * ret->n_locks];

		ret->locks[ret->n_locks].relation = TAKE_PTR(row[0]);
		ret->locks[ret->n_locks].mode = TAKE_PTR(row[1]);
		ret->locks[ret->n_locks].exclusive = *row[2] == 't';
	}
	return 0;
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
	if (take_locks(&locks, &i) < 0)
		return error_oom(err, "inspect");
	*ret = i;
	i = (struct pg_inspection){ 0 };
	return 0;
}
