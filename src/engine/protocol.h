/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit protocol.
 *
 *   I1  Before an op is durably on record as prepared, no original has changed visibly.
 *   I2  Whatever dies, whenever, recovery brings every resource to all-old or all-new, and doing it twice changes nothing more. A
 *       foreign edit made between the crash and the recovery is left as it is, the other version kept, and both are named.
 *   I3  There is one commit point: the transaction that writes DECIDED, or the commit of the participant that decides. Before it
 *       recovery goes back, after it forward.
 *   I4  What somebody else changed since the sandbox began is never overwritten, by commit or by undo.
 *   I5  Work is proportional to what was changed.
 *   I6  Where workspace and original can be exchanged no byte is copied; the displaced inode is the undo record.
 *   I7  A path that exists before and after is there at every instant: it is exchanged, never removed and made again.
 *   I8  The report lists every resource once, with what was verified.
 *
 * The life of a commit, and who does it:
 *
 *	contents               content.c   attached to the changes whose files land in part; may refuse
 *	changes -> plan        plan.c      what is to be done, as a list of steps
 *	check                  check.c     policies, permissions, space, open files       may refuse; nothing was changed
 *	conflicts              conflict.c  foreign changes                                may refuse
 *	stage                  stage.c     copies where needed, private marks stripped, data made durable
 *	                       part.c      and what strategies land themselves, prepared      may refuse
 *	use                    conflict.c  originals that are open for writing; may refuse; the others are leased
 *	PREPARED               commit.c    plan and op in one durable transaction         (I1)
 *	apply                  apply.c     steps, each an exchange or rename, recognised by inode identity (step.c)
 *	closing sync           apply.c     every directory touched
 *	votes                  vote.c      where several databases take part: all but one are made ready for either end
 *	decision               decide.c    where a database takes part: its own commit    (I3)
 *	DECIDED                commit.c    one durable transaction                        (I3)
 *	finish                 finish.c    new base, cleaning up; may be repeated
 *
 * An undo is the same op, applied backward (undo.c, same.c). Recovery (recover.c) finds ops that are PREPARED or DECIDED and moves every
 * step to the side where it belongs; nothing else is needed, because nothing was recorded while applying.
 */
#ifndef ENGINE_PROTOCOL_H
#define ENGINE_PROTOCOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"

enum direction { FORWARD, BACKWARD };

/* own.c: the ctimes that the op's own steps have left on inodes with several names. */
struct own {
	struct tree_inodes index; /* into v */
	struct own_inode *v;
	size_t n, capacity;
	const struct store_look **looks; /* recovery: of all entries that the steps move, sorted by identity */
	size_t n_looks;
	const struct tree_id *
		*landed; /* of all entries that the steps put into the original, sorted; NULL: not collected yet */
	size_t n_landed;
	struct tree_inodes named; /* inodes of which the steps know all names */
};

/* Everything about one commit or undo in progress. */
struct op {
	struct session *s;
	struct store_op row;
	struct store_op_resource *resources; /* parallel to s->resources; op 0: this resource takes no part */
	struct store_step *steps;
	size_t n, capacity;
	size_t decider;    /* 0, or 1 + the index of the resource whose own commit is the decision */
	bool voting;       /* votes were asked for, or may have been before a crash */
	bool untold;       /* one that has voted could not be told how it was decided */
	bool contradicted; /* and one was ended by somebody else, otherwise */
	struct atoll_result *result;
	const struct atoll_commit_options *options; /* commits only */
	struct selection *selections;               /* commits only; parallel to s->resources */
	struct changes **changes;                   /* commits only */
	struct tree_sync *
		*syncs; /* commits only, parallel to s->resources: what was staged and is not flushed yet, or NULL */
	bool salvage;   /* recovery: what somebody removed from the areas is done without, and reported */
	bool lost;      /* and something was */
	bool revised;   /* undo: the check changed steps of the commit, which are stored again */
	int *held;      /* parallel to steps: the original's file, under a lease, or -EBADF; NULL: none is */
	atomic_size_t held_room; /* how many more may be */
	struct tree_inodes
		leased; /* inodes of which one name is held: a lease on each of very many names takes quadratic time */
	struct own own;
	pthread_mutex_t telling; /* whoever adds to the result while several threads work on the op */
	atoll_progress_fn progress;
	void *progress_arg;
};

