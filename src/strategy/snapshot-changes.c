/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was changed in a snapshot's workspace. As root only what the filesystem knows to have been touched is looked at; a directory that
 * was made, moved here or put in the place of another is walked as a whole, for what is in it need not have been touched. Otherwise the
 * workspace is walked, and each entry compared by its stat with the same path of `base`. Both visit in the same order and judge alike. What
 * is missing is found by the names that the touched directories have in `base`.
 */
#include "strategy/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"

struct paths {
	char **v;
	size_t n, capacity;
};

struct search {
	struct copy_walk copy; /* its argument is this */
	struct snapshot *s;
	struct peer base, tree;
	struct base_entry scratch;
	const struct base_entry *found; /* of the latest path */
	bool from_base;                 /* it was read there */
	struct baseline missing;
	const char *prefix; /* of what is walked below a directory */
	struct paths touched;
};

static void release_search(struct search *w)
{
	copy_walk_release(&w->copy);
	peer_release(&w->base);
	peer_release(&w->tree);
	for (size_t i = 0; i < w->missing.n; i++)
		free(w->missing.v[i].path);
	free(w->missing.v);
	for (size_t i = 0; i < w->touched.n; i++)
		free(w->touched.v[i]);
	free(w->touched.v);
}

/* ---- one entry ---- */

static int find_in_base(struct copy_walk *copy, const char *path, struct base_entry **ret)
{
	struct search *w = copy->arg;
	struct base_entry *e = NULL;
	struct tree_stat st;
	int r = baseline_look(w->s->record, path, &e);

	w->from_base = r == 0;
	if (r == 0)
		r = snapshot_stat(w->s, &w->base, path, &st);
	if (r > 0 && w->from_base) {
		w->scratch = (struct base_entry){ 0 };
		copy_describe(&w->scratch, &st);
		w->scratch.settled = true;
		e = &w->scratch;
	}
	w->found = *ret = r < 0 ? NULL : e;
	return MIN(r, 0);
}

static int read_attributes(struct copy_walk *copy, const char *path, struct base_xattrs *ret)
{
	struct search *w = copy->arg;
	int dir;

	if (!w->from_base)
		return base_xattrs_set(ret, w->found->xattrs.data, w->found->xattrs.size);
	dir = peer_dir(&w->base, path, path_parent_size(path));
	return dir < 0 ? dir : base_xattrs_read(ret, dir, path_base_name(path));
}

