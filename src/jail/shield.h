/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by shield.c and mirror.c: the root of a view. */
#ifndef JAIL_SHIELD_H
#define JAIL_SHIELD_H

#include <limits.h>
#include <sys/stat.h>

#include "jail/private.h"

struct host_mount {
	const char *path;
	bool is_local;
	size_t order; /* in mountinfo: the later of two mounts at one path hides the earlier one */
};

struct shield {
	char *text; /* the text of mountinfo, into which the paths point */
	struct host_mount *mounts;
	size_t n;
};

struct shield_work {
	const struct view *view;
	bool new_proc; /* the view gets a new /proc */
	int empty;     /* an empty directory: an overlay without upper layer needs a second lower */
	unsigned files;
	char path[PATH_MAX]; /* of the current entry; "" for the root */
};

/* ---- shield.c ---- */

bool shield_is_below(const char *path, const char *dir);
bool shield_is_covered(const struct shield_work *s, const char *path); /* the view has a private mount there */
bool shield_is_kernels(const char *path);                              /* /sys or /proc, or below */
/* Returns the attributes that the kernel knows without asking a filesystem, which may be remote. An
 * empty name means dir itself. */
int shield_look_at(int dir, const char *name, struct statx *ret);
/* Make a read-only mount that is not attached yet: shield_bind() of the host's files themselves
 * (recursive: 0 or AT_RECURSIVE), shield_cover() of an overlay over them, or of the files
 * themselves if the kernel makes no overlay. */
int shield_bind(int dir, const char *name, unsigned recursive);
int shield_cover(const struct shield_work *s, int node, unsigned recursive);
/* Attaches a mount of the host at its place in the tree, whose root stands for the first `skip`
 * bytes of the mount's path. Does nothing if another mount hides this one, or if its place no
 * longer exists on either side. */
int shield_add_mount(const struct shield_work *s, int tree, const struct host_mount *m, size_t skip);

/* ---- mirror.c ---- */

/* Fills the directory `to` of a mirror with the entries of the host's directory `from`, whose path
 * is s->path. */
int mirror_fill(struct shield_work *s, int from, int to, unsigned depth);

#endif
