/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_worktree: an overlay over the checkout, and another one, with an object store of its own, over the git directory.
 *
 * In the resource's area, beside what the overlay has there:
 *
 *	git/ git-work/   the overlay of .git: refs, index, configuration, hooks as a command inside has made them
 *	git-objects/     mounted over .git/objects inside; the original's objects are its alternate, mounted read-only beside it
 *	git-state        the branch of the original, the commit the sandbox began at, the branch inside, and whether all is in place there
 *	git-index        while the inside is put at a commit: its next index. Git locks and writes it here, where no command inside comes
 *	git-sparse       meanwhile, an index and an empty work tree, where git marks what the original's sparse checkout leaves out; after a
 *	                 commit or an undo, a directory that is to replace its whiteout
 *	git-carried      what was staged in the original, and came along: where the index inside still has just that, nobody inside did it
 *	git-staged       the same; it stays when the index inside has become a commit's, and git-carried is dropped
 *	git-uncommitted  all that was uncommitted in the original, and came along, as HEAD had it;
 *	                 without --dirty, the marked files among it (assume-unchanged, skip-worktree)
 *	git-discarded    from a commit until the inside is put at it: the index entries of new files
 *	                 that a command inside has staged and then removed
 *	git-next         while a commit is under way: what takes the place of git-state when it has landed
 *	git-q-*          a quarantine, while something is computed
 *
 * In the original, before a commit: the refs below refs/atoll/UUID, which keep from gc what the sandbox is built on.
 */
#ifndef STRATEGY_GIT_H
#define STRATEGY_GIT_H

#include "git/git.h"
#include "strategy/strategies.h"

#define GIT_UPPER "git"
#define GIT_WORK "git-work"
#define GIT_OBJECTS "git-objects"
#define GIT_STATE "git-state"
#define GIT_CARRIED "git-carried"
#define GIT_STAGED "git-staged"
#define GIT_UNCOMMITTED "git-uncommitted"
#define GIT_DISCARDED "git-discarded"
#define GIT_NEXT "git-next"
#define GIT_INDEX "git-index"
#define GIT_INDEX_LOCK "git-index.lock"
#define GIT_SPARSE "git-sparse"
#define GIT_QUARANTINE "git-q-"
/* Where the original's objects are inside: beside .git/objects, so that relative paths in alternates of its own mean the same. */
#define GIT_BASE_OBJECTS "atoll-objects"

/* The original's branch, as a ref inside, where HEAD inside is on a branch of that name: git merge
 * takes GIT_ORIGINAL for it. It is below refs/atoll, where nothing lands and no diff looks. */
#define GIT_ORIGINAL "atoll/original"

/* The most commits of each kind that a diff lists one by one. There is a limit because a command
 * inside may have fetched the history of another repository. */
#define GIT_COMMITS_MAX 10000
#define GIT_COMMITS_SHOWN "--max-count=10000"

/* ---- git-state.c ---- */

struct git_state {
	char *branch;       /* of the original: "refs/heads/main" */
	char *own;          /* inside */
	struct git_id base; /* what the sandbox was last made from */
	/* The original's commit whose files were last known to show below the workspace; "": the base. */
	struct git_id under;
	struct git_id seen; /* what the copy of the original's branch inside was last set to; "": there is none yet */
	/* as_is: the commit that stands for the original if its branch has none (git_root_make()); "": it had
	 * one when the sandbox was made. */
	struct git_id root;
	size_t left_out; /* uncommitted paths of the original when the sandbox was made, which stay out of it */
	bool carried;    /* with what was uncommitted in the original's checkout */
	bool as_is;      /* carried, on the original's branch; edits land uncommitted */
	bool unsettled;  /* index and files are to be put at the base before anybody sees them */
	bool outdated;   /* as_is: files have landed; git_settle_now() writes GIT_UNCOMMITTED anew */
	/* as_is: all files have landed, but no commit; git_settle_now() takes what is staged out of the index
	 * inside. HEAD inside need not be at the base: a command inside may have gone to another commit. */
	bool restaged;
};
void git_state_release(struct git_state *s);
#define AUTO_GIT_STATE CLEANUP(git_state_release) struct git_state
int git_state_load(struct resource *r, struct git_state *ret, struct atoll_error *err);
int git_state_save(struct resource *r, const struct git_state *s, struct atoll_error *err);
/* A small file, whole and durable or not at all. */
int git_put_file(int dir_fd, const char *name, const char *content, size_t size);
/* The same, but durable only when sync is flushed. */
int git_stage_file(int dir_fd, const char *name, const char *content, size_t size, struct tree_sync *sync);
/* The state after the commit that is under way, at another base: written while that is prepared, and put in its place
 * when it has landed. -errno; -ENOENT if no commit is under way. */
