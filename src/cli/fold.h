/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long list of changes folded to the lines of a screen.
 *
 * fold_add() keeps every change. fold_choose() (fold-choose.c) sorts them by path, begins with one line for each resource, and replaces a line
 * for a directory by lines for what lies in it as long as the lines suffice: first directories in which something that existed was changed,
 * then those that need the fewest lines. What git ignores stays folded. Every change is on a line of its own or counted on exactly one.
 */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include "cli/changes.h"

struct fold_entry {
	char *path;     /* relative to its resource; "" is its root */
	char *old_path; /* renamed; else NULL */
	char *details;  /* as behind its line in the list; NULL: none */
	const char *resource_path;
	int resource;
	enum atoll_change_kind kind;
	unsigned flags; /* PATH_… */
	bool is_equal;  /* a file that was written anew with the content it had */
	bool is_ignored;
};

enum fold_line_kind {
	FOLD_ENTRY,     /* one change */
	FOLD_DIRECTORY, /* all changes below a directory */
	FOLD_FILES,     /* those directly in a directory that are alike */
	FOLD_REST,      /* those below a directory that no other line stands for */
	FOLD_EQUAL,     /* all files with the content they had */
};

struct fold_line {
	enum fold_line_kind kind;
	size_t begin, end; /* of the sorted entries, among which those are that it stands for */
	size_t dir;        /* how many bytes of their paths name the directory */
	unsigned group;    /* of FOLD_FILES: what they share; of FOLD_REST: the kind of the line that was opened */
	struct changes_counts counts;
	uint64_t n, n_ignored; /* changes */
	size_t opens;          /* how many lines there are when it is opened; 0: not known yet */
	bool has_edits;        /* something that existed was changed */
	bool is_top;           /* a whole resource */
};

struct fold {
	struct fold_entry *entries;
	size_t n, capacity;
	char **resources;
	size_t n_resources;
	char **ignored_dirs; /* absolute: whose own .gitignore says so */
	size_t n_ignored_dirs;
	struct fold_line *lines;
	size_t n_lines;
};

/* For the formats of changes.c. 0 or -ENOMEM. */
struct fold *fold_new(void);
struct fold *fold_free(struct fold *f);
int fold_add(struct fold *f, const struct atoll_change *change, bool several);
/* Asks git, chooses at most `rows` lines, and prints them, none wider than `columns`. *ret_folded: not every change has a line of its own. */
int fold_print(struct fold *f, const struct changes_style *style, size_t rows, size_t columns, bool *ret_folded);

/* fold-choose.c: fills f->lines from the entries, which it sorts. */
int fold_choose(struct fold *f, size_t rows);

#endif
