/* SPDX-License-Identifier: Apache-2.0 */
/* What a SQLite resource keeps in its work area, for sqlite.c. */
#ifndef STRATEGY_SQLITE_PLACE_H
#define STRATEGY_SQLITE_PLACE_H

#include "database/sqlite.h"
#include "strategy/strategies.h"

#define SQLITE_BASE "base"
#define SQLITE_BUSY_MS 5000

struct sqlite_file sqlite_place_original(const struct resource *r);
struct sqlite_file sqlite_place_file(int dirfd, const char *name, const struct resource *r);
/* Makes a fresh clone of the original, and another one as what edits are compared with. Neither is in its place yet. */
int sqlite_place_clone(struct resource *r, struct atoll_error *err);
/* Both take their places by renaming. */
int sqlite_place_put(struct resource *r, struct atoll_error *err);
/* Whether the clone in the workspace is as it was put there, by its times: then there is nothing to compare. */
bool sqlite_place_is_untouched(const struct resource *r);
/* What edits are compared with follows the edits of a part: they have landed (forward), or are edits again. */
int sqlite_place_move_base(struct resource *r, int dir_fd, bool forward, struct atoll_error *err);

/* A directory of its own in the work area, for as long as something is looked at. */
struct sqlite_look {
	int area_fd, fd;
	char name[48];
};
int sqlite_place_look(struct sqlite_look *s, const struct resource *r, struct atoll_error *err);
void sqlite_place_look_end(struct sqlite_look *s);
void sqlite_place_drop_looks(const struct resource *r); /* what a kill has left; nobody else may be looking */

#endif
