/* SPDX-License-Identifier: Apache-2.0 */
/* What a copy will cost, said on standard error before it begins. */
#ifndef CLI_COST_H
#define CLI_COST_H

#include <atoll/atoll.h>

#include "base/strbuf.h"
#include "cli/commands.h"

/* An atoll_cost_fn; arg is the struct cli. Prints nothing if the cost is small, and always lets
 * the copy begin. */
int cost_tell(const struct atoll_cost *cost, void *arg);
/* 1536 is "1.5 KiB". */
void cost_size(struct strbuf *s, uint64_t bytes);

#endif
