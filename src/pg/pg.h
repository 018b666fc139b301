/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PostgreSQL proxy that holds one transaction.
 *
 * It connects once, as libpq does (conninfo, environment, .pgpass, service files, TLS), begins a transaction and listens on a Unix socket. Any
 * number of clients connect there with the PostgreSQL protocol; everything they do happens inside that one transaction. What they know
 * as transactions are savepoints of it. Nothing is visible outside before pg_proxy_commit(), and nothing is left after
 * pg_proxy_rollback().
 *
 *	pg_proxy_new(&options, &p, &err);          connects and begins
 *	pg_proxy_listen(p, dirfd, 0600, &err);     .s.PGSQL.5432 in that directory
 *	loop: poll pg_proxy_fd(p), pg_proxy_step(p, timeout)
 *
 * When the transaction is to end:
 *
 *	pg_proxy_hold(p, wait_ms, force, &err);    no client is in a transaction from here on, and none begins one
 *	pg_proxy_check(p, &err);                   deferred constraints, now
 *	pg_proxy_mark(p, uuid, &marker, &err);     written inside the transaction; keep it in a durable place now
 *	pg_proxy_commit(p, &err);                  or pg_proxy_prepare(), pg_proxy_rollback(); pg_proxy_resume() if it is to go on
 *	pg_proxy_begin(p, &err);                   the next one, with the same clients; or
 *	pg_proxy_free(p);                          rolls back what was not committed
 *
 * If the process dies or the connection breaks while it commits, pg_outcome() tells afterwards, with the marker, how that ended.
 *
 *                      pg_proxy_hold()              pg_proxy_commit, _prepare, _rollback()
 *	          OPEN <------------------> HELD --------------------------------------------> ENDED
 *	            ^      pg_proxy_resume()                                                    |
 *	            +------------------------------ pg_proxy_begin() ---------------------------+
 *	From each of them the connection may be LOST. Nothing is repeated then: what was not committed is gone, and clients are told.
 *
 * One thread. Nothing blocks but new, begin, and the calls from hold to commit, which wait for the server. Whoever can connect to the
 * socket is served: the directory is the guard. The password stays in this process, and is in no error message.
 * The process ignores SIGPIPE (TLS writes by itself), and reaps nobody's children but its own: cancelling forks one, which is waited for by its id.
 */
#ifndef PG_PG_H
#define PG_PG_H

#include <atoll/atoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pg_proxy;

struct pg_options {
	const char *conninfo;  /* as for libpq: a URI or keywords; NULL: what the environment says */
	const char *isolation; /* "read committed", "repeatable read", "serializable"; NULL: the server's default */
	unsigned wait_ms;      /* how long a client waits for another one's transaction; 0: 10 seconds */
	size_t message_max;    /* larger messages of a client are refused; 0: 256 MiB */
	size_t clients_max;    /* 0: 100 */
};

int pg_proxy_new(const struct pg_options *options, struct pg_proxy **ret, struct atoll_error *err);
/* Makes the socket in that directory; one that is left from before is replaced, one that somebody listens on is not: ATOLL_BUSY. */
int pg_proxy_listen(struct pg_proxy *p, int dirfd, mode_t mode, struct atoll_error *err);
/* Readable when pg_proxy_step() has something to do; the same one for the proxy's whole life. */
int pg_proxy_fd(const struct pg_proxy *p);
/* Has something else waited for by the same loop, while pg_proxy_step() runs: ready() is called when it is readable. One at a time: cheaper
 * than a poll around the loop. It may call whatever is here but pg_proxy_free(). fd -1: no more. */
int pg_proxy_watch(struct pg_proxy *p, int fd, void (*ready)(void *arg), void *arg, struct atoll_error *err);
/* Does what is to be done now, or comes within timeout_ms (-1: waits). 0 or -errno. */
int pg_proxy_step(struct pg_proxy *p, int timeout_ms);
/* Clients are told and disconnected; a transaction that is open is rolled back by the server. */
struct pg_proxy *pg_proxy_free(struct pg_proxy *p);

enum pg_state { PG_OPEN, PG_HELD, PG_ENDED, PG_LOST };

