/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the transaction: hold, check, mark, commit. pg.h says what each promises. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "pg/private.h"

#define MARK_ATTEMPTS 16
#define FIRST_FREE_OID 16384

static bool is_idle(const struct pg_proxy *p)
{
	return !p->owner && p->n_groups == 0;
}

static int not_held(const struct pg_proxy *p, const char *operation, struct atoll_error *err)
{
	if (p->state == PG_LOST)
		return error_set(err, ATOLL_STATE, 0, operation, NULL, "the database transaction is lost: %s",
				 p->reason);
	return error_set(err, ATOLL_STATE, 0, operation, NULL, "the database transaction is not held");
}

static int busy(struct pg_proxy *p, struct atoll_error *err)
{
	const char *name = p->owner && *p->owner->name ? p->owner->name : "a client";

	p->state = PG_OPEN;
	return error_set(err, ATOLL_BUSY, 0, "hold", name,
			 "\"%s\" is inside a database transaction; end it, or use force", name);
}

/* Steps until nothing is under way, or the time is over. */
static int wait_idle(struct pg_proxy *p, int64_t until)
{
	int64_t left;

	while (p->state != PG_LOST && !is_idle(p)) {
		left = until - clock_monotonic_ns();
		if (left <= 0)
			return -ETIMEDOUT;
		pg_server_flush(p);
		pg_server_watch(p);
		(void)pg_proxy_step(p, (int)(left / 1000000 + 1));
	}
	return 0;
}

int pg_proxy_hold(struct pg_proxy *p, unsigned wait_ms, bool force, struct atoll_error *err)
{
	static const struct pg_report report = {
		.severity = "FATAL",
		.state = "57P01",
		.message =
			"terminating connection: the sandbox's transaction ends (a commit, a rollback, or its limit of time)"
	};
	int r;

	if (p->state == PG_HELD)
		return 0;
	if (p->state != PG_OPEN)
		return not_held(p, "hold", err);
	p->state = PG_HELD;
	r = wait_idle(p, clock_monotonic_ns() + (int64_t)wait_ms * 1000000);
	if (r < 0 && !force)
		return busy(p, err);
	if (r < 0 && p->owner) {
		pg_client_fatal(p->owner, &report);
		if (p->owner)
			pg_client_leave(p->owner);
		r = wait_idle(p, clock_monotonic_ns() + (int64_t)p->wait_ms * 1000000);
	}
	if (p->state == PG_LOST)
		return not_held(p, "hold", err);
	return r < 0 ? busy(p, err) : 0;
}

void pg_proxy_resume(struct pg_proxy *p)
{
	if (p->state != PG_HELD)
		return;
	p->state = PG_OPEN;
	pg_proxy_settle(p);
	pg_server_flush(p);
	pg_server_watch(p);
}

/* Runs something that may fail and leaves nothing behind then. Nothing was done since the savepoint, so that is where it goes back to. */
static int try(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err)
{
	int r = pg_ask(p, sql, ret, err);

	if (r < 0 && p->state != PG_LOST)
		(void)pg_go_back(p);
	return r;
}

/* What was done in HELD stays, whatever is tried next. */
static int keep(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	char sql[120];

	snprintf(sql, sizeof(sql), "RELEASE %s; SAVEPOINT %s", p->savepoint, p->savepoint);
	return pg_ask(p, sql, &answer, err);
}

/* By a statement as short as can be: it has to be done within the very limit that it takes away. */
static int be_unlimited(struct pg_proxy *p, struct atoll_error *err)
{
	int r, attempts = 0;
	bool again;

	do {
		AUTO_ANSWER answer = { 0 };

		r = try(p, "SET statement_timeout = 0", &answer, err);
		again = r < 0 && pg_was_too_slow(p, &answer, &attempts);
	} while (again);
	return r;
}

