/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transaction control, as each client believes to have it. BEGIN takes no savepoint of its own: the one that is there at rest is where
 * ROLLBACK leads. Answers are the server's, in its own words.
 */
#include <string.h>

#include "pg/private.h"

static const struct pg_report two_phase = {
	.severity = "ERROR",
	.state = "0A000",
	.message = "two-phase commit is not available inside a sandbox",
	.hint = "The sandbox itself is committed or rolled back as a whole, from outside.",
};
static const struct pg_report snapshots = {
	.severity = "ERROR",
	.state = "0A000",
	.message = "snapshots cannot be exported or imported inside a sandbox: all clients share one transaction",
	.hint = "Use one connection: pg_dump and pg_restore without --jobs.",
};
static const struct pg_report malformed = { .severity = "ERROR",
					    .state = "42601",
					    .message = "syntax error in a transaction command" };
static const struct pg_report execute_control = {
	.severity = "ERROR",
	.state = "0A000",
	.message = "EXECUTE of a transaction or session command is not available inside a sandbox",
	.hint = "Execute the prepared statement by the protocol, or send the command itself.",
};
static const struct pg_report discard_in_block = { .severity = "ERROR",
						   .state = "25001",
						   .message = "DISCARD ALL cannot run inside a transaction block" };

/* Only in a block, by the server's own rule: a string of several statements counts as one. */
static const struct {
	enum pg_statement_kind kind;
	bool in_any_string;
	struct pg_report report;
} in_block_only[] = {
	{ PG_SAVEPOINT, false, { "ERROR", "25P01", "SAVEPOINT can only be used in transaction blocks", NULL, NULL } },
	{ PG_RELEASE,
	  false,
	  { "ERROR", "25P01", "RELEASE SAVEPOINT can only be used in transaction blocks", NULL, NULL } },
	{ PG_ROLLBACK_TO,
	  false,
	  { "ERROR", "25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks", NULL, NULL } },
	{ PG_DECLARE, true, { "ERROR", "25P01", "DECLARE CURSOR can only be used in transaction blocks", NULL, NULL } },
	{ PG_LOCK, true, { "ERROR", "25P01", "LOCK TABLE can only be used in transaction blocks", NULL, NULL } },
};

static const struct pg_report *refused_outside(const struct pg_client *c, const struct pg_statement *s, bool alone)
{
	if (c->in_block)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(in_block_only); i++)
		if (in_block_only[i].kind == s->kind && (alone || !in_block_only[i].in_any_string))
			return &in_block_only[i].report;
	return NULL;
}

static const struct pg_report no_such_savepoint = { .severity = "ERROR",
						    .state = "3B001",
						    .message = "savepoint does not exist" };

/* The proxy's savepoint is not for clients, nor is a name that could be it in disguise. */
static bool names_ours(const struct pg_client *c, const struct pg_statement *s)
{
	char name[PG_NAME_SIZE];

	if (s->kind != PG_SAVEPOINT && s->kind != PG_RELEASE && s->kind != PG_ROLLBACK_TO)
		return false;
	return !pg_token_name(&s->name, name, sizeof(name)) ||
	       strncmp(name, c->proxy->savepoint, strlen(c->proxy->savepoint)) == 0;
}

/* Limits that would end the transaction of all. They are accepted, and have no effect. */
bool pg_transaction_is_fatal_limit(const char *key)
{
	return strcmp(key, "idle_in_transaction_session_timeout") == 0 || strcmp(key, "idle_session_timeout") == 0 ||
	       strcmp(key, "transaction_timeout") == 0;
}

bool pg_transaction_names_limit(const char *text, size_t size)
{
	static const char end[] = "_timeout"; /* of all three names */
	const char *at = text, *stop = text + size;

	while ((at = memchr(at, '_', (size_t)(stop - at)))) {
		if ((size_t)(stop - at) >= sizeof(end) - 1 && strncasecmp(at, end, sizeof(end) - 1) == 0 && at > text &&
		    (at[-1] | 0x20) == 'n')
			return true;
		at++;
	}
	return false;
}

