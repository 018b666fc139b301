/* SPDX-License-Identifier: Apache-2.0 */
/* What a command sees, as a list of mounts: the resources, $HOME, the places of its settings, and what is Atoll's own. */
#include "engine/run.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

void run_view_release(struct run_view *v)
{
	for (size_t i = 0; i < v->n_paths; i++)
		free(v->paths[i]);
	for (size_t i = 0; i < v->n_fds; i++)
		fd_close(v->fds[i]);
	for (size_t i = 0; i < v->n_copies; i++)
		free(v->copies[i]);
	free(v->mounts);
	free(v->copies);
	free(v->paths);
	free(v->fds);
}

static int view_init(struct run_view *v, size_t resources, size_t places, size_t areas)
{
	/* Each resource has its own mounts and up to three places to hide. The rest is $HOME, the
	 * state directory, secrets, and the areas of other sandboxes. */
	size_t most = resources * (4 + STRATEGY_EXTRA_MAX) + places + HOMES_MAX * secrets_count() + areas + 4;

	*v = (struct run_view){ 0 };
	v->mounts = calloc(most, sizeof *v->mounts);
	v->paths = calloc(most, sizeof *v->paths);
	v->fds = calloc(most * 4, sizeof *v->fds);
	v->copies = calloc(most, sizeof *v->copies);
	return v->mounts && v->paths && v->fds && v->copies ? 0 : -ENOMEM;
}

static struct jail_mount *add_mount(struct run_view *v, enum jail_mount_kind kind, const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return NULL;
	v->paths[v->n_paths++] = copy;
	v->mounts[v->n] = (struct jail_mount){ .kind = kind, .path = copy, .upper_fd = -EBADF, .work_fd = -EBADF };
	return &v->mounts[v->n++];
}

static bool has_mount(const struct run_view *v, const char *path)
{
	for (size_t i = 0; i < v->n_paths; i++)
		if (v->paths[i] && strcmp(v->paths[i], path) == 0)
			return true;
	return false;
}

static int add_extra(struct run_view *v, const struct strategy_mount *e, struct atoll_error *err)
{
	enum jail_mount_kind kind = e->overlay     ? JAIL_MOUNT_OVERLAY
				    : e->read_only ? JAIL_MOUNT_BIND_RO
						   : JAIL_MOUNT_BIND;
	struct jail_mount *m = add_mount(v, kind, e->path);

	if (!m)
		return error_oom(err, "run");
	m->lower_fds[0] = e->fd;
	m->n_lower = 1;
	if (e->overlay) {
		m->upper_fd = e->upper_fd;
		m->work_fd = e->work_fd;
	}
	return 0;
}

/* Takes over what the view owns, also on failure. */
static int add_extras(struct run_view *v, struct strategy_view *sv, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < sv->n_extra; i++) {
		const struct strategy_mount *e = &sv->extra[i];

		v->fds[v->n_fds++] = e->fd;
		if (e->overlay) {
			v->fds[v->n_fds++] = e->upper_fd;
			v->fds[v->n_fds++] = e->work_fd;
		}
		if (r >= 0)
			r = add_extra(v, e, err);
		free(e->path);
	}
	return r;
}

static int add_resource(struct run_view *v, struct resource *r, struct atoll_error *err)
{
	struct strategy_view sv;
	struct jail_mount *m;
	int rc;

	if (has_mount(v, r->root_path))
		return 0; /* files of one directory share its view */
	rc = r->ops->view(r, &sv, err);
	if (rc < 0 || sv.kind == STRATEGY_VIEW_NONE)
		return rc < 0 ? rc : add_extras(v, &sv, err);
	if (sv.lower_fd != r->root_fd)
		v->fds[v->n_fds++] = sv.lower_fd;
	if (sv.kind == STRATEGY_VIEW_OVERLAY) {
		v->fds[v->n_fds++] = sv.upper_fd;
		v->fds[v->n_fds++] = sv.work_fd;
		if (sv.masked)
			v->fds[v->n_fds++] = sv.mask_fd;
	}
	m = add_mount(v, sv.kind == STRATEGY_VIEW_OVERLAY ? JAIL_MOUNT_OVERLAY : JAIL_MOUNT_BIND, r->root_path);
	if (!m)
		return error_oom(err, "run");
	/* From the top down. */
	if (sv.kind == STRATEGY_VIEW_OVERLAY && sv.masked)
		m->lower_fds[m->n_lower++] = sv.mask_fd;
	m->lower_fds[m->n_lower++] = sv.lower_fd;
	m->upper_fd = sv.upper_fd;
	m->work_fd = sv.work_fd;
	return add_extras(v, &sv, err);
}