int git_state_stage_next(struct resource *r, const struct git_id *base, struct tree_sync *sync);
int git_state_load_next(struct resource *r, struct git_state *ret);
int git_state_take_next(struct resource *r);
int git_state_set_under(struct resource *r, const struct git_id *under, struct atoll_error *err);

/* ---- git-carried.c ---- */

/* Records what an index has staged since the base, and what is uncommitted in the original. */
int git_carried_save(struct resource *r, const struct git_call *how, const struct git_id *base,
		     struct atoll_error *err);
/* Records the files that are uncommitted in the original now; after a commit, these include the files that
 * landed. If a command inside takes one of them back to the version of HEAD, that is an edit. */
int git_carried_renew(struct resource *r, const struct git_repo *repo, const struct git_id *base, const char *operation,
		      struct atoll_error *err);
/* Without --dirty: records only the marked files (assume-unchanged, skip-worktree) that have local
 * edits in the original. The inside shows them with these edits. */
int git_carried_save_marked(struct resource *r, const struct git_repo *repo, const struct git_id *base,
			    const char *operation, struct atoll_error *err);
/* Fills ret_staged with the index entries on record, mode 0 for a removed one, and ret_uncommitted with HEAD's entries of all that came along; none if
 * there is no record. -errno. */
int git_carried_load(struct resource *r, struct git_entries *ret_staged, struct git_entries *ret_uncommitted);
/* The same of what was staged, whatever the index inside has become. -errno. */
int git_carried_load_staged(struct resource *r, struct git_entries *ret);
/* The index inside is a commit's now. -errno. */
int git_carried_drop(struct resource *r);
struct git_work;
/* Fills w->edited and w->theirs. */
int git_carried_find(struct git_work *w, struct atoll_error *err);
/* Whether commits decide about a file that both sides have changed: a command inside has committed
 * it, and has not edited it since, and others have committed it in the original. A merge of the
 * commits lands, or names the file. Elsewhere the original may have lost uncommitted work that the
 * inside still has, and its times say so. */
bool git_carried_is_for_commits(const struct git_work *w, const char *path);
/* Whether a written file has the content and git's own mode of the original's file, which no process has changed since the sandbox began. If the
 * original's file is uncommitted work that came along, a command inside has written the file, but not edited it. */
bool git_carried_is_same(const struct git_work *w, int upper_fd, const struct change *c);
/* Whether a written file has the type, content and executable bit of the original's file. */
bool git_carried_is_like_original(const struct git_work *w, int upper_fd, const struct change *c);
/* Whether a command inside has taken a file that came along back to the version of its commit, which the original's file is not. */
bool git_carried_is_reverted(const struct git_work *w, int upper_fd, const struct change *c);

/* ---- git-settle.c ---- */

/* Puts the inside at its base, if that was left for later (unsettled): branch, HEAD, index, and the base's version of what is uncommitted in the
 * original. Idempotent; whoever looks at the inside calls it first. */
int git_settle_now(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err);
/* What is uncommitted in the original comes along, as it is now; nothing of it is left for later. The caller saves the state. */
int git_settle_carried(struct resource *r, const struct git_repo *repo, struct git_state *s, const char *operation,
		       struct atoll_error *err);
/* Shows the original's branch inside as it is now, unless a command inside has moved it. It is a copy: were it the
 * original's own ref, a commit that another process makes there would move HEAD inside away from the index. If HEAD inside
 * is on the copy, that stays, and GIT_ORIGINAL shows the original's branch. */
int git_settle_branch(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err);
/* Records w->discarded, index entries of files that were removed again, for the index that is made
 * when the commit has landed; durable when sync is flushed. -errno. */
