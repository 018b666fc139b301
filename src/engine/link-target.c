/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/link-target.h"

#include <fcntl.h>
#include <string.h>

#define LINKS_MAX 40 /* the kernel's own limit */

static const char *const system_trees[] = { "/usr",        "/bin",        "/sbin",     "/lib",
					    "/lib32",      "/lib64",      "/libx32",   "/etc",
					    "/opt",        "/nix",        "/dev/null", "/dev/stdin",
					    "/dev/stdout", "/dev/stderr", "/dev/fd",   "/run/current-system" };

/* Files of /proc; any other link in /proc may lead anywhere. */
static const char *const own_files[] = { "self/exe", "self/fd", "self/mountinfo", "self/mounts" };

struct walk {
	struct op *op;
	struct strbuf at; /* the directory that the walk has reached; "" is the root */
	char *rest;       /* the part of the path still to walk */
	int links;
	bool lost; /* the walk has passed a missing entry */
};

static void cleanup_walk(struct walk *w)
{
	strbuf_release(&w->at);
	free(w->rest);
}

/* ---- the tree as it will be after the commit ---- */

/* The path below the root of a resource, or NULL. */
static const char *path_in(const struct resource *r, const char *path)
{
	size_t size = strlen(r->root_path);

	return size > 1 && path_is_below(path, r->root_path) && path[size] == '/' ? path + size + 1 : NULL;
}

static size_t find_innermost(const struct op *op, const char *path)
{
	size_t found = op->s->n;

	for (size_t i = 0; i < op->s->n; i++)
		if (path_in(&op->s->resources[i], path) &&
		    (found == op->s->n ||
		     path_is_below(op->s->resources[i].root_path, op->s->resources[found].root_path)))
			found = i;
	return found;
}

static const struct change *find_landing(const struct op *op, size_t i, const char *path)
{
	const struct change *c = i < op->s->n && op->changes[i] ? changes_find(op->changes[i], path) : NULL;

	return c && c->kind != ATOLL_SKIPPED && !c->part && selection_has(&op->selections[i], path) ? c : NULL;
}

static int read_new_link(const struct resource *r, const char *path, char **ret)
{
	AUTO_FD workspace = resource_workspace(r);
	AUTO_FD dir = -EBADF;
	const char *name;
	int rc = workspace < 0 ? workspace : fd_open_parent(workspace, path, &dir, &name);

	return rc < 0 ? rc : fd_readlink(dir, name, ret);
}

/* Looks at the present tree. Returns 0 for a missing entry and for one that cannot be read. */
static int look_at_present(const char *path, char **ret_target)
{
	AUTO_FD fd = fd_open_absolute(path, O_PATH | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	return S_ISLNK(st.st_mode) && fd_readlink(fd, "", ret_target) < 0 ? 0 : 1;
}

/* Returns 1 if the entry exists after the commit, and 0 if not; *ret_target is the target of a
 * link. */
static int look(const struct walk *w, const char *path, char **ret_target)
{
	size_t i = find_innermost(w->op, path);
	const struct resource *r = i < w->op->s->n ? &w->op->s->resources[i] : NULL;
	const struct change *c = r ? find_landing(w->op, i, path_in(r, path)) : NULL;
	int rc = 0;

	if (!c)
		return look_at_present(path, ret_target);
	if (!c->has_after)
		return 0;
	if (S_ISLNK(c->after.mode))
		rc = read_new_link(r, c->path, ret_target);
	return rc < 0 ? rc : 1;
}

/* ---- the walk ---- */

static bool is_in_resource(const struct op *op, const char *path)
{
	for (size_t i = 0; i < op->s->n; i++)
		if (path_is_below(path, op->s->resources[i].row.path))
			return true;
	return false;
}

static bool is_in_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_trees); i++)
		if (path_is_below(path, system_trees[i]))
			return true;
	return false;
}