void op_release(struct op *op);
struct store_op_resource *op_resource(struct op *op, int64_t resource);
/* What became of every resource that took part; one that is known to be stuck, or is not isolated, keeps its line. */
void op_set_outcomes(struct op *op, enum atoll_outcome outcome);
void op_progress(const struct op *op, const char *phase, uint64_t done, uint64_t total);
/* Adds to the result, from any thread that works on the op: 0 or -ENOMEM. */
int op_tell(struct op *op, enum atoll_item_kind kind, const struct resource *r, const char *path, const char *why);
/* From the moment in which the originals are found not to be in use, until each is exchanged, a lease keeps writers out; as far as the
 * limit of open files allows. op_hold(), after op_hold_begin() in any thread, takes over the fd, op_take_held() gives it back, or -EBADF.
 * Between step_leases_begin() and _end(). */
void op_hold_begin(struct op *op);
void op_hold(struct op *op, const struct store_step *step, int fd);
int op_take_held(struct op *op, const struct store_step *step);
void op_release_held(struct op *op);
/* Its own directory in a resource's stage area, or work area (where the workspace is switched). */
int op_dir(const struct op *op, const struct resource *r, bool stage);
/* Appends a step to the op's list. NULL: no memory. */
struct store_step *op_add_step(struct op *op, struct resource *r, enum store_step_kind kind, const char *path);
/* Forgets the stamps of a resource whose base is new as a whole, unless an older commit than `op` may still be taken back: by them its
 * undo tells what this sandbox put back from what somebody else did. */
int op_clear_stamps(struct session *s, struct resource *r, int64_t op, struct atoll_error *err);
/* The layer that was put aside, or waits to take the workspace's place. It lies beside the workspace, not in the op's directory:
 * exchanged within one directory it keeps its times on every filesystem. malloc'ed. */
char *op_layer(const struct op *op);
/* Removes the op's directories and layer in a resource's areas. */
int op_remove_dirs(const struct op *op, const struct resource *r);
int op_load(struct session *s, const struct store_op *row, struct op *ret, struct atoll_error *err);

/* own.c */
/* How many steps put an entry with this identity into the original. -ENOMEM. */
int own_count_landed(struct op *op, const struct tree_id *id, uint64_t *ret);
/* Whether it was found before that the steps know all names of the inode; own_know_names() notes it. -ENOMEM. */
bool own_has_known_names(const struct op *op, const struct tree_stat *st);
int own_know_names(struct op *op, const struct tree_stat *st);
/* After a step of this op: the inode with this identity shows these times now. Ignores what has one name only. -ENOMEM. */
int own_note(struct op *op, const struct tree_id *id, const struct tree_stat *st);
/* The ctime that the latest step of this op on the inode left; NULL if no step has moved it, or it has one name only. */
const int64_t *own_ctime(const struct op *op, const struct tree_stat *st);
/* Whether the entry's ctime is Atoll's own doing: a step of this op or of an earlier one has moved another name of its inode, and no
 * other process has changed the inode since. 1, 0 or -errno. */
int own_explains(struct op *op, const struct resource *r, int dirfd, const char *name, const struct tree_stat *st);
/* Records the ctimes for later ops of the sandbox. Within the transaction that closes the op. */
int own_add_stamps(struct op *op, struct atoll_error *err);
void own_release(struct op *op);

/* content.c */
/* Attaches each content of the options to its change, or adds a refusal if the content cannot land. */
int content_assign(struct op *op, struct atoll_error *err);

