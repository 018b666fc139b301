/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the proxy share.
 *
 * The stack of savepoints. At rest the server's transaction has exactly one savepoint of ours, and nothing was done since. Whatever a client
 * regards as a transaction (a BEGIN … COMMIT, a query string, an extended-protocol sequence up to Sync) happens on top of it. Its end
 * is RELEASE and a new SAVEPOINT, or ROLLBACK TO, sent as one group right after the client has its answer, so no client waits for them.
 * Savepoints of clients lie above ours and leave with it.
 *
 * The turn. One client at a time has the connection (p->owner): from its first message until the ReadyForQuery of it, or until the end of its
 * BEGIN … COMMIT. The others wait in the order in which they came.
 *
 * The answers. Each thing sent that will be answered by a ReadyForQuery is a group in a queue; what comes belongs to the first group
 * or, while there is none, to the owner, who has not sent Sync yet. A group is the owner's (passed on), the proxy's own on behalf
 * of the owner (kept back; then() is called at its end), or the proxy's alone (must succeed, or the transaction is lost).
 */
#ifndef PG_PRIVATE_H
#define PG_PRIVATE_H

#include "base/error.h"
#include "base/strbuf.h"
#include "pg/message.h"
#include "pg/pg.h"
#include "pg/settings.h"

#define PG_HIGH_WATER ((size_t)256 << 10) /* more than this waits for nobody: the other side is not read */
#define PG_ROWS_MAX ((size_t)64 << 20)
#define PG_READ_SIZE ((size_t)64 << 10)
#define PG_TAG_SIZE 64 /* the server's COMPLETION_TAG_BUFSIZE */

struct pg_proxy;
struct pg_client;

/* One fd in the loop. */
struct pg_source {
	int fd;
	uint32_t events; /* waited for */
	struct pg_proxy *proxy;
	void (*ready)(struct pg_source *s, uint32_t events);
};

/* Whether looking for something without sleeping has paid lately. */
enum { PG_SPIN_SERVER, PG_SPIN_CLIENT, PG_SPIN_COUNT };
struct pg_spin {
	int credit, pause, paused;
};

struct pg_group {
	struct pg_client *client;                          /* NULL: the proxy's alone */
	void (*then)(struct pg_client *c, bool succeeded); /* set: the proxy's own, on behalf of the client */
};

struct pg_names {
	char **v;
	size_t n, capacity;
};

/* What a client has prepared, or bound to a portal, and is more than a plain statement to the proxy. */
struct pg_known {
	char *name;
	enum pg_statement_kind kind;
	char *text; /* NULL where the kind says everything */
};
struct pg_known_list {
	struct pg_known *v;
	size_t n, capacity;
};

/* A message of an extended sequence that the server has not answered yet, and what the proxy believed before it was sent: if the server skips the
 * message because an earlier one failed, or refuses it, that is true again. */
struct pg_pending {
	char type;                /* of the message: Parse, Bind, Close, Describe, Execute */
	bool hidden;              /* the proxy sent it: the answer is not for the client */
	bool changed;             /* name, was and was_prepared say what to restore */
	bool of_portal;           /* name is a portal's */
	bool was_prepared;        /* name was in prepared */
	char *name;               /* of the statement or portal that the message changes */
	struct pg_known *was;     /* what was known of it; NULL: nothing */
	struct pg_buffer unnamed; /* Parse and Close of the unnamed statement: the text that was kept */
	char *text;               /* Execute: the statement, if the proxy has to know that it succeeded; or NULL */
};
struct pg_pending_list {
	struct pg_pending *v;
	size_t first, n, capacity; /* n of them, from first on */
};

struct pg_client {
	struct pg_source source; /* first: the loop knows it by this */
	struct pg_proxy *proxy;
	struct pg_client *next, *next_waiting;
	int32_t id, key;
	struct pg_buffer in, out;
	bool started;    /* the startup message was answered */
	bool closing;    /* to be closed when everything is written */
	bool gone;       /* disconnected; what it has begun is brought to an end */
	bool discarding; /* what its session leaves behind is being removed */
	bool dead;       /* to be freed when nothing refers to it any more */
	char name[64];   /* application_name */

	/* its turn */
	bool waiting;
	int64_t waiting_since;
	bool applying;     /* its settings are being set on the server */
	bool cancel_asked; /* meanwhile */
	bool skip_to_sync; /* an error was answered by the proxy: nothing more counts until Sync, as with the server */

