/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline of a copied workspace: for every entry, what the copy looked like right after it was made and what the original
 * looked like then. An entry whose copy still has the recorded inode, ctime, mtime, size and mode was not touched; its content need
 * not be read. Kept as one file beside the copy, replaced as a whole.
 *
 * Of a directory that stays, the copy's part says what its own metadata would be without the sandbox's edits, whatever was done in it or to it:
 * so the sandbox's changes are told from those that another process makes to the original's directory.
 *
 * A partial one, beside a snapshot that describes all the rest, holds only what has become different since: single entries, and those that
 * count with everything below.
 */
#ifndef STRATEGY_BASELINE_H
#define STRATEGY_BASELINE_H

#include "strategy/strategy.h"

/* The extended attributes of a directory, encoded; NULL: not known. */
struct base_xattrs {
	char *data;
	size_t size;
};
void base_xattrs_release(struct base_xattrs *x);
int base_xattrs_set(struct base_xattrs *x, const char *data,
		    size_t size); /* a copy of it; NULL: not known. 0 or -ENOMEM */
/* Those of an entry. What may not be read is not known. 0 or -errno. */
int base_xattrs_read(struct base_xattrs *x, int dirfd, const char *name);
bool base_xattrs_equal(const struct base_xattrs *a, const struct base_xattrs *b); /* false if either is not known */

struct base_entry {
	char *path;
	bool special; /* left out of the copy */
	bool whole;   /* of a partial one: everything below is recorded too */
	bool absent;  /* of a partial one: there was nothing here */
	bool seen;    /* for the reader's use */
	bool pinned;  /* for the reader's use */
	bool settled; /* of a directory: mode, owner, mtime and attributes of the copy are those without the sandbox's edits */
	/* the copy; ctime 0: compare it with the original, whatever it looks like */
	uint64_t ino, size;
	int64_t ctime, mtime, btime;
	uint32_t mode, uid, gid;
	struct base_xattrs xattrs;
	/* the original */
	struct store_look original;
	struct base_xattrs original_xattrs;
};

struct baseline {
	struct base_entry *v; /* sorted by path_compare() after baseline_sort() and baseline_load() */
	size_t n, capacity;
	bool partial;
	size_t *by_inode; /* made by baseline_find_inode(); indexes into v, sorted by the copy's inode */
};

struct base_entry *baseline_add(struct baseline *b, const char *path); /* NULL: out of memory */
void base_entry_release(struct base_entry *e);
void baseline_sort(struct baseline *b);
struct base_entry *baseline_find(const struct baseline *b, const char *path);
/* Of a partial one, what it says of path: 1 with the entry, or with NULL if there was none; 0: nothing; -ENOMEM. */
int baseline_look(const struct baseline *b, const char *path, struct base_entry **ret);
/* The regular file whose copy has this inode (number and birth: numbers are used again); NULL if there is none, or no memory to look. After sorting, before adding. */
const struct base_entry *baseline_find_inode(struct baseline *b, uint64_t ino, int64_t btime);
struct baseline *baseline_free(struct baseline *b);

int baseline_load(int dirfd, const char *name, struct baseline **ret); /* of older versions too; -EBADMSG if damaged */
int baseline_save(int dirfd, const char *name, const struct baseline *b); /* atomically, synced */

#endif
