/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that change no inode: mode, owner, attributes and times of a directory. Old and new value are in the journal. */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

/* -ENOENT also if another directory has taken the place of the one that a META step is about: its metadata is not ours to set. */
static int open_dir(struct step_site *site, const struct store_step *step)
{
	AUTO_FD fd = fd_open_beneath(site->r->root_fd, step->path, O_PATH | O_DIRECTORY);
	struct tree_stat st;
	struct tree_id id;
	int r;

	if (fd < 0 || step->kind != STORE_STEP_META || !step->before.id.size)
		return TAKE_FD(fd);
	r = tree_stat(fd, "", &st);
	if (r >= 0)
		r = tree_identify(fd, "", &st, &id);
	if (r < 0)
		return r;
	return tree_id_equal(&id, &step->before.id) ? TAKE_FD(fd) : -ENOENT;
}

/* The extended attributes of a directory on both sides of a step, and now. An older journal has none for a step that changes only mode or
 * owner: nothing is compared then. */
struct attributes {
	bool known;
	struct tree_xattrs before, after, now;
};

static void release_attributes(struct attributes *a)
{
	tree_xattrs_release(&a->before);
	tree_xattrs_release(&a->after);
	tree_xattrs_release(&a->now);
}

static int read_attributes(const struct step_site *site, int fd, const struct store_step *step, struct attributes *ret)
{
	int r;

	ret->known = step->xattrs_before && step->xattrs_after;
	if (!ret->known)
		return 0;
	r = tree_xattrs_read(fd, resource_marks(site->r), &ret->now);
	if (r >= 0)
		r = tree_xattrs_decode(step->xattrs_before, step->xattrs_before_size, &ret->before);
	return r < 0 ? r : tree_xattrs_decode(step->xattrs_after, step->xattrs_after_size, &ret->after);
}

/* What a directory's values are made of, compared with the old and the new ones. A crash between two system calls leaves some of each, which
 * is the step's own doing all the same; a value that is neither was set by another process. */
struct blend {
	bool old, new; /* of the values that the step changes, some are on that side */
	bool other;    /* a value that the step changes is neither the old nor the new one */
	bool foreign;  /* a value that the step does not change is another one now */
	bool halfway;  /* the mode is one that the kernel gives in between, while an ACL is set */
};

static void blend_add(struct blend *b, bool changes, bool is_old, bool is_new)
{
	if (!is_old && !is_new)
		*(changes ? &b->other : &b->foreign) = true;
	else if (!is_new)
		b->old = true;
	else if (!is_old)
		b->new = true;
}

static void blend_names(struct blend *b, const struct tree_xattrs *names, const struct attributes *a)
{
	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->v[i].name;
		const struct tree_xattr *before = tree_xattrs_find(&a->before, name);
		const struct tree_xattr *after = tree_xattrs_find(&a->after, name);
		const struct tree_xattr *now = tree_xattrs_find(&a->now, name);

		blend_add(b, !tree_xattr_same(before, after), tree_xattr_same(now, before),
			  tree_xattr_same(now, after));
	}
}

/* Setting an ACL writes the mode by itself, and the kernel takes the set-group-ID bit from who is not in the group. */
static bool is_halfway(const struct store_step *step, const struct attributes *a, mode_t mode)
{
	const struct tree_xattr *old = tree_xattrs_find(&a->before, "system.posix_acl_access");
	const struct tree_xattr *new = tree_xattrs_find(&a->after, "system.posix_acl_access");
	const mode_t from = step->before.mode, to = step->after.mode;
	const mode_t modes[] = { from, to, tree_acl_mode(new, from), tree_acl_mode(old, to) };

	if (from == to && tree_xattr_same(old, new) && step->before.uid == step->after.uid &&
	    step->before.gid == step->after.gid)
		return false;
	if ((mode & S_ISGID) && !((from | to) & S_ISGID))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (((mode ^ modes[i]) & ~(mode_t)S_ISGID) == 0)
			return true;
	return false;
}

