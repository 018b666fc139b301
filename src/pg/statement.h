/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a statement is, as far as the proxy must know: does it begin or end a transaction, does it change what belongs to a session
 * rather than to a transaction. Everything else is PLAIN and is the server's affair alone.
 */
#ifndef PG_STATEMENT_H
#define PG_STATEMENT_H

#include "pg/lexer.h"

#define PG_NAME_SIZE 64 /* the server's NAMEDATALEN */

enum pg_statement_kind {
	PG_PLAIN,
	/* transaction control */
	PG_BEGIN,
	PG_COMMIT,
	PG_ROLLBACK,
	PG_SAVEPOINT,
	PG_RELEASE,
	PG_ROLLBACK_TO,
	PG_MALFORMED, /* would be one of these; never passed on, because what the server makes of it is not known */
	PG_TWO_PHASE, /* PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED */
	PG_SET_TRANSACTION,
	PG_SET_SNAPSHOT, /* SET TRANSACTION SNAPSHOT, SELECT pg_export_snapshot() */
	/* session state */
	PG_SET,
	PG_SET_LOCAL,
	PG_RESET,
	PG_RESET_ALL,
	PG_SET_CONSTRAINTS,
	PG_PREPARE,
	PG_EXECUTE,
	PG_DEALLOCATE,
	PG_DEALLOCATE_ALL,
	PG_DISCARD_ALL,
	PG_DECLARE,
	PG_DECLARE_HOLD,
	PG_LOCK,
	/* all that must be known of these is that they are */
	PG_NOTIFY,           /* NOTIFY, SELECT pg_notify() */
	PG_LISTEN,           /* LISTEN, UNLISTEN */
	PG_COPY,             /* COPY: the server may want data from the client */
	PG_DEFINE_TEMPORARY, /* CREATE TEMPORARY */
	PG_DEFINE,           /* CREATE, ALTER, DROP, DO, CALL: constraints may be others afterwards */
};

enum pg_isolation { PG_ISOLATION_DEFAULT, PG_READ_UNCOMMITTED, PG_READ_COMMITTED, PG_REPEATABLE_READ, PG_SERIALIZABLE };

struct pg_statement {
	enum pg_statement_kind kind;
	const char *text;
	size_t size;
	bool body;                   /* as pg_lexer_statement() says */
	bool chain;                  /* COMMIT or ROLLBACK AND CHAIN */
	enum pg_isolation isolation; /* BEGIN, SET TRANSACTION */
	int read_only;               /* likewise: 1, 0, or -1: nothing said */
	struct pg_token name;        /* of a savepoint, prepared statement or cursor, as written; of size 0: none */
	char key[PG_NAME_SIZE];      /* the setting of SET, SET LOCAL or RESET, in lower case */
	bool to_default;             /* SET or SET LOCAL gives it the value that the session began with */
};

/* The next statement of a text, as pg_lexer_statement() does. */
bool pg_statement_next(struct pg_lexer *l, struct pg_statement *ret);
const char *pg_isolation_name(enum pg_isolation isolation); /* "read committed" */

#endif
