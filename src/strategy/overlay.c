/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: kernel overlayfs over the original. At rest the workspace is two directories, upper and work; they are mounted only
 * inside the namespace of a run. The change set is read from the upper layer:
 *
 *	character device 0/0   the original was removed
 *	opaque directory       hides everything of the original below it
 *	directory              merges with the original's
 *	anything else          stands in place of the original's
 */
#include "strategy/strategies.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

#define UPPER OVERLAY_UPPER
#define WORK "work"

struct touches {
	struct store_touch *v;
	size_t n;
};

/* The name of an empty directory beside the upper layer. It records the namespace of the layer's overlay attributes: a process that
 * uses the other namespace would miss the deletions in the layer. */
static const char *record_of(enum tree_marks marks)
{
	return marks == TREE_MARKS_TRUSTED ? "trusted-marks" : "user-marks";
}

bool resource_knows_marks(const struct resource *r)
{
	enum tree_marks marks = resource_marks(r);
	const char *others = record_of(marks == TREE_MARKS_TRUSTED ? TREE_MARKS_USER : TREE_MARKS_TRUSTED);

	return r->host || marks == TREE_MARKS_NONE || r->work_fd < 0 || faccessat(r->work_fd, others, F_OK, 0) < 0;
}

int overlay_begin(struct resource *r, struct atoll_error *err)
{
	struct tree_copy_report report = { 0 };
	int rc = tree_copy_entry(r->root_fd, "", r->work_fd, UPPER, TREE_COPY_KEEP_SET_ID | resource_marks(r), &report);

	if (rc >= 0)
		rc = sys_mkdir(r->work_fd, record_of(resource_marks(r)), 0700);
	if (rc >= 0 || rc == -EEXIST)
		rc = sys_mkdir(r->work_fd, WORK, 0700);
	if (rc < 0)
		return error_sys(err, rc, "new", r->row.path, "cannot make the workspace of \"%s\" in \"%s\"",
				 r->row.path, r->row.work);
	return 0;
}

int overlay_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_FD work = fd_open_beneath(r->work_fd, WORK, O_RDONLY | O_DIRECTORY);
	AUTO_FD mask = fd_open_beneath(r->work_fd, OVERLAY_MASK, O_RDONLY | O_DIRECTORY);

	if (upper < 0 || work < 0 || (mask < 0 && mask != -ENOENT))
		return error_sys(err, MIN(upper, MIN(work, mask)), "run", r->row.path,
				 "the workspace of \"%s\" is gone from \"%s\"", r->row.path, r->row.work);
	*ret = (struct strategy_view){ .kind = STRATEGY_VIEW_OVERLAY,
				       .lower_fd = r->root_fd,
				       .upper_fd = TAKE_FD(upper),
				       .work_fd = TAKE_FD(work),
				       .masked = mask >= 0,
				       .mask_fd = TAKE_FD(mask) };
	return 0;
}

/* ---- what was there before ---- */

static int load_touches(struct resource *r, struct touches **ret, struct atoll_error *err)
{
	struct touches *t = r->priv;
	int rc;

	if (!t) {
		t = calloc(1, sizeof *t);
		if (!t)
			return error_oom(err, "diff");
		rc = store_touch_list(r->store, r->row.id, &t->v, &t->n, err);
		if (rc < 0) {
			free(t);
			return rc;
		}
		r->priv = t;
	}
	*ret = t;
	return 0;
}

void overlay_release(struct resource *r)
{
	struct touches *t = r->priv;

	if (t)
		store_touches_free(t->v, t->n);
	free(t);
	r->priv = NULL;
}

static int compare_touch(const void *path, const void *touch)
{
	return strcmp(path, ((const struct store_touch *)touch)->path);
}

static const struct store_touch *find_touch(const struct touches *t, const char *path)
{
	return t->n ? bsearch(path, t->v, t->n, sizeof *t->v, compare_touch) : NULL;
}

/* The strings of *ret stay the resource's. */
int overlay_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err)
{
	const struct store_touch *found;
	struct touches *t = NULL;
	int rc = load_touches(r, &t, err);

	if (rc < 0)
		return rc;
	found = find_touch(t, path);
	if (found)
		*ret = *found;
	return found != NULL;
}

