/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: registry of sandboxes and journal of their commits, in one SQLite database (WAL) of the state directory.
 *
 * A struct store is one connection, used by one thread of one process; every operation opens its own. All writes happen between
 * store_begin() and store_commit(). A durable transaction is on disk when store_commit() returns; a lazy one is atomic and
 * ordered before all later ones, but may be lost to a power cut.
 *
 * Journal: an op is a commit or an undo. Its steps are written once, in the transaction that makes it *prepared*, and are the
 * list that is executed. Nothing is recorded while steps are applied: each is recognisable on disk by inode identity.
 *
 *	(none) --prepared--> PREPARED --decided--> DECIDED --finished--> DONE
 *	                        \--taken back--> FAILED
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <atoll/atoll.h>

#include "tree/tree.h"

struct store;

int store_open(const char *state_dir, struct store **ret, struct atoll_error *err);
struct store *store_close(struct store *s);
static inline void cleanup_store(struct store **s)
{
	*s = store_close(*s);
}

int store_begin(struct store *s, bool durable, struct atoll_error *err);
/* A lazy one, unless one is begun already: for whoever may have nothing to write. */
int store_begin_late(struct store *s, struct atoll_error *err);
int store_commit(struct store *s, struct atoll_error *err);
bool store_is_begun(const struct store *s);
void store_abort(struct store *s); /* fine without a transaction */
/* A store_commit() failed, and whether it took effect cannot be said: what it would have recorded must stay possible. */
bool store_is_in_doubt(const struct store *s);

/* ---- sandboxes and resources (registry.c) ---- */

/* The state directory in which this registry was begun. */
struct store_owner {
	struct tree_id id;
	int64_t born; /* 0: the filesystem does not tell */
	char *path;
};
int store_owner_get(struct store *s, struct store_owner *ret, struct atoll_error *err); /* 1, or 0 if there is none */
int store_owner_put(struct store *s, const struct store_owner *owner, const char *registry, struct atoll_error *err);
/* The id of this registry, which tells it from every other, copies that were taken over included. */
#define REGISTRY_ID_SIZE 37
int store_registry_get(struct store *s, char ret[REGISTRY_ID_SIZE], struct atoll_error *err); /* 1, or 0 and "" */

struct store_sandbox {
	int64_t id;
	char uuid[37];
	char *name;
	int64_t created_ns, active_ns;
	bool durable_workspace;
	char *settings; /* of its runs, as one text; NULL: none */
	bool removing;  /* rm has begun: recovery goes on with it */
	bool prunable;  /* made for one run: kept for its undo record after everything has landed */
	/* The size of its areas after measured_op, which was the latest op then; measured_op 0:
	 * not measured yet. */
	int64_t measured_op, measured;
};
void store_sandbox_release(struct store_sandbox *box);

int store_sandbox_add(struct store *s, struct store_sandbox *box, struct atoll_error *err); /* sets id; ATOLL_EXISTS */
int store_sandbox_find(struct store *s, const char *name, struct store_sandbox *ret, struct atoll_error *err);
int store_sandbox_list(struct store *s, struct store_sandbox **ret, size_t *ret_n, struct atoll_error *err);
/* Those with an op that is on record as prepared: it is being applied, or was cut off. */
int store_sandbox_list_prepared(struct store *s, struct store_sandbox **ret, size_t *ret_n, struct atoll_error *err);
int store_sandbox_is_known(struct store *s, const char *uuid, struct atoll_error *err); /* 1 or 0 */
int store_sandbox_touch(struct store *s, int64_t id, int64_t active_ns, struct atoll_error *err);
int store_sandbox_set_measured(struct store *s, int64_t id, int64_t op, int64_t bytes, struct atoll_error *err);
int store_sandbox_set_removing(struct store *s, int64_t id, struct atoll_error *err);
int store_sandbox_delete(struct store *s, int64_t id, struct atoll_error *err); /* with everything that hangs on it */

struct store_resource {
	int64_t id, sandbox;
	int seq;
	enum atoll_kind kind;
	enum atoll_state state;
	char *path; /* absolute, resolved; of a file resource: the file */
	char *strategy, *mode, *reason;
	char *work;             /* area of the workspace, absolute; "" for none */
	char *stage;            /* area of staging and undo data, absolute; may equal work */
	bool copies;            /* workspace and original cannot be exchanged: changes are staged as copies */
	struct tree_id root_id; /* of the directory (of a file resource: its parent) */
	int64_t stamp;          /* see tree_stamp(): what changed in the original at or after it is foreign */
	int64_t clock_offset;   /* REALTIME minus BOOTTIME when the stamp was taken */
	char boot_id[40];       /* boot in which the workspace was last known to be durable */
	int64_t synced_at;      /* stamp on the workspace's filesystem: what changed since is not known to be durable */
	bool dirty;             /* a reset of the workspace was begun and not finished */
};
void store_resource_release(struct store_resource *r);