static void blend_mode(struct blend *b, const struct store_step *step, const struct attributes *a, mode_t mode)
{
	bool changes = step->before.mode != step->after.mode;

	b->halfway = mode != step->before.mode && mode != step->after.mode && is_halfway(step, a, mode);
	if (b->halfway)
		b->old = b->new = true;
	else
		blend_add(b, changes, mode == step->before.mode, mode == step->after.mode);
}

static int read_blend(const struct step_site *site, int fd, const struct store_step *step, struct attributes *a,
		      struct blend *ret)
{
	const struct store_look *before = &step->before, *after = &step->after;
	struct tree_stat st;
	int r = tree_stat(fd, "", &st);

	*ret = (struct blend){ 0 };
	if (r >= 0)
		r = read_attributes(site, fd, step, a);
	if (r < 0)
		return r;
	blend_add(ret, before->uid != after->uid, st.uid == before->uid, st.uid == after->uid);
	blend_add(ret, before->gid != after->gid, st.gid == before->gid, st.gid == after->gid);
	blend_names(ret, &a->now, a);
	blend_names(ret, &a->before, a);
	blend_names(ret, &a->after, a);
	blend_mode(ret, step, a, st.mode);
	return 0;
}

int step_meta_state(struct step_site *site, const struct store_step *step)
{
	CLEANUP(release_attributes) struct attributes a = { 0 };
	AUTO_FD fd = open_dir(site, step);
	struct blend b;
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return STEP_FOREIGN;
	if (fd < 0)
		return fd;
	/* Times move with every rename below; they are set, not recognised. */
	if (step->kind == STORE_STEP_TIME)
		return STEP_OLD;
	r = read_blend(site, fd, step, &a, &b);
	if (r < 0)
		return r;
	if (b.other || b.foreign)
		return STEP_FOREIGN;
	return b.old && b.new ? STEP_BETWEEN : b.new ? STEP_NEW : STEP_OLD;
}

/* Each value that stands on the other side goes to this one. A value that another process has set is left alone. */
static int set_values(int fd, const struct store_step *step, const struct attributes *a, enum direction direction)
{
	const struct store_look *from = direction == FORWARD ? &step->before : &step->after;
	const struct store_look *to = direction == FORWARD ? &step->after : &step->before;
	const struct tree_xattrs *from_x = direction == FORWARD ? &a->before : &a->after;
	const struct tree_xattrs *to_x = direction == FORWARD ? &a->after : &a->before;
	struct tree_stat st;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	int r = tree_stat(fd, "", &st);

	if (r < 0)
		return r;
	mode = st.mode == from->mode || is_halfway(step, a, st.mode) ? to->mode : st.mode;
	uid = st.uid == from->uid ? to->uid : st.uid;
	gid = st.gid == from->gid ? to->gid : st.gid;
	if (uid != st.uid || gid != st.gid)
		r = sys_chown(fd, "", uid, gid);
	if (r >= 0 && a->known)
		r = tree_xattrs_change(fd, from_x, to_x);
	/* An ACL writes the group bits of the mode: the mode comes last. */
	if (r >= 0)
		r = tree_stat(fd, "", &st);
	return r < 0 || st.mode == mode ? MIN(r, 0) : sys_chmod(fd, mode & 07777);
}

/* Only its owner may choose a directory's times. Another's, which the user may write to, keeps those that the renames gave
 * it, as it does when the user works there directly. */
static int set_times(int fd, const struct store_look *look)
{
	const struct timespec times[2] = { clock_timespec_of_era(look->atime, look->atime_era),
					   clock_timespec_of_era(look->mtime, look->mtime_era) };
	int r = sys_utimens(fd, "", times);
	struct tree_stat st;

	if (r != -EPERM || tree_stat(fd, "", &st) < 0 || st.uid == geteuid() || st.is_immutable)
		return r;
	return 0;
}

