/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a sandbox: the mark, the areas, the records, the lock. Whatever stops it, recovery goes on. */
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>

#include "engine/protocol.h"
#include "jail/jail.h"

static int mark_removing(struct session *s, struct atoll_error *err)
{
	int r = store_begin(s->store, true, err);

	if (r >= 0)
		r = store_sandbox_set_removing(s->store, s->box.id, err);
	if (r >= 0)
		r = store_commit(s->store, err);
	store_abort(s->store);
	return r;
}

static int delete_records(struct session *s, struct atoll_error *err)
{
	int r = store_begin(s->store, true, err);

	if (r >= 0)
		r = store_sandbox_delete(s->store, s->box.id, err);
	if (r >= 0)
		r = store_commit(s->store, err);
	store_abort(s->store);
	return r;
}

/* An interrupted new had chosen a place that is not on record yet. */
static void remove_unrecorded(struct session *s, struct resource *r)
{
	AUTO_FREE char *root = strdup(r->row.path);
	AUTO_FD fd = -EBADF;

	if (!root)
		return;
	if (r->row.kind == ATOLL_KIND_FILE)
		root[MAX(strrchr(root, '/') - root, 1)] = 0;
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		area_remove_candidates(s->a, s->box.uuid, r->row.seq, fd, root);
}

static int remove_areas(struct session *s, struct atoll_error *err)
{
	struct atoll_error first = { 0 };

	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		int rc = r->row.work ? area_remove(r->row.work) : 0;

		if (rc >= 0 && r->row.stage)
			rc = area_remove(r->row.stage);
		if (rc < 0 && !first.code)
			error_sys(&first, rc, "rm", r->row.work, "cannot remove the workspace \"%s\"", r->row.work);
		if (r->row.state == ATOLL_PENDING)
			remove_unrecorded(s, r);
	}
	if (first.code && err)
		*err = first;
	return -(int)first.code;
}

int sandbox_remove_everything(struct session *s, struct atoll_error *err)
{
	int r = s->box.removing ? 0 : mark_removing(s, err);

	if (r >= 0)
		r = remove_areas(s, err);
	if (r >= 0)
		r = delete_records(s, err);
	if (r >= 0)
		lock_remove(s->a, s->box.uuid);
	return r;
}

/* ---- the public call ---- */

static uint64_t count_changes(const struct changes *c, uint64_t limit)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->n && n < limit; i++)
		n += !c->v[i].implied;
	return n;
}

static int refuse_undecided(struct session *s, struct atoll_error *err)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		CLEANUP(cleanup_changes) struct changes *c = strategy_changes(&s->resources[i], false, err);

		if (!c)
			return -(int)err->code;
		n += count_changes(c, 1000);
	}
	if (n == 0)
		return 0;
	return error_set(err, ATOLL_REFUSED, 0, "rm", s->box.name,
			 "the sandbox \"%s\" has %llu undecided change%s; commit them, or remove it with --force",
			 s->box.name, (unsigned long long)n, n == 1 ? "" : "s");
}

static int remove_work(struct operation *o, struct atoll_error *err)
{
	const struct atoll_remove_options *options = o->options;
	struct session s = { .lock_fd = -EBADF };
	int r = options->force ? session_open_raw(o->a, o->name, options->wait_ms, &s, err)
			       : session_open(o->a, o->name, LOCK_CHANGE, options->wait_ms, &s, err);

	/* An unfinished commit is settled first, also by force: the undo data may be the only good copy. */
	if (r >= 0 && options->force && !s.box.removing && recover_is_needed(&s, err)) {
		struct atoll_result *result = NULL;

		r = recover_session(&s, &result, err);
		atoll_result_free(result);
		if (r < 0 && r != -ATOLL_IN_DOUBT && !recover_concerns_originals(&s))
			r = 0;
	}
	if (r >= 0 && !options->force)
		r = refuse_undecided(&s, err);
	if (r >= 0)
		r = sandbox_remove_everything(&s, err);
	session_release(&s);
	return r;
}

int atoll_remove(struct atoll *a, const char *name, const struct atoll_remove_options *options, struct atoll_error *err)
{
	static const struct atoll_remove_options none;
	struct operation op = { .a = a, .name = name, .options = options ? options : &none, .fn = remove_work };

	if (!a || !name)
		return error_set(err, ATOLL_INVALID, 0, "rm", NULL, "no sandbox was named");
	return operation_run(&op, NULL, err);
}

int atoll_pending(struct atoll *a, const char *name, uint64_t limit, uint64_t *ret, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	struct changes **changes = NULL;
	struct atoll_error local = { 0 };
	int r = a && ret ? sandbox_open(a, name, LOCK_LOOK, 0, &s, &local)
			 : error_set(&local, ATOLL_INVALID, 0, "pending", NULL, "no handle was given");

	if (r >= 0)
		r = session_changes(&s, false, &changes, &local);
	if (r >= 0)
		*ret = 0;
	for (size_t i = 0; i < s.n && r >= 0 && *ret < limit; i++)
		*ret += count_changes(changes[i], limit - *ret);
	session_changes_free(changes, s.n);
	session_release(&s);
	if (r < 0 && err)
		*err = local;
	return r;
}
