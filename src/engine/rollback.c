/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollback drops the edits of a sandbox, and leaves the originals alone. Only if the caller asks
 * for it (options->landed) and there are no edits, rollback reverts the latest commit, and drops
 * the edits that this commit had landed.
 */
#include "engine/protocol.h"

#include <string.h>

static int refuse_unisolated(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		if (!(s->resources[i].ops->capabilities & STRATEGY_UNDO_BEFORE))
			return error_set(err, ATOLL_UNSUPPORTED, 0, "rollback", s->resources[i].row.path,
					 "\"%s\" is not isolated: what was written to it cannot be rolled back",
					 s->resources[i].row.path);
	return 0;
}

/* From here on the edits of all of them are dropped, by us or by recovery. */
static int mark_all_dirty(struct session *s, struct atoll_error *err)
{
	int r = store_begin(s->store, true, err);

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		s->resources[i].row.dirty = true;
		r = store_resource_update(s->store, &s->resources[i].row, err);
	}
	if (r >= 0)
		r = store_commit(s->store, err);
	store_abort(s->store);
	return r;
}

static bool all_committed(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].row.state != ATOLL_COMMITTED && resource_isolates(&s->resources[i]))
			return false;
	return s->n > 0;
}

static bool is_edit(const struct change *c, bool committed)
{
	return !c->implied && (c->kind == ATOLL_SKIPPED || !committed);
}

static bool has_edit(const struct changes *list, bool committed)
{
	for (size_t i = 0; i < list->n; i++)
		if (is_edit(&list->v[i], committed))
			return true;
	return false;
}

/* 1 if the sandbox holds edits, 0 if it holds none. Edits that no commit lands (a FIFO, a stash, another branch), and an open transaction, count
 * too: rollback drops or ends them, and takes no commit back for them. committed: everything else has landed, as is on record. lists: one for each resource, of those that were
 * looked at. */
static int find_edits(struct session *s, bool committed, struct changes **lists, struct atoll_error *err)
{
	struct atoll_error first = { 0 };
	bool found = false;

	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		struct atoll_error why = { 0 };

		/* A transaction that has only read keeps locks, and what is read in it is old. */
		found |= r->ops->holds && r->ops->holds(r);
		/* A commit leaves nothing behind in a database. Once an edit is found, no server needs to be asked. */
		if (kind_is_remote(r->row.kind) ? committed || found
						: committed && (r->ops->capabilities & STRATEGY_GUEST))
			continue;
		lists[i] = strategy_changes(r, false, &why);
		if (!lists[i] && !first.code)
			first = why;
		found |= lists[i] && has_edit(lists[i], committed);
	}
	if (!found && first.code && err)
		*err = first;
	return found ? 1 : -(int)first.code;
}

/* Without a commit to take back the lists only serve name_dropped(). The work that a commit leaves behind is a repository's: a stash, another branch,
 * staged work. The edits of other resources are not listed: that would take longer than to drop them. */
static void list_repositories(struct session *s, struct changes **lists)
{
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		struct atoll_error ignored = { 0 };

		if ((r->ops->capabilities & (STRATEGY_PART | STRATEGY_GUEST)) == STRATEGY_PART)
			lists[i] = strategy_changes(r, false, &ignored);
	}
}

/* Whether a commit has landed all edits, so that there is none to drop. False if the sandbox was
 * rolled back and no command ran since: the caller may repeat the same call. */
static int has_landed(struct session *s, struct changes **lists, struct atoll_error *err)
{
	struct store_op latest = { 0 };
	struct atoll_error unread = { 0 };
	bool used = false, committed = all_committed(s);
	int r;

	for (size_t i = 0; i < s->n; i++)
		used |= s->resources[i].row.state == ATOLL_ACTIVE || s->resources[i].row.state == ATOLL_COMMITTED;
	if (!used)
		return 0;
	r = committed ? 0 : undo_find_latest(s, &latest, err);
	store_op_release(&latest);
	if (r == -ATOLL_NOT_FOUND)
		list_repositories(s, lists);
	if (r < 0)
		return r == -ATOLL_NOT_FOUND ? 0 : r;
	r = find_edits(s, committed, lists, &unread);
	/* A workspace that cannot be read was written to since, and is what rollback is for. */
	if (!committed && (r == -ATOLL_REFUSED || r == -ATOLL_FAILED))
		return 0;
	if (r < 0 && err)
		*err = unread;
	return r < 0 ? r : !r;
}

