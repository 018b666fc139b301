/* SPDX-License-Identifier: Apache-2.0 */
/* none: the original itself. Isolates nothing and says so. */
#include "strategy/strategies.h"

static int none_begin(struct resource *r, struct atoll_error *err)
{
	return 0;
}

static int none_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	*ret = (struct strategy_view){ STRATEGY_VIEW_BIND, r->root_fd, -EBADF, -EBADF };
	return 0;
}

const struct strategy_ops strategy_none = {
	.name = "none",
	.summary = "no isolation: commands write to the original at once",
	.strength = 0,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_DIR) | STRATEGY_SERVES(ATOLL_KIND_FILE),
	.begin = none_begin,
	.view = none_view,
};