int git_settle_stage_discarded(struct resource *r, const struct git_work *w, struct tree_sync *sync);
/* Adds the discarded entries to ret, as input of git update-index, but for those in whose place
 * `others` has an entry. 0 or -ENOMEM. */
int git_settle_format_beside(const struct git_entries *discarded, const struct git_entries *others, struct strbuf *ret);
/* The files alone. */
int git_settle_files(struct resource *r, const struct git_repo *repo, const struct git_state *s, const char *operation,
		     struct atoll_error *err);
/* Makes the directories above a path in the upper layer, looking like the original's. -errno. */
int git_settle_parents(struct resource *r, int upper_fd, const char *path);

/* ---- git-outside.c: files that only the original has ---- */

/* Fills w->crossed: files that git does not track inside, that a command inside has edited or
 * removed, and that the original's branch has added since. */
int git_outside_find_crossed(struct git_work *w, struct atoll_error *err);
/* Of index entries inside whose files do not exist, puts those into ret whose file a process
 * outside has removed: only the original had the file. Leaves out an entry if its timestamps do not
 * prove that. 0 or -errno. */
int git_outside_find_removed(const struct git_work *w, const struct git_entries *vanished, struct git_entries *ret);

/* ---- git-pin.c ---- */

/* Keeps a commit from gc, under a name of the sandbox's own. */
int git_pin(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
	    const char *operation, struct atoll_error *err);
/* Pins the commit that the sandbox is built on again, if its pin is gone. A copy of the state
 * directory has a sandbox with the same id, and so the same pins, which it may drop or move. If the
 * pin cannot be written, the next command tries again. */
void git_pin_renew(struct resource *r, const struct git_repo *repo, const struct git_id *id, const char *operation);
/* git_pin() in two parts: the value is written to a file in the git directory, durable when sync is flushed, and takes
 * its place later. Without that file it is written anew. */
int git_pin_stage(struct resource *r, const struct git_repo *repo, const struct git_id *id, struct tree_sync *sync);
int git_pin_staged(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
		   const char *operation, struct atoll_error *err);
void git_pin_unstage(struct resource *r, const struct git_repo *repo);
/* A file in the git directory that is to become a ref; durable, with its name, when sync is flushed. -errno. */
int git_part_stage_ref(const struct git_repo *repo, const struct git_id *id, const char *name, struct tree_sync *sync);
/* Drops them all, whichever there are. */
int git_unpin(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err);
/* As git_lock_take(), with some patience. */
int git_pin_lock(const struct git_repo *repo, const char *path, const char *owner);

/* ---- git-strays.c: commits made inside that HEAD inside does not have ---- */

struct git_stray {
	char *root; /* the ref that holds it, "HEAD", or the worktree or log that does */
	char *hash; /* abbreviated */
	char *subject;
};
struct git_strays {
	struct git_stray *v;
	size_t n;
	size_t on_head, on_own; /* how many of them HEAD holds, and the sandbox's own branch */
	bool more;              /* there are more commits than are listed */
};
struct git_work;
struct git_landing;
struct git_moves;
void git_strays_release(struct git_strays *s);
/* Fills w->strays. Commits of objects that cannot be read are left out: their refs are listed all the same. */
int git_strays_find(struct git_work *w, const struct git_refs *inside, struct atoll_error *err);

/* ---- git-modules.c: git directories of submodules ---- */

/* Calls each for every submodule in whose git directory a command inside has made commits or refs.
 * name: of the directory below .git/modules. 0, what each returned below 0, or -errno. */
int git_modules_changed(const struct git_refs *inside, int (*each)(const char *name, void *arg), void *arg);

/* ---- git-stale.c: files of the workspace that fell behind the commit that landed ---- */

/* Records in the part's directory what the new commit has at the paths of which the workspace holds an older version that does not land. */
int git_stale_save(int dir_fd, const struct git_work *w, const struct git_entries *landing, struct tree_sync *sync);
/* The commit did not land. */
void git_stale_drop(int dir_fd);
/* The part's move is over: where the workspace still holds those files, they get the commit's version. Idempotent, until it is done once. */
int git_stale_renew(struct resource *r, int dir_fd, const struct git_repo *repo, struct atoll_error *err);

/* ---- git-work.c: what the sandbox has made of the repository, computed in a quarantine ---- */

