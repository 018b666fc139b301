/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a sandbox. The records are written first, as PENDING, so that whatever is made afterwards is known; they become CREATED in one
 * transaction when everything stands. Anything else is removed by recovery.
 */
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/stop.h"
#include "base/sys.h"
#include "engine/claim.h"
#include "engine/settings.h"
#include "engine/untrusted.h"
#include "jail/jail.h"

struct maker {
	struct session s;
	const struct atoll_new_options *options;
	struct store_resource *rows; /* until they are the session's */
	struct strategy_cost *costs; /* of each */
	bool recorded;
};

static int check_options(const struct atoll_new_options *o, struct atoll_error *err)
{
	if (!o || o->n_resources == 0)
		return error_set(err, ATOLL_INVALID, 0, "new", NULL, "no resource was given; use --dir or --file");
	if (o->name && !name_is_valid(o->name))
		return error_set(
			err, ATOLL_INVALID, 0, "new", o->name,
			"\"%s\" is not a sandbox name: letters, digits, '.', '_' and '-', up to 64, beginning with a letter or digit",
			o->name);
	for (size_t i = 0; i < o->n_resources; i++) {
		const char *strategy = o->resources[i].strategy;
		AUTO_STRBUF names = STRBUF_INIT;

		if ((unsigned)o->resources[i].kind >= ATOLL_KIND_COUNT)
			return error_set(err, ATOLL_INVALID, 0, "new", o->resources[i].path,
					 "there is no such kind of resource");
		if (!strategy || strategy_find(strategy, o->resources[i].kind))
			continue;
		if (strategy_is_known(strategy))
			return error_set(err, ATOLL_REFUSED, 0, "new", strategy,
					 "%s cannot serve a resource of the kind \"%s\"", strategy,
					 atoll_kind_name(o->resources[i].kind));
		strategy_names(&names);
		return error_set(err, ATOLL_INVALID, 0, "new", strategy, "there is no strategy \"%s\"; there are %s",
				 strategy, strbuf_str(&names));
	}
	return 0;
}

static int resolve_all(struct maker *m, struct atoll_error *err)
{
	int r = 0;

	m->rows = calloc(m->options->n_resources, sizeof *m->rows);
	m->costs = calloc(m->options->n_resources, sizeof *m->costs);
	if (!m->rows || !m->costs)
		return error_oom(err, "new");
	for (size_t i = 0; i < m->options->n_resources && r >= 0; i++) {
		m->rows[i].seq = (int)i + 1;
		m->rows[i].state = ATOLL_PENDING;
		r = spec_resolve(m->s.a, m->s.store, &m->options->resources[i], &m->rows[i], err);
	}
	return r < 0 ? r : spec_check_overlap(m->rows, m->options->n_resources, err);
}

/* ---- records ---- */

static int insert_box(struct maker *m, struct atoll_error *err)
{
	struct store_sandbox *box = &m->s.box;
	int r = -ATOLL_EXISTS;

	if (m->options->name) {
		box->name = strdup(m->options->name);
		return box->name ? store_sandbox_add(m->s.store, box, err) : error_oom(err, "new");
	}
	for (int attempt = 0; attempt < 20 && r == -ATOLL_EXISTS; attempt++) {
		char name[64];

		random_name(name, sizeof name);
		if (attempt > 9)
			snprintf(name + strlen(name), sizeof name - strlen(name), "-%d", attempt);
		free(box->name);
		box->name = strdup(name);
		r = box->name ? store_sandbox_add(m->s.store, box, err) : error_oom(err, "new");
	}
	return r;
}

static int record_pending(struct maker *m, struct atoll_error *err)
{
	int r = store_begin(m->s.store, true, err);

	if (r >= 0)
		r = owner_record(m->s.a, m->s.store, err);
	if (r >= 0)
		r = insert_box(m, err);
	for (size_t i = 0; i < m->options->n_resources && r >= 0; i++) {
		struct store_resource copy = m->rows[i];

		copy.sandbox = m->s.box.id;
		copy.strategy = (char *)"none";
		copy.work = copy.stage = (char *)"";
		r = store_resource_add(m->s.store, &copy, err);
		m->rows[i].sandbox = copy.sandbox;
		m->rows[i].id = copy.id;
	}
	if (r >= 0)
		r = store_commit(m->s.store, err);
	store_abort(m->s.store);
	m->recorded = r >= 0;
	return r;
}

