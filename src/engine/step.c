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

bool step_has_no_place(struct step_site *site, const struct store_step *step)
{
	struct place at;

	return is_absent(step_find_original(site, step, &at));
}

static int find_slot(struct step_site *site, const struct store_step *step, struct place *ret)
{
	*ret = (struct place){ step->slot[0] == 'k' ? site->work_op_fd : site->stage_op_fd, step->slot };
	return MIN(ret->dir, 0);
}

int step_find_source(struct step_site *site, const struct store_step *step, struct place *ret)
{
	return step->slot ? find_slot(site, step, ret) : find(&site->workspace, step->path, ret);
}

/* Likewise, for a step that is about to move. On the way back and in recovery, -ENODATA: its directory was removed from Atoll's area. */
static int find_own_side(struct step_site *site, const struct store_step *step, bool lease, struct place *ret)
{
	int r = step_find_source(site, step, ret);

	return is_absent(r) && !lease ? -ENODATA : r;
}

int step_stat_at(const struct place *at, struct tree_stat *st)
{
	int r = at->dir < 0 ? at->dir : tree_stat(at->dir, at->name, st);

	return r == -ENOTDIR ? -ENOENT : r;
}

int step_look_at(const struct place *at, struct tree_stat *st, struct store_look *ret)
{
	int r = step_stat_at(at, st);

	return r < 0 ? r : resource_look(at->dir, at->name, st, ret);
}

static int state_by_identity(struct step_site *site, const struct store_step *step, struct tree_stat *st)
{
	struct store_look now;
	struct place at;
	int r = step_find_original(site, step, &at);

	*st = (struct tree_stat){ 0 };
	if (r >= 0)
		r = step_look_at(&at, st, &now);
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
		r = step_look_at(&at, &st, &now);
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

/* Enters the inode at a place into the table of own.c. */
static int note_own_at(struct step_site *site, const struct store_look *look, const struct place *at)
{
	struct tree_stat st;
	int r = S_ISDIR(look->mode) ? 0 : tree_stat(at->dir, at->name, &st);

	return r < 0 || S_ISDIR(look->mode) ? r : own_note(site->op, &look->id, &st);
}

/* Whether no other process has changed the inode since this op moved it or, where the op has not moved it yet, since the plan was made. */
static bool is_unchanged(const struct step_site *site, const struct tree_stat *st, const struct tree_id *id,
			 const struct store_look *planned)
{
	const int64_t *own = own_ctime(site->op, st);

	if (own)
		return *own == st->ctime;
	return tree_id_equal(id, &planned->id) && st->mode == planned->mode && st->uid == planned->uid &&
	       st->gid == planned->gid && st->mtime == planned->mtime && st->size == planned->size;
}

/*
 * Called when a call has failed after a rename of this step, and the step has renamed the entry back.
 * Both renames have moved the ctime of the inode. Without this note, the rollback of the op would
 * judge another name of the inode as changed by another process, and leave it on the wrong side.
 * Notes the inode at the place only if it is one of the two; another process may have put one there.
 */
static void note_failed(struct step_site *site, const struct tree_id *one, const struct tree_id *other,
			const struct place *at)
{
	struct store_look now;
	struct tree_stat st;

	if (step_look_at(at, &st, &now) >= 0 && !S_ISDIR(st.mode) &&
	    (tree_id_equal(&now.id, one) || tree_id_equal(&now.id, other)))
		(void)own_note(site->op, &now.id, &st);
}

/* Renames an entry of Atoll's areas. If another name of its inode is in the original, the ctime that this rename leaves shows there, and
 * must not be taken for a change by another process. */
static int rename_own(struct step_site *site, const struct place *from, const struct place *to,
		      const struct store_look *planned)
{
	struct tree_id id = { 0 };
	struct tree_stat st = { 0 };
	int r = tree_stat(from->dir, from->name, &st);
	bool own = r >= 0 && !S_ISDIR(st.mode) && st.nlink > 1 && tree_identify(from->dir, from->name, &st, &id) >= 0 &&
		   is_unchanged(site, &st, &id, planned);

	r = sys_rename(from->dir, from->name, to->dir, to->name, RENAME_NOREPLACE);
	if (r < 0 || !own)
		return r;
	r = tree_stat(to->dir, to->name, &st);
	if (r >= 0)
		r = own_note(site->op, &id, &st);
	if (r < 0) {
		(void)sys_rename(to->dir, to->name, from->dir, from->name, RENAME_NOREPLACE);
		note_failed(site, &id, &id, from);
	}
	return r;
}

/* Another process has replaced what this step had just put into the original, so that the way back has fetched the newer foreign version and
 * given the original the older one: once more the other way round. The sandbox's own version has lost its name; it is made again from the
 * open file. */
static int give_back_newest(const struct place *original, const struct place *source, int own_fd)
{
	struct tree_copy_report report = { 0 };
	int r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_EXCHANGE);

	if (r >= 0)
		r = tree_remove(source->dir, source->name);
	if (r >= 0 && own_fd >= 0)
		r = tree_copy_entry(own_fd, "", source->dir, source->name, TREE_COPY_KEEP_SET_ID, &report);
	return r;
}

