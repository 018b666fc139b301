/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes and their resources. */
#include "store/internal.h"

#include <string.h>

#define SANDBOX_COLUMNS "id,uuid,name,created,active,durable,removing,settings,prunable,measured_op,measured"
#define RESOURCE_COLUMNS \
	"id,sandbox,seq,kind,state,path,strategy,mode,reason,work,stage,copies,root_id,stamp,clock_offset,boot_id,synced_at,dirty"

int store_owner_get(struct store *s, struct store_owner *ret, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT id,born,path FROM owner", &stmt, err);

	if (r >= 0)
		r = store_next(s, stmt, err);
	if (r <= 0)
		return r;
	column_id(stmt, 0, &ret->id);
	ret->born = sqlite3_column_int64(stmt, 1);
	ret->path = column_text(stmt, 2);
	return ret->path ? 1 : error_oom(err, "store");
}

int store_owner_put(struct store *s, const struct store_owner *owner, const char *registry, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "INSERT OR REPLACE INTO owner(one,id,born,path,registry) VALUES(1,?,?,?,?)", &stmt,
			      err);

	if (r < 0)
		return r;
	bind_id(stmt, 1, &owner->id);
	sqlite3_bind_int64(stmt, 2, owner->born);
	bind_text(stmt, 3, owner->path);
	sqlite3_bind_text(stmt, 4, registry, -1, SQLITE_TRANSIENT);
	return store_run(s, stmt, err);
}

void store_sandbox_release(struct store_sandbox *box)
{
	free(box->name);
	free(box->settings);
	*box = (struct store_sandbox){ 0 };
}

void store_resource_release(struct store_resource *r)
{
	free(r->path);
	free(r->strategy);
	free(r->mode);
	free(r->reason);
	free(r->work);
	free(r->stage);
	*r = (struct store_resource){ 0 };
}

static void copy_text(char *to, size_t size, sqlite3_stmt *stmt, int i)
{
	const char *text = (const char *)sqlite3_column_text(stmt, i);

	snprintf(to, size, "%s", text ? text : "");
}

int store_registry_get(struct store *s, char ret[REGISTRY_ID_SIZE], struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT registry FROM owner", &stmt, err);

	*ret = 0;
	if (r >= 0)
		r = store_next(s, stmt, err);
	if (r > 0)
		copy_text(ret, REGISTRY_ID_SIZE, stmt, 0);
	return r;
}

static int read_sandbox(sqlite3_stmt *stmt, struct store_sandbox *ret, struct atoll_error *err)
{
	ret->id = sqlite3_column_int64(stmt, 0);
	copy_text(ret->uuid, sizeof ret->uuid, stmt, 1);
	ret->name = column_text(stmt, 2);
	ret->created_ns = sqlite3_column_int64(stmt, 3);
	ret->active_ns = sqlite3_column_int64(stmt, 4);
	ret->durable_workspace = sqlite3_column_int(stmt, 5);
	ret->removing = sqlite3_column_int(stmt, 6);
	ret->settings = column_text(stmt, 7);
	ret->prunable = sqlite3_column_int(stmt, 8);
	ret->measured_op = sqlite3_column_int64(stmt, 9);
	ret->measured = sqlite3_column_int64(stmt, 10);
	return ret->name ? 0 : error_oom(err, "store");
}

int store_sandbox_add(struct store *s, struct store_sandbox *box, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(
		s, "INSERT INTO sandbox(uuid,name,created,active,durable,settings,prunable) VALUES(?,?,?,?,?,?,?)",
		&stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, box->uuid, -1, SQLITE_TRANSIENT);
	bind_text(stmt, 2, box->name);
	sqlite3_bind_int64(stmt, 3, box->created_ns);
	sqlite3_bind_int64(stmt, 4, box->active_ns);
	sqlite3_bind_int(stmt, 5, box->durable_workspace);
	bind_text(stmt, 6, box->settings);
	sqlite3_bind_int(stmt, 7, box->prunable);
	if (sqlite3_step(stmt) == SQLITE_DONE) {
		box->id = sqlite3_last_insert_rowid(s->db);
		return 0;
	}
	if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE)
		return error_set(err, ATOLL_EXISTS, 0, "new", box->name, "there is a sandbox \"%s\" already",
				 box->name);
	return store_fail(s, err, "new");
}

