/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of others to the server, inside the transaction, as if no client had ever set anything. */
#include <string.h>

#include "pg/private.h"

int pg_proxy_question(struct pg_proxy *p, const char *sql, unsigned timeout_ms, struct strbuf *rows,
		      struct atoll_error *err)
{
	AUTO_ANSWER a = { .rows = rows };
	AUTO_FREE char *settings =
		str_format("SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE NONE; " PG_NEUTRAL
			   "SET LOCAL statement_timeout = %u; SET LOCAL lock_timeout = %u",
			   timeout_ms, timeout_ms);
	int r = settings ? pg_proxy_can_ask(p, err) : error_oom(err, "ask");

	if (r == 0)
		r = pg_question_with(p, settings, sql, &a, err);
	if (r == 0 && a.too_long)
		return error_set(err, ATOLL_REFUSED, 0, "ask", NULL, "the answer is longer than %zu bytes",
				 PG_ROWS_MAX);
	return r == 0 && rows->failed ? error_oom(err, "ask") : r;
}
