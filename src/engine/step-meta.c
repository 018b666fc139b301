/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that change no inode: mode, owner, attributes and times of a directory. Old and new value are in the journal. */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

static int open_dir(struct step_site *site, const struct store_step *step)
{
	return fd_open_beneath(site->r->root_fd, step->path, O_PATH | O_DIRECTORY);
}

static const struct tree_xattr *find_xattr(const struct tree_xattrs *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++)
		if (strcmp(x->v[i].name, name) == 0)
			return &x->v[i];
	return NULL;
}

static bool same_value(const struct tree_xattr *a, const struct tree_xattr *b)
{
	return (!a && !b) || (a && b && a->size == b->size && memcmp(a->value, b->value, a->size) == 0);
}

/* What a directory's values are made of, compared with the old and the new ones. A crash between two calls leaves some of each, which
 * is ours all the same; a value that is neither is somebody else's. */
struct blend {
	bool old, new, other;
};

static void blend_add(struct blend *b, bool is_old, bool is_new)
{
	if (!is_old && !is_new)
		b->other = true;
	else if (!is_new)
		b->old = true;
	else if (!is_old)
		b->new = true;
}

static void blend_names(struct blend *b, const struct tree_xattrs *names, const struct tree_xattrs *now,
			const struct tree_xattrs *before, const struct tree_xattrs *after)
{
	for (size_t i = 0; i < names->n; i++) {
		const struct tree_xattr *is = find_xattr(now, names->v[i].name);

		blend_add(b, same_value(is, find_xattr(before, names->v[i].name)),
			  same_value(is, find_xattr(after, names->v[i].name)));
	}
}

static int blend_xattrs(struct blend *b, int fd, const struct store_step *step)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs now = { 0 };
	CLEANUP(tree_xattrs_release) struct tree_xattrs before = { 0 };
	CLEANUP(tree_xattrs_release) struct tree_xattrs after = { 0 };
	int r = tree_xattrs_read(fd, &now);

	if (r >= 0)
		r = tree_xattrs_decode(step->xattrs_before, step->xattrs_before_size, &before);
	if (r >= 0)
		r = tree_xattrs_decode(step->xattrs_after, step->xattrs_after_size, &after);
	if (r < 0)
		return r;
	blend_names(b, &now, &now, &before, &after);
	blend_names(b, &before, &now, &before, &after);
	blend_names(b, &after, &now, &before, &after);
	return 0;
}

static int read_blend(int fd, const struct store_step *step, struct blend *ret)
{
	struct tree_stat st;
	int r = tree_stat(fd, "", &st);

	if (r < 0)
		return r;
	blend_add(ret, st.uid == step->before.uid, st.uid == step->after.uid);
	blend_add(ret, st.gid == step->before.gid, st.gid == step->after.gid);
	if (step->xattrs_after) {
		r = blend_xattrs(ret, fd, step);
		if (r < 0)
			return r;
		/* Setting an ACL moves the group bits by itself. */
		if (st.mode != step->before.mode && st.mode != step->after.mode) {
			ret->old = ret->new = true;
			return 0;
		}
	}
	blend_add(ret, st.mode == step->before.mode, st.mode == step->after.mode);
	return 0;
}

int step_meta_state(struct step_site *site, const struct store_step *step)
{
	AUTO_FD fd = open_dir(site, step);
	struct blend b = { 0 };
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return STEP_FOREIGN;
	if (fd < 0)
		return fd;
	/* Times move with every rename below; they are set, not recognised. */
	if (step->kind == STORE_STEP_TIME)
		return STEP_OLD;
	r = read_blend(fd, step, &b);
	if (r < 0)
		return r;
	if (b.other)
		return STEP_FOREIGN;
	return b.old && b.new ? STEP_BETWEEN : b.new ? STEP_NEW : STEP_OLD;
}

static int set_values(int fd, const struct store_look *look, const char *xattrs, size_t size)
{
	struct tree_stat st;
	int r = tree_stat(fd, "", &st);

	if (r < 0)
		return r;
	if (st.uid != look->uid || st.gid != look->gid)
		r = sys_chown(fd, "", look->uid, look->gid);
	if (r >= 0 && xattrs) {
		CLEANUP(tree_xattrs_release) struct tree_xattrs wanted = { 0 };

		r = tree_xattrs_decode(xattrs, size, &wanted);
		if (r >= 0)
			r = tree_xattrs_write(fd, &wanted);
	}
	/* An ACL writes the group bits of the mode: the mode comes last. */
	return r < 0 ? r : sys_chmod(fd, look->mode & 07777);
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

static int move_times(struct step_site *site, const struct store_step *step, enum direction direction)
{
	AUTO_FD fd = open_dir(site, step);
	AUTO_FD copy = -EBADF;
	int r = 0;

	if (fd < 0 && !is_absent(fd))
		return TAKE_FD(fd);
	if (direction == FORWARD)
		return fd < 0 ? 0 : set_times(fd, &step->after);
	/* The workspace's directory saw the same renames: its times are the edits', and come back too. */
	copy = fd_open_beneath(site->workspace_fd, step->path, O_PATH | O_DIRECTORY);
	if (copy < 0 && !is_absent(copy))
		return TAKE_FD(copy);
	if (fd >= 0 && step->before.mode)
		r = set_times(fd, &step->before);
	if (r >= 0 && copy >= 0)
		r = set_times(copy, &step->after);
	return r;
}

int step_meta_move(struct step_site *site, const struct store_step *step, enum direction direction)
{
	bool forward = direction == FORWARD;
	AUTO_FD fd = -EBADF;
	int state, r;

	if (step->kind == STORE_STEP_TIME)
		return move_times(site, step, direction);
	state = step_meta_state(site, step);
	if (state < 0 || state == (forward ? STEP_NEW : STEP_OLD))
		return MIN(state, 0);
	if (state == STEP_FOREIGN)
		return -ESTALE;
	fd = open_dir(site, step);
	if (fd < 0)
		return fd;
	r = forward ? set_values(fd, &step->after, step->xattrs_after, step->xattrs_after_size)
		    : set_values(fd, &step->before, step->xattrs_before, step->xattrs_before_size);
	return r < 0 ? r : 1;
}
