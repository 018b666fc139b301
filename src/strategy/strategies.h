/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies by name; for registry.c alone. */
#ifndef STRATEGY_STRATEGIES_H
#define STRATEGY_STRATEGIES_H

#include "strategy/strategy.h"

extern const struct strategy_ops strategy_overlay;
extern const struct strategy_ops strategy_copy;
extern const struct strategy_ops strategy_none;

#endif