/* Another process was quicker than the check: its version goes back where it was. -ESTALE, or why it could not. */
static int exchange_back(struct store_step *step, const struct place *original, const struct place *source,
			 enum direction direction)
{
	struct store_look *installed = direction == FORWARD ? &step->after : &step->before;
	AUTO_FD own = openat(original->dir, original->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct store_look now;
	struct tree_stat st;
	int r = own < 0 ? 0 : tree_stat(own, "", &st);

	if (r >= 0 && own >= 0)
		r = resource_look(own, "", &st, &now);
	if (r < 0 || own < 0 || !S_ISREG(st.mode) || !tree_id_equal(&now.id, &installed->id))
		own = fd_close(own);
	r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_EXCHANGE);
	/* And then it has removed the directory: its version has no place to go back to, and is kept aside. */
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	r = step_look_at(source, &st, &now);
	if (r < 0 || tree_id_equal(&now.id, &installed->id))
		return r < 0 ? r : -ESTALE;
	r = give_back_newest(original, source, own);
	if (r >= 0)
		r = step_look_at(source, &st, &now);
	/* The identity is the new file's from now on. A recovery that does not know it keeps the file for a human. */
	if (r >= 0)
		*installed = now;
	return r < 0 && r != -ENOENT ? r : -ESTALE;
}

/* Called after the rename. Returns -ESTALE if another process changed the entry before the rename. */
static int settle_exchange(struct step_site *site, struct store_step *step, const struct place *original,
			   const struct place *source, const struct step_guard *guard, enum direction direction,
			   const int64_t *source_ctime)
{
	const struct store_look *then = direction == FORWARD ? &step->before : &step->after;
	const struct store_look *installed = direction == FORWARD ? &step->after : &step->before;
	bool files = S_ISREG(step->before.mode) && S_ISREG(step->after.mode), moved = false;
	int r = step_check_displaced(site, step, source, guard, then);

	if (r >= 0)
		r = restore_dir_time(original, installed);
	if (r >= 0)
		r = restore_dir_time(source, then);
	if (r >= 0 && source_ctime)
		r = bump_ctime(original, *source_ctime, &moved);
	if (r >= 0 && !(step->single && direction == FORWARD))
		r = note_own_at(site, installed, original);
	/* What a filesystem does with two files it does with all; XFS differs only where a directory is one of them. */
	site->moves_ctime |= files && moved;
	return r;
}

static int exchange(struct step_site *site, struct store_step *step, const struct place *original,
		    const struct place *source, const struct step_guard *guard, enum direction direction)
{
	bool files = S_ISREG(step->before.mode) && S_ISREG(step->after.mode);
	bool known = files && site->moves_ctime;
	struct tree_stat source_st = { 0 };
	int r = known ? 0 : tree_stat(source->dir, source->name, &source_st);

	if (r >= 0)
		r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_EXCHANGE);
	/* Another process has removed it since the check. */
	if (r == -ENOENT && step_stat_at(original, &source_st) == -ENOENT)
		return -ESTALE;
	if (r < 0)
		return r;
	step->moved = true;
	r = settle_exchange(site, step, original, source, guard, direction, known ? NULL : &source_st.ctime);
	if (r >= 0)
		return 1;
	if (r == -ESTALE)
		return exchange_back(step, original, source, direction);
	(void)exchange_back(step, original, source, direction);
	note_failed(site, &step->before.id, &step->after.id, original);
	note_failed(site, &step->before.id, &step->after.id, source);
	return r;
}