static int add_hidden(struct run_view *v, const char *path, struct atoll_error *err)
{
	struct stat st;

	if (has_mount(v, path) || lstat(path, &st) < 0)
		return 0;
	return add_mount(v, JAIL_MOUNT_HIDE, path) ? 0 : error_oom(err, "run");
}

/* An area lies in place/uuid/seq; the whole place is hidden. The state directory hides its own. */
static int hide_place(struct run_view *v, struct session *s, const char *area, struct atoll_error *err)
{
	AUTO_FREE char *place = *area ? strdup(area) : NULL;

	for (int i = 0; place && i < 2; i++) {
		char *slash = strrchr(place, '/');

		if (slash)
			*slash = 0;
	}
	if (!place || !*place || path_is_below(place, s->a->state_dir))
		return 0;
	return add_hidden(v, place, err);
}

static int add_home(struct run_view *v, struct session *s, const struct run_options *o, struct atoll_error *err)
{
	const char *home = getenv("HOME");
	AUTO_FREE char *real = home && *home == '/' ? realpath(home, NULL) : NULL;

	if (!real || strcmp(real, "/") == 0 || strcmp(real, "/tmp") == 0)
		return 0;
	for (size_t i = 0; i < s->n; i++)
		if (path_is_below(real, s->resources[i].root_path))
			return 0;
	/* With another root nothing of the host's is wanted. */
	return add_mount(v, o->root ? JAIL_MOUNT_TMPFS : JAIL_MOUNT_SCRATCH, real) ? 0 : error_oom(err, "run");
}

static int add_place(struct run_view *v, const struct run_place *p, struct atoll_error *err)
{
	AUTO_FD fd = p->kind == RUN_PLACE_RW ? open(p->path, O_PATH | O_CLOEXEC) : -EBADF;
	struct jail_mount *m;

	if (p->kind == RUN_PLACE_RW && fd < 0)
		return error_sys(err, errno, "run", p->path, "cannot open \"%s\"", p->path);
	/* The view already has a layer there: over the home directory, or because an option names
	 * it twice. */
	if (p->kind == RUN_PLACE_SCRATCH && has_mount(v, p->path))
		return 0;
	m = add_mount(v, run_places_mount(p), p->path);
	if (!m)
		return error_oom(err, "run");
	m->required = p->kind == RUN_PLACE_SCRATCH;
	if (fd >= 0) {
		m->lower_fds[m->n_lower++] = fd;
		v->fds[v->n_fds++] = TAKE_FD(fd);
	}
	return 0;
}

static bool shows_something(const struct jail_mount *m)
{
	return m->kind != JAIL_MOUNT_HIDE && m->kind != JAIL_MOUNT_VEIL && m->kind != JAIL_MOUNT_HOLD;
}

/* Whether the view has a requested mount at the path or, with below, under it. */
static bool is_wanted(const struct run_view *v, const char *path, bool below)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct jail_mount *m = &v->mounts[i];

		assert(m->path);
		if (shows_something(m) && path_is_below(m->path, path) && (below || strcmp(m->path, path) == 0))
			return true;
	}
	return false;
}

/* Whether a resource or an option shows something of the host at the path or below it. */
static bool is_given(const struct run_view *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct jail_mount *m = &v->mounts[i];

		if (shows_something(m) && m->kind != JAIL_MOUNT_COPY && m->kind != JAIL_MOUNT_TMPFS &&
		    path_is_below(m->path, path))
			return true;
	}
	return false;
}

/* A file that is a resource has no mount of its own: its directory has. */
static bool is_resource(const struct session *s, const char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->resources[i].row.path, path) == 0)
			return true;
	return false;
}

static void see_pinned(struct run_view *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->mounts[i].kind == JAIL_MOUNT_PIN && path_is_below(v->mounts[i].path, path))
			v->mounts[i].kind = JAIL_MOUNT_SEE;
}

static int hide_secret(struct run_view *v, const struct session *s, const char *path, bool untrusted,
		       struct atoll_error *err)
{
	bool is_own = is_resource(s, path);

	if (untrusted && (is_own || is_given(v, path)))
		return error_set(err, ATOLL_REFUSED, 0, "run", path,
				 "an untrusted command must not see \"%s\", and a resource or an option shows it",
				 path);
	if (is_own || is_wanted(v, path, false))
		return 0;
	if (!is_wanted(v, path, true))
		return add_hidden(v, path, err);
	/* Show only the requested mounts below the path. The veil covers what the view has there. */
	see_pinned(v, path);
	return has_mount(v, path) || add_mount(v, JAIL_MOUNT_VEIL, path) ? 0 : error_oom(err, "run");
}

/* Returns 1 if the file holds no credential; the view then shows the content that Atoll has
 * read. */
