/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the directories above hidden and read-only paths mount points, which the command cannot
 * rename. The mounts of a view go along with a renamed directory, but those of the next run are at
 * the old paths again: the command would see a hidden file at its new path, and could make another
 * file in the place of a read-only one. The same holds for a resource below a directory that --rw
 * lends.
 */
#include "engine/run.h"

#include <string.h>

/* The innermost of the first n mounts that the path lies below, or NULL. */
static const struct jail_mount *find_outer(const struct run_view *v, size_t n, const char *path)
{
	const struct jail_mount *outer = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct jail_mount *m = &v->mounts[i];

		if (strcmp(m->path, path) != 0 && path_is_below(path, m->path) &&
		    (!outer || strlen(m->path) > strlen(outer->path)))
			outer = m;
	}
	return outer;
}

static bool is_lent(const struct run_options *o, const char *path)
{
	for (size_t i = 0; i < o->n_places; i++)
		if (o->places[i].kind == RUN_PLACE_RW && strcmp(o->places[i].path, path) == 0)
			return true;
	return false;
}

/* Whether what the command renames in the outer mount stays renamed after the run. */
static bool keeps_renames(const struct jail_mount *outer)
{
	return outer && (outer->kind == JAIL_MOUNT_OVERLAY || outer->kind == JAIL_MOUNT_BIND);
}

static bool needs_hold(const struct jail_mount *m, const struct jail_mount *outer, const struct run_options *o)
{
	switch (m->kind) {
	case JAIL_MOUNT_HIDE:
	case JAIL_MOUNT_VEIL:
	case JAIL_MOUNT_COPY:
	case JAIL_MOUNT_SEE:
	case JAIL_MOUNT_PIN:
		return keeps_renames(outer);
	case JAIL_MOUNT_OVERLAY:
	case JAIL_MOUNT_BIND:
		return keeps_renames(outer) && is_lent(o, outer->path);
	case JAIL_MOUNT_BIND_RO:
	case JAIL_MOUNT_TMPFS:
	case JAIL_MOUNT_SCRATCH:
	case JAIL_MOUNT_HOLD:
	case JAIL_MOUNT_DEV:
		break;
	}
	return false;
}

static bool has_mount(const struct run_view *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->mounts[i].path, path) == 0)
			return true;
	return false;
}

/* The caller has called make_room(). */
static int add_hold(struct run_view *v, const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	v->paths[v->n_paths++] = copy;
	v->mounts[v->n++] =
		(struct jail_mount){ .kind = JAIL_MOUNT_HOLD, .path = copy, .upper_fd = -EBADF, .work_fd = -EBADF };
	return 0;
}

static int hold_above(struct run_view *v, const char *path, const char *outer, struct atoll_error *err)
{
	AUTO_FREE char *above = strdup(path);
	char *slash;

	while (above && (slash = strrchr(above, '/')) && slash > above) {
		*slash = '\0';
		if (strcmp(above, outer) == 0 || has_mount(v, above))
			return 0;
		if (add_hold(v, above) < 0)
			return error_oom(err, "run");
	}
	return above ? 0 : error_oom(err, "run");
}

static int make_room(struct run_view *v, size_t more)
{
	struct jail_mount *mounts = reallocarray(v->mounts, v->n + more, sizeof *mounts);
	char **paths;

	if (!mounts)
		return -ENOMEM;
	v->mounts = mounts;
	paths = reallocarray(v->paths, v->n_paths + more, sizeof *paths);
	if (!paths)
		return -ENOMEM;
	v->paths = paths;
	return 0;
}

static size_t count_directories(const struct run_view *v)
{
	size_t n = 1;

	for (size_t i = 0; i < v->n; i++)
		for (const char *p = v->mounts[i].path; *p; p++)
			n += *p == '/';
	return n;
}

int run_hold_directories(struct run_view *v, const struct run_options *o, struct atoll_error *err)
{
	size_t n = v->n;

	if (make_room(v, count_directories(v)) < 0)
		return error_oom(err, "run");
	for (size_t i = 0; i < n; i++) {
		const struct jail_mount *outer = find_outer(v, n, v->mounts[i].path);
		int r = needs_hold(&v->mounts[i], outer, o) ? hold_above(v, v->mounts[i].path, outer->path, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}
