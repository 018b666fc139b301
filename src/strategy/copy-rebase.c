/* SPDX-License-Identifier: Apache-2.0 */
/* A whole tree after a commit or undo: the baseline follows what landed or came back. */
#include "strategy/copy.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

struct rebase {
	struct resource *r;
	struct baseline *base;
	const char *top;
	struct peer peer;
	bool undone; /* the steps were taken back: mark the copy as to be compared */
	int tree_fd;
	int (*begin)(struct resource *r, struct base_entry *e);
};

/* A directory that landed has the attributes of its copy. If it has others, another process may have set them: they are not known then. */
static int know_landed(struct base_entry *entry, const struct tree_entry *e, int copy_dir, const char *copy_name)
{
	int r = base_xattrs_read(&entry->xattrs, copy_dir, copy_name);

	entry->settled = true;
	if (r >= 0)
		r = base_xattrs_read(&entry->original_xattrs, e->dirfd, e->name);
	if (r >= 0 && !base_xattrs_equal(&entry->xattrs, &entry->original_xattrs))
		base_xattrs_release(&entry->original_xattrs);
	return r;
}

/* Whether the copy has an entry at the path, and how it looks. */
static bool is_in_copy(struct rebase *b, const char *path, struct tree_stat *ret)
{
	int peer = peer_dir(&b->peer, path, path_parent_size(path));

	return peer >= 0 && tree_stat(peer, path_base_name(path), ret) >= 0;
}

/* Some filesystems keep coarser times than that of the copy, FAT those of two seconds. */
static bool is_same_time(int64_t original, int64_t copy)
{
	bool coarse = original % 1000000 == 0 && copy >= original - 2 * NSEC_PER_SEC &&
		      copy <= original + 2 * NSEC_PER_SEC;

	return original == copy || coarse;
}

/* If the original's file no longer looks like the copy that landed, another process has changed it. The
 * baseline gets the look of the copy, so that the next commit of the file finds the change. */
static void know_as_landed(struct store_look *original, const struct tree_stat *now, const struct tree_stat *copy)
{
	if (!S_ISREG(now->mode) || !S_ISREG(copy->mode) ||
	    (is_same_time(now->mtime, copy->mtime) && now->size == copy->size))
		return;
	store_look_set_times(original, copy);
	original->size = copy->size;
}

static int rebase_entry(const struct tree_entry *e, void *arg)
{
	struct rebase *b = arg;
	AUTO_FREE char *path = *e->path ? (*b->top ? str_format("%s/%s", b->top, e->path) : strdup(e->path))
					: strdup(b->top);
	struct base_entry *entry;
	struct tree_stat copy;
	bool found;
	int r;

	if (!path)
		return -ENOMEM;
	if (*path && resource_excludes(b->r, path))
		return TREE_WALK_SKIP;
	found = is_in_copy(b, path, &copy);
	/* Another process has made the entry since the commit. If the baseline had it, the next diff would
	 * say that a command inside has deleted it. */
	if (!found && !b->undone)
		return S_ISDIR(e->stat.mode) ? TREE_WALK_SKIP : TREE_WALK_GO;
	entry = baseline_add(b->base, path);
	if (!entry)
		return -ENOMEM;
	r = resource_look(e->dirfd, e->name, &e->stat, &entry->original);
	if (r < 0)
		return r;
	entry->special = tree_is_special(e->stat.mode);
	entry->whole = b->base->partial;
	if (!found)
		return TREE_WALK_GO;
	copy_describe(entry, &copy);
	if (b->undone)
		entry->ctime = 0;
	else if (S_ISDIR(copy.mode) && S_ISDIR(e->stat.mode))
		r = know_landed(entry, e, peer_dir(&b->peer, path, path_parent_size(path)), path_base_name(path));
	else
		know_as_landed(&entry->original, &e->stat, &copy);
	return r < 0 ? r : TREE_WALK_GO;
}

static bool moves_entries(const struct store_step *step)
{
	return step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_INSTALL || step->kind == STORE_STEP_TAKE;
}

/* Whether a directory landed without its content: what is below it landed by steps of its own, or not at all. */
static bool is_alone(const struct rebase *b, const struct store_step *step)
{
	return !b->undone && moves_entries(step) && step->slot && step->slot[0] == 'd';
}

