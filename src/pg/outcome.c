/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a transaction, asked by a connection of its own.
 *
 * The marker is a large object that the transaction made: it is there if and only if that was committed. Not being there says nothing while
 * the transaction is still under way (its server process may live on after the client has died), so its id is looked at first. The id
 * alone would not do: after a crash of the server it may be given to somebody else.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <string.h>

#include "pg/private.h"

static void cleanup_conn(void *conn)
{
	pg_connect_close(*(void **)conn);
}
#define AUTO_CONN CLEANUP(cleanup_conn) void

static void cleanup_result(PGresult **result)
{
	PQclear(*result);
}
#define AUTO_RESULT CLEANUP(cleanup_result) PGresult

static const char *state_of(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state ? state : "";
}

static int failed(void *conn, const PGresult *result, const char *operation, struct atoll_error *err)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	return error_set(err, ATOLL_FAILED, 0, operation, PQdb(conn), "the database refuses: %s",
			 message ? message : "the connection is lost");
}

static int in_doubt(struct atoll_error *err, const char *why)
{
	return error_set(err, ATOLL_IN_DOUBT, 0, "outcome", NULL,
			 "whether the database transaction was committed is not known yet: %s", why);
}

/* One value, or NULL; *ret_state is the SQLSTATE of a failure. */
static char *value(void *conn, const char *sql, char ret_state[6])
{
	AUTO_RESULT *result = PQexec(conn, sql);

	snprintf(ret_state, 6, "%s", state_of(result));
	if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
		return NULL;
	return strdup(PQgetisnull(result, 0, 0) ? "" : PQgetvalue(result, 0, 0));
}

/* 1, 0 or -1: cannot be asked. */
static int marker_is_there(void *conn, const struct pg_marker *m)
{
	char sql[160], state[6];
	AUTO_FREE char *content = NULL;

	snprintf(sql, sizeof(sql), "SELECT pg_catalog.convert_from(pg_catalog.lo_get(%" PRIu32 "), 'UTF8')", m->oid);
	content = value(conn, sql, state);
	if (content)
		return strcmp(content, m->uuid) == 0;
	/* None, or one that is no text: not the one that was made. One that may not be read may be it. */
	return strcmp(state, "42704") == 0 || strncmp(state, "22", 2) == 0 ? 0 : -1;
}

/* Whether the transaction may still be under way; NULL: it is not. */
static const char *why_not_ended(void *conn, const struct pg_marker *m)
{
	char sql[120], state[6];
	AUTO_FREE char *status = NULL;

	snprintf(sql, sizeof(sql), "SELECT pg_catalog.txid_status(%" PRIu64 ")", m->xid);
	status = value(conn, sql, state);
	if (status && strcmp(status, "in progress") == 0)
		return "the server has not ended it";
	/* An id that the server has not given yet: it has lost it in a crash. */
	if (!status && strcmp(state, "22023") != 0)
		return "the server does not tell";
	return NULL;
}

/* Whether this is a server that must know; NULL: it is. */
static const char *why_not_this(void *conn, const struct pg_marker *m)
{
	char system[24], state[6];
	uint32_t timeline;
	AUTO_FREE char *standby = value(conn, "SELECT pg_catalog.pg_is_in_recovery()", state);

	pg_connect_identity(conn, system, &timeline);
	if (*m->system && strcmp(system, m->system) != 0)
		return "the server is another one";
	if (!standby || strcmp(standby, "f") != 0)
		return "the server is a standby";
	if (m->timeline != 0 && timeline != m->timeline)
		return "the server was restored or promoted since, and may have lost the end of the transaction";
	return NULL;
}

int pg_outcome(const char *conninfo, const struct pg_marker *marker, bool *ret_committed, struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "outcome", err);
	struct atoll_error why = { 0 };
	const char *other, *ended;
	int there;

	if (!conn) {
		if (err)
			why = *err;
		return in_doubt(err, why.message);
	}
	other = why_not_this(conn, marker);
	ended = why_not_ended(conn, marker);
	there = marker_is_there(conn, marker); /* last: what ended before is seen */
	if (there < 0)
		return in_doubt(err, "the server does not tell");
	if (there == 0 && (other || ended))
		return in_doubt(err, other ? other : ended);
	*ret_committed = there == 1;
	return 0;
}

