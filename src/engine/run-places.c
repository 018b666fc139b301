/* SPDX-License-Identifier: Apache-2.0 */
/* Places that a run hides, shows, lends, empties or covers: checks them against the resources, and
 * plans a mount for each. */
#include <fcntl.h>
#include <string.h>

#include "engine/run-options.h"
#include "engine/sandbox.h"

static const struct {
	const char *setting;
	enum run_place_kind kind;
} kinds[] = {
	{ "hide", RUN_PLACE_HIDE },   { "ro", RUN_PLACE_RO },           { "rw", RUN_PLACE_RW },
	{ "tmpfs", RUN_PLACE_TMPFS }, { "scratch", RUN_PLACE_SCRATCH },
};

bool run_places_kind(const char *setting, enum run_place_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].setting, setting) == 0) {
			*ret = kinds[i].kind;
			return true;
		}
	}
	return false;
}

/* The options and resources for which a view has mounts. */
struct scene {
	const struct run_options *o;
	const struct session *s;
};

static const char *setting_of(enum run_place_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].kind == kind)
			return kinds[i].setting;
	return "";
}

static int refuse(const struct run_place *p, const char *why, struct atoll_error *err)
{
	return error_set(err, ATOLL_REFUSED, 0, "run", p->path, "%s \"%s\" is not possible: %s", setting_of(p->kind),
			 p->path, why);
}

static int resolve_missing(const struct run_place *p, struct atoll_error *err)
{
	/* It may lie in a place that is empty inside, where it is made. */
	if (p->kind == RUN_PLACE_TMPFS && errno == ENOENT && !strstr(p->path, ".."))
		return 0;
	if (errno == ENOENT || errno == ENOTDIR)
		return p->may_be_absent
			       ? 1
			       : error_set(err, ATOLL_NOT_FOUND, errno, "run", p->path,
					   "%s \"%s\": there is nothing at that path", setting_of(p->kind), p->path);
	return error_sys(err, errno, "run", p->path, "%s \"%s\" cannot be looked at", setting_of(p->kind), p->path);
}

/* 1: there is nothing, and that is fine. */
static int resolve(struct run_place *p, struct atoll_error *err)
{
	char *real = realpath(p->path, NULL);

	if (!real)
		return resolve_missing(p, err);
	free(p->path);
	p->path = real;
	return 0;
}

static int check_resources(struct run_place *p, const struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *root = s->resources[i].root_path;

		if (strcmp(p->path, root) == 0)
			return refuse(p, "it is a resource of the sandbox", err);
		if (path_is_below(p->path, root)) {
			if (p->kind == RUN_PLACE_RW)
				return refuse(p, "it lies in a resource, which can be written anyway", err);
			if (p->kind == RUN_PLACE_SCRATCH)
				return refuse(p, "it lies in a resource, whose changes are kept", err);
			p->in_resource = true;
		} else if (path_is_below(root, p->path) && (p->kind == RUN_PLACE_HIDE || p->kind == RUN_PLACE_TMPFS)) {
			return refuse(p, "a resource of the sandbox lies in it", err);
		}
	}
	return 0;
}

/* Whether the view has a mount of its own at the path of a mount of the host. */
static bool is_replaced(const char *path, const void *arg)
{
	const struct scene *scene = arg;

	for (size_t i = 0; i < scene->o->n_places; i++)
		if (strcmp(scene->o->places[i].path, path) == 0)
			return true;
	for (size_t i = 0; i < scene->s->n; i++)
		if (strcmp(scene->s->resources[i].root_path, path) == 0)
			return true;
	return false;
}

/* A layer over a directory does not show the filesystems that the host has mounted below the
 * directory. */
static int check_mounts_below(const struct run_place *p, const struct run_options *o, const struct session *s,
			      struct atoll_error *err)
{
	const struct scene scene = { o, s };
	AUTO_FREE char *below = NULL;