/* ---- reading the upper layer ---- */

struct upper_walk {
	struct classify classify;
	struct later later;
	const struct touches *touches;
	struct strbuf covered; /* the new directory one is in; valid if in_covered */
	struct strbuf opaque;
	bool in_covered, in_opaque;
};

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

/* Atoll's own places, and a directory that is being moved just now. */
static bool is_left_out(const struct resource *r, const struct tree_entry *e)
{
	return resource_excludes(r, e->path) || (S_ISDIR(e->stat.mode) && tree_is_move_name(e->name));
}

static bool has_origin(const struct resource *r, int fd)
{
	enum tree_marks marks = resource_marks(r);

	return tree_mark_get(fd, marks, "origin", NULL, 0) >= 0 || guest_has_made(fd, marks);
}

/* Directories are compared with what they were when first touched: their original may have been changed by others since, and
 * that is not this sandbox's change. */
static int judge_by_base(const struct resource *r, struct change *c, int fd, const struct store_touch *base)
{
	AUTO_FREE char *xattrs = NULL;
	size_t size;
	int rc;

	if ((c->after.mode & 07777) == (base->look.mode & 07777))
		c->what &= ~(unsigned)ATOLL_WHAT_MODE;
	if (c->after.uid == base->look.uid && c->after.gid == base->look.gid)
		c->what &= ~(unsigned)ATOLL_WHAT_OWNER;
	if (c->after.mtime == base->look.mtime)
		c->what &= ~(unsigned)ATOLL_WHAT_TIME;
	if (!(c->what & ATOLL_WHAT_XATTR) || !base->xattrs)
		return 0;
	rc = tree_xattrs_encoded(fd, "", resource_marks(r), &xattrs, &size);
	if (rc >= 0 && size == base->xattrs_size && memcmp(xattrs, base->xattrs, size) == 0)
		c->what &= ~(unsigned)ATOLL_WHAT_XATTR;
	return MIN(rc, 0);
}

/* Everything of the original's directory that the opaque one does not have is deleted. */
struct hidden_walk {
	struct upper_walk *upper;
	int upper_fd;
	const char *path;
};