/* A pack of the objects that land, made while Atoll looks for obstacles. */
struct git_pack {
	char *revisions; /* to pack, for git_objects_pack_start(); NULL: no pack, nothing below is valid */
	struct git_running running;
	int fd;
};

struct git_work {
	struct resource *r;
	const char *operation;
	struct git_repo repo;
	struct git_state state;
	struct changes *files; /* as the overlay sees them */
	char *quarantine;      /* absolute */
	char *name;            /* of its directory, in the area */
	char *objects, *index, *upper;
	struct git_id head; /* of the original's branch, now */
	char *on;           /* the ref that HEAD names inside; NULL: HEAD is detached */
	char *torn;         /* a directory that was removed inside, and holds files that stay; NULL: none */
	const char *busy;   /* an operation that git has not finished inside: "a merge"; NULL: none */
	struct git_strays strays;
	struct git_id tip;      /* what HEAD is inside */
	struct git_id tip_tree; /* its tree */
	struct git_id tree;     /* with what is uncommitted inside */
	struct git_id base;     /* what tip and head have in common */
	/* Inside: submodules, unmerged and marked files, and files in the upper layer; or all files. */
	struct git_entries tracked;
	struct git_entries carried;     /* staged in the original when the sandbox was made, as its index had them */
	struct git_entries uncommitted; /* all that was uncommitted there then, as HEAD had it */
	struct git_entries
		staged; /* what the index inside alone has: the file was written too, and is as the base or tip has it */
	struct git_entries discarded; /* likewise, and the file was removed again */
	struct git_entries hidden; /* of these, files that a sparse checkout inside has removed: they are not deleted */
	struct git_entries crossed; /* see git_outside_find_crossed(); mode 0: removed inside */
	/* From the commit that is below the workspace to the one that was: lost by the original. */
	struct git_entries lost;
	struct git_entries base_old, base_new; /* from base to tree */
	struct git_entries head_old, head_new; /* from head to tree */
	const char *unmerged;                  /* a path that is, inside */
	struct git_index_file file;            /* the index inside; its entries are in tracked */
	struct git_running history;            /* the commits that HEAD inside has and the original's branch lacks */
	struct strbuf history_said;
	struct git_running ahead; /* changes from head, asked before base is known */
	struct strbuf ahead_said;
	struct git_running hashing; /* what was written, as objects: a line for each tracked one of files */
	struct strbuf hashes;
	struct git_running asked; /* for the committer, for git_landing_identify() */
	struct strbuf asked_said;
	struct git_pack pack;
	struct git_running landing;   /* the objects of a commit, on their way into the original */
	struct git_entries committed; /* as_is: entries that the tip has and the base lacks */
	/* With what is uncommitted in the original: entries of the tree that the tip lacks; mode 0 for a removed one. */
	struct git_entries edited;
	/* Likewise: entries that others have committed in the original since the sandbox was made, or has landed. */
	struct git_entries theirs;
	struct strbuf commits; /* made inside, the latest first: "SHORT\tSUBJECT\n" */
	size_t n_commits;
	bool unrelated; /* no common history: nothing lands; base is that of the sandbox's start */
	bool settled;   /* no file of the index was written after the index */
	bool compared;  /* base_old and base_new are filled */
	bool has_index; /* the quarantine has a copy of the index */
	bool lost_index; /* the index inside is missing, or cannot be read: HEAD's takes its place, and no commit is made */
	bool headless;  /* HEAD inside is missing, or cannot be read */
	bool unborn;    /* so it is, or its ref has no commit; tip is the base then. Not where that is right,
			 * because the branch had no commit when the sandbox was made. */
	bool elsewhere; /* HEAD is on neither the sandbox's own branch nor the original's: nothing of it lands there */
};
void git_work_release(struct git_work *w);
#define AUTO_GIT_WORK CLEANUP(git_work_release) struct git_work
int git_work_make(struct resource *r, const char *operation, bool exact, struct git_work *ret, struct atoll_error *err);
/* Keeps it with the resource, and leaves it empty. */
void git_work_keep(struct git_work *w);
void git_work_forget(struct resource *r);
/* Waits for w->landing of what was kept, and forgets that. */
int git_work_finish(struct resource *r, struct atoll_error *err);
/* What was kept, if it still holds; else it is made anew. */
int git_work_take(struct resource *r, const char *operation, struct git_work *ret, struct atoll_error *err);
struct git_call git_work_call(const struct git_work *w);
/* A file of the git directory inside cannot be read. Refused, if a command inside has made it so. */
int git_work_cannot_read(const struct git_work *w, int rc, const char *what, struct atoll_error *err);
static inline bool git_work_is_clean(const struct git_work *w)
{
	return git_id_equal(&w->tree, &w->tip_tree);
}
/* Whether a commit of the sandbox commits uncommitted edits. Otherwise those files land, and the
 * branch and the index do not have them. */
