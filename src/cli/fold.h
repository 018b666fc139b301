/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds a long list of changes to the lines of a screen.
 *
 * fold_add() keeps every change. fold_choose() (fold-choose.c) sorts the changes by path and begins
 * with one line for each resource. It then replaces a line for a directory by lines for its
 * contents as long as there are enough rows: first directories with changes of files that existed
 * before, then the directories that need the fewest lines. Directories that git ignores stay
 * folded. Every change has a line of its own or is counted on exactly one line.
 */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include "cli/changes.h"

struct fold_entry {
	char *path;     /* relative to its resource; "" is its root */
	char *old_path; /* of a rename; else NULL */
	char *details;  /* as behind the change's line in the list; NULL: none */
	const char *resource_path;
	int resource;
	enum atoll_change_kind kind;
	unsigned flags; /* PATH_… */
	bool is_equal;  /* a file that was rewritten with equal content */
	bool is_ignored;
};

enum fold_line_kind {
	FOLD_ENTRY,     /* one change */
	FOLD_DIRECTORY, /* all changes below a directory */
	FOLD_FILES,     /* changes of the same group directly in a directory */
	FOLD_REST,      /* changes below a directory that no other line stands for */
	FOLD_EQUAL,     /* all files that were rewritten with equal content */
};

struct fold_line {
	enum fold_line_kind kind;
	/* range of the sorted entries that holds all entries of the line, and possibly more */
	size_t begin, end;
	size_t dir; /* length of the part of their paths that names the directory */
	/* of FOLD_FILES: the entries' common group; of FOLD_REST: the kind of the opened line */
	unsigned group;
	struct changes_counts counts;
	uint64_t n, n_ignored; /* numbers of changes */
	size_t opens;          /* number of lines after opening it; 0: not computed yet */
	bool has_edits;        /* includes changes of files that existed before */
	bool is_top;           /* a whole resource */
};

struct fold {
	struct fold_entry *entries;
	size_t n, capacity;
	char **resources;
	size_t n_resources;
	char **ignored_dirs; /* absolute; the .gitignore of each ignores everything in it */
	size_t n_ignored_dirs;
	struct fold_line *lines;
	size_t n_lines;
};

/* For the formats of changes.c. fold_add() returns 0 or -ENOMEM. */
struct fold *fold_new(void);
struct fold *fold_free(struct fold *f);
int fold_add(struct fold *f, const struct atoll_change *change, bool several);
/* Asks git for ignored files, chooses at most `rows` lines, and prints them, none wider than
 * `columns`. Sets *ret_folded if some changes have no line of their own. */
int fold_print(struct fold *f, const struct changes_style *style, size_t rows, size_t columns, bool *ret_folded);

/* Asks git which entries it ignores, and waits only a moment for the answer. Call it before the
 * entries are sorted. */
void fold_find_ignored(struct fold *f);

/* In fold-choose.c: sorts the entries and fills f->lines from them. */
int fold_choose(struct fold *f, size_t rows);
/* Sorts the first n entries: a directory, then its content; parts of a resource that are no files
 * first. A directory in which git ignores everything counts as ignored. */
void fold_sort(struct fold *f, size_t n);

#endif