	/* its transaction */
	bool in_block;        /* inside BEGIN … COMMIT */
	bool begun_read_only; /* the block began so, by default or by AND CHAIN; what BEGIN itself says does not count */
	bool chain_read_only; /* the block that AND CHAIN begins is */
	bool chain_commits;   /* AND CHAIN of a COMMIT, of a block that has not failed */
	bool dirty;           /* something was sent since our savepoint */
	bool was_dirty;       /* ever */
	bool broken;          /* the server's (sub)transaction has failed */
	bool touched_constraints;
	bool released_constraints; /* by SET CONSTRAINTS in a savepoint that was released: ROLLBACK TO does not undo that */
	struct pg_names cursors; /* to be closed at its end */
	struct pg_settings log;
	void (*after)(struct pg_client *c, bool committed); /* what follows its end */
	bool chain;

	/* its unit: a query, or a sequence of messages up to Sync */
	bool unit;    /* one is under way */
	bool synced;  /* and all of it was sent: no message is taken until it is answered */
	bool failed;  /* an error was answered */
	bool copy_in; /* the server wants CopyData */
	bool barrier; /* the script waits until everything sent so far was answered */
	bool asked;   /* Flush was sent: wait for the answers, or until the server wants data */
	bool reviving; /* a ROLLBACK TO in a failed transaction is under way: what follows waits, its meaning depends on it */
	bool quiet_parse; /* the proxy sends a query by Parse, Bind and Execute: the client knows nothing of the first two */
	bool stale_portal; /* a query string that was not sent to the server may have left an unnamed portal there */
	size_t copy_rest;  /* of a CopyData message that is passed on in pieces */
	size_t executed;   /* Execute messages of an extended sequence so far */
	struct pg_pending_list pending; /* the messages of an extended sequence that are still to be answered */
	size_t shift;               /* characters of the query string before what was sent: added to error positions */
	char last_tag[PG_TAG_SIZE]; /* kept by pg_script_keep_tag(); "": none */

	/* its session */
	struct pg_settings defaults, settings;
	struct pg_names prepared; /* names, as the client knows them */
	struct pg_known_list statements, portals;
	struct pg_buffer unnamed; /* the body of its latest Parse of the unnamed statement; empty: there is none */
};

/* A query string that is being carried out, piece by piece. One at a time: the owner's. */
struct pg_script {
	struct strbuf text;
	struct pg_statement *v;
	size_t n, capacity, at;
	size_t done;            /* so many of its statements have succeeded */
	bool backslashes;       /* how it was read */
	bool extended;          /* the one statement of an Execute: ReadyForQuery will come by Sync */
	const char *unreadable; /* why nothing of it can be passed on, or NULL */
};

struct pg_proxy {
	struct pg_source server; /* first */
	void *conn;              /* PGconn; NULL: none */
	void *tls;               /* SSL, or NULL */
	struct pg_buffer to_server, from_server;
	size_t rest;               /* of a long message that is passed on as it comes */
	struct pg_client *rest_to; /* NULL: to nobody */

	struct pg_source listener, timer, cancel; /* cancel: the end of a cancel request under way */
	struct pg_source guest;                   /* of pg_proxy_watch() */
	void (*guest_ready)(void *arg);
	void *guest_arg;
	int64_t timer_at;
	int epoll, depth;
	bool can_spin, lively; /* lively: the last wait has found something */
	struct pg_spin spins[PG_SPIN_COUNT];
	pid_t cancel_pid; /* who makes the request */
	bool cancel_wanted;

	char *conninfo;
	size_t message_max, clients_max;
	unsigned wait_ms;
	char wanted_isolation[24];

	enum pg_state state;
	enum pg_isolation level;
	int version, backend_pid;
	int64_t began_at, active_at; /* active_at: when a client has last done something */
	char reason[512], isolation[24], system[24];
	char savepoint[40]; /* the name of the savepoint, and of the statements prepared for it: */
	char make[56], release[56], back[56], close[56];

