/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies by name, for registry.c, and what one of them has from another. */
#ifndef STRATEGY_STRATEGIES_H
#define STRATEGY_STRATEGIES_H

#include "strategy/strategy.h"

extern const struct strategy_ops strategy_overlay;
extern const struct strategy_ops strategy_snapshot;
extern const struct strategy_ops strategy_copy;
extern const struct strategy_ops strategy_postgres;
extern const struct strategy_ops strategy_none;
extern const struct strategy_ops strategy_git;
extern const struct strategy_ops strategy_sqlite;

/* ---- overlay.c, as the operations are declared in strategy.h: for strategies that are an overlay and something more ---- */

#define OVERLAY_UPPER "upper"
#define OVERLAY_MASK \
	"mask" /* if it is there: a layer between the original and the upper one, for what is never to shine through */
int overlay_begin(struct resource *r, struct atoll_error *err);
int overlay_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err);
int overlay_ran(struct resource *r, struct atoll_error *err);
struct changes *overlay_changes(struct resource *r, bool exact, struct atoll_error *err);
int overlay_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err);
int overlay_origin(struct resource *r, const struct change *c, struct tree_id *ret);
int overlay_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
int overlay_returning(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
void overlay_release(struct resource *r);

#endif
