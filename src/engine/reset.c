/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fresh workspace. The old one is renamed into a private directory first and the fresh one made in its place, so that an undeletable
 * leftover can neither fail the reset nor survive in it. The mark "dirty" stands on record from before to after.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/sys.h"

static int mark(struct session *s, struct resource *r, bool dirty, struct atoll_error *err)
{
	int rc = store_begin(s->store, true, err);

	r->row.dirty = dirty;
	if (rc >= 0)
		rc = store_resource_update(s->store, &r->row, err);
	if (rc >= 0 && !dirty)
		rc = store_touch_delete(s->store, r->row.id, NULL, true, err);
	if (rc >= 0 && !dirty)
		rc = store_stamp_clear(s->store, r->row.id, err);
	if (rc >= 0 && !dirty && r->ops->ran)
		rc = r->ops->ran(r, err);
	if (rc >= 0)
		rc = store_commit(s->store, err);
	store_abort(s->store);
	return rc;
}

static int discard(struct resource *r, const char *name)
{
	AUTO_FD trash = fd_make_path(r->work_fd, "trash");
	char unique[37];
	int rc;

	if (trash < 0)
		return trash;
	random_uuid(unique);
	rc = sys_rename(r->work_fd, name, trash, unique, RENAME_NOREPLACE);
	return rc == -ENOENT ? 0 : rc;
}

int reset_workspace(struct session *s, struct resource *r, struct atoll_error *err)
{
	int rc = r->row.dirty ? 0 : mark(s, r, true, err);

	if (rc < 0)
		return rc;
	if (r->ops->release)
		r->ops->release(r);
	rc = discard(r, r->ops->workspace);
	if (rc >= 0)
		rc = discard(r, "work");
	if (rc >= 0)
		rc = tree_stamp(r->stage_fd, &r->row.stamp);
	if (rc < 0)
		return error_sys(err, rc, "rollback", r->row.path, "cannot clear the workspace of \"%s\"", r->row.path);
	r->row.clock_offset = clock_offset_ns();
	rc = r->ops->begin(r, err);
	if (rc < 0)
		return rc;
	store_stamps_free(r->stamps, r->n_stamps);
	r->stamps = NULL;
	r->n_stamps = 0;
	rc = state_move(&r->row, ATOLL_ROLLED_BACK, "rollback", err);
	if (rc >= 0)
		rc = mark(s, r, false, err);
	/* What cannot be removed now is tried again by the next recovery. */
	if (rc >= 0)
		tree_remove(r->work_fd, "trash");
	return rc;
}