	struct pg_group groups[8];
	size_t first_group, n_groups;
	struct pg_buffer own_error; /* an ErrorResponse to the proxy's own query */
	struct strbuf captured;     /* the first value of its first row */
	char *deferred;             /* names of the constraints that are deferred by themselves; NULL: none */
	bool deferred_stale;
	bool held_cursors; /* somebody has declared one WITH HOLD: not all can be closed at the end of a transaction */
	bool used_temporary,
		used_notify; /* by a client in this transaction, perhaps rolled back: the server may not prepare it */
	bool notified;       /* NOTIFY was used, perhaps rolled back: only a commit delivers it */
	bool names_limits;   /* a text that a client has sent names a limit: functions may set it from now on */
	bool backing;        /* a ROLLBACK TO is under way: settings may be others when it is done */
	int32_t last_id;

	struct pg_client *clients, *owner;
	struct pg_client *queue; /* who waits for the turn, first come first */
	struct pg_client *again; /* who had it last, and may have sent more meanwhile */
	size_t n_clients;
	struct pg_client *unnamed_of;  /* whose unnamed statement the server has */
	struct pg_settings applied;    /* what is set on the server */
	struct pg_settings parameters; /* as the server reports them: name and value */
	/* Relations that the transaction has dropped: the OID, and the name that other sessions see;
	 * "" if they see none. */
	struct pg_settings dropped;
	struct pg_names to_close; /* prepared statements that no client uses any more, by their names on the server */
	struct pg_script script;
	char answer[32];          /* the tag that follows when the proxy's own query has succeeded */
	struct pg_report refusal; /* likewise, when it has failed as it should */
};

/* ---- loop.c ---- */
int pg_loop_open(struct pg_proxy *p);
int pg_loop_want(struct pg_proxy *p, struct pg_source *s, uint32_t events); /* 0: nothing for now */
struct epoll_event;
/* epoll_wait(), which looks a while before it sleeps where that is likely to pay. */
int pg_loop_wait(struct pg_proxy *p, struct epoll_event *events, int n, int timeout_ms);
void pg_loop_drop(struct pg_proxy *p, struct pg_source *s);
void pg_loop_timer(struct pg_proxy *p, int64_t at_ns); /* on the monotonic clock; 0: none */

/* ---- proxy.c ---- */
void pg_proxy_lose(struct pg_proxy *p, const char *format, ...) PRINTF_LIKE(2, 3);
void pg_proxy_tell_lost(struct pg_client *c); /* and disconnects it */
void pg_proxy_settle(struct pg_proxy *p);     /* lets whoever can go on go on */

/* ---- names.c ---- */
int pg_names_add(struct pg_names *names, const char *name);  /* once; 0 or -ENOMEM */
int pg_names_push(struct pg_names *names, const char *name); /* also twice */
bool pg_names_remove(struct pg_names *names, const char *name);
void pg_names_clear(struct pg_names *names);
const struct pg_known *pg_known_find(const struct pg_known_list *list, const char *name);
void pg_known_remove(struct pg_known_list *list, const char *name);
int pg_known_put(struct pg_known_list *list, const char *name, enum pg_statement_kind kind, const char *text,
		 size_t size);
void pg_known_clear(struct pg_known_list *list);
int pg_known_copy(const struct pg_known *k, struct pg_known **ret); /* NULL gives NULL */
void pg_known_free(struct pg_known *k);
bool pg_names_has(const struct pg_names *names, const char *name);

/* ---- connect.c: libpq ---- */
/* A PGconn, connected. Its error messages are made fit to be shown. */
void *pg_connect(const char *conninfo, const char *operation, struct atoll_error *err);
void pg_connect_close(void *conn);
/* What the server calls itself; "" and 0 where it does not tell. */
void pg_connect_identity(void *conn, char system[24], uint32_t *ret_timeline);

/* ---- server.c: the connection, in the protocol's own words ---- */
int pg_server_open(struct pg_proxy *p, struct atoll_error *err);
int pg_server_begin(struct pg_proxy *p, struct atoll_error *err);
int pg_server_reset(struct pg_proxy *p, struct atoll_error *err); /* between two transactions */
void pg_server_close(struct pg_proxy *p);
void pg_server_ready(struct pg_source *s, uint32_t events);
void pg_server_flush(struct pg_proxy *p);
void pg_server_watch(struct pg_proxy *p);
bool pg_server_pull(struct pg_proxy *p);    /* reads what is there without waiting; false: nothing */
ssize_t pg_server_read(struct pg_proxy *p); /* > 0, 0 if there is nothing now, -errno, -ECONNRESET at the end */

