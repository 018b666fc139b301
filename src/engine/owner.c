/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the sandboxes of a state directory are. A copy of it, or what a backup restored, has the same sandboxes on record, with the same areas and
 * originals, but locks of its own: two of them would work on one workspace. So the registry notes in which directory it was begun.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>

static int look_at(int fd, struct store_owner *ret)
{
	struct tree_stat st;
	int r = tree_stat(fd, "", &st);

	if (r >= 0)
		r = tree_identify(fd, "", &st, &ret->id);
	ret->born = r < 0 ? 0 : st.btime;
	return r;
}

/* Where a filesystem has no handles an inode's number may change, but not its birth. */
static bool is_same(const struct store_owner *a, const struct store_owner *b)
{
	if (tree_id_is_handle(&a->id) && tree_id_is_handle(&b->id) && !tree_id_equal(&a->id, &b->id))
		return false;
	return a->born == b->born || !a->born || !b->born;
}

static bool is_still_there(const struct store_owner *owner)
{
	AUTO_FD fd = open(owner->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct store_owner there = { 0 };

	return fd >= 0 && look_at(fd, &there) >= 0 && is_same(&there, owner);
}

static int refuse(const struct atoll *a, const struct store_owner *owner, bool adopt, struct atoll_error *err)
{
	if (is_still_there(owner))
		return error_set(
			err, ATOLL_REFUSED, 0, "open", a->state_dir,
			"\"%s\" is a copy of the state directory \"%s\", whose sandboxes these are; use that one, and remove the copy",
			a->state_dir, owner->path);
	if (adopt)
		return 0;
	return error_set(
		err, ATOLL_REFUSED, 0, "open", a->state_dir,
		"\"%s\" was copied or restored from the state directory \"%s\"; if nobody uses that any more, take its sandboxes over "
		"with atoll recover --adopt",
		a->state_dir, owner->path);
}

/* 1: it is on record already. 0: *ret is to be recorded. */
static int check(struct atoll *a, struct store *store, bool adopt, struct store_owner *ret, struct atoll_error *err)
{
	struct store_owner known = { 0 };
	int r = store_owner_get(store, &known, err);
	bool found = r > 0;

	*ret = (struct store_owner){ .path = a->state_dir };
	/* What cannot be told apart is taken for the same. */
	if (r >= 0 && (look_at(a->state_fd, ret) < 0 || (found && is_same(&known, ret))))
		r = 1;
	else if (found)
		r = refuse(a, &known, adopt, err);
	free(known.path);
	return r;
}

int owner_check(struct atoll *a, struct store *store, struct atoll_error *err)
{
	struct store_owner now;

	return MIN(check(a, store, false, &now, err), 0);
}

int owner_record(struct atoll *a, struct store *store, struct atoll_error *err)
{
	struct store_owner now;
	int r = check(a, store, false, &now, err);

	return r == 0 ? store_owner_put(store, &now, err) : MIN(r, 0);
}

int owner_adopt(struct atoll *a, struct atoll_error *err)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_owner now;
	int r = store_open(a->state_dir, &store, err);

	if (r >= 0)
		r = store_begin(store, true, err);
	if (r >= 0)
		r = check(a, store, true, &now, err);
	if (r == 0)
		r = store_owner_put(store, &now, err);
	return r < 0 ? r : store_commit(store, err);
}
