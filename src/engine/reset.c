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

static int workspace_id(struct resource *r, struct tree_id *ret)
{
	struct tree_stat st;
	int rc = tree_stat(r->work_fd, resource_workspace_name(r), &st);

	return rc < 0 ? rc : tree_identify(r->work_fd, resource_workspace_name(r), &st, ret);
}

/* 1 if the op has switched the layer of this workspace, which it shares perhaps with others. */
static int renew_in(struct session *s, struct resource *r, int64_t op, const struct tree_id *id,
		    struct atoll_error *err)
{
	AUTO_FREE struct store_op_resource *parts = NULL;
	size_t n = 0;
	int found = 0;
	int rc = store_op_resource_list(s->store, op, &parts, &n, err);

	for (size_t i = 0; i < n && rc >= 0; i++) {
		const struct resource *other = session_resource(s, parts[i].resource);

		if (!other || !parts[i].switches || strcmp(other->row.work, r->row.work) != 0)
			continue;
		parts[i].fresh = *id;
		rc = store_op_resource_put(s->store, &parts[i], err);
		found = 1;
	}
	return rc < 0 ? rc : found;
}

/* A commit knows the layer that took the workspace's place by its identity, to be taken back. Of the latest one it is this layer now. */
static int renew_layer(struct session *s, struct resource *r, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	struct tree_id id;
	size_t n = 0;
	int rc = workspace_id(r, &id);

	if (rc < 0)
		return error_sys(err, rc, "rollback", r->row.path, "cannot look at the workspace of \"%s\"",
				 r->row.path);
	rc = store_op_list(s->store, s->box.id, &ops, &n, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (ops[i].kind == STORE_OP_COMMIT && !ops[i].taken_back && ops[i].phase != STORE_FAILED)
			rc = renew_in(s, r, ops[i].id, &id, err);
	store_ops_free(ops, n);
	return MIN(rc, 0);
}

/* Files of one directory, and databases, have one workspace, and so have a host and its guests: it is made fresh for all of them at once. */
static bool shares(const struct resource *r, const struct resource *other)
{
	return r == other || (resource_isolates(other) && r->row.work && other->row.work && *r->row.work &&
			      strcmp(r->row.work, other->row.work) == 0);
}

static int mark_one(struct session *s, struct resource *r, bool dirty, struct atoll_error *err)
{
	int rc;

	r->row.dirty = dirty;
	rc = store_resource_update(s->store, &r->row, err);
	if (rc >= 0 && !dirty)
		rc = store_touch_put(s->store, r->row.id, NULL, 0, err);
	if (rc >= 0 && !dirty)
		rc = op_clear_stamps(s, r, 0, err);
	if (rc >= 0 && !dirty)
		rc = renew_layer(s, r, err);
	if (rc >= 0 && !dirty && r->ops->ran)
		rc = r->ops->ran(r, err);
	return rc;
}

static int mark(struct session *s, struct resource *r, bool dirty, struct atoll_error *err)
{
	int rc = store_begin(s->store, true, err);

	for (size_t i = 0; i < s->n && rc >= 0; i++)
		if (shares(r, &s->resources[i]))
			rc = mark_one(s, &s->resources[i], dirty, err);
	if (rc >= 0)
		rc = store_commit(s->store, err);
	store_abort(s->store);
	return rc;
}

/* 1: it was moved away; 0: there is none. */
static int discard(struct resource *r, const char *name)
{
	AUTO_FD trash = fd_make_path(r->work_fd, "trash");
	char unique[37];
	int rc;

	if (trash < 0)
		return trash;
	random_uuid(unique);
	rc = sys_rename(r->work_fd, name, trash, unique, RENAME_NOREPLACE);
	return rc == -ENOENT ? 0 : rc < 0 ? rc : 1;
}

void reset_empty_trash(int area_fd)
{
	AUTO_FD trash = fd_open_beneath(area_fd, "trash", O_RDONLY | O_DIRECTORY);

	if (trash >= 0)
		(void)tree_empty(trash);
}

static bool all_dirty(const struct session *s, const struct resource *r)
{
	for (size_t i = 0; i < s->n; i++)
		if (shares(r, &s->resources[i]) && !s->resources[i].row.dirty)
			return false;
	return true;
}

static int clear(struct session *s, struct resource *r, bool *ret_whole)
{
	int rc;

	for (size_t i = 0; i < s->n; i++)
		if (shares(r, &s->resources[i]) && s->resources[i].ops->release)
			s->resources[i].ops->release(&s->resources[i]);
	rc = discard(r, resource_workspace_name(r));
	*ret_whole = rc < 0;
	if (rc >= 0)
		rc = discard(r, "work");
	/* Before anything is flushed: what nobody wants any more need not be written first. */
	if (rc >= 0)
		reset_empty_trash(r->work_fd);
	return rc < 0 ? rc : tree_stamp(r->stage_fd, &r->row.stamp);
}

/* From the stamp on it is known what others do. */
static int begin_again(struct resource *r, int64_t stamp, struct atoll_error *err)
{
	r->row.stamp = stamp;
	r->row.clock_offset = clock_offset_ns();
	store_stamps_free(r->stamps, r->n_stamps);
	r->stamps = NULL;
	r->n_stamps = 0;
	return state_move(&r->row, ATOLL_ROLLED_BACK, "rollback", err);
}

static int begin_guests(struct session *s, const struct resource *host, struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < s->n && rc >= 0; i++)
		if (s->resources[i].host == host)
			rc = s->resources[i].ops->begin(&s->resources[i], err);
	return rc;
}

