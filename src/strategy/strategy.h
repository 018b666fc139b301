/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies: how one resource is isolated.
 *
 * A strategy knows how to make a workspace, how a view is built from it, what was changed in it, and how to make it fresh. All that
 * lands changes (staging, applying, undo, recovery) is in the engine, once for all of them. The engine asks for capabilities, never
 * for names. To add one: a const struct strategy_ops in a file of its own and a line in the array of registry.c.
 */
#ifndef STRATEGY_STRATEGY_H
#define STRATEGY_STRATEGY_H

#include <atoll/atoll.h>

#include "store/store.h"
#include "tree/tree.h"

/* What a strategy can do. Whatever is not declared is not there: the zero value is the safe one. */
enum {
	STRATEGY_ISOLATES = 1 << 0,    /* writes do not reach the original before commit */
	STRATEGY_UNDO_BEFORE = 1 << 1, /* edits can be dropped before commit */
	STRATEGY_UNDO_AFTER =
		1 << 2, /* a commit can be taken back; else it is irreversible, and lands after those that can */
	STRATEGY_LAYERED = 1 << 3, /* the workspace holds changes only, over a live view of the original */
	STRATEGY_OVERLAY = 1 << 4, /* needs overlayfs in a mount namespace */
	STRATEGY_PART = 1 << 5,    /* lands, wholly or partly, by its own doing: part_prepare() and so on */
	STRATEGY_DECIDES = 1 << 6, /* its own commit is final, and the op's decision: decide_prepare() and so on */
	STRATEGY_VOTES =
		1 << 7, /* and it can be made ready for whatever somebody else decides: vote_prepare() and so on */
	STRATEGY_GUEST =
		1 << 8, /* serves one file, which can lie in the workspace of the resource around it: resource.host */
};
#define STRATEGY_SERVES(kind) (1u << (kind))

struct resource;
struct change;

/* How the resource appears at its path inside. Fds are borrowed from the resource or owned by the view. */
enum strategy_view_kind { STRATEGY_VIEW_OVERLAY, STRATEGY_VIEW_BIND, STRATEGY_VIEW_NONE /* the extra ones alone */ };
#define STRATEGY_EXTRA_MAX 4
struct strategy_view {
	enum strategy_view_kind kind;
	int lower_fd, upper_fd, work_fd; /* BIND: lower_fd alone */
	bool masked;                     /* OVERLAY: mask_fd, the view's, lies between lower and upper */
	int mask_fd;
	/* Put on top of it, in this order. */
	struct strategy_mount {
		char *path; /* absolute, of a directory or file that is there in the view by then; malloc'ed */
		int fd;     /* what is bound there; the view's */
		bool read_only;
		bool overlay; /* not bound, but below these two, which are the view's as well */
		int upper_fd, work_fd;
	} extra[STRATEGY_EXTRA_MAX];
	size_t n_extra;
};

/* What making a workspace takes, beyond a moment. */
struct strategy_cost {
	uint64_t files, bytes; /* to be copied byte by byte */
};

/* What a strategy is asked to serve, before there is a resource. */
struct strategy_probe {
	int root_fd;
	const char *root_path;
	const char *const *apart; /* absolute: other resources of the sandbox, and what is Atoll's own */
	size_t n_apart;
};

/* ---- parts: what a resource lands by its own doing, beside or instead of steps on files: rows of a database, a branch ---- */

enum part_side { PART_OLD, PART_NEW, PART_FOREIGN }; /* FOREIGN: neither; somebody else changed what it touches */

struct part_request {
	const char *message; /* of the commit; NULL: none was given */
	bool dry;            /* only say what would be refused: nothing is left, and there is no directory */
	bool refs;           /* git: what else was named inside lands too */
	bool ours;           /* foreign changes of files are overwritten */
	const struct changes *changes;
	struct tree_sync *sync; /* flushed before the op is on record; NULL: dry */
	/* Adds a line to the report: ATOLL_ITEM_CONFLICT, _REFUSED, _BUSY or _NOTE. 0 or -ENOMEM. */
	int (*tell)(void *arg, enum atoll_item_kind kind, const char *path, const char *why);
	void *tell_arg;
};

/* Whether a resource could vote, where several would have to decide. */
struct strategy_room {
	unsigned
		room; /* how many can be made ready at its place; 0: this one cannot, and must be the one that decides */
	char place[64]; /* those of one place share its room */
	char why[256];  /* what the room depends on, in one line, for whoever has too little of it */
};

