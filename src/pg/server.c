/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the server: libpq has made it, from then on the protocol is spoken here. */
#include <libpq-fe.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#if PG_WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

#include "base/clock.h"
#include "base/random.h"
#include "pg/private.h"

static int run(PGconn *conn, const char *sql, struct atoll_error *err)
{
	PGresult *result = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(result);
	char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	int r = 0;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		r = error_set(err, ATOLL_FAILED, 0, "begin", PQdb(conn),
			      "the database does not begin a transaction: %s",
			      message ? message : "the connection is lost");
	PQclear(result);
	return r;
}

static char *value(PGconn *conn, const char *sql)
{
	PGresult *result = PQexec(conn, sql);
	char *text = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1
			     ? strdup(PQgetvalue(result, 0, 0))
			     : NULL;

	PQclear(result);
	return text;
}

/* What the server tells every client. */
static int take_parameters(struct pg_proxy *p)
{
	static const char *const names[] = { "server_version",
					     "server_encoding",
					     "client_encoding",
					     "application_name",
					     "default_transaction_read_only",
					     "in_hot_standby",
					     "is_superuser",
					     "session_authorization",
					     "DateStyle",
					     "IntervalStyle",
					     "TimeZone",
					     "integer_datetimes",
					     "standard_conforming_strings" };

	pg_settings_clear(&p->parameters);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *text = PQparameterStatus(p->conn, names[i]);

		if (text && pg_settings_put(&p->parameters, names[i], text) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Whether the source of a function in the database names a limit that would end the transaction. A
 * call of that function does not name the limit, so the proxy cannot tell by the statement. */
static bool functions_name_limits(struct pg_proxy *p)
{
	AUTO_FREE char *found = value(p->conn, "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_proc WHERE "
					       "pg_catalog.strpos(pg_catalog.lower(prosrc), 'n_timeout') > 0)");

	return !found || strcmp(found, "f") != 0;
}

/* A limit on idle transactions would end this one, which is idle most of the time. */
static int prepare_session(struct pg_proxy *p, struct atoll_error *err)
{
	int r = run(p->conn, "SET idle_in_transaction_session_timeout = 0", err);

	if (r == 0 && p->version >= 140000)
		r = run(p->conn, "SET idle_session_timeout = 0", err);
	if (r == 0 && p->version >= 170000)
		r = run(p->conn, "SET transaction_timeout = 0", err);
	p->names_limits = functions_name_limits(p);
	return r;
}

static int prepare_statement(struct pg_proxy *p, const char *name, const char *command, struct atoll_error *err)
{
	AUTO_FREE char *sql = str_format(command, p->savepoint);
	PGresult *result = sql ? PQprepare(p->conn, name, sql, 0, NULL) : NULL;
	int r = 0;

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		r = error_set(err, ATOLL_FAILED, 0, "begin", PQdb(p->conn),
			      "the database does not prepare a statement");
	PQclear(result);
	return r;
}

static int name_ours(struct pg_proxy *p, struct atoll_error *err)
{
	uint64_t token;
	int r;

	random_bytes(&token, sizeof(token));
	snprintf(p->savepoint, sizeof(p->savepoint), "atoll_%016llx", (unsigned long long)token);
	snprintf(p->make, sizeof(p->make), "%s_make", p->savepoint);
	snprintf(p->release, sizeof(p->release), "%s_release", p->savepoint);
	snprintf(p->back, sizeof(p->back), "%s_back", p->savepoint);
	snprintf(p->close, sizeof(p->close), "%s_close", p->savepoint);
	r = prepare_statement(p, p->make, "SAVEPOINT %s", err);
	if (r == 0)
		r = prepare_statement(p, p->release, "RELEASE %s", err);
	if (r == 0)
		r = prepare_statement(p, p->back, "ROLLBACK TO %s", err);
	return r == 0 ? prepare_statement(p, p->close, "CLOSE ALL", err) : r;
}

static enum pg_isolation find_isolation(const char *name)
{
	for (enum pg_isolation i = PG_READ_UNCOMMITTED; i <= PG_SERIALIZABLE; i++)
		if (strcmp(pg_isolation_name(i), name) == 0)
			return i;
	return PG_ISOLATION_DEFAULT;
}

static int refuse_read_only(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_FREE char *standby = value(p->conn, "SELECT pg_catalog.pg_is_in_recovery()");

	if (standby && strcmp(standby, "t") == 0)
		return error_set(err, ATOLL_UNSUPPORTED, 0, "begin", PQdb(p->conn),
				 "the database server is a standby: it takes no changes; name the primary");
	return 0;
}

static int note_isolation(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_FREE char *name = value(p->conn, "SHOW transaction_isolation");

	if (!name)
		return error_set(err, ATOLL_FAILED, 0, "begin", PQdb(p->conn),
				 "the database does not tell its isolation level");
	snprintf(p->isolation, sizeof(p->isolation), "%s", name);
	p->level = find_isolation(name);
	return 0;
}

static int begin(struct pg_proxy *p, struct atoll_error *err)
{
	AUTO_FREE char *sql = *p->wanted_isolation
				      ? str_format("BEGIN ISOLATION LEVEL %s READ WRITE", p->wanted_isolation)
				      : strdup("BEGIN READ WRITE");
	AUTO_FREE char *savepoint = str_format("SAVEPOINT %s", p->savepoint);
	int r;

	if (!sql || !savepoint)
		return error_oom(err, "begin");
	r = run(p->conn, sql, err);
	if (r == 0)
		r = note_isolation(p, err);
	return r == 0 ? run(p->conn, savepoint, err) : r;
}

static int check_isolation(struct pg_proxy *p, struct atoll_error *err)
{
	if (!*p->wanted_isolation || find_isolation(p->wanted_isolation) != PG_ISOLATION_DEFAULT)
		return 0;
	return error_set(err, ATOLL_INVALID, 0, "begin", p->wanted_isolation,
			 "unknown isolation level \"%s\"; use read committed, repeatable read or serializable",
			 p->wanted_isolation);
}

/* From here on libpq is not to be asked any more: what comes is ours. Notices that it has read already are taken from it first. */
static int take_over(struct pg_proxy *p, struct atoll_error *err)
{
	PQfreemem(PQnotifies(p->conn));
	if (take_parameters(p) < 0)
		return error_oom(err, "begin");
	p->tls = NULL;
	if (PQsslInUse(p->conn)) {
#if PG_WITH_TLS
		p->tls = PQsslStruct(p->conn, "OpenSSL");
#endif
		if (!p->tls)
			return error_set(
				err, ATOLL_UNSUPPORTED, 0, "begin", PQdb(p->conn),
				"this build cannot hold an encrypted connection; add sslmode=disable if the network is trusted");
	}
	p->server.fd = PQsocket(p->conn);
	p->server.events = 0;
	p->server.ready = pg_server_ready;
	return pg_loop_want(p, &p->server, EPOLLIN) < 0 ? error_sys(err, errno, "begin", NULL, "epoll_ctl") : 0;
}

int pg_server_open(struct pg_proxy *p, struct atoll_error *err)
{
	uint32_t timeline;
	int r = check_isolation(p, err);

	if (r < 0)
		return r;
	p->conn = pg_connect(p->conninfo, "begin", err);
	if (!p->conn)
		return -ATOLL_FAILED;
	p->version = PQserverVersion(p->conn);
	p->backend_pid = PQbackendPID(p->conn);
	pg_connect_identity(p->conn, p->system, &timeline);
	r = refuse_read_only(p, err);
	if (r == 0)
		r = prepare_session(p, err);
	if (r == 0)
		r = name_ours(p, err);
	return r == 0 ? pg_server_begin(p, err) : r;
}

/* What clients have set was committed with the transaction. */
int pg_server_reset(struct pg_proxy *p, struct atoll_error *err)
{
	int r = run(p->conn, "RESET SESSION AUTHORIZATION", err);

	if (r == 0)
		r = run(p->conn, "RESET ALL", err);
	return r == 0 ? prepare_session(p, err) : r;
}

int pg_server_begin(struct pg_proxy *p, struct atoll_error *err)
{
	int r = begin(p, err);

	if (r == 0)
		r = take_over(p, err);
	if (r < 0)
		return r;
	p->began_at = p->active_at = clock_monotonic_ns();
	pg_settings_clear(&p->dropped);
	p->used_temporary = p->used_notify = p->notified = false;
	p->deferred_stale = true;
	p->state = PG_OPEN;
	return 0;
}

void pg_server_close(struct pg_proxy *p)
{
	pg_cancel_end(p);
	(void)pg_loop_want(p, &p->server, 0);
	p->server.fd = -EBADF; /* libpq's */
	p->tls = NULL;
	pg_connect_close(p->conn);
	p->conn = NULL;
}

#if PG_WITH_TLS
static ssize_t tls_result(struct pg_proxy *p, int n)
{
	int error = SSL_get_error(p->tls, n);

	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	ERR_clear_error();
	return error == SSL_ERROR_ZERO_RETURN ? 0 : -ECONNRESET;
}
#endif

/* > 0, 0 at the end, -errno. */
static ssize_t receive(struct pg_proxy *p, char *to, size_t size)
{
	ssize_t n;

#if PG_WITH_TLS
	if (p->tls) {
		ERR_clear_error();
		n = SSL_read(p->tls, to, (int)size);
		return n > 0 ? n : tls_result(p, (int)n);
	}
#endif
	n = recv(p->server.fd, to, size, 0);
	return n < 0 ? -errno : n;
}

static ssize_t transmit(struct pg_proxy *p, const char *data, size_t size)
{
	ssize_t n;

#if PG_WITH_TLS
	if (p->tls) {
		ERR_clear_error();
		n = SSL_write(p->tls, data, (int)MIN(size, (size_t)INT32_MAX));
		return n > 0 ? n : tls_result(p, (int)n);
	}
#endif
	n = send(p->server.fd, data, size, MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

ssize_t pg_server_read(struct pg_proxy *p)
{
	char *to = pg_buffer_reserve(&p->from_server, PG_READ_SIZE);
	ssize_t n;

	if (!to)
		return -ENOMEM;
	n = receive(p, to, PG_READ_SIZE);
	if (n > 0)
		p->from_server.end += (size_t)n;
	if (n == 0)
		return -ECONNRESET;
	return n == -EAGAIN || n == -EINTR ? 0 : n;
}

void pg_server_flush(struct pg_proxy *p)
{
	ssize_t n = 1;

	if (p->state == PG_LOST || p->server.fd < 0)
		return;
	if (p->to_server.failed) {
		pg_proxy_lose(p, "out of memory");
		return;
	}
	while (pg_buffer_size(&p->to_server) > 0 && n > 0) {
		n = transmit(p, pg_buffer_front(&p->to_server), pg_buffer_size(&p->to_server));
		if (n > 0)
			pg_buffer_consume(&p->to_server, (size_t)n);
	}
	/* What the server has said before it closed the connection is read first: it says why. */
	if (n < 0 && n != -EAGAIN && n != -EINTR && n != -EPIPE && n != -ECONNRESET)
		pg_proxy_lose(p, "the connection to the server failed: %s", strerror((int)-n));
}

void pg_server_watch(struct pg_proxy *p)
{
	bool full = pg_relay_must_wait(p);

	if (p->server.fd < 0)
		return;
	full = full || (pg_cancel_is_under_way(p) && pg_buffer_size(&p->from_server) > 0);
	(void)pg_loop_want(p, &p->server, (full ? 0 : EPOLLIN) | (pg_buffer_size(&p->to_server) > 0 ? EPOLLOUT : 0));
}

/* What TLS has read already: no poll tells of that. */
bool pg_server_pull(struct pg_proxy *p)
{
#if PG_WITH_TLS
	if (!p->tls || p->state == PG_LOST || SSL_pending(p->tls) == 0 ||
	    pg_buffer_size(&p->from_server) > PG_HIGH_WATER)
		return false;
	return pg_server_read(p) > 0;
#else
	return false;
#endif
}

void pg_server_ready(struct pg_source *s, uint32_t events)
{
	struct pg_proxy *p = (struct pg_proxy *)s;
	ssize_t n;

	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	n = pg_server_read(p);
	pg_relay(p);
	if (n < 0)
		pg_proxy_lose(p, "the connection to the server is closed%s%s", n == -ECONNRESET ? "" : ": ",
			      n == -ECONNRESET ? "" : strerror((int)-n));
}
