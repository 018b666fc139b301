/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether RENAME_EXCHANGE works, found out by doing it. Nothing less tells: bind mounts, btrfs subvolumes and quota
 * projects refuse it between directories that have the same device number.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>

#include "base/random.h"
#include "base/sys.h"
#include "tree/private.h"

struct trial {
	int dirfd;
	char name[48];
	uint64_t ino;
	bool made;
};

static int trial_make(struct trial *t, int dirfd)
{
	char uuid[37];
	struct tree_stat st;
	AUTO_FD fd = -EBADF;
	int r;

	random_uuid(uuid);
	t->dirfd = dirfd;
	snprintf(t->name, sizeof(t->name), ".atoll-%s", uuid);
	fd = sys_open(dirfd, t->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return TAKE_FD(fd);
	t->made = true;
	r = tree_stat(fd, "", &st);
	if (r < 0)
		return r;
	t->ino = st.ino;
	return 0;
}

static int trial_remove(struct trial *t)
{
	return t->made ? sys_unlink(t->dirfd, t->name, 0) : 0;
}

static int trial_holds(const struct trial *t, uint64_t ino)
{
	struct tree_stat st;
	int r = tree_stat(t->dirfd, t->name, &st);

	return r < 0 ? r : st.ino == ino;
}

static int exchange(const struct trial *a, const struct trial *b)
{
	int r = sys_rename(a->dirfd, a->name, b->dirfd, b->name, RENAME_EXCHANGE);

	if (r == -EXDEV || r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP)
		return 0;
	if (r < 0)
		return r;
	r = trial_holds(a, b->ino);
	return r <= 0 ? r : trial_holds(b, a->ino);
}

int tree_can_exchange(int dir_a, int dir_b)
{
	struct trial a = { 0 }, b = { 0 };
	int r, removed_a, removed_b;

	r = trial_make(&a, dir_a);
	if (r == 0)
		r = trial_make(&b, dir_b);
	if (r == 0)
		r = exchange(&a, &b);
	removed_a = trial_remove(&a);
	removed_b = trial_remove(&b);
	if (r < 0)
		return r;
	return removed_a < 0 ? removed_a : removed_b < 0 ? removed_b : r;
}

int tree_has_exchange(int dirfd)
{
	return tree_can_exchange(dirfd, dirfd);
}
