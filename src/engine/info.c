/* SPDX-License-Identifier: Apache-2.0 */
/* Showing what there is: sandboxes, and the log of their commits. Takes no lock. */
#include "engine/protocol.h"
#include "engine/settings.h"

#include <string.h>

#include "base/clock.h"

static char *time_text(int64_t ns)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format(ns, text);
	return strdup(text);
}

static char *copy_text(const char *text)
{
	return text && *text ? strdup(text) : NULL;
}

/* A guest's is that of the resource around it. */
static const struct strategy_ops *ops_of_workspace(const struct store_resource *rows, size_t n,
						   const struct store_resource *row)
{
	const struct strategy_ops *own = strategy_find(row->strategy, row->kind);

	for (size_t i = 0; i < n && own && (own->capabilities & STRATEGY_GUEST) && *row->work; i++) {
		const struct strategy_ops *ops = strategy_find(rows[i].strategy, rows[i].kind);

		if (ops && !(ops->capabilities & STRATEGY_GUEST) && strcmp(rows[i].work, row->work) == 0)
			return ops;
	}
	return own;
}

static char *workspace_of(const struct store_resource *row, const struct strategy_ops *ops)
{
	return ops && ops->workspace && *row->work ? str_format("%s/%s", row->work, ops->workspace) : NULL;
}

static void fill_detail(const struct store_resource *row, struct atoll_resource_info *ret)
{
	const struct strategy_ops *ops = strategy_find(row->strategy, row->kind);
	AUTO_STRBUF text = STRBUF_INIT;
	struct strategy_locks locks = { 0 };
	int found = ops && ops->detail ? ops->detail(row, &text, &locks) : 0;

	ret->lost = found == 2;
	if (found == 1 && *locks.relations) {
		ret->locks = strdup(locks.relations);
		ret->locked_ns = locks.held_ns;
		ret->given_up_ns = locks.left_ns;
	}
	ret->detail = found && text.size ? strbuf_take(&text) : NULL;
}

static int fill_resource(const struct store_resource *row, const struct strategy_ops *holder,
			 struct atoll_resource_info *ret)
{
	const struct strategy_ops *ops = strategy_find(row->strategy, row->kind);

	*ret = (struct atoll_resource_info){
		.seq = row->seq,
		.kind = row->kind,
		.state = row->state,
		.path = strdup(row->path),
		.strategy = strdup(row->strategy),
		.mode = copy_text(row->mode),
		.reason = copy_text(row->reason),
		.workspace = workspace_of(row, holder),
		.stage = copy_text(row->stage),
		.dirty = row->dirty,
	};
	ret->divides = !ops || !(ops->capabilities & STRATEGY_PART) || (ops->divides && ops->divides(row));
	fill_detail(row, ret);
	return ret->path && ret->strategy ? 0 : -ENOMEM;
}

static int fill_ops(struct store *store, struct atoll_info *info, int64_t sandbox, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	size_t n = 0;
	int r = store_op_list(store, sandbox, &ops, &n, err);

	for (size_t i = 0; i < n; i++) {
		info->commits += ops[i].kind == STORE_OP_COMMIT && !ops[i].taken_back &&
				 (ops[i].phase == STORE_DONE || ops[i].phase == STORE_DECIDED);
		if (ops[i].phase == STORE_PREPARED)
			info->phase = ATOLL_PHASE_PREPARED;
		else if (ops[i].phase == STORE_DECIDED)
			info->phase = ATOLL_PHASE_DECIDED;
	}
	store_ops_free(ops, n);
	return r;
}

static int fill_settings(struct atoll_info *info, const struct store_sandbox *box, struct atoll_error *err)
{
	AUTO_FREE char *source = str_format("sandbox %s", box->name);

	if (!source)
		return error_oom(err, "show");
	return settings_decode(&info->settings, box->settings, source, err);
}

int info_describe(struct atoll *a, struct store *store, const struct store_sandbox *box, struct atoll_info **ret,
		  struct atoll_error *err)
{
	struct atoll_info *info = calloc(1, sizeof *info);
	struct store_resource *rows = NULL;
	bool doubtful = false;
	size_t n = 0;
	int r;

	if (!info)
		return error_oom(err, "show");
	info->name = strdup(box->name);
	info->uuid = strdup(box->uuid);
	info->created_at = time_text(box->created_ns);
	info->active_at = time_text(MAX(box->active_ns, lock_last_run(a, box->uuid)));
	info->durable_workspace = box->durable_workspace;
	info->running = lock_is_running(a, box->uuid);
	r = store_resource_list(store, box->id, &rows, &n, err);
	info->resources = calloc(n ? n : 1, sizeof *info->resources);
	if (r >= 0 && (!info->name || !info->uuid || !info->resources))
		r = error_oom(err, "show");
	info->state = n ? rows[0].state : ATOLL_PENDING;
	for (size_t i = 0; i < n && r >= 0; i++) {
		if (fill_resource(&rows[i], ops_of_workspace(rows, n, &rows[i]),
				  &info->resources[info->n_resources++]) < 0)
			r = error_oom(err, "show");
		info->state = MIN(info->state, rows[i].state);
		doubtful |= boot_is_doubtful(&rows[i]);
	}
	for (size_t i = 0; i < n; i++)
		store_resource_release(&rows[i]);
	free(rows);
	if (r >= 0)
		r = fill_settings(info, box, err);
	if (r >= 0)
		r = fill_ops(store, info, box->id, err);
	info->landed = box->prunable && info->commits > 0 && info->state == ATOLL_COMMITTED;
	if (r >= 0 && doubtful)
		boot_find_suspects(a, info);
	if (r < 0) {
		atoll_info_free(info);
		return r;
	}
	*ret = info;
	return 0;
}

