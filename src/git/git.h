/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git repositories, seen from outside a sandbox.
 *
 * What has to be computed is computed by the real git, run without a shell and with a time limit, always on the original's git directory and
 * with its configuration: what a command inside did to configuration, hooks, attributes or refs of its own is read here as data and obeyed by
 * nobody. New objects are looked at in a store of their own (a quarantine) and enter the original as one pack whose every hash git has
 * computed anew. What moves, a ref, the index, is moved here, under git's own lock files.
 *
 * All functions return 0 or a positive answer, or a negative enum atoll_code; those of refs.c and lock.c, which run nothing, -errno.
 */
#ifndef GIT_GIT_H
#define GIT_GIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/child.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "tree/tree.h"

#define GIT_HEX_MAX 64 /* digits of a SHA-256 */

/* An object's name, as digits; "" is none. */
struct git_id {
	char hex[GIT_HEX_MAX + 1];
};
bool git_id_equal(const struct git_id *a, const struct git_id *b);
/* Takes over the digits text begins with: 40 or 64, followed by anything else. 1, or 0 if it does not begin so. */
int git_id_parse(const char *text, struct git_id *ret);

/* A repository with its checkout. */
struct git_repo {
	char *top; /* the checkout, absolute */
	char *dir; /* the git directory, absolute: top/.git */
	int dir_fd;
};
void git_repo_release(struct git_repo *r);
#define AUTO_GIT_REPO CLEANUP(git_repo_release) struct git_repo

/* ---- run.c ---- */

/* How git is run. */
struct git_call {
	const struct git_repo *repo;
	const char *operation;  /* for the error */
	const char *work_tree;  /* NULL: the repository's */
	const char *index;      /* NULL: the repository's */
	const char *quarantine; /* NULL, or the directory objects are written to; the repository's are read too */
	const char *input;      /* what it reads */
	size_t input_size;
	struct strbuf *output;   /* NULL: not wanted */
	int input_fd, output_fd; /* files instead of those two; 0: none */
	int also;                /* a further exit status that is an answer */
};
/* Returns its exit status: 0, or the other one that was allowed. Everything else is a failure, with the end of what git said. */
int git_call(const struct git_call *c, struct atoll_error *err, const char *const argv[]);
/* The same in two parts, with something else to do between. What the call points to, its output above all, stays until then. */
struct git_running {
	struct git_call call;
	const char *verb, *where;
	struct child child;
	int output;
	bool started;
};
int git_call_start(const struct git_call *c, struct git_running *ret, struct atoll_error *err,
		   const char *const argv[]);
int git_call_finish(struct git_running *g, struct atoll_error *err);
/* Ends one that nobody waits for any more. */
void git_running_release(struct git_running *g);
/* The environment git is run with, without what belongs to one call: built once, for all threads. */
char *const *git_environment(void);
/* Whether the caller's variable stays in it. */
bool git_environment_keeps(const char *variable);

/* ---- repo.c ---- */

/* What cannot be a resource is refused with one line: no repository, bare, owned by somebody else, a linked worktree, reftable, … */
int git_repo_open(const char *path, struct git_repo *ret, struct atoll_error *err);
/* The same without asking git: of one that was opened before. */
int git_repo_reopen(const char *path, const char *operation, struct git_repo *ret, struct atoll_error *err);
/* The operation that git has begun in a git directory and not finished: "a merge", "a rebase", …; NULL: none. */
const char *git_repo_operation(int dir_fd);
/* What is going on in the checkout that a commit would disturb: refused, with its name. */
int git_repo_check_calm(const struct git_repo *r, const char *operation, struct atoll_error *err);
/* A split index, of which one file is a part only: refused, also if the configuration alone asks for it. */
int git_repo_check_index(const struct git_repo *r, const char *operation, struct atoll_error *err);
/* The branch that is checked out ("refs/heads/main") and its commit. Refused: detached, symbolic, checked
 * out in another worktree too; and a branch without a commit unless may_be_unborn: then *ret is "". */
int git_repo_branch(const struct git_repo *r, const char *operation, bool may_be_unborn, char **ret_branch,
		    struct git_id *ret, struct atoll_error *err);

/* Whether a linked worktree has the branch checked out: its files would no longer be those of its commit. 1 and its name, 0 or -errno. */
int git_repo_worktree_on(const struct git_repo *r, const char *branch, char **ret);

/* ---- root.c: a commit that stands for a repository without commits ---- */

/* Writes that commit into the repository, where no ref names it. */
int git_root_make(const struct git_repo *repo, const char *operation, struct git_id *ret, struct atoll_error *err);
/* Writes it again if git gc has removed it. */
int git_root_renew(const struct git_repo *repo, const struct git_id *root, const char *operation,
		   struct atoll_error *err);

