/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign changes (I4). The original of a changed entry conflicts if its ctime is not earlier than the stamp taken when the sandbox
 * began, if it is not the inode, or does not look, as recorded when a run first touched it, if it came or went, if a directory above it was
 * replaced, or, looked at last, if somebody has it open for writing. Directories merge: only their own metadata can conflict.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "database/sqlite.h"
#include "engine/step.h"

struct checker {
	struct op *op;
	struct resource *r;
	const struct selection *selection;
	struct peer peer;
	char *parent;        /* the directory last judged */
	const char *verdict; /* about it: NULL, or why nothing below it can be told */
	const char *gone;    /* the directory last found to be gone */
	bool replaced;       /* the verdict: not even something new may be put into it */
	bool doubtful;       /* the clock was set back: times prove nothing */
	int failed;          /* for want of memory */
	size_t found;
	const char **overridden; /* paths of conflicts that the commit overrides; borrowed from the changes */
	size_t n_overridden;
	struct atoll_error *err;
};

static bool overrides(const struct checker *c)
{
	return c->op->options && c->op->options->on_conflict == ATOLL_ON_CONFLICT_OURS;
}

static int add_conflict(struct checker *c, const char *path, const char *why)
{
	bool ours = overrides(c);

	if (op_tell(c->op, ours ? ATOLL_ITEM_NOTE : ATOLL_ITEM_CONFLICT, c->r, path, why) < 0)
		return error_oom(c->err, "commit");
	c->found += !ours;
	if (c->overridden && ours)
		c->overridden[c->n_overridden++] = path;
	return 0;
}

static bool looks_the_same(const struct store_look *a, const struct store_look *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->mtime == b->mtime &&
	       (S_ISDIR(a->mode) || a->size == b->size);
}

static bool clock_was_set_back(const struct resource *r)
{
	return clock_offset_ns() + 2 * NSEC_PER_SEC < r->row.clock_offset;
}

/* ---- directories above ---- */

static const char *judge_directory(struct checker *c, const char *path)
{
	AUTO_FD fd = fd_open_beneath(c->r->root_fd, path, O_PATH | O_DIRECTORY);
	struct store_touch base;
	struct store_look now;
	struct tree_stat st;
	int known;

	if (is_absent(fd))
		return NULL; /* what is below is new, or is reported as gone */
	if (fd < 0 || tree_stat(fd, "", &st) < 0 || resource_look(fd, "", &st, &now) < 0)
		return "lies in a directory that cannot be looked at";
	known = c->r->ops->base(c->r, path, &base, NULL);
	if (known > 0 && (base.trusted & STORE_TRUST_IDENTITY)) {
		c->replaced = !tree_id_equal(&base.look.id, &now.id);
		return c->replaced ? "lies in a directory that somebody else has replaced" : NULL;
	}
	return st.ctime >= resource_dir_stamp(c->r, path) ? "lies in a directory that somebody else has made meanwhile"
							  : NULL;
}

/* How much of the paths of two directories leads to the same directory above or at both. */
static size_t common_size(const char *a, const char *b)
{
	size_t common = 0;

	for (size_t i = 0;; i++) {
		if ((a[i] == '/' || !a[i]) && (b[i] == '/' || !b[i]))
			common = i;
		if (a[i] != b[i] || !a[i])
			return common;
	}
}

/* Judges the directory `at` and those above it, from below, down to `known` bytes of the path. Cuts `at`. */
static void judge_upwards(struct checker *c, char *at, size_t known)
{
	const char *verdict = c->verdict;
	bool replaced = c->replaced;

	c->verdict = NULL;
	c->replaced = false;
	while (strlen(at) > known && !c->verdict) {
		char *slash = strrchr(at, '/');

		c->verdict = judge_directory(c, at);
		at[slash ? slash - at : 0] = 0;
	}
	if (known && !c->verdict) {
		c->verdict = verdict;
		c->replaced = replaced;
	}
}

/* Whether what is below the entry's directory can be told by its own times. The answer about the
 * directory before holds for the directories above both: each is judged once, however deep the tree. */
