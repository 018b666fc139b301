/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step on disk: where it stands, and moving it to the other side. Every step is an exchange, a rename or a set of metadata; each is
 * recognised by the identity of the inodes at its two places, so that any subset of steps can be found done or not done.
 */
#include "engine/step.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

static int find(struct peer *peer, const char *path, struct place *ret)
{
	ret->dir = peer_dir(peer, path, path_parent_size(path));
	ret->name = path_base_name(path);
	return MIN(ret->dir, 0);
}

int step_find_original(struct step_site *site, const struct store_step *step, struct place *ret)
{
	return find(&site->original, step->path, ret);
}

static int find_slot(struct step_site *site, const struct store_step *step, struct place *ret)
{
	*ret = (struct place){ step->slot[0] == 'k' ? site->work_op_fd : site->stage_op_fd, step->slot };
	return MIN(ret->dir, 0);
}

/* The side that is not the original: a slot, or the workspace. */
static int find_source(struct step_site *site, const struct store_step *step, struct place *ret)
{
	return step->slot ? find_slot(site, step, ret) : find(&site->workspace, step->path, ret);
}

static int stat_at(const struct place *at, struct tree_stat *st)
{
	int r = at->dir < 0 ? at->dir : tree_stat(at->dir, at->name, st);

	return r == -ENOTDIR ? -ENOENT : r;
}

/* Identity and look of what is at a place. -ENOENT if nothing. */
static int look_at(const struct place *at, struct tree_stat *st, struct store_look *ret)
{
	int r = stat_at(at, st);

	return r < 0 ? r : resource_look(at->dir, at->name, st, ret);
}

static int state_by_identity(struct step_site *site, const struct store_step *step, struct tree_stat *st)
{
	struct store_look now;
	struct place at;
	int r = step_find_original(site, step, &at);

	*st = (struct tree_stat){ 0 };
	if (r >= 0)
		r = look_at(&at, st, &now);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
		if (step->kind == STORE_STEP_INSTALL)
			return STEP_OLD;
		return step->kind == STORE_STEP_TAKE ? STEP_NEW : STEP_FOREIGN;
	}
	if (r < 0)
		return r;
	if (step->after.id.size && tree_id_equal(&now.id, &step->after.id))
		return step->kind == STORE_STEP_TAKE ? STEP_FOREIGN : STEP_NEW;
	if (step->before.id.size && tree_id_equal(&now.id, &step->before.id))
		return STEP_OLD;
	return STEP_FOREIGN;
}

static int state_of_retire(struct step_site *site, const struct store_step *step)
{
	struct store_look now;
	struct tree_stat st;
	struct place at;
	int r = find(&site->workspace, step->path, &at);

	if (r >= 0)
		r = look_at(&at, &st, &now);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return STEP_NEW;
	return r < 0 ? r : tree_id_equal(&now.id, &step->before.id) ? STEP_OLD : STEP_NEW;
}

int step_look(struct step_site *site, const struct store_step *step, struct tree_stat *ret)
{
	*ret = (struct tree_stat){ 0 };
	switch (step->kind) {
	case STORE_STEP_RETIRE:
		return state_of_retire(site, step);
	case STORE_STEP_META:
	case STORE_STEP_TIME:
		return step_meta_state(site, step);
	case STORE_STEP_PART:
		return part_state(site, step);
	case STORE_STEP_EXCHANGE:
	case STORE_STEP_INSTALL:
	case STORE_STEP_TAKE:
	case STORE_STEP_KIND_COUNT:
	default:
		return state_by_identity(site, step, ret);
	}
}

int step_state(struct step_site *site, const struct store_step *step)
{
	struct tree_stat st;

	return step_look(site, step, &st);
}

/* ---- moving ---- */

