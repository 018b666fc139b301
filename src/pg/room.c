/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the transaction could be prepared (two-phase commit). What the server refuses then takes the transaction along, so it is found
 * beforehand as far as possible: by its catalogs, and by what clients have said. What a function did without anybody seeing is not found.
 */
#include <libpq-fe.h>
#include <string.h>

#include "pg/private.h"

static const char room_sql[] = "SELECT pg_catalog.current_setting('max_prepared_transactions'), "
			       "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_xacts), "
			       "pg_catalog.pg_my_temp_schema() <> 0, "
			       "EXISTS (SELECT 1 FROM pg_catalog.pg_cursors WHERE is_holdable)";

/* Even rolled back or dropped, a temporary table has been touched. */
static const char *obstacle(const struct pg_proxy *p, const struct pg_answer *a)
{
	if (p->used_temporary || strcmp(a->values.v[2], "t") == 0)
		return "temporary objects were used, and the server prepares no transaction (PREPARE TRANSACTION) that has";
	if (p->used_notify)
		return "LISTEN, UNLISTEN or NOTIFY was used, and the server prepares no transaction (PREPARE TRANSACTION) that has";
	if (strcmp(a->values.v[3], "t") == 0)
		return "a cursor WITH HOLD is open, and the server prepares no transaction (PREPARE TRANSACTION) with one; close it";
	return NULL;
}

static void judge(const struct pg_proxy *p, const struct pg_answer *a, struct pg_room *ret)
{
	long most = strtol(a->values.v[0], NULL, 10), used = strtol(a->values.v[1], NULL, 10);
	const char *why = obstacle(p, a);

	ret->room = why || most <= used ? 0 : (unsigned)(most - used);
	if (why)
		snprintf(ret->why, sizeof(ret->why), "%s", why);
	else if (most == 0)
		snprintf(ret->why, sizeof(ret->why),
			 "max_prepared_transactions is 0 on its server; set it to 10, say, and restart the server");
	else
		snprintf(
			ret->why, sizeof(ret->why),
			"max_prepared_transactions is %ld on its server, %ld in use (pg_prepared_xacts); raise it and restart the server",
			most, used);
}

int pg_proxy_room(struct pg_proxy *p, struct pg_room *ret, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	struct pg_room room = { 0 };
	int r = pg_proxy_can_ask(p, err);

	if (r == 0)
		r = pg_question(p, room_sql, &answer, err);
	if (r < 0)
		return r;
	if (answer.values.n != 4)
		return error_set(err, ATOLL_FAILED, 0, "room", NULL, "the database does not tell whether it prepares");
	judge(p, &answer, &room);
	if (*p->system)
		snprintf(room.place, sizeof(room.place), "%s", p->system);
	else
		snprintf(room.place, sizeof(room.place), "%s:%s", PQhost(p->conn), PQport(p->conn));
	*ret = room;
	return 0;
}
