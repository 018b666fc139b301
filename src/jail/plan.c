/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a view, made by the caller before there is a child, and the words for what fails in it. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"

static const char operation[] = "run";

struct view *view_free(struct view *v)
{
	if (!v)
		return NULL;
	for (size_t i = 0; i < v->n_mounts; i++) {
		struct view_mount *vm = &v->mounts[i];

		for (size_t j = 0; j < vm->n_sources; j++)
			free(vm->sources[j].path);
		free(vm->sources);
		free(vm->path);
	}
	free(v->mounts);
	free(v->terminal);
	free(v->root_path);
	free(v->places);
	shield_free(v->shield);
	free(v);
	return NULL;
}

static void cleanup_view(struct view **v)
{
	view_free(*v);
}

static int add_source(struct view_mount *vm, int fd)
{
	struct view_source *s = &vm->sources[vm->n_sources];
	int r = fd_path(fd, &s->path);

	s->fd = fd;
	vm->n_sources++;
	/* Only the original itself can be found without it: upper and work lie in a place of ours. */
	return r == -ENAMETOOLONG && vm->n_sources == 1 ? 0 : r;
}

static int add_sources(struct view_mount *vm, const struct jail_mount *m)
{
	size_t n = vm->kind != JAIL_MOUNT_OVERLAY ? 1 : m->n_lower;
	int r = 0;

	if (n == 0 || n > ARRAY_SIZE(m->lower_fds))
		return -EINVAL;
	vm->sources = calloc(n + 2, sizeof(*vm->sources));
	if (!vm->sources)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_source(vm, m->lower_fds[i]);
	if (r == 0 && vm->kind == JAIL_MOUNT_OVERLAY)
		r = add_source(vm, m->upper_fd);
	if (r == 0 && vm->kind == JAIL_MOUNT_OVERLAY)
		r = add_source(vm, m->work_fd);
	return r;
}

static int add_mount(struct view *v, enum jail_mount_kind kind, const char *path, const struct jail_mount *m)
{
	struct view_mount *vm = &v->mounts[v->n_mounts];

	*vm = (struct view_mount){ .kind = kind, .order = v->n_mounts, .fd = -EBADF, .mode = 0755 };
	vm->path = strdup(path);
	if (!vm->path)
		return -ENOMEM;
	vm->required = m && m->required;
	v->n_mounts++;
	vm->content = m ? m->content : NULL;
	vm->content_size = m ? m->content_size : 0;
	if (strcmp(path, "/tmp") == 0 || strcmp(path, "/dev/shm") == 0)
		vm->mode = 01777;
	return m && (kind == JAIL_MOUNT_OVERLAY || kind == JAIL_MOUNT_BIND || kind == JAIL_MOUNT_BIND_RO)
		       ? add_sources(vm, m)
		       : 0;
}

/* What every view has, unless the caller has put something there. */
static const struct {
	const char *path;
	enum jail_mount_kind kind;
	mode_t mode;
} standard[] = {
	{ "/dev", JAIL_MOUNT_DEV, 0755 },
	{ "/dev/shm", JAIL_MOUNT_TMPFS, 01777 },
	{ "/run", JAIL_MOUNT_TMPFS, 0755 },
	{ "/tmp", JAIL_MOUNT_TMPFS, 01777 },
	/* Programs, and where names are looked up, on systems that keep them in /run. */
	{ "/etc/resolv.conf", JAIL_MOUNT_SEE, 0 },
	{ "/run/current-system", JAIL_MOUNT_SEE, 0 },
	{ "/run/opengl-driver", JAIL_MOUNT_SEE, 0 },
};

static bool has_mount(const struct view *v, const char *path)
{
	for (size_t i = 0; i < v->n_mounts; i++) {
		if (strcmp(v->mounts[i].path, path) == 0)
			return true;
	}
	return false;
}

/* Wherever it really is. */
static int add_standard(struct view *v, size_t which)
{
	AUTO_FREE char *path = realpath(standard[which].path, NULL);
	bool in_run = path && strncmp(path, "/run/", 5) == 0;
	int r;

	if (!path)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (has_mount(v, path) || (standard[which].kind == JAIL_MOUNT_SEE && !in_run))
		return 0;
	r = add_mount(v, standard[which].kind, path, NULL);
	if (r == 0)
		v->mounts[v->n_mounts - 1].mode = standard[which].mode;
	return r;
}

static int add_standards(struct view *v)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(standard) && r == 0; i++)
		r = add_standard(v, i);
	return r;
}

