/* SPDX-License-Identifier: Apache-2.0 */
/* A whole tree after a commit or undo: the baseline follows what landed or came back. */
#include "strategy/copy.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

struct rebase {
	struct resource *r;
	struct baseline *base;
	const char *top;
	struct peer peer;
	bool compare; /* mark the copy as to be compared */
	int tree_fd;
};

static int rebase_entry(const struct tree_entry *e, void *arg)
{
	struct rebase *b = arg;
	AUTO_FREE char *path = *e->path ? (*b->top ? str_format("%s/%s", b->top, e->path) : strdup(e->path))
					: strdup(b->top);
	struct base_entry *entry;
	struct tree_stat copy;
	int peer, r;

	if (!path)
		return -ENOMEM;
	if (*path && resource_excludes(b->r, path))
		return TREE_WALK_SKIP;
	entry = baseline_add(b->base, path);
	if (!entry)
		return -ENOMEM;
	r = resource_look(e->dirfd, e->name, &e->stat, &entry->original);
	if (r < 0)
		return r;
	entry->special = tree_is_special(e->stat.mode);
	entry->whole = b->base->partial;
	peer = peer_dir(&b->peer, path, path_parent_size(path));
	if (peer >= 0 && tree_stat(peer, path_base_name(path), &copy) >= 0) {
		copy_describe(entry, &copy);
		if (b->compare)
			entry->ctime = 0;
	}
	return TREE_WALK_GO;
}

static bool moves_entries(const struct store_step *step)
{
	return step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_INSTALL || step->kind == STORE_STEP_TAKE;
}

static int compare_paths(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

/* The topmost paths at which the steps moved entries, sorted. */
static int collect_tops(struct resource *r, const struct store_step *steps, size_t n, const char ***ret, size_t *ret_n)
{
	const char **tops = reallocarray(NULL, n ? n : 1, sizeof *tops);
	size_t count = 0, kept = 0;

	if (!tops)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (steps[i].resource == r->row.id && moves_entries(&steps[i]))
			tops[count++] = steps[i].path;
	qsort(tops, count, sizeof *tops, compare_paths);
	for (size_t i = 0; i < count; i++)
		if (!kept || !path_is_below(tops[i], tops[kept - 1]))
			tops[kept++] = tops[i];
	*ret = tops;
	*ret_n = kept;
	return 0;
}

static void drop_tops(struct baseline *b, const char *const *tops, size_t n)
{
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < b->n; i++) {
		while (at < n && path_compare(tops[at], b->v[i].path) < 0 && !path_is_below(b->v[i].path, tops[at]))
			at++;
		if (at < n && path_is_below(b->v[i].path, tops[at]))
			free(b->v[i].path);
		else
			b->v[kept++] = b->v[i];
	}
	b->n = kept;
}

static bool is_of_directory(const struct resource *r, const struct store_step *step)
{
	return step->resource == r->row.id && (step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME);
}

static void drop_repeated(struct baseline *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->n; i++)
		if (kept && strcmp(b->v[kept - 1].path, b->v[i].path) == 0)
			free(b->v[i].path);
		else
			b->v[kept++] = b->v[i];
	b->n = kept;
}

/* A partial baseline has no entry yet for a directory that stayed. */
static int add_directories(struct rebase *b, const struct store_step *steps, size_t n)
{
	struct baseline known = *b->base;

	for (size_t i = 0; i < n; i++)
		if (is_of_directory(b->r, &steps[i]) && !baseline_find(&known, steps[i].path)) {
			if (!baseline_add(b->base, steps[i].path))
				return -ENOMEM;
			known.v = b->base->v;
		}
	baseline_sort(b->base);
	drop_repeated(b->base);
	return 0;
}

/* A directory that stayed: its copy, as it is, is the base of its own metadata. */
static void rebase_directory(struct rebase *b, const char *path)
{
	AUTO_FD fd = fd_open_beneath(b->tree_fd, path, O_PATH | O_DIRECTORY);
	AUTO_FD original = fd_open_beneath(b->r->root_fd, path, O_PATH | O_DIRECTORY);
	struct base_entry *entry = baseline_find(b->base, path);
	struct store_look look;
	struct tree_stat st;

	if (!entry)
		return;
	if (original >= 0 && tree_stat(original, "", &st) >= 0 && resource_look(original, "", &st, &look) >= 0)
		entry->original = look;
	if (fd < 0 || tree_stat(fd, "", &st) < 0)
		return;
	copy_describe(entry, &st);
	if (b->compare)
		entry->ctime = 0;
}

static int rebase_directories(struct rebase *b, const struct store_step *steps, size_t n)
{
	int rc = b->base->partial ? add_directories(b, steps, n) : 0;

	for (size_t i = 0; i < n && rc >= 0; i++)
		if (is_of_directory(b->r, &steps[i]))
			rebase_directory(b, steps[i].path);
	return rc;
}

/* Of a partial baseline: what is no longer there must be known not to be. */
static int add_absent(struct rebase *b, const char *path)
{
	struct base_entry *entry = b->base->partial ? baseline_add(b->base, path) : NULL;

	if (entry)
		entry->whole = entry->absent = true;
	return entry || !b->base->partial ? 0 : -ENOMEM;
}

static int rebase_tops(struct rebase *b, const char *const *tops, size_t n)
{
	drop_tops(b->base, tops, n);
	for (size_t i = 0; i < n; i++) {
		AUTO_FD fd = fd_open_beneath(b->r->root_fd, tops[i], O_PATH);
		int rc;

		b->top = tops[i];
		if (fd == -ENOENT || fd == -ENOTDIR)
			rc = add_absent(b, tops[i]);
		else
			rc = fd < 0 ? fd : tree_walk(fd, 0, rebase_entry, b, NULL);
		if (rc < 0)
			return rc;
	}
	baseline_sort(b->base);
	return 0;
}

int copy_rebase(struct resource *r, struct baseline *base, const struct store_step *steps, size_t n, bool compare,
		struct atoll_error *err)
{
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	struct rebase b = { .r = r, .base = base, .peer = { tree, NULL, -EBADF }, .compare = compare, .tree_fd = tree };
	AUTO_FREE const char **tops = NULL;
	size_t n_tops = 0;
	int rc = tree < 0 ? tree : rebase_directories(&b, steps, n);

	if (rc >= 0)
		rc = collect_tops(r, steps, n, &tops, &n_tops);
	if (rc >= 0)
		rc = rebase_tops(&b, tops, n_tops);
	peer_release(&b.peer);
	if (rc >= 0)
		rc = baseline_save(r->work_fd, COPY_BASELINE, base);
	if (rc >= 0)
		rc = copy_settle(r->work_fd);
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot renew the baseline of \"%s\" in \"%s\"",
				 r->row.path, r->row.work);
	return 0;
}

/* Files of one directory share a baseline: another of them may have renewed it. */
static int load_afresh(struct resource *r, struct baseline **ret, struct atoll_error *err)
{
	copy_release(r);
	return copy_load(r, ret, err);
}

int copy_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	struct baseline *base = NULL;
	int rc = load_afresh(r, &base, err);

	return rc < 0 ? rc : copy_rebase(r, base, steps, n, false, err);
}

int copy_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	struct baseline *base = NULL;
	int rc = load_afresh(r, &base, err);

	return rc < 0 ? rc : copy_rebase(r, base, steps, n, true, err);
}
