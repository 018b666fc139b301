/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each client has SET. The server has one session; each client believes to have its own. When the turn goes from one client to another, what
 * differs is set anew. SET is transactional: what was set in a transaction counts when that is committed, and ROLLBACK TO takes back
 * what came after the savepoint.
 */
#ifndef PG_SETTINGS_H
#define PG_SETTINGS_H

#include "base/strbuf.h"
#include "pg/statement.h"

struct pg_setting {
	char *key;
	char *sql;  /* the SET statement; NULL: RESET */
	bool local; /* until the end of the transaction */
	bool mark;  /* a savepoint; key is its name */
};

struct pg_settings {
	struct pg_setting *v;
	size_t n, capacity;
};

/* Notes what a statement has done, if it is one that matters: SET, RESET, SAVEPOINT, RELEASE, ROLLBACK TO. 0 or -ENOMEM. */
int pg_settings_note(struct pg_settings *log, const struct pg_statement *s);
/* A committed transaction's log becomes part of the client's settings; the log is empty after. */
int pg_settings_commit(struct pg_settings *settings, const struct pg_settings *defaults, struct pg_settings *log);
void pg_settings_clear(struct pg_settings *s);
int pg_settings_put(struct pg_settings *s, const char *key, const char *sql);
const char *pg_settings_find(const struct pg_settings *s, const char *key); /* its SQL, or NULL */
void pg_settings_all(const struct pg_settings *s, struct strbuf *ret_sql);
int pg_settings_copy(struct pg_settings *to, const struct pg_settings *from);
/* SQL that takes a session from one client's settings to another's; nothing if they are equal. */
void pg_settings_switch(const struct pg_settings *from, const struct pg_settings *to, struct strbuf *ret_sql);
/* SQL that releases all savepoints of the log, the innermost first: several may have the same name. */
void pg_settings_releases(const struct pg_settings *log, struct strbuf *ret_sql);
/* The same, and what was done in them is undone. */
void pg_settings_rollbacks(const struct pg_settings *log, struct strbuf *ret_sql);
/* SQL that ends what SET LOCAL did. 0 or -ENOMEM. */
int pg_settings_end_local(const struct pg_settings *settings, const struct pg_settings *defaults,
			  const struct pg_settings *log, struct strbuf *ret_sql);
/* SET for a setting that a client names when it connects. */
char *pg_settings_sql(const char *name, const char *value);
/* The same for the current transaction only; sql: what pg_settings_sql() has made. */
char *pg_settings_local_sql(const char *sql);

#endif