static inline bool git_work_commits_edits(const struct git_work *w)
{
	return !git_work_is_clean(w) && !w->state.as_is;
}
/* Whether a commit leaves the original's branch where it is. */
static inline bool git_work_has_nothing(const struct git_work *w)
{
	return !git_work_commits_edits(w) && git_id_equal(&w->base, &w->tip);
}
/* Whether HEAD inside has work that would land on no branch: uncommitted edits, or commits of a detached HEAD or another branch. */
static inline bool git_work_is_lost_elsewhere(const struct git_work *w, bool refs)
{
	return w->elsewhere && (!git_work_is_clean(w) || (w->strays.on_head && !(refs && w->on && !w->unborn)));
}
/* Whether git has begun something inside that a commit would cut off. A bisection goes on beside it. */
bool git_work_is_in_the_middle(const struct git_work *w);
/* Whether the file lands, as far as git has a say: it is not tracked, or its content is the sandbox's own. judged: git says, not the times. */
bool git_work_lands(const struct git_work *w, const struct change *c, bool *ret_judged);

/* What a command inside calls the original's branch: an argument for git merge. */
const char *git_work_original_name(const struct git_work *w);

/* What the original's branch has at a path that differs; NULL if it does not. */
const struct git_entry *git_work_original(const struct git_work *w, const char *path);

/* Whether a file at or below the path is among the changes. */
bool git_work_touches(const struct changes *changes, const char *path);

/* ---- git-tree.c ---- */
/* The index inside: fills file, tracked, unmerged, settled. */
int git_tree_read(struct git_work *w, const struct git_refs *inside, struct atoll_error *err);
/* Once the history is known: fills tree, and perhaps base_old and base_new. */
int git_tree_make(struct git_work *w, struct atoll_error *err);
/* For whoever goes on with the index that the tree was made from. */
int git_tree_need_index(struct git_work *w, struct atoll_error *err);

/* ---- git-as-is.c: work that a repository taken as it is would lose ---- */
/* Fills w->committed, and adds to w->staged entries that only the index inside has. */
int git_as_is_find(struct git_work *w, struct atoll_error *err);
/* Whether an entry of w->base_new is committed inside, not only staged or edited. True if Atoll
 * commits all edits itself. */
bool git_as_is_is_committed(const struct git_work *w, const struct git_entry *e);
/* Whether a command inside has changed the path, so that its file is not merely the version of an
 * older commit. False unless the repository was taken as it is. */
bool git_as_is_is_edited(const struct git_work *w, const char *path);
/* Whether a written file edits the original's file as that is now, although the original's branch has
 * the file, or that very edit, already. That is so if the user has committed a file that had landed,
 * and an undo has put the older version back. The file lands. */
bool git_as_is_edits_file(const struct git_work *w, int upper_fd, const struct change *c);
/* See strategy_ops.files_alone. */
int git_files_alone(struct resource *r, const struct part_request *q,
		    bool (*lands)(const struct change *c, const void *arg), const void *arg, struct atoll_error *err);
/* Call it when files have landed, but no commit. If no edit of a file remains inside, the index inside
 * becomes that of HEAD inside: the files contain what a command inside has staged. */
int git_as_is_landed(struct resource *r, const struct git_repo *repo, struct git_state *s, struct atoll_error *err);
/* Lists git's own configuration and hooks that a command inside has changed: they never land. */
int git_as_is_add_private(const struct git_work *w, struct changes *list, struct atoll_error *err);