/* ---- refs.c: refs as data ---- */

/* A git directory; with an upper one, as an overlay shows the two. */
struct git_refs {
	int upper_fd; /* -EBADF: there is one alone */
	int lower_fd;
	enum tree_marks marks; /* of the upper one */
};
/* Which of the two shows the path: its fd, or -ENOENT if neither does. */
int git_refs_layer(const struct git_refs *g, const char *path);
/* A small file of it. -ENOENT, -EINVAL for what is no regular file. */
int git_refs_file(const struct git_refs *g, const char *path, size_t max, char **ret, size_t *ret_size);
/* HEAD: the ref it names, or (*ret_ref NULL) the commit in *ret. */
int git_refs_head(const struct git_refs *g, char **ret_ref, struct git_id *ret);
/* A ref's value, loose or packed; symbolic ones are followed. -ENOENT, -EINVAL if it is no value or no name. */
int git_refs_read(const struct git_refs *g, const char *name, struct git_id *ret);
/* Whether it stands for another one: writing it would make it a plain one. 1, 0 or -errno. */
int git_refs_is_symbolic(const struct git_refs *g, const char *name);
/* Whether a new ref of that name would be in nobody's way: neither it, nor one above or below it. 1, 0 or -errno. */
int git_refs_is_free(const struct git_refs *g, const char *name);
bool git_refs_is_name(const char *name);
/* Each ref of the upper one that the lower one does not have, or has with another value, by name. */
int git_refs_differing(const struct git_refs *g, int (*each)(const char *name, const struct git_id *id, void *arg),
		       void *arg);
/* Each ref of the lower one that the two together do not have: loose ones by what hides them, then packed ones. */
int git_refs_removed(const struct git_refs *g, int (*each)(const char *name, const struct git_id *id, void *arg),
		     void *arg);
/* Sets a loose ref, durably, through a file in the git directory that is renamed to its place. tmp: its name there. */
int git_refs_write(int dir_fd, const char *name, const struct git_id *id, const char *tmp);
/* The same in two parts. The caller flushes the file before it is put in its place, and the directory of the ref
 * afterwards. */
int git_refs_stage(int dir_fd, const struct git_id *id, const char *tmp, int *ret_fd);
int git_refs_put(int dir_fd, const char *name, const char *tmp, int *ret_parent);
/* Removes a ref, loose or packed. The caller holds the locks of the ref and of packed-refs. tmp: as above.
 * The caller also flushes the directory of the ref afterwards, and dir_fd. */
int git_refs_remove(int dir_fd, const char *name, const char *tmp);
/* Appends to the log of a ref (or HEAD) if there is one, or makes it if `make`. from or to "": there was,
 * or is, no such ref. Not durable by itself, as git's are not. */
int git_refs_log(int dir_fd, const char *name, const struct git_id *from, const struct git_id *to, const char *who,
		 const char *message, bool make);

/* ---- lock.c: git's own lock files, with the owner's name in them ---- */

/* Takes it, or finds it taken by the same owner. -EEXIST: by somebody else. path: of what is locked, "index"; directories are made. */
int git_lock_take(int dir_fd, const char *path, const char *owner);
/* Drops it if it is the owner's. */
int git_lock_drop(int dir_fd, const char *path, const char *owner);
/* 1, 0 or -errno. */
int git_lock_is_held(int dir_fd, const char *path, const char *owner);

/* ---- objects.c ---- */

/* Gives the objects of a store that anybody may have written a further name in to_fd, an empty directory: what is not named and made like
 * an object or a pack, and whatever else lies there, is left behind. */
int git_objects_import(int from_fd, int to_fd);
/* Packs what is named from a quarantine, into a file without a name: commits and tags, one in each line, those that are known in the repository
 * already behind "^". The pack is whole when git_call_finish() says so. */
int git_objects_pack_start(const struct git_repo *r, const char *quarantine, const char *revisions,
			   struct git_running *ret, int *ret_pack, struct atoll_error *err);
/* Brings such a pack into the repository. Every hash and link is checked by git. Nothing is started for an empty
 * pack. */
int git_objects_land_start(const struct git_repo *r, int pack, struct git_running *ret, struct atoll_error *err);

/* ---- entries.c: what is tracked ---- */

/* What an index knows of a file. */
struct git_look {
	bool known;
	int64_t ctime, mtime; /* nanoseconds since the epoch */
	uint32_t ino, size;   /* of each the lower half */
};