/* Another process has made or removed names in the directory since the commit: its time is that process's. The way back leaves the time
 * that its own renames make, and the way forward, when the undo fails, gives back the time that was found. */
static bool is_foreign_time(const struct store_step *step)
{
	return !step->before.mode && step->before.mtime;
}

int step_time_find_foreign(struct step_site *site, struct store_step *step)
{
	AUTO_FD fd = open_dir(site, step);
	struct tree_stat st;
	int r = fd < 0 ? fd : tree_stat(fd, "", &st);

	if (is_absent(fd))
		return 0;
	if (r < 0 || (!is_foreign_time(step) && st.mtime == step->after.mtime))
		return r;
	/* A commit that changed no names leaves the time as it was, and so does its undo. */
	if (step->before.mode && step->before.mtime == step->after.mtime)
		store_look_set_times(&step->after, &st);
	else
		step->before.mode = 0;
	store_look_set_times(&step->before, &st);
	return 1;
}

static int move_times(struct step_site *site, const struct store_step *step, enum direction direction)
{
	AUTO_FD fd = open_dir(site, step);
	AUTO_FD copy = -EBADF;
	int r = 0;

	if (fd < 0 && !is_absent(fd))
		return TAKE_FD(fd);
	if (direction == FORWARD)
		return fd < 0 ? 0 : set_times(fd, is_foreign_time(step) ? &step->before : &step->after);
	/* Of a layer that was put aside as a whole the directories saw the same renames: their times are the edits', and come back too. A
	 * workspace that went on being used has newer times, which stay. */
	copy = !site->how->switches ? -ENOENT : fd_open_beneath(site->workspace_fd, step->path, O_PATH | O_DIRECTORY);
	if (copy < 0 && !is_absent(copy))
		return TAKE_FD(copy);
	if (fd >= 0 && step->before.mode)
		r = set_times(fd, &step->before);
	if (r >= 0 && copy >= 0)
		r = set_times(copy, &step->after);
	return r;
}

/* Whether all values are the wanted ones. A value that another process has set while ours were being set is that process's change: ours go
 * back, and the step has failed. */
static int confirm(const struct step_site *site, int fd, const struct store_step *step, enum direction direction)
{
	CLEANUP(release_attributes) struct attributes a = { 0 };
	struct blend b;
	int r = read_blend(site, fd, step, &a, &b);

	if (r < 0 || (!b.other && !b.foreign))
		return r;
	r = set_values(fd, step, &a, direction == FORWARD ? BACKWARD : FORWARD);
	return r < 0 ? r : -ESTALE;
}

/* checked: an operation in progress, which gives up where another process has changed any value of the directory. Else the way back, or a
 * recovery: of such a directory the step's own values are put where they belong, and the others stay. */
int step_meta_move(struct step_site *site, const struct store_step *step, enum direction direction, bool checked)
{
	CLEANUP(release_attributes) struct attributes a = { 0 };
	bool forward = direction == FORWARD;
	AUTO_FD fd = -EBADF;
	struct blend b;
	int r;

	if (step->kind == STORE_STEP_TIME)
		return move_times(site, step, direction);
	fd = open_dir(site, step);
	if (is_absent(fd))
		return -ESTALE;
	r = fd < 0 ? fd : read_blend(site, fd, step, &a, &b);
	if (r < 0)
		return r;
	if (checked && (b.other || b.foreign || (forward && b.halfway)))
		return -ESTALE;
	if (!(forward ? b.old : b.new) && !b.other)
		return 0;
	r = set_values(fd, step, &a, direction);
	/* Another process has changed owner or attributes so that we may not set ours: what it did stays. */
	if ((r == -EPERM || r == -EACCES) && !checked && (b.other || b.foreign))
		return -ESTALE;
	if (r >= 0 && checked)
		r = confirm(site, fd, step, direction);
	return r < 0 ? r : b.other ? -ESTALE : 1;
}
