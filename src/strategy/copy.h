/* SPDX-License-Identifier: Apache-2.0 */
/* What copy.c and copy-rebase.c share. */
#ifndef STRATEGY_COPY_H
#define STRATEGY_COPY_H

#include "strategy/baseline.h"
#include "strategy/strategies.h"

#define COPY_TREE "tree"
#define COPY_BASELINE "baseline"

int copy_load(struct resource *r, struct baseline **ret,
	      struct atoll_error *err); /* the resource's own; kept in priv */
void copy_release(struct resource *r);
int copy_settle(int tree_fd); /* later writes are told apart from the copying itself by their ctime */
void copy_describe(struct base_entry *e, const struct tree_stat *st);
int copy_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
int copy_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);

#endif