/* For /dev/console. */
static char *find_terminal(const struct jail_spec *spec)
{
	int fd = spec->stdio && spec->stdio[0] >= 0 ? spec->stdio[0] : STDIN_FILENO;
	char name[64];

	return ttyname_r(fd, name, sizeof(name)) == 0 ? strdup(name) : NULL;
}

static int compare(const void *a, const void *b)
{
	const struct view_mount *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	if (r != 0)
		return r;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Sorted by path, the last mount before it that it lies below is the innermost one. */
static void find_made(struct view *v)
{
	for (size_t i = 0; i < v->n_mounts; i++) {
		v->mounts[i].make = v->root_path != NULL;
		for (size_t j = i; j-- > 0;) {
			if (!is_below(v->mounts[i].path, v->mounts[j].path))
				continue;
			v->mounts[i].make = v->mounts[j].kind == JAIL_MOUNT_TMPFS ||
					    v->mounts[j].kind == JAIL_MOUNT_VEIL || v->mounts[j].kind == JAIL_MOUNT_DEV;
			break;
		}
	}
}

static void list_devices(struct strbuf *list, const char *path)
{
	strbuf_addf(list, "%s %s", LAYERS_DEVICES_DIR, path);
	strbuf_addc(list, '\0');
	for (size_t i = 0; dev_name(i); i++) {
		strbuf_addf(list, "%c %s/%s", LAYERS_POINT, path, dev_name(i));
		strbuf_addc(list, '\0');
	}
}

/* Lists for layers.c the private places, and the mount points in them, which no command made. */
static int list_places(struct view *v)
{
	AUTO_STRBUF list = STRBUF_INIT;

	for (size_t i = 0; i < v->n_mounts; i++) {
		const struct view_mount *vm = &v->mounts[i];

		strbuf_addf(&list, "%c %s", LAYERS_POINT, vm->path);
		strbuf_addc(&list, '\0');
		if (vm->kind == JAIL_MOUNT_DEV) {
			list_devices(&list, vm->path);
		} else if (vm->kind == JAIL_MOUNT_SCRATCH || vm->kind == JAIL_MOUNT_TMPFS) {
			strbuf_addf(&list, "%c%zu %s", vm->kind == JAIL_MOUNT_SCRATCH ? LAYERS_OVERLAY : LAYERS_EMPTY,
				    vm->order, vm->path);
			strbuf_addc(&list, '\0');
		}
	}
	v->places_size = list.size;
	v->places = strbuf_take(&list);
	return v->places || v->places_size == 0 ? 0 : -ENOMEM;
}

int view_new(const struct jail_spec *spec, struct view **ret, struct atoll_error *err)
{
	CLEANUP(cleanup_view) struct view *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return error_oom(err, operation);
	v->mounts = calloc(spec->n_mounts + ARRAY_SIZE(standard), sizeof(*v->mounts));
	if (!v->mounts)
		return error_oom(err, operation);
	mount_style(&v->style);
	/* What lies there is memory, and no process has it that could be limited. */
	if (spec->limits.memory)
		snprintf(v->style.tmpfs_size, sizeof(v->style.tmpfs_size), "%llu",
			 (unsigned long long)spec->limits.memory);
	v->root = jail_is_root();
	v->root_fd = v->stage = -EBADF;
	v->root_path = spec->root ? strdup(spec->root) : NULL;
	if (spec->root && !v->root_path)
		return error_oom(err, operation);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		if (m->path[0] != '/' || m->path[1] == '\0')
			return error_set(err, ATOLL_INVALID, 0, operation, m->path, "\"%s\" cannot be mounted over",
					 m->path);
		r = add_mount(v, m->kind, m->path, m);
		if (r < 0)
			return error_sys(err, r, operation, m->path, "cannot find the layers of \"%s\"", m->path);
	}
	r = spec->join ? 0 : add_standards(v);
	if (r < 0)
		return error_sys(err, r, operation, NULL, "cannot plan the private /tmp");
	r = spec->join ? 0 : shield_new(&v->shield);
	if (r < 0)
		return error_sys(err, r, operation, "/proc/self/mountinfo", "cannot read what is mounted");
	v->terminal = spec->join ? NULL : find_terminal(spec);
	qsort(v->mounts, v->n_mounts, sizeof(*v->mounts), compare);
	find_made(v);
	if (list_places(v) < 0)
		return error_oom(err, operation);
	*ret = TAKE_PTR(v);
	return 0;
}

