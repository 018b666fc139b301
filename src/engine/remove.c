/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a sandbox: the mark, the areas, the records, the lock. Whatever stops it, recovery goes on. */
#include "engine/keeper.h"
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>

#include "engine/late.h"
#include "engine/protocol.h"
#include "engine/served.h"
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

/* What goes from inside the original is not to be seen in its times. */
static int remove_unseen(const struct resource *r, const char *area)
{
	AUTO_FD root = path_is_below(area, r->row.path) ? fd_open_absolute(r->row.path, O_RDONLY | O_DIRECTORY)
							: -EBADF;
	struct tree_stat before;
	bool known = root >= 0 && tree_stat(root, "", &before) >= 0;
	int rc = area_remove(area);

	if (known)
		area_keep_times(root, &before);
	return rc;
}

/* An interrupted new had chosen a place that is not on record yet. */
static void remove_unrecorded(struct session *s, struct resource *r)
{
	AUTO_FREE char *root = strdup(r->row.path);
	struct tree_stat before;
	AUTO_FD fd = -EBADF;

	if (!root || kind_is_remote(r->row.kind)) {
		AUTO_FREE char *area = str_format("%s/boxes/%s/%d", s->a->state_dir, s->box.uuid, r->row.seq);

		if (root && area)
			(void)area_remove(area);
		return;
	}
	if (kind_is_file(r->row.kind))
		root[MAX(strrchr(root, '/') - root, 1)] = 0;
	fd = fd_open_absolute(root, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || tree_stat(fd, "", &before) < 0)
		return;
	area_remove_candidates(s, r->row.seq, fd, root);
	area_keep_times(fd, &before);
}

/* Both areas of a resource; each that stays is added to the list. */
static int remove_area(const struct resource *r, struct strbuf *left)
{
	const char *const areas[] = { r->row.work, r->row.stage };
	int first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(areas); i++) {
		int rc = areas[i] ? remove_unseen(r, areas[i]) : 0;
		AUTO_FREE char *quoted = rc < 0 ? str_format("\"%s\"", areas[i]) : NULL;

		/* The two are often one, and files of one directory share theirs. */
		if (quoted && !strstr(strbuf_str(left), quoted))
			strbuf_addf(left, "%s%s", left->size ? ", " : "", quoted);
		first = first < 0 ? first : rc;
	}
	return first;
}

/* An interrupted new has no strategy on record yet: whichever would have served it is asked. */
static int forget_outside(struct resource *r, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; strategy_all[i]; i++) {
		const struct strategy_ops *ops = strategy_all[i];
		bool meant = r->row.state == ATOLL_PENDING ? ops->kinds & STRATEGY_SERVES(r->row.kind) : ops == r->ops;
		int rc = meant && ops->forget ? ops->forget(r, first < 0 ? NULL : err) : 0;

		first = first < 0 ? first : rc;
	}
	return first;
}

static int forget_all(struct session *s, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; i < s->n; i++) {
		int rc = s->resources[i].lost ? 0 : forget_outside(&s->resources[i], first < 0 ? NULL : err);

		first = first < 0 ? first : rc;
	}
	return first;
}

/* One that fails never stops the others; all that stay are named. Areas that a copy of the state directory has taken over are left alone. */
static int remove_areas(struct session *s, struct atoll_error *err)
{
	AUTO_STRBUF left = STRBUF_INIT;
	int first = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];
		int rc = r->lost ? 0 : remove_area(r, &left);

		first = first < 0 ? first : rc;
		if (r->row.state == ATOLL_PENDING && !r->lost)
			remove_unrecorded(s, r);
	}
	if (first < 0)
		return error_sys(err, first, "rm", s->box.name, "cannot remove %s of \"%s\"; repeat it to go on",
				 strbuf_str(&left), s->box.name);
	return 0;
}