struct pg_status {
	enum pg_state state;
	const char *reason; /* LOST: one line; else "" */
	int64_t open_ns;    /* how long the transaction has been open */
	int64_t idle_ns;    /* how long since a client has done something */
	size_t clients, waiting;
	bool notified;         /* a client has used NOTIFY */
	bool held_by_client;   /* a client is inside a transaction or a statement */
	const char *holder;    /* its application_name, or "" */
	int server_version;    /* 150004 */
	int backend_pid;       /* of the server's process */
	const char *system;    /* the server's system identifier; "" if it does not tell */
	const char *isolation; /* of the transaction */
};
/* By what the proxy knows itself; strings live until the next call. */
void pg_proxy_status(const struct pg_proxy *p, struct pg_status *ret);

struct pg_lock {
	char *relation, *mode; /* "public.accounts", "RowExclusiveLock" */
	bool exclusive;        /* others who write to it, or even read it, wait */
	/* The transaction has dropped it: relation is the name that other sessions see, or the OID
	 * if no such name is known. */
	bool dropped;
};
struct pg_inspection {
	uint64_t xid; /* 0: nothing was written */
	struct pg_lock *locks;
	size_t n_locks;
};
/* By asking the server; ATOLL_BUSY while a statement runs, or where a client's transaction has failed and was not ended. */
int pg_proxy_inspect(struct pg_proxy *p, struct pg_inspection *ret, struct atoll_error *err);
void pg_inspection_release(struct pg_inspection *i);

struct pg_table {
	const char *name; /* "public.people" */
	int64_t inserted, updated, deleted;
};
/* The tables of which it has changed rows; what was taken back to a savepoint counts too. The same answers. */
int pg_proxy_tables(struct pg_proxy *p, void (*fn)(const struct pg_table *table, void *arg), void *arg,
		    struct atoll_error *err);

/* Whether it may have changed definitions: it has written to the server's catalogs. The same answers. */
int pg_proxy_definitions(struct pg_proxy *p, bool *ret, struct atoll_error *err);

struct strbuf;
/* One query of the proxy's user inside the transaction: as the role that the proxy has connected as, whatever clients have set, and without a trace of
 * it. The rows come as the server sends them: for each an int16 number of columns, for each of these an int32 size (-1: NULL) and its text.
 * ATOLL_REFUSED with the server's words if it fails, or takes longer. The same answers. */
int pg_proxy_question(struct pg_proxy *p, const char *sql, unsigned timeout_ms, struct strbuf *rows,
		      struct atoll_error *err);
/* Settings by which names and values have the same text on every connection, and queries a quick
 * plan, whatever a role or a client has set. To compile the large queries of the diff (jit, since
 * version 11) would take seconds. */
#define PG_NEUTRAL                                                                                                        \
	"SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL row_security = off; SET LOCAL client_encoding = 'UTF8'; " \
	"SET LOCAL standard_conforming_strings = on; SET LOCAL quote_all_identifiers = off; "                             \
	"SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres'; SET LOCAL TimeZone = 'UTC'; "            \
	"SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL lc_monetary = 'C'; "                 \
	"SET LOCAL default_text_search_config = 'pg_catalog.simple'; "                                                    \
	"SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; "           \
	"SET LOCAL enable_bitmapscan = on; SET LOCAL enable_nestloop = on; SET LOCAL enable_hashjoin = on; "              \
	"SET LOCAL enable_mergejoin = on; SET LOCAL enable_sort = on; SET LOCAL enable_hashagg = on; "                    \
	"SET LOCAL enable_material = on; SET LOCAL join_collapse_limit = 8; SET LOCAL from_collapse_limit = 8; "          \
	"SELECT set_config('jit', 'off', true) WHERE current_setting('jit', true) IS NOT NULL; "
/* SQL, inside: whether the transaction itself has made the row version with this xmin. For a row that is visible to the query.
 *
 * Its ids, with those of its subtransactions, follow its own id, also into the next epoch. Below the end of the snapshot the server tells which
 * ids are in progress. At and above that end (the last *completed* id, plus one) it is not asked, because it refuses ids of the future;
 * of these only the transaction's own are visible. A frozen row keeps the 32 bits of an id from an epoch long ago, which may look like a later id:
 * hence the limit of 2^26 ids. */
#define PG_IS_OWN(xmin)                                                                      \
	"COALESCE((SELECT CASE WHEN " xmin "::text::bigint < 3 THEN false "                  \
	"WHEN v.id < v.ended THEN pg_catalog.txid_status(v.id) = 'in progress' "             \
	"ELSE v.id < v.ended + 67108864 END "                                                \
	"FROM (SELECT t.id + ((" xmin "::text::bigint - t.id) & 4294967295) AS id, t.ended " \
	"FROM (SELECT pg_catalog.txid_current_if_assigned() AS id, "                         \
	"pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot()) AS ended) t) v), false)"

