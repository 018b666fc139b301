/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a workspace and its staging lie: in the first place from which entries can be exchanged with the original, so that nothing has
 * to be copied. Tried in this order: the state directory; a private directory at the root of the original's mount; one beside the
 * original; one in /var/tmp; one inside the original (staging only; the sandbox's own view hides it).
 */
#include "engine/sandbox.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/claim.h"
#include "jail/jail.h"

#define XFS_MAGIC 0x58465342

struct place {
	char *path;
	bool same;   /* entries can be exchanged with the original's */
	bool inside; /* lies inside the original */
};

static uint32_t project_of(int fd)
{
	struct fsxattr x;

	return ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0 && (x.fsx_xflags & FS_XFLAG_PROJINHERIT) ? x.fsx_projid : 0;
}

/* The findings about a place. */
struct trial {
	bool same;           /* entries can be exchanged with the original's */
	bool lacks_exchange; /* they could be if the filesystem had RENAME_EXCHANGE */
	char *area;          /* the area in the place */
};

/* A rename stays within one mount, one device (subvolume) and one quota project. Atoll tries
 * RENAME_EXCHANGE in the place itself, so that it writes nothing into the original. */
static int look_whether_same(int place_fd, int root_fd, struct trial *ret)
{
	struct tree_stat a, b;
	int r = tree_stat(place_fd, "", &a);

	if (r >= 0)
		r = tree_stat(root_fd, "", &b);
	if (r < 0)
		return r;
	if (a.dev != b.dev || a.mnt_id != b.mnt_id || project_of(place_fd) != project_of(root_fd))
		return 0;
	r = tree_has_exchange(place_fd);
	ret->same = r > 0;
	ret->lacks_exchange = r == 0;
	return MIN(r, 0);
}

/* Opens (making it, if need be) a private directory: ours, 0700, no link. */
static int open_private(int dir, const char *name)
{
	AUTO_FD fd = -EBADF;
	struct stat st;
	int r = sys_mkdir(dir, name, 0700);

	if (r < 0 && r != -EEXIST)
		return r;
	fd = area_open_level(dir, name);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_mode & 077 ? -EPERM : TAKE_FD(fd);
}

static int mount_root_of(int root_fd, char **ret)
{
	AUTO_FD at = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
	struct tree_stat here = { 0 };
	int r = at < 0 ? -errno : tree_stat(at, "", &here);

	while (r >= 0 && !here.is_mount_root) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		uint64_t ino = here.ino, dev = here.dev;

		if (up < 0)
			return -errno;
		fd_close(at);
		at = up;
		r = tree_stat(at, "", &here);
		if (r >= 0 && here.ino == ino && here.dev == dev)
			break;
	}
	return r < 0 ? r : fd_path(at, ret);
}

static char *private_below(const char *dir)
{
	if (!dir)
		return strdup("");
	return str_format("%s/.atoll-%u", strcmp(dir, "/") == 0 ? "" : dir, (unsigned)geteuid());
}

/* The candidate with number i, NULL past the end; "" if there is none of that kind. */
static char *candidate(struct atoll *a, int i, int root_fd, const char *root_path)
{
	AUTO_FREE char *dir = NULL;
	char *slash;

	switch (i) {
	case 0:
		return str_format("%s/boxes", a->state_dir);
	case 1:
		return mount_root_of(root_fd, &dir) < 0 ? strdup("") : private_below(dir);
	case 2:
		dir = strdup(root_path);
		slash = dir ? strrchr(dir, '/') : NULL;
		if (!slash || !slash[1])
			return strdup("");
		slash[slash == dir] = 0;
		return private_below(dir);
	case 3:
		return private_below("/var/tmp");
	case 4:
		return private_below(root_path);
	default:
		return NULL;
	}
}

/* The parts of a path place/uuid/seq. split_area() splits the path in place; it returns false if
 * the path has no such parts. */
struct area_names {
	char *above, *place, *box, *seq;
};