/* Without a lease the state is known already. */
static int do_exchange(struct step_site *site, struct store_step *step, enum direction direction, bool lease)
{
	CLEANUP(step_guard_release) struct step_guard guard = STEP_GUARD_INIT;
	struct place original, source;
	int r = step_find_original(site, step, &original);

	if (is_absent(r))
		return -ESTALE;
	if (r >= 0)
		r = find_own_side(site, step, lease, &source);
	if (r >= 0)
		r = step_secure(site, step, &original, direction, lease, &guard);
	if (r == -ESTALE && lease) {
		r = step_state(site, step);
		return r < 0 ? r : r == (direction == FORWARD ? STEP_NEW : STEP_OLD) ? 0 : -ESTALE;
	}
	return r < 0 ? r : exchange(site, step, &original, &source, &guard, direction);
}

/* From Atoll's side onto a free name of the original. */
static int rename_in(struct step_site *site, struct store_step *step, const struct place *original,
		     const struct place *source)
{
	const struct store_look *then = step->kind == STORE_STEP_INSTALL ? &step->after : &step->before;
	struct store_look now;
	struct tree_stat st;
	int r = step_look_at(source, &st, &now);

	if (r >= 0 && !tree_id_equal(&now.id, &then->id))
		r = -ESTALE;
	if (r >= 0)
		r = sys_rename(source->dir, source->name, original->dir, original->name, RENAME_NOREPLACE);
	if (r == -EEXIST || r == -ENOENT)
		return -ESTALE;
	step->moved |= r >= 0;
	if (r < 0 || st.nlink < 2)
		return r < 0 ? r : 1;
	r = note_own_at(site, then, original);
	if (r >= 0)
		return 1;
	(void)sys_rename(original->dir, original->name, source->dir, source->name, RENAME_NOREPLACE);
	note_failed(site, &then->id, &then->id, source);
	return r;
}

/* From the original to Atoll's side. */
static int rename_out(struct step_site *site, struct store_step *step, const struct place *original,
		      const struct place *source, bool lease)
{
	enum direction direction = step->kind == STORE_STEP_INSTALL ? BACKWARD : FORWARD;
	const struct store_look *then = direction == BACKWARD ? &step->after : &step->before;
	CLEANUP(step_guard_release) struct step_guard guard = STEP_GUARD_INIT;
	int r = step_secure(site, step, original, direction, lease, &guard);

	if (r >= 0)
		r = sys_rename(original->dir, original->name, source->dir, source->name, RENAME_NOREPLACE);
	if (r == -ENOENT)
		return -ESTALE; /* another process has removed it since the check */
	if (r < 0)
		return r;
	step->moved = true;
	r = step_check_displaced(site, step, source, &guard, then);
	/* If another process was quicker than the check, its version goes back to its place. If a process has
	 * taken that place since, Atoll keeps the version aside. */
	if (r < 0)
		(void)sys_rename(source->dir, source->name, original->dir, original->name, RENAME_NOREPLACE);
	if (r < 0 && r != -ESTALE)
		note_failed(site, &then->id, &then->id, original);
	return r < 0 ? r : 1;
}

static int do_rename(struct step_site *site, struct store_step *step, bool to_original, bool lease)
{
	struct place original, source;
	int r = step_find_original(site, step, &original);

	/* Another process has removed the directory, or put something else in its place. A symbolic link is not followed. */
	if (is_absent(r))
		return -ESTALE;
	if (r >= 0)
		r = find_own_side(site, step, lease, &source);
	if (r < 0)
		return r;
	return to_original ? rename_in(site, step, &original, &source)
			   : rename_out(site, step, &original, &source, lease);
}