/* An exchange leaves the ctime alone on some filesystems; other sandboxes judge foreign changes by it. */
static int bump_ctime(const struct place *at, int64_t ctime, bool *ret_moved)
{
	AUTO_FD fd = -EBADF;
	struct tree_stat st;
	int r = tree_stat(at->dir, at->name, &st);

	*ret_moved = r >= 0 && st.ctime != ctime;
	if (r < 0 || *ret_moved)
		return r;
	if (S_ISLNK(st.mode)) {
		const struct timespec same[2] = { tree_atime(&st), tree_mtime(&st) };

		return sys_utimens(at->dir, at->name, same);
	}
	fd = openat(at->dir, at->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : sys_chmod(fd, st.mode & 07777);
}

/* Exchanging a directory with something else moves its mtime on some filesystems. */
static int restore_dir_time(const struct place *at, const struct store_look *look)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   clock_timespec_of_era(look->mtime, look->mtime_era) };
	struct tree_stat st;
	int r = S_ISDIR(look->mode) ? tree_stat(at->dir, at->name, &st) : 0;

	if (r < 0 || !S_ISDIR(look->mode) || st.mtime == look->mtime)
		return r;
	return sys_utimens(at->dir, at->name, times);
}

/* taken: a filesystem may have none. */
struct lease {
	int fd;
	bool taken;
};

static void lease_release(struct lease *l)
{
	l->fd = fd_close(l->fd);
}

/* Keeps writers out of the original from the check to the exchange. mode: of what should be there. What may not be read, or is something
 * else, is judged without. */
static int take_lease(const struct place *at, mode_t mode, struct lease *ret)
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
	*ret = (struct lease){ TAKE_FD(fd), r > 0 };
	return 0;
}

/* Whether somebody who found the file before it was renamed waits to write to it. He gets what he found, wherever that is then: so it must go
 * back. Whoever comes later finds what has been put there. */
static bool is_waited_for(const struct lease *l)
{
	return l->taken && fcntl(l->fd, F_GETLEASE) != F_RDLCK;
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
	       a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size && a->mtime == b->mtime;
}

/* Whether it is what this very op has looked at and found to be `then`: nobody has touched it since. */
static bool is_as_seen(const struct step_site *site, const struct store_step *step, const struct store_look *then,
		       const struct tree_stat *st)
{
	const struct store_look *seen = site->op->row.kind == STORE_OP_UNDO ? &step->after : &step->before;

	return then == seen && is_same_file(st, &step->seen) && st->ctime == step->seen.ctime;
}

/* Whether what stands in the original is still as it was planned (before) or as it was installed (after). */
static int verify(struct step_site *site, const struct store_step *step, const struct place *at,
		  const struct store_look *then, struct tree_stat *st)
{
	bool split = step->slot && step->slot[0] == 'd' && then == &step->after;
	struct store_look now;
	int r = stat_at(at, st);

	if (r >= 0 && is_as_seen(site, step, then, st))
		return 0;
	if (r >= 0)
		r = resource_look(at->dir, at->name, st, &now);
	if (r < 0)
		return r;
	if (split)
		return tree_id_equal(&now.id, &then->id) ? step_is_empty_dir(at) : -ESTALE;
	if (!matches(&now, then, S_ISDIR(st->mode)))
		return -ESTALE;
	return S_ISDIR(st->mode) ? step_tree_is_untouched(site, step, at, then) : 0;
}

/* Whether the entry that a rename has brought to the other side is the one that was verified. A directory is looked through once more: where it is
 * now nobody finds it, but what they did to it between the look and the rename came along. */
static int check_displaced(struct step_site *site, const struct store_step *step, const struct place *at,
			   const struct tree_stat *verified, const struct store_look *then)
{
	struct store_look now;
	struct tree_stat st;
	int r = tree_stat(at->dir, at->name, &st);

	if (r < 0 || is_same_file(&st, verified))
		return r;
	r = look_at(at, &st, &now);
	if (r < 0 || (step->slot && step->slot[0] == 'd'))
		return r;
	if (!matches(&now, then, S_ISDIR(st.mode)))
		return -ESTALE;
	return S_ISDIR(st.mode) ? step_tree_is_untouched(site, step, at, then) : 0;
}

/* The lease that was taken when this op looked: if nobody has asked for the file since, and it is as it was seen. */
static bool take_held(struct step_site *site, const struct store_step *step, const struct store_look *then,
		      struct lease *ret, struct tree_stat *st)
{
	AUTO_FD fd = op_take_held(site->op, step);

