/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes sandboxes that were made for one run and whose changes have landed, once their undo
 * records are too old or together take too much space. It selects them without taking their locks.
 * atoll_remove() without force then removes each of them: it checks again under the lock, and
 * refuses a sandbox that holds more than the undo record.
 */
#include "engine/engine.h"
#include "engine/settings.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"

#define KEEP_MS (INT64_C(7) * 24 * 3600 * 1000)
#define KEEP_BYTES (UINT64_C(10) << 30)

struct limits {
	int64_t ms; /* 0: keep none */
	uint64_t bytes;
};

/* A sandbox whose changes have landed. */
struct landed {
	char *name;
	int64_t id, op, ended_ns, bytes;
	struct limits limits; /* the age limit is the sandbox's own */
};

struct landed_list {
	struct landed *v;
	size_t n;
};

static void landed_release(struct landed_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
}

/* ---- the limits ---- */

/* Needs no error path: Atoll checked the settings when the user set them. */
static void read_limits(const struct atoll_settings *settings, struct limits *ret)
{
	const struct atoll_setting *s;

	for (size_t i = 0; (s = atoll_settings_get(settings, i)); i++) {
		if (strcmp(s->name, "keep-landed-size") == 0)
			(void)settings_size(s->value, &ret->bytes);
		else if (strcmp(s->name, "keep-landed") == 0 && strcmp(s->value, "none") == 0)
			ret->ms = 0;
		else if (strcmp(s->name, "keep-landed") == 0)
			(void)settings_duration(s->value, &ret->ms);
	}
}

/* ---- which sandboxes have landed, and how much space they take ---- */

static int add_blocks(const struct tree_entry *e, void *arg)
{
	*(int64_t *)arg += (int64_t)e->stat.blocks * 512;
	return TREE_WALK_GO;
}

/* Leaves out files that this process has no permission to read. */
static int64_t measure(const struct store_resource *rows, size_t n)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		AUTO_FD fd = rows[i].stage && *rows[i].stage
				     ? open(rows[i].stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				     : -EBADF;
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again |= rows[k].stage && rows[i].stage && strcmp(rows[k].stage, rows[i].stage) == 0;
		if (fd >= 0 && !again)
			(void)tree_walk(fd, 0, add_blocks, &bytes, NULL);
	}
	return bytes;
}

static bool are_committed(const struct store_resource *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].state != ATOLL_COMMITTED)
			return false;
	return n > 0;
}

/* Finds the commit if it was the sandbox's latest op. Returns 1, or 0 if the latest op was another
 * one or did not finish. */
static int find_commit(struct store *store, int64_t box, struct landed *ret, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	size_t n = 0;
	int r = store_op_list(store, box, &ops, &n, err);

	if (r < 0)
		return r;
	r = n > 0 && ops[0].kind == STORE_OP_COMMIT && ops[0].phase == STORE_DONE && !ops[0].taken_back;
	if (r) {
		ret->op = ops[0].id;
		ret->ended_ns = ops[0].ended_ns;
	}
	store_ops_free(ops, n);
	return r;
}

static int record_size(struct store *store, const struct landed *l, struct atoll_error *err)
{
	int r = store_begin(store, false, err);

	if (r >= 0)
		r = store_sandbox_set_measured(store, l->id, l->op, l->bytes, err);
	if (r >= 0)
		r = store_commit(store, err);
	store_abort(store);
	return r;
}

static int add(struct landed_list *list, struct landed *l, struct atoll_error *err)
{
	struct landed *grown = reallocarray(list->v, list->n + 1, sizeof *grown);

	if (grown)
		list->v = grown;
	if (!grown || !l->name) {
		free(l->name);
		return error_oom(err, "prune");
	}
	list->v[list->n++] = *l;
	return 0;
}

static int read_own_limits(const struct store_sandbox *box, struct limits *ret, struct atoll_error *err)
{
	struct atoll_settings *own = NULL;
	int r = settings_decode(&own, box->settings, box->name, err);

	read_limits(own, ret);
	atoll_settings_free(own);
	return r;
}

static int look_at(struct store *store, const struct store_sandbox *box, const struct limits *limits,
		   struct landed_list *list, struct atoll_error *err)
{
	struct landed l = { .id = box->id, .bytes = box->measured, .limits = *limits };
	struct store_resource *rows = NULL;
	size_t n = 0;
	int r = store_resource_list(store, box->id, &rows, &n, err);

	if (r >= 0)
		r = are_committed(rows, n) ? find_commit(store, box->id, &l, err) : 0;
	if (r > 0 && read_own_limits(box, &l.limits, err) < 0)
		r = -(int)ATOLL_CORRUPT;
	if (r > 0 && box->measured_op != l.op) {
		l.bytes = measure(rows, n);
		r = record_size(store, &l, err) < 0 ? -(int)ATOLL_FAILED : 1;
	}
	for (size_t i = 0; i < n; i++)
		store_resource_release(&rows[i]);
	free(rows);
	if (r <= 0)
		return r;
	l.name = strdup(box->name);
	return add(list, &l, err);
}

static int newest_first(const void *a, const void *b)
{
	const struct landed *x = a, *y = b;

	return (x->ended_ns < y->ended_ns) - (x->ended_ns > y->ended_ns);
}

static int find_landed(struct atoll *a, const struct limits *limits, struct landed_list *ret, struct atoll_error *err)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_sandbox *boxes = NULL;
	size_t n = 0;
	int r = store_open(a->state_dir, &store, err);

	if (r >= 0)
		r = store_sandbox_list(store, &boxes, &n, err);
	for (size_t i = 0; i < n; i++) {
		if (r >= 0 && boxes[i].prunable && !boxes[i].removing)
			r = look_at(store, &boxes[i], limits, ret, err);
		store_sandbox_release(&boxes[i]);
	}
	free(boxes);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, newest_first);
	return r;
}

/* ---- the public call ---- */

int atoll_prune(struct atoll *a, const struct atoll_settings *defaults, const struct atoll_settings *settings,
		size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(landed_release) struct landed_list list = { 0 };
	struct limits limits = { KEEP_MS, KEEP_BYTES };
	uint64_t bytes = 0;
	size_t n = 0;
	int r;

	if (!a)
		return error_set(err, ATOLL_INVALID, 0, "prune", NULL, "no handle was given");
	read_limits(defaults, &limits);
	r = find_landed(a, &limits, &list, err);
	if (r < 0)
		return r;
	read_limits(settings, &limits);
	for (size_t i = 0; i < list.n; i++) {
		bool old = list.v[i].ended_ns / 1000000 + list.v[i].limits.ms <= clock_realtime_ns() / 1000000;

		bytes += (uint64_t)list.v[i].bytes;
		if (old || (i > 0 && bytes > limits.bytes))
			n += atoll_remove(a, list.v[i].name, &(struct atoll_remove_options){ 0 }, NULL) >= 0;
	}
	if (ret_n)
		*ret_n = n;
	return 0;
}