/* What a client has set (a role, a limit of time) is not for what the proxy does itself. Whoever comes next sets his own again. */
static int be_plain(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	int r, attempts = 0;
	bool again;

	/* Before the settings: a role may not reset a setting that another role has set. */
	strbuf_adds(&sql, "SET SESSION AUTHORIZATION DEFAULT; ");
	pg_settings_switch(&p->applied, &(struct pg_settings){ 0 }, &sql);
	strbuf_adds(&sql, "SET SESSION AUTHORIZATION DEFAULT");
	do {
		AUTO_ANSWER answer = { 0 };

		r = be_unlimited(p, err);
		if (r < 0)
			return r;
		r = try(p, strbuf_str(&sql), &answer, err);
		/* The server may have cancelled it when the previous statement's limit ran out. */
		again = r < 0 && pg_was_too_slow(p, &answer, &attempts);
	} while (again);
	if (r < 0)
		return r;
	pg_settings_clear(&p->applied);
	return keep(p, err);
}

int pg_proxy_check(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 }, ignored = { 0 };
	char back[64];
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "check", err);
	r = be_plain(p, err);
	if (r == 0)
		r = try(p, "SET CONSTRAINTS ALL IMMEDIATE", &answer, err);
	if (r < 0)
		return r;
	/* As it was: deferred ones are deferred, and triggers fire when it is really committed. */
	snprintf(back, sizeof(back), "ROLLBACK TO %s", p->savepoint);
	return pg_ask(p, back, &ignored, err);
}

static int read_marker(struct pg_proxy *p, struct pg_marker *m, struct atoll_error *err)
{
	AUTO_ANSWER xid = { 0 }, timeline = { 0 };
	int r = pg_ask(p, "SELECT pg_catalog.txid_current()", &xid, err);

	if (r < 0)
		return r;
	if (xid.values.n == 1)
		m->xid = strtoull(xid.values.v[0], NULL, 10);
	snprintf(m->system, sizeof(m->system), "%s", p->system);
	if (*m->system && try(p, "SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()", &timeline, NULL) == 0 &&
	    timeline.values.n == 1)
		m->timeline = (uint32_t)strtoul(timeline.values.v[0], NULL, 10);
	return 0;
}

/* A large object under a number that nobody has; -ATOLL_EXISTS: somebody has. */
static int make_marker(struct pg_proxy *p, const char *uuid, uint32_t *ret_oid, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	char sql[200];
	uint32_t oid;
	int r;

	random_bytes(&oid, sizeof(oid));
	oid = FIRST_FREE_OID + oid % (UINT32_MAX - FIRST_FREE_OID);
	snprintf(sql, sizeof(sql), "SELECT pg_catalog.lo_from_bytea(%" PRIu32 ", pg_catalog.convert_to('%s', 'UTF8'))",
		 oid, uuid);
	r = try(p, sql, &answer, err);
	if (r < 0)
		return strcmp(answer.state, "23505") == 0 ? -ATOLL_EXISTS : r;
	*ret_oid = oid;
	return 0;
}

static bool is_uuid(const char *text)
{
	return strlen(text) == 36 && strspn(text, "0123456789abcdefABCDEF-") == 36;
}

int pg_proxy_mark(struct pg_proxy *p, const char *uuid, struct pg_marker *ret, struct atoll_error *err)
{
	struct pg_marker m = { 0 };
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "mark", err);
	if (!is_uuid(uuid))
		return error_set(err, ATOLL_INVALID, 0, "mark", uuid, "\"%s\" is no UUID", uuid);
	r = be_plain(p, err);
	if (r < 0)
		return r;
	r = -ATOLL_EXISTS;
	for (int i = 0; i < MARK_ATTEMPTS && r == -ATOLL_EXISTS; i++)
		r = make_marker(p, uuid, &m.oid, err);
	if (r == 0)
		r = keep(p, err);
	if (r == 0)
		r = read_marker(p, &m, err);
	if (r < 0)
		return r;
	snprintf(m.uuid, sizeof(m.uuid), "%s", uuid);
	*ret = m;
	return 0;
}