	if (fd < 0 || fcntl(fd, F_GETLEASE) != F_RDLCK || tree_stat(fd, "", st) < 0 ||
	    !is_as_seen(site, step, then, st))
		return false;
	*ret = (struct lease){ TAKE_FD(fd), true };
	return true;
}

/* Takes the lease and verifies what it was taken on. 1: it stands on the wanted side already. */
static int secure_original(struct step_site *site, const struct store_step *step, const struct place *at,
			   enum direction direction, struct lease *ret, struct tree_stat *st)
{
	const struct store_look *then = direction == FORWARD ? &step->before : &step->after;
	struct place file = { -EBADF, "" };
	int leased, r;

	if (take_held(site, step, then, ret, st))
		return 0;
	leased = take_lease(at, then->mode, ret);
	file.dir = ret->fd;
	if (leased < 0 && leased != -EAGAIN && leased != -ENOENT)
		return leased;
	r = leased == -ENOENT ? -ESTALE : verify(site, step, ret->fd >= 0 ? &file : at, then, st);
	if (r == -ENOENT)
		r = -ESTALE;
	if (r == -ESTALE) {
		r = step_state(site, step);
		return r < 0 ? r : r == (direction == FORWARD ? STEP_NEW : STEP_OLD) ? 1 : -ESTALE;
	}
	return r < 0 ? r : MIN(leased, 0);
}

static int exchange(struct step_site *site, const struct store_step *step, const struct place *original,
		    const struct place *source, const struct tree_stat *verified, const struct lease *lease,
		    enum direction direction)
{
	const struct store_look *then = direction == FORWARD ? &step->before : &step->after;
	const struct store_look *installed = direction == FORWARD ? &step->after : &step->before;
	bool files = S_ISREG(step->before.mode) && S_ISREG(step->after.mode);
	bool known = files && site->moves_ctime, moved = false;
	struct tree_stat source_st = { 0 };
	int r = known ? 0 : tree_stat(source->dir, source->name, &source_st);

	if (r >= 0)
		r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_EXCHANGE);
	/* Somebody has removed it since the check. */
	if (r == -ENOENT && stat_at(original, &source_st) == -ENOENT)
		return -ESTALE;
	if (r < 0)
		return r;
	r = is_waited_for(lease) ? -ESTALE : check_displaced(site, step, source, verified, then);
	if (r == -ESTALE) {
		/* Somebody was quicker than the check: theirs goes back where it was. */
		r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_EXCHANGE);
		return r < 0 ? r : -ESTALE;
	}
	if (r >= 0)
		r = restore_dir_time(original, installed);
	if (r >= 0)
		r = restore_dir_time(source, then);
	if (r >= 0 && !known)
		r = bump_ctime(original, source_st.ctime, &moved);
	/* What a filesystem does with two files it does with all; XFS differs only where a directory is one of them. */
	site->moves_ctime |= files && moved;
	return r < 0 ? r : 1;
}