int store_resource_add(struct store *s, struct store_resource *r, struct atoll_error *err); /* sets id */
int store_resource_list(struct store *s, int64_t sandbox, struct store_resource **ret, size_t *ret_n,
			struct atoll_error *err);
/* Lists the areas of all sandboxes that lie outside of the state directory, once each, in a
 * malloc'ed array. */
int store_area_list(struct store *s, char ***ret, size_t *ret_n, struct atoll_error *err);
int store_resource_update(struct store *s, const struct store_resource *r, struct atoll_error *err);

/* ---- the journal (journal.c) ---- */

enum store_op_kind { STORE_OP_COMMIT, STORE_OP_UNDO };
enum store_op_phase { STORE_PREPARED, STORE_DECIDED, STORE_DONE, STORE_FAILED };

struct store_op {
	int64_t id, sandbox;
	int64_t number; /* of the commit within the sandbox; an undo carries its commit's */
	enum store_op_kind kind;
	enum store_op_phase phase;
	int64_t commit_op; /* undo: the op it takes back; else 0 */
	bool taken_back;   /* commit: an undo of it was decided */
	bool rollback;     /* undo: the edits are dropped afterwards */
	char *dir;         /* name of its directory in each area */
	char *message;     /* NULL: none */
	int64_t started_ns, ended_ns;
	uint64_t added, modified, deleted, meta;
};
void store_op_release(struct store_op *op);

struct store_counts {
	uint64_t added, modified, deleted, meta;
};

/* How an op treats one resource. */
enum store_source {
	STORE_SOURCE_MOVE, /* workspace inodes are exchanged in place; at the end the workspace layer is switched as a whole */
	STORE_SOURCE_RETIRE,  /* the same, but each entry leaves the workspace on its own (partial commit) */
	STORE_SOURCE_COPY,    /* staged copies are exchanged */
	STORE_SOURCE_DECIDES, /* no files: its own commit is the op's decision */
	STORE_SOURCE_VOTES    /* no files: made ready before the decision, and ended as that says */
};
struct store_op_resource {
	int64_t op, resource;
	enum store_source source;
	bool switches;              /* the workspace layer is switched as a whole */
	struct tree_id fresh;       /* identity of the empty layer that takes its place */
	int64_t prepared_at;        /* stamp on the original's filesystem when the plan was complete */
	int64_t landed_at;          /* stamp taken when all changes were in place; written with the decision */
	bool stays_active;          /* the commit leaves further edits in the workspace */
	bool counted;               /* false: an older version wrote the op, without counts */
	struct store_counts counts; /* the changes of this resource */
	int64_t undo_began;         /* not stored: stamp before the first step of an undo; 0: not taken */
};

enum store_step_kind {
	STORE_STEP_RETIRE,   /* workspace/path -> op dir/slot */
	STORE_STEP_EXCHANGE, /* source <-> original/path */
	STORE_STEP_INSTALL,  /* source -> original/path, which is absent */
	STORE_STEP_TAKE,     /* original/path -> op dir/slot */
	STORE_STEP_META,     /* mode, owner, xattrs of the directory original/path */
	STORE_STEP_TIME,     /* times of the directory original/path, after everything else */
	STORE_STEP_PART,     /* what the strategy lands by its own doing; op dir/slot is its directory */
	STORE_STEP_KIND_COUNT
};

/* What an inode looked like when the plan was made. */
struct store_look {
	struct tree_id id;
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t mtime, atime;
	int16_t mtime_era, atime_era;
};
static inline void store_look_set_times(struct store_look *look, const struct tree_stat *st)
{
	look->mtime = st->mtime;
	look->mtime_era = st->mtime_era;
	look->atime = st->atime;
	look->atime_era = st->atime_era;
}
static inline void store_look_copy_times(struct store_look *look, const struct store_look *from)
{
	look->mtime = from->mtime;
	look->mtime_era = from->mtime_era;
	look->atime = from->atime;
	look->atime_era = from->atime_era;
}
static inline struct store_look store_look_of(const struct tree_stat *st, const struct tree_id *id)
{
	struct store_look look = { .id = *id, .mode = st->mode, .uid = st->uid, .gid = st->gid, .size = st->size };

	store_look_set_times(&look, st);
	return look;
}

