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
/* Puts a fresh clone of the original into the workspace, and another one beside it as what edits are compared with. Both take their places
 * by renaming. */
int sqlite_place_fresh(struct resource *r, struct atoll_error *err);
/* Whether the clone in the workspace is as it was put there, by its times: then there is nothing to compare. */
bool sqlite_place_is_untouched(const struct resource *r);
/* Edits that were taken back are edits again: what they are compared with goes back to before them. dir_fd: of the part. */
int sqlite_place_take_back(struct resource *r, int dir_fd, struct atoll_error *err);

/* A directory of its own in the work area, for as long as something is looked at. */
struct sqlite_look {
	int area_fd, fd;
	char name[48];
};
int sqlite_place_look(struct sqlite_look *s, const struct resource *r, struct atoll_error *err);
void sqlite_place_look_end(struct sqlite_look *s);
void sqlite_place_drop_looks(const struct resource *r); /* what a kill has left; nobody else may be looking */

#endif