/* ---- git-sparse.c: files that a sparse checkout leaves out, here and there ---- */
/* Whether the index inside has the path marked skip-worktree. */
bool git_sparse_is_marked(const struct git_work *w, const char *path);
/* Whether the file is an entry marked skip-worktree that the sandbox has removed: git takes it for unchanged, and so do we. */
bool git_sparse_hides(const struct change *c, const struct git_entry *e);
/* Whether neither the upper layer nor, through it, the original shows the path. */
bool git_sparse_is_nowhere(const struct resource *r, int upper_fd, const char *path);
/* Fills w->hidden. -errno. */
int git_sparse_find(struct git_work *w);
/* Sets GIT_MARK_SKIP on those of the list that the patterns of the original's sparse checkout leave out. place: a name in
 * the area, for a directory of its own that exists only during the call. */
int git_sparse_leaves_out(struct resource *r, const struct git_call *how, const char *place, struct git_entries *list,
			  struct atoll_error *err);
/* Sets GIT_MARK_SKIP on each entry of l->to that lands in the original's index alone: neither side has it checked out. index: the original's. */
int git_sparse_mark(const struct git_work *w, struct git_landing *l, const struct git_entries *index,
		    struct atoll_error *err);

/* ---- git-judge.c ---- */
/* Of the changes that git has a say in, `judged` stays with those alone whose original somebody has touched and is what is committed all the
 * same. The others are left to the times. */
int git_judge(const struct git_work *w, struct changes *list, struct atoll_error *err);
/* See strategy_ops.part_same(): tracked files whose content and git's own mode are those of the commit that landed. */
int git_judge_landed(struct resource *r, int dir_fd, const char *const *paths, size_t n, bool *same,
		     struct atoll_error *err);

/* ---- git-changes.c ---- */
struct changes *git_changes(struct resource *r, bool exact, struct atoll_error *err);

/* ---- git-merge.c: the commit that is to be the branch's tip ---- */

struct git_landing {
	struct git_id old, new;
	struct git_entries from, to; /* what differs between them */
	struct git_entries index;    /* the same paths as the original's index has them */
	char *who, *message;         /* for the logs; who: after git_landing_identify() */
};
void git_landing_release(struct git_landing *l);
#define AUTO_GIT_LANDING CLEANUP(git_landing_release) struct git_landing
int git_landing_make(struct git_work *w, const struct part_request *q, struct git_landing *ret,
		     struct atoll_error *err);

/* Asks git for the committer, unless Atoll has asked already. */
int git_landing_ask(struct git_work *w, struct atoll_error *err);
/* Fills l->who from git's answer. Refuses if git knows of no committer. */
int git_landing_identify(struct git_work *w, struct git_landing *l, struct atoll_error *err);

/* The two sides merged, the sandbox's first: 1, or 0 if they do not merge by themselves. */
int git_landing_merge(struct git_work *w, const char *message, struct git_id *ret, struct atoll_error *err);
/* One that moves nothing. */
int git_landing_none(const struct git_work *w, struct git_landing *ret, struct atoll_error *err);

/* ---- git-pack.c ---- */
void git_pack_release(struct git_pack *p);
/* Begins to pack the objects that `new` and the moved refs have and `old` lacks. If w->pack already
 * packs just these, lets it go on; else ends it and begins again. m may be NULL. */
int git_pack_start(struct git_work *w, const struct git_id *new, const struct git_id *old, const struct git_moves *m,
		   struct atoll_error *err);
/* For speed only, for the usual commit, which moves the original's branch to HEAD inside. If
 * r->lands, begins to pack the commits and asks for the committer, as soon as the commits are
 * known. */
void git_pack_start_early(struct git_work *w);

/* ---- git-inside.c ---- */
int git_merge(struct resource *r, const char *message, struct atoll_error *err);

/* ---- git-refs.c: other refs that were made inside ---- */

struct git_move {
	char *name;
	struct git_id old, new; /* old "": it is not there */
};
struct git_moves {
	struct git_move *v;
	size_t n;
};
void git_moves_release(struct git_moves *m);
#define AUTO_GIT_MOVES CLEANUP(git_moves_release) struct git_moves
/* Whether such a ref lands at all when it is asked for. */
bool git_moves_can_land(const struct git_work *w, const char *name);
int git_moves_find(const struct git_work *w, const struct part_request *q, struct git_moves *ret,
		   struct atoll_error *err);
