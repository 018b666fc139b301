/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite databases: cloned online, compared, and edited by what was found to differ.
 *
 *	sqlite_clone()       a consistent copy of a database that others go on using
 *	sqlite_settle()      a copy of one that nobody uses and nobody vouches for, with what a killed process left beside it, as one file
 *	sqlite_edits_make()  what differs between two of them, itself kept as a database: the edits
 *	sqlite_edits_move()  lands the edits in a live database, or takes them back, in one transaction and row by row
 *	sqlite_image_move()  the same by the whole content, where rows do not tell: other tables, tables without a key
 *
 * Every row is compared as a whole and exactly, by type and bytes. A row that stands neither where the edits begin nor where they
 * end was changed by somebody else: then nothing is done, and the row is named. SQLite's own sessions are not used: they do not see
 * an edit that the column's collation calls equal ('bob' to 'Bob' under NOCASE), pass over keys that are null, merge edits of one row
 * by column, and cannot exchange two unique values.
 *
 * Files are given by directory and name. All functions that take a busy_ms wait so long for whoever has the database locked, then
 * answer ATOLL_BUSY. No statement of a database is ever run (triggers, views); its checks, indexes and generated columns are, with
 * functions that are known to be harmless.
 */
#ifndef DATABASE_SQLITE_H
#define DATABASE_SQLITE_H

#include <atoll/atoll.h>
#include <stdbool.h>
#include <stdint.h>

struct sqlite_file {
	int dirfd;
	const char *name;
	const char *label; /* for messages; NULL: the name */
	int busy_ms;
};

/* What stands in the way, one call for each: "table people", "the row id=3 was changed by somebody else". Not 0 ends it. */
struct sqlite_tell {
	int (*fn)(void *arg, const char *object, const char *why);
	void *arg;
};

/* ---- sqlite-clone.c ---- */

/* Whether it is a database that can be read, and written if `write`. A damaged, encrypted, locked or missing one is told apart. */
int sqlite_probe(const struct sqlite_file *file, bool write, struct atoll_error *err);
/* to must not exist. Durable when it returns, but for its name. Mode 0600. */
int sqlite_clone(const struct sqlite_file *from, const struct sqlite_file *to, struct atoll_error *err);
/* from: in whatever state a killed process left it, with its log or journal beside it, perhaps with intent; it is not changed. Locks do not
 * count: one that is written to is copied when there is a pause, ATOLL_BUSY if there is none. to must not exist; it becomes one file without log or journal, checked for damage. Not durable. 1, or 0 if there is none. */
int sqlite_settle(const struct sqlite_file *from, const struct sqlite_file *to, struct atoll_error *err);
/* Makes one that nobody else uses a file of its own, without log, with the size of pages of another. */
int sqlite_adapt(const struct sqlite_file *file, const struct sqlite_file *like, struct atoll_error *err);

/* Whether a database that nobody has open keeps a log (WAL), from now on: 1 if it did before, 0 if it did not. Durable. */
int sqlite_set_log(const struct sqlite_file *file, bool log, struct atoll_error *err);

/* ---- sqlite-edits.c ---- */

enum sqlite_edits {
	SQLITE_EDITS_NONE,
	SQLITE_EDITS_ROWS,  /* rows of tables with keys: sqlite_edits_move() */
	SQLITE_EDITS_WHOLE, /* more than that: sqlite_image_move() */
	SQLITE_EDITS_GONE   /* the clone is no file any more */
};
/* Writes what leads from old to new into the file `to`, which must not exist. Both are settled, or clones. An enum sqlite_edits; durable if
 * not NONE. */
int sqlite_edits_make(const struct sqlite_file *old, const struct sqlite_file *new, const struct sqlite_file *to,
		      struct atoll_error *err);

/* ---- sqlite-find.c ---- */

struct sqlite_find {
	/* The path at which the sandboxed command opens the clone. NULL: the clone's own path. */
	const char *view;
	/* The sandboxed command sees a merged directory: the files beside the clone hide those that
	 * the host has beside `view`. */
	bool is_layered;
	bool all_rows; /* asked for: compare all rows, whatever the pages tell */
	bool by_pages; /* told: only rows on pages that differ were looked at */
};
/* Settles the clone and writes what leads to it from the base into the file `edits`: an enum sqlite_edits. The work is in proportion to the pages
 * that differ, where these tell the rows. Neither new nor edits may exist; new becomes the settled clone if the edits are WHOLE, and is of no
 * use otherwise. Nobody else may use the base. */
