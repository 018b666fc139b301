/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that a view does not hide: files that appeared after the view was made, and those of
 * another HOME. A run that joins the view has a copy of its mounts, and hides them there. A keeper
 * does not serve a client that has such secrets; the client then joins like any other run.
 */
#include "engine/run.h"

#include <string.h>

static bool is_resource(const struct session *s, const char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->resources[i].row.path, path) == 0)
			return true;
	return false;
}

static int add_hide(struct run_view *v, char *path)
{
	v->paths[v->n_paths++] = path;
	v->mounts[v->n++] =
		(struct jail_mount){ .kind = JAIL_MOUNT_HIDE, .path = path, .upper_fd = -EBADF, .work_fd = -EBADF };
	return 0;
}

/* Calls fn for each secret that exists, until fn returns another value than 0. fn owns the path. */
static int each_secret(const struct session *s, const char *home, int (*fn)(struct run_view *v, char *path),
		       struct run_view *v)
{
	CLEANUP(secrets_homes_release) struct homes homes = { 0 };
	int r = secrets_homes(home, &homes);

	for (size_t k = 0; k < HOMES_MAX && r == 0; k++)
		for (size_t i = 0; i < secrets_count() && r == 0; i++) {
			AUTO_FREE char *path = secrets_path(i, &homes, k);

			if (path && !is_resource(s, path))
				r = fn(v, TAKE_PTR(path));
		}
	return r;
}

int run_view_join(struct run_view *v, const struct session *s, struct atoll_error *err)
{
	size_t most = HOMES_MAX * secrets_count();

	v->mounts = calloc(most, sizeof *v->mounts);
	v->paths = calloc(most, sizeof *v->paths);
	if (!v->mounts || !v->paths || each_secret(s, getenv("HOME"), add_hide, v) < 0)
		return error_oom(err, "run");
	return 0;
}

/* Returns 1 if the view shows the secret. Frees the path. */
static int is_shown(struct run_view *v, char *path)
{
	AUTO_FREE char *owned = path;

	for (size_t i = 0; i < v->n; i++) {
		const struct jail_mount *m = &v->mounts[i];
		bool is_empty = m->kind == JAIL_MOUNT_HIDE || m->kind == JAIL_MOUNT_VEIL;

		if (strcmp(owned, m->path) == 0 || (is_empty && path_is_below(owned, m->path)))
			return 0;
	}
	return 1;
}

bool run_view_hides_all(const struct run_view *v, const struct session *s, const char *home)
{
	return each_secret(s, home, is_shown, (struct run_view *)v) == 0;
}