/* mode 0: not there. */
struct git_entry {
	char *path;
	unsigned mode;
	struct git_id id;
	int stage;
	unsigned marks;       /* GIT_MARK_…, of an index */
	struct git_look look; /* of an index that was read here */
};
/* Whether an entry's mode is git's mode of a regular file with these permissions. */
static inline bool git_mode_is(unsigned mode, unsigned file)
{
	return file & S_IXUSR ? mode == 0100755 : mode == 0100644;
}
#define GIT_MARK_SKIP 1u   /* skip-worktree */
#define GIT_MARK_ASSUME 2u /* assume-unchanged */
struct git_entries {
	struct git_entry *v;
	size_t n, capacity;
};
void git_entries_release(struct git_entries *e);
#define AUTO_GIT_ENTRIES CLEANUP(git_entries_release) struct git_entries
int git_entries_add(struct git_entries *e, const char *path, unsigned mode, const struct git_id *id, int stage);
int git_entries_copy(const struct git_entries *from,
		     struct git_entries *ret); /* what is known of the files is left out */
/* NULL if there is none; by bytes, as git sorts them. */
const struct git_entry *git_entries_find(const struct git_entries *e, const char *path);
/* Whether one of them has the path as its directory, or is a directory of the path: an index cannot have both. */
bool git_entries_clash(const struct git_entries *e, const char *path);
/* All of an index, from `ls-files -s -v -z`: of one that git_index_file_parse() leaves to git. */
int git_entries_of_index(const struct git_call *how, struct git_entries *ret, struct atoll_error *err);
/* Two lists of the same paths: what differs between two trees, as it is in each of them. */
int git_entries_between(const struct git_call *how, const struct git_id *from, const struct git_id *to,
			struct git_entries *ret_from, struct git_entries *ret_to, struct atoll_error *err);
/* The first of these in two parts; as git_call_start(). */
int git_entries_between_start(const struct git_call *how, const struct git_id *from, const struct git_id *to,
			      struct git_running *ret, struct atoll_error *err);
int git_entries_between_finish(struct git_running *g, struct git_entries *ret_from, struct git_entries *ret_to,
			       struct atoll_error *err);
/* The same between a tree and an index. */
int git_entries_since(const struct git_call *how, const struct git_id *from, struct git_entries *ret_from,
		      struct git_entries *ret_to, struct atoll_error *err);
/* What is uncommitted in the checkout: paths that differ from HEAD by index or file, as they are in HEAD. Submodules and untracked files
 * are left out. */
int git_entries_uncommitted(const struct git_call *how, struct git_entries *ret, bool *ret_staged,
			    struct atoll_error *err);
/* The same in two parts; as git_call_start(). */
int git_entries_uncommitted_start(const struct git_call *how, struct git_running *ret, struct atoll_error *err);
int git_entries_uncommitted_finish(struct git_running *g, struct git_entries *ret, bool *ret_staged,
				   struct atoll_error *err);
/* Those of the index whose file in the checkout is another one, as the index has them; what that knows of the others is brought up to date.
 * Submodules are left out. how->index: nobody else's. */
int git_entries_unlike(const struct git_call *how, struct git_entries *ret, struct atoll_error *err);
/* Those of the list whose file in the checkout is another one, by content or git's own mode, whatever the repository's index says of it or
 * hides. how->index: where an index can be made for it. */
int git_entries_edited(const struct git_call *how, const struct git_entries *list, struct git_entries *ret,
		       struct atoll_error *err);
/* For `update-index --index-info -z`. */
void git_entries_format(const struct git_entries *e, size_t hex_size, struct strbuf *out);
/* Reads that form back, from memory or a file. -errno. */
int git_entries_parse(const char *text, size_t size, struct git_entries *ret);
int git_entries_load(int dir_fd, const char *name, struct git_entries *ret);

/* ---- index-file.c: the index as data ---- */

struct git_index_file {
	char *data;
	size_t size;
	int64_t mtime;
	struct git_entries entries;
	struct git_id tree; /* what all of it is as a tree; "": it does not say */
};
void git_index_file_release(struct git_index_file *f);
#define AUTO_GIT_INDEX_FILE CLEANUP(git_index_file_release) struct git_index_file
/* Reads it from a git directory. name: mostly "index". -ENOENT, -EINVAL for what is no regular file. */
int git_index_file_load(int dir_fd, const char *name, struct git_index_file *ret);
/* Which paths are wanted; submodules, unmerged and marked entries always are. */
struct git_index_filter {
	bool (*wants)(const char *path, const void *arg);
	const void *arg;
};
/* Fills entries (filter NULL: all of them) and tree. hex_size: digits of a hash. -EINVAL: git has to be asked. */
int git_index_file_parse(struct git_index_file *f, size_t hex_size, const struct git_index_filter *filter);
/* Whether the file is the entry's for certain: nobody has written it since it was looked at. The inode is left to the caller: through an overlay
 * it is another one. */
bool git_index_file_knows(const struct git_index_file *f, const struct git_entry *e, const struct tree_stat *st);

#endif