static int show_harmless(struct run_view *v, const char *path, struct atoll_error *err)
{
	size_t size;
	char *content = has_mount(v, path) ? NULL : secrets_read_harmless(path, &size);
	struct jail_mount *m = content ? add_mount(v, JAIL_MOUNT_COPY, path) : NULL;

	if (!content)
		return 0;
	v->copies[v->n_copies++] = content;
	if (!m)
		return error_oom(err, "run");
	m->content = content;
	m->content_size = size;
	return 1;
}

static int hide_one(struct run_view *v, const struct session *s, size_t secret, const char *path, bool untrusted,
		    struct atoll_error *err)
{
	enum secret_kind kind = secrets_kind(secret);
	int r = kind == SECRET_ALWAYS || is_resource(s, path) ? 0 : show_harmless(v, path, err);

	if (r != 0 || kind == SECRET_EXCEPTION)
		return MIN(r, 0);
	return hide_secret(v, s, path, untrusted, err);
}

static int hide_secrets(struct run_view *v, const struct session *s, bool untrusted, struct atoll_error *err)
{
	CLEANUP(secrets_homes_release) struct homes homes = { 0 };
	int r = secrets_homes(getenv("HOME"), &homes);

	if (r < 0)
		return error_oom(err, "run");
	for (size_t k = 0; k < HOMES_MAX; k++)
		for (size_t i = 0; i < secrets_count() && r >= 0; i++) {
			AUTO_FREE char *path = secrets_path(i, &homes, k);

			r = path ? hide_one(v, s, i, path, untrusted, err) : 0;
		}
	return r;
}

/* Hides the places of areas, since other sandboxes have their edits there too. */
static int hide_areas(struct run_view *v, struct session *s, const struct run_areas *areas, struct atoll_error *err)
{
	AUTO_FREE char *usual = str_format("/var/tmp/.atoll-%u", (unsigned)geteuid());
	int r = usual ? add_hidden(v, usual, err) : error_oom(err, "run");

	for (size_t i = 0; i < areas->n && r >= 0; i++)
		r = hide_place(v, s, areas->v[i], err);
	return r;
}

static int add_all(struct run_view *v, struct session *s, const struct run_options *o, struct atoll_error *err)
{
	int r = add_home(v, s, o, err);

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		s->resources[i].limit_ms = o->db_limit_ms;
		s->resources[i].idle_limit_ms = o->db_idle_limit_ms;
		r = add_resource(v, &s->resources[i], err);
	}
	for (size_t i = 0; i < o->n_places && r >= 0; i++)
		r = add_place(v, &o->places[i], err);
	return r;
}

int run_areas_list(struct session *s, struct run_areas *ret, struct atoll_error *err)
{
	return store_area_list(s->store, &ret->v, &ret->n, err);
}

void run_areas_release(struct run_areas *areas)
{
	for (size_t i = 0; i < areas->n; i++)
		free(areas->v[i]);
	free(areas->v);
}

int run_view_build(struct run_view *v, struct session *s, const struct run_options *o, const struct run_areas *areas,
		   struct atoll_error *err)
{
	int r = view_init(v, s->n, o->n_places, areas->n) < 0 ? error_oom(err, "run") : add_all(v, s, o, err);

	if (r >= 0)
		r = hide_areas(v, s, areas, err);
	if (r >= 0)
		r = hide_secrets(v, s, o->untrusted, err);
	if (r >= 0)
		r = add_hidden(v, s->a->state_dir, err);
	return r < 0 ? r : run_hold_directories(v, o, err);
}

static bool is_empty_place(const struct jail_mount *m)
{
	return m->kind == JAIL_MOUNT_TMPFS || m->kind == JAIL_MOUNT_HIDE || m->kind == JAIL_MOUNT_VEIL;
}

bool run_view_is_absent(const struct run_view *v, const struct run_options *o, const char *path)
{
	/* These places are empty in every view, unless this view has a mount in between. */
	static const char *const standard[] = { "/dev", "/run", "/tmp" };
	AUTO_FREE char *in_root = o->root ? str_format("%s%s", o->root, path) : NULL;
	const struct jail_mount *inner = NULL;

	for (size_t i = 0; i < v->n; i++) {
		const struct jail_mount *m = &v->mounts[i];

		if (strcmp(m->path, path) != 0 && path_is_below(path, m->path) &&
		    (!inner || strlen(m->path) > strlen(inner->path)))
			inner = m;
	}
	if (inner)
		return is_empty_place(inner);
	for (size_t i = 0; i < ARRAY_SIZE(standard); i++)
		if (path_is_below(path, standard[i]))
			return true;
	return in_root && access(in_root, F_OK) < 0;
}