int sandbox_remove_everything(struct session *s, struct atoll_error *err)
{
	int r = s->box.removing ? 0 : mark_removing(s, err);

	if (r >= 0)
		server_forget(s->a, s->box.name);
	if (r >= 0)
		r = forget_all(s, err);
	if (r >= 0)
		r = remove_areas(s, err);
	if (r >= 0)
		r = delete_records(s, err);
	if (r >= 0) {
		keeper_remove_logs(s->a, s->box.uuid);
		lock_remove(s->a, s->box.uuid);
	}
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

static int stop_at_first(const struct tree_entry *e, void *arg)
{
	*(bool *)arg = true;
	return TREE_WALK_STOP;
}

/* Versions that a recovery set aside, because somebody else's edit had their place, are the only copies of what was there. */
static int refuse_kept(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *stage = s->resources[i].row.stage;
		AUTO_FREE char *path = str_format("%s/kept", stage);
		AUTO_FD area = *stage ? area_open(stage) : -ENOENT;
		AUTO_FD fd = fd_open_beneath(area, "kept", O_RDONLY | O_DIRECTORY);
		bool found = false;
		int r = !path ? -ENOMEM : fd < 0 ? fd : tree_walk(fd, TREE_WALK_NO_ROOT, stop_at_first, &found, NULL);

		if (r < 0 && !is_absent(r))
			return error_sys(err, r, "rm", path, "cannot look for kept versions in \"%s\"",
					 s->resources[i].row.stage);
		if (found)
			return error_set(
				err, ATOLL_REFUSED, 0, "rm", s->box.name,
				"the sandbox \"%s\" keeps the only copy of what somebody else's edits replaced, in \"%s\"; "
				"move it away, or remove it too with --abandon",
				s->box.name, path);
	}
	return 0;
}

/* An unfinished commit is settled first, also by force: its undo record may be the only good copy of an original. */
static int settle_first(struct session *s, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	struct atoll_error why = { 0 };
	int r;

	if (!recover_concerns_originals(s))
		return 0;
	r = recover_session(s, &result, &why);
	atoll_result_free(result);
	if (r >= 0)
		return r;
	return error_set(err, why.code, why.sys_errno, "rm", s->box.name,
			 "%s; the sandbox \"%s\" was not removed (--abandon gives up what cannot be recovered)",
			 why.message, s->box.name);
}

/* May the sandbox go? */
static int check_removal(struct session *s, const struct atoll_remove_options *options, struct atoll_result **ret,
			 struct atoll_error *err)
{
	int r = 0;

	/* What is lost to a copy of the state directory is recovered, and kept, there. */
	if (s->box.removing || s->lost_to)
		return 0;
	if (options->abandon)
		return abandon_session(s, ret, err);
	if (options->force)
		r = settle_first(s, err);
	else
		r = refuse_undecided(s, err);
	if (r >= 0)
		r = refuse_kept(s, err);
	return r < 0 ? r : late_refuse(s, err);
}

static int remove_work(struct operation *o, struct atoll_error *err)
{
	const struct atoll_remove_options *options = o->options;
	struct session s = { .lock_fd = -EBADF };
	int r = options->force || options->abandon
			? session_open_raw(o->a, o->name, options->wait_ms, true, &s, err)
			: session_open(o->a, o->name, LOCK_CHANGE, options->wait_ms, &s, err);

	if (r >= 0)
		r = check_removal(&s, options, &o->result, err);
	if (r >= 0)
		r = sandbox_remove_everything(&s, err);
	session_release(&s);
	return r;
}

int atoll_remove(struct atoll *a, const char *name, const struct atoll_remove_options *options, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct atoll_result *ignored = NULL;
	int r = atoll_remove_told(a, name, options, &ignored, err);

	atoll_result_free(ignored);
	return r;
}

int atoll_remove_told(struct atoll *a, const char *name, const struct atoll_remove_options *options,
		      struct atoll_result **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	static const struct atoll_remove_options none;
	struct operation op = { .a = a, .name = name, .options = options ? options : &none, .fn = remove_work };

	if (!a || !name)
		return error_set(err, ATOLL_INVALID, 0, "rm", NULL, "no sandbox was named");
	return operation_run(&op, ret, err);
}

int atoll_pending(struct atoll *a, const char *name, uint64_t limit, uint64_t *ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
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