/* *ret_whole: it failed, and the workspace is as it was. */
static int reset(struct session *s, struct resource *r, bool *ret_whole, struct atoll_error *err)
{
	int rc = all_dirty(s, r) ? 0 : mark(s, r, true, err);

	if (rc < 0)
		return rc;
	if (r->host)
		r = r->host;
	rc = clear(s, r, ret_whole);
	if (rc < 0)
		return error_sys(err, rc, "rollback", r->row.path, "cannot clear the workspace of \"%s\"", r->row.path);
	r->row.clock_offset = clock_offset_ns();
	rc = r->ops->begin(r, err);
	if (rc >= 0)
		rc = begin_guests(s, r, err);
	for (size_t i = 0; i < s->n && rc >= 0; i++)
		if (shares(r, &s->resources[i]))
			rc = begin_again(&s->resources[i], r->row.stamp, err);
	return rc < 0 ? rc : mark(s, r, false, err);
}

int reset_workspace(struct session *s, struct resource *r, struct atoll_error *err)
{
	bool whole;

	return reset(s, r, &whole, err);
}

/* Of a workspace that is whole. */
static int unmark(struct session *s, struct resource *r, struct atoll_error *err)
{
	int rc = store_begin(s->store, true, err);

	for (size_t i = 0; i < s->n && rc >= 0; i++) {
		if (!shares(r, &s->resources[i]))
			continue;
		s->resources[i].row.dirty = false;
		rc = store_resource_update(s->store, &s->resources[i].row, err);
	}
	if (rc >= 0)
		rc = store_commit(s->store, err);
	store_abort(s->store);
	return rc;
}

static void report_kept(struct atoll_result *result, const struct store_resource *row, const struct atoll_error *why)
{
	struct atoll_resource_result *line = result_resource(result, row, ATOLL_OUTCOME_NOT_ATTEMPTED);

	if (!line)
		return;
	free(line->cause);
	line->cause = strdup(why->message);
}

/* Whether the edits are known to stay; *why says what became of them. */
static bool keep_edits(struct session *s, struct resource *r, struct atoll_result *result, struct atoll_error *why)
{
	int cause = why->sys_errno;

	if (unmark(s, r, NULL) < 0) {
		(void)error_set(
			why, ATOLL_IN_DOUBT, cause, "rollback", r->row.path,
			"the edits of \"%s\" could not be dropped, and the state database cannot note that: the next command drops them",
			r->row.path);
		return false;
	}
	(void)error_sys(why, cause, "rollback", r->row.path,
			"the edits of \"%s\" could not be dropped, and are still in the sandbox", r->row.path);
	for (size_t i = 0; i < s->n; i++)
		if (shares(r, &s->resources[i]))
			report_kept(result, &s->resources[i].row, why);
	return true;
}

static void report_reset(struct atoll_result *result, const struct store_resource *row, const struct atoll_error *why)
{
	struct atoll_resource_result *line = result_find(result, row->seq);

	/* What became of the original was said already. */
	if (!line || (line->outcome != ATOLL_OUTCOME_COMMITTED && line->outcome != ATOLL_OUTCOME_ROLLBACK_FAILED))
		line = result_resource(result, row, ATOLL_OUTCOME_ROLLED_BACK);
	if (!line || !why->code)
		return;
	line->workspace_dirty = true;
	free(line->cause);
	line->cause = strdup(why->message);
}

static int reset_all(struct session *s, bool may_keep, struct atoll_result *result, struct atoll_error *err)
{
	AUTO_FREE size_t *order = NULL;
	AUTO_FREE bool *dirty = calloc(s->n ? s->n : 1, sizeof *dirty);
	struct atoll_error first = { 0 };
	int rc = dirty ? session_order(s, &order, err) : error_oom(err, "rollback");

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->n; i++)
		dirty[i] = s->resources[i].row.dirty;
	for (size_t i = s->n; i-- > 0;) {
		struct resource *r = &s->resources[order[i]];
		struct atoll_error why = { 0 };
		bool whole = false;

		if (!dirty[order[i]])
			continue;
		if (r->row.dirty) /* not with another that has the same workspace */
			reset(s, r, &whole, &why);
		if (may_keep && whole && keep_edits(s, r, result, &why)) {
			for (size_t k = 0; k < s->n; k++)
				dirty[k] = dirty[k] && !shares(r, &s->resources[k]);
		} else {
			report_reset(result, &r->row, &why);
		}
		if (!first.code)
			first = why;
	}
	if (first.code && err)
		*err = first;
	return -(int)first.code;
}

int reset_dirty(struct session *s, struct atoll_result *result, struct atoll_error *err)
{
	return reset_all(s, false, result, err);
}

int reset_or_keep(struct session *s, struct atoll_result *result, struct atoll_error *err)
{
	return reset_all(s, true, result, err);
}
