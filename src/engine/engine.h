/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the engine share. The public face is <atoll/atoll.h>; the commit protocol is described at the head of
 * protocol.h.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <atoll/atoll.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/size-limit.h"
#include "base/strbuf.h"
#include "store/store.h"
#include "strategy/strategy.h"

/* Nothing is there by that path; any other failure is one. */
static inline bool is_absent(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* Whether the resource is one name in its directory, which is then the root of everything. */
static inline bool kind_is_file(enum atoll_kind kind)
{
	return kind == ATOLL_KIND_FILE || kind == ATOLL_KIND_SQLITE;
}

/* Whether it is no file at all, but a thing of some server: its own area stands in place of an original then. */
static inline bool kind_is_remote(enum atoll_kind kind)
{
	return kind == ATOLL_KIND_POSTGRES;
}

struct atoll {
	char *state_dir; /* absolute, resolved */
	int state_fd;
};

/* ---- lock.c ---- */

enum lock_mode {
	LOCK_LOOK,   /* shared: looking and running; nobody may change */
	LOCK_CHANGE, /* alone */
};
/* A lock of a sandbox, over threads and processes, released by death. *ret_fd owns it. ATOLL_BUSY after wait_ms (-1: never). */
int lock_take(struct atoll *a, const char *uuid, enum lock_mode mode, int wait_ms, const char *name, int *ret_fd,
	      struct atoll_error *err);
int lock_release(int fd);                         /* returns the empty fd */
int lock_open(struct atoll *a, const char *uuid); /* the file, without a lock; -ENOENT if there is none */
/* The end of a run is noted as the time of the lock file; so is its beginning. */
void lock_note_end(int lock_fd);
int64_t lock_last_run(struct atoll *a, const char *uuid); /* INT64_MIN if there was none */
bool lock_is_running(struct atoll *a, const char *uuid);
void lock_remove(struct atoll *a, const char *uuid);

/* ---- owner.c: a state directory that is a copy of another one ---- */

int owner_check(struct atoll *a, struct store *store, struct atoll_error *err); /* ATOLL_REFUSED */
/* Notes whose it is, unless that is on record. Within a transaction. */
int owner_record(struct atoll *a, struct store *store, struct atoll_error *err);
/* Makes this copy of a state directory the owner of all areas that lie outside of it, in place of
 * the state directory that it was copied from. ATOLL_REFUSED if the copy is incomplete, unless the
 * caller accepts that. */
int owner_adopt(struct atoll *a, bool accept_incomplete, struct atoll_error *err);
/* The id of the registry; one that an older version made without an owner gets it now. Begins and ends a transaction of its own then. */
int owner_registry(struct atoll *a, struct store *store, char ret[REGISTRY_ID_SIZE], struct atoll_error *err);
/* Whether there is a state directory at a path. */
bool owner_is_there(const char *path);
/* Whether the registry with that id is in use there, and that is not the state directory of *a. */
bool owner_is_elsewhere(struct atoll *a, const char *path, const char *registry);

/* ---- whole.c: a copy that was made without attributes, times or hard links ---- */

/* Puts a mark into the state directory, atomically. A copy that was made without attributes, times
 * or hard links damages it. Does nothing where the filesystem has no extended attributes. 0 or
 * -errno. */
int whole_mark(int state_fd);
bool whole_is_marked(int state_fd);
/* Whether the mark is undamaged; true if there is no mark. */
bool whole_is(int state_fd);

/* ---- session.c: one sandbox, opened for one operation ---- */

struct session {
	struct atoll *a;
	struct store *store;
	struct store_sandbox box;
	struct resource *resources;
	size_t n;
	int lock_fd;
	struct exclusion *exclusion;     /* locks on the originals' trees, while an op changes them; NULL: none */
	char registry[REGISTRY_ID_SIZE]; /* the id of the registry; "" until it is needed */
	struct claims *claims;           /* locks on areas outside of the state directory (claim.h); NULL: none */
	char *lost_to; /* the state directory whose registry owns areas of this sandbox; NULL: this one does */
};

/* Finds the sandbox (NULL: the only one), takes its lock, reads it under the lock, settles what a crash left (unless looking only
 * and nothing is pending), opens its resources. */
int session_open(struct atoll *a, const char *name, enum lock_mode mode, int wait_ms, struct session *ret,
		 struct atoll_error *err);
/* The same without recovery and without opening originals; for recover and rm. A sandbox that was lost to a copy of the state directory is
 * refused, unless it is on its way out, or `lost` is set. */
int session_open_raw(struct atoll *a, const char *name, int wait_ms, bool lost, struct session *ret,
		     struct atoll_error *err);
/* What is on record just now: no lock, no originals. */
int session_peek(struct atoll *a, const char *name, struct session *ret, struct atoll_error *err);
/* The same with a store that is open and stays the caller's: it must be taken out before session_release(). Takes over the strings of *box. */
int session_peek_in(struct atoll *a, struct store *store, struct store_sandbox *box, struct session *ret,
		    struct atoll_error *err);
void session_release(struct session *s);
/* The lock is kept, the database closed: for whatever may take long, or calls back. */
void session_pause(struct session *s);
int session_resume(struct session *s, struct atoll_error *err);
struct resource *session_resource(struct session *s, int64_t id);
/* The changes of each resource, found with capabilities. Not from inside an operation, which has them already. */
int session_changes(struct session *s, bool exact, struct changes ***ret, struct atoll_error *err);
void session_changes_free(struct changes **list, size_t n);
/* Order of landing: what can be undone before what cannot; children before parents, else as created. Indexes into resources. */
int session_order(const struct session *s, size_t **ret, struct atoll_error *err);

/* ---- resource.c ---- */

/* Opens original and areas; an original that is gone or was replaced is ATOLL_CONFLICT. */
int resource_open(struct session *s, struct resource *r, struct atoll_error *err);
/* The same; areas that are gone are made again, empty. */
int resource_open_mended(struct session *s, struct resource *r, struct atoll_error *err);
/* Whether the original is still in its place, and the one that the sandbox began with; else as above. */
int resource_check_root(const struct resource *r, struct atoll_error *err);
/* Areas only; whatever is not there stays -EBADF. */
int resource_open_areas(struct session *s, struct resource *r, struct atoll_error *err);
void resource_release(struct resource *r);
/* The workspace tree's root, O_RDONLY. */
int resource_workspace(const struct resource *r);
const char *resource_workspace_name(const struct resource *r); /* in the work area; of a guest, its host's */
bool resource_isolates(const struct resource *r);
/* Whether a commit can be taken back; what its strategy does not declare is irreversible. */
bool resource_can_undo(const struct resource *r);
/* Finds who is whose guest, and fills the paths below each root that belong to Atoll, to a nested resource or to a guest. */
int resource_set_excluded(struct session *s, struct atoll_error *err);

/* ---- area.c: where workspaces and staging lie ---- */

/* What a workspace asks of the place where it lies. */
struct area_needs {
	bool overlay;
	bool (*fits)(int root_fd, int area_fd); /* NULL: nothing more */
};
int area_choose(struct atoll *a, const char *uuid, int seq, int root_fd, const char *root_path,
		const struct area_needs *needs, char **ret_work, char **ret_stage, bool *ret_copies,
		struct atoll_error *err);
/* Gives the original's root the times that it had before an area was made in it, or went. */
void area_keep_times(int root_fd, const struct tree_stat *before);
/* Makes an area, and what holds it, unless it is there: ours, 0700, no link. */
int area_make(const char *path);
/* Removes a resource's areas and, if empty then, what held them. */
int area_remove(const char *path);
/* Whether a path lies in a place of Atoll's. */
bool area_owns_path(struct atoll *a, const char *path);

/* ---- area-path.c: the directories that lead to an area ---- */

/* Whether other users can exchange entries below a directory. Returns 1 and the first directory of
 * the path that another user owns or may write to, 0 if there is none (also if the path ends
 * before), or -errno. */
int area_find_unsafe(const char *dir, char **ret);
/* Fails with ATOLL_REFUSED if an area of the session lies below such a directory. Ignores areas in
 * the state directory. */
int area_check_ways(const struct session *s, struct atoll_error *err);
/* The same check for a sandbox that is not open yet. In a user namespace without help from outside
 * (jail_call_is_helped()) area_check_ways() accepts all unmapped owners. */
int area_check_sandbox(struct atoll *a, const char *name, struct atoll_error *err);
/* Opens an area, or one level of its path, as O_RDONLY|O_DIRECTORY fd without following links.
 * -EPERM: it belongs to another user, or another user may write to it. */
int area_open(const char *area);
int area_open_level(int dir, const char *name);

/* ---- state.c ---- */

bool state_may_move(enum atoll_state from, enum atoll_state to);
/* Moves, or answers ATOLL_STATE and changes nothing. */
int state_move(struct store_resource *r, enum atoll_state to, const char *operation, struct atoll_error *err);

/* ---- result.c ---- */

struct atoll_result *result_new(const char *operation, const char *sandbox);
struct atoll_item *result_add(struct atoll_result *r, enum atoll_item_kind kind, int resource, const char *path,
			      const char *note);
struct atoll_resource_result *result_resource(struct atoll_result *r, const struct store_resource *row,
					      enum atoll_outcome outcome);
struct atoll_resource_result *result_find(struct atoll_result *r, int seq);
void result_count(struct atoll_resource_result *r, enum atoll_change_kind kind);
/* Sets the end, success and error from code, and returns it. */
int result_finish(struct atoll_result *r, int code, struct atoll_error *err);
void result_sort(struct atoll_result *r);
/* Over a file, from a child process to its parent. */
int result_write(const struct atoll_result *r, int fd);
struct atoll_result *result_read(int fd);

/* ---- info.c ---- */

int info_describe(struct atoll *a, struct store *store, const struct store_sandbox *box, struct atoll_info **ret,
		  struct atoll_error *err);

/* ---- selection.c ---- */

struct selection {
	char **paths;       /* relative to one resource; NULL with all set: everything */
	const char **given; /* parallel to paths: as the caller spelt them, borrowed */
	size_t n, n_given;
	const char **sorted; /* the paths in the order of path_compare(); NULL until all are known */
	char **patterns;     /* relative to one resource, as base/glob.h matches them */
	size_t n_patterns;
	bool all;
};
int selection_for(const struct atoll_selection *wanted, struct session *s, struct selection **ret,
		  struct atoll_error *err);
/* Fails with ATOLL_NOT_FOUND if a path names nothing in the original, in the workspace or among the
 * changes: it is misspelt. The error's object is the path as the caller spelt it, and the message
 * offers the nearest changed path. Needs the changes of each resource. */
int selection_check(const struct selection *selections, struct session *s, struct changes *const *changes,
		    struct atoll_error *err);
void selection_free(struct selection *v, size_t n);
bool selection_has(const struct selection *v, const char *path);
/* Selects all changes at or below an absolute path. Returns how many resources contain the path, or
 * -ENOMEM; so does selection_add_pattern(). */
int selection_add_full(struct session *s, struct selection *v, const char *path);
/* In selection-pattern.c. The first adds a pattern to a selection; the second fails if a pattern
 * matches no change of any resource. */
int selection_add_pattern(struct session *s, struct selection *v, const char *pattern);
int selection_check_patterns(const struct selection *selections, struct session *s, struct changes *const *changes,
			     const char *operation, struct atoll_error *err);
/* Whether a pattern matches a change at or below top. */
bool selection_has_pattern_below(const struct selection *v, const struct changes *changes, const char *top);
/* The selected path or pattern that covers path; NULL if none. */
const char *selection_cover(const struct selection *v, const char *path);
/* Whether a selected path or pattern lies at or below top. */
bool selection_has_below(const struct selection *v, const struct changes *changes, const char *top);

/* ---- run of one's own work with capabilities: call.c ---- */

struct operation {
	struct atoll *a;
	const char *name;
	const void *options;
	struct atoll_result *result;
	int (*fn)(struct operation *op, struct atoll_error *err);
	struct atoll_error error;
};
int operation_run(struct operation *op, struct atoll_result **ret, struct atoll_error *err);

bool name_is_valid(const char *name);

#endif
