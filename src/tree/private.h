/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share with each other and with nobody else. */
#ifndef TREE_PRIVATE_H
#define TREE_PRIVATE_H

#include "tree/tree.h"

/* ---- ident.c ---- */

/* An O_PATH fd of the entry itself, links included: opening it has no effect and never blocks. name "" is the fd. */
int tree_open_node(int dirfd, const char *name);
/* A readable fd of a regular file, judged on the node before it is opened for reading: -EINVAL for anything else, so
 * that a FIFO or device put there meanwhile is never opened. Reading leaves the access time alone where that is
 * permitted. */
int tree_open_file(int dirfd, const char *name, struct tree_stat *ret);

/* ---- meta.c ---- */

/* Gives the entry its owner and group; a refusal is passed over and *ret_kept set false. now is the entry as it is. */
int tree_set_owner(int fd, const struct tree_stat *now, uid_t uid, gid_t gid, bool *ret_kept);

/* ---- xattr.c; fds may be O_PATH ---- */

/* All names, each ended by NUL, malloc'ed; returns the size. None, or none possible: 0 and NULL. */
ssize_t tree_xattr_names(int fd, char **ret);
/* The same of an entry by one call, into a buffer: -ENOSYS where the kernel has no such call, or they do not fit. */
#define TREE_XATTR_NAMES 1024
ssize_t tree_xattr_names_at(int dirfd, const char *name, char *list, size_t size);
#define TREE_ACL_ACCESS "system.posix_acl_access"
#define TREE_ACL_DEFAULT "system.posix_acl_default"
/* One value, malloc'ed; returns its size. If an ACL names an id that our user namespace does not
 * map, the process outside (outside.c) reads the value, with the id; without that process the id
 * is -1. */
ssize_t tree_xattr_get(int fd, const char *name, char **ret);
/* Like tree_xattrs_write(), but what the filesystem or the kernel refuses to take is passed over and *lost set. */
int tree_xattrs_give(int fd, enum tree_marks marks, const struct tree_xattrs *x, bool *lost);
/* Takes one attribute out of the list, if it is there. */
void tree_xattrs_drop(struct tree_xattrs *x, const char *name);
/* Takes the ACLs out of the list if one of them has an entry whose id could not be read: the kernel
 * would refuse that ACL. Returns whether it took them out. */
bool tree_xattrs_drop_unmapped(struct tree_xattrs *x);

/* ---- copy.c ---- */

/* Gives the entry to_fd (O_PATH will do) owner, xattrs, mode and times of from_fd, whose stat is st. */
int tree_copy_meta(int from_fd, const struct tree_stat *st, int to_fd, unsigned flags, struct tree_copy_report *report);

/* ---- outside.c ---- */

/* A group that our user namespace does not map is seen as this one. */
#define NOBODYS_GROUP 65534

/* MEMBER changes nothing: -EPERM if the user is not in the group of from_fd. GUARDED changes nothing
 * either: the answer is that of tree_look_whether_guarded(from_fd). */
enum tree_outside {
	TREE_OUTSIDE_GROUP,
	TREE_OUTSIDE_PROJECT,
	TREE_OUTSIDE_MEMBER,
	TREE_OUTSIDE_GUARDED,
	TREE_OUTSIDE_GET_ACCESS,
	TREE_OUTSIDE_GET_DEFAULT,
	TREE_OUTSIDE_SET_ACCESS,
	TREE_OUTSIDE_SET_DEFAULT,
};
bool tree_outside_is_there(void);
/* Gives to_fd the group or the project id of from_fd: 0 or -errno. Either may be O_PATH, but for a project id. */
int tree_outside_copy(int from_fd, int to_fd, enum tree_outside what);
/* Read (malloc'ed, returns the size) or set the access or default ACL with the ids that it names,
 * also those that our user namespace does not map. -EOPNOTSUPP if no process outside is there. */
ssize_t tree_outside_get_acl(int fd, bool is_default, char **ret);
int tree_outside_set_acl(int fd, bool is_default, const char *value, size_t size);

/* ---- guarded.c ---- */

/* Like tree_is_guarded(), but as this process sees owner and group. */
int tree_look_whether_guarded(int fd);

/* ---- project.c ---- */

int tree_project_copy(int dir, int fd);

/* ---- chain.c: the open directories from a root down to where one is ---- */

/* A file in that directory that nobody else can name, for reading and writing. */
int tree_open_private(int dirfd);

/*
 * A stack of directories in which only the innermost few are held open, so that depth costs no fds. One that was closed
 * is opened again from its child by "..", and must then be the directory it was: if somebody moved the child away
 * meanwhile, the answer is -ESTALE, never a foreign directory.
 */
#define TREE_CHAIN_OPEN 64
struct tree_chain_link {
	int fd;
	uint64_t dev, ino;
};
struct tree_chain {
	struct tree_chain_link *v;
	size_t n, capacity;
};
void tree_chain_release(struct tree_chain *c);
/* Takes over the fd, also on failure. */
int tree_chain_push(struct tree_chain *c, int fd, uint64_t dev, uint64_t ino);
/* The innermost directory's fd; the chain must not be empty. */
static inline int tree_chain_top(const struct tree_chain *c)
{
	return c->v[c->n - 1].fd;
}
/* The fd of the directory that holds the innermost one, opened again if need be, or -errno; needs two links. Call it
 * before the innermost one is removed or made unsearchable, then pop. */
int tree_chain_parent(struct tree_chain *c);
/* Closes the innermost directory. Its parent must be open (tree_chain_parent) or absent. */
void tree_chain_pop(struct tree_chain *c);

/* ---- move.c ---- */

/* Whether a tree can be moved; what is no directory can be renamed. */
int tree_move_check(int dir, const char *name);

#endif
