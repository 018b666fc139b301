/* SPDX-License-Identifier: Apache-2.0 */
/* What a SQLite resource keeps in its work area, for sqlite.c. */
#ifndef STRATEGY_SQLITE_PLACE_H
#define STRATEGY_SQLITE_PLACE_H

#include "database/sqlite.h"
#include "strategy/strategies.h"

#define SQLITE_BASE "base"
#define SQLITE_BUSY_MS 5000
#define SQLITE_ARRIVING "-atoll" /* the clone, while it is copied into a workspace */

/* What names beside a database end in that are its own. */
extern const char *const sqlite_place_beside[];

/* One database and its directory in the work area, which it shares with other databases of the same directory. */
struct sqlite_place {
	const struct resource *r;
	const char *name; /* of the database in its directory */
	char *label;      /* its path, for messages */
	char *seat;       /* the directory in the work area that the clone lies in */
	int fd;
};
/* name: the resource's own, or one of its siblings. */
int sqlite_place_open(struct sqlite_place *p, const struct resource *r, const char *name, struct atoll_error *err);
void sqlite_place_close(struct sqlite_place *p);
/* The directory that the clone lies in, or -errno: a command may have removed or replaced it. */
int sqlite_place_seat(const struct sqlite_place *p);
/* Whether a command sees the original's directory through that one, as in an overlay. */
bool sqlite_place_is_layered(const struct resource *r);
#define AUTO_PLACE CLEANUP(sqlite_place_close) struct sqlite_place

struct sqlite_file sqlite_place_original(const struct sqlite_place *p);
struct sqlite_file sqlite_place_file(int dirfd, const char *name, const char *label);
/* Makes a fresh copy of the original, the base, which edits are compared with, and of that the clone. Neither is in its place yet. */
int sqlite_place_clone(const struct sqlite_place *p, struct atoll_error *err);
/* Both take their places by renaming. The clone of a database that is no guest is not made before a command may look at it. */
int sqlite_place_put(const struct sqlite_place *p, struct atoll_error *err);
/* Before a view: the clone is in its place. */
int sqlite_place_ready(const struct sqlite_place *p, struct atoll_error *err);
/* Whether the clone in the workspace is as it was put there, by its times: then there is nothing to compare. */
bool sqlite_place_is_untouched(const struct sqlite_place *p);
int sqlite_place_note_untouched(const struct sqlite_place *p); /* that it is so now; -errno */
/* How the clone and what lies beside it look: whoever writes to it changes that. malloc'ed. */
char *sqlite_place_state(const struct sqlite_place *p);
/* A file from one of Atoll's directories to another, durable if it must be copied. -errno. */
int sqlite_place_carry(int from_dir, const char *from_name, int to_dir, const char *to_name);
/* How the original looked when the base was made of it, if nobody else has written to it since the base was known to be the same: malloc'ed, or
 * NULL. -errno. */
int sqlite_place_stamp_fd(const struct sqlite_place *p); /* a directory on the filesystem of the original */
char *sqlite_place_seen(const struct sqlite_place *p);
int sqlite_place_note_seen(const struct sqlite_place *p, const char *seen); /* NULL: not known */
/* What edits are compared with follows the edits of a part: they have landed (forward), or are edits again. */
int sqlite_place_move_base(const struct sqlite_place *p, int dir_fd, bool forward, struct atoll_error *err);

/* A directory of its own in the place, for as long as something is looked at. */
struct sqlite_look {
	char name[48]; /* "" if there is none */
	int area_fd, fd;
};
int sqlite_place_look(struct sqlite_look *s, const struct sqlite_place *p, struct atoll_error *err);
void sqlite_place_look_end(struct sqlite_look *s);
/* What a kill has left; nobody else may be looking. keep: the name of one that stays, or NULL. */
void sqlite_place_drop_looks(const struct sqlite_place *p, const char *keep);

#endif