static bool split_area(char *path, struct area_names *ret)
{
	char **const names[] = { &ret->seq, &ret->box, &ret->place };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *slash = strrchr(path, '/');

		if (!slash || !slash[1])
			return false;
		*slash = '\0';
		*names[i] = slash + 1;
	}
	ret->above = *path ? path : (char *)"/";
	return true;
}

int area_make(const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	struct area_names names;
	AUTO_FD above = -EBADF;
	AUTO_FD place = -EBADF;
	AUTO_FD box = -EBADF;
	AUTO_FD seq = -EBADF;

	if (!copy || !split_area(copy, &names))
		return copy ? -EINVAL : -ENOMEM;
	above = fd_open_absolute(names.above, O_PATH | O_DIRECTORY);
	place = above < 0 ? above : open_private(above, names.place);
	box = place < 0 ? place : open_private(place, names.box);
	seq = box < 0 ? box : open_private(box, names.seq);
	return MIN(seq, 0);
}

/* Filesystems known to serve as layers need not be tried. */
static bool is_known_layer(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC;
}

static bool overlay_works(const char *area, int root_fd)
{
	AUTO_FD fd = area_open(area);
	bool works = false;

	if (fd < 0)
		return false;
	if (is_known_layer(fd) && is_known_layer(root_fd))
		return true;
	if (sys_mkdir(fd, "probe-upper", 0700) >= 0 && sys_mkdir(fd, "probe-work", 0700) >= 0) {
		AUTO_FD upper = fd_open_beneath(fd, "probe-upper", O_RDONLY | O_DIRECTORY);
		AUTO_FD work = fd_open_beneath(fd, "probe-work", O_RDONLY | O_DIRECTORY);

		works = upper >= 0 && work >= 0 && jail_probe_overlay_at(root_fd, upper, work) == 0;
	}
	tree_remove(fd, "probe-upper");
	tree_remove(fd, "probe-work");
	return works;
}

void area_keep_times(int root_fd, const struct tree_stat *before)
{
	const struct timespec times[2] = { tree_atime(before), tree_mtime(before) };
	struct tree_stat now;

	if (tree_stat(root_fd, "", &now) >= 0 && now.mtime != before->mtime)
		(void)sys_utimens(root_fd, "", times);
}

static void trial_release(struct trial *t)
{
	free(t->area);
}

static int try_area(const char *area, int root_fd, const struct area_needs *needs, struct trial *ret)
{
	AUTO_FD fd = area_open(area);
	int r = fd < 0 ? fd : look_whether_same(fd, root_fd, ret);

	if (r >= 0 && needs && needs->overlay && !overlay_works(area, root_fd))
		r = -EOPNOTSUPP;
	if (r >= 0 && needs && needs->fits && !needs->fits(root_fd, fd))
		r = -EOPNOTSUPP;
	return MIN(r, 0);
}

/* Makes the area in a place and tries what it is wanted for; removes it again if it does not serve. */
static int try_place(const char *place, const char *uuid, int seq, int root_fd, const struct area_needs *needs,
		     struct trial *ret)
{
	AUTO_FREE char *area = str_format("%s/%s/%d", place, uuid, seq);
	struct tree_stat before;
	bool known = tree_stat(root_fd, "", &before) >= 0;
	int r = area ? area_make(area) : -ENOMEM;

	/* At once: who is killed in between leaves the original with another time. */
	if (known)
		area_keep_times(root_fd, &before);
	if (r < 0)
		return r;
	r = try_area(area, root_fd, needs, ret);
	if (r < 0) {
		area_remove(area);
		if (known)
			area_keep_times(root_fd, &before);
		return r;
	}
	ret->area = TAKE_PTR(area);
	return 0;
}

