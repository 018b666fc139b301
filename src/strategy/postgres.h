/* SPDX-License-Identifier: Apache-2.0 */
/* How the strategy for PostgreSQL reaches the program that speaks with the server, and the process that holds the transaction. */
#ifndef STRATEGY_POSTGRES_H
#define STRATEGY_POSTGRES_H

#include "hold/message.h"
#include "strategy/strategy.h"

/* Runs the program: its answer in *ret, which may be NULL, or an error with its words. input: what it reads, NULL for nothing. */
int postgres_run(const char *const *arguments, const char *input, struct strbuf *ret, struct atoll_error *err);
/* Asks whoever holds the transaction. ATOLL_NOT_FOUND: nobody does. */
int postgres_request(int area_fd, const struct hold_request *q, struct hold_reply *ret, struct atoll_error *err);
int postgres_ask(int area_fd, enum hold_what what, struct hold_reply *ret, struct atoll_error *err);
/* Whether the edits are lost: 1 and why, in one line; 0; or -errno. */
int postgres_lost(int area_fd, struct strbuf *why);
/* Adds what was defined, changed and dropped, as SQL, or why that cannot be told. 0 or -ENOMEM. */
int postgres_add_definitions(struct resource *r, struct changes *c);
/* strategy_ops.rows */
int postgres_rows(struct resource *r, const char *label, atoll_row_fn fn, void *arg, struct atoll_error *err);

/* postgres.c */
/* Where nobody holds a transaction there is nothing to say, and ret stays as it is. ret may be NULL. */
int postgres_ask_if_there(int area_fd, enum hold_what what, struct hold_reply *ret, struct atoll_error *err);
/* Whoever holds the transaction rolls it back and goes; nothing is lost then, nor open. */
int postgres_forget_edits(int area_fd, struct atoll_error *err);
/* Markers of all ops of the past. One whose server is away just now is left for the next time; it is a row of 36 bytes, and harmless. */
void postgres_sweep_markers(int area_fd, const char *area);
int postgres_refuse_lost(const struct resource *r, const char *operation, const char *why, struct atoll_error *err);

/* postgres-decide.c: as strategy.h says */
int postgres_decide_prepare(struct resource *r, const char *token, struct atoll_error *err);
int postgres_decide_commit(struct resource *r, const char *token, struct atoll_error *err);
int postgres_decide_outcome(struct resource *r, const char *token, struct atoll_error *err);
int postgres_decide_end(struct resource *r, const char *token, bool committed, struct atoll_error *err);
void postgres_unchanged(struct resource *r);
int postgres_vote_room(struct resource *r, struct strategy_room *ret, struct atoll_error *err);
int postgres_vote_prepare(struct resource *r, const char *token, struct atoll_error *err);
int postgres_vote(struct resource *r, const char *token, struct atoll_error *err);
int postgres_vote_sweep(struct resource *r, int (*over)(void *arg, const char *token), void *arg,
			struct atoll_error *err);
void postgres_vote_name(const struct resource *r, const char *token, struct strbuf *ret);
int postgres_vote_end(struct resource *r, const char *token, bool committed, struct atoll_error *err);

#endif