static int judge_parents(struct checker *c, const char *path, const char **ret)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);
	AUTO_FREE char *at = parent ? strdup(parent) : NULL;
	size_t known = c->parent && at ? common_size(c->parent, at) : 0;

	if (!at)
		return error_oom(c->err, "commit");
	/* A bad verdict came from the directory itself or from one above it: which one is not on record. */
	if (c->verdict && known < strlen(c->parent))
		known = 0;
	if (!c->parent || strcmp(c->parent, parent) != 0)
		judge_upwards(c, at, known);
	free(c->parent);
	c->parent = TAKE_PTR(parent);
	*ret = c->verdict;
	return 0;
}

/* ---- entries ---- */

/* Whether the ctime was moved by an earlier commit or undo of this sandbox, which renamed another name of the inode. */
static bool is_own_doing(struct checker *c, struct change *change)
{
	struct store_look now;

	return !S_ISDIR(change->before.mode) && c->r->n_stamps && change_look(change, &c->peer, &now) >= 0 &&
	       resource_ctime_is_own(c->r, &now.id, change->before.ctime);
}

static const char *judge_entry(struct checker *c, struct change *change)
{
	bool is_dir = S_ISDIR(change->before.mode);
	int64_t stamp = is_dir ? resource_dir_stamp(c->r, change->path) : resource_stamp(c->r, change->path);
	struct store_touch base;
	struct store_look now;
	int known;

	if (change->before.ctime >= stamp && !is_own_doing(c, change))
		return "was changed by somebody else";
	known = c->r->ops->base(c->r, change->path, &base, NULL);
	if (known <= 0)
		return c->doubtful ? "cannot be judged, because the clock was set back" : NULL;
	if (change_look(change, &c->peer, &now) < 0)
		return "was changed by somebody else";
	if (!tree_id_equal(&now.id, &base.look.id))
		return "was replaced by somebody else";
	if ((base.trusted & STORE_TRUST_META) && !is_dir && !looks_the_same(&now, &base.look))
		return "was changed by somebody else";
	return NULL;
}

/* Whether a directory of the original still has the mode, owner and attributes that are known of it: 1, 0 or -errno. */
static int is_as_known(struct checker *c, const struct change *change, int fd, const struct tree_stat *st,
		       const struct store_touch *base)
{
	AUTO_FREE char *xattrs = NULL;
	size_t size;
	int r;

	if (st->mode != base->look.mode || st->uid != base->look.uid || st->gid != base->look.gid)
		return 0;
	/* An older record knows no attributes. */
	if (!base->xattrs)
		return !(change->what & ATOLL_WHAT_XATTR) || st->ctime < resource_dir_stamp(c->r, change->path);
	r = tree_xattrs_encoded(fd, "", resource_marks(c->r), &xattrs, &size);
	return r < 0 ? r : size == base->xattrs_size && memcmp(xattrs, base->xattrs, size) == 0;
}

/* A directory that exists on both sides: its own mode, owner and attributes, if the sandbox changed any of them. It is looked at afresh: the
 * plan has been made since the change was found. */
static const char *judge_directory_meta(struct checker *c, struct change *change)
{
	AUTO_FD fd = -EBADF;
	struct store_touch base;
	struct store_look now;
	struct tree_stat st;
	int known;

	if (!(change->what & ~(unsigned)ATOLL_WHAT_TIME))
		return NULL;
	fd = fd_open_beneath(c->r->root_fd, change->path, O_PATH | O_DIRECTORY);
	if (is_absent(fd))
		return "was removed or replaced by somebody else";
	if (fd < 0 || tree_stat(fd, "", &st) < 0 || resource_look(fd, "", &st, &now) < 0)
		return "cannot be looked at";
	known = c->r->ops->base(c->r, change->path, &base, NULL);
	if (known > 0 && (base.trusted & STORE_TRUST_META)) {
		if (!tree_id_equal(&now.id, &base.look.id))
			return "was replaced by somebody else";
		return is_as_known(c, change, fd, &st, &base) > 0 ? NULL : "was changed by somebody else";
	}
	if (c->doubtful)
		return "cannot be judged, because the clock was set back";
	return st.ctime >= resource_dir_stamp(c->r, change->path) ? "was changed by somebody else" : NULL;
}

