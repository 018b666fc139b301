/* SPDX-License-Identifier: Apache-2.0 */
/* How the strategy for PostgreSQL reaches the program that speaks with the server, and the process that holds the transaction. */
#ifndef STRATEGY_POSTGRES_H
#define STRATEGY_POSTGRES_H

#include "hold/message.h"
#include "strategy/strategy.h"

/* Runs the program: its answer in *ret, which may be NULL, or an error with its words. input: what it reads, NULL for nothing. */
int postgres_run(const char *const *arguments, const char *input, struct strbuf *ret, struct atoll_error *err);
/* Asks whoever holds the transaction. ATOLL_NOT_FOUND: nobody does. */
int postgres_ask(int area_fd, enum hold_what what, const char *token, struct hold_reply *ret, struct atoll_error *err);
/* Whether the edits are lost: 1 and why, in one line; 0; or -errno. */
int postgres_lost(int area_fd, struct strbuf *why);

#endif
