/* SPDX-License-Identifier: Apache-2.0 */
/* The process that holds a transaction: what its files share. */
#ifndef HOLD_KEEPER_H
#define HOLD_KEEPER_H

#include "hold/hold.h"
#include "hold/message.h"

struct keeper {
	int area, sockets, control;
	struct pg_proxy *proxy;
	struct pg_marker marker;
	bool marked; /* it is in the transaction */
	bool asked;  /* somebody is at the control socket */
	int64_t looked_at;
	int64_t limit_ms;      /* how long it may be open; 0: as long as it likes */
	int64_t idle_limit_ms; /* how long it may be idle while it keeps others waiting; 0: as long as it likes */
	int64_t idle_looked_at;
	bool lost; /* its edits are */
	bool over;
};

/* answer.c: what it is asked for at the control socket. 0 or a failure. */
int keeper_answer(struct keeper *h, const struct hold_request *q, struct hold_reply *ret, struct atoll_error *err);
/* The relations that others wait for, one a line. */
void keeper_list_exclusive(const struct pg_inspection *found, char *out, size_t size);
/* A file of the area. 0 or -errno. */
int keeper_note(int area, const char *name, const char *text);
/* Why the edits are lost, for whoever comes next. */
void keeper_lose(struct keeper *h, const char *why);
/* What was not committed is rolled back, and there is nothing more to be done. */
void keeper_end(struct keeper *h);

#endif