const char *pg_transaction_limits_sql(const struct pg_proxy *p)
{
	if (p->version >= 170000)
		return "SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = 0; SET transaction_timeout = 0; ";
	if (p->version >= 140000)
		return "SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = 0; ";
	return "SET idle_in_transaction_session_timeout = 0; ";
}

/* SELECT set_config() is not among them: it has a row for an answer, so the server carries it out. */
static bool is_fatal_limit(const struct pg_statement *s)
{
	return pg_transaction_is_fatal_limit(s->key) && strncasecmp(s->text, "select", 6) != 0;
}

/* Whether it is SET … TO DEFAULT of a setting that the client gave when it connected. The server
 * would set the default of the proxy's own session instead. */
static bool is_client_default(const struct pg_client *c, const struct pg_statement *s)
{
	return s->to_default && pg_settings_find(&c->defaults, s->key);
}

/* EXECUTE, by SQL, of a transaction or session command that was prepared by the protocol: the server would carry it out. */
static bool executes_control(const struct pg_client *c, const struct pg_statement *s)
{
	char name[PG_NAME_SIZE];
	const struct pg_known *known = pg_token_name(&s->name, name, sizeof(name)) ? pg_known_find(&c->statements, name)
										   : NULL;

	return known && ((known->kind > PG_PLAIN && known->kind <= PG_RESET_ALL) || known->kind == PG_COPY);
}

bool pg_transaction_is_ours(const struct pg_client *c, const struct pg_statement *s, bool alone)
{
	switch ((int)s->kind) {
	case PG_COMMIT:
	case PG_ROLLBACK:
	case PG_MALFORMED:
	case PG_TWO_PHASE:
		return true;
	case PG_BEGIN:
	case PG_SET_TRANSACTION:
	case PG_SET_SNAPSHOT:
	case PG_DISCARD_ALL:
	case PG_DEALLOCATE_ALL:
	case PG_RESET_ALL:
		return !c->broken; /* the server says what it always says then */
	case PG_SET:
	case PG_SET_LOCAL:
		return !c->broken && (is_fatal_limit(s) || is_client_default(c, s));
	case PG_EXECUTE:
		return !c->broken && executes_control(c, s);
	case PG_RESET:
		return !c->broken && (is_fatal_limit(s) || pg_settings_find(&c->defaults, s->key));
	default:
		return names_ours(c, s) || refused_outside(c, s, alone) != NULL;
	}
}

static void note_define(struct pg_client *c)
{
	c->proxy->deferred_stale = true;
}

static void note_name(struct pg_names *names, const struct pg_statement *s)
{
	char name[PG_NAME_SIZE];

	if (pg_token_name(&s->name, name, sizeof(name)))
		(void)pg_names_add(names, name);
}

static void warn_of_local(struct pg_client *c, const struct pg_statement *s)
{
	if (s->kind == PG_SET_LOCAL && !c->in_block && c->proxy->script.n == 1 && strncasecmp(s->text, "set", 3) == 0)
		pg_client_warn(c, "25P01", "SET LOCAL can only be used in transaction blocks");
}

void pg_transaction_note(struct pg_client *c, const struct pg_statement *s)
{
	warn_of_local(c, s);
	switch ((int)s->kind) {
	case PG_DEFINE_TEMPORARY:
		c->proxy->used_temporary = true;
		note_define(c);
		break;
	case PG_DEFINE:
		note_define(c);
		break;
	case PG_NOTIFY:
		c->proxy->used_notify = c->proxy->notified = true;
		break;
	case PG_LISTEN:
		c->proxy->used_notify = true;
		break;
	case PG_SET_CONSTRAINTS:
		c->touched_constraints = true;
		break;
	case PG_RELEASE:
		c->released_constraints = c->touched_constraints;
		break;
	case PG_DECLARE_HOLD:
		c->proxy->held_cursors = true;
		break;
	case PG_DECLARE:
		note_name(&c->cursors, s);
		break;
	case PG_PREPARE:
		note_name(&c->prepared, s);
		break;
	}
}