/* Whether a place, or what would hold it, lies in the original's subvolume: elsewhere nothing needs to be made to know that it does not serve. */
static bool may_be_same(const char *place, int root_fd)
{
	AUTO_FREE char *holder = strdup(place);
	char *slash = holder ? strrchr(holder, '/') : NULL;
	struct tree_stat at, root;

	if (tree_stat(AT_FDCWD, place, &at) < 0) {
		if (slash)
			slash[slash == holder] = 0;
		if (!slash || tree_stat(AT_FDCWD, holder, &at) < 0)
			return true;
	}
	return tree_stat(root_fd, "", &root) < 0 || at.dev == root.dev;
}

/* A place in the state directory needs no check: the database that records the areas lies there as
 * well. */
static bool is_safe_place(struct atoll *a, const char *place, char **unsafe)
{
	AUTO_FREE char *above = strdup(place);
	AUTO_FREE char *found = NULL;
	char *slash = above ? strrchr(above, '/') : NULL;
	int r;

	if (!slash)
		return false;
	if (path_is_below(place, a->state_dir))
		return true;
	slash[slash == above] = '\0';
	r = area_find_unsafe(above, &found);
	if (r > 0 && !*unsafe)
		*unsafe = TAKE_PTR(found);
	return r == 0;
}

/* Why no place serves, if there is a better reason than that Atoll can write to none. */
struct refusal {
	int error; /* an error of the process, not of a place; or 0 */
	bool full; /* a filesystem has no space or inodes left */
	bool lacks_exchange, only_outside;
	char *unsafe;
};

static void refusal_release(struct refusal *f)
{
	free(f->unsafe);
}

/* With these errors any other place would fail too. */
static bool is_of_process(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EFBIG;
}

static int refuse_place(const char *root_path, const struct refusal *f, struct atoll_error *err)
{
	const char *unsafe = f->unsafe;
	bool only_outside = f->only_outside;

	if (f->error < 0)
		return error_sys(err, f->error, "new", root_path, "cannot make a workspace for \"%s\"", root_path);
	if (f->full)
		return error_set(err, ATOLL_NO_SPACE, ENOSPC, "new", root_path,
				 "no space left for the workspace of \"%s\" on its filesystem", root_path);
	if (f->lacks_exchange)
		return error_set(
			err, ATOLL_UNSUPPORTED, EOPNOTSUPP, "new", root_path,
			"the filesystem of \"%s\" cannot exchange two files in one step (RENAME_EXCHANGE; FUSE and "
			"network filesystems often cannot), so that nothing could be committed to it atomically; "
			"work on a copy that lies on ext4, XFS, btrfs or tmpfs",
			root_path);
	if (unsafe)
		return error_set(
			err, ATOLL_REFUSED, 0, "new", root_path,
			"no place on the filesystem of \"%s\" is safe for its workspace: \"%s\" belongs to another user or can be written by "
			"others, who could exchange what lies below it; take the right to write from them (chmod go-w, or chmod +t), or make a "
			"directory \".atoll-%u\" (mode 0700, yours) at the root of that filesystem's mount",
			root_path, unsafe, (unsigned)geteuid());
	if (only_outside)
		return error_set(
			err, ATOLL_REFUSED, 0, "new", root_path,
			"no place on the filesystem of \"%s\" but outside of it can be written for the workspace; make a directory \".atoll-%u\" (mode 0700, yours) beside it",
			root_path, (unsigned)geteuid());
	return error_set(
		err, ATOLL_REFUSED, 0, "new", root_path,
		"no place on the filesystem of \"%s\" can be written for staging; make \"%s/.atoll-%u\" (mode 0700, yours)",
		root_path, root_path, (unsigned)geteuid());
}

int area_choose(struct atoll *a, const char *uuid, int seq, int root_fd, const char *root_path,
		const struct area_needs *needs, char **ret_work, char **ret_stage, bool *ret_copies,
		struct atoll_error *err)
{
	AUTO_FREE char *work = NULL;
	AUTO_FREE char *stage = NULL;
	CLEANUP(refusal_release) struct refusal why = { 0 };