int store_sandbox_find(struct store *s, const char *name, struct store_sandbox *ret, struct atoll_error *err)
{
	static const char sql[] = "SELECT " SANDBOX_COLUMNS " FROM sandbox WHERE name=?";
	sqlite3_stmt *stmt;
	int r = store_prepare_kept(s, KEPT_SANDBOX_FIND, sql, &stmt, err);

	if (r < 0)
		return r;
	bind_text(stmt, 1, name);
	r = store_next(s, stmt, err);
	if (r > 0)
		r = read_sandbox(stmt, ret, err);
	else if (r == 0)
		r = error_set(err, ATOLL_NOT_FOUND, 0, "open", name,
			      "there is no sandbox \"%s\"; atoll list shows those there are", name);
	sqlite3_reset(stmt);
	return r;
}

static int list_sandboxes(struct store *s, const char *sql, struct store_sandbox **ret, size_t *ret_n,
			  struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_sandbox *list = NULL;
	size_t n = 0;
	int r = store_prepare(s, sql, &stmt, err);

	while (r >= 0 && (r = store_next(s, stmt, err)) > 0) {
		if (array_grow(&list, n, sizeof *list) < 0)
			r = error_oom(err, "list");
		else
			r = read_sandbox(stmt, &list[n++], err);
	}
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			store_sandbox_release(&list[i]);
		free(list);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_sandbox_list(struct store *s, struct store_sandbox **ret, size_t *ret_n, struct atoll_error *err)
{
	return list_sandboxes(s, "SELECT " SANDBOX_COLUMNS " FROM sandbox ORDER BY id", ret, ret_n, err);
}

/* "phase<2" is there for the index of unfinished ops. */
_Static_assert(STORE_PREPARED == 0 && STORE_DECIDED == 1, "the index of unfinished ops names phases by number");

int store_sandbox_list_prepared(struct store *s, struct store_sandbox **ret, size_t *ret_n, struct atoll_error *err)
{
	return list_sandboxes(s,
			      "SELECT " SANDBOX_COLUMNS
			      " FROM sandbox WHERE id IN (SELECT sandbox FROM op WHERE phase<2 AND phase=0)",
			      ret, ret_n, err);
}

int store_sandbox_is_known(struct store *s, const char *uuid, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT 1 FROM sandbox WHERE uuid=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, uuid, -1, SQLITE_TRANSIENT);
	return store_next(s, stmt, err);
}

int store_sandbox_touch(struct store *s, int64_t id, int64_t active_ns, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "UPDATE sandbox SET active=? WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, active_ns);
	sqlite3_bind_int64(stmt, 2, id);
	return store_run(s, stmt, err);
}

int store_sandbox_set_measured(struct store *s, int64_t id, int64_t op, int64_t bytes, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "UPDATE sandbox SET measured_op=?, measured=? WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, op);
	sqlite3_bind_int64(stmt, 2, bytes);
	sqlite3_bind_int64(stmt, 3, id);
	return store_run(s, stmt, err);
}

int store_sandbox_set_removing(struct store *s, int64_t id, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "UPDATE sandbox SET removing=1 WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, id);
	return store_run(s, stmt, err);
}

int store_sandbox_delete(struct store *s, int64_t id, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int r = store_prepare(s, "DELETE FROM sandbox WHERE id=?", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, id);
	return store_run(s, stmt, err);
}

/* Binds everything of a resource but its id, from parameter 1 on; returns the next index. */
/* The state directory with a slash at its end: how many bytes of s->path that is. */
static size_t state_dir_size(const struct store *s)
{
	return (size_t)(strrchr(s->path, '/') - s->path) + 1;
}

/* An area in the state directory is recorded relative to that, so that the directory can be moved. */
static const char *area_to_record(const struct store *s, const char *area)
{
	return area && strncmp(area, s->path, state_dir_size(s)) == 0 ? area + state_dir_size(s) : area;
}

static char *area_from_record(const struct store *s, sqlite3_stmt *stmt, int i)
{
	char *area = column_text(stmt, i), *absolute;

	if (!area || !*area || *area == '/')
		return area;
	absolute = str_format("%.*s%s", (int)state_dir_size(s), s->path, area);
	free(area);
	return absolute;
}