/* ---- ask.c ---- */
struct pg_answer {
	struct pg_names values; /* all columns of all rows, one after the other */
	struct strbuf *rows;    /* set beforehand: the rows go there instead, as the server sends them */
	bool too_long;          /* and there were more than PG_ROWS_MAX bytes of them */
	char tag[64], state[6], message[512];
};
/* Sends a query and waits for its end, when nothing else is under way. -ATOLL_REFUSED with the server's words if it failed (and state and
 * message in *ret), -ATOLL_STATE if the connection is lost, which is noted. */
int pg_ask(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err);
void pg_answer_release(struct pg_answer *a);
#define AUTO_ANSWER CLEANUP(pg_answer_release) struct pg_answer

/* ---- relay.c: from the server to the client ---- */
void pg_relay(struct pg_proxy *p);
bool pg_relay_must_wait(struct pg_proxy *p); /* its client has not read enough yet */

/* ---- group.c ---- */
void pg_group_add(struct pg_proxy *p, struct pg_client *c, void (*then)(struct pg_client *c, bool succeeded));
struct pg_group *pg_group_first(struct pg_proxy *p); /* NULL: none */
void pg_group_pop(struct pg_proxy *p);
/* Sends statements of the proxy's own, and Sync. No string in them has a backslash, unless the server reads it literally.
 * The client's unnamed statement and portal stay, as on a server: a simple query would remove them. */
void pg_group_send(struct pg_proxy *p, const char *sql);
/* The same on behalf of a client. */
void pg_group_query(struct pg_client *c, const char *sql, void (*then)(struct pg_client *c, bool succeeded));

/* ---- client.c ---- */
void pg_client_accept(struct pg_source *s, uint32_t events);
void pg_client_flush(struct pg_client *c);
size_t pg_client_process(struct pg_client *c);                             /* how many messages were dealt with */
void pg_client_fatal(struct pg_client *c, const struct pg_report *report); /* and closes it */
void pg_client_warn(struct pg_client *c, const char *state, const char *message);
void pg_client_tag(struct pg_client *c, const char *tag);
void pg_client_leave(struct pg_client *c); /* it is gone: ends what it has under way */
void pg_client_left(struct pg_client *c);  /* nothing of it is under way any more */
void pg_client_free(struct pg_client *c);

/* ---- startup.c ---- */
int pg_startup(struct pg_client *c); /* 1: something was done, 0: more is to come */

/* ---- cancel.c ---- */
extern const struct pg_report pg_cancelled;
void pg_cancel_request(struct pg_proxy *p, int32_t id, int32_t key);
void pg_cancel_end(struct pg_proxy *p);   /* waits for a request under way */
void pg_cancel_owner(struct pg_proxy *p); /* what the owner has running */
static inline bool pg_cancel_is_under_way(const struct pg_proxy *p)
{
	return p->cancel.fd >= 0;
}

/* ---- turn.c ---- */
bool pg_turn_take(struct pg_client *c); /* true: it is the client's, and it may go on */
void pg_turn_end(struct pg_client *c);
void pg_turn_next(struct pg_proxy *p); /* to whoever waits first, if it is free */
void pg_turn_leave_queue(struct pg_client *c);
void pg_turn_set_timer(struct pg_proxy *p);
/* Whoever waits does so no longer: what it asked for is answered by this error. */
void pg_turn_refuse(struct pg_client *c, const struct pg_report *report);
void pg_turn_expire(struct pg_source *s, uint32_t events);

/* ---- unit.c: what a client asks for ---- */
bool pg_unit_message(struct pg_client *c, const struct pg_message *m); /* false: not now */
void pg_unit_copy_piece(struct pg_client *c, size_t header, size_t size);
void pg_unit_ready(struct pg_client *c); /* the server is ready for the next query */
void pg_unit_end(struct pg_client *c);   /* everything of it was done */

/* ---- script.c ---- */
void pg_script_query(struct pg_client *c, const struct pg_message *m);
void pg_script_prepare(struct pg_client *c, const char *text); /* for pg_script_next(), at the barrier */
void pg_script_next(struct pg_client *c);
void pg_script_done(struct pg_client *c); /* the server has carried out one of its statements */
/* Keeps the tag of the last statement of a query string outside a block until its deferred constraints are checked: a
 * server commits before it answers that statement. False: the tag is to be sent now. */