int pg_forget_marker(const char *conninfo, const struct pg_marker *marker, struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "finish", err);
	char sql[80];
	int there;

	if (!conn)
		return -ATOLL_FAILED;
	there = marker_is_there(conn, marker);
	if (there == 0)
		return 0;
	if (there < 0)
		return error_set(err, ATOLL_FAILED, 0, "finish", NULL,
				 "the marker of the transaction, large object %" PRIu32 ", cannot be read",
				 marker->oid);
	snprintf(sql, sizeof(sql), "SELECT pg_catalog.lo_unlink(%" PRIu32 ")", marker->oid);
	{
		AUTO_RESULT *result = PQexec(conn, sql);

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			return failed(conn, result, "finish", err);
	}
	return 0;
}

int pg_prepared_find(const char *conninfo, const char *gid, bool *ret, struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "prepared", err);
	const char *const values[] = { gid };

	if (!conn)
		return -ATOLL_FAILED;
	{
		AUTO_RESULT *result =
			PQexecParams(conn,
				     "SELECT 1 FROM pg_catalog.pg_prepared_xacts WHERE gid = $1 AND database = "
				     "pg_catalog.current_database()",
				     1, NULL, values, NULL, NULL, 0);

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			return failed(conn, result, "prepared", err);
		*ret = PQntuples(result) > 0;
	}
	return 0;
}

int pg_prepared_list(const char *conninfo, const char *prefix, struct strbuf *ret, struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "prepared", err);
	const char *const values[] = { prefix };

	if (!conn)
		return -ATOLL_FAILED;
	{
		AUTO_RESULT *result = PQexecParams(
			conn,
			"SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() "
			"AND pg_catalog.left(gid, pg_catalog.length($1)) = $1 ORDER BY 1",
			1, NULL, values, NULL, NULL, 0);

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			return failed(conn, result, "prepared", err);
		for (int i = 0; i < PQntuples(result); i++)
			strbuf_addf(ret, "%s\n", PQgetvalue(result, i, 0));
	}
	return 0;
}

static int prepared_end(const char *conninfo, const char *command, const char *gid, bool *ret_found,
			struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "prepared", err);
	AUTO_STRBUF sql = STRBUF_INIT;
	char *literal;

	if (!conn)
		return -ATOLL_FAILED;
	literal = PQescapeLiteral(conn, gid, strlen(gid));
	strbuf_addf(&sql, "%s PREPARED %s", command, literal ? literal : "''");
	PQfreemem(literal);
	{
		AUTO_RESULT *result = PQexec(conn, strbuf_str(&sql));
		bool missing = strcmp(state_of(result), "42704") == 0;

		if (PQresultStatus(result) != PGRES_COMMAND_OK && !missing)
			return failed(conn, result, "prepared", err);
		*ret_found = !missing;
	}
	return 0;
}

int pg_prepared_commit(const char *conninfo, const char *gid, bool *ret_found, struct atoll_error *err)
{
	return prepared_end(conninfo, "COMMIT", gid, ret_found, err);
}

int pg_prepared_rollback(const char *conninfo, const char *gid, bool *ret_found, struct atoll_error *err)
{
	return prepared_end(conninfo, "ROLLBACK", gid, ret_found, err);
}

int pg_probe(const char *conninfo, struct pg_probe *ret, struct atoll_error *err)
{
	AUTO_CONN *conn = pg_connect(conninfo, "probe", err);
	struct pg_probe p = { 0 };

	if (!conn)
		return -ATOLL_FAILED;
	{
		AUTO_RESULT *result = PQexec(
			conn, "SELECT pg_catalog.current_database(), current_user, pg_catalog.pg_is_in_recovery() OR "
			      "pg_catalog.current_setting('default_transaction_read_only') = 'on', "
			      "pg_catalog.current_setting('max_prepared_transactions'), "
			      "pg_catalog.current_setting('default_transaction_isolation')");

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			return failed(conn, result, "probe", err);
		snprintf(p.database, sizeof(p.database), "%s", PQgetvalue(result, 0, 0));
		snprintf(p.role, sizeof(p.role), "%s", PQgetvalue(result, 0, 1));
		p.read_only = strcmp(PQgetvalue(result, 0, 2), "t") == 0;
		p.max_prepared_transactions = (int)strtol(PQgetvalue(result, 0, 3), NULL, 10);
		snprintf(p.isolation, sizeof(p.isolation), "%s", PQgetvalue(result, 0, 4));
	}
	p.server_version = PQserverVersion(conn);
	pg_connect_identity(conn, p.system, &p.timeline);
	*ret = p;
	return 0;
}