/* What a resource keeps from others: a database's relations that are locked exclusively. */
struct strategy_locks {
	char relations[1024]; /* one a line; "": none */
	int64_t held_ns;      /* at most so long */
	int64_t left_ns;      /* until the edits are given up, if no command uses it meanwhile; -1: never */
};

struct strategy_ops {
	const char *name;
	const char *alias; /* NULL or a second accepted name */
	const char *summary;
	int strength; /* a total order; the strongest that works is the default */
	unsigned capabilities;
	unsigned kinds;        /* STRATEGY_SERVES() of each kind of resource it can serve */
	const char *workspace; /* name of the workspace tree in the work area; NULL: there is none */
	const char *part_name; /* what its part is called in reports, as a path; NULL: the file itself */
	const char *const
		*companions; /* if GUEST: what names beside the file, that are its own too, end in; NULL at the end */

	/* must, of those that serve what is no file. Whether what was given can be served: its name, without secrets, malloc'ed. */
	int (*resolve)(const char *given, char **ret_name, struct atoll_error *err);
	/* may. Whether it can serve such a directory: 0, or 1 and why not, or -errno. Changes nothing. */
	int (*probe)(const struct strategy_probe *p, struct strbuf *reason);
	/* may. Whether its workspace can lie in that directory; without it, it can in any. */
	bool (*fits)(int root_fd, int area_fd);
	/* must. Makes the workspace in r->work_fd, where it does not exist yet. A crash leaves a partial one, which the caller removes. */
	int (*begin)(struct resource *r, struct atoll_error *err);
	/* may. Fails if begin() cannot read the original now. Rollback asks this before it drops
	 * the edits for a fresh workspace. Changes nothing. */
	int (*can_begin)(struct resource *r, struct atoll_error *err);
	/* may. What begin() will cost; 0 where blocks are shared. Changes nothing. */
	int (*cost)(struct resource *r, struct strategy_cost *ret, struct atoll_error *err);
	/* must. Opens what a view needs. Not idempotent; changes nothing durable but what a mount needs. */
	int (*view)(struct resource *r, struct strategy_view *ret, struct atoll_error *err);
	/* may. What a command inside must have in its environment: set() for each "NAME=value", or "NAME" for one that must not be there. */
	int (*environment)(struct resource *r, int (*set)(void *arg, const char *assignment), void *arg);
	/* may. What it holds just now, as one line, and what others wait for: 1, or 2 if its edits are lost, or 0 and nothing. Of a resource that is not
	 * open. */
	int (*detail)(const struct store_resource *row, struct strbuf *ret, struct strategy_locks *locks);
	/* may, if PART. Whether a commit may land files of the resource without its part, if files_alone() agrees.
	 * The resource is not open. */
	bool (*divides)(const struct store_resource *row);
	/* may. After a run: records what was touched for the first time, in a store transaction that it begins if there is something
	 * to record and none is begun. */
	int (*ran)(struct resource *r, struct atoll_error *err);
	/* must, if it isolates. What differs between workspace and original. exact: read contents where only times differ. */
	struct changes *(*changes)(struct resource *r, bool exact, struct atoll_error *err);
	/* may. The rows behind a change of the part, given by its path. 0, or what fn said if that is not 0, or a failure. */
	int (*rows)(struct resource *r, const char *label, atoll_row_fn fn, void *arg, struct atoll_error *err);
	/* must, if it isolates. The original at path as the sandbox knew it: 1 and *ret, or 0 if nothing is recorded. Its strings stay
	 * the resource's. */
	int (*base)(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err);
	/* may. The identity of the original that an added file was made from by renaming: 1 and *ret, or 0. */
	int (*origin)(struct resource *r, const struct change *c, struct tree_id *ret);
	/* may, with origin. Whether inodes and ctimes prove that a renamed file has the content of
	 * its original, which looks like `old` now; changes_compare_renames() then reads neither
	 * of them. */
	bool (*is_as_origin)(struct resource *r, const struct change *c, const struct change *old);
	/* may. Before a commit that was asked for it: what others have done to the original comes into the workspace, as far as it merges by itself. The
	 * rest is found by the commit. Changes the workspace alone. */
	int (*merge)(struct resource *r, const char *message, struct atoll_error *err);
	/* may. The steps of an op are in place (landed) or back (returned); the workspace's own records follow. Idempotent. */
	int (*landed)(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
	int (*returned)(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
	/* may, if LAYERED. The steps of an op are back, and with them the layer that was put aside; what was edited since is not yet merged into it.
	 * Idempotent. */
	int (*returning)(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err);
	/* may, if GUEST. Its file was moved along with its host's layer, and holds no edits: what it is known by has changed. Only for speed. */
	void (*moved)(struct resource *r);
	/* may. Removes what it has made outside its areas, of this sandbox and resource, whatever of it is there. The original is not open. */
	int (*forget)(struct resource *r, struct atoll_error *err);
	/* may. Frees r->priv. */
	void (*release)(struct resource *r);

	/* must, if divides() is there. Returns 1 if the changes for which lands() is true may land alone, as files,
	 * while the part stays in the sandbox, and 0 if this resource lands as a whole. Otherwise reports each
	 * change that may not land alone, and fails with ATOLL_REFUSED. q has no message, refs or sync. */
	int (*files_alone)(struct resource *r, const struct part_request *q,
			   bool (*lands)(const struct change *c, const void *arg), const void *arg,
			   struct atoll_error *err);

	/* must, if PART. Called when everything else was checked, and before anything is on record. Writes all that
	 * part_move() will ever need into dir_fd, an empty directory of its own: after a crash it is all there is,
	 * and afterwards the undo record. The files must be durable when it returns, or be added to q->sync; the
	 * engine adds dir_fd itself. May refuse. Changes nothing that others see, but for locks, which part_end()
	 * drops. 1: there is something to land; 0: there is not. */
	int (*part_prepare)(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err);
	/* may. Waits for what part_prepare() has left running while the engine made everything durable. May refuse. */
	int (*part_prepared)(struct resource *r, struct atoll_error *err);
	/* must, if PART. Where it stands: enum part_side, or a failure, from which nothing is concluded. Changes nothing. With PART_FOREIGN it may
	 * say in err->message what somebody else has done, to follow the name in a report. */
	int (*part_side)(struct resource *r, int dir_fd, struct atoll_error *err);
	/* must, if PART. From one side to the other, in one instant for everybody else; durable when it returns, but
	 * for the directories that part_touched() adds. Called with the other side standing, as far as part_side()
	 * could tell. ATOLL_CONFLICT, and nothing changed, if somebody was quicker. A crash in the middle leaves one
	 * of the two, as part_side() then tells. */
	int (*part_move)(struct resource *r, int dir_fd, bool forward, struct atoll_error *err);
	/* may. Before an undo looks whether it may take the part back: takes the locks that
	 * part_prepare() takes. part_end() drops them, also if this has failed. */
	int (*part_lock)(struct resource *r, int dir_fd, struct atoll_error *err);
	/* may. Before an undo: which of these files of the original hold what landed with the part, as the strategy compares content, though they were
	 * written, or replaced, since. same[i] is set for paths[i]. Changes nothing that others see. */
	int (*part_same)(struct resource *r, int dir_fd, const char *const *paths, size_t n, bool *same,
			 struct atoll_error *err);
	/* may. Adds the directories in which part_move() renames something: they are flushed after it, before the op
	 * is decided. -errno. */
	int (*part_touched)(struct resource *r, int dir_fd, struct tree_sync *sync);
	/* may. The op is over, this way or that: drops locks, and what an undo does not need. Idempotent. dir_fd is -EBADF if nothing is on
	 * record: whatever is found of this sandbox is dropped then. */
	int (*part_end)(struct resource *r, int dir_fd, struct atoll_error *err);
	/* may. Whether a commit or undo that is not on record left a lock in the original. A few
	 * system calls at most. */
	bool (*part_left)(struct resource *r);

	/* must, if DECIDES. Checks all that its commit would check, and may refuse. Nothing is durable. token: the name by which the outcome will be
	 * asked for; NULL in a dry run. */
	int (*decide_prepare)(struct resource *r, const char *token, struct atoll_error *err);
	/* must, if DECIDES. Commits, durably: 0. -ATOLL_IN_DOUBT: how it ended is not known. Anything else: it has not, and never will. */
	int (*decide_commit)(struct resource *r, const char *token, struct atoll_error *err);
	/* must, if DECIDES. After a crash: 1 it has committed; 0 it has not, and from now on never will; -ATOLL_IN_DOUBT: it cannot be told now. */
	int (*decide_outcome)(struct resource *r, const char *token, struct atoll_error *err);
	/* may. The op is over: what the token was known by is removed. Idempotent. */
	int (*decide_end)(struct resource *r, const char *token, bool committed, struct atoll_error *err);

	/* may. Whether it holds something open (a transaction and its locks), changed or not, that a rollback must end. Asks no server. */
	bool (*holds)(struct resource *r);
	/* may. A commit has found nothing changed in it: what it holds open meanwhile (a transaction and its locks) ends. Never fails the commit. */
	void (*unchanged)(struct resource *r);

	/* Several would have to decide: one of them does, and the others vote (two-phase commit). Each of them gets decide_end() too.
	 *
	 * must, if VOTES. Whether and how many of them could. Changes nothing. */
	int (*vote_room)(struct resource *r, struct strategy_room *ret, struct atoll_error *err);
	/* must, if VOTES. In place of decide_prepare(), of which the same is true: checks what vote() would check, too. */
	int (*vote_prepare)(struct resource *r, const char *token, struct atoll_error *err);
	/* must, if VOTES. When all else is in place and the op is on record. 0: whatever dies from here on, it can be committed as well as rolled
	 * back, and it waits for vote_end(). Anything else: vote_end() finds out how far it got; its edits may be lost. */
	int (*vote)(struct resource *r, const char *token, struct atoll_error *err);
	/* may. Ends what waits by a name of ours though its op is over: where a server was restored from a backup it may be there again. over() says how
	 * that op ended: 1 committed, 0 rolled back, -1: it is none of this sandbox's, or not over, and stays. The resource is not open. */
	int (*vote_sweep)(struct resource *r, int (*over)(void *arg, const char *token), void *arg,
			  struct atoll_error *err);
	/* may. By what name somebody would find it who must end it by hand, because Atoll was made to forget it. */
	void (*vote_name)(const struct resource *r, const char *token, struct strbuf *ret);
	/* must, if VOTES. How it was decided, now or after a crash, whether it has voted or not. Durable when it returns. Idempotent: what is
	 * not there has had its end. 0; 1: rolled back, and with the vote its edits are lost; -ATOLL_CONFLICT: somebody else has ended it, and
	 * otherwise; any other failure: it cannot be told now, and is to be told again. */
	int (*vote_end)(struct resource *r, const char *token, bool committed, struct atoll_error *err);
};

/* One resource, opened. */
struct resource {
	struct store_resource row;
	char uuid[37];       /* of its sandbox */
	const char *sandbox; /* the name of it; borrowed */
	const char *given;   /* while it is made: its path, as it was given */
	bool carry_dirty;    /* while it is made: see struct atoll_resource_spec */
	bool as_is;          /* while it is made: see struct atoll_resource_spec */
	int64_t limit_ms; /* while a view is made: how long it may hold what others wait for; 0: as long as it likes */
	int64_t idle_limit_ms; /* likewise, while no command does anything */
	const struct strategy_ops *ops;
	struct store *store;
	int root_fd;  /* the original: the directory, or a file resource's parent */
	int work_fd;  /* its work area, -EBADF for none */
	int stage_fd; /* its stage area; may be a second fd of the same directory */
	bool lost;    /* another registry owns one of its areas: nothing of it may be touched */
	char *root_path;
	const char **siblings; /* names of other file resources in the same directory */
	size_t n_siblings;
	bool follows_sibling; /* an earlier one lists the edits beside the files */
	const char *only;     /* file resource: the one name (points into row.path), else NULL */
	char **excluded;      /* paths below the root that belong to Atoll or to a nested resource, sorted */
	size_t n_excluded;
	struct resource *host; /* of a guest: the resource in whose workspace it lies; NULL: in one of its own */
	char **claimed;        /* paths below the root that lie in this workspace and belong to a guest */
	size_t n_claimed;
	struct store_stamp *stamps; /* later stamps of single paths */
	size_t n_stamps;
	void *priv;            /* the strategy's own */
	void *kept;            /* likewise: what changes() has found out, for part_prepare() */
	bool lands;            /* a commit is being made: changes() may begin work that only part_prepare() needs */
	enum tree_marks marks; /* of overlays that this process mounts: ask resource_marks() */
	int part_at; /* 0, or 1 + the side that all of its part is on, as this process has prepared or moved it */
};

/* Which attributes of its workspace are the overlay's own, and of its original are not seen inside: none where its workspace is a copy. */
enum tree_marks resource_marks(const struct resource *r);
/* Whether this process uses the same overlay marks as the process that made the workspace: only then can it read the upper layer. */
bool resource_knows_marks(const struct resource *r);
/* Whether the path belongs to Atoll, to a nested resource or to a guest. */
bool resource_excludes(const struct resource *r, const char *path);
bool resource_is_claimed(const struct resource *r, const char *path); /* by a guest */
/* Whether the path is such a one, or lies below it. */
bool resource_is_others(const struct resource *r, const char *path);
/* The first of such paths below a directory, or NULL: it can neither go nor be replaced as a whole. */
const char *resource_excluded_below(const struct resource *r, const char *path);
/* What changed in the original at path at or after this moment was changed by somebody else. */
int64_t resource_stamp(const struct resource *r, const char *path);
/* The same for a directory itself, whatever happened below it. */
int64_t resource_dir_stamp(const struct resource *r, const char *path);
/* When Atoll itself last put something at path, or back there; INT64_MIN if it did not. */
int64_t resource_own_stamp(const struct resource *r, const char *path, bool directory);
/* Stamps of inodes stand among those of paths, under a key that is no path (malloc'ed): the ctime that Atoll's own steps left on an inode
 * with several names. */
char *resource_inode_key(const struct tree_id *id);
bool resource_ctime_is_own(const struct resource *r, const struct tree_id *id, int64_t ctime);
/* What an entry looks like, for the journal; name "" is the fd itself. */
int resource_look(int dirfd, const char *name, const struct tree_stat *st, struct store_look *ret);

/* ---- registry.c ---- */

extern const struct strategy_ops *strategy_all[]; /* strongest first, NULL at the end */
/* Of those that serve the kind; NULL if there is none of that name. */
const struct strategy_ops *strategy_find(const char *name, enum atoll_kind kind);
bool strategy_is_known(const char *name); /* whatever it serves */
/* Adds one of the program's own, by its strength; before any sandbox is opened, from one thread. -EINVAL if it lacks what it must provide,
 * or promises what needs isolation without it; -EEXIST if its name or strength is taken; -ENOSPC. */
int strategy_register(const struct strategy_ops *ops);
void strategy_names(struct strbuf *out); /* "overlay, snapshot, copy_on_write, none" */

/* ---- wrappers the engine calls ---- */

struct changes *strategy_changes(struct resource *r, bool exact, struct atoll_error *err);

/* ---- guest.c: what a workspace holds for a guest ---- */

/* Makes the directories above a path in the workspace where they are missing, looking like the original's. -errno. */
int guest_make_parents(const struct resource *host, int workspace_fd, const char *path);
/* Whatever guests have in one layer of the workspace is moved to the same places in another. Durable. Idempotent. -errno. */
int guest_follow(const struct resource *host, int from_fd, int to_fd);
/* What does not land and lies in a slot while the host's layer is exchanged goes to its path in the fresh one. Durable. Idempotent: what is
 * not in the slot is there already. Where its directory is gone from the original it stays in the slot. -errno. */
int guest_bring(const struct resource *host, int slot_dir, const char *slot, int to_fd, const char *path);
/* Whether an upper directory was made by guest_make_parents(): it stands over one of the original then. */
bool guest_has_made(int dir_fd, enum tree_marks marks);

/* ---- changes.c ---- */

struct change {
	char *path;     /* relative to the root; "" is the root */
	char *old_path; /* set by changes_find_renames(): where an added file comes from */
	bool renamed;   /* deleted, because an added file comes from here */
	enum atoll_change_kind kind;
	unsigned what;
	bool below;     /* lands or leaves with a directory above it */
	bool implied;   /* a directory whose times moved because of what was changed in it */
	bool gone;      /* the workspace knew an original here that is no longer there */
	bool displaced; /* the workspace knew a directory here, in whose place somebody else has put something else */
	bool usurped; /* skipped: a FIFO, socket or device that another process made has the place of the original, or of a directory above */
	bool in_opaque; /* below a directory that hides the original's whole content */
	bool opaque;    /* is such a directory */
	bool part;      /* lands with the resource's part; the path is a label, and no step is planned for it */
	bool on_request; /* skipped, unless what else was named inside is asked for: then added, or modified if `what` is set */
	bool blocking;                       /* skipped; part_prepare() says whether a commit may leave it behind */
	bool maybe_linked;                   /* until changes_settle_links(): nothing but its hard links may differ */
	bool idle;                           /* after changes_find_idle(): landing it would change nothing */
	bool shared;                         /* its inode has a name that stays in the workspace: it lands as a copy */
	const struct atoll_content *content; /* lands in place of the file, which stays in the workspace */
	bool judged;                         /* part_prepare() judges whether another process changed the original */
	const char *note;
	size_t note_fact; /* skipped: length of the note without what a commit does with it; 0: it is not to be had apart */
	char *words;      /* what note points to, if it was made for this change */
	bool has_before, has_after;
	struct tree_stat before, after;
	struct tree_id before_id; /* of size 0 until change_look() has asked for it */
	struct tree_id after_id;  /* likewise, of the workspace's entry */
};

#define CHANGE_NOTE_SPECIAL "the original is a FIFO, socket or device"

struct changes {
	struct change *v;
	size_t n, capacity;
};

struct changes *changes_new(void);
struct changes *changes_free(struct changes *c);
static inline void cleanup_changes(struct changes **c)
{
	*c = changes_free(*c);
}
struct change *changes_add(struct changes *c, const char *path, enum atoll_change_kind kind); /* NULL: out of memory */
/* One that lands with the resource's part, with a note. Likewise. */
struct change *changes_add_part(struct changes *c, const char *label, enum atoll_change_kind kind, const char *note);
/* Parents before children, siblings by bytes; implied directory times marked. */
void changes_sort(struct changes *c);
const struct change *changes_find(const struct changes *c, const char *path); /* after sorting; NULL if there is none */
int path_compare(const char *a, const char *b);                               /* that order */
bool path_is_below(const char *path, const char *top); /* equal, or below it; top "" covers all */
const char *path_base_name(const char *path);          /* the last name, within path */
size_t path_parent_size(const char *path);             /* of the part before the last slash; 0: there is none */

/* links.c: after all entries were classified. Both return 0 or -ENOMEM. */
/* Marks the files that differ by nothing but their hard links, and of which the names that land are
 * one file in the original too. lands tells which names do; NULL: all. Skipped ones never do. */
int changes_find_idle(struct changes *c, bool (*lands)(const struct change *c, const void *arg), const void *arg);
/* Drops such files. To be repeated if names have become skipped since. */
int changes_settle_links(struct changes *c);

/* renames.c: pairs additions with the deletions they come from. */
int changes_find_renames(struct resource *r, struct changes *c, struct atoll_error *err);
/* Call it after changes_find_renames(). Records how each renamed file differs from its original
 * besides the path. Reads both, unless the strategy can prove that their content is the same. */
int changes_compare_renames(struct resource *r, struct changes *c, int workspace_fd, struct atoll_error *err);

/* A directory of the original, found again and again by neighbouring paths. */
struct peer {
	int root_fd;
	char *path;
	int fd; /* -ENOENT and the like where there is none */
};
int peer_dir(struct peer *p, const char *path, size_t size); /* fd (borrowed), or -errno */
void peer_release(struct peer *p);
/* What the original of a change looked like when it was compared, with its identity. */
int change_look(struct change *c, struct peer *original, struct store_look *ret);

/* What differs between two entries of the same type. owner: whom `b` is taken to belong to. */
struct pair {
	int dir_a; /* workspace */
	const char *name_a;
	const struct tree_stat *a;
	int dir_b; /* original */
	const char *name_b;
	const struct tree_stat *b;
	uid_t uid;
	gid_t gid;
	enum tree_marks marks;
};
int pair_differs(const struct pair *pair, bool exact, unsigned *ret_what);

/* Adds everything below the original's directory as deleted, and below. Of a mount point it adds nothing but the mount
 * point itself: the sandbox removed what is hidden below it, not the mounted filesystem. */
int changes_add_deleted_below(struct changes *c, struct resource *r, int dirfd, const char *name, const char *path);

/* Classifies a workspace entry against the original and adds what it finds. covered: its directory is new as a whole. */
struct classify {
	struct resource *r;
	struct changes *changes;
	struct peer peer;
	bool exact;
};
int classify_entry(struct classify *c, const struct tree_entry *e, bool covered, const struct tree_stat *owner,
		   struct change **ret);

/* ---- later.c ---- */

/* Files that a walk has met, to be classified when it is over, by several threads if there are very many. Each keeps its place in the list of
 * changes; meanwhile there is something without meaning. */
struct later_file {
	size_t at;
	bool covered, in_opaque;
};
struct later {
	struct classify *classify;
	struct later_file *v;
	size_t n, capacity;
};
int later_add(struct later *l, const char *path, bool covered, bool in_opaque);
/* judge has the last word on each that is a change, in any thread. 0 or -errno, and *ret_path as by tree_walk(). */
int later_classify(struct later *l, int workspace_fd, void (*judge)(struct change *c, void *arg), void *arg,
		   char **ret_path);
void later_release(struct later *l);

#endif