/* The rows become the session's, so that resources can be opened as ever. */
static int hand_over(struct maker *m, struct atoll_error *err)
{
	struct session *s = &m->s;
	int r;

	s->resources = calloc(m->options->n_resources, sizeof *s->resources);
	if (!s->resources)
		return error_oom(err, "new");
	s->n = m->options->n_resources;
	for (size_t i = 0; i < s->n; i++) {
		s->resources[i] = (struct resource){
			.row = m->rows[i],
			.store = s->store,
			.root_fd = -EBADF,
			.work_fd = -EBADF,
			.stage_fd = -EBADF,
			.marks = tree_overlay_marks(),
		};
		memcpy(s->resources[i].uuid, s->box.uuid, sizeof s->box.uuid);
		s->resources[i].sandbox = s->box.name;
		s->resources[i].given = m->options->resources[i].path;
		s->resources[i].carry_dirty = m->options->resources[i].dirty;
		s->resources[i].as_is = m->options->resources[i].as_is;
		s->resources[i].ops = strategy_find(m->rows[i].strategy, m->rows[i].kind);
		m->rows[i] = (struct store_resource){ 0 };
	}
	for (size_t i = 0; i < s->n; i++) {
		r = resource_open(s, &s->resources[i], err);
		if (r < 0)
			return r;
	}
	r = claim_take(s, err);
	return r < 0 ? r : resource_set_excluded(s, err);
}

static bool shares_earlier(const struct session *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!s->resources[k].host && *s->resources[i].row.work &&
		    strcmp(s->resources[k].row.work, s->resources[i].row.work) == 0)
			return true;
	return false;
}

/* Copying a tree reads files that their owner may not: it is done with capabilities. */
struct beginning {
	struct resource *r;
	struct strategy_cost cost;
	struct atoll_error error;
};

static int answer(const struct beginning *b, int out, int r)
{
	return write(out, b, sizeof *b) == (ssize_t)sizeof *b ? r : -ATOLL_FAILED;
}

static int begin_in_call(void *arg, int out)
{
	struct beginning *b = arg;

	return answer(b, out, b->r->ops->begin(b->r, &b->error));
}

static int cost_in_call(void *arg, int out)
{
	struct beginning *b = arg;

	return answer(b, out, b->r->ops->cost(b->r, &b->cost, &b->error));
}

static int call(int (*fn)(void *arg, int out), struct beginning *b, struct atoll_error *err)
{
	AUTO_FD out = -EBADF;
	int r = jail_call(fn, b, &out, err);

	if (out >= 0 && read(out, b, sizeof *b) == (ssize_t)sizeof *b && r < 0 && b->error.code)
		*err = b->error;
	return r;
}

static int begin_workspace(struct resource *r, struct atoll_error *err)
{
	if ((r->ops->capabilities & STRATEGY_LAYERED) || kind_is_remote(r->row.kind))
		return r->ops->begin(r, err);
	return call(begin_in_call, &(struct beginning){ .r = r }, err);
}

/* Copying may take long, and much space: whoever wants to know is told before it begins. */
static int tell_cost(struct maker *m, size_t i, struct atoll_error *err)
{
	struct resource *r = &m->s.resources[i];
	struct beginning b = { .r = r };
	int rc;

	if (!r->ops->cost || !m->options->cost)
		return 0;
	rc = call(cost_in_call, &b, err);
	if (rc < 0 || b.cost.files == 0)
		return rc;
	m->costs[i] = b.cost;
	if (m->options->cost(&(struct atoll_cost){ r->row.seq, r->row.path, b.cost.files, b.cost.bytes },
			     m->options->cost_arg) != 0)
		return error_set(err, ATOLL_REFUSED, 0, "new", r->row.path,
				 "\"%s\" would have to be copied, and the caller declined that", r->row.path);
	return 0;
}

/* From the stamp on, changes of the original are foreign: it is taken before the workspace reads anything. */
static int begin_one(struct maker *m, size_t i, struct atoll_error *err)
{
	struct session *s = &m->s;
	struct resource *r = &s->resources[i];
	bool made = !r->host && shares_earlier(s, i);
	int rc = made ? 0 : tell_cost(m, i, err);

	if (rc < 0)
		return rc;

	r->row.clock_offset = clock_offset_ns();
	clock_boot_id(r->row.boot_id);
	if (resource_isolates(r)) {
		rc = tree_stamp(r->stage_fd, &r->row.stamp);
		if (rc < 0)
			return error_sys(err, rc, "new", r->row.path,
					 "cannot take the time on the filesystem of \"%s\"", r->row.path);
		if (!made)
			rc = begin_workspace(r, err);
		if (rc >= 0 && tree_stamp(r->work_fd, &r->row.synced_at) < 0)
			r->row.synced_at = 0;
	}
	return rc < 0 ? rc : state_move(&r->row, ATOLL_CREATED, "new", err);
}

/* A guest finds the workspace of its host. */
static int begin_all(struct maker *m, struct atoll_error *err)
{
	struct session *s = &m->s;
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (!s->resources[i].host)
			r = begin_one(m, i, err);
	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (s->resources[i].host)
			r = begin_one(m, i, err);
	return r;
}

static int record_created(struct session *s, struct atoll_error *err)
{
	int r = store_begin(s->store, true, err);

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		r = store_resource_update(s->store, &s->resources[i].row, err);
		if (r >= 0 && s->resources[i].ops->ran)
			r = s->resources[i].ops->ran(&s->resources[i], err);
	}
	if (r >= 0)
		r = store_commit(s->store, err);
	store_abort(s->store);
	return r;
}