static int add_hidden(const struct tree_entry *e, void *arg)
{
	struct hidden_walk *h = arg;
	struct classify *c = &h->upper->classify;
	AUTO_FREE char *path = *h->path ? str_format("%s/%s", h->path, e->name) : strdup(e->name);
	struct change *change;
	size_t first;
	int r;

	if (!path)
		return -ENOMEM;
	if (resource_excludes(c->r, path) || faccessat(h->upper_fd, e->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return TREE_WALK_SKIP;
	change = changes_add(c->changes, path, ATOLL_DELETED);
	if (!change)
		return -ENOMEM;
	change->has_before = true;
	change->before = e->stat;
	change->in_opaque = true;
	first = c->changes->n;
	r = S_ISDIR(e->stat.mode) ? changes_add_deleted_below(c->changes, c->r, e->dirfd, e->name, path) : 0;
	for (size_t i = first; i < c->changes->n; i++)
		c->changes->v[i].in_opaque = true;
	return r < 0 ? r : TREE_WALK_SKIP;
}

static int add_all_hidden(struct upper_walk *w, const struct tree_entry *e)
{
	struct hidden_walk h = { w, e->fd, e->path };
	AUTO_FD fd = fd_open_beneath(w->classify.r->root_fd, e->path, O_RDONLY | O_DIRECTORY);

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	return fd < 0 ? fd : tree_walk(fd, TREE_WALK_NO_ROOT, add_hidden, &h, NULL);
}

static int visit_whiteout(struct upper_walk *w, const struct tree_entry *e)
{
	int peer = peer_dir(&w->classify.peer, e->path, path_parent_size(e->path));
	struct tree_stat before;
	struct change *c;
	int r = peer < 0 ? peer : tree_stat(peer, e->name, &before);

	if (peer == -ENOENT || peer == -ENOTDIR)
		return TREE_WALK_GO; /* its directory is gone, and is named */
	if (r < 0 && r != -ENOENT)
		return r;
	c = changes_add(w->classify.changes, e->path, ATOLL_DELETED);
	if (!c)
		return -ENOMEM;
	c->gone = r == -ENOENT;
	c->in_opaque = w->in_opaque;
	c->after = e->stat; /* for strategy_changes(): if it is skipped, the whiteout stays */
	if (c->gone)
		return TREE_WALK_GO;
	c->has_before = true;
	c->before = before;
	if (S_ISDIR(before.mode))
		r = changes_add_deleted_below(w->classify.changes, w->classify.r, peer, e->name, e->path);
	return r < 0 ? r : TREE_WALK_GO;
}

static void enter(struct strbuf *at, bool *in, const char *path)
{
	strbuf_truncate(at, 0);
	strbuf_adds(at, path);
	*in = true;
}

static int visit_dir(struct upper_walk *w, const struct tree_entry *e, struct change *c)
{
	const struct store_touch *base = find_touch(w->touches, e->path);
	bool fresh = c && (c->kind == ATOLL_ADDED || c->kind == ATOLL_TYPE);
	int r = e->fd < 0 ? 0 : tree_is_opaque(e->fd, resource_marks(w->classify.r));

	if (r < 0)
		return r;
	if (fresh && !w->in_covered) {
		bool known = base ? S_ISDIR(base->look.mode) : e->fd >= 0 && has_origin(w->classify.r, e->fd);

		c->gone = c->kind == ATOLL_ADDED && (base || known);
		c->displaced = c->kind == ATOLL_TYPE && known;
		enter(&w->covered, &w->in_covered, e->path);
	}
	if (fresh)
		return 0;
	if (c && base && e->fd >= 0) {
		int j = judge_by_base(w->classify.r, c, e->fd, base);

		if (j < 0)
			return j;
		if (!c->what) {
			free(c->path);
			w->classify.changes->n--;
			c = NULL;
		}
	}
	if (r > 0 && c)
		c->opaque = true;
	if (r > 0 && !w->in_opaque)
		enter(&w->opaque, &w->in_opaque, e->path);
	return w->in_opaque ? add_all_hidden(w, e) : 0;
}

/* What was there when it was first touched, and is not now. */
static void judge_added(struct change *c, void *touches)
{
	if (c->kind == ATOLL_ADDED && !c->below && find_touch(touches, c->path))
		c->gone = true;
}

static int visit_upper(const struct tree_entry *e, void *arg)
{
	struct upper_walk *w = arg;
	struct change *c;
	int r;

	if (w->in_covered && !path_is_below(e->path, strbuf_str(&w->covered)))
		w->in_covered = false;
	if (w->in_opaque && !path_is_below(e->path, strbuf_str(&w->opaque)))
		w->in_opaque = false;
	if (*e->path && is_left_out(w->classify.r, e))
		return TREE_WALK_SKIP;
	if (is_whiteout(&e->stat))
		return w->in_covered ? TREE_WALK_GO : visit_whiteout(w, e);
	if (S_ISREG(e->stat.mode)) {
		r = later_add(&w->later, e->path, w->in_covered, w->in_opaque);
		return r < 0 ? r : TREE_WALK_GO;
	}
	r = classify_entry(&w->classify, e, w->in_covered, NULL, &c);
	if (r < 0)
		return r;
	if (c)
		c->in_opaque = w->in_opaque;
	if (c && c->kind == ATOLL_SKIPPED)
		return TREE_WALK_SKIP; /* with everything in it */
	if (S_ISDIR(e->stat.mode)) {
		r = visit_dir(w, e, c);
		return r < 0 ? r : TREE_WALK_GO;
	}
	if (c)
		judge_added(c, (void *)w->touches);
	return TREE_WALK_GO;
}

struct changes *overlay_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	CLEANUP(cleanup_changes) struct changes *changes = changes_new();
	AUTO_FD upper = fd_open_beneath(r->work_fd, UPPER, O_RDONLY | O_DIRECTORY);
	struct upper_walk w = { .classify = { r, changes, { r->root_fd, NULL, -EBADF }, exact } };
	AUTO_FREE char *path = NULL;
	struct touches *touches = NULL;
	int rc;

	if (!changes) {
		error_oom(err, "diff");
		return NULL;
	}
	if (upper < 0) {
		error_sys(err, upper, "diff", r->row.path, "the workspace of \"%s\" is gone from \"%s\"", r->row.path,
			  r->row.work);
		return NULL;
	}
	if (load_touches(r, &touches, err) < 0)
		return NULL;
	w.touches = touches;
	w.later.classify = &w.classify;
	rc = tree_walk(upper, TREE_WALK_SORTED | TREE_WALK_FILES, visit_upper, &w, &path);
	if (rc >= 0)
		rc = later_classify(&w.later, upper, judge_added, touches, &path);
	if (rc >= 0)
		rc = changes_settle_links(changes);
	later_release(&w.later);
	peer_release(&w.classify.peer);
	strbuf_release(&w.covered);
	strbuf_release(&w.opaque);
	if (rc < 0) {
		error_sys(err, rc, "diff", r->row.path, "cannot read the changes of \"%s\" at \"%s\"", r->row.path,
			  path ? path : "");
		return NULL;
	}
	return TAKE_PTR(changes);
}

/* ---- renames ---- */

/* What the kernel notes on a file it copied up: version, magic, length, flags, type, filesystem's UUID, then the original's handle. */
#define ORIGIN_HEADER 21
#define ORIGIN_MAGIC 0xfb

int overlay_origin(struct resource *r, const struct change *c, struct tree_id *ret)
{
	AUTO_FREE char *path = str_format("%s/%s", UPPER, c->path);
	AUTO_FD fd = path ? fd_open_beneath(r->work_fd, path, O_RDONLY | O_NONBLOCK) : -ENOMEM;
	unsigned char note[256];
	ssize_t size;

	if (fd < 0)
		return 0;
	size = tree_mark_get(fd, resource_marks(r), "origin", note, sizeof note);
	if (size <= ORIGIN_HEADER || note[1] != ORIGIN_MAGIC || note[2] != size)
		return 0;
	tree_id_from_handle(note[4], note + ORIGIN_HEADER, (size_t)size - ORIGIN_HEADER, ret);
	return ret->size != 0;
}

/* ---- after a run ---- */

struct touch_walk {
	struct resource *r;
	struct touches *known;
	struct store_touch *found;
	size_t n, capacity;
	struct peer peer;
};

/* Takes over the strings of *t, also on failure. */
static int add_found(struct touch_walk *w, struct store_touch *t)
{
	if (w->n == w->capacity) {
		size_t capacity = w->capacity ? w->capacity * 2 : 16;
		struct store_touch *grown = reallocarray(w->found, capacity, sizeof *grown);

		if (!grown) {
			store_touch_release(t);
			return -ENOMEM;
		}
		w->found = grown;
		w->capacity = capacity;
	}
	w->found[w->n++] = *t;
	return 0;
}

/* merged: the kernel has noted that the upper directory stands over one of the original. */
static int record(struct touch_walk *w, int peer, const char *name, const char *path, const struct tree_stat *st,
		  bool merged)
{
	struct store_touch t = { 0 };
	int r = resource_look(peer, name, st, &t.look);

	if (r >= 0 && S_ISDIR(st->mode))
		r = tree_xattrs_encoded(peer, name, resource_marks(w->r), &t.xattrs, &t.xattrs_size);
	if (r < 0)
		return r == -ENOENT || r == -EACCES ? 0 : r;
	if (st->ctime < (S_ISDIR(st->mode) ? resource_dir_stamp(w->r, path) : resource_stamp(w->r, path)) ||
	    (!S_ISDIR(st->mode) && resource_ctime_is_own(w->r, &t.look.id, st->ctime)))
		t.trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY;
	else if (merged)
		t.trusted = STORE_TRUST_IDENTITY;
	t.path = strdup(path);
	if (!t.path) {
		store_touch_release(&t);
		return -ENOMEM;
	}
	return add_found(w, &t);
}

static int visit_touched(const struct tree_entry *e, void *arg)
{
	struct touch_walk *w = arg;
	struct tree_stat st;
	int peer, r;

	if (*e->path && is_left_out(w->r, e))
		return TREE_WALK_SKIP;
	if (find_touch(w->known, e->path))
		return S_ISDIR(e->stat.mode) && e->fd < 0 ? TREE_WALK_SKIP : TREE_WALK_GO;
	peer = peer_dir(&w->peer, e->path, path_parent_size(e->path));
	r = peer < 0 ? peer : tree_stat(peer, e->name, &st);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return TREE_WALK_SKIP; /* new: nothing of the original is below it either */
	/* The user has closed a directory of the original, and may look into it only in a user
	 * namespace. Without a record a commit judges such entries by their times alone. */
	if (r == -EACCES)
		return TREE_WALK_SKIP;
	if (r >= 0)
		r = record(w, peer, e->name, e->path, &st, e->fd >= 0 && has_origin(w->r, e->fd));
	/* What may not be listed here is judged by its times alone. */
	return r < 0 ? r : S_ISDIR(e->stat.mode) && e->fd < 0 ? TREE_WALK_SKIP : TREE_WALK_GO;
}

static int put_touches(struct resource *r, const struct store_touch *list, size_t n, struct atoll_error *err)
{
	int rc = n ? store_begin_late(r->store, err) : 0;

	return rc < 0 || !n ? rc : store_touch_add(r->store, r->row.id, list, n, err);
}

int overlay_ran(struct resource *r, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, UPPER, O_RDONLY | O_DIRECTORY);
	struct touch_walk w = { .r = r, .peer = { r->root_fd, NULL, -EBADF } };
	AUTO_FREE char *path = NULL;
	int rc;

	overlay_release(r); /* what was read before may no longer be on record */
	rc = load_touches(r, &w.known, err);
	if (rc < 0)
		return rc;
	rc = upper < 0 ? upper : tree_walk(upper, TREE_WALK_TYPES, visit_touched, &w, &path);
	if (rc < 0)
		rc = error_sys(err, rc, "run", r->row.path, "cannot record what was touched in \"%s\" at \"%s\"",
			       r->row.path, path ? path : "");
	else
		rc = put_touches(r, w.found, w.n, err);
	peer_release(&w.peer);
	store_touches_free(w.found, w.n);
	overlay_release(r);
	return rc;
}

