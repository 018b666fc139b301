/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the sandboxes of a state directory are. A copy of it, or what a backup restored, has the same sandboxes on record,
 * with the same areas and originals, but locks of its own: two of them would work on one workspace. So the registry notes
 * in which directory it was begun, and has an id, with which areas outside of that directory are marked (claim.c).
 */
#include "engine/claim.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

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

static int put_new(struct store *store, const struct store_owner *now, struct atoll_error *err)
{
	char id[REGISTRY_ID_SIZE];

	random_uuid(id);
	return store_owner_put(store, now, id, err);
}

int owner_record(struct atoll *a, struct store *store, struct atoll_error *err)
{
	struct store_owner now;
	int r = check(a, store, false, &now, err), marked;

	if (r < 0)
		return r;
	marked = whole_is_marked(a->state_fd) ? 0 : whole_mark(a->state_fd);
	if (marked < 0)
		return error_sys(err, marked, "new", a->state_dir, "cannot write to the state directory \"%s\"",
				 a->state_dir);
	return r == 0 ? put_new(store, &now, err) : 0;
}

int owner_registry(struct atoll *a, struct store *store, char ret[REGISTRY_ID_SIZE], struct atoll_error *err)
{
	int r = store_registry_get(store, ret, err);

	if (r != 0)
		return MIN(r, 0);
	r = store_begin(store, true, err);
	if (r >= 0)
		r = owner_record(a, store, err);
	if (r >= 0)
		r = store_commit(store, err);
	store_abort(store);
	return r < 0 ? r : MIN(store_registry_get(store, ret, err), 0);
}

bool owner_is_there(const char *path)
{
	AUTO_FREE char *database = path ? str_format("%s/atoll.db", path) : NULL;

	return database && access(database, F_OK) == 0;
}

/* A copy of it that was put in its place since has the same id on record, but not itself as the owner. */
bool owner_is_elsewhere(struct atoll *a, const char *path, const char *registry)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	char id[REGISTRY_ID_SIZE] = "";
	struct store_owner known = { 0 }, here = { 0 };
	AUTO_FD fd = -EBADF;
	bool there;

	if (!owner_is_there(path) || store_open(path, &store, NULL) < 0 || store_registry_get(store, id, NULL) <= 0 ||
	    strcmp(id, registry) != 0 || store_owner_get(store, &known, NULL) <= 0)
		return false;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	there = fd >= 0 && look_at(fd, &here) >= 0 && is_same(&here, &known);
	free(known.path);
	known = (struct store_owner){ 0 };
	return there && look_at(a->state_fd, &known) >= 0 && !is_same(&here, &known);
}

static int stop_at_first(const struct tree_entry *e, void *arg)
{
	*(bool *)arg = true;
	return TREE_WALK_STOP;
}

/* Whether a workspace lies in the state directory, and was copied with it. */
static bool has_boxes(const struct atoll *a)
{
	AUTO_FD boxes = fd_open_beneath(a->state_fd, "boxes", O_RDONLY | O_DIRECTORY);
	bool found = false;

	return boxes >= 0 && (tree_walk(boxes, TREE_WALK_NO_ROOT, stop_at_first, &found, NULL) < 0 || found);
}

/* Refuses an incomplete copy of the state directory if it holds workspaces, unless the caller
 * accepts it. Atoll cannot restore the missing parts, so an accepted copy gets a new mark and
 * counts as whole from then on. */
static int check_whole(struct atoll *a, bool accept_incomplete, struct atoll_error *err)
{
	int r;

	if (whole_is(a->state_fd))
		return 0;
	if (!accept_incomplete && has_boxes(a))
		return error_set(
			err, ATOLL_REFUSED, 0, "recover", a->state_dir,
			"\"%s\" was copied without extended attributes, times or hard links: edits may be "
			"missing in its workspaces, and unchanged files may look changed; copy it with "
			"\"cp -a\", \"rsync -aHAX\" or \"tar --xattrs --xattrs-include=*\", or take it as it is "
			"with --accept-incomplete",
			a->state_dir);
	r = whole_mark(a->state_fd);
	return r < 0 ? error_sys(err, r, "recover", a->state_dir, "cannot write to the state directory \"%s\"",
				 a->state_dir)
		     : 0;
}

static bool has_area_inside(const struct atoll *a, struct store *store, const struct store_sandbox *box)
{
	struct store_resource *list = NULL;
	size_t n = 0;
	bool found = store_resource_list(store, box->id, &list, &n, NULL) < 0;

	for (size_t i = 0; i < n; i++) {
		found |= path_is_below(list[i].work, a->state_dir) || path_is_below(list[i].stage, a->state_dir);
		store_resource_release(&list[i]);
	}
	free(list);
	return found;
}

/* Refuses a copy that was made after a commit or undo was cut off, unless the caller accepts it.
 * Recovery recognises the files that the commit has moved by their inodes. Copied files have other
 * inodes, so recovery would put some files back and leave the rest. */
static int check_settled(struct atoll *a, struct store *store, bool accept_incomplete, struct atoll_error *err)
{
	struct store_sandbox *list = NULL;
	size_t n = 0;
	int r = accept_incomplete ? 0 : store_sandbox_list_prepared(store, &list, &n, err);

	for (size_t i = 0; i < n; i++) {
		if (r >= 0 && has_area_inside(a, store, &list[i]))
			r = error_set(
				err, ATOLL_REFUSED, 0, "recover", a->state_dir,
				"\"%s\" was copied after a commit or undo of the sandbox \"%s\" was cut off, which "
				"cannot be finished with copied files; recover that sandbox in the state directory "
				"that was copied, and copy it again, or take the copy as it is with "
				"--accept-incomplete",
				a->state_dir, list[i].name);
		store_sandbox_release(&list[i]);
	}
	free(list);
	return r;
}

/* The areas are locked before anything is written: one that is in use, or whose owner is there, leaves all as it was. Then
 * the registry gets a new id, and marks the areas with it one by one. Killed in between, each area has one owner, and the
 * rest can be taken over again. */
int owner_adopt(struct atoll *a, bool accept_incomplete, struct atoll_error *err)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	char id[REGISTRY_ID_SIZE] = "";
	struct claims *claims = NULL;
	struct store_owner now;
	bool ours = false;
	int r = store_open(a->state_dir, &store, err);

	if (r >= 0)
		r = store_begin(store, true, err);
	if (r >= 0) {
		r = check(a, store, true, &now, err);
		ours = r > 0;
	}
	if (r == 0)
		r = check_settled(a, store, accept_incomplete, err);
	if (r >= 0 && !ours)
		r = check_whole(a, accept_incomplete, err);
	if (r >= 0 && ours)
		r = store_registry_get(store, id, err);
	if (r >= 0)
		r = claim_lock_all(a, store, id, &claims, err);
	if (r >= 0 && !*id) {
		random_uuid(id);
		r = store_owner_put(store, &now, id, err);
	}
	if (r >= 0)
		r = store_commit(store, err);
	if (r >= 0)
		r = claim_mark_all(a, claims, id, err);
	claim_unlock_all(claims);
	return r;
}