static int compare_paths(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

/* The topmost paths at which the steps moved entries, sorted. */
static int collect_tops(const struct rebase *b, const struct store_step *steps, size_t n, const char ***ret,
			size_t *ret_n)
{
	const struct resource *r = b->r;
	const char **tops = reallocarray(NULL, n ? n : 1, sizeof *tops);
	size_t count = 0, kept = 0;

	if (!tops)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (steps[i].resource == r->row.id && moves_entries(&steps[i]) && !is_alone(b, &steps[i]))
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
			base_entry_release(&b->v[i]);
		else
			b->v[kept++] = b->v[i];
	}
	b->n = kept;
}

static bool is_of_directory(const struct resource *r, const struct store_step *step)
{
	return step->resource == r->row.id && !step->dropped &&
	       (step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME);
}

static void drop_repeated(struct baseline *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->n; i++)
		if (kept && strcmp(b->v[kept - 1].path, b->v[i].path) == 0)
			base_entry_release(&b->v[i]);
		else
			b->v[kept++] = b->v[i];
	b->n = kept;
}

/* Fills in the new entry of a directory that had none: its base is the metadata that the copy has
 * now. Returns 0 if neither the original nor the copy has the directory: since the commit, another
 * process has removed it, and a rollback has made the copy anew. */
static int begin_entry(struct rebase *b, struct base_entry *entry, bool absent)
{
	AUTO_FD fd = fd_open_beneath(b->tree_fd, entry->path, O_PATH | O_DIRECTORY);
	AUTO_FD original = fd_open_beneath(b->r->root_fd, entry->path, O_PATH | O_DIRECTORY);
	struct tree_stat st;
	int r = b->begin && !absent ? b->begin(b->r, entry) : 0;

	if (r != 0 || (original < 0 && fd < 0))
		return r;
	if (original >= 0 && tree_stat(original, "", &st) >= 0)
		r = resource_look(original, "", &st, &entry->original);
	if (r >= 0 && fd >= 0 && tree_stat(fd, "", &st) >= 0) {
		copy_describe(entry, &st);
		entry->settled = true;
		r = base_xattrs_read(&entry->xattrs, fd, "");
	}
	return r < 0 ? r : 1;
}

/* Which directory that stayed a step concerns, malloc'ed: its own, or the one in which it has landed something. *ret NULL: none. */
static int directory_of(const struct rebase *b, const struct store_step *step, char **ret)
{
	bool own = is_of_directory(b->r, step);
	bool above = !own && !b->undone && step->resource == b->r->row.id && !step->dropped && moves_entries(step);

	*ret = own || above ? strndup(step->path, own ? strlen(step->path) : path_parent_size(step->path)) : NULL;
	return *ret || !(own || above) ? 0 : -ENOMEM;
}

/* A partial baseline has no entry yet for a directory that stayed. */
static int add_directories(struct rebase *b, const struct store_step *steps, size_t n)
{
	struct baseline known = *b->base;
	AUTO_FREE char *last = NULL;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		struct base_entry *entry = NULL;
		AUTO_FREE char *path = NULL;

		r = directory_of(b, &steps[i], &path);
		if (r < 0 || !path || (last && strcmp(last, path) == 0))
			continue;
		r = baseline_look(&known, path, &entry);
		if (r < 0 || entry)
			continue;
		entry = baseline_add(b->base, path);
		r = entry ? begin_entry(b, entry, r > 0) : -ENOMEM;
		if (r == 0)
			base_entry_release(&b->base->v[--b->base->n]);
		known.v = b->base->v;
		free(last);
		last = TAKE_PTR(path);
	}
	baseline_sort(b->base);
	drop_repeated(b->base);
	return r;
}

/* Mode, owner and attributes of a directory that stayed are what the step has set, on either side of it. */
static int rebase_meta(struct rebase *b, struct base_entry *e, const struct store_step *step,
		       const struct tree_stat *copy, int copy_fd)
{
	const struct store_look *look = b->undone ? &step->before : &step->after;
	const char *xattrs = b->undone ? step->xattrs_before : step->xattrs_after;
	size_t size = b->undone ? step->xattrs_before_size : step->xattrs_after_size;
	/* The other side's attributes are back, and must conflict once more: they are not what the baseline has. */
	bool conflicts = b->undone && step->overrides;
	int r = conflicts ? 0 : base_xattrs_set(&e->original_xattrs, xattrs, size);

	e->original.id = step->before.id;
	if (!conflicts) {
		e->original.mode = look->mode;
		e->original.uid = look->uid;
		e->original.gid = look->gid;
	}
	if (r < 0 || copy_fd < 0)
		return r;
	if (!b->undone) {
		e->mode = copy->mode;
		e->uid = copy->uid;
		e->gid = copy->gid;
		/* The mtime is no edit any more: a TIME step has set it in the original, or another process has worked in that directory. */
		e->mtime = copy->mtime;
		return base_xattrs_read(&e->xattrs, copy_fd, "");
	}
	/* What the step did not change is as it was before it: an ordinary user's copy has another owner than the original. */
	e->mode = step->before.mode;
	if (step->before.uid != step->after.uid)
		e->uid = step->before.uid;
	if (step->before.gid != step->after.gid)
		e->gid = step->before.gid;
	if (size == step->xattrs_after_size && xattrs && memcmp(xattrs, step->xattrs_after, size) == 0)
		return 0;
	return base_xattrs_set(&e->xattrs, xattrs, size);
}