static int check_change(struct checker *c, struct change *change)
{
	const char *why = NULL;
	int r;

	if (change->part || change->judged || !selection_has(c->selection, change->path))
		return 0;
	/* Not even ours overrides it: it is named as skipped then. */
	if (change->usurped && !overrides(c))
		return add_conflict(c, change->path, "was replaced by a FIFO, socket or device of somebody else");
	if (change->kind == ATOLL_SKIPPED)
		return 0;
	if (change->gone) {
		c->gone = change->path;
		return add_conflict(c, change->path, "was removed by somebody else");
	}
	if (c->gone && path_is_below(change->path, c->gone))
		return add_conflict(c, change->path, "lies in a directory that somebody else has removed");
	if (change->below && !change->has_before)
		return 0;
	r = judge_parents(c, change->path, &why);
	if (r < 0)
		return r;
	/* Something new may join what others have put into a directory, if it is still that directory. */
	if (!change->has_before)
		return c->replaced ? add_conflict(c, change->path, why) : 0;
	if (change->has_after && S_ISDIR(change->before.mode) && S_ISDIR(change->after.mode))
		why = judge_directory_meta(c, change);
	else if (!why)
		why = judge_entry(c, change);
	return why ? add_conflict(c, change->path, why) : 0;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first overridden path that is not before this one. */
static size_t first_overridden(const struct checker *c, const char *path)
{
	size_t low = 0, high = c->n_overridden;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(c->overridden[middle], path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether the step lands against a conflict at its path or, if it moves a whole directory, below. */
static int is_against(const struct checker *c, const struct store_step *step)
{
	bool moves = step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_INSTALL ||
		     step->kind == STORE_STEP_TAKE;
	size_t at = first_overridden(c, step->path);
	AUTO_FREE char *inside = NULL;

	if (!moves && step->kind != STORE_STEP_META)
		return 0;
	if (at < c->n_overridden && strcmp(c->overridden[at], step->path) == 0)
		return 1;
	inside = moves ? str_format("%s/", step->path) : NULL;
	if (!inside)
		return moves ? -ENOMEM : 0;
	at = first_overridden(c, inside);
	return at < c->n_overridden && path_is_below(c->overridden[at], step->path);
}

/* Marks the steps that land against a conflict. If they are taken back, it must be a conflict again. */
static int mark_overridden(struct checker *c)
{
	if (!c->n_overridden)
		return 0;
	qsort(c->overridden, c->n_overridden, sizeof *c->overridden, compare_strings);
	for (size_t i = 0; i < c->op->n; i++) {
		struct store_step *step = &c->op->steps[i];
		int r = step->resource == c->r->row.id ? is_against(c, step) : 0;

		if (r < 0)
			return error_oom(c->err, "commit");
		step->overrides |= r > 0;
	}
	return 0;
}

static int check_resource(struct op *op, size_t index, size_t *found, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	struct checker c = {
		.op = op, .r = r, .selection = &op->selections[index], .peer = { r->root_fd, NULL, -EBADF }, .err = err
	};
	int rc = 0;

	if (overrides(&c)) {
		c.overridden = calloc(op->changes[index]->n + 1, sizeof *c.overridden);
		if (!c.overridden)
			return error_oom(err, "commit");
	}
	c.doubtful = clock_was_set_back(r);
	for (size_t i = 0; i < op->changes[index]->n && rc >= 0; i++)
		rc = check_change(&c, &op->changes[index]->v[i]);
	if (rc >= 0)
		rc = mark_overridden(&c);
	peer_release(&c.peer);
	free(c.parent);
	free(c.overridden);
	*found += c.found;
	return rc;
}

static int tell(struct op *op, size_t found, struct atoll_error *err)
{
	if (!found)
		return 0;
	return error_set(err, ATOLL_CONFLICT, 0, "commit", op->s->box.name,
			 "%zu path%s changed by somebody else since the sandbox \"%s\" began; nothing was committed",
			 found, found == 1 ? " was" : "s were", op->s->box.name);
}

int conflict_check(struct op *op, struct atoll_error *err)
{
	size_t found = 0;

	for (size_t i = 0; i < op->s->n; i++) {
		int r = resource_isolates(&op->s->resources[i]) ? check_resource(op, i, &found, err) : 0;

		if (r < 0)
			return r;
	}
	return tell(op, found, err);
}

/* ---- originals in use ---- */

static bool replaces_file(const struct store_step *step)
{
	return (step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_TAKE) && S_ISREG(step->before.mode);
}

static int check_use(struct checker *c, const struct store_step *step)
{
	int dir = peer_dir(&c->peer, step->path, path_parent_size(step->path));
	AUTO_FD fd = dir < 0 ? dir
			     : openat(dir, path_base_name(step->path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	/* What cannot be opened is judged when its turn comes. */
	if (fd < 0)
		return 0;
	if (step_lease(fd) == -EAGAIN)
		return add_conflict(c, step->path,
				    sqlite_live_is_database(fd) ? LIVE_NOTE : "is open for writing by somebody else");
	op_hold(c->op, step, TAKE_FD(fd));
	return 0;
}

/* One checker for each thread. */
static void check_use_portion(void *arg, size_t part, size_t first, size_t end)
{
	struct checker *c = (struct checker *)arg + part;

	for (size_t i = first; i < end && c->failed >= 0; i++) {
		const struct store_step *step = &c->op->steps[i];

		if (step->resource == c->r->row.id && replaces_file(step))
			c->failed = check_use(c, step);
	}
}

static int check_use_all(struct op *op, struct resource *r, size_t *found)
{
	struct checker parts[PARALLEL_MAX];
	int rc = 0;

	for (size_t i = 0; i < PARALLEL_MAX; i++)
		parts[i] = (struct checker){ .op = op, .r = r, .peer = { r->root_fd, NULL, -EBADF } };
	parallel_run(op->n, check_use_portion, parts);
	for (size_t i = 0; i < PARALLEL_MAX; i++) {
		peer_release(&parts[i].peer);
		*found += parts[i].found;
		rc = MIN(rc, parts[i].failed);
	}
	return rc;
}

int conflict_check_use(struct op *op, struct atoll_error *err)
{
	size_t found = 0;

	op_hold_begin(op);
	if (parallel_is_worth(op->n))
		fd_reserve(MIN(op->n, op->held_room));
	for (size_t i = 0; i < op->s->n; i++)
		if (check_use_all(op, &op->s->resources[i], &found) < 0)
			return error_oom(err, "commit");
	return tell(op, found, err);
}

/* ---- undo ---- */

static const char changed_since[] = "was changed by somebody else since the commit";

struct undo_walk {
	struct step_site *site;
	const struct store_step *step;
	struct strbuf path;
};

static int newer_entry(const struct tree_entry *e, void *arg)
{
	struct undo_walk *w = arg;
	/* The commit has moved the directory as a whole: after the plan was complete, no step of it touched a file in it. */
	bool is_inside = *e->path && !S_ISDIR(e->stat.mode) && !(w->step->slot && w->step->slot[0] == 'd');
	int64_t since = is_inside ? w->site->how->prepared_at : w->site->how->landed_at;
	int r = step_is_newer(w->site, w->step->path, e->path, &e->stat, since);
	int own = r > 0 ? own_explains(w->site->op, w->site->r, e->dirfd, e->name, &e->stat) : 0;

	if (own)
		r = own < 0 ? own : 0;
	if (r <= 0)
		return r < 0 ? r : TREE_WALK_GO;
	strbuf_adds(&w->path, e->path);
	return TREE_WALK_STOP;
}

static int check_landed_tree(struct step_site *site, const struct store_step *step, struct strbuf *below,
			     const char **ret)
{
	AUTO_FD fd = fd_open_beneath(site->r->root_fd, step->path, O_PATH | O_DIRECTORY);
	struct undo_walk w = { .site = site, .step = step };
	int r = fd;

	if (clock_was_set_back(site->r)) {
		*ret = "cannot be judged, because the clock was set back";
		return 0;
	}
	if (fd >= 0)
		r = tree_walk(fd, step->slot && step->slot[0] == 'd' ? TREE_WALK_NO_ROOT : 0, newer_entry, &w, NULL);
	if (w.path.data || r < 0) {
		strbuf_adds(below, strbuf_str(&w.path));
		*ret = changed_since;
	}
	strbuf_release(&w.path);
	return r;
}

/* Whether the file is in use just now. A lease keeps writers out until the step is moved. */
static int check_landed_use(struct step_site *site, const struct store_step *step, const char **ret)
{
	struct place at;
	int r = step_find_original(site, step, &at);
	AUTO_FD fd = r < 0 ? r : openat(at.dir, at.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || !S_ISREG(step->seen.mode))
		return 0;
	if (sqlite_live_is_likely(step->seen.size))
		*ret = live_judge(fd, at.dir, at.name);
	if (*ret)
		return 0;
	if (step_lease(fd) == -EAGAIN)
		*ret = "is open for writing by somebody else";
	else
		op_hold(site->op, step, TAKE_FD(fd));
	return 0;
}

static int check_landed_file(struct step_site *site, const struct store_step *step, const char **ret)
{
	const struct store_look now = store_look_of(&step->seen, &step->after.id);
	int r = step_is_newer(site, step->path, "", &step->seen, site->how->landed_at);

	if (r > 0 && resource_ctime_is_own(site->r, &step->after.id, step->seen.ctime))
		r = 0;
	if (r == 0 && !looks_the_same(&now, &step->after))
		r = 1;
	if (r > 0)
		*ret = changed_since;
	return r ? MIN(r, 0) : check_landed_use(site, step, ret);
}

/* The paths of the directories that the undo brings back, sorted. */
struct returning {
	const char **v;
	size_t n;
};

static void returning_release(struct returning *d)
{
	free(d->v);
}

static int find_returning(const struct op *op, const struct resource *r, struct returning *ret)
{
	ret->v = reallocarray(NULL, op->n + 1, sizeof *ret->v);
	if (!ret->v)
		return -ENOMEM;
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == r->row.id && op->steps[i].kind == STORE_STEP_TAKE &&
		    S_ISDIR(op->steps[i].before.mode))
			ret->v[ret->n++] = op->steps[i].path;
	qsort(ret->v, ret->n, sizeof *ret->v, compare_strings);
	return 0;
}

/* Whether a directory above the path comes back by another step of the commit: 1, 0 or -ENOMEM. */
static int parent_returns(const struct returning *d, const char *path)
{
	AUTO_FREE char *above = strdup(path);

	if (!above)
		return -ENOMEM;
	for (size_t size = path_parent_size(above); size && d->n; size = path_parent_size(above)) {
		const char *key = above;

		above[size] = 0;
		if (bsearch(&key, d->v, d->n, sizeof *d->v, compare_strings))
			return 1;
	}
	return 0;
}

/* What the commit removed comes back into the directory where it was. Git removes a directory with its last file. */
static int check_removed(struct step_site *site, const struct store_step *step, const struct returning *returning,
			 const char **ret)
{
	struct place at;
	int r = step_find_original(site, step, &at);

	if (!is_absent(r))
		return MIN(r, 0);
	r = parent_returns(returning, step->path);
	if (r < 0)
		return r;
	if (!r)
		*ret = "was in a directory that somebody else has removed since the commit; make the directory again";
	return 0;
}

/* What was landed must still be as it was landed: nothing may be newer than the moment it was complete. */
static int check_landed(struct step_site *site, struct store_step *step, const struct returning *returning,
			struct strbuf *below, const char **ret)
{
	int state = step_look(site, step, &step->seen);

	*ret = NULL;
	if (state < 0)
		return state;
	if (step->kind == STORE_STEP_TIME) {
		int r = step_time_find_foreign(site, step);

		site->op->revised |= r > 0;
		return MIN(r, 0);
	}
	if (step->kind == STORE_STEP_META || step->kind == STORE_STEP_RETIRE) {
		if (step->kind == STORE_STEP_META && state == STEP_FOREIGN)
			*ret = changed_since;
		return 0;
	}
	if (state != STEP_NEW) {
		bool told = step->kind == STORE_STEP_PART && *site->why.message;

		*ret = told ? site->why.message : changed_since;
		return 0;
	}
	if (step->kind == STORE_STEP_TAKE)
		return check_removed(site, step, returning, ret);
	if (step->kind == STORE_STEP_PART)
		return 0;
	return S_ISDIR(step->seen.mode) ? check_landed_tree(site, step, below, ret)
					: check_landed_file(site, step, ret);
}

static int add_undo_conflict(struct step_site *site, const char *path, const char *why, size_t *found,
			     struct atoll_error *err)
{
	if (!path || !result_add(site->op->result, ATOLL_ITEM_CONFLICT, site->r->row.seq, path, why))
		return error_oom(err, "undo");
	(*found)++;
	return 0;
}

static int check_step(struct step_site *site, struct store_step *step, const struct returning *returning,
		      struct same *same, size_t *found, struct atoll_error *err)
{
	AUTO_STRBUF below = STRBUF_INIT;
	AUTO_FREE char *path = NULL;
	const char *why;
	int r = check_landed(site, step, returning, &below, &why);

	if (r < 0 && step->kind == STORE_STEP_PART && site->why.code) {
		*err = site->why;
		return -(int)err->code;
	}
	if (r < 0)
		return error_sys(err, r, "undo", step->path, "cannot look at \"%s\" of \"%s\"", step->path,
				 site->r->row.path);
	if (!why)
		return 0;
	if (why == changed_since && same_can_be(site, step))
		return same_add(same, step) < 0 ? error_oom(err, "undo") : 0;
	path = below.size ? str_format("%s/%s", step->path, below.data) : strdup(step->path);
	return add_undo_conflict(site, path, why, found, err);
}

/* Of the files that are not as they landed, those that hold the same all the same are not in the way. */
static int check_same(struct step_site *site, struct same *same, size_t *found, struct atoll_error *err)
{
	AUTO_FREE struct store_step **all = NULL;
	size_t n = same->n;
	int r = 0;

	if (!n)
		return 0;
	all = calloc(n, sizeof *all);
	if (!all)
		return error_oom(err, "undo");
	memcpy(all, same->steps, n * sizeof *all);
	r = same_judge(site, same, err);
	for (size_t i = 0, left = 0; i < n && r >= 0; i++) {
		const char *why = left < same->n && same->steps[left] == all[i] ? changed_since : NULL;

		if (why)
			left++;
		else
			r = check_landed_use(site, all[i], &why);
		if (r >= 0 && why)
			r = add_undo_conflict(site, all[i]->path, why, found, err);
	}
	return r;
}

static int check_undo_of(struct op *op, struct resource *r, size_t *found, struct atoll_error *err)
{
	CLEANUP(same_release) struct same same = { 0 };
	CLEANUP(returning_release) struct returning returning = { 0 };
	struct step_site *site = step_site_new(op, r, err);
	int rc = 0;

	if (!site)
		return -(int)err->code;
	if (find_returning(op, r, &returning) < 0)
		rc = error_oom(err, "undo");
	for (size_t k = 0; k < op->n && rc >= 0; k++)
		if (op->steps[k].resource == r->row.id)
			rc = check_step(site, &op->steps[k], &returning, &same, found, err);
	if (rc >= 0)
		rc = check_same(site, &same, found, err);
	step_site_free(site);
	return rc;
}

int conflict_check_undo(struct op *op, struct atoll_error *err)
{
	size_t found = 0;

	op_hold_begin(op);
	for (size_t i = 0; i < op->s->n; i++) {
		int r = op->resources[i].op ? check_undo_of(op, &op->s->resources[i], &found, err) : 0;

		if (r < 0)
			return r;
	}
	if (!found)
		return 0;
	return error_set(err, ATOLL_CONFLICT, 0, "undo", op->s->box.name,
			 "%zu path%s changed by somebody else since the commit; nothing was taken back", found,
			 found == 1 ? " was" : "s were");
}