/* An entry that only says why a commit is refused is no work of its own: the list has that besides. */
static bool is_work_left_behind(const struct change *c)
{
	return !c->implied && c->kind == ATOLL_SKIPPED && !(c->blocking && !c->note_fact);
}

/* What no commit would have landed was nowhere else: it is named. */
static int name_dropped(struct session *s, struct changes *const *lists, struct atoll_result *result)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct atoll_resource_result *line = result_find(result, s->resources[i].row.seq);

		for (size_t k = 0; lists[i] && k < lists[i]->n && line->outcome == ATOLL_OUTCOME_ROLLED_BACK; k++) {
			const struct change *c = &lists[i]->v[k];
			AUTO_FREE char *note = c->note_fact ? str_format("dropped (%.*s)", (int)c->note_fact, c->note)
							    : strdup("dropped");

			if (!is_work_left_behind(c))
				continue;
			if (!note || !result_add(result, ATOLL_ITEM_NOTE, line->seq, c->path, note))
				return -ENOMEM;
		}
	}
	return 0;
}

/* Runs before any edits are dropped: a fresh workspace needs the original, and a database may be
 * locked or gone. A dirty resource is left out, since its edits are lost already. */
static int check_originals(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		struct atoll_error why = { 0 };

		if (!r->row.dirty && r->ops->can_begin && r->ops->can_begin(r, &why) < 0)
			return error_set(err, why.code, why.sys_errno, "rollback", r->row.path,
					 "%s; nothing was dropped, the edits are still in the sandbox", why.message);
	}
	return 0;
}

static int drop_edits(struct session *s, struct changes *const *lists, struct atoll_result *result,
		      struct atoll_error *err)
{
	int r = check_originals(s, err);

	if (r < 0)
		return r;
	r = mark_all_dirty(s, err);
	if (r < 0 && store_is_in_doubt(s->store))
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "rollback", s->box.name,
			"whether the rollback of \"%s\" was begun cannot be told, the state database failed; if it was, the next command finishes it",
			s->box.name);
	if (r >= 0)
		r = reset_or_keep(s, result, err);
	/* The edits are gone by then: what cannot be named for want of memory is no failure. */
	(void)name_dropped(s, lists, result);
	return r;
}

/* Reverting a commit changes the originals. A caller who means to drop edits must not do that by
 * accident. */
static int refuse_landed(const struct session *s, struct atoll_error *err)
{
	return error_set(
		err, ATOLL_REFUSED, 0, "rollback", s->box.name,
		"the sandbox \"%s\" has no edits to drop, they have landed; atoll undo %s takes the commit back and "
		"keeps its edits, atoll rollback --landed %s drops them too",
		s->box.name, s->box.name, s->box.name);
}

static int rollback_session(struct session *s, const struct atoll_undo_options *options, struct atoll_result *result,
			    struct atoll_error *err)
{
	struct changes **lists = calloc(s->n ? s->n : 1, sizeof *lists);
	int r = lists ? refuse_unisolated(s, err) : error_oom(err, "rollback");

	if (r >= 0)
		r = has_landed(s, lists, err);
	if (r == 0)
		r = drop_edits(s, lists, result, err);
	else if (r > 0 && !options->landed)
		r = refuse_landed(s, err);
	else if (r > 0)
		r = undo_latest(s, true, options, result, err);
	session_changes_free(lists, s->n);
	return r;
}

static int rollback_work(struct operation *o, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	int r = undo_open(o, "rollback", o->options, &s, err);

	/* A workspace that could not be reset is what rollback is for. */
	if (r >= 0)
		r = rollback_session(&s, o->options, o->result, err);
	session_release(&s);
	if (!o->result)
		return r;
	result_sort(o->result);
	return result_finish(o->result, r, err);
}

int atoll_rollback(struct atoll *a, const char *name, const struct atoll_undo_options *options,
		   struct atoll_result **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	static const struct atoll_undo_options none;
	struct operation op = { .a = a, .name = name, .options = options ? options : &none, .fn = rollback_work };

	if (!a)
		return error_set(err, ATOLL_INVALID, 0, "rollback", NULL, "no handle was given");
	return operation_run(&op, ret, err);
}