struct atoll_info *atoll_info_free(struct atoll_info *info)
{
	if (!info)
		return NULL;
	for (size_t i = 0; i < info->n_resources; i++) {
		struct atoll_resource_info *r = &info->resources[i];

		free(r->path);
		free(r->strategy);
		free(r->mode);
		free(r->reason);
		free(r->workspace);
		free(r->stage);
		free(r->detail);
		free(r->locks);
	}
	free(info->resources);
	atoll_settings_free(info->settings);
	free(info->name);
	free(info->uuid);
	free(info->created_at);
	free(info->active_at);
	free(info);
	return NULL;
}

void atoll_info_list_free(struct atoll_info **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		atoll_info_free(list[i]);
	free(list);
}

int atoll_show(struct atoll *a, const char *name, struct atoll_info **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct session s = { .lock_fd = -EBADF };
	int r;

	if (!a || !ret)
		return error_set(err, ATOLL_INVALID, 0, "show", NULL, "no handle was given");
	r = session_peek(a, name, &s, err);
	if (r >= 0)
		r = info_describe(a, s.store, &s.box, ret, err);
	session_release(&s);
	return r;
}

int atoll_list(struct atoll *a, struct atoll_info ***ret, size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_sandbox *boxes = NULL;
	struct atoll_info **list;
	size_t n = 0;
	int r;

	if (!a || !ret || !ret_n)
		return error_set(err, ATOLL_INVALID, 0, "list", NULL, "no handle was given");
	r = store_open(a->state_dir, &store, err);
	if (r >= 0)
		r = store_sandbox_list(store, &boxes, &n, err);
	if (r < 0)
		return r;
	list = calloc(n ? n : 1, sizeof *list);
	if (!list)
		r = error_oom(err, "list");
	for (size_t i = 0; i < n; i++) {
		if (r >= 0)
			r = info_describe(a, store, &boxes[i], &list[i], err);
		store_sandbox_release(&boxes[i]);
	}
	free(boxes);
	if (r < 0) {
		atoll_info_list_free(list, list ? n : 0);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

/* ---- the log ---- */

static const char *status_of(const struct store_op *op)
{
	switch (op->phase) {
	case STORE_PREPARED:
		return "prepared";
	case STORE_DECIDED:
		return "decided";
	case STORE_FAILED:
		return "failed";
	case STORE_DONE:
	default:
		return op->kind == STORE_OP_COMMIT && op->taken_back ? "taken back" : "landed";
	}
}

static int fill_entry(const struct store_op *op, const char *sandbox, struct atoll_log_entry *ret)
{
	*ret = (struct atoll_log_entry){
		.sandbox = strdup(sandbox),
		.number = op->number,
		.operation = op->kind == STORE_OP_COMMIT ? "commit"
			     : op->rollback              ? "rollback"
							 : "undo",
		.status = strdup(status_of(op)),
		.message = op->message ? strdup(op->message) : NULL,
		.started_at = time_text(op->started_ns),
		.ended_at = op->ended_ns ? time_text(op->ended_ns) : NULL,
		.added = op->added,
		.modified = op->modified,
		.deleted = op->deleted,
		.meta = op->meta,
	};
	return ret->sandbox && ret->status ? 0 : -ENOMEM;
}

static const char *name_of(const struct store_sandbox *boxes, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (boxes[i].id == id)
			return boxes[i].name;
	return NULL;
}

int atoll_log(struct atoll *a, const char *name, struct atoll_log_entry **ret, size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_sandbox *boxes = NULL;
	struct store_op *ops = NULL;
	struct atoll_log_entry *list = NULL;
	struct store_sandbox one = { 0 };
	size_t n_boxes = 0, n_ops = 0, n = 0;
	int r;

	if (!a || !ret || !ret_n)
		return error_set(err, ATOLL_INVALID, 0, "log", NULL, "no handle was given");
	r = store_open(a->state_dir, &store, err);
	if (r >= 0 && name)
		r = store_sandbox_find(store, name, &one, err);
	if (r >= 0)
		r = store_sandbox_list(store, &boxes, &n_boxes, err);
	if (r >= 0)
		r = store_op_list(store, name ? one.id : 0, &ops, &n_ops, err);
	if (r >= 0) {
		list = calloc(n_ops ? n_ops : 1, sizeof *list);
		r = list ? 0 : error_oom(err, "log");
	}
	for (size_t i = 0; i < n_ops && r >= 0; i++) {
		const char *box = name_of(boxes, n_boxes, ops[i].sandbox);

		if (box && fill_entry(&ops[i], box, &list[n++]) < 0)
			r = error_oom(err, "log");
	}
	for (size_t i = 0; i < n_boxes; i++)
		store_sandbox_release(&boxes[i]);
	free(boxes);
	store_ops_free(ops, n_ops);
	store_sandbox_release(&one);
	if (r < 0) {
		atoll_log_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

void atoll_log_free(struct atoll_log_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(entries[i].sandbox);
		free(entries[i].status);
		free(entries[i].message);
		free(entries[i].started_at);
		free(entries[i].ended_at);
	}
	free(entries);
}