bool pg_script_keep_tag(struct pg_client *c, const char *tag, size_t size);
/* The lexer for a text of this client; *ret_why: NULL, or why it cannot be read safely. */
const char *pg_script_parameter(const struct pg_proxy *p, const char *name); /* as the server reports it; or "" */
struct pg_lexer pg_script_lexer(const struct pg_client *c, const char *text, size_t size, const char **ret_why);
/* The statement as the server is to see it: names of prepared statements are the client's own. */
void pg_script_add_text(const struct pg_client *c, struct pg_buffer *b, const struct pg_statement *s);

/* ---- transaction.c: BEGIN, COMMIT and the like ---- */
bool pg_transaction_is_ours(const struct pg_client *c, const struct pg_statement *s, bool alone);
/* Carries it out, and calls pg_script_next() when it is done. */
void pg_transaction_run(struct pg_client *c, const struct pg_statement *s);
void pg_transaction_refuse(struct pg_client *c, const struct pg_report *report);
/* What a statement that is passed on may do to the client's session, whether it succeeds or not. */
void pg_transaction_note(struct pg_client *c, const struct pg_statement *s);
/* What it has done, now that the server has confirmed it: settings and savepoints, and names of prepared statements. */
void pg_transaction_done(struct pg_client *c, const struct pg_statement *s);

/* Read-only by the client's own default: said to the server before the first thing it does. */
void pg_transaction_guard(struct pg_client *c);

/* ---- finish.c: the end of a client's transaction ---- */
void pg_finish(struct pg_client *c, bool commit, void (*after)(struct pg_client *c, bool committed));
/* Closes what is in p->to_close now, while nothing of a client is under way on the server. */
void pg_finish_closes(struct pg_proxy *p);

/* ---- pending.c: what the server has not answered yet ---- */
/* Adds one; NULL: out of memory, and the transaction is lost. */
struct pg_pending *pg_pending_add(struct pg_client *c, char type);
/* Keeps what is known of a statement or portal, before it is changed. */
void pg_pending_keep(struct pg_client *c, struct pg_pending *p, bool of_portal, const char *name);
/* The server has answered the first one. True: the answer is for the client. */
bool pg_pending_answered(struct pg_client *c, char answer);
/* An error was the answer to the first one, and the others are skipped: restores what was known. */
void pg_pending_failed(struct pg_client *c);
void pg_pending_clear(struct pg_pending_list *list);

/* ---- extended.c ---- */
void pg_extended_done(struct pg_client *c, const char *text); /* an Execute of this statement has succeeded */
bool pg_extended_message(struct pg_client *c, const struct pg_message *m);
void pg_extended_drained(struct pg_client *c); /* everything sent so far was answered */
void pg_extended_forget(struct pg_client *c);  /* its prepared statements are to be closed */
#define PG_SERVER_NAME_SIZE 96
/* The name of a prepared statement on the server. */
void pg_extended_name(const struct pg_client *c, const char *name, char buffer[PG_SERVER_NAME_SIZE]);

/* transaction.c: a limit that would end the transaction of all; it is accepted, and has no effect. */
bool pg_transaction_is_fatal_limit(const char *key);
/* Whether a text names one: a function body, say, or a call of set_config(). */
bool pg_transaction_names_limit(const char *text, size_t size);
const char *pg_transaction_limits_sql(const struct pg_proxy *p); /* takes all of them away */
/* ask.c: the limits of time that a client has set hold for what the proxy asks too, until it has taken them back, and may be shorter than any answer
 * takes on a busy machine. Whether that was so, and it is worth while to ask again. */
bool pg_was_too_slow(const struct pg_proxy *p, const struct pg_answer *a, int *attempts);
/* To our savepoint. At rest nothing was done since. If it fails, everything is lost. */
int pg_go_back(struct pg_proxy *p);
/* Something that only reads, whatever a client has set, and at any moment at which the server can be asked. */
int pg_question(struct pg_proxy *p, const char *sql, struct pg_answer *ret, struct atoll_error *err);
/* The same with settings of its own, for that question only: "SET LOCAL …; …". */
int pg_question_with(struct pg_proxy *p, const char *settings, const char *sql, struct pg_answer *ret,
		     struct atoll_error *err);
/* inspect.c: whether the server can be asked something just now: 0, ATOLL_STATE or ATOLL_BUSY. */
int pg_proxy_can_ask(const struct pg_proxy *p, struct atoll_error *err);

#endif