/* The name now stands for a statement made by SQL, or for none: in neither case for one that the proxy carries out. */
static void forget_name(struct pg_client *c, const struct pg_statement *s)
{
	char name[PG_NAME_SIZE];

	if (!pg_token_name(&s->name, name, sizeof(name)))
		return;
	pg_known_remove(&c->statements, name);
	if (s->kind == PG_DEALLOCATE)
		pg_names_remove(&c->prepared, name);
}

void pg_transaction_done(struct pg_client *c, const struct pg_statement *s)
{
	if (s->kind == PG_PREPARE || s->kind == PG_DEALLOCATE)
		forget_name(c, s);
	else if (pg_settings_note(&c->log, s) < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

static void refused(struct pg_client *c, bool succeeded)
{
	pg_message_report(&c->out, 'E', &c->proxy->refusal);
	c->failed = true;
	pg_script_next(c);
}

/* Where there is a transaction it must fail on the server too. The report's strings are constants. */
void pg_transaction_refuse(struct pg_client *c, const struct pg_report *report)
{
	AUTO_FREE char *sql = str_format("ROLLBACK TO SAVEPOINT %s_refused", c->proxy->savepoint);

	c->proxy->refusal = *report;
	if (!c->in_block && !c->dirty) {
		refused(c, false);
		return;
	}
	if (!sql) {
		pg_proxy_lose(c->proxy, "out of memory");
		return;
	}
	c->dirty = true;
	pg_group_query(c, sql, refused);
}

static void answered(struct pg_client *c, bool succeeded)
{
	struct pg_proxy *p = c->proxy;

	if (succeeded) {
		pg_client_tag(c, p->answer);
	} else {
		pg_buffer_add(&c->out, pg_buffer_front(&p->own_error), pg_buffer_size(&p->own_error));
		c->failed = true;
	}
	pg_script_next(c);
}

/* The proxy's own query, and the tag with which it is answered. */
static void run_own(struct pg_client *c, const char *sql, const char *tag)
{
	snprintf(c->proxy->answer, sizeof(c->proxy->answer), "%s", tag);
	c->dirty = true;
	pg_group_query(c, sql, answered);
}

static void answer(struct pg_client *c, const char *tag)
{
	pg_client_tag(c, tag);
	pg_script_next(c);
}

static void warn_of_isolation(struct pg_client *c, enum pg_isolation wanted)
{
	char text[160];

	if (wanted <= c->proxy->level)
		return;
	snprintf(text, sizeof(text), "the isolation level is that of the sandbox's transaction, \"%s\", not \"%s\"",
		 pg_isolation_name(c->proxy->level), pg_isolation_name(wanted));
	pg_client_warn(c, "01000", text);
}

static bool is_read_only_by_default(const struct pg_client *c)
{
	return strcmp(pg_script_parameter(c->proxy, "default_transaction_read_only"), "on") == 0;
}

static void guarded(struct pg_client *c, bool succeeded)
{
	if (!succeeded)
		pg_proxy_lose(c->proxy, "a transaction could not be made read-only");
}

void pg_transaction_guard(struct pg_client *c)
{
	if (c->in_block || c->dirty || !is_read_only_by_default(c))
		return;
	c->dirty = true;
	pg_group_query(c, "SET TRANSACTION READ ONLY", guarded);
}

static void run_begin(struct pg_client *c, const struct pg_statement *s)
{
	const char *tag = (*s->text | 0x20) == 's' ? "START TRANSACTION" : "BEGIN";
	bool read_only = s->read_only == 1 || (s->read_only < 0 && !c->dirty && is_read_only_by_default(c));

	if (c->in_block)
		pg_client_warn(c, "25001", "there is already a transaction in progress");
	else
		c->begun_read_only = is_read_only_by_default(c);
	c->in_block = true;
	warn_of_isolation(c, s->isolation);
	if (read_only)
		run_own(c, "SET TRANSACTION READ ONLY", tag);
	else
		answer(c, tag);
}

static void run_set_transaction(struct pg_client *c, const struct pg_statement *s)
{
	const struct pg_script *script = &c->proxy->script;

	/* Several statements, or a sequence up to Sync, are one transaction all the same. */
	if (!c->in_block && script->n == 1)
		pg_client_warn(c, "25P01", "SET TRANSACTION can only be used in transaction blocks");
	if (!c->in_block && script->n == 1 && !script->extended) {
		answer(c, "SET");
		return;
	}
	warn_of_isolation(c, s->isolation);
	if (s->read_only < 0)
		answer(c, "SET");
	else
		run_own(c, s->read_only ? "SET TRANSACTION READ ONLY" : "SET TRANSACTION READ WRITE", "SET");
}

/* The end of a block; with AND CHAIN the next one begins. */
static void block_ended(struct pg_client *c, bool committed)
{
	bool read_only = c->chain_read_only && c->chain;
	const char *tag = committed ? "COMMIT" : "ROLLBACK";

	c->in_block = c->chain && !c->failed;
	c->begun_read_only = read_only;
	c->chain = c->chain_read_only = false;
	if (c->failed)
		pg_script_next(c);
	else if (read_only)
		run_own(c, "SET TRANSACTION READ ONLY", tag);
	else
		answer(c, tag);
}

static void chain_known(struct pg_client *c, bool succeeded)
{
	struct pg_proxy *p = c->proxy;

	if (!succeeded) {
		c->chain = false;
		answered(c, false);
		return;
	}
	c->chain_read_only = strcmp(strbuf_str(&p->captured), "on") == 0;
	pg_finish(c, c->chain_commits, block_ended);
}

/* The next block is read-only if this one is as it ends. A server that commits looks in the innermost savepoint; one
 * that rolls back has gone back to before the outermost; one that has failed outside of savepoints knows only how the
 * block began: by default, or by AND CHAIN. */
static void run_chain(struct pg_client *c, bool commit)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	c->chain = true;
	c->chain_commits = commit && !c->broken;
	if (!c->chain_commits)
		pg_settings_rollbacks(&c->log, &sql);
	if (c->broken && sql.size == 0) {
		c->chain_read_only = c->begun_read_only;
		pg_finish(c, false, block_ended);
		return;
	}
	strbuf_adds(&sql, "SHOW transaction_read_only");
	if (sql.failed) {
		pg_proxy_lose(c->proxy, "out of memory");
		return;
	}
	c->dirty = true;
	pg_group_query(c, strbuf_str(&sql), chain_known);
}

static void run_end(struct pg_client *c, const struct pg_statement *s)
{
	bool commit = s->kind == PG_COMMIT;

	if (!c->in_block && s->chain) {
		struct pg_report report = { .severity = "ERROR", .state = "25P01" };

		report.message = commit ? "COMMIT AND CHAIN can only be used in transaction blocks"
					: "ROLLBACK AND CHAIN can only be used in transaction blocks";
		pg_transaction_refuse(c, &report);
		return;
	}
	if (!c->in_block)
		pg_client_warn(c, "25P01", "there is no transaction in progress");
	if (s->chain)
		run_chain(c, commit);
	else
		pg_finish(c, commit && !c->broken, block_ended);
}

static void run_deallocate_all(struct pg_client *c)
{
	pg_extended_forget(c);
	pg_finish_closes(c->proxy);
	answer(c, "DEALLOCATE ALL");
}

/* To what the client came with, not to what the server has for everybody. */
static void run_reset(struct pg_client *c, const struct pg_statement *s)
{
	const char *sql = pg_settings_find(&c->defaults, s->key);

	pg_transaction_done(c, s);
	if (is_fatal_limit(s))
		answer(c, "RESET");
	else
		run_own(c, sql ? sql : "", "RESET");
}

/* SET … TO DEFAULT sets the value that the client gave when it connected. A limit that could end
 * the transaction is accepted and has no effect. */
static void run_set(struct pg_client *c, const struct pg_statement *s)
{
	const char *sql = pg_settings_find(&c->defaults, s->key);
	AUTO_FREE char *local = sql && s->kind == PG_SET_LOCAL ? pg_settings_local_sql(sql) : NULL;

	if (is_fatal_limit(s)) {
		answer(c, "SET");
		return;
	}
	warn_of_local(c, s);
	pg_transaction_done(c, s);
	if (s->kind == PG_SET_LOCAL && !local)
		pg_proxy_lose(c->proxy, "out of memory");
	else
		run_own(c, local ? local : sql, "SET");
}

static void add_reset_all(const struct pg_client *c, struct strbuf *sql)
{
	strbuf_adds(sql, "RESET ALL; ");
	strbuf_adds(sql, pg_transaction_limits_sql(c->proxy));
	pg_settings_all(&c->defaults, sql);
}

static void run_reset_all(struct pg_client *c, const struct pg_statement *s)
{
	AUTO_STRBUF sql = STRBUF_INIT;

	add_reset_all(c, &sql);
	pg_transaction_done(c, s);
	if (sql.failed)
		pg_proxy_lose(c->proxy, "out of memory");
	else
		run_own(c, strbuf_str(&sql), "RESET");
}

/* Other clients' cursors and temporary tables are in the same session: they go only if there are no others. */
static void run_discard_all(struct pg_client *c, bool alone)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	const struct pg_statement all = { .kind = PG_RESET_ALL, .text = "" };
	const struct pg_statement identity = { .kind = PG_RESET, .text = "", .key = "session_authorization" };
	bool only_one = c->proxy->n_clients == 1;

	if (c->in_block || !alone) {
		pg_transaction_refuse(c, &discard_in_block);
		return;
	}
	pg_extended_forget(c);
	pg_finish_closes(c->proxy);
	strbuf_adds(&sql, "RESET SESSION AUTHORIZATION; ");
	add_reset_all(c, &sql);
	strbuf_adds(&sql, "SELECT pg_catalog.pg_advisory_unlock_all(); UNLISTEN *; DISCARD PLANS; DISCARD SEQUENCES");
	if (only_one)
		strbuf_adds(&sql, "; CLOSE ALL; DISCARD TEMP");
	if (sql.failed || pg_settings_note(&c->log, &all) < 0 || pg_settings_note(&c->log, &identity) < 0)
		pg_proxy_lose(c->proxy, "out of memory");
	else
		run_own(c, strbuf_str(&sql), "DISCARD ALL");
}

