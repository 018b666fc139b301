/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of what will be answered by a ReadyForQuery each. It is short: the owner has one query under way, and behind the end of one
 * client's transaction comes at most the beginning of the next one's. */
#include <assert.h>
#include <string.h>

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

static void close_own(struct pg_proxy *p)
{
	pg_message_named(&p->to_server, 'C', 'P', p->savepoint);
	pg_message_named(&p->to_server, 'C', 'S', p->savepoint);
}

/* If a statement fails the server skips the messages behind it, the last Close too: the next Parse needs one before it. */
void pg_group_send(struct pg_proxy *p, const char *sql)
{
	struct pg_buffer *b = &p->to_server;
	struct pg_lexer l = { .at = sql, .end = sql + strlen(sql) };
	struct pg_token one;
	bool body;

	while (pg_lexer_statement(&l, &one, &body)) {
		size_t begun;

		close_own(p);
		begun = pg_message_begin(b, 'P');
		pg_message_add_string(b, p->savepoint);
		pg_message_add_text(b, one.text, one.size);
		pg_message_add_int16(b, 0);
		pg_message_end(b, begun);
		pg_message_run(b, p->savepoint, p->savepoint);
	}
	close_own(p);
	pg_message_empty(b, 'S');
}

void pg_group_query(struct pg_client *c, const char *sql, void (*then)(struct pg_client *c, bool succeeded))
{
	struct pg_proxy *p = c->proxy;

	pg_buffer_consume(&p->own_error, pg_buffer_size(&p->own_error));
	strbuf_truncate(&p->captured, 0);
	pg_group_send(p, sql);
	pg_group_add(p, c, then);
}
