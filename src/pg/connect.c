/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, which is libpq's: addresses, passwords, certificates, service files, environment. */
#include <libpq-fe.h>
#include <string.h>

#include "pg/private.h"

#define CONNECT_SECONDS "10" /* unless the connection string says otherwise */
#define OLDEST_VERSION 100000

/* libpq's lines as one. */
static void one_line(const char *text, char *buffer, size_t size)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++) {
		char c = (char)(*text == '\n' || *text == '\t' ? ' ' : *text);

		if (c != ' ' || (n > 0 && buffer[n - 1] != ' '))
			buffer[n++] = c;
	}
	while (n > 0 && buffer[n - 1] == ' ')
		n--;
	buffer[n] = 0;
}

/* A malformed string is not repeated: it may contain a password. */
static int check_conninfo(const char *conninfo, const char *operation, struct atoll_error *err)
{
	char *message = NULL;
	PQconninfoOption *options = PQconninfoParse(conninfo, &message);

	PQconninfoFree(options);
	PQfreemem(message);
	if (options)
		return 0;
	return error_set(
		err, ATOLL_INVALID, 0, operation, NULL,
		"the connection string of the database is malformed; see libpq's documentation of connection strings");
}

static void *connect_checked(const char *conninfo)
{
	/* What comes later counts; the string is taken apart where it stands. The session is one of many that hold a transaction, and encryption by
	 * GSSAPI would keep the bytes from us. */
	const char *const keys[] = { "connect_timeout", "fallback_application_name", "dbname", "gssencmode", NULL };
	const char *const values[] = { CONNECT_SECONDS, "atoll", conninfo, "disable", NULL };

	return PQconnectdbParams(keys, values, 1);
}

void *pg_connect(const char *conninfo, const char *operation, struct atoll_error *err)
{
	char text[600];
	PGconn *conn;

	conninfo = conninfo ? conninfo : "";
	/* A plain name is a database. */
	if ((strchr(conninfo, '=') || strstr(conninfo, "://")) && check_conninfo(conninfo, operation, err) < 0)
		return NULL;
	conn = connect_checked(conninfo);
	if (!conn) {
		error_oom(err, operation);
		return NULL;
	}
	if (PQstatus(conn) == CONNECTION_OK && PQserverVersion(conn) >= OLDEST_VERSION)
		return conn;
	if (PQstatus(conn) == CONNECTION_OK) {
		error_set(err, ATOLL_UNSUPPORTED, 0, operation, PQdb(conn),
			  "PostgreSQL 10 or later is needed; the server is %d.%d", PQserverVersion(conn) / 10000,
			  PQserverVersion(conn) / 100 % 100);
	} else {
		one_line(PQerrorMessage(conn), text, sizeof(text));
		error_set(err, ATOLL_FAILED, 0, operation, PQdb(conn), "cannot connect to the database: %s", text);
	}
	PQfinish(conn);
	return NULL;
}

void pg_connect_close(void *conn)
{
	if (conn)
		PQfinish(conn);
}

void pg_connect_identity(void *conn, char system[24], uint32_t *ret_timeline)
{
	PGresult *result = PQexec(conn,
				  "SELECT s.system_identifier, c.timeline_id FROM pg_catalog.pg_control_system() s, "
				  "pg_catalog.pg_control_checkpoint() c");

	system[0] = 0;
	*ret_timeline = 0;
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
		snprintf(system, 24, "%s", PQgetvalue(result, 0, 0));
		*ret_timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
	}
	PQclear(result);
}