/* What came back is what the steps took away: it need not be looked at. */
static bool brings_back(const struct resource *r, const struct store_step *step)
{
	return step->resource == r->row.id && !step->dropped && step->before.id.size && !S_ISDIR(step->before.mode) &&
	       (step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_TAKE);
}

int overlay_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	AUTO_FREE struct store_touch *list = calloc(n ? n : 1, sizeof *list);
	size_t found = 0;

	if (!list)
		return error_oom(err, "undo");
	for (size_t i = 0; i < n; i++)
		if (brings_back(r, &steps[i]))
			list[found++] = (struct store_touch){ .path = steps[i].path,
							      .look = steps[i].before,
							      .trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY };
	return put_touches(r, list, found, err);
}

/* The commit that was taken back had landed all metadata of directories that was changed: so a directory of its layer either has a step, or the
 * metadata that it was copied with. What somebody else did to the original's since is not this sandbox's change. */
struct return_walk {
	struct touch_walk touch;
	const struct store_step **steps; /* of directories, sorted by path */
	size_t n;
};

static int compare_steps(const void *a, const void *b)
{
	return strcmp((*(const struct store_step *const *)a)->path, (*(const struct store_step *const *)b)->path);
}

static void apply_step(const struct store_step *step, struct store_touch *t)
{
	if (step->kind == STORE_STEP_TIME) {
		store_look_copy_times(&t->look, &step->before);
		return;
	}
	t->look.mode = step->before.mode;
	t->look.uid = step->before.uid;
	t->look.gid = step->before.gid;
	/* The other side's attributes are back, and must conflict once more. */
	if (step->overrides)
		t->trusted &= ~(unsigned)STORE_TRUST_META;
}

