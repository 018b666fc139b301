/* SPDX-License-Identifier: Apache-2.0 */
/* Ops and their steps. */
#include "store/internal.h"

#include <string.h>

#define OP_COLUMNS \
	"id,sandbox,number,kind,phase,commit_op,taken_back,rollback,dir,message,started,ended,added,modified,deleted,meta"

void store_op_release(struct store_op *op)
{
	free(op->dir);
	free(op->message);
	*op = (struct store_op){ 0 };
}

void store_ops_free(struct store_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_op_release(&ops[i]);
	free(ops);
}

void store_step_release(struct store_step *step)
{
	free(step->path);
	free(step->slot);
	free(step->xattrs_before);
	free(step->xattrs_after);
	*step = (struct store_step){ 0 };
}

void store_steps_free(struct store_step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_step_release(&steps[i]);
	free(steps);
}

int store_op_add(struct store *s, struct store_op *op, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(
		s,
		"INSERT INTO op(sandbox,number,kind,phase,commit_op,taken_back,rollback,dir,message,started,ended,added,modified,"
		"deleted,meta) VALUES(?1,CASE WHEN ?2 THEN ?2 ELSE (SELECT ifnull(max(number),0)+1 FROM op WHERE sandbox=?1) END,"
		"?3,?4,?5,0,?6,?7,?8,?9,?10,?11,?12,?13,?14) RETURNING id,number",
		&stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op->sandbox);
	sqlite3_bind_int64(stmt, 2, op->number);
	sqlite3_bind_int(stmt, 3, op->kind);
	sqlite3_bind_int(stmt, 4, op->phase);
	sqlite3_bind_int64(stmt, 5, op->commit_op);
	sqlite3_bind_int(stmt, 6, op->rollback);
	sqlite3_bind_text(stmt, 7, op->dir, -1, SQLITE_TRANSIENT);
	bind_text(stmt, 8, op->message);
	sqlite3_bind_int64(stmt, 9, op->started_ns);
	sqlite3_bind_int64(stmt, 10, op->ended_ns);
	sqlite3_bind_int64(stmt, 11, (int64_t)op->added);
	sqlite3_bind_int64(stmt, 12, (int64_t)op->modified);
	sqlite3_bind_int64(stmt, 13, (int64_t)op->deleted);
	sqlite3_bind_int64(stmt, 14, (int64_t)op->meta);
	r = store_next(s, stmt, err);
	if (r < 0)
		return r;
	op->id = sqlite3_column_int64(stmt, 0);
	op->number = sqlite3_column_int64(stmt, 1);
	return MIN(store_next(s, stmt, err), 0);
}

int store_op_set_phase(struct store *s, int64_t op, enum store_op_phase phase, int64_t ended_ns,
		       struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "UPDATE op SET phase=?,ended=? WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int(stmt, 1, phase);
	sqlite3_bind_int64(stmt, 2, ended_ns);
	sqlite3_bind_int64(stmt, 3, op);
	return store_run(s, stmt, err);
}

int store_op_set_taken_back(struct store *s, int64_t op, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "UPDATE op SET taken_back=1 WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	return store_run(s, stmt, err);
}

static int read_op(sqlite3_stmt *stmt, struct store_op *ret, struct atoll_error *err)
{
	int i = 0;

	ret->id = sqlite3_column_int64(stmt, i++);
	ret->sandbox = sqlite3_column_int64(stmt, i++);
	ret->number = sqlite3_column_int64(stmt, i++);
	ret->kind = (enum store_op_kind)sqlite3_column_int(stmt, i++);
	ret->phase = (enum store_op_phase)sqlite3_column_int(stmt, i++);
	ret->commit_op = sqlite3_column_int64(stmt, i++);
	ret->taken_back = sqlite3_column_int(stmt, i++);
	ret->rollback = sqlite3_column_int(stmt, i++);
	ret->dir = column_text(stmt, i++);
	ret->message = column_text(stmt, i++);
	ret->started_ns = sqlite3_column_int64(stmt, i++);
	ret->ended_ns = sqlite3_column_int64(stmt, i++);
	ret->added = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->modified = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->deleted = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->meta = (uint64_t)sqlite3_column_int64(stmt, i++);
	return ret->dir ? 0 : error_oom(err, "store");
}