static int bind_resource(struct store *s, sqlite3_stmt *stmt, const struct store_resource *r)
{
	int i = 1;

	sqlite3_bind_int64(stmt, i++, r->sandbox);
	sqlite3_bind_int(stmt, i++, r->seq);
	sqlite3_bind_int(stmt, i++, r->kind);
	sqlite3_bind_int(stmt, i++, r->state);
	bind_text(stmt, i++, r->path);
	sqlite3_bind_text(stmt, i++, r->strategy, -1, SQLITE_TRANSIENT);
	bind_text(stmt, i++, r->mode);
	bind_text(stmt, i++, r->reason);
	bind_text(stmt, i++, area_to_record(s, r->work));
	bind_text(stmt, i++, area_to_record(s, r->stage));
	sqlite3_bind_int(stmt, i++, r->copies);
	bind_id(stmt, i++, &r->root_id);
	sqlite3_bind_int64(stmt, i++, r->stamp);
	sqlite3_bind_int64(stmt, i++, r->clock_offset);
	sqlite3_bind_text(stmt, i++, r->boot_id, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(stmt, i++, r->synced_at);
	sqlite3_bind_int(stmt, i++, r->dirty);
	return i;
}

int store_resource_add(struct store *s, struct store_resource *r, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int rc = store_prepare(
		s,
		"INSERT INTO resource(sandbox,seq,kind,state,path,strategy,mode,reason,work,stage,copies,root_id,stamp,"
		"clock_offset,boot_id,synced_at,dirty) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		&stmt, err);

	if (rc < 0)
		return rc;
	bind_resource(s, stmt, r);
	rc = store_run(s, stmt, err);
	if (rc == 0)
		r->id = sqlite3_last_insert_rowid(s->db);
	return rc;
}

int store_resource_update(struct store *s, const struct store_resource *r, struct atoll_error *err)
{
	sqlite3_stmt *stmt;
	int rc = store_prepare(
		s,
		"UPDATE resource SET sandbox=?,seq=?,kind=?,state=?,path=?,strategy=?,mode=?,reason=?,work=?,stage=?,copies=?,"
		"root_id=?,stamp=?,clock_offset=?,boot_id=?,synced_at=?,dirty=? WHERE id=?",
		&stmt, err);

	if (rc < 0)
		return rc;
	sqlite3_bind_int64(stmt, bind_resource(s, stmt, r), r->id);
	return store_run(s, stmt, err);
}

static int read_resource(struct store *s, sqlite3_stmt *stmt, struct store_resource *ret, struct atoll_error *err)
{
	int i = 0;

	ret->id = sqlite3_column_int64(stmt, i++);
	ret->sandbox = sqlite3_column_int64(stmt, i++);
	ret->seq = sqlite3_column_int(stmt, i++);
	ret->kind = (enum atoll_kind)sqlite3_column_int(stmt, i++);
	ret->state = (enum atoll_state)sqlite3_column_int(stmt, i++);
	ret->path = column_text(stmt, i++);
	ret->strategy = column_text(stmt, i++);
	ret->mode = column_text(stmt, i++);
	ret->reason = column_text(stmt, i++);
	ret->work = area_from_record(s, stmt, i++);
	ret->stage = area_from_record(s, stmt, i++);
	ret->copies = sqlite3_column_int(stmt, i++);
	column_id(stmt, i++, &ret->root_id);
	ret->stamp = sqlite3_column_int64(stmt, i++);
	ret->clock_offset = sqlite3_column_int64(stmt, i++);
	copy_text(ret->boot_id, sizeof ret->boot_id, stmt, i++);
	ret->synced_at = sqlite3_column_int64(stmt, i++);
	ret->dirty = sqlite3_column_int(stmt, i++);
	if (!ret->path || !ret->strategy || !ret->work || !ret->stage)
		return error_oom(err, "store");
	return 0;
}

int store_resource_list(struct store *s, int64_t sandbox, struct store_resource **ret, size_t *ret_n,
			struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	struct store_resource *list = NULL;
	size_t n = 0;
	int r = store_prepare(s, "SELECT " RESOURCE_COLUMNS " FROM resource WHERE sandbox=? ORDER BY seq", &stmt, err);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, sandbox);
	while ((r = store_next(s, stmt, err)) > 0) {
		r = array_grow(&list, n, sizeof *list) < 0 ? error_oom(err, "store")
							   : read_resource(s, stmt, &list[n++], err);
		if (r < 0)
			break;
	}
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			store_resource_release(&list[i]);
		free(list);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

/* The table stores paths as BLOBs, and SQL does not compare BLOBs with TEXT. */
int store_area_list(struct store *s, char ***ret, size_t *ret_n, struct atoll_error *err)
{
	AUTO_STMT *stmt = NULL;
	char **list = NULL;
	size_t n = 0;
	int r = store_prepare(s,
			      "SELECT work FROM resource WHERE hex(substr(work,1,1))='2F' "
			      "UNION SELECT stage FROM resource WHERE hex(substr(stage,1,1))='2F'",
			      &stmt, err);

	while (r >= 0 && (r = store_next(s, stmt, err)) > 0) {
		r = array_grow(&list, n, sizeof *list) < 0 ? -ENOMEM : 0;
		if (r == 0) {
			list[n] = column_text(stmt, 0);
			r = list[n] ? (int)(n++, 0) : -ENOMEM;
		}
		if (r < 0)
			r = error_oom(err, "store");
	}
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			free(list[i]);
		free(list);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