static bool is_forbidden(int error)
{
	return error == EPERM || error == EACCES;
}

static int mount_error(const struct view *v, const struct view_failure *f, struct atoll_error *err)
{
	const char *path = v->mounts[f->mount].path;

	if (f->step == VIEW_STEP_LAYER && f->error == ESTALE)
		return error_set(err, ATOLL_CONFLICT, f->error, operation, path,
				 "\"%s\" or its workspace was moved or mounted over just now: try again", path);
	if (f->step == VIEW_STEP_LAYER)
		return error_sys(err, f->error, operation, path, "cannot open the layers of \"%s\"", path);
	if (f->step == VIEW_STEP_TARGET)
		return error_sys(err, f->error, operation, path, "there is no place for the view at \"%s\"", path);
	if (f->step == VIEW_STEP_MOUNT && is_forbidden(f->error))
		return error_set(err, ATOLL_UNSUPPORTED, f->error, operation, path,
				 "mounting a view at \"%s\" is not permitted here: see `atoll doctor`", path);
	/* A user namespace may not look below what the host has mounted there. */
	if (f->step == VIEW_STEP_MOUNT && f->error == EINVAL && !v->root && f->detail[0] == '\0')
		return error_set(err, ATOLL_UNSUPPORTED, f->error, operation, path,
				 "\"%s\" cannot be covered by a private layer: is something mounted below it?", path);
	if (f->detail[0] != '\0')
		return error_sys(err, f->error, operation, path, "cannot mount the view at \"%s\" (%s)", path,
				 f->detail);
	return error_sys(err, f->error, operation, path, "cannot mount the view at \"%s\"", path);
}

int view_no_process(struct atoll_error *err)
{
	return error_set(
		err, ATOLL_FAILED, EAGAIN, operation, NULL,
		"no further process can be started: the limit of your processes (ulimit -u) or that of your control "
		"group (pids.max) is reached");
}

int view_error(const struct view *v, const char *cwd, const struct view_failure *f, struct atoll_error *err)
{
	switch (f->step) {
	case VIEW_STEP_LAYER:
	case VIEW_STEP_MOUNT:
	case VIEW_STEP_TARGET:
	case VIEW_STEP_ATTACH:
		return mount_error(v, f, err);
	case VIEW_STEP_CWD:
		if (f->error == ENOENT || f->error == ENOTDIR)
			return error_set(
				err, ATOLL_NOT_FOUND, f->error, operation, cwd,
				"the directory \"%s\" does not exist inside the sandbox: start from another one", cwd);
		return error_sys(err, f->error, operation, cwd, "cannot enter \"%s\" inside the sandbox", cwd);
	case VIEW_STEP_NET:
		return error_sys(err, f->error, operation, NULL, "cannot set the sandbox's own network up");
	case VIEW_STEP_WALL:
		return error_sys(err, f->error, operation, NULL,
				 "cannot confine the command, so it is not run: the kernel, or a container's filter "
				 "of system calls, refuses %s",
				 f->detail);
	case VIEW_STEP_IDS:
		return error_sys(err, f->error, operation, NULL,
				 "cannot map your ids into a user namespace: see `atoll doctor`");
	case VIEW_STEP_PRIVATE:
		if (is_forbidden(f->error))
			return error_set(err, ATOLL_UNSUPPORTED, f->error, operation, NULL,
					 "mounting is not permitted in user namespaces here: see `atoll doctor`");
		return error_sys(err, f->error, operation, NULL, "cannot take the mounts apart from the host's");
	case VIEW_STEP_ROOT:
		if (v->root_path)
			return error_sys(err, f->error, operation, v->root_path, "\"%s\" cannot be taken as root",
					 v->root_path);
		return error_sys(err, f->error, operation, NULL, "cannot take a private, read-only root");
	case VIEW_STEP_SHIELD:
		return error_sys(err, f->error, operation, NULL, "cannot cover the host's sockets");
	case VIEW_STEP_PROC:
		return error_sys(err, f->error, operation, NULL, "cannot mount a private /proc");
	case VIEW_STEP_LIMIT:
		return error_sys(err, f->error, operation, NULL, "cannot limit what the command may use");
	case VIEW_STEP_NONE:
	case VIEW_STEP_START:
		break;
	}
	if (f->error == EAGAIN)
		return view_no_process(err);
	return error_sys(err, f->error, operation, NULL, "cannot start a process inside the sandbox");
}