int store_op_list(struct store *s, int64_t sandbox, struct store_op **ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_op *list = NULL;
	size_t n = 0;
	int r = store_prepare(s,
			      sandbox ? "SELECT " OP_COLUMNS " FROM op WHERE sandbox=? ORDER BY id DESC"
				      : "SELECT " OP_COLUMNS " FROM op ORDER BY id DESC",
			      &stmt, err);

	if (r < 0)
		return r;
	if (sandbox)
		sqlite3_bind_int64(stmt, 1, sandbox);
	while ((r = store_next(s, stmt, err)) > 0) {
		r = array_grow(&list, n, sizeof *list) < 0 ? error_oom(err, "store") : read_op(stmt, &list[n++], err);
		if (r < 0)
			break;
	}
	if (r < 0) {
		store_ops_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_op_unfinished(struct store *s, int64_t sandbox, struct store_op *ret, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s,
			      "SELECT " OP_COLUMNS
			      " FROM op WHERE sandbox=? AND phase IN (?,?) ORDER BY id DESC LIMIT 1",
			      &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, sandbox);
	sqlite3_bind_int(stmt, 2, STORE_PREPARED);
	sqlite3_bind_int(stmt, 3, STORE_DECIDED);
	r = store_next(s, stmt, err);
	if (r <= 0)
		return r;
	r = read_op(stmt, ret, err);
	return r < 0 ? r : 1;
}

static void bind_counts(sqlite3_stmt *stmt, int i, const struct store_op_resource *o)
{
	if (!o->counted)
		return;
	sqlite3_bind_int64(stmt, i++, (int64_t)o->counts.added);
	sqlite3_bind_int64(stmt, i++, (int64_t)o->counts.modified);
	sqlite3_bind_int64(stmt, i++, (int64_t)o->counts.deleted);
	sqlite3_bind_int64(stmt, i++, (int64_t)o->counts.meta);
}

static void column_counts(sqlite3_stmt *stmt, int i, struct store_op_resource *ret)
{
	ret->counted = sqlite3_column_type(stmt, i) != SQLITE_NULL;
	ret->counts.added = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->counts.modified = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->counts.deleted = (uint64_t)sqlite3_column_int64(stmt, i++);
	ret->counts.meta = (uint64_t)sqlite3_column_int64(stmt, i++);
}

int store_op_resource_put(struct store *s, const struct store_op_resource *o, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(
		s,
		"INSERT OR REPLACE INTO op_resource(op,resource,source,switches,fresh,prepared_at,landed_at,stays_active,"
		"added,modified,deleted,meta) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
		&stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, o->op);
	sqlite3_bind_int64(stmt, 2, o->resource);
	sqlite3_bind_int(stmt, 3, o->source);
	sqlite3_bind_int(stmt, 4, o->switches);
	bind_id(stmt, 5, &o->fresh);
	sqlite3_bind_int64(stmt, 6, o->prepared_at);
	sqlite3_bind_int64(stmt, 7, o->landed_at);
	sqlite3_bind_int(stmt, 8, o->stays_active);
	bind_counts(stmt, 9, o);
	return store_run(s, stmt, err);
}

int store_op_resource_delete(struct store *s, int64_t op, int64_t resource, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM op_resource WHERE op=? AND resource=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	sqlite3_bind_int64(stmt, 2, resource);
	return store_run(s, stmt, err);
}

int store_op_resource_list(struct store *s, int64_t op, struct store_op_resource **ret, size_t *ret_n,
			   struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	AUTO_FREE struct store_op_resource *list = NULL;
	size_t n = 0;
	int r = store_prepare(
		s,
		"SELECT op,resource,source,switches,fresh,prepared_at,landed_at,stays_active,added,modified,deleted,meta"
		" FROM op_resource WHERE op=? ORDER BY resource",
		&stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	while ((r = store_next(s, stmt, err)) > 0) {
		struct store_op_resource *o;

		if (array_grow(&list, n, sizeof *list) < 0)
			return error_oom(err, "store");
		o = &list[n++];
		o->op = sqlite3_column_int64(stmt, 0);
		o->resource = sqlite3_column_int64(stmt, 1);
		o->source = (enum store_source)sqlite3_column_int(stmt, 2);
		o->switches = sqlite3_column_int(stmt, 3);
		column_id(stmt, 4, &o->fresh);
		o->prepared_at = sqlite3_column_int64(stmt, 5);
		o->landed_at = sqlite3_column_int64(stmt, 6);
		o->stays_active = sqlite3_column_int(stmt, 7);
		column_counts(stmt, 8, o);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

/* ---- steps ---- */

/* So many to a row: one of all would be in memory several times. */
#define STEPS_TO_A_ROW 1024

/* Beside the kind of the change. Records of older versions have 0 there. */
#define OVERRIDES 256

static void pack_step(struct strbuf *out, const struct store_step *step)
{
	pack_number(out, step->seq);
	pack_number(out, step->resource);
	pack_number(out, step->kind);
	pack_text(out, step->path);
	pack_text(out, step->slot);
	pack_number(out, (int64_t)step->change + (step->overrides ? OVERRIDES : 0));
	pack_look(out, &step->before);
	pack_look(out, &step->after);
	pack_data(out, step->xattrs_before, step->xattrs_before_size);
	pack_data(out, step->xattrs_after, step->xattrs_after_size);
}

static void unpack_step(struct unpack *u, struct store_step *ret)
{
	int64_t change;

	ret->seq = unpack_number(u);
	ret->resource = unpack_number(u);
	ret->kind = (enum store_step_kind)unpack_number(u);
	ret->path = unpack_text(u);
	ret->slot = unpack_text(u);
	change = unpack_number(u);
	ret->change = (enum atoll_change_kind)(change % OVERRIDES);
	ret->overrides = change >= OVERRIDES;
	unpack_look(u, &ret->before);
	unpack_look(u, &ret->after);
	ret->xattrs_before = unpack_data(u, &ret->xattrs_before_size);
	ret->xattrs_after = unpack_data(u, &ret->xattrs_after_size);
	if (!u->failed && (!ret->path || (unsigned)ret->kind >= STORE_STEP_KIND_COUNT))
		u->failed = -EBADMSG;
}

static int put_part(struct store *s, int64_t op, int64_t part, const struct strbuf *data, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = data->failed ? error_oom(err, "store") : store_prepare(s, "INSERT INTO plan VALUES(?,?,?)", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	sqlite3_bind_int64(stmt, 2, part);
	sqlite3_bind_blob64(stmt, 3, data->data, data->size, SQLITE_STATIC);
	return store_run(s, stmt, err);
}

int store_steps_put(struct store *s, int64_t op, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i += STEPS_TO_A_ROW) {
		AUTO_STRBUF data = STRBUF_INIT;

		for (size_t k = i; k < n && k < i + STEPS_TO_A_ROW; k++)
			if (!steps[k].dropped)
				pack_step(&data, &steps[k]);
		if (data.size || data.failed)
			r = put_part(s, op, (int64_t)(i / STEPS_TO_A_ROW), &data, err);
	}
	return r;
}

static int read_steps(struct store *s, sqlite3_stmt *stmt, struct store_step **list, size_t *n, struct atoll_error *err)
{
	struct unpack u = store_unpack(stmt, 0);

	while (u.at < u.end) {
		if (array_grow(list, *n, sizeof **list) < 0)
			return error_oom(err, "store");
		unpack_step(&u, &(*list)[(*n)++]);
	}
	return store_unpacked(s, &u, err);
}

int store_steps_list(struct store *s, int64_t op, struct store_step **ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_step *list = NULL;
	size_t n = 0;
	int r = store_prepare(s, "SELECT steps FROM plan WHERE op=? ORDER BY part", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	while ((r = store_next(s, stmt, err)) > 0) {
		r = read_steps(s, stmt, &list, &n, err);
		if (r < 0)
			break;
	}
	if (r < 0) {
		store_steps_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_steps_forget(struct store *s, int64_t op, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM plan WHERE op=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	return store_run(s, stmt, err);
}