/* plan.c */
int plan_make(struct op *op, struct atoll_error *err);
/* Skips each selected file that differs by nothing but its hard links, if names that are not selected
 * make the difference. Landing it alone would change nothing in the original. 0 or -ENOMEM. */
int plan_skip_idle(struct changes *changes, const struct selection *selection, bool ours);
/* Marks each change that must land as a copy: if an inode landed while one of its names stays in the
 * workspace, the next command inside would write into the original. ours: the commit overrides
 * changes of other processes. 1 if there is such a change, 0, or -ENOMEM. */
int plan_find_shared(struct changes *changes, const struct selection *selection, bool ours);
/* Reads the identities of the selected entries with several threads, if the change set is large. */
void plan_identify(struct changes *changes, const struct selection *selection, int original_fd, int workspace_fd);

/* part.c: what resources land by their strategies' own doing */
/* Called after the planning of the resource's files. has_steps: the plan has steps for them. */
int part_plan(struct op *op, size_t index, bool has_steps, struct atoll_error *err);
/* Whether something is to land that is no file, or must not be left behind. refs: what otherwise stays inside is meant too. */
bool part_is_changed(const struct changes *c, bool refs);
bool part_is_selected(const struct resource *r, const struct selection *v);
/* Of a dry run too. Whatever comes of it, part_end_all() must follow. */
int part_prepare_all(struct op *op, struct atoll_error *err);
/* Before an undo looks at the originals: takes the locks that a commit takes. part_end_all() drops
 * them, or part_drop_left() while the undo is not on record. */
int part_lock_all(struct op *op, struct atoll_error *err);
/* Waits for what the parts have left running. */
int part_prepared_all(struct op *op, struct atoll_error *err);
int part_end_all(struct op *op, struct atoll_error *err);
/* Drops what a commit or undo that was not on record left in the originals. Under any lock of the
 * sandbox: no process is committing. */
int part_drop_left(struct session *s, struct atoll_error *err);

/* decide.c: the participant whose own commit is the decision; all of them do nothing where there is none */
int decide_plan(struct op *op, struct atoll_error *err); /* finds it, and among several chooses one */
void decide_load(struct op *op);                         /* finds it in an op from the journal */
int decide_prepare(struct op *op, struct atoll_error *err);
int decide_commit(struct op *op, struct atoll_error *err);              /* 0, -ATOLL_IN_DOUBT, or it has not */
int decide_outcome(struct op *op, struct atoll_error *err);             /* 1, 0, or it cannot be told */
int decide_end(struct op *op, bool committed, struct atoll_error *err); /* of those that vote, too */

/* vote.c: where several would have to decide, all but one are made ready first and end as that one; nothing where there are none */
bool vote_is_cast_by(const struct op *op, size_t index);
bool vote_is_on_record(struct session *s,
		       const struct store_op *row); /* of a commit from the journal; true also if that cannot be read */
/* Of all that would have to decide, by their indices: who does. The others vote. Refused if that cannot be. */
int vote_plan(struct op *op, const size_t *several, size_t n, struct atoll_error *err);
int vote_prepare(struct op *op, struct atoll_error *err);
int vote_all(struct op *op, struct atoll_error *err); /* a failure is one before the decision: everything goes back */
/* Ends what waits somewhere though its op is over; a place that cannot be reached just now is left for the next time. */
void vote_sweep(struct session *s);
/* Each that can be told how it was decided is; what becomes of the others is in the result, and op->untold. May be repeated. */
int vote_end_all(struct op *op, bool committed, struct atoll_error *err);

