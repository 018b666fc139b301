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
 * Of a modified text file the user may choose the hunks that land (pick_hunks()). It is then ticked,
 * and its node remembers the text that lands in place of the whole edit.
 *
 * Skipped changes are left out: no commit lands them.
 */
#ifndef CLI_PICK_H
#define CLI_PICK_H

#include <atoll/atoll.h>

#include "cli/changes.h"
#include "cli/fold.h"

#define PICK_NONE SIZE_MAX

/* What lands of a file of which only some hunks are chosen. */
struct pick_content {
	char *data;
	size_t size;
	size_t n_chosen, n_hunks;
	uint64_t digest; /* of the old and the new text that the user has seen */
};

struct pick_node {
	const char *path;               /* relative to its resource; "" is the resource */
	const struct fold_entry *entry; /* its change; NULL: a directory above changes, or a resource */
	const char *resource_path;
	size_t parent, end; /* index of the parent; index behind the last node below this one */
	unsigned depth;
	struct changes_counts counts;              /* at and below the node */
	uint64_t n, n_ticked, n_ignored, n_partly; /* partly: files that land with some hunks */
	struct pick_content *content;              /* NULL: the file lands as the sandbox has it, if ticked */
	bool is_whole;                             /* nothing below is ticked alone */
	bool ticked;                               /* of a node without other nodes below */
	bool is_open;                              /* the list shows the nodes below */
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
/* Takes over the ticks and contents of `before`, an earlier list of the sandbox. Returns false, and
 * takes nothing, if the two lists have different changes. */
bool pick_take_ticks(struct pick *p, struct pick *before);

/* Ticks or unticks everything at and below node i, or, if node i lies in a node that lands as a whole,
 * all of that node. Forgets the hunks that were chosen there. */
void pick_set(struct pick *p, size_t i, bool ticked);
void pick_set_all(struct pick *p, bool ticked);
/* Ticks or unticks each node by its element; a ticked node keeps its choice of hunks. */
void pick_set_marks(struct pick *p, const bool *ticked);
/* Ticks node i, of which only the content lands. The node frees it by pick_content_free(). */
void pick_set_content(struct pick *p, size_t i, struct pick_content *content);
struct pick_content *pick_content_free(struct pick_content *content); /* returns NULL */
uint64_t pick_total(const struct pick *p);
uint64_t pick_ticked(const struct pick *p);
uint64_t pick_partly(const struct pick *p);              /* of them, files that land with some hunks */
size_t pick_whole_above(const struct pick *p, size_t i); /* the topmost whole node at or above node i, else i */
bool pick_has_below(const struct pick *p, size_t i);     /* whether there are nodes below node i */
/* Returns the node whose path is written so in a listing; PICK_NONE if there is none. The search
 * begins at node `from` and ends before it. */
size_t pick_find(const struct pick *p, const char *path, size_t from);

/* Returns the node of a change, by the paths of struct fold_entry; PICK_NONE if there is none. */
size_t pick_find_change(const struct pick *p, const char *resource_path, const char *path);

char *pick_absolute(const struct pick_node *node); /* malloc'ed; for an exact selection */
/* Adds the path as a listing has it: absolute if there are several resources. */
void pick_add_path(struct strbuf *s, const struct pick *p, size_t i, unsigned flags);
/* Adds "59237 added, ignored by git", the details of a change, or nothing. */
void pick_add_remark(struct strbuf *s, const struct pick *p, size_t i);
char pick_letter(const struct pick *p, size_t i, enum atoll_change_kind *ret_kind);

/* In pick-selection.c: fills the selection and the contents of *ret from the ticks. The selection is
 * empty if all changes land as they are. The list still owns the data of the contents. Returns 0 or
 * -ENOMEM. The caller frees *ret by pick_selection_release(). */
int pick_selection(const struct pick *p, const struct atoll_info *info, struct atoll_commit_options *ret);
void pick_selection_release(struct atoll_commit_options *o);

/* Whether the user cannot choose among the changes, because the only resource lands as a whole. */
bool pick_is_impossible(const struct atoll_info *info);
/* Whether the list is one resource that lands as a whole. */
bool pick_is_one_whole(const struct pick *p);

/* What the user did in the list or in the editor. */
enum pick_answer { PICK_COMMIT, PICK_BACK, PICK_EDIT, PICK_DIFF, PICK_HUNKS, PICK_END };
/* In pick-list.c: lets the user tick in a list that fills the screen. *cursor is the node at which it
 * begins and ended. PICK_DIFF asks for the lines of that node, PICK_HUNKS for the choice of its
 * hunks; PICK_END: the end of input, or Ctrl-C. */
enum pick_answer pick_list(struct pick *p, const char *name, size_t *cursor);
/* Whether the terminal can show that list. */
bool pick_list_is_possible(void);
/* In pick-editor.c: opens the list in the user's editor. Returns PICK_COMMIT, or PICK_BACK after
 * printing an error. */
enum pick_answer pick_editor(struct pick *p, const char *name);

enum pick_hunks_end {
	PICK_HUNKS_CHOSEN,
	PICK_HUNKS_STOPPED,   /* chosen; the user wants to be asked no more */
	PICK_HUNKS_CANCELLED, /* the end of input, or Ctrl-C: the choice is as it was */
	PICK_HUNKS_FAILED,    /* likewise, after a message */
};
/* In pick-hunks.c: asks about each hunk of node i, a modified text file. If the user chooses all hunks,
 * ticks the whole file; if none, unticks it; else ticks it with the chosen hunks. */
enum pick_hunks_end pick_hunks(struct cli *cli, const struct atoll_info *info, struct pick *p, size_t i);
/* Returns why hunks of node i cannot be chosen, as a clause; NULL: perhaps they can. */
const char *pick_hunks_refusal(const struct pick *p, size_t i);
/* Whether the texts of all files with chosen hunks are those that the user has seen. */
bool pick_hunks_are_current(struct cli *cli, const struct atoll_info *info, const struct pick *p);

/* ---- What the pick-*.c share ---- */

void pick_recount(struct pick *p); /* after a change of ticks or nodes */
bool pick_lies_below(const char *path, const char *dir);

#define AUTO_PICK CLEANUP(pick_release) struct pick

#endif
