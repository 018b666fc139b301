/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File trees, by directory fd and name only.
 *
 * Nothing here follows a symbolic link, opens a FIFO, socket or device, or crosses into another mount. Every function
 * returns 0 (or a positive answer) or -errno. Paths are relative, of any length and any bytes; "" is the root itself.
 */
#ifndef TREE_TREE_H
#define TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/strbuf.h"

/* ---- ident.c: what an inode is and looks like ---- */

/* The identity of an inode: its file handle where the filesystem gives one, else inode number and birth time. Never the
 * device number, which changes over a reboot. */
#define TREE_ID_MAX 64
struct tree_id {
	uint8_t size; /* 0: none */
	unsigned char data[TREE_ID_MAX];
};
bool tree_id_equal(const struct tree_id *a, const struct tree_id *b);
bool tree_id_is_handle(const struct tree_id *id); /* or inode number and birth time */

struct tree_stat {
	mode_t mode; /* with type */
	uid_t uid;
	gid_t gid;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	uint64_t ino;
	uint64_t dev;
	uint64_t mnt_id;
	uint32_t nlink;
	uint32_t rdev_major, rdev_minor;
	int64_t atime, mtime, ctime, btime; /* nanoseconds since the epoch */
	int16_t atime_era, mtime_era;       /* of those that any program can set: see clock_era() */
	bool is_mount_root;                 /* STATX_ATTR_MOUNT_ROOT */
	bool is_immutable;                  /* immutable or append-only */
	bool is_nodump;                     /* left out by dump: chattr +d */
};
/* As the kernel takes it. */
static inline struct timespec tree_atime(const struct tree_stat *st)
{
	return clock_timespec_of_era(st->atime, st->atime_era);
}
static inline struct timespec tree_mtime(const struct tree_stat *st)
{
	return clock_timespec_of_era(st->mtime, st->mtime_era);
}
/* Never follows; name "" is the fd itself. */
int tree_stat(int dirfd, const char *name, struct tree_stat *ret);
/* The identity that a file handle stands for; what does not fit has none. */
void tree_id_from_handle(int32_t type, const void *handle, size_t size, struct tree_id *ret);
int tree_identify(int dirfd, const char *name, const struct tree_stat *st, struct tree_id *ret);
static inline bool tree_is_special(mode_t mode)
{
	return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

/* ---- inodes.c: a table by inode ---- */

/* Maps inodes (device and inode number, so within one boot) to a number each. All zero is an empty table. */
struct tree_inode;
struct tree_inodes {
	struct tree_inode *v;
	size_t n, room;
};
void tree_inodes_release(struct tree_inodes *t);
/* The inode's number, which the caller may change, or NULL. Valid until the next tree_inodes_add(). */
uint64_t *tree_inodes_find(const struct tree_inodes *t, const struct tree_stat *st);
/* The same; an inode that is not in the table is added with this number. NULL: out of memory. */
uint64_t *tree_inodes_add(struct tree_inodes *t, const struct tree_stat *st, uint64_t value);

/* Maps inodes to a path each: where the first name of one with several was copied to. All zero is empty. */
struct tree_links {
	struct tree_inodes index;
	char **paths;
	size_t capacity;
};
void tree_links_release(struct tree_links *l);
const char *tree_links_find(const struct tree_links *l, const struct tree_stat *st);    /* NULL: none */
int tree_links_put(struct tree_links *l, const struct tree_stat *st, const char *path); /* replaces; -ENOMEM */

/* ---- walk.c: one walk for everybody ---- */

enum tree_walk_action {
	TREE_WALK_GO,   /* go on (and descend, if it is a directory) */
	TREE_WALK_SKIP, /* do not descend */
	TREE_WALK_STOP, /* end the walk successfully */
};

struct tree_entry {
	int dirfd;             /* its directory, open while the callback runs */
	const char *name;      /* "" for the root */
	const char *path;      /* relative to the root of the walk; "" for the root */
	struct tree_stat stat; /* as at the first visit */
	bool leaving;          /* second visit of a directory, after everything below it (only if asked for) */
	int fd; /* an O_RDONLY fd of the directory itself; -EBADF if it is none, may not be opened or is a mount point */
};

/* Returns an enum tree_walk_action or -errno, which ends the walk with that error. May remove or rename the entry it is
 * called for (on a directory: on the leaving visit), nothing else. */
typedef int (*tree_walk_fn)(const struct tree_entry *entry, void *arg);

enum {
	TREE_WALK_LEAVING = 1 << 0, /* call again when leaving a directory */
	TREE_WALK_NO_ROOT = 1 << 1, /* do not call for the root itself */
	TREE_WALK_SORTED = 1 << 2,  /* children in byte order of their names */
	TREE_WALK_TYPES = 1 << 3, /* of what is no directory the type is enough: nothing else of its stat may be set */
	TREE_WALK_FILES = 1 << 4, /* the same of regular files alone */
};

/* Walks the tree whose root is the directory rootfd (or, not a directory, just that entry). Iterative; depth is bounded
 * only by the filesystem, open fds by a small window. A subdirectory that is a mount point gives -EXDEV after its
 * callback, unless that returned TREE_WALK_SKIP. A directory that may not be opened gives its error (-EACCES, -EPERM) after
 * its callback, which may skip it, or make it readable. ret_path, if not NULL, is set to NULL or, on failure, to the
 * path it was about (malloc'ed). Entries that vanish between listing and stat are passed over. */
int tree_walk(int rootfd, unsigned flags, tree_walk_fn fn, void *arg, char **ret_path);

/* ---- xattr.c: extended attributes ---- */

/* In which namespace overlayfs keeps its private attributes ("opaque", "origin") on the layers of a tree: trusted.overlay.* where root
 * mounts the overlay, user.overlay.* where it is mounted with "userxattr". In the other namespace, and in a tree of which no overlay is
 * mounted, these names are ordinary attributes that belong to the user: the store of a container engine is full of them. */
enum tree_marks {
	TREE_MARKS_NONE = 0,
	TREE_MARKS_TRUSTED = 1 << 8, /* not among the values of TREE_COPY_…: copies take it as one of their flags */
	TREE_MARKS_USER = 1 << 9,
};
/* The namespace that overlays use which this process mounts. */
enum tree_marks tree_overlay_marks(void);
/* Whether the attribute is a private one; always false for TREE_MARKS_NONE. */
bool tree_is_mark(const char *name, enum tree_marks marks);
/* One private attribute; mark is its name without the prefix. Atoll's own ones begin with "atoll-". */
int tree_mark_set(int fd, enum tree_marks marks, const char *mark, const void *value, size_t size);
ssize_t tree_mark_get(int fd, enum tree_marks marks, const char *mark, void *value, size_t size);

/* Extended attributes as a sorted list, ACLs included; the overlay's private attributes and security.* but
 * security.capability left out, as are the ACLs that XFS shows once more in their raw form. */
struct tree_xattr {
	char *name;
	char *value;
	size_t size;
};
struct tree_xattrs {
	struct tree_xattr *v;
	size_t n;
};
void tree_xattrs_release(struct tree_xattrs *x);
/* fd may be O_PATH (then through /proc/self/fd); symbolic links have none here. A filesystem without xattrs gives an
 * empty list. */
int tree_xattrs_read(int fd, enum tree_marks marks, struct tree_xattrs *ret);
bool tree_xattrs_equal(const struct tree_xattrs *a, const struct tree_xattrs *b);
/* Makes the fd's list equal to x: sets what differs, removes what is not in x (private attributes stay). -ENOTSUP if the filesystem has none and
 * x is not empty. */
int tree_xattrs_write(int fd, enum tree_marks marks, const struct tree_xattrs *x);
/* Flat encoding for the journal, and back. */
int tree_xattrs_encode(const struct tree_xattrs *x, struct strbuf *out);
int tree_xattrs_decode(const void *data, size_t size, struct tree_xattrs *ret);
/* The flat encoding of an entry's list, malloc'ed; an empty list is an empty text, never NULL. */
int tree_xattrs_encoded(int dirfd, const char *name, enum tree_marks marks, char **ret, size_t *ret_size);
/* Of the attributes that differ between two lists, sets those to their value in `to`, or removes them, that have their value in `from`
 * now. All others stay as they are, so that an attribute that another process sets meanwhile is not lost. */
int tree_xattrs_change(int fd, const struct tree_xattrs *from, const struct tree_xattrs *to);
/* The value of one attribute in a list, or NULL. */
const struct tree_xattr *tree_xattrs_find(const struct tree_xattrs *x, const char *name);
/* Whether both are absent, or have the same value. */
bool tree_xattr_same(const struct tree_xattr *a, const struct tree_xattr *b);
/* The mode that a directory of mode `mode` gets when an access ACL is set, of which this is the attribute's value; NULL, or a value that is
 * no ACL, changes nothing. */
mode_t tree_acl_mode(const struct tree_xattr *acl, mode_t mode);
/* Compares the lists of two entries; 1 equal, 0 different, -errno. Links: always 1. */
int tree_xattrs_same(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b, enum tree_marks marks);

/* ---- meta.c: mode, owner, times, and what the overlay keeps for itself ---- */

/* Removes the overlay's private attributes from an entry; returns how many there were. */
int tree_strip_overlay(int dirfd, const char *name, enum tree_marks marks);
/* Whether the private attribute "opaque" is "y" on a directory fd. */
int tree_is_opaque(int fd, enum tree_marks marks);

/* Sets the flag "nodump" of a file or directory, which neither the overlay nor a copy keeps by itself; fd may be O_PATH. A filesystem that
 * has no such flag is passed over. */
int tree_set_nodump(int fd);

/* Makes dirfd/name look like st: owner (if it may: -EPERM is passed over, and *ret_owner_kept set false), mode (after
 * owner; set-id bits of files only if keep_set_id and the owner was kept; a directory's are harmless), times last. A
 * directory's times are only lasting once its content is complete. */
int tree_set_meta(int dirfd, const char *name, const struct tree_stat *st, bool keep_set_id, bool *ret_owner_kept);

/* ---- copy.c, copy-tree.c ---- */

/* Copies the data of one regular file: reflink, copy_file_range, sendfile, read/write, in that order, holes kept. */
int tree_copy_data(int from_fd, int to_fd, uint64_t size);
/* Whether a copy in one directory can share blocks with a file in the other (reflink): tried on two files without a name. */
bool tree_can_share(int from_dir, int to_dir);

enum {
	TREE_COPY_KEEP_SET_ID = 1 << 0, /* set-id bits and file capabilities, where the owner could be kept */
	TREE_COPY_LINK = 1 << 1,        /* of a whole tree: regular files get a further name, all else is made anew */
};
/* With the flags of a copy goes an enum tree_marks: private attributes of the overlay are not copied. */
struct tree_copy_report {
	bool owner_lost;  /* owner or group could not be kept */
	bool xattrs_lost; /* the target filesystem, or the kernel, refused some */
};
/* Copies one entry (file, link, or empty directory; not its children) to to_dir/to_name, which must not exist: content,
 * xattrs, owner, mode, times. An interrupted or failed copy removes what it made. Specials: -EOPNOTSUPP. */
int tree_copy_entry(int from_dir, const char *from_name, int to_dir, const char *to_name, unsigned flags,
		    struct tree_copy_report *report);
/* Likewise for a regular file, but gives the copy the content `data` and the present time as its mtime. */
int tree_copy_entry_with(int from_dir, const char *from_name, int to_dir, const char *to_name, unsigned flags,
			 const void *data, size_t size, struct tree_copy_report *report);

/* A directory of an original as a workspace would have it if something below it had been touched. Its parent is there, and keeps its time. */
int tree_copy_up(int root_fd, int workspace_fd, const char *path, enum tree_marks marks);
/* Puts back the time of a directory in which something was made or removed. */
int tree_restore_mtime(int dir, const struct tree_stat *st);

/* Copies a whole tree into the existing, empty directory to_fd, hard links within it kept, directory times set last,
 * the root's own metadata included. Specials and what skip() names are left out and reported through left_out (may be
 * NULL; called with path and stat). copied(), if not NULL, is called for every entry made, with both stats, after its
 * metadata is final. */
struct tree_copy_hooks {
	bool (*skip)(const struct tree_entry *from, void *arg);
	int (*left_out)(const char *path, const struct tree_stat *st, void *arg);
	int (*copied)(const char *path, const struct tree_stat *from, int from_dir, const char *from_name,
		      const struct tree_stat *to, int to_dir, const char *to_name, void *arg);
	void *arg;
};
int tree_copy(int from_fd, int to_fd, unsigned flags, const struct tree_copy_hooks *hooks,
	      struct tree_copy_report *report, char **ret_path);

/* ---- outside.c: help from outside of a user namespace, for groups and ACLs that are not mapped in it ---- */

/* Called by the process inside: from now on copies ask for help on this socket (SOCK_SEQPACKET), from any
 * thread. If the process outside was killed, the next request ends the process inside by _exit(). */
void tree_outside_use(int socket);
/* The process outside, when the other end can be read: answers one request. False at its end. */
bool tree_outside_serve(int socket);

/* Whether a chmod() by this process leaves the directory, whose stat is st, the set-group-ID bit: the kernel takes
 * it from a user who is not in the directory's group. 1, 0 or -errno. */
int tree_keeps_set_gid(int fd, const struct tree_stat *st);

/* ---- guarded.c: directories that other users cannot change ---- */

/* Whether only root and this user can rename or remove the entries of a directory (fd; O_PATH will
 * do): 1, 0 or -errno. A sticky directory counts, and one that only the user's private group can
 * write to. */
int tree_is_guarded(int fd);

/* ---- project.c: ids by which a filesystem counts the space of a tree ---- */

/* Whether the directory takes only entries of its own project (-EXDEV of a rename otherwise). */
bool tree_hands_project_down(int dir);
/* Gives an entry, with everything below it, the project id of that directory. */
int tree_project_give(int dir, int from_dir, const char *name);

/* ---- compare.c ---- */

/* Whether two regular files hold the same bytes (sizes are compared first): 1, 0 or -errno. */
int tree_same_content(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b);
/* Whether two links have the same target: 1, 0 or -errno. */
int tree_same_target(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b);

/* ---- remove.c ---- */

/* Removes an entry and everything below it; a missing one is fine. Goes on past failures and returns the first.
 * Directories without write permission are made writable first. Never crosses a mount (-EBUSY for it). */
int tree_remove(int dirfd, const char *name);
/* Removes everything below the directory, not itself. */
int tree_empty(int dirfd);

/* ---- move.c ---- */

/* Moves a directory within a mount that refuses to rename it, losing nothing of what others do to it meanwhile. Both ends in one mount. */
#define TREE_MOVE_NAME_MAX 32
struct tree_move {
	int from_dir, to_dir;
	const char *from_name, *to_name;
	unsigned flags;               /* 0, RENAME_NOREPLACE or RENAME_EXCHANGE */
	bool (*is_wanted)(void *arg); /* asked now and again; false gives -ECANCELED */
	void *arg;
	char name[TREE_MOVE_NAME_MAX]; /* in to_dir, of the private directory in which it is made ready */
};
void tree_move_name(struct tree_move *m); /* a new one */
/* 0 or -errno: -EXDEV if it holds what cannot be moved so. */
int tree_move(const struct tree_move *m);
/* With RENAME_EXCHANGE both names are taken, one of them at least by a directory that cannot be renamed. There is an instant in which one of
 * them is missing, and its entry lies beside it under a name that begins with ".atoll-exchange-". */
int tree_move_exchange(const struct tree_move *m);
/* Whether such a name is of a private directory. What a kill has left there is nobody's. */
bool tree_is_move_name(const char *name);

/* ---- stamp.c: a time of the filesystem's own clock ---- */

/* A moment T on the filesystem of dirfd (a directory that may be written): every ctime set before the call is strictly
 * earlier than T, every one set after it is T or later. Made by touching a private file until its ctime moves. */
int tree_stamp(int dirfd, int64_t *ret);
/* Whether the kernel is older than 6.13, or is to be taken for such a one (ATOLL_OLD_KERNEL=1 in the environment, for tests). There
 * overlays are not given their layers by fd, extended attributes are not reached by directory and name, and times are those of the
 * last tick, for which stamps settle. Nothing else that Atoll needs is newer than 5.12. */
bool tree_old_kernel(void);

/* ---- sync.c ---- */

/* Collects what must be durable and makes it so with few flushes: fsync of each for a few, one syncfs for many. */
struct tree_sync;
int tree_sync_new(int fs_fd, struct tree_sync **ret); /* any fd on the filesystem; held open so that errors are seen */
struct tree_sync *tree_sync_free(struct tree_sync *s);
/* A file or directory; name "" is the fd itself. */
int tree_sync_add(struct tree_sync *s, int dirfd, const char *name, uint64_t bytes);
/* The same for what may lie on another filesystem: there it is flushed by itself. Not for several threads. */
int tree_sync_add_anywhere(struct tree_sync *s, int dirfd, const char *name);
/* Everything on the filesystem: for very many. From then on what is added changes nothing, in whichever thread. */
void tree_sync_add_all(struct tree_sync *s);
/* Afterwards the set is empty, also after a failure: a second flush would lie. */
int tree_sync_flush(struct tree_sync *s);
/* Begins writing back what is dirty below a directory without waiting for it. */
int tree_start_writeback(int rootfd);

/* ---- btrfs.c, btrfs-search.c: subvolumes; what is none, or another filesystem, gives -ENOTTY ---- */

struct tree_subvolume {
	uint64_t id;
	uint64_t generation; /* of the transaction that made it: what was done in it since is of a later one */
};
/* The subvolume of which fd is the root directory. */
int tree_subvolume(int fd, struct tree_subvolume *ret);
/* Whether both directories lie on the same btrfs, in whichever subvolume and mount. */
bool tree_same_btrfs(int fd_a, int fd_b);
/* Takes the subvolume as it is at this instant, durably. What lies in it as a further subvolume is an empty directory there. */
int tree_snapshot(int subvolume_fd, int dirfd, const char *name, bool read_only);
/* Calls fn for each subvolume directly in this one, wherever in its tree; anything but 0 ends that and is the answer. A path that may
 * not be seen is NULL. */
int tree_subvolumes_in(int subvolume_fd, int (*fn)(const char *path, void *arg), void *arg);
/* Removes a subvolume with everything in it, where that is permitted; else makes it one that can be emptied and removed as a directory. 0:
 * it is gone. */
int tree_subvolume_remove(int dirfd, const char *name);
/* The paths at which there is, in the subvolume, an inode touched in a transaction later than that one; in no order, some twice, and
 * for whatever reason: its time of access will do. Needs privilege (-EPERM). */
int tree_subvolume_touched(int subvolume_fd, uint64_t generation, int (*fn)(const char *path, void *arg), void *arg);
/* The identity that the same inode has in another subvolume, of which this one is a snapshot or the other way round. */
void tree_id_in_subvolume(struct tree_id *id, uint64_t subvolume);
/* Whether an inode was there when that transaction ended. False if its identity does not tell. */
bool tree_id_is_of_generation(const struct tree_id *id, uint64_t generation);

/* ---- exchange.c ---- */

/* Whether entries of directories a and b can be exchanged with each other: tried with two private files. 1, 0 or
 * -errno. Leaves nothing behind. */
int tree_can_exchange(int dir_a, int dir_b);
/* Whether the kernel gives rename flags at all there: RENAME_EXCHANGE within one directory. */
int tree_has_exchange(int dirfd);

#endif