struct store_step {
	int64_t seq;
	int64_t resource;
	enum store_step_kind kind;
	char *path;
	char *slot;                         /* name in the op's directory; NULL: the source is workspace/path */
	struct store_look before, after;    /* of the original's entry */
	char *xattrs_before, *xattrs_after; /* META: encoded; NULL otherwise */
	size_t xattrs_before_size, xattrs_after_size;
	enum atoll_change_kind change; /* what it is called in results */
	bool overrides;                /* landed against a conflict, as the caller asked for */
	bool dropped;                  /* not stored: settled otherwise, left out from now on */
	bool reached;                  /* not stored: PART: this process has moved it, perhaps not wholly */
	bool stuck;            /* not stored: cannot be moved just now, or must not before another one that cannot */
	bool single;           /* not stored: the workspace's entry is known to have no other name */
	bool moved;            /* not stored: this process has renamed entries for it, perhaps there and back */
	bool contested;        /* not stored: another process changed the entry just before it was moved */
	struct tree_stat seen; /* not stored: the original's entry when this op looked at it; mode 0: it did not */
};
void store_step_release(struct store_step *step);
void store_steps_free(struct store_step *steps, size_t n);

int store_op_add(struct store *s, struct store_op *op, struct atoll_error *err); /* sets id, and number for a commit */
int store_op_set_phase(struct store *s, int64_t op, enum store_op_phase phase, int64_t ended_ns,
		       struct atoll_error *err);
int store_op_set_taken_back(struct store *s, int64_t op, struct atoll_error *err);
/* The newest that is prepared or decided and not done: 1 and *ret, or 0. */
int store_op_unfinished(struct store *s, int64_t sandbox, struct store_op *ret, struct atoll_error *err);
int store_op_list(struct store *s, int64_t sandbox, struct store_op **ret, size_t *ret_n,
		  struct atoll_error *err); /* newest first; sandbox 0: all */
void store_ops_free(struct store_op *ops, size_t n);
int store_op_resource_put(struct store *s, const struct store_op_resource *r, struct atoll_error *err);
int store_op_resource_delete(struct store *s, int64_t op, int64_t resource, struct atoll_error *err);
int store_op_resource_list(struct store *s, int64_t op, struct store_op_resource **ret, size_t *ret_n,
			   struct atoll_error *err);
/* Of an op that has none; without those that are dropped. */
int store_steps_put(struct store *s, int64_t op, const struct store_step *steps, size_t n, struct atoll_error *err);
int store_steps_list(struct store *s, int64_t op, struct store_step **ret, size_t *ret_n,
		     struct atoll_error *err);                                /* as they were put in */
int store_steps_forget(struct store *s, int64_t op, struct atoll_error *err); /* all of an op */

/* ---- what conflicts are judged by (base.c) ---- */

/* An original as it was when a run first touched it. What of it is known to be older than any foreign change: */
enum {
	STORE_TRUST_META = 1 << 0,     /* mode, owner, attributes */
	STORE_TRUST_IDENTITY = 1 << 1, /* which inode it is */
};
struct store_touch {
	char *path;
	struct store_look look;
	char *xattrs; /* encoded, directories only */
	size_t xattrs_size;
	unsigned trusted;
};
void store_touch_release(struct store_touch *t);
void store_touches_free(struct store_touch *t, size_t n);
int store_touch_add(struct store *s, int64_t resource, const struct store_touch *list, size_t n,
		    struct atoll_error *err); /* of a path that is there already the first one stays */
int store_touch_put(struct store *s, int64_t resource, const struct store_touch *list, size_t n,
		    struct atoll_error *err); /* in place of all there are */
int store_touch_list(struct store *s, int64_t resource, struct store_touch **ret, size_t *ret_n,
		     struct atoll_error *err); /* sorted by path */

/* A later stamp for one path and everything below it: what Atoll itself put there. "dir/." is the directory alone; "/…" is the ctime of one
 * inode (resource_inode_key()). */
struct store_stamp {
	char *path;
	int64_t stamp;
};
int store_stamp_add(struct store *s, int64_t resource, const struct store_stamp *list, size_t n,
		    struct atoll_error *err); /* of a path that is there already the last one counts */
int store_stamp_list(struct store *s, int64_t resource, struct store_stamp **ret, size_t *ret_n,
		     struct atoll_error *err); /* sorted by path */
void store_stamps_free(struct store_stamp *v, size_t n);
int store_stamp_clear(struct store *s, int64_t resource, struct atoll_error *err);

#endif
