/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of what will be answered by a ReadyForQuery each. It is short: the owner has one query under way, and behind the end of one
 * client's transaction comes at most the beginning of the next one's. */
#include <assert.h>

#include "pg/private.h"

void pg_group_add(struct pg_proxy *p, struct pg_client *c, void (*then)(struct pg_client *c, bool succeeded))
{
	assert(p->n_groups < ARRAY_SIZE(p->groups));
	p->groups[(p->first_group + p->n_groups++) % ARRAY_SIZE(p->groups)] =
		(struct pg_group){ .client = c, .then = then };
}

struct pg_group *pg_group_first(struct pg_proxy *p)
{
	return p->n_groups > 0 ? &p->groups[p->first_group] : NULL;
}

void pg_group_pop(struct pg_proxy *p)
{
	assert(p->n_groups > 0);
	p->first_group = (p->first_group + 1) % ARRAY_SIZE(p->groups);
	p->n_groups--;
}

void pg_group_query(struct pg_client *c, const char *sql, void (*then)(struct pg_client *c, bool succeeded))
{
	struct pg_proxy *p = c->proxy;

	pg_buffer_consume(&p->own_error, pg_buffer_size(&p->own_error));
	strbuf_truncate(&p->captured, 0);
	p->unnamed_of = NULL; /* the server forgets the unnamed statement at every query */
	pg_message_text(&p->to_server, 'Q', sql);
	pg_group_add(p, c, then);
}