#define LOCK_WAIT_MS 5000

static int make(struct maker *m, struct atoll_error *err)
{
	struct session *s = &m->s;
	int r;

	random_uuid(s->box.uuid);
	s->box.created_ns = s->box.active_ns = clock_realtime_ns();
	s->box.durable_workspace = m->options->durable_workspace;
	s->box.prunable = m->options->prunable;
	r = untrusted_check(m->options->settings, err);
	if (r < 0)
		return r;
	if (settings_encode(m->options->settings, &s->box.settings) < 0)
		return error_oom(err, "new");
	/* A recovery that finds the new lock file and no such sandbox holds the lock for a moment. */
	r = lock_take(s->a, s->box.uuid, LOCK_CHANGE, LOCK_WAIT_MS, "new", &s->lock_fd, err);
	if (r >= 0)
		r = resolve_all(m, err);
	if (r >= 0)
		r = record_pending(m, err);
	if (r >= 0)
		r = choose_all(m->s.a, m->s.box.uuid, m->options, m->rows, err);
	if (r >= 0)
		r = hand_over(m, err);
	if (r >= 0)
		r = begin_all(m, err);
	if (r >= 0 && stop_check() < 0)
		r = -ATOLL_FAILED;
	return r < 0 ? r : record_created(s, err);
}

/* If the caller cancels, report that, and not the error of the call that the cancellation
 * interrupted. */
static int make_unless_cancelled(struct maker *m, struct atoll_error *err)
{
	int r = stop_begin(m->options->cancelled, m->options->cancelled_arg);
	bool cancelled;

	if (r < 0)
		return error_oom(err, "new");
	r = make(m, err);
	cancelled = r < 0 && stop_check() < 0;
	stop_end();
	if (!cancelled)
		return r;
	return error_set(err, ATOLL_FAILED, ECANCELED, "new", m->options->name, "interrupted; no sandbox was made");
}

/* Nothing of a failed new stays. What cannot be removed is known by its records, and recovery tries again. */
static void unmake(struct maker *m)
{
	struct atoll_error ignored;

	if (!m->recorded) {
		lock_remove(m->s.a, m->s.box.uuid);
		return;
	}
	if (!m->s.n) {
		m->s.resources = calloc(m->options->n_resources, sizeof *m->s.resources);
		for (size_t i = 0; m->s.resources && i < m->options->n_resources; i++) {
			m->s.resources[i] = (struct resource){ .row = m->rows[i],
							       .store = m->s.store,
							       .root_fd = -EBADF,
							       .work_fd = -EBADF,
							       .stage_fd = -EBADF,
							       .marks = tree_overlay_marks() };
			memcpy(m->s.resources[i].uuid, m->s.box.uuid, sizeof m->s.box.uuid);
			m->s.resources[i].sandbox = m->s.box.name;
			m->rows[i] = (struct store_resource){ 0 };
			m->s.n++;
		}
	}
	sandbox_remove_everything(&m->s, &ignored);
}

/* With the connection at hand: what is reported is then what is there. */
static int describe(struct maker *m, struct atoll_info **ret, struct atoll_error *err)
{
	int r = info_describe(m->s.a, m->s.store, &m->s.box, ret, err);

	for (size_t i = 0; r >= 0 && i < (*ret)->n_resources; i++) {
		(*ret)->resources[i].copied_files = m->costs[i].files;
		(*ret)->resources[i].copied_bytes = m->costs[i].bytes;
	}
	return r;
}

static int take_spare(struct fd_spare *ret, struct atoll_error *err)
{
	int r = fd_spare_take(ret);

	if (r == 0)
		return 0;
	return error_set(err, ATOLL_FAILED, -r, "new", NULL,
			 "%s: making a sandbox takes %d more; raise the limit (ulimit -n)", strerror(-r), FD_SPARE);
}

int atoll_new(struct atoll *a, const struct atoll_new_options *options, struct atoll_info **ret,
	      struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(fd_spare_release) struct fd_spare spare = { .n = 0 };
	struct maker m = { .s = { .a = a, .lock_fd = -EBADF }, .options = options };
	struct atoll_error local = { 0 };
	int r = a ? check_options(options, &local)
		  : error_set(&local, ATOLL_INVALID, 0, "new", NULL, "no handle was given");

	if (r >= 0)
		r = take_spare(&spare, &local);
	if (r >= 0)
		r = store_open(a->state_dir, &m.s.store, &local);
	if (r >= 0) {
		r = make_unless_cancelled(&m, &local);
		fd_spare_release(&spare);
		if (r >= 0 && ret)
			r = describe(&m, ret, &local);
		if (r < 0)
			unmake(&m);
	}
	for (size_t i = 0; m.rows && i < options->n_resources; i++)
		store_resource_release(&m.rows[i]);
	free(m.rows);
	free(m.costs);
	session_release(&m.s);
	if (r < 0 && err)
		*err = local;
	return r;
}