static bool climbs(const char *rest)
{
	for (; *rest; rest += strspn(rest, "/")) {
		size_t size = strcspn(rest, "/");

		if (size == 2 && rest[0] == '.' && rest[1] == '.')
			return true;
		rest += size;
	}
	return false;
}

static bool is_own_file(const char *rest)
{
	rest += strspn(rest, "/");
	for (size_t i = 0; i < ARRAY_SIZE(own_files); i++) {
		size_t size = strlen(own_files[i]);
		const char *more = rest + size;

		if (strncmp(rest, own_files[i], size) != 0)
			continue;
		/* Allow one open file by its number, but no path below it. */
		if (strcmp(own_files[i], "self/fd") == 0 && *more == '/')
			more += 1 + strspn(more + 1, "0123456789");
		if (*more == '\0')
			return true;
	}
	return false;
}

static void climb(struct walk *w)
{
	const char *slash = w->at.size ? strrchr(w->at.data, '/') : NULL;

	strbuf_truncate(&w->at, slash ? (size_t)(slash - w->at.data) : 0);
}

/* Puts the link's target in the place of its name. Takes over target. */
static int follow(struct walk *w, char *target)
{
	AUTO_FREE char *owned = target;
	char *rest = str_format(*w->rest ? "%s/%s" : "%s%s", owned, w->rest);

	if (!rest)
		return -ENOMEM;
	free(w->rest);
	w->rest = rest;
	if (*owned == '/')
		strbuf_truncate(&w->at, 0);
	else
		climb(w);
	return 0;
}

/* Walks one name further. Returns 1 once it is known where the link leads. */
static int enter(struct walk *w, const char *name, enum link_place *ret)
{
	char *target = NULL;
	const char *path;
	int r;

	strbuf_addf(&w->at, "/%s", name);
	path = strbuf_str(&w->at);
	if (w->lost)
		return 0;
	if (strcmp(path, "/proc") == 0) {
		*ret = is_own_file(w->rest) ? LINK_SYSTEM : LINK_OUTSIDE;
		return 1;
	}
	r = look(w, path, &target);
	if (r < 0)
		return r;
	w->lost = r == 0 || (target && ++w->links > LINKS_MAX);
	if (!target || w->lost) {
		free(target);
		return 0;
	}
	/* Do not follow a link of the system itself: its target is up to the system. But /dev/fd
	 * leads to the open files of the process, and a path below one of them may lead anywhere. */
	if (!is_in_resource(w->op, path) && is_in_system(path) && !path_is_below(path, "/dev") && !climbs(w->rest)) {
		free(target);
		*ret = LINK_SYSTEM;
		return 1;
	}
	return follow(w, target);
}

static int step(struct walk *w, enum link_place *ret)
{
	AUTO_FREE char *text = w->rest;
	char *name = text + strspn(text, "/"), *end = name + strcspn(name, "/");
	bool last = *end == '\0';

	*end = '\0';
	w->rest = strdup(last ? "" : end + 1);
	if (!w->rest)
		return -ENOMEM;
	if (*name == '\0' || strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") != 0)
		return enter(w, name, ret);
	if (w->lost) {
		*ret = LINK_OUTSIDE;
		return 1;
	}
	climb(w);
	return 0;
}

int link_target_place(struct op *op, const char *dir, const char *target, enum link_place *ret)
{
	CLEANUP(cleanup_walk) struct walk w = { .op = op, .at = STRBUF_INIT, .rest = strdup(target) };
	const char *path;
	int r = w.rest ? 0 : -ENOMEM;

	if (*target != '/' && strcmp(dir, "/") != 0)
		strbuf_adds(&w.at, dir);
	while (r == 0 && *w.rest)
		r = step(&w, ret);
	if (r != 0)
		return MIN(r, 0);
	path = strbuf_str(&w.at);
	*ret = is_in_resource(op, path) ? LINK_INSIDE : is_in_system(path) ? LINK_SYSTEM : LINK_OUTSIDE;
	return 0;
}