	if (p->kind != RUN_PLACE_SCRATCH)
		return 0;
	below = spec_find_submount(p->path, is_replaced, &scene);
	if (!below)
		return 0;
	return error_set(
		err, ATOLL_REFUSED, 0, "run", p->path,
		"scratch \"%s\" is not possible: another filesystem is mounted at \"%s\"; name directories beside it",
		p->path, below);
}

/* The kernel makes the entries of these directories, and a view has its own. */
static bool is_of_kernel(const char *path)
{
	return path_is_below(path, "/dev") || path_is_below(path, "/proc") || path_is_below(path, "/sys");
}

static int check_place(struct run_place *p, const struct session *s, struct atoll_error *err)
{
	bool makes = p->kind == RUN_PLACE_TMPFS || p->kind == RUN_PLACE_SCRATCH;
	struct stat st;

	if (strcmp(p->path, "/") == 0)
		return refuse(p, "it is the root of everything", err);
	if (path_is_below(p->path, s->a->state_dir))
		return refuse(p, "it is Atoll's own", err);
	if (makes && stat(p->path, &st) == 0 && !S_ISDIR(st.st_mode))
		return refuse(p, "it is no directory", err);
	if (p->kind == RUN_PLACE_SCRATCH && is_of_kernel(p->path))
		return refuse(p, "its entries are the kernel's", err);
	return check_resources(p, s, err);
}

static void drop(struct run_options *o, size_t i)
{
	free(o->places[i].path);
	o->n_places--;
	memmove(&o->places[i], &o->places[i + 1], (o->n_places - i) * sizeof o->places[i]);
}

/* A part of the home directory that is kept is a resource, and those are given to new. */
static int check_kept(const struct run_options *o, const struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < o->n_kept; i++) {
		AUTO_FREE char *real = realpath(o->kept[i], NULL);
		bool found = false;

		for (size_t k = 0; k < s->n && real; k++)
			found |= path_is_below(real, s->resources[k].row.path);
		if (!found)
			return error_set(
				err, ATOLL_REFUSED, 0, "run", o->kept[i],
				"keep-home \"%s\" is not possible: it is no resource of this sandbox; give it to atoll new",
				o->kept[i]);
	}
	return 0;
}

int run_places_check(struct run_options *o, const struct session *s, struct atoll_error *err)
{
	if (o->root && path_is_below(o->root, s->a->state_dir))
		return error_set(err, ATOLL_REFUSED, 0, "run", o->root,
				 "root \"%s\" is not possible: it is Atoll's own", o->root);
	for (size_t i = 0; i < o->n_places;) {
		int r = resolve(&o->places[i], err);

		if (r == 0)
			r = check_place(&o->places[i], s, err);
		if (r < 0)
			return r;
		if (r > 0)
			drop(o, i);
		else
			i++;
	}
	for (size_t i = 0; i < o->n_places; i++) {
		int r = check_mounts_below(&o->places[i], o, s, err);

		if (r < 0)
			return r;
	}
	return check_kept(o, s, err);
}

enum jail_mount_kind run_places_mount(const struct run_place *p)
{
	switch (p->kind) {
	case RUN_PLACE_HIDE:
		return JAIL_MOUNT_HIDE;
	case RUN_PLACE_RW:
		return JAIL_MOUNT_BIND;
	case RUN_PLACE_TMPFS:
		return JAIL_MOUNT_TMPFS;
	case RUN_PLACE_SCRATCH:
		return JAIL_MOUNT_SCRATCH;
	case RUN_PLACE_RO:
		break;
	}
	return p->in_resource ? JAIL_MOUNT_PIN : JAIL_MOUNT_SEE;
}

void run_places_tell(const struct run_options *o, const struct atoll_run_options *options)
{
	for (size_t i = 0; i < o->n_places && options->notice; i++) {
		AUTO_FREE char *quoted = o->places[i].kind == RUN_PLACE_RW ? str_quote(o->places[i].path) : NULL;
		AUTO_FREE char *text =
			quoted ? str_format(
					 "what is written to \"%s\" is written outside at once: it is neither shown nor undone",
					 quoted)
			       : NULL;

		if (text)
			options->notice(true, text, options->notice_arg);
	}
}