/* check.c, conflict.c: each adds what it finds to the result and returns a refusal if there is any */
int check_plan(struct op *op, struct atoll_error *err);
int check_undo(struct op *op, struct atoll_error *err);
/* link-notes.c: adds a note for each changed file whose original has names that the commit does not change */
int link_notes_add(struct op *op, size_t index, struct atoll_error *err);
/* live.c: databases that were not named as such and are in use */
int live_check(struct op *op, size_t index, struct atoll_error *err);
#define LIVE_NOTE "is a SQLite database that somebody has open; atoll new takes it as --db sqlite:PATH"
/* What is said of such a one, if the file is one, else NULL. Between step_leases_begin() and _end(), without a lease on it. */
const char *live_judge(int fd, int dirfd, const char *name);
int conflict_check(struct op *op, struct atoll_error *err);
int conflict_check_use(struct op *op, struct atoll_error *err);
int conflict_check_undo(struct op *op, struct atoll_error *err);

/* boot.c */
/* The first change that was written in an earlier boot and not known to be synced, or NULL. */
const struct change *boot_find_unsynced(const struct resource *r, const struct changes *c);
/* Whether there may be such changes: written before a restart, neither committed nor dropped. */
bool boot_is_doubtful(const struct store_resource *row);
/* Marks the resources with such changes, by the same rule. What cannot be looked at is not marked: it cannot be committed either. */
void boot_find_suspects(struct atoll *a, struct atoll_info *info);
/* Before a workspace is written again: after a restart that took nothing from it, it counts as of this boot. */
int boot_renew(struct session *s, struct atoll_error *err);

/* ---- strays.c ---- */

/* Removes what a killed run may have left half done in the workspaces. */
void strays_remove(struct session *s);

/* stage.c */
int stage_all(struct op *op, struct atoll_error *err);
/* Makes durable what stage_all() and part_prepare_all() have written: with one flush per resource, where that is
 * enough. */
int stage_flush_all(struct op *op, struct atoll_error *err);

/* step.c: one step, on disk */
enum step_state { STEP_OLD, STEP_NEW, STEP_BETWEEN, STEP_FOREIGN }; /* BETWEEN: metadata, half set */
struct step_site;
struct step_site *step_site_new(struct op *op, struct resource *r,
				struct atoll_error *err); /* fds of one resource, parents cached */
struct step_site *step_site_free(struct step_site *site);
/* Where the step stands. -errno on failure. */
int step_state(struct step_site *site, const struct store_step *step);
/* Moves the step to the wanted side if it is on the other. Returns 1 if it was moved, 0 if it was there already, -ESTALE if what is
 * there is neither or was edited (nothing was changed then), -ENODATA if what it needs was removed from Atoll's areas (likewise), -EAGAIN if
 * somebody has the original open for writing, else -errno. */
int step_move(struct step_site *site, struct store_step *step, enum direction direction, bool lease);
/* Whether the step stands on that side (BACKWARD: the old one) and nobody else has changed what stands there: 1, 0 or -errno. */
int step_is_intact(struct step_site *site, const struct store_step *step, enum direction side);
/* Sets aside the version that does not stand in the original, for a human. *ret_path: where. */
int step_keep_other(struct step_site *site, const struct store_step *step, char **ret_path);
/* Of a step that cannot be moved because of a loss: what would go to the sandbox, where its place is gone, is set aside too. */
int step_set_aside(struct step_site *site, const struct store_step *step, enum direction direction, char **ret_path);
int step_site_switch(struct step_site *site, enum direction direction);
int step_site_sync(struct step_site *site);

/* apply.c */
/* All steps of all resources. tolerate: the way back, on which a resource that fails does not stop the others (it is reported as stuck), and
 * foreign edits and losses are left, kept aside, reported and their steps dropped (*ret_left). A part
 * of an undo is not dropped, so that a later undo meets the conflict too. Else the first failure ends it, a foreign edit with
 * ATOLL_CONFLICT. */
int apply(struct op *op, enum direction direction, bool tolerate, bool *ret_left, struct atoll_error *err);

/* finish.c */
int finish_commit(struct op *op, struct atoll_error *err);
int finish_undo(struct op *op, struct atoll_error *err);
int finish_decide_commit(struct op *op, struct atoll_error *err);
int finish_decide_undo(struct op *op, struct atoll_error *err);
int finish_failed(struct op *op, struct atoll_error *err);