/* Without a lease the state is known already. */
static int do_exchange(struct step_site *site, const struct store_step *step, enum direction direction, bool lease)
{
	const struct store_look *then = direction == FORWARD ? &step->before : &step->after;
	struct place original, source;
	CLEANUP(lease_release) struct lease held = { .fd = -EBADF };
	struct tree_stat st;
	int r = step_find_original(site, step, &original);

	if (lease && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
		return -ESTALE;
	if (r >= 0)
		r = find_source(site, step, &source);
	if (r < 0)
		return r;
	r = lease ? secure_original(site, step, &original, direction, &held, &st)
		  : verify(site, step, &original, then, &st);
	if (r != 0)
		return r < 0 ? r : 0;
	return exchange(site, step, &original, &source, &st, &held, direction);
}

/* A rename between the original and the other side, onto a free name. */
static int do_rename(struct step_site *site, const struct store_step *step, bool to_original, bool lease)
{
	const struct store_look *then = step->kind == STORE_STEP_INSTALL ? &step->after : &step->before;
	struct place original, source;
	CLEANUP(lease_release) struct lease held = { .fd = -EBADF };
	struct tree_stat st;
	int r = step_find_original(site, step, &original);

	if (r >= 0) {
		r = find_source(site, step, &source);
		if (r == -ENOENT && site->mended)
			return -ENODATA;
	}
	if (r < 0)
		return r;
	if (to_original) {
		struct store_look now;

		r = look_at(&source, &st, &now);
		if (r >= 0 && !tree_id_equal(&now.id, &then->id))
			r = -ESTALE;
		if (r >= 0)
			r = sys_rename(source.dir, source.name, original.dir, original.name, RENAME_NOREPLACE);
		return r == -EEXIST || r == -ENOENT ? -ESTALE : r < 0 ? r : 1;
	}
	if (lease) {
		r = take_lease(&original, then->mode, &held);
		fd_close(op_take_held(site->op, step)); /* kept writers out until now */
	}
	if (r >= 0)
		r = verify(site, step, &original, then, &st);
	if (r >= 0)
		r = sys_rename(original.dir, original.name, source.dir, source.name, RENAME_NOREPLACE);
	if (r == -ENOENT)
		r = -ESTALE; /* somebody has removed it since the check */
	else if (r >= 0)
		r = is_waited_for(&held) ? -ESTALE : check_displaced(site, step, &source, &st, then);
	/* Somebody was quicker than the check: theirs goes back where it was. Should they have filled the place again, it is kept aside. */
	if (r == -ESTALE)
		(void)sys_rename(source.dir, source.name, original.dir, original.name, RENAME_NOREPLACE);
	return r < 0 ? r : 1;
}

/* The times of a workspace directory are edits of the sandbox: what leaves it or comes back does not move them. */
static int do_retire(struct step_site *site, const struct store_step *step, enum direction direction)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };
	struct place workspace, slot;
	struct tree_stat st;
	int r = 0;

	if (site->workspace_fd < 0)
		return -ENODATA;
	if (direction == BACKWARD)
		r = merge_is_hidden(site->workspace_fd, step->path);
	/* A newer edit has removed its directory, and it with that. */
	if (r > 0)
		return 0;
	if (r >= 0)
		r = find(&site->workspace, step->path, &workspace);
	if (r >= 0)
		r = find_slot(site, step, &slot);
	if (r >= 0)
		r = tree_stat(workspace.dir, "", &st);
	if (r < 0)
		return r;
	if (direction == FORWARD)
		r = sys_rename(workspace.dir, workspace.name, slot.dir, slot.name, RENAME_NOREPLACE);
	else
		r = sys_rename(slot.dir, slot.name, workspace.dir, workspace.name, RENAME_NOREPLACE);
	/* A newer edit has taken its place, and is merged with it once this is decided; or the version was set aside. */
	if (direction == BACKWARD && (r == -EEXIST || r == -ENOENT))
		return 0;
	if (r < 0)
		return r;
	times[1] = tree_mtime(&st);
	r = sys_utimens(workspace.dir, "", times);
	return r < 0 ? r : 1;
}

/* Whether Atoll's own side of the step is as it is when the step stands there: what somebody else put into the original then stands in
 * place of what this op never moved, or has moved back. */
static int source_is_settled(struct step_site *site, const struct store_step *step, enum direction direction)
{
	const struct store_look *then = direction == BACKWARD ? &step->after : &step->before;
	struct store_look now;
	struct tree_stat st;
	struct place at;
	int r = find_source(site, step, &at);

	if (r >= 0)
		r = look_at(&at, &st, &now);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return step->kind == (direction == BACKWARD ? STORE_STEP_TAKE : STORE_STEP_INSTALL);
	return r < 0 ? r : then->id.size && tree_id_equal(&now.id, &then->id);
}

/* Whether what the step would bring to the original was removed from Atoll's area. An entry that is only renamed is missed there too if somebody
 * removed it from the original before it was moved; that is told by whether anything else is gone. */
static int is_lost(struct step_site *site, const struct store_step *step, enum direction direction)
{
	bool exchanged = step->kind == STORE_STEP_EXCHANGE;
	bool renamed = step->kind == (direction == FORWARD ? STORE_STEP_INSTALL : STORE_STEP_TAKE);
	struct tree_stat st;
	struct place at;
	int r;

	if (!exchanged && !(renamed && site->mended))
		return 0;
	r = find_source(site, step, &at);
	if (r >= 0)
		r = stat_at(&at, &st);
	return r == -ENOENT ? 1 : MIN(r, 0);
}