int git_moves_save(int dir_fd, const struct git_moves *m, struct tree_sync *sync);
int git_moves_load(int dir_fd, struct git_moves *ret);
int git_moves_side(const struct git_repo *repo, const struct git_move *m); /* enum part_side or -errno */
/* ATOLL_CONFLICT if one of them stands on neither side. */
int git_moves_check(const struct git_repo *repo, const struct git_moves *m, struct atoll_error *err);
/* ATOLL_CONFLICT if one of them is checked out, here or in a linked worktree. */
int git_moves_check_unused(const struct git_repo *repo, const struct git_moves *m, struct atoll_error *err);
/* Idempotent. One that stands on neither side is somebody else's, and left. */
int git_moves_do(const struct git_repo *repo, const struct git_moves *m, bool forward, struct atoll_error *err);

/* ---- git-check.c: what is in the way of a commit ---- */
/* Submodules that were changed inside. */
int git_check_submodules(const struct git_work *w, const struct part_request *q, struct atoll_error *err);
/* Refuses untracked files that both sides have changed: w->crossed. */
int git_check_crossed(const struct git_work *w, const struct part_request *q, struct atoll_error *err);
/* Somebody's uncommitted work in the original, and files that are not what the commit has. Fills l->index. */
int git_check_landing(const struct git_work *w, struct git_landing *l, const struct part_request *q,
		      struct atoll_error *err);

/* ---- git-part.c ---- */
int git_part_prepare(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err);
int git_part_prepared(struct resource *r, struct atoll_error *err);
/* Refuses if a command inside has left the repository in a state in which Atoll cannot tell what would
 * land. files_alone: neither branch nor index lands, so staged content is no reason to refuse. */
int git_part_check_inside(const struct git_work *w, bool refs, bool files_alone, struct atoll_error *err);
/* ---- git-index.c: the original's index, and its entries on record ---- */
/* Of these paths at least, and what is unmerged; under the lock. Read here, or by git. */
int git_index_load(const struct git_repo *repo, const struct git_entries *paths, size_t hex_size, const char *operation,
		   struct git_index_file *ret, struct atoll_error *err);
/* Fills l->index. 0 or -ENOMEM. */
int git_index_note(const struct git_index_file *f, struct git_landing *l);
int git_index_save(int dir_fd, const struct git_landing *l, struct tree_sync *sync);
/* The entries that landed, from the record: mode 0 for those that were removed. -errno. */
int git_index_landed(int dir_fd, struct git_entries *ret);
/* The entries of one side; what is known of their files is brought up to date. Idempotent. The new index is durable,
 * its name when the git directory is flushed. */
int git_index_set(struct resource *r, int dir_fd, const struct git_repo *repo, bool forward, struct atoll_error *err);
/* ATOLL_CONFLICT if somebody has staged something else in one of the entries. */
int git_index_check(int dir_fd, const struct git_repo *repo, size_t hex_size, struct atoll_error *err);
/* Whether an entry of the index is as the other side has it, and not as this one: 1, 0 or a failure. */
int git_index_is_behind(int dir_fd, const struct git_repo *repo, bool forward, struct atoll_error *err);
/* Going back the files come after the index, which does not know them yet. Only for speed. */
void git_index_refresh(struct resource *r, int dir_fd, const struct git_repo *repo);
/* Of what is Atoll's own for a while in the git directory. malloc'ed. */
char *git_index_own_name(const struct resource *r, const char *what);

/* ---- git-move.c ---- */
int git_part_save(struct resource *r, int dir_fd, const struct git_work *w, const struct git_landing *l,
		  const struct git_moves *m, struct tree_sync *sync);
int git_part_lock_recorded(struct resource *r, int dir_fd, struct atoll_error *err);
int git_part_lock(struct resource *r, const struct git_repo *repo, const char *branch, const char *operation,
		  struct atoll_error *err);
int git_part_side(struct resource *r, int dir_fd, struct atoll_error *err);
int git_part_move(struct resource *r, int dir_fd, bool forward, struct atoll_error *err);
int git_part_touched(struct resource *r, int dir_fd, struct tree_sync *sync);
int git_part_end(struct resource *r, int dir_fd, struct atoll_error *err);
bool git_part_left(struct resource *r);

#endif
