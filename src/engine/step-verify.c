/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an entry of the original is still what the op has looked at, right before a step moves it and right after. Before: a lease keeps
 * writers out, and identity, look and ctime must be the expected ones. After: whatever another process did between the check and the
 * rename came along with the inode, and is seen there.
 */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"

void step_guard_release(struct step_guard *g)
{
	g->lease_fd = fd_close(g->lease_fd);
	g->node = fd_close(g->node);
	strbuf_release(&g->attributes);
}

/* Keeps writers out of the original from the check to the exchange. mode: of the entry that should be there. What may not be read, or is
 * something else, is judged without a lease. */
static int take_lease(const struct place *at, mode_t mode, struct step_guard *g)
{
	AUTO_FD fd = -EBADF;
	int r;

	if (!S_ISREG(mode))
		return 0;
	fd = openat(at->dir, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM || errno == ELOOP || errno == ENXIO ? 0 : -errno;
	r = step_lease(fd);
	if (r == -EAGAIN)
		return r;
	g->lease_fd = TAKE_FD(fd);
	g->leased = r > 0;
	return 0;
}

/* Whether a process that opened the file before it was renamed waits to write to it. It will get the file it opened, wherever that is then: so
 * the file must go back. A process that comes later finds the file that was put there. */
static bool is_waited_for(const struct step_guard *g)
{
	return g->leased && fcntl(g->lease_fd, F_GETLEASE) != F_RDLCK;
}

static bool matches(const struct store_look *now, const struct store_look *then, bool is_dir)
{
	if (!tree_id_equal(&now->id, &then->id) || now->mode != then->mode || now->uid != then->uid ||
	    now->gid != then->gid)
		return false;
	/* A directory's own time moves with what is renamed in or, on some filesystems, with itself; what is in it is looked at instead. */
	return is_dir || (now->mtime == then->mtime && now->size == then->size);
}

/* Whether two looks at a file were at the same inode in the same condition. */
static bool is_same_file(const struct tree_stat *a, const struct tree_stat *b)
{
	return S_ISREG(a->mode) && a->btime && a->btime == b->btime && a->ino == b->ino && a->dev == b->dev &&
	       a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size &&
	       a->mtime == b->mtime && a->nlink == b->nlink;
}

/* The look of the step that this op has taken itself. */
static const struct store_look *seen_look(const struct step_site *site, const struct store_step *step)
{
	return site->op->row.kind == STORE_OP_UNDO ? &step->after : &step->before;
}

/* Whether it is what this very op has looked at and found to be `then`, and no process has touched it since. */
static bool is_as_seen(const struct step_site *site, const struct store_step *step, const struct store_look *then,
		       const struct tree_stat *st)
{
	return then == seen_look(site, step) && is_same_file(st, &step->seen) && st->ctime == step->seen.ctime;
}

/* Whether the ctime says that no other process has touched the inode: it must be the one that our own latest step on the inode left or, before
 * the first one (fresh), the one that this op has seen. An undo moves entries within the directories that it then takes out: those are
 * judged by their content. */
static bool has_own_ctime(const struct step_site *site, const struct store_step *step, const struct store_look *then,
			  const struct tree_stat *st, bool fresh)
{
	const int64_t *own = own_ctime(site->op, st);

	if (own)
		return st->ctime == *own;
	if (!fresh || then != seen_look(site, step) || !step->seen.mode ||
	    (S_ISDIR(st->mode) && site->op->row.kind == STORE_OP_UNDO))
		return true;
	return st->ctime == step->seen.ctime;
}

int step_verify(struct step_site *site, const struct store_step *step, const struct place *at,
		const struct store_look *then, bool fresh, struct tree_stat *st)
{
	bool split = step->slot && step->slot[0] == 'd' && then == &step->after;
	struct store_look now;
	int r = step_stat_at(at, st);

	if (r >= 0 && is_as_seen(site, step, then, st))
		return 0;
	if (r >= 0)
		r = resource_look(at->dir, at->name, st, &now);
	if (r < 0)
		return r;
	if (split)
		return tree_id_equal(&now.id, &then->id) ? step_is_empty_dir(at) : -ESTALE;
	if (!matches(&now, then, S_ISDIR(st->mode)) || !has_own_ctime(site, step, then, st, fresh))
		return -ESTALE;
	return S_ISDIR(st->mode) ? step_tree_is_untouched(site, step, at, then) : 0;
}

/* Extended attributes have no time of their own: the rename moves the ctime, so they are read before and after it. */
static int read_attributes(int node, mode_t mode, struct strbuf *ret)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	int r = S_ISLNK(mode) ? 0 : tree_xattrs_read(node, TREE_MARKS_NONE, &x);

	/* What may not be read cannot be compared. */
	if (r == -EACCES || r == -EPERM)
		return 0;
	return r < 0 ? r : tree_xattrs_encode(&x, ret);
}