int step_is_intact(struct step_site *site, const struct store_step *step, enum direction direction)
{
	const struct store_look *then = direction == BACKWARD ? &step->before : &step->after;
	bool split = step->slot && step->slot[0] == 'd' && direction == FORWARD;
	struct place at;
	struct tree_stat st;
	int state, r;

	/* A part has no stamp to keep: whether somebody else changed it is seen from what it holds. */
	if (step->kind == STORE_STEP_TIME || step->kind == STORE_STEP_PART)
		return 1;
	state = step_state(site, step);
	if (state < 0)
		return state;
	if (state != (direction == BACKWARD ? STEP_OLD : STEP_NEW))
		return 0;
	if (step->kind == STORE_STEP_META || split ||
	    step->kind == (direction == BACKWARD ? STORE_STEP_INSTALL : STORE_STEP_TAKE))
		return 1;
	r = step_find_original(site, step, &at);
	if (r >= 0)
		r = verify(site, step, &at, then, &st);
	return r == -ESTALE ? 0 : r < 0 ? r : 1;
}

int step_move(struct step_site *site, const struct store_step *step, enum direction direction, bool lease)
{
	int state;

	if (step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME)
		return step_meta_move(site, step, direction, lease);
	if (step->kind == STORE_STEP_PART)
		return part_move(site, step, direction);
	if (step->kind == STORE_STEP_EXCHANGE && lease)
		return do_exchange(site, step, direction, true); /* told under the lease */
	state = step_state(site, step);
	if (state < 0)
		return state;
	if (state == (direction == FORWARD ? STEP_NEW : STEP_OLD))
		return 0;
	if (state == STEP_FOREIGN) {
		state = lease ? 0 : source_is_settled(site, step, direction);
		return state < 0 ? state : state ? 0 : -ESTALE;
	}
	if (!lease) {
		int lost = is_lost(site, step, direction);

		if (lost)
			return lost < 0 ? lost : -ENODATA;
	}
	switch (step->kind) {
	case STORE_STEP_RETIRE:
		return do_retire(site, step, direction);
	case STORE_STEP_EXCHANGE:
		return do_exchange(site, step, direction, false);
	case STORE_STEP_INSTALL:
		return do_rename(site, step, direction == FORWARD, lease);
	case STORE_STEP_TAKE:
		return do_rename(site, step, direction == BACKWARD, lease);
	case STORE_STEP_META:
	case STORE_STEP_TIME:
	case STORE_STEP_PART:
	case STORE_STEP_KIND_COUNT:
	default:
		return -EINVAL;
	}
}

/* Moves something into the directory of what is kept for a human. *ret_path stays as it was if there is nothing. */
static int keep(struct step_site *site, const struct store_step *step, const struct place *from, char **ret_path)
{
	AUTO_FREE char *name = str_format("%s-%lld", site->op->row.dir, (long long)step->seq);
	AUTO_FD kept = fd_make_path(site->r->stage_fd, "kept");
	int r;

	if (!name)
		return -ENOMEM;
	if (kept < 0)
		return kept;
	r = sys_rename(from->dir, from->name, kept, name, RENAME_NOREPLACE);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return r;
	*ret_path = str_format("%s/kept/%s", site->r->row.stage, name);
	return *ret_path ? 0 : -ENOMEM;
}

int step_keep_other(struct step_site *site, const struct store_step *step, char **ret_path)
{
	struct place source;
	int r = find_source(site, step, &source);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	return r < 0 ? r : keep(site, step, &source, ret_path);
}

int step_set_aside(struct step_site *site, const struct store_step *step, enum direction direction, char **ret_path)
{
	struct place original;
	struct tree_stat st;
	int r;

	if (direction == FORWARD)
		return 0;
	if (step->kind == STORE_STEP_RETIRE)
		return step_keep_other(site, step, ret_path);
	if (step->kind != STORE_STEP_INSTALL)
		return 0;
	r = step_find_original(site, step, &original);
	if (r >= 0)
		r = verify(site, step, &original, &step->after, &st);
	/* Edited by somebody: theirs stays. */
	return r == -ESTALE ? 0 : r < 0 ? r : keep(site, step, &original, ret_path);
}
