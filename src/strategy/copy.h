/* SPDX-License-Identifier: Apache-2.0 */
/* What the strategies share whose workspace is a whole tree: copy.c, snapshot.c. */
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
int copy_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err);
void copy_describe(struct base_entry *e, const struct tree_stat *st);
int copy_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
int copy_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);

/* ---- copy-changes.c ---- */

struct copy_walk {
	struct classify classify;
	/* What is known of path from the beginning; *ret NULL: it was not there. Stays as it is until the next call. 0 or -errno. */
	int (*find)(struct copy_walk *w, const char *path, struct base_entry **ret);
	/* The attributes that the directory, as find() gave it, has in the copy without the sandbox's edits. NULL: those of the entry. */
	int (*xattrs)(struct copy_walk *w, const char *path, struct base_xattrs *ret);
	void *arg; /* of both */
	struct strbuf covered;
	bool in_covered;
	struct copy_linked *linked; /* files of several names that are as they were */
	size_t n_linked, linked_capacity;
};
/* For each entry of the workspace, those of a directory behind it: a tree_walk_fn, whose argument is the walk. Marks what was found as seen. */
int copy_visit(const struct tree_entry *e, void *arg);
/* Afterwards: of a sorted list, what was not seen is missing in the workspace. */
int copy_find_missing(struct copy_walk *w, struct baseline *base);
/* Afterwards: adds files that are as they were, but have got a further name in a directory that was moved. tree: the workspace. */
int copy_find_linked(struct copy_walk *w, int tree);
/* Whether the entry is unchanged since it was copied, content included: its ctime proves it. */
bool copy_is_untouched(const struct base_entry *b, const struct tree_stat *st);
/* Whether a file of the list has a name that is not in it. */
bool copy_lacks_names(const struct changes *c);
void copy_walk_release(struct copy_walk *w);

/* ---- copy-rebase.c ---- */

/* Takes the originals at the steps' paths as what is known of them, and saves the baseline. undone: the steps were taken back, and the
 * workspace's entries there are to be compared with the originals, whatever they look like. begin: fills a new entry of a partial baseline with
 * what was known of its directory until now: 1, or 0 if nothing was, or -errno; may be NULL. */
int copy_rebase(struct resource *r, struct baseline *base, const struct store_step *steps, size_t n, bool undone,
		int (*begin)(struct resource *r, struct base_entry *e), struct atoll_error *err);

#endif