static int guard_attributes(struct step_guard *g, const struct place *at)
{
	int node = g->lease_fd;

	if (node < 0) {
		g->node = node = openat(at->dir, at->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (node < 0)
			return errno == ENOENT ? -ESTALE : -errno;
	}
	return read_attributes(node, g->st.mode, &g->attributes);
}

/* The lease that was taken when this op looked: if no process has asked for the file since, and it is as it was seen. */
static bool take_held(struct step_site *site, const struct store_step *step, const struct store_look *then,
		      struct step_guard *g)
{
	AUTO_FD fd = op_take_held(site->op, step);

	if (fd < 0 || fcntl(fd, F_GETLEASE) != F_RDLCK || tree_stat(fd, "", &g->st) < 0 ||
	    !is_as_seen(site, step, then, &g->st))
		return false;
	g->lease_fd = TAKE_FD(fd);
	g->leased = true;
	return true;
}

/* ---- links made by other processes ---- */

struct names {
	const struct tree_stat *st;
	uint64_t n;
};

static int count_name(const struct tree_entry *e, void *arg)
{
	struct names *names = arg;

	names->n += e->stat.ino == names->st->ino && e->stat.dev == names->st->dev;
	return TREE_WALK_GO;
}

/* Counts the names in the directory at a place, if that is the one with this identity. 1 if it is, 0 or -errno. */
static int count_at(int dir, const char *name, const struct tree_id *id, struct names *names)
{
	AUTO_FD fd = dir < 0 ? dir : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct tree_stat st;
	struct tree_id found;
	int r;

	if (fd < 0 || tree_stat(fd, "", &st) < 0 || tree_identify(fd, "", &st, &found) < 0 ||
	    !tree_id_equal(&found, id))
		return 0;
	r = tree_walk(fd, TREE_WALK_NO_ROOT, count_name, names, NULL);
	return r < 0 ? r : 1;
}

/* Counts the names in a directory that the op moves as a whole, wherever it is now. It opens peers of
 * its own, because the caller is about to rename in the directories of the site's peers. */
static int count_below(struct step_site *site, const struct store_step *step, struct names *names)
{
	struct peer original = { site->r->root_fd, NULL, -EBADF }, workspace = { site->workspace_fd, NULL, -EBADF };
	size_t above = path_parent_size(step->path);
	const char *name = path_base_name(step->path);
	int r = count_at(peer_dir(&original, step->path, above), name, &step->after.id, names);

	if (r == 0 && step->slot)
		r = count_at(step->slot[0] == 'k' ? site->work_op_fd : site->stage_op_fd, step->slot, &step->after.id,
			     names);
	/* A RETIRE step has brought it from its slot, on the way back. */
	if (r == 0)
		r = count_at(peer_dir(&workspace, step->path, above), name, &step->after.id, names);
	peer_release(&original);
	peer_release(&workspace);
	return MIN(r, 0);
}

/* The names that the steps know: their own, and those in directories that they move. */
static int count_names(struct step_site *site, const struct store_step *step, struct names *names)
{
	int r = own_count_landed(site->op, &step->after.id, &names->n);

	for (size_t i = 0; i < site->op->n && r >= 0 && names->st->nlink > names->n; i++) {
		const struct store_step *other = &site->op->steps[i];

		if ((other->kind == STORE_STEP_EXCHANGE || other->kind == STORE_STEP_INSTALL) &&
		    other->resource == step->resource && S_ISDIR(other->after.mode) &&
		    !(other->slot && other->slot[0] == 'd'))
			r = count_below(site, other, names);
	}
	return r;
}

/*
 * Whether a file that the op has put into the original, and is about to take back, has a name that no
 * step knows. Then another process has linked it, and the next run would write into that process's file
 * if the file went back into the workspace.
 */
static int is_linked_elsewhere(struct step_site *site, const struct store_step *step, const struct tree_stat *st)
{
	struct names names = { .st = st };
	int r;

	if (!S_ISREG(st->mode) || st->nlink < 2 || own_has_known_names(site->op, st))
		return 0;
	r = count_names(site, step, &names);
	if (r < 0 || st->nlink > names.n)
		return r < 0 ? r : 1;
	return own_know_names(site->op, st);
}

/* -ESTALE, or 0. */
static int check_links(struct step_site *site, const struct store_step *step, enum direction direction,
		       const struct tree_stat *st)
{
	int r = direction == BACKWARD ? is_linked_elsewhere(site, step, st) : 0;

	return r > 0 ? -ESTALE : r;
}

int step_secure(struct step_site *site, const struct store_step *step, const struct place *at, enum direction direction,
		bool lease, struct step_guard *g)
{
	const struct store_look *then = direction == FORWARD ? &step->before : &step->after;
	struct place file = { -EBADF, "" };
	int leased = 0, r;

	if (lease && take_held(site, step, then, g)) {
		r = check_links(site, step, direction, &g->st);
		return r < 0 ? r : guard_attributes(g, at);
	}
	if (lease)
		leased = take_lease(at, then->mode, g);
	file.dir = g->lease_fd;
	if (leased < 0 && leased != -EAGAIN && leased != -ENOENT)
		return leased;
	r = leased == -ENOENT ? -ESTALE : step_verify(site, step, g->lease_fd >= 0 ? &file : at, then, lease, &g->st);
	if (r == -ENOENT) /* another process has removed it since its state was looked at */
		r = -ESTALE;
	if (r >= 0)
		r = leased;
	if (r >= 0)
		r = check_links(site, step, direction, &g->st);
	return r < 0 ? r : guard_attributes(g, at);
}

static int compare_attributes(const struct step_guard *g)
{
	AUTO_STRBUF now = STRBUF_INIT;
	int r = read_attributes(g->lease_fd >= 0 ? g->lease_fd : g->node, g->st.mode, &now);

	if (r < 0)
		return r;
	return now.size == g->attributes.size && (!now.size || memcmp(now.data, g->attributes.data, now.size) == 0)
		       ? 0
		       : -ESTALE;
}

static bool now_is_linked(const struct tree_stat *now, const struct tree_stat *then)
{
	return !S_ISDIR(now->mode) && now->nlink != then->nlink;
}

/* A directory is looked through once more: no process finds it where it is now, but what was done to it between the look and the rename
 * came along. */
int step_check_displaced(struct step_site *site, const struct store_step *step, const struct place *at,
			 const struct step_guard *g, const struct store_look *then)
{
	bool split = step->slot && step->slot[0] == 'd';
	struct store_look now;
	struct tree_stat st;
	int r = is_waited_for(g) ? -ESTALE : tree_stat(at->dir, at->name, &st);

	if (r >= 0 && !is_same_file(&st, &g->st)) {
		r = step_look_at(at, &st, &now);
		if (r >= 0 && !split && (!matches(&now, then, S_ISDIR(st.mode)) || now_is_linked(&st, &g->st)))
			r = -ESTALE;
		if (r >= 0 && !split && S_ISDIR(st.mode))
			r = step_tree_is_untouched(site, step, at, then);
	}
	if (r >= 0 && !split)
		r = compare_attributes(g);
	return r < 0 ? r : own_note(site->op, &then->id, &st);
}