static int know_directory(struct return_walk *w, const struct tree_entry *e, const struct tree_id *id)
{
	struct store_touch t = { .look = store_look_of(&e->stat, id),
				 .trusted = STORE_TRUST_META | STORE_TRUST_IDENTITY };
	const struct store_step key = { .path = (char *)e->path }, *at = &key;
	const struct store_step **found = w->n ? bsearch(&at, w->steps, w->n, sizeof *w->steps, compare_steps) : NULL;
	const char *xattrs = NULL;
	size_t size = 0;
	int r;

	while (found && found > w->steps && strcmp(found[-1]->path, e->path) == 0)
		found--;
	for (; found && found < w->steps + w->n && strcmp((*found)->path, e->path) == 0; found++) {
		apply_step(*found, &t);
		xattrs = (*found)->xattrs_before ? (*found)->xattrs_before : xattrs;
		size = (*found)->xattrs_before ? (*found)->xattrs_before_size : size;
	}
	r = xattrs ? 0 : tree_xattrs_encoded(e->dirfd, e->name, resource_marks(w->touch.r), &t.xattrs, &t.xattrs_size);
	if (r >= 0 && xattrs) {
		t.xattrs = malloc(size + 1);
		t.xattrs_size = size;
		if (t.xattrs)
			memcpy(t.xattrs, xattrs, size);
	}
	t.path = strdup(e->path);
	if (r < 0 || !t.path || !t.xattrs) {
		store_touch_release(&t);
		return r < 0 ? r : -ENOMEM;
	}
	return add_found(&w->touch, &t);
}