	for (int i = 0; !(work && stage); i++) {
		AUTO_FREE char *place = candidate(a, i, root_fd, root_path);
		CLEANUP(trial_release) struct trial found = { 0 };
		bool inside;
		int r;

		if (!place)
			break;
		inside = path_is_below(place, root_path);
		if (!*place || (inside && stage) || (work && !may_be_same(place, root_fd)) ||
		    !is_safe_place(a, place, &why.unsafe))
			continue;
		r = try_place(place, uuid, seq, root_fd, inside ? NULL : needs, &found);
		why.lacks_exchange |= found.lacks_exchange;
		if (is_of_process(r)) {
			why.error = r;
			break;
		}
		why.full |= r == -ENOSPC || r == -EDQUOT;
		if (r < 0)
			continue;
		/* The best is one place for both; a place for either is remembered until then. */
		if (found.same && !inside) {
			if (work && strcmp(work, found.area) != 0)
				area_remove(work);
			if (stage && strcmp(stage, found.area) != 0)
				area_remove(stage);
			free(work);
			free(stage);
			work = strdup(found.area);
			stage = strdup(found.area);
			break;
		}
		if (found.same && !stage)
			stage = TAKE_PTR(found.area);
		else if (!inside && !work)
			work = TAKE_PTR(found.area);
		else if (!work ||
			 strcmp(work, found.area) != 0) /* the mount's root may be the directory beside the original */
			area_remove(found.area);
	}
	if (!work || !stage) {
		struct tree_stat before;
		bool known = tree_stat(root_fd, "", &before) >= 0;

		if (work)
			area_remove(work);
		if (stage)
			area_remove(stage);
		if (known)
			area_keep_times(root_fd, &before);
		why.only_outside = stage && needs->fits;
		return refuse_place(root_path, &why, err);
	}
	*ret_copies = strcmp(work, stage) != 0;
	*ret_work = TAKE_PTR(work);
	*ret_stage = TAKE_PTR(stage);
	return 0;
}

/* The directory is not empty if other resources or sandboxes still use it. */
static int remove_empty(int dir, const char *name)
{
	int r = sys_unlink(dir, name, AT_REMOVEDIR);

	return r == -ENOTEMPTY || r == -EEXIST || r == -ENOENT ? 0 : r;
}

/* Opens the path level by level, so that only names that belong to this user lead to the directory
 * that is removed. */
int area_remove(const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	struct area_names names;
	AUTO_FD above = -EBADF;
	AUTO_FD place = -EBADF;
	AUTO_FD box = -EBADF;
	int r;

	if (!copy || !split_area(copy, &names))
		return 0;
	above = fd_open_absolute(names.above, O_PATH | O_DIRECTORY);
	place = above < 0 ? above : area_open_level(above, names.place);
	box = place < 0 ? place : area_open_level(place, names.box);
	if (box < 0 && box != -ENOENT)
		return box;
	r = box < 0 ? 0 : tree_remove(box, names.seq);
	if (r >= 0 && box >= 0)
		r = remove_empty(place, names.box);
	if (r >= 0 && place >= 0 && strncmp(names.place, ".atoll-", 7) == 0)
		r = remove_empty(above, names.place);
	return MIN(r, 0);
}

void area_remove_candidates(struct session *s, int seq, int root_fd, const char *root_path)
{
	for (int i = 0;; i++) {
		AUTO_FREE char *place = candidate(s->a, i, root_fd, root_path);
		AUTO_FREE char *area = NULL;

		if (!place)
			return;
		area = *place ? str_format("%s/%s/%d", place, s->box.uuid, seq) : NULL;
		if (area && claim_may_remove(s, area))
			area_remove(area);
	}
}

bool area_owns_path(struct atoll *a, const char *path)
{
	AUTO_FREE char *own = str_format(".atoll-%u", (unsigned)geteuid());

	if (path_is_below(path, a->state_dir))
		return true;
	for (const char *at = path; own && (at = strstr(at, own)); at++)
		if (at > path && at[-1] == '/' && (at[strlen(own)] == '/' || !at[strlen(own)]))
			return true;
	return false;
}