void pg_transaction_run(struct pg_client *c, const struct pg_statement *s)
{
	const struct pg_report *report = refused_outside(c, s, true);

	switch ((int)s->kind) {
	case PG_BEGIN:
		run_begin(c, s);
		break;
	case PG_COMMIT:
	case PG_ROLLBACK:
		run_end(c, s);
		break;
	case PG_SET_TRANSACTION:
		run_set_transaction(c, s);
		break;
	case PG_SET_SNAPSHOT:
		pg_transaction_refuse(c, &snapshots);
		break;
	case PG_TWO_PHASE:
		pg_transaction_refuse(c, &two_phase);
		break;
	case PG_EXECUTE:
		pg_transaction_refuse(c, &execute_control);
		break;
	case PG_DISCARD_ALL:
		run_discard_all(c, c->proxy->script.n == 1 && c->executed <= 1);
		break;
	case PG_DEALLOCATE_ALL:
		run_deallocate_all(c);
		break;
	case PG_SET:
	case PG_SET_LOCAL:
		run_set(c, s);
		break;
	case PG_RESET:
		run_reset(c, s);
		break;
	case PG_RESET_ALL:
		run_reset_all(c, s);
		break;
	default:
		if (!report)
			report = names_ours(c, s) ? &no_such_savepoint : &malformed;
		pg_transaction_refuse(c, report);
	}
}