/* Whether mode, owner and attributes of the copy are those that are known to have landed, or to have been there before. */
static int has_only_landed(const struct base_entry *e, const struct tree_stat *copy, int copy_fd)
{
	struct base_xattrs now = { 0 };
	int r;

	if (!e->settled || e->mode != copy->mode || e->uid != copy->uid || e->gid != copy->gid)
		return 0;
	r = base_xattrs_read(&now, copy_fd, "");
	if (r >= 0)
		r = base_xattrs_equal(&now, &e->xattrs);
	base_xattrs_release(&now);
	return r;
}

/* If a commit changed no names in a directory, its undo leaves the directory the time that another
 * process gave it since. The copy gets that time too, unless a command inside has set the copy's
 * time; otherwise the next commit would land the older time. */
static int follow_time(const struct rebase *b, const struct base_entry *e, const struct store_step *step,
		       const struct tree_stat *copy, int copy_fd)
{
	const struct store_look *look = &step->before;
	const struct timespec times[2] = { clock_timespec_of_era(look->atime, look->atime_era),
					   clock_timespec_of_era(look->mtime, look->mtime_era) };

	if (!b->undone || look->mtime != step->after.mtime || copy->mtime != e->mtime || copy->mtime == look->mtime)
		return 0;
	return sys_utimens(copy_fd, "", times);
}

/* A directory that stayed: what the step has set is the base, all else of its metadata stays an edit of the sandbox if it was one. */
static int rebase_directory(struct rebase *b, const struct store_step *step)
{
	AUTO_FD fd = fd_open_beneath(b->tree_fd, step->path, O_PATH | O_DIRECTORY);
	const struct store_look *look = b->undone ? &step->before : &step->after;
	struct base_entry *entry = baseline_find(b->base, step->path);
	struct tree_stat st = { 0 };
	int r = 0;

	if (!entry)
		return 0;
	/* An older baseline has what the copy was in the beginning, unless it came back by an undo. */
	entry->settled |= entry->ctime != 0;
	if (fd >= 0) {
		r = tree_stat(fd, "", &st);
		entry->ino = st.ino;
		entry->btime = st.btime;
		/* A TIME step lands no other metadata. If the copy has unlanded metadata, the old ctime makes the next diff compare it. */
		if (r >= 0)
			r = b->undone || step->kind == STORE_STEP_META ? 1 : has_only_landed(entry, &st, fd);
		if (r > 0)
			entry->ctime = b->undone ? 0 : st.ctime;
	}
	if (r >= 0 && step->kind == STORE_STEP_META)
		return rebase_meta(b, entry, step, &st, fd);
	if (r >= 0 && fd >= 0)
		r = follow_time(b, entry, step, &st, fd);
	store_look_copy_times(&entry->original, look);
	entry->mtime = look->mtime;
	return MIN(r, 0);
}

/* The time of a directory in which something landed moved with that, and is no edit of its own: also where it was not set in the original,
 * because another process has changed the directory meanwhile. */
static int settle_time(struct rebase *b, const struct store_step *step)
{
	AUTO_FREE char *path = NULL;
	struct base_entry *entry;
	struct tree_stat st;
	int r = directory_of(b, step, &path);
	int dir = r < 0 || !path ? -ENOENT : peer_dir(&b->peer, path, strlen(path));

	entry = dir < 0 ? NULL : baseline_find(b->base, path);
	if (!entry)
		return r;
	r = tree_stat(dir, "", &st);
	if (r >= 0)
		entry->mtime = st.mtime;
	return r;
}