/* ---- the end of the transaction ---- */

/* From here on requests of clients wait. If one is inside a transaction or a statement: waits so long, then ATOLL_BUSY; force: that client is
 * disconnected instead, and what it had not committed is rolled back. */
int pg_proxy_hold(struct pg_proxy *p, unsigned wait_ms, bool force, struct atoll_error *err);
void pg_proxy_resume(struct pg_proxy *p);

/* All below: HELD only, else ATOLL_STATE. A failure leaves it HELD and the edits as they are unless something else is said. */

/* Checks all deferred constraints; the transaction stays as it is. ATOLL_REFUSED with the server's words if one is violated. */
int pg_proxy_check(struct pg_proxy *p, struct atoll_error *err);

/* What tells afterwards whether the transaction was committed. Plain data: to be stored as it is. */
struct pg_marker {
	uint32_t oid;    /* of a large object, made inside the transaction */
	char uuid[37];   /* its content */
	char system[24]; /* the server's system identifier, "" if it does not tell */
	uint32_t timeline;
	uint64_t xid;
};
/* Works for any role on a stock server. May be called again; the last one counts. */
int pg_proxy_mark(struct pg_proxy *p, const char *uuid, struct pg_marker *ret, struct atoll_error *err);
/* Takes it out again, where the transaction is to go on. */
int pg_proxy_unmark(struct pg_proxy *p, const struct pg_marker *marker, struct atoll_error *err);

/* Whether it could be prepared, as far as that can be told beforehand: the server's setting, and what it refuses to prepare. */
struct pg_room {
	unsigned room;  /* how many more the server takes; 0: this one cannot be prepared */
	char place[64]; /* names the server */
	char why[256];  /* what the room depends on, in one line */
};
/* By asking the server, in OPEN or HELD; the same answers as of pg_proxy_inspect(). */
int pg_proxy_room(struct pg_proxy *p, struct pg_room *ret, struct atoll_error *err);

/* Durably: synchronous_commit is on for it. 0: ENDED, committed. ATOLL_REFUSED: ENDED, the server has rolled it back. ATOLL_IN_DOUBT: LOST in
 * the middle; pg_outcome() will tell. */
int pg_proxy_commit(struct pg_proxy *p, struct atoll_error *err);
/* PREPARE TRANSACTION, in the name of the connection's own role; advisory locks of the session are released first, because the server does not
 * prepare what holds one in two ways. The same answers; after a refusal everything is rolled back. */
int pg_proxy_prepare(struct pg_proxy *p, const char *gid, struct atoll_error *err);
int pg_proxy_rollback(struct pg_proxy *p, struct atoll_error *err);
/* ENDED only. */
int pg_proxy_begin(struct pg_proxy *p, struct atoll_error *err);

/* ---- without a proxy: each connects, asks and disconnects ---- */

/* 0 and *ret_committed, or ATOLL_IN_DOUBT with the reason: the server cannot be reached, is another one, is a standby, or has not
 * ended that transaction yet. */
int pg_outcome(const char *conninfo, const struct pg_marker *marker, bool *ret_committed, struct atoll_error *err);
/* Removes the marker; one that is not there is fine. */
int pg_forget_marker(const char *conninfo, const struct pg_marker *marker, struct atoll_error *err);

/* The names that begin with prefix, of this database, each on a line of its own. */
int pg_prepared_list(const char *conninfo, const char *prefix, struct strbuf *ret, struct atoll_error *err);
int pg_prepared_find(const char *conninfo, const char *gid, bool *ret, struct atoll_error *err);
/* One that is not there is fine: 0, and *ret_found tells. */
int pg_prepared_commit(const char *conninfo, const char *gid, bool *ret_found, struct atoll_error *err);
int pg_prepared_rollback(const char *conninfo, const char *gid, bool *ret_found, struct atoll_error *err);

struct pg_probe {
	int server_version;
	char database[64], role[64];
	char system[24]; /* "" if it does not tell */
	uint32_t timeline;
	bool read_only; /* a standby, or default_transaction_read_only */
	int max_prepared_transactions;
	char isolation[24]; /* the default */
};
/* Whether a proxy could serve: ATOLL_FAILED with libpq's words if it cannot be reached or does not let us in, ATOLL_UNSUPPORTED if it is too
 * old. What is read-only is no failure here; pg_proxy_new() refuses it. */
int pg_probe(const char *conninfo, struct pg_probe *ret, struct atoll_error *err);

#endif