int step_note_own(struct step_site *site, const struct store_step *step)
{
	const bool moves = step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_INSTALL ||
			   step->kind == STORE_STEP_TAKE;
	struct place at[2] = { { -ENOENT, NULL }, { -ENOENT, NULL } };

	if (!moves)
		return 0;
	(void)step_find_original(site, step, &at[0]);
	(void)step_find_source(site, step, &at[1]);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		struct store_look now;
		struct tree_stat st;
		int r = step_look_at(&at[i], &st, &now);

		if (r >= 0 && !own_ctime(site->op, &st) &&
		    (tree_id_equal(&now.id, &step->before.id) || tree_id_equal(&now.id, &step->after.id)))
			r = own_note(site->op, &now.id, &st);
		if (r < 0 && !is_absent(r) && r != -EBADF)
			return r;
	}
	return 0;
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
	/* A layer that is exchanged as a whole has no newer edits: what left it for a while goes back, also into a directory that hides the original. */
	if (direction == BACKWARD && !site->how->switches)
		r = merge_is_hidden(site->r, site->workspace_fd, step->path);
	/* A newer edit has removed its directory, and it with that. */
	if (r > 0)
		return 0;
	if (r >= 0)
		r = find(&site->workspace, step->path, &workspace);
	if (is_absent(r) && direction == BACKWARD)
		return -ENODATA;
	if (r >= 0)
		r = find_slot(site, step, &slot);
	if (r >= 0)
		r = tree_stat(workspace.dir, "", &st);
	if (r < 0)
		return r;
	r = direction == FORWARD ? rename_own(site, &workspace, &slot, &step->before)
				 : rename_own(site, &slot, &workspace, &step->before);
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
	int r = step_find_source(site, step, &at);

	if (r >= 0)
		r = step_look_at(&at, &st, &now);
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
	r = step_find_source(site, step, &at);
	if (r >= 0)
		r = step_stat_at(&at, &st);
	return is_absent(r) ? 1 : MIN(r, 0);
}

/* Whether an entry of the workspace that the step had put into the original is on neither side: another process has removed it from the
 * original, or moved it, alone or with its directory. Nothing is lost with a staged copy: the workspace still has what it was copied from. */
static int is_taken_away(struct step_site *site, const struct store_step *step, enum direction direction)
{
	struct tree_stat st;
	struct place at;
	int r;

	if (step->kind != STORE_STEP_INSTALL || direction == FORWARD || step->slot || site->mended)
		return 0;
	r = step_find_source(site, step, &at);
	if (r >= 0)
		r = step_stat_at(&at, &st);
	return is_absent(r) ? 1 : MIN(r, 0);
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
		r = step_verify(site, step, &at, then, false, &st);
	return r == -ESTALE || is_absent(r) ? 0 : r < 0 ? r : 1;
}

int step_move(struct step_site *site, struct store_step *step, enum direction direction, bool lease)
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
	if (state == (direction == FORWARD ? STEP_NEW : STEP_OLD)) {
		state = lease ? 0 : is_taken_away(site, step, direction);
		return state < 0 ? state : state ? -ESTALE : 0;
	}
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

/* Moves something into the directory of what is kept for a human. A recovery that was killed or could not settle everything may have moved it
 * there before: it is named again. *ret_path stays as it was if there is nothing. */
static int keep(struct step_site *site, const struct store_step *step, const struct place *from, char **ret_path)
{
	AUTO_FREE char *name = str_format("%s-%lld", site->op->row.dir, (long long)step->seq);
	AUTO_FD kept = fd_make_path(site->r->stage_fd, "kept");
	struct tree_stat st;
	int r;

	if (!name)
		return -ENOMEM;
	if (kept < 0)
		return kept;
	if (part_is_undo_record(site->op, step))
		r = part_copy_record(site, step, kept, name);
	else
		r = is_absent(from->dir) ? from->dir
					 : rename_own(site, from, &(struct place){ kept, name }, &step->after);
	if (is_absent(r))
		r = tree_stat(kept, name, &st);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*ret_path = str_format("%s/kept/%s", site->r->row.stage, name);
	return *ret_path ? 0 : -ENOMEM;
}

int step_keep_other(struct step_site *site, const struct store_step *step, char **ret_path)
{
	struct place source;
	int r = step_find_source(site, step, &source);

	return r < 0 && !is_absent(r) ? r : keep(site, step, &source, ret_path);
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
		r = step_verify(site, step, &original, &step->after, false, &st);
	/* Another process has edited or removed it: its version stays. */
	return r == -ESTALE || is_absent(r) ? 0 : r < 0 ? r : keep(site, step, &original, ret_path);
}