static int rebase_directories(struct rebase *b, const struct store_step *steps, size_t n)
{
	int rc = b->base->partial ? add_directories(b, steps, n) : 0;

	for (size_t i = 0; i < n && rc >= 0; i++)
		if (is_of_directory(b->r, &steps[i]))
			rc = rebase_directory(b, &steps[i]);
		else
			rc = settle_time(b, &steps[i]);
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

static void drop_entry(struct baseline *b, const char *path)
{
	struct base_entry *e = baseline_find(b, path);

	if (!e)
		return;
	base_entry_release(e);
	memmove(e, e + 1, (size_t)(b->v + b->n - (e + 1)) * sizeof *e);
	b->n--;
}

/* A directory that landed without its content: it alone. */
static int rebase_alone(struct rebase *b, const char *path)
{
	AUTO_FD fd = fd_open_beneath(b->r->root_fd, path, O_PATH | O_DIRECTORY);
	struct tree_entry e = { .dirfd = fd, .name = "", .path = "", .fd = -EBADF };
	int r = fd < 0 ? fd : tree_stat(fd, "", &e.stat);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	b->top = path;
	if (r >= 0)
		r = rebase_entry(&e, b);
	if (r == TREE_WALK_GO)
		b->base->v[b->base->n - 1].whole = false;
	return MIN(r, 0);
}

static int rebase_all_alone(struct rebase *b, const struct store_step *steps, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (steps[i].resource == b->r->row.id && is_alone(b, &steps[i]))
			drop_entry(b->base, steps[i].path);
	for (size_t i = 0; i < n && r >= 0; i++)
		if (steps[i].resource == b->r->row.id && is_alone(b, &steps[i]))
			r = rebase_alone(b, steps[i].path);
	baseline_sort(b->base);
	return r;
}

static int rebase_tops(struct rebase *b, const char *const *tops, size_t n)
{
	drop_tops(b->base, tops, n);
	for (size_t i = 0; i < n; i++) {
		AUTO_FD fd = fd_open_beneath(b->r->root_fd, tops[i], O_PATH);
		struct tree_stat copy;
		int rc;

		b->top = tops[i];
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || (!b->undone && !is_in_copy(b, tops[i], &copy)))
			rc = add_absent(b, tops[i]);
		else
			rc = fd < 0 ? fd : tree_walk(fd, 0, rebase_entry, b, NULL);
		if (rc < 0)
			return rc;
	}
	baseline_sort(b->base);
	return 0;
}

/* The landed content is not that of the copy. Without a ctime in the baseline, the next diff compares
 * the copy with the original. */
static void doubt_contents(struct rebase *b, const struct store_step *steps, size_t n)
{
	for (size_t i = 0; i < n && !b->undone; i++) {
		bool is_given = steps[i].resource == b->r->row.id && moves_entries(&steps[i]) && steps[i].slot &&
				steps[i].slot[0] == 'h';
		struct base_entry *e = is_given ? baseline_find(b->base, steps[i].path) : NULL;

		if (!e)
			continue;
		e->ctime = 0;
		store_look_copy_times(&e->original, &steps[i].after);
		e->original.size = steps[i].after.size;
	}
}

int copy_rebase(struct resource *r, struct baseline *base, const struct store_step *steps, size_t n, bool undone,
		int (*begin)(struct resource *r, struct base_entry *e), struct atoll_error *err)
{
	AUTO_FD tree = fd_open_beneath(r->work_fd, COPY_TREE, O_RDONLY | O_DIRECTORY);
	struct rebase b = {
		.r = r, .base = base, .peer = { tree, NULL, -EBADF }, .undone = undone, .tree_fd = tree, .begin = begin
	};
	AUTO_FREE const char **tops = NULL;
	size_t n_tops = 0;
	int rc = tree < 0 ? tree : rebase_directories(&b, steps, n);

	if (rc >= 0)
		rc = rebase_all_alone(&b, steps, n);
	if (rc >= 0)
		rc = collect_tops(&b, steps, n, &tops, &n_tops);
	if (rc >= 0)
		rc = rebase_tops(&b, tops, n_tops);
	if (rc >= 0)
		doubt_contents(&b, steps, n);
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

	return rc < 0 ? rc : copy_rebase(r, base, steps, n, false, NULL, err);
}

int copy_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	struct baseline *base = NULL;
	int rc = load_afresh(r, &base, err);

	return rc < 0 ? rc : copy_rebase(r, base, steps, n, true, NULL, err);
}