int sqlite_edits_find(const struct sqlite_file *base, const struct sqlite_file *clone, const struct sqlite_file *new,
		      const struct sqlite_file *edits, struct sqlite_find *how, struct atoll_error *err);

/* ---- sqlite-rows.c ---- */

enum sqlite_what { SQLITE_ADDED, SQLITE_MODIFIED, SQLITE_DELETED };
/* One line for each table, each part of the schema and each pragma: "table people", "3 inserted, 1 updated". */
typedef int (*sqlite_summary_fn)(void *arg, enum sqlite_what what, const char *object, const char *note);
int sqlite_edits_summary(const struct sqlite_file *edits, sqlite_summary_fn fn, void *arg, struct atoll_error *err);
/* Why the edits land as a whole only; NULL if they do not. malloc'ed. */
int sqlite_edits_reason(const struct sqlite_file *edits, char **ret, struct atoll_error *err);

/* The changed rows of one table, or of all (NULL). 0, or what fn said if that is not 0. */
int sqlite_edits_rows(const struct sqlite_file *edits, const char *table, atoll_row_fn fn, void *arg,
		      struct atoll_error *err);

/* ---- sqlite-apply.c ---- */

enum sqlite_side { SQLITE_OLD, SQLITE_NEW, SQLITE_NEITHER };
/* On which side the rows of the edits stand: an enum sqlite_side. Edits of SQLITE_EDITS_ROWS. */
int sqlite_edits_side(const struct sqlite_file *file, const struct sqlite_file *edits, struct atoll_error *err);
/* Whether they could land (forward) or be taken back: ATOLL_CONFLICT with each row told. Changes nothing. */
int sqlite_edits_check(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward,
		       const struct sqlite_tell *tell, struct atoll_error *err);
/* To the new side (forward) or the old one, in one transaction, durable when it returns. Nothing to do if it stands there.
 * ATOLL_CONFLICT, and nothing done, if it stands on neither. force: whatever stands there, for a database that is nobody else's. */
int sqlite_edits_move(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward, bool force,
		      const struct sqlite_tell *tell, struct atoll_error *err);

/* ---- sqlite-seen.c ---- */

/* Whether anybody else wrote to a database is told by how its files look. */
struct sqlite_alone {
	int stamp_fd;     /* a directory in which time may be taken (tree_stamp()) */
	const char *seen; /* how they looked when the caller knew all of the content; NULL: not known */
	bool was;         /* told: nobody else has written between that and the end of the move */
	char *now;        /* told, malloc'ed: how they look after it; NULL: not known */
};
/* How the files look. Everybody who writes to the database from now on changes that. *ret: malloc'ed; NULL if that cannot be said, because
 * they were written to just now, or cannot be looked at. 0 or -ENOMEM. */
int sqlite_seen(const struct sqlite_file *file, int stamp_fd, char **ret);
/* sqlite_edits_move() of a database that others use. */
int sqlite_edits_move_alone(const struct sqlite_file *file, const struct sqlite_file *edits, bool forward,
			    struct sqlite_alone *alone, struct atoll_error *err);

/* ---- sqlite-same.c, sqlite-image.c ---- */

/* Whether two hold the same: 1 or 0, and each difference told. Statistics of the query planner do not count. */
int sqlite_same(const struct sqlite_file *a, const struct sqlite_file *b, const struct sqlite_tell *tell,
		struct atoll_error *err);
int sqlite_image_side(const struct sqlite_file *file, const struct sqlite_file *old, const struct sqlite_file *new,
		      struct atoll_error *err);
/* Like sqlite_edits_move(): the content of `to` takes the place of the content of `from`, seen by others as one transaction. */
int sqlite_image_move(const struct sqlite_file *file, const struct sqlite_file *from, const struct sqlite_file *to,
		      const struct sqlite_tell *tell, struct atoll_error *err);

/* ---- sqlite-live.c: of files that nobody has said to be databases ---- */

bool sqlite_live_is_likely(
	uint64_t size); /* whether a database can be so large: a look at the size spares one at the file */
bool sqlite_live_is_database(int fd);
/* Whether a connection holds a lock on the database or on what it shares beside it. */
bool sqlite_live_is_locked(int fd, int dirfd, const char *name);
bool sqlite_live_has_log(int dirfd, const char *name); /* with something in it */
/* Of the path of a log or journal, how much of it is the path of the database; 0: it is none. */
size_t sqlite_live_stem(const char *path);

#endif