static int visit_returning(const struct tree_entry *e, void *arg)
{
	struct return_walk *w = arg;
	struct tree_stat st;
	struct tree_id id;
	int peer, r;

	if (*e->path && is_left_out(w->touch.r, e))
		return TREE_WALK_SKIP;
	if (!S_ISDIR(e->stat.mode))
		return TREE_WALK_GO;
	peer = peer_dir(&w->touch.peer, e->path, path_parent_size(e->path));
	r = peer < 0 ? peer : tree_stat(peer, e->name, &st);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r >= 0 && !S_ISDIR(st.mode)))
		return TREE_WALK_SKIP;
	if (r >= 0 && !find_touch(w->touch.known, e->path)) {
		r = tree_identify(peer, e->name, &st, &id);
		if (r >= 0)
			r = know_directory(w, e, &id);
	}
	return r < 0 ? r : TREE_WALK_GO;
}

int overlay_returning(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_FREE const struct store_step **of_directories = calloc(n ? n : 1, sizeof *of_directories);
	struct return_walk w = { .touch = { .r = r, .peer = { r->root_fd, NULL, -EBADF } }, .steps = of_directories };
	int rc;

	if (!of_directories)
		return error_oom(err, "undo");
	for (size_t i = 0; i < n; i++)
		if (steps[i].resource == r->row.id && !steps[i].dropped &&
		    (steps[i].kind == STORE_STEP_META || (steps[i].kind == STORE_STEP_TIME && steps[i].before.mode)))
			of_directories[w.n++] = &steps[i];
	qsort(of_directories, w.n, sizeof *of_directories, compare_steps);
	overlay_release(r);
	rc = load_touches(r, &w.touch.known, err);
	if (rc < 0)
		return rc;
	rc = upper < 0 ? upper : tree_walk(upper, TREE_WALK_TYPES, visit_returning, &w, NULL);
	if (rc < 0)
		rc = error_sys(err, rc, "undo", r->row.path, "cannot look at the workspace of \"%s\"", r->row.path);
	else
		rc = put_touches(r, w.touch.found, w.touch.n, err);
	peer_release(&w.touch.peer);
	store_touches_free(w.touch.found, w.touch.n);
	overlay_release(r);
	return rc;
}

const struct strategy_ops strategy_overlay = {
	.name = "overlay",
	.summary = "kernel overlayfs over the original; O(1) to create, nothing is copied",
	.strength = 50,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER | STRATEGY_LAYERED |
			STRATEGY_OVERLAY,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_DIR) | STRATEGY_SERVES(ATOLL_KIND_FILE),
	.workspace = UPPER,
	.begin = overlay_begin,
	.view = overlay_view,
	.ran = overlay_ran,
	.changes = overlay_changes,
	.base = overlay_base,
	.origin = overlay_origin,
	.returned = overlay_returned,
	.returning = overlay_returning,
	.release = overlay_release,
};
