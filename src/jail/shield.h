/* SPDX-License-Identifier: Apache-2.0 */
/* What shield.c and mirror.c share: the root of a view. */
#ifndef JAIL_SHIELD_H
#define JAIL_SHIELD_H

#include <limits.h>
#include <sys/stat.h>

#include "jail/private.h"

struct host_mount {
	const char *path;
	bool is_local;
	size_t order; /* in mountinfo: of two at one path the later one is seen */
};

struct shield {
	char *text; /* of mountinfo, cut into the paths */
	struct host_mount *mounts;
	size_t n;
};

struct shield_work {
	const struct view *view;
	bool new_proc; /* the view gets a new /proc */
	int empty;     /* an empty directory: an overlay without upper layer needs a second lower */
	unsigned files;
	char path[PATH_MAX]; /* of the entry in hand, "" for the root */
};

/* ---- shield.c ---- */

bool shield_is_below(const char *path, const char *dir);
bool shield_is_covered(const struct shield_work *s, const char *path); /* the view puts something private there */
bool shield_is_kernels(const char *path);                              /* /sys or /proc, or below */
/* What is known without asking the filesystem, which may be far away; an empty name: dir itself. */
int shield_look_at(int dir, const char *name, struct statx *ret);
/* Read-only mounts, attached to nothing: of the host's own (recursive: 0 or AT_RECURSIVE), and of an overlay over it if there can be
 * one, else of the host's own. */
int shield_bind(int dir, const char *name, unsigned recursive);
int shield_cover(const struct shield_work *s, int node, unsigned recursive);
/* Puts a mount of the host at the same place of the tree, which shows what is at the first `skip` bytes of the path. Does nothing where
 * another mount hides this one, or where either side has no such place any more. */
int shield_add_mount(const struct shield_work *s, int tree, const struct host_mount *m, size_t skip);

/* ---- mirror.c ---- */

/* Fills the directory `to` of a mirror with what is in `from`, whose path is in s. */
int mirror_fill(struct shield_work *s, int from, int to, unsigned depth);

#endif
