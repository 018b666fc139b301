/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a sandbox as a tree in which the user ticks the changes that shall land.
 *
 * The tree has a node for each change and for each directory above one, in the order of a listing:
 * a directory, then its content. With several resources the topmost nodes are the resources. A
 * directory is ticked by ticking all changes below it. Some nodes are ticked only as a whole,
 * because a commit of a part of them would be refused: a repository or database, a directory that
 * was deleted or became another type, and a git directory.
 *
 * Skipped changes are left out: no commit lands them.
 */
#ifndef CLI_PICK_H
#define CLI_PICK_H

#include <atoll/atoll.h>

#include "cli/changes.h"
#include "cli/fold.h"

#define PICK_NONE SIZE_MAX

struct pick_node {
	const char *path;               /* relative to its resource; "" is the resource */
	const struct fold_entry *entry; /* its change; NULL: a directory above changes, or a resource */
	const char *resource_path;
	size_t parent, end; /* index of the parent; index behind the last node below this one */
	unsigned depth;
	struct changes_counts counts; /* at and below the node */
	uint64_t n, n_ticked, n_ignored;
	bool is_whole; /* the nodes below are ticked only together */
	bool ticked;   /* only for a node without nodes below */
	bool is_open;  /* the list shows the nodes below */
};

struct pick {
	struct pick_node *v;
	size_t n, capacity;
	struct fold *changes;
	char **dirs; /* paths of directories without a change of their own */
	size_t n_dirs;
	bool several;     /* there are several resources */
	uint64_t skipped; /* number of changes that are left out */
};

/* In pick-load.c: lists the changes of the sandbox; all are ticked. */
int pick_load(struct cli *cli, const struct atoll_info *info, struct pick *ret, struct atoll_error *err);
void pick_release(struct pick *p);
/* Copies the ticks of `before`, an earlier list of the sandbox. Returns false if the changes
 * differ. */
bool pick_copy_ticks(struct pick *p, const struct pick *before);

/* Ticks or unticks node i and everything below it. If a node above it is_whole, does this for all
 * of that node. */
void pick_set(struct pick *p, size_t i, bool ticked);
void pick_set_all(struct pick *p, bool ticked);
void pick_set_marks(struct pick *p, const bool *ticked); /* an element for each node */
uint64_t pick_total(const struct pick *p);
uint64_t pick_ticked(const struct pick *p);
bool pick_has_below(const struct pick *p, size_t i); /* whether there are nodes below node i */
/* Returns the node whose path a listing writes like this; PICK_NONE if there is none. The search
 * begins at node `from` and ends before it. */
size_t pick_find(const struct pick *p, const char *path, size_t from);

char *pick_absolute(const struct pick_node *node); /* malloc'ed; for an exact selection */
/* Adds the path as a listing has it: absolute if there are several resources. */
void pick_add_path(struct strbuf *s, const struct pick *p, size_t i, unsigned flags);
/* Adds "59237 added, ignored by git", the details of a change, or nothing. */
void pick_add_remark(struct strbuf *s, const struct pick *p, size_t i);
char pick_letter(const struct pick *p, size_t i, enum atoll_change_kind *ret_kind);

/* In pick-selection.c: fills *ret with the ticked paths; it is empty if all are ticked. Returns 0 or -ENOMEM. The caller
 * frees it by pick_selection_release(). */
int pick_selection(const struct pick *p, const struct atoll_info *info, struct atoll_selection *ret);
void pick_selection_release(struct atoll_selection *s);

/* Whether no part of the changes can be chosen, whatever they are: the only resource lands as a whole. */
bool pick_is_impossible(const struct atoll_info *info);
/* Whether the list is one resource that lands as a whole. */
bool pick_is_one_whole(const struct pick *p);

/* The user's answer in the list or in the editor. */
enum pick_answer { PICK_COMMIT, PICK_BACK, PICK_EDIT, PICK_DIFF, PICK_END };
/* In pick-list.c: shows a list that fills the screen, in which the user ticks changes. *cursor is
 * the node at which the list begins, and then the one at which it ended. PICK_DIFF: the user wants
 * the diff of that node. PICK_END: the end of input, or Ctrl-C. */
enum pick_answer pick_list(struct pick *p, const char *name, size_t *cursor);
/* Whether the terminal can show that list. */
bool pick_list_is_possible(void);
/* In pick-editor.c: opens the list in the user's editor. Returns PICK_COMMIT, or PICK_BACK after
 * printing an error. */
enum pick_answer pick_editor(struct pick *p, const char *name);

/* ---- What the pick-*.c share ---- */

void pick_recount(struct pick *p); /* after a change of ticks or nodes */
bool pick_lies_below(const char *path, const char *dir);

#define AUTO_PICK CLEANUP(pick_release) struct pick

#endif