int pg_proxy_unmark(struct pg_proxy *p, const struct pg_marker *marker, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	char sql[80];
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "mark", err);
	snprintf(sql, sizeof(sql), "SELECT pg_catalog.lo_unlink(%u)", marker->oid);
	r = be_plain(p, err);
	if (r == 0)
		r = try(p, sql, &answer, err);
	return r < 0 ? r : keep(p, err);
}

/* The server's transaction is over; clients wait for the next one. */
static void ended(struct pg_proxy *p)
{
	p->state = PG_ENDED;
	pg_settings_clear(&p->applied);
}

/* The last word to a transaction. tag: what the server says if it went well. */
static int finish(struct pg_proxy *p, const char *sql, const char *tag, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	int r = pg_ask(p, sql, &answer, err);

	if (p->state == PG_LOST)
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "commit", NULL,
			"the connection was lost while the database committed, and how that ended is not known: %s",
			p->reason);
	ended(p);
	if (r < 0)
		return r;
	if (strcmp(answer.tag, tag) != 0)
		return error_set(err, ATOLL_REFUSED, 0, "commit", NULL, "the database has rolled the transaction back");
	return 0;
}

/* What must be so before the last word. A failure here is the end too: nothing of it can be committed any more. */
static int before_finish(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err)
{
	AUTO_ANSWER ignored = { 0 };
	int r = pg_ask(p, sql, ret, err);

	if (r < 0 && p->state != PG_LOST) {
		(void)pg_ask(p, "ROLLBACK", &ignored, NULL);
		if (p->state != PG_LOST)
			ended(p);
	}
	return r;
}

/* The strictest level is left as it is. */
static int make_durable(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_ANSWER level = { 0 }, set = { 0 };
	int r = before_finish(p, "SHOW synchronous_commit", &level, err);

	if (r < 0 || (level.values.n == 1 && strcmp(level.values.v[0], "remote_apply") == 0))
		return r;
	return before_finish(p, "SET LOCAL synchronous_commit = on", &set, err);
}

int pg_proxy_commit(struct pg_proxy *p, struct atoll_error *err)
{
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "commit", err);
	r = be_plain(p, err);
	if (r == 0)
		r = make_durable(p, err);
	return r < 0 ? r : finish(p, "COMMIT", "COMMIT", err);
}

static bool is_gid(const char *gid)
{
	return *gid && strlen(gid) < 200 && !strpbrk(gid, "'\\") && strcspn(gid, "\n\r\t") == strlen(gid);
}

int pg_proxy_prepare(struct pg_proxy *p, const char *gid, struct atoll_error *err)
{
	AUTO_FREE char *sql = str_format("PREPARE TRANSACTION '%s'", gid);
	AUTO_ANSWER ignored = { 0 };
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "prepare", err);
	if (!is_gid(gid))
		return error_set(err, ATOLL_INVALID, 0, "prepare", gid, "\"%s\" cannot name a prepared transaction",
				 gid);
	if (!sql)
		return error_oom(err, "prepare");
	r = be_plain(p, err);
	if (r == 0)
		r = before_finish(p, "SELECT pg_catalog.pg_advisory_unlock_all()", &ignored, err);
	if (r == 0)
		r = make_durable(p, err);
	return r < 0 ? r : finish(p, sql, "PREPARE TRANSACTION", err);
}

int pg_proxy_rollback(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_ANSWER answer = { 0 };
	int r;

	if (p->state != PG_HELD)
		return not_held(p, "rollback", err);
	r = pg_ask(p, "ROLLBACK", &answer, err);
	if (p->state != PG_LOST)
		ended(p);
	return r;
}

int pg_proxy_begin(struct pg_proxy *p, struct atoll_error *err)
{
	int r;

	if (p->state != PG_ENDED)
		return error_set(err, ATOLL_STATE, 0, "begin", NULL, "a database transaction is open, or was lost");
	(void)pg_loop_want(p, &p->server, 0);
	r = pg_server_reset(p, err);
	if (r == 0)
		r = pg_server_begin(p, err);
	if (r < 0) {
		pg_proxy_lose(p, "the next transaction could not be begun");
		return r;
	}
	pg_proxy_settle(p);
	pg_server_flush(p);
	return 0;
}
