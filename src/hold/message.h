/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said between the strategy and the process that holds a transaction (hold.c, in a program of its own: libpq and what it brings along stay
 * out of everybody else). One request and one reply over a connection, on a socket in the resource's area, which is 0700.
 *
 * Files of the area: "conninfo", how to connect, mode 0600; "socket/", which is all that a command sees; "open" while a transaction is held:
 * whoever finds it and nobody at the control socket knows that the edits are lost; "lost", why they are, in one line.
 */
#ifndef HOLD_MESSAGE_H
#define HOLD_MESSAGE_H

#include <atoll/atoll.h>

#include <stdint.h>

#define HOLD_PROGRAM "atoll-postgres"
#define HOLD_CONTROL "control"
#define HOLD_SOCKETS "socket"
#define HOLD_CONNINFO "conninfo"
#define HOLD_OPEN "open"
#define HOLD_LOST "lost"
#define HOLD_MARKER "marker" /* in the op's directory */

enum hold_what {
	HOLD_STATUS,  /* what was changed, and what is locked */
	HOLD_CHECK,   /* whether it could be committed; everything goes on */
	HOLD_PREPARE, /* the same, and the marker; clients wait from here on */
	HOLD_COMMIT,
	HOLD_ROOM,   /* whether it could be prepared on the server (two-phase commit); everything goes on */
	HOLD_VOTE,   /* prepares it on the server, after HOLD_PREPARE */
	HOLD_RESUME, /* after a prepare, and no commit */
	HOLD_FINISH, /* commits it if nothing was written: locks end, and notifications are delivered; else everything goes on */
	HOLD_END, /* what was not committed is rolled back, and the process ends */
	HOLD_QUESTION /* a query inside: its text follows as a packet, and the rows follow the reply in packets until the end */
};

enum { HOLD_TABLES_MAX = 128, HOLD_NAME_SIZE = 264, HOLD_GID_SIZE = 128 };

struct hold_request {
	uint32_t what;
	uint32_t votes;          /* CHECK, PREPARE: it is going to be prepared on the server */
	char token[40];          /* PREPARE: of the op, in whose directory the marker is kept */
	char gid[HOLD_GID_SIZE]; /* VOTE: the name it gets there */
};

struct hold_table {
	char name[HOLD_NAME_SIZE];
	int64_t inserted, updated, deleted;
};

struct hold_reply {
	struct atoll_error error; /* code 0: done */
	uint32_t ended;           /* the transaction is over */
	uint32_t clients;
	uint64_t xid;          /* 0: nothing was written */
	int64_t open_ns;       /* how long */
	int64_t limit_ns;      /* how long at most; 0: there is no limit */
	int64_t idle_limit_ns; /* how long it may be idle with exclusive locks; 0: there is no limit */
	int64_t idle_ns;       /* how long since a client has done something */
	char locks[512];       /* "public.people (RowExclusiveLock), …" */
	char exclusive[1024];  /* those that keep others waiting, one a line */
	uint32_t room;         /* ROOM: as in struct strategy_room */
	char place[64], why[256];
	uint32_t notified; /* NOTIFY was used */
	uint32_t defined;  /* definitions may have been changed */
	uint32_t n_tables, more;
	struct hold_table tables[HOLD_TABLES_MAX];
};

/*
 * What "atoll-postgres rows" says of a table: records of a letter and fields, each a length, ":" and its bytes; values are SQL literals.
 *
 *	c COUNT (NAME KEY)…   the columns; KEY is "1" or "0"
 *	i NEW…                a row that was inserted
 *	d OLD…                deleted
 *	u OLD… NEW…           updated
 *	n NEW…                inserted or updated: nobody can tell
 *	m TEXT                why not all is told
 *	.                     the end
 *
 * What "atoll-postgres schema" says: a, m or d (added, modified, deleted), the name of a definition, and the SQL; o, what else was changed ("table
 * public.people"), and how; x, and why definitions cannot be compared; then ".".
 */

#endif