/* rebase.c */
/* What Atoll put there itself is judged from now on, not from the sandbox's beginning. */
int rebase_paths(struct op *op, struct resource *r, int64_t stamp, struct atoll_error *err);
/* Going there and back has touched what it put back: that is Atoll's own doing, and is judged from now on. What somebody else changed
 * meanwhile keeps its older stamp and what is known of it, so that the next attempt finds it (I4). */
int rebase_intact(struct op *op, struct resource *r, struct step_site *site, int64_t stamp, struct atoll_error *err);

/* merge.c: edits made after a commit that was taken back go on top of the edits that came back */
/* root_returned: the undo has set the time of the older layer's root, which stays unless a newer
 * edit has changed the root's time. */
int merge_newer(struct resource *r, int newer_fd, int older_fd, bool root_returned);
/* Marks the root of a fresh layer, whose times are those of st: a later merge_newer() then knows
 * whether an edit has changed them. */
int merge_begin_root(const struct resource *r, int fd, const struct tree_stat *st);
/* The same for one entry that a partial commit took out of the workspace and that lies in a slot still, because something newer has its
 * place. */
int merge_beneath(struct resource *r, int workspace_fd, const char *path, int slot_dir, const char *slot);
/* A directory whose metadata a partial commit had landed has it again in the workspace, where a rollback has dropped it since. */
int merge_metadata(struct resource *r, int workspace_fd, const struct store_step *step, int slot_dir);
/* Whether a newer edit has removed or replaced a directory above the path: 1, 0 or -errno. */
int merge_is_hidden(const struct resource *r, int workspace_fd, const char *path);

/* reset.c: a fresh workspace */
int reset_workspace(struct session *s, struct resource *r, struct atoll_error *err);
/* What cannot be removed now is tried again by the next recovery. The directory itself stays: no name is removed and made again. */
void reset_empty_trash(int area_fd);
/* All that are marked dirty, parents before children. One that fails never stops the others; each is in the report, and the first failure
 * is the answer. */
int reset_dirty(struct session *s, struct atoll_result *result, struct atoll_error *err);
/* The same for a rollback whose marks are new: a workspace that could not even be moved away is whole, and loses its mark again, so that no
 * later command drops edits of which the user was told that they are still there. */
int reset_or_keep(struct session *s, struct atoll_result *result, struct atoll_error *err);

/* salvage.c: recovery without what somebody removed from Atoll's areas */
/* Opens all resources; areas that are gone are made again, empty. */
int salvage_open_all(struct session *s, struct atoll_error *err);
/* Takes the workspaces that are gone for lost: reported, and marked to be made fresh in the transaction that closes the op. */
int salvage_mark_lost(struct op *op, struct atoll_error *err);

/* recover.c */
int recover_session(struct session *s, struct atoll_result **ret, struct atoll_error *err);
bool recover_is_needed(struct session *s, struct atoll_error *err);
/* Whether nothing but its removal is left: rm has begun, or new never ended. */
bool recover_is_removal(const struct session *s);
/* Whether an original may stand half-way, or waits to be told. What else is left to do is about the workspace. */
bool recover_concerns_originals(struct session *s);

/* abandon.c: a commit that is given up */
/* Recovers what can be; *ret: on which side each resource was left, if there was a commit to be recovered, else NULL. Nothing is in the way of its
 * removal then. */
int abandon_session(struct session *s, struct atoll_result **ret, struct atoll_error *err);

/* undo.c */
/* Opens the sandbox for a change, and begins the operation's result. */
int undo_open(struct operation *o, const char *name, const struct atoll_undo_options *options, struct session *s,
	      struct atoll_error *err);
/* The latest commit that was not taken back, or -ATOLL_NOT_FOUND. */
int undo_find_latest(struct session *s, struct store_op *ret, struct atoll_error *err);
int undo_latest(struct session *s, bool rollback, const struct atoll_undo_options *options, struct atoll_result *result,
		struct atoll_error *err);

#endif
