/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of what a client regards as a transaction.
 *
 * Committing checks deferred constraints, where there are any, as the server does at this moment, and ends what SET LOCAL and SET
 * CONSTRAINTS have done; each of these only if there is something to do, because it is a round trip. Then our savepoint is released and made
 * again, or gone back to, behind the client's back.
 */
#include <string.h>

#include "pg/private.h"

/* By their own definition, so that they can be deferred again after they were checked. Of those that the role can name. */
static const char list_sql[] =
	"SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('%I.%I', n.nspname, c.conname), ', ') "
	"FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace WHERE c.condeferred "
	"AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND NOT pg_catalog.pg_is_other_temp_schema(n.oid)";

static void add_closes(struct pg_proxy *p)
{
	for (size_t i = 0; i < p->to_close.n; i++)
		pg_message_named(&p->to_server, 'C', 'S', p->to_close.v[i]);
	pg_names_clear(&p->to_close);
}

void pg_finish_closes(struct pg_proxy *p)
{
	if (p->to_close.n == 0)
		return;
	add_closes(p);
	pg_message_empty(&p->to_server, 'S');
	pg_group_add(p, NULL, NULL);
}

static void send_end(struct pg_client *c, bool commit)
{
	struct pg_proxy *p = c->proxy;
	struct pg_buffer *b = &p->to_server;

	if (!c->dirty && p->to_close.n == 0)
		return;
	/* By the unnamed portal: the client's own ends with its transaction. */
	if (commit && c->dirty && !p->held_cursors)
		pg_message_run(b, "", p->close);
	if (commit && p->held_cursors)
		for (size_t i = 0; i < c->cursors.n; i++)
			pg_message_named(b, 'C', 'P', c->cursors.v[i]);
	if (c->dirty && commit)
		pg_message_run(b, "", p->release);
	if (c->dirty)
		pg_message_run(b, "", commit ? p->make : p->back);
	add_closes(p);
	pg_message_named(b, 'C', 'P', ""); /* ours: a client that executes the unnamed portal has bound none */
	pg_message_empty(b, 'S');
	pg_group_add(p, NULL, NULL);
	/* Until it is there nobody knows how strings are to be read: the settings may be others. */
	p->backing = !commit;
}

static void keep_settings(struct pg_client *c, bool commit)
{
	bool changed = c->log.n > 0;
	int r = 0;

	if (!commit) {
		pg_settings_clear(&c->log);
		return;
	}
	if (changed)
		r = pg_settings_commit(&c->settings, &c->defaults, &c->log);
	if (changed && r == 0)
		r = pg_settings_copy(&c->proxy->applied, &c->settings);
	if (r < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

static void ended(struct pg_client *c, bool commit)
{
	void (*after)(struct pg_client * c, bool committed) = c->after;

	c->after = NULL;
	after(c, commit);
}

/* Released, so that the next ROLLBACK TO does not undo it. If it failed (a client may cancel it) the constraints stay as
 * they are, which is better than to lose the transaction of all. */
static void constraints_restored(struct pg_client *c, bool succeeded)
{
	send_end(c, succeeded);
	c->dirty = c->broken = false;
	ended(c, false);
}

/* By their definitions. Nothing that is deferred waits to be checked here. */
static void restore_constraints(struct pg_client *c, bool succeeded)
{
	struct pg_proxy *p = c->proxy;
	AUTO_STRBUF sql = STRBUF_INIT;

	strbuf_adds(&sql, "SET CONSTRAINTS ALL IMMEDIATE");
	if (p->captured.size > 0)
		strbuf_addf(&sql, "; SET CONSTRAINTS %s DEFERRED", strbuf_str(&p->captured));
	c->dirty = true;
	if (!succeeded)
		constraints_restored(c, false);
	else if (sql.failed)
		pg_proxy_lose(p, "out of memory");
	else
		pg_group_query(c, strbuf_str(&sql), constraints_restored);
}

static void end(struct pg_client *c, bool commit)
{
	bool restore = !commit && c->dirty && c->released_constraints;

	send_end(c, commit);
	keep_settings(c, commit);
	pg_names_clear(&c->cursors);
	pg_known_clear(&c->portals);
	c->was_dirty = c->was_dirty || c->dirty;
	c->dirty = c->broken = c->touched_constraints = c->released_constraints = c->in_block = false;
	c->stale_portal = false;
	c->executed = 0;
	if (restore)
		pg_group_query(c, list_sql, restore_constraints);
	else
		ended(c, commit);
}

static void violated(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;

	pg_buffer_add(&c->out, pg_buffer_front(&p->own_error), pg_buffer_size(&p->own_error));
	c->failed = true;
	end(c, false);
}

static void locals_ended(struct pg_client *c, bool succeeded)
{
	if (succeeded)
		end(c, true);
	else
		violated(c);
}

static void end_locals(struct pg_client *c)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	if (pg_settings_end_local(&c->settings, &c->defaults, &c->log, &sql) < 0 || sql.failed)
		pg_proxy_lose(c->proxy, "out of memory");
	else if (sql.size > 0)
		pg_group_query(c, strbuf_str(&sql), locals_ended);
	else
		end(c, true);
}

static void checked(struct pg_client *c, bool succeeded)
{
	if (succeeded)
		end_locals(c);
	else
		violated(c);
}

/* By name where possible: SET CONSTRAINTS ALL would count for constraints yet to be made, too. It is needed where a client has used it, or where
 * one that was deferred by name is no longer so by definition. */
static void check(struct pg_client *c, bool all)
{
	struct pg_proxy *p = c->proxy;
	AUTO_STRBUF sql = STRBUF_INIT;

	if (!p->deferred && !all) {
		end_locals(c);
		return;
	}
	/* A server ends the savepoints first: READ ONLY that was set in one no longer counts when the constraints are checked. */
	pg_settings_releases(&c->log, &sql);
	if (sql.size > 0)
		c->released_constraints = c->touched_constraints;
	strbuf_addf(&sql, "SET CONSTRAINTS %s IMMEDIATE", all ? "ALL" : p->deferred);
	if (p->deferred)
		strbuf_addf(&sql, "; SET CONSTRAINTS %s DEFERRED", p->deferred);
	if (sql.failed)
		pg_proxy_lose(p, "out of memory");
	else
		pg_group_query(c, strbuf_str(&sql), checked);
}

static void listed(struct pg_client *c, bool succeeded)
{
	struct pg_proxy *p = c->proxy;
	AUTO_FREE char *old = TAKE_PTR(p->deferred);

	if (!succeeded) {
		violated(c);
		return;
	}
	p->deferred_stale = false;
	if (p->captured.size > 0)
		p->deferred = strbuf_take(&p->captured);
	check(c, c->touched_constraints || (old && (!p->deferred || strcmp(old, p->deferred) != 0)));
}

void pg_finish(struct pg_client *c, bool commit, void (*after)(struct pg_client *c, bool committed))
{
	c->after = after;
	if (!commit || !c->dirty)
		end(c, commit);
	else if (c->proxy->deferred_stale || c->proxy->deferred) /* a function may have dropped one meanwhile */
		pg_group_query(c, list_sql, listed);
	else
		check(c, c->touched_constraints);
}
