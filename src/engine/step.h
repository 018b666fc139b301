/* SPDX-License-Identifier: Apache-2.0 */
/* What step.c, step-site.c and step-meta.c share. */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include <signal.h>

#include "engine/protocol.h"

/* The open directories of one resource during an op. */
struct step_site {
	struct op *op;
	struct resource *r;
	struct store_op_resource *how;
	int workspace_fd; /* the layer or copy the steps are about, wherever it stands now */
	int stage_op_fd;  /* the op's directory in the stage area */
	int work_op_fd;   /* and in the work area; may be the same directory */
	struct peer original, workspace;
	char *layer; /* see op_layer() */
	bool switched;
	bool mended;            /* recovery: something of its areas was gone */
	bool moves_ctime;       /* seen: exchanging two files moves their ctime on this filesystem */
	struct atoll_error why; /* of a part that could not be looked at or moved */
};

/* One name in one directory. dir is borrowed. */
struct place {
	int dir;
	const char *name;
};

/* step-verify.c: what is held of an entry of the original from its check to the check after it was moved. */
struct step_guard {
	int lease_fd; /* -EBADF: it has no lease */
	bool leased;  /* a filesystem may have none */
	int node;     /* the inode, where there is no lease_fd */
	struct tree_stat st;
	struct strbuf attributes; /* encoded */
};
#define STEP_GUARD_INIT                                                       \
	{                                                                     \
		.lease_fd = -EBADF, .node = -EBADF, .attributes = STRBUF_INIT \
	}
void step_guard_release(struct step_guard *g);
/* Whether the entry at a place is still as it was planned (then: before) or as it was installed (after): 0 and its stat, -ESTALE or -errno.
 * fresh: no step has moved it since this op looked at it. */
int step_verify(struct step_site *site, const struct store_step *step, const struct place *at,
		const struct store_look *then, bool fresh, struct tree_stat *ret);
/* Takes a lease on the entry, if asked to, verifies it, and fills the guard for step_check_displaced(). -EAGAIN: another process has it open for
 * writing. */
int step_secure(struct step_site *site, const struct store_step *step, const struct place *at, enum direction direction,
		bool lease, struct step_guard *g);
/* Whether the entry that a rename has brought to `at` is the one that was secured, untouched: 0, -ESTALE or -errno. */
int step_check_displaced(struct step_site *site, const struct store_step *step, const struct place *at,
			 const struct step_guard *g, const struct store_look *then);
/* What is at a place: -ENOENT if nothing. */
int step_stat_at(const struct place *at, struct tree_stat *st);
int step_look_at(const struct place *at, struct tree_stat *st, struct store_look *ret);

/* A read lease: 1; 0: it cannot be leased, and passes; -EAGAIN: somebody has it open for writing. Between begin and end only: the notice of a lease
 * that is broken, SIGIO, is not for the program we are part of. */
int step_lease(int fd);
void step_leases_begin(sigset_t *ret_before);
void step_leases_end(const sigset_t *before);
/* Whether anybody but the caller has the file open, to read or to write, as far as the filesystem tells. Likewise between begin and end, with no
 * lease on it. */
bool step_is_open_elsewhere(int fd);
/* Where the original of a step is: 0 or -errno. */
int step_find_original(struct step_site *site, const struct store_step *step, struct place *ret);
/* Likewise of the side that is not the original: a slot, or the workspace. */
int step_find_source(struct step_site *site, const struct store_step *step, struct place *ret);
/* Whether the directory that holds the step's path in the original is gone: removed, or replaced by something that is no directory. */
bool step_has_no_place(struct step_site *site, const struct store_step *step);
/* Enters the inodes at both places of the step into the table of own.c, unless they are there. 0 or -errno. */
int step_note_own(struct step_site *site, const struct store_step *step);
/* As step_state(), with what was seen in the original; its mode is 0 if nothing is there. */
int step_look(struct step_site *site, const struct store_step *step, struct tree_stat *ret);
int step_is_empty_dir(const struct place *at); /* 0, or -ESTALE */
/* Whether nothing below the step's directory, wherever it is just now, was changed since it was looked at, but by Atoll itself: 0, or
 * -ESTALE. */
int step_tree_is_untouched(struct step_site *site, const struct store_step *step, const struct place *at,
			   const struct store_look *then);
/* Whether an entry of the original at top/below was changed at or after a moment, but by Atoll itself: 1, 0 or -errno. */
int step_is_newer(struct step_site *site, const char *top, const char *below, const struct tree_stat *st,
		  int64_t since);
/* part.c: as step_state() and step_move(). */
int part_state(struct step_site *site, const struct store_step *step);
int part_open(struct step_site *site, const struct store_step *step); /* its directory: an fd or -errno */
int part_move(struct step_site *site, struct store_step *step, enum direction direction);
/* Whether the op in progress has not moved this part: there is nothing to put back, whatever another
 * process has made of it since. Always false in recovery, which cannot know. */
bool part_is_unmoved(const struct op *op, const struct store_step *step);
/* Whether a later undo needs the part's directory: without it that would take back the files alone. */
bool part_is_undo_record(const struct op *op, const struct store_step *step);
/* Copies the part's directory to to_dir/name, in place of what is there. 0 or -errno. */
int part_copy_record(struct step_site *site, const struct store_step *step, int to_dir, const char *name);
/* Adds what part_move() has renamed to the closing flush. */
int part_sync(struct step_site *site, const struct store_step *step, struct tree_sync *sync);
int step_meta_state(struct step_site *site, const struct store_step *step);
/* Before an undo: 1 and the step says so, if another process has changed the names or the time of the directory since the commit. */
int step_time_find_foreign(struct step_site *site, struct store_step *step);
int step_meta_move(struct step_site *site, const struct store_step *step, enum direction direction, bool checked);

/* same.c: files that landed and are no longer as they landed, by identity and times, but perhaps by content, as the strategy sees it. */
struct same {
	struct store_step **steps;
	size_t n;
};
void same_release(struct same *s);
/* Whether the file of the original that the step has seen can be judged so. */
bool same_can_be(const struct step_site *site, const struct store_step *step);
int same_add(struct same *s, struct store_step *step); /* -ENOMEM */
/* A step whose file is the same takes it for what landed, and leaves the list; the steps are stored again. */
int same_judge(struct step_site *site, struct same *s, struct atoll_error *err);

#endif
