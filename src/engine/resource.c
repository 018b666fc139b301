/* SPDX-License-Identifier: Apache-2.0 */
/* One resource opened: its original and its areas as directory fds. */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>

/* Stored paths are resolved: a link met on the way now was put there since. */
static int open_checked(const struct resource *r, int *ret_fd, struct atoll_error *err)
{
	AUTO_FD fd = fd_open_absolute(r->root_path, O_RDONLY | O_DIRECTORY);
	struct tree_stat st;
	struct tree_id id;
	int rc;

	if (is_absent(fd))
		return error_set(
			err, ATOLL_CONFLICT, -fd, "open", r->row.path,
			"the original \"%s\" is no longer there; put it back, or remove the sandbox with atoll rm --force",
			r->root_path);
	if (fd < 0)
		return error_sys(err, fd, "open", r->row.path, "cannot open the original \"%s\"", r->root_path);
	rc = kind_is_remote(r->row.kind) ? 0 : tree_stat(fd, "", &st);
	if (rc >= 0 && !kind_is_remote(r->row.kind))
		rc = tree_identify(fd, "", &st, &id);
	if (rc < 0)
		return error_sys(err, rc, "open", r->row.path, "cannot look at the original \"%s\"", r->root_path);
	if (!kind_is_remote(r->row.kind) && !tree_id_equal(&id, &r->row.root_id))
		return error_set(
			err, ATOLL_CONFLICT, 0, "open", r->row.path,
			"the original \"%s\" was replaced by another directory since the sandbox began; the edits are "
			"in \"%s\": put the former directory back, or remove the sandbox",
			r->root_path, r->row.work);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int open_root(struct resource *r, struct atoll_error *err)
{
	return open_checked(r, &r->root_fd, err);
}

int resource_check_root(const struct resource *r, struct atoll_error *err)
{
	AUTO_FD fd = -EBADF;

	return open_checked(r, &fd, err);
}

static int open_area(const char *path, int *ret)
{
	int fd = *path ? area_open(path) : -EBADF;

	if (fd < 0 && fd != -EBADF && fd != -ENOENT)
		return fd;
	*ret = fd < 0 ? -EBADF : fd;
	return 0;
}

static int open_both_areas(struct resource *r)
{
	int rc = open_area(r->row.work, &r->work_fd);

	if (rc < 0)
		return rc;
	if (r->work_fd < 0 || strcmp(r->row.work, r->row.stage) != 0)
		return open_area(r->row.stage, &r->stage_fd);
	/* A description of its own, so that each has its own position when the directory is read. */
	r->stage_fd = openat(r->work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->stage_fd < 0 ? -errno : 0;
}

int resource_open_areas(struct session *s, struct resource *r, struct atoll_error *err)
{
	int rc = open_both_areas(r);

	if (rc < 0)
		return error_sys(err, rc, "open", r->row.path, "cannot open the workspace of \"%s\" in \"%s\"",
				 r->row.path, r->row.work);
	return 0;
}

static int name_root(struct resource *r)
{
	char *slash;

	r->root_path = strdup(kind_is_remote(r->row.kind) ? r->row.work : r->row.path);
	if (!r->root_path)
		return -ENOMEM;
	if (kind_is_file(r->row.kind)) {
		slash = strrchr(r->root_path, '/');
		r->only = strrchr(r->row.path, '/') + 1;
		slash[slash == r->root_path] = 0;
	}
	return 0;
}

static int make_areas(struct resource *r, struct atoll_error *err)
{
	int rc = area_make(r->row.work);

	if (rc >= 0)
		rc = area_make(r->row.stage);
	if (rc < 0)
		return error_sys(err, rc, "open", r->row.path,
				 "the workspace of \"%s\" is gone from \"%s\", which cannot be made again", r->row.path,
				 r->row.work);
	return 0;
}

static int open_parts(struct session *s, struct resource *r, bool mend, struct atoll_error *err)
{
	int rc = name_root(r);

	if (rc < 0)
		return error_oom(err, "open");
	rc = open_root(r, err);
	if (rc >= 0 && mend && resource_isolates(r))
		rc = make_areas(r, err);
	if (rc < 0)
		return rc;
	rc = resource_open_areas(s, r, err);
	if (rc < 0)
		return rc;
	if (resource_isolates(r) && (r->work_fd < 0 || r->stage_fd < 0))
		return error_set(
			err, ATOLL_STATE, ENOENT, "open", r->row.path,
			"the workspace of \"%s\" is gone from \"%s\"; remove the sandbox with atoll rm --force",
			r->row.path, r->work_fd < 0 ? r->row.work : r->row.stage);
	if (!resource_knows_marks(r))
		return error_set(
			err, ATOLL_STATE, EPERM, "open", r->row.path,
			"the workspace of \"%s\" was made by a process %s CAP_SYS_ADMIN; run Atoll with the same capabilities",
			r->row.path, r->marks == TREE_MARKS_TRUSTED ? "without" : "with");
	return store_stamp_list(s->store, r->row.id, &r->stamps, &r->n_stamps, err);
}

int resource_open(struct session *s, struct resource *r, struct atoll_error *err)
{
	return open_parts(s, r, false, err);
}

int resource_open_mended(struct session *s, struct resource *r, struct atoll_error *err)
{
	return open_parts(s, r, true, err);
}

void resource_release(struct resource *r)
{
	if (r->ops && r->ops->release)
		r->ops->release(r);
	r->root_fd = fd_close(r->root_fd);
	r->work_fd = fd_close(r->work_fd);
	r->stage_fd = fd_close(r->stage_fd);
	for (size_t i = 0; i < r->n_excluded; i++)
		free(r->excluded[i]);
	free(r->excluded);
	for (size_t i = 0; i < r->n_claimed; i++)
		free(r->claimed[i]);
	free(r->claimed);
	free(r->siblings);
	store_stamps_free(r->stamps, r->n_stamps);
	free(r->root_path);
	store_resource_release(&r->row);
	*r = (struct resource){ .root_fd = -EBADF, .work_fd = -EBADF, .stage_fd = -EBADF };
}

const char *resource_workspace_name(const struct resource *r)
{
	return r->host ? r->host->ops->workspace : r->ops->workspace;
}

int resource_workspace(const struct resource *r)
{
	const char *name = resource_workspace_name(r);

	return name ? fd_open_beneath(r->work_fd, name, O_RDONLY | O_DIRECTORY) : -ENOENT;
}

bool resource_isolates(const struct resource *r)
{
	return r->ops->capabilities & STRATEGY_ISOLATES;
}

bool resource_can_undo(const struct resource *r)
{
	return r->ops->capabilities & STRATEGY_UNDO_AFTER;
}

/* Of an absolute path what follows the root, or NULL if it is not below it. */
static const char *below_root(const struct resource *r, const char *path)
{
	size_t size = strlen(r->root_path);

	if (size == 1)
		size = 0;
	return path_is_below(path, r->root_path) && path[size] ? path + size + 1 : NULL;
}

/* Once each. */
static int add_path(char ***list, size_t *n, const char *path)
{
	char **grown;

	for (size_t i = 0; i < *n; i++)
		if (strcmp((*list)[i], path) == 0)
			return 0;
	grown = reallocarray(*list, *n + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*n] = strdup(path);
	return grown[*n] ? (int)((*n)++, 0) : -ENOMEM;
}

static int exclude(struct resource *r, const char *path)
{
	const char *below = path ? below_root(r, path) : NULL;

	return below ? add_path(&r->excluded, &r->n_excluded, below) : 0;
}

/* ---- guests ---- */

static bool is_guest(const struct resource *r)
{
	return r->ops && (r->ops->capabilities & STRATEGY_GUEST);
}

static bool shares_workspace(const struct resource *a, const struct resource *b)
{
	return a->row.work && b->row.work && *a->row.work && strcmp(a->row.work, b->row.work) == 0;
}

/* A guest was given the area of its host when it was made. Several may have that area: files of one directory. */
static void find_host(struct session *s, struct resource *r)
{
	r->host = NULL;
	for (size_t i = 0; i < s->n && !r->host && is_guest(r); i++)
		if (!is_guest(&s->resources[i]) && shares_workspace(r, &s->resources[i]))
			r->host = &s->resources[i];
}

/* The guest's file, and the names beside it that are its own. */
static int claim(struct resource *r, const struct resource *guest)
{
	const char *below = below_root(r, guest->row.path);
	int rc = below ? add_path(&r->claimed, &r->n_claimed, below) : 0;

	for (size_t i = 0; below && guest->ops->companions && guest->ops->companions[i] && rc >= 0; i++) {
		AUTO_FREE char *name = str_format("%s%s", below, guest->ops->companions[i]);

		rc = name ? add_path(&r->claimed, &r->n_claimed, name) : -ENOMEM;
	}
	return rc;
}

static int set_claimed(struct session *s, struct resource *r)
{
	int rc = 0;

	find_host(s, r);
	for (size_t i = 0; i < s->n && rc >= 0 && !is_guest(r); i++)
		if (is_guest(&s->resources[i]) && shares_workspace(r, &s->resources[i]))
			rc = claim(r, &s->resources[i]);
	return rc;
}

/* ---- what is out of sight ---- */

/* The place that holds an area is two levels up: place/uuid/seq. */
static int exclude_place(struct resource *r, const char *area)
{
	AUTO_FREE char *place = strdup(area);

	if (!place)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(place, '/');

		if (slash)
			*slash = 0;
	}
	return *place ? exclude(r, place) : 0;
}

/* Other files of the same directory, which have the same workspace. */
static int set_siblings(struct session *s, struct resource *r)
{
	r->siblings = calloc(s->n, sizeof *r->siblings);
	if (!r->siblings)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		if (&s->resources[i] != r && s->resources[i].only &&
		    strcmp(s->resources[i].root_path, r->root_path) == 0) {
			r->siblings[r->n_siblings++] = s->resources[i].only;
			r->follows_sibling |= &s->resources[i] < r && s->resources[i].ops == r->ops &&
					      shares_workspace(&s->resources[i], r);
		}
	return 0;
}

int resource_set_excluded(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		int rc = set_siblings(s, r);

		if (rc >= 0)
			rc = set_claimed(s, r);
		if (rc >= 0)
			rc = exclude(r, s->a->state_dir);

		for (size_t k = 0; k < s->n && rc >= 0; k++) {
			struct resource *other = &s->resources[k];

			rc = exclude_place(r, other->row.work);
			if (rc >= 0)
				rc = exclude_place(r, other->row.stage);
			if (rc >= 0 && k != i && !shares_workspace(r, other) &&
			    strcmp(other->root_path, r->root_path) != 0)
				rc = exclude(r, other->root_path);
		}
		if (rc < 0)
			return error_oom(err, "open");
	}
	return 0;
}