static int add_missing_name(struct search *w, const char *dir, const char *name)
{
	AUTO_FREE char *path = *dir ? str_format("%s/%s", dir, name) : strdup(name);
	struct base_entry *recorded;
	int r;

	if (!path)
		return -ENOMEM;
	if (resource_excludes(w->copy.classify.r, path))
		return 0;
	r = baseline_look(w->s->record, path, &recorded);
	if (r != 0)
		return MIN(r, 0);
	return baseline_add(&w->missing, path) ? 0 : -ENOMEM;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int list_missing(struct search *w, const struct tree_entry *e, int base_fd)
{
	AUTO_FD tree = openat(e->dirfd, *e->name ? e->name : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(close_dir) DIR *dir = fdopendir(base_fd);
	struct dirent *d;
	int r = 0;

	if (!dir)
		fd_close(base_fd);
	if (!dir || tree < 0)
		return -errno;
	while (r >= 0 && (errno = 0, d = readdir(dir))) {
		struct stat st;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    fstatat(tree, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		r = errno == ENOENT ? add_missing_name(w, e->path, d->d_name) : -errno;
	}
	return r < 0 ? r : -errno;
}

/* What `base` has in a directory that was touched, or is another one now, and the workspace has not. Of one that is recorded with
 * everything below it, the record tells. */
static int find_missing_in(struct search *w, const struct tree_entry *e)
{
	const struct base_entry *b = w->found;
	int fd;

	if (!b || (w->from_base ? !S_ISDIR(b->mode) || (b->ino == e->stat.ino && b->ctime == e->stat.ctime) : b->whole))
		return 0;
	fd = fd_open_beneath(w->s->base_fd, e->path, O_RDONLY | O_DIRECTORY);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	return fd < 0 ? fd : list_missing(w, e, fd);
}

static int visit(const struct tree_entry *e, void *arg)
{
	struct search *w = arg;
	int r;

	w->found = NULL;
	r = copy_visit(e, &w->copy);
	if (r != TREE_WALK_GO || !S_ISDIR(e->stat.mode))
		return r;
	r = find_missing_in(w, e);
	return r < 0 ? r : TREE_WALK_GO;
}

/* ---- by what was touched ---- */

static int add_touched(const char *path, void *arg)
{
	struct paths *p = arg;

	if (p->n == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 64;
		char **grown = reallocarray(p->v, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		p->v = grown;
		p->capacity = capacity;
	}
	p->v[p->n] = strdup(path);
	return p->v[p->n++] ? 0 : -ENOMEM;
}

static int compare_paths(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

static int refuse_subvolume(const char *path, void *arg)
{
	return -EOPNOTSUPP;
}

/* In order. What was recorded may have to be compared though nobody touched it. */
static int collect_touched(struct search *w, int tree_fd)
{
	struct paths *p = &w->touched;
	/* What a command put into a subvolume of its own is not in this one's tree of metadata. */
	int r = tree_subvolumes_in(tree_fd, refuse_subvolume, NULL);

	if (r == 0)
		r = tree_subvolume_touched(tree_fd, w->s->generation, add_touched, p);
	for (size_t i = 0; i < w->s->record->n && r >= 0; i++)
		r = add_touched(w->s->record->v[i].path, p);
	if (r >= 0 && p->n)
		qsort(p->v, p->n, sizeof *p->v, compare_paths);
	return r;
}

static int visit_below(const struct tree_entry *e, void *arg)
{
	struct search *w = arg;
	AUTO_FREE char *path = str_format("%s/%s", w->prefix, e->path);
	struct tree_entry whole = *e;

	if (!path)
		return -ENOMEM;
	whole.path = path;
	return visit(&whole, w);
}

static int walk_below(struct search *w, const char *path)
{
	AUTO_FD fd = fd_open_beneath(w->tree.root_fd, path, O_RDONLY | O_DIRECTORY);

	w->prefix = path;
	return fd < 0 ? fd : tree_walk(fd, TREE_WALK_SORTED | TREE_WALK_NO_ROOT, visit_below, w, NULL);
}

/* Whether a directory is the one it was in the beginning, so that what was not touched in it is as it was. What landed as a whole, or
 * came back, is another beginning. 1, 0 or -errno. */
static int is_as_begun(struct search *w, const struct tree_entry *e)
{
	struct tree_stat st;
	int r;

	if (!w->found || (!w->from_base && w->found->whole))
		return 0;
	r = snapshot_stat(w->s, &w->base, e->path, &st);
	return r > 0 ? S_ISDIR(st.mode) && st.ino == e->stat.ino : r;
}

/* 1 if everything below is done with. */
static int visit_touched(struct search *w, const char *path)
{
	int dir = peer_dir(&w->tree, path, path_parent_size(path));
	struct tree_entry e = { .dirfd = dir, .name = path_base_name(path), .path = path, .fd = -EBADF };
	int r = dir < 0 ? dir : tree_stat(dir, e.name, &e.stat);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || resource_is_others(w->copy.classify.r, path))
		return 0;
	if (r >= 0)
		r = visit(&e, w);
	if (r < 0 || !S_ISDIR(e.stat.mode))
		return MIN(r, 0);
	if (r == TREE_WALK_SKIP)
		return 1;
	r = is_as_begun(w, &e);
	if (r != 0)
		return MIN(r, 0);
	r = walk_below(w, path);
	return r < 0 ? r : 1;
}

/* Whether the error means lost data or a lack of memory. After every other error only the search is impossible here, and a walk of the
 * workspace finds the same changes. */
static bool is_grave(int r)
{
	return r == -ENOMEM || r == -EIO || r == -ENOSPC || r == -EDQUOT || r == -EROFS;
}

/* 1: done; 0: it cannot be told by what was touched. */
static int search_touched(struct search *w, int tree_fd, char **ret_path)
{
	const char *done = NULL;
	int r = collect_touched(w, tree_fd);

	if (r < 0)
		return is_grave(r) ? r : 0;
	for (size_t i = 0; i < w->touched.n; i++) {
		const char *path = w->touched.v[i];

		if ((i && strcmp(path, w->touched.v[i - 1]) == 0) || (done && path_is_below(path, done)))
			continue;
		r = visit_touched(w, path);
		if (r < 0) {
			*ret_path = strdup(path);
			return r;
		}
		if (r > 0)
			done = path;
	}
	return 1;
}

/* ---- all ---- */

/* What landed since and is gone again is known from the record alone. */
static int find_missing(struct search *w)
{
	for (size_t i = 0; i < w->s->record->n; i++) {
		const struct base_entry *e = &w->s->record->v[i];

		if (!e->seen && !e->absent && !baseline_add(&w->missing, e->path))
			return -ENOMEM;
	}
	baseline_sort(&w->missing);
	return copy_find_missing(&w->copy, &w->missing);
}

static int search(struct search *w, int tree_fd, enum snapshot_way way, char **ret_path)
{
	int r;

	for (size_t i = 0; i < w->s->record->n; i++)
		w->s->record->v[i].seen = false;
	r = way == SNAPSHOT_BY_WALK ? 0 : search_touched(w, tree_fd, ret_path);
	if (r == 0 && way == SNAPSHOT_BY_SEARCH)
		return -EOPNOTSUPP;
	if (r == 0)
		r = tree_walk(tree_fd, TREE_WALK_SORTED, visit, w, ret_path);
	return r < 0 ? r : find_missing(w);
}

struct changes *snapshot_changes(struct resource *r, bool exact, enum snapshot_way way, struct atoll_error *err)
{
	CLEANUP(cleanup_changes) struct changes *changes = changes_new();
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	struct search w = { .copy = { .classify = { r, changes, { r->root_fd, NULL, -EBADF }, exact } } };
	AUTO_FREE char *path = NULL;
	bool walks;
	int rc;

	if (!changes) {
		error_oom(err, "diff");
		return NULL;
	}
	if (tree < 0) {
		error_sys(err, tree, "diff", r->row.path, "the workspace of \"%s\" is gone from \"%s\"", r->row.path,
			  r->row.work);
		return NULL;
	}
	if (snapshot_load(r, &w.s, err) < 0)
		return NULL;
	w.copy.find = find_in_base;
	w.copy.xattrs = read_attributes;
	w.copy.arg = &w;
	w.base = (struct peer){ w.s->base_fd, NULL, -EBADF };
	w.tree = (struct peer){ tree, NULL, -EBADF };
	rc = search(&w, tree, way, &path);
	if (rc >= 0)
		rc = copy_find_linked(&w.copy, tree);
	walks = rc >= 0 && way != SNAPSHOT_BY_WALK && copy_lacks_names(changes);
	if (rc >= 0 && !walks)
		rc = changes_settle_links(changes);
	release_search(&w);
	/* A directory was moved, and a file in it has a name elsewhere, which the filesystem does not know to have been touched. */
	if (walks)
		return snapshot_changes(r, exact, SNAPSHOT_BY_WALK, err);
	if (rc < 0) {
		error_sys(err, rc, "diff", r->row.path, "cannot read the changes of \"%s\" at \"%s\"", r->row.path,
			  path ? path : "");
		return NULL;
	}
	return TAKE_PTR(changes);
}
