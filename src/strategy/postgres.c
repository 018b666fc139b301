/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transaction_rollback for a PostgreSQL database: everything that commands inside do happens in one transaction of the server, which a process of
 * ours holds open (hold/hold.c). It begins with the first run. Its commit is the decision of the whole (STRATEGY_DECIDES): a marker made inside
 * the transaction, and kept in the op's directory, tells afterwards how it ended. The edits live as long as the transaction; that it was
 * lost is found by the file "open" that it left. docs/strategies/postgresql.md.
 */
#include "strategy/postgres.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "strategy/strategies.h"

#define FILES "files" /* the workspace as files are concerned: empty */
#define INSIDE "/run/atoll"
#define ENVIRONMENT "environment" /* lines of NAME=value */
#define ENVIRONMENT_MAX 65536

/* ---- making ---- */

static int pg_resolve(const char *given, char **ret_name, struct atoll_error *err)
{
	static const char *const arguments[] = { "probe", NULL };
	AUTO_STRBUF answer = STRBUF_INIT;
	int r = postgres_run(arguments, given, &answer, err);

	if (r < 0)
		return r;
	*ret_name = strbuf_take(&answer);
	return *ret_name ? 0 : error_oom(err, "new");
}

static int cannot_write(struct resource *r, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "new", r->row.path, "cannot write to \"%s\"", r->row.work);
}

static int write_file(struct resource *r, const char *name, const struct strbuf *text, struct atoll_error *err)
{
	AUTO_FD fd = sys_open(r->work_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int rc = fd < 0 ? fd : sys_write(fd, strbuf_str(text), text->size);

	if (rc >= 0)
		rc = sys_fsync(fd);
	return rc < 0 ? cannot_write(r, rc, err) : 0;
}

/* As it is found now, with what the environment adds: later commands may have another one. And what commands inside will have. */
static int write_conninfo(struct resource *r, struct atoll_error *err)
{
	AUTO_FREE char *inside = str_format(INSIDE "/%d", r->row.seq);
	const char *const resolve[] = { "resolve", NULL }, *const environment[] = { "environment", inside, NULL };
	AUTO_STRBUF full = STRBUF_INIT;
	AUTO_STRBUF lines = STRBUF_INIT;
	int rc = inside ? postgres_run(resolve, r->given, &full, err) : error_oom(err, "new");

	if (rc >= 0)
		rc = postgres_run(environment, strbuf_str(&full), &lines, err);
	if (rc >= 0)
		rc = write_file(r, HOLD_CONNINFO, &full, err);
	return rc < 0 ? rc : write_file(r, ENVIRONMENT, &lines, err);
}

int postgres_ask_if_there(int area_fd, enum hold_what what, struct hold_reply *ret, struct atoll_error *err)
{
	AUTO_FREE struct hold_reply *own = calloc(1, sizeof *own);
	struct atoll_error why = { 0 };
	int rc = own ? postgres_ask(area_fd, what, own, &why) : error_oom(&why, "database");

	if (rc == -ATOLL_NOT_FOUND)
		return 0;
	if (rc < 0 && err)
		*err = why;
	if (rc >= 0 && ret)
		*ret = *own;
	return rc;
}

/* Whoever holds the transaction rolls it back and goes. */
static int end_keeper(int area_fd, struct atoll_error *err)
{
	return postgres_ask_if_there(area_fd, HOLD_END, NULL, err);
}

int postgres_forget_edits(int area_fd, struct atoll_error *err)
{
	static const char *const names[] = { HOLD_OPEN, HOLD_LOST };
	int rc = end_keeper(area_fd, err);

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc >= 0; i++) {
		rc = sys_unlink(area_fd, names[i], 0);
		if (rc < 0 && rc != -ENOENT)
			return error_sys(err, rc, "rollback", names[i], "cannot remove \"%s\"", names[i]);
		rc = 0;
	}
	return rc;
}

static int pg_begin(struct resource *r, struct atoll_error *err)
{
	static const char *const dirs[] = { FILES, HOLD_SOCKETS };
	int rc = postgres_forget_edits(r->work_fd, err);

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && rc >= 0; i++) {
		rc = sys_mkdir(r->work_fd, dirs[i], 0700);
		rc = rc == -EEXIST ? 0 : rc < 0 ? cannot_write(r, rc, err) : 0;
	}
	if (rc >= 0 && r->given)
		rc = write_conninfo(r, err);
	return rc;
}

/* ---- markers that have served ---- */

static int sweep_one(const struct tree_entry *e, void *arg)
{
	const char *const arguments[] = { "forget", arg, e->name, NULL };
	AUTO_FREE char *marker = str_format("%s/" HOLD_MARKER, e->name);
	struct atoll_error ignored;

	if (marker && faccessat(e->dirfd, marker, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)postgres_run(arguments, NULL, NULL, &ignored);
	return TREE_WALK_SKIP;
}

void postgres_sweep_markers(int area_fd, const char *area)
{
	(void)tree_walk(area_fd, TREE_WALK_NO_ROOT, sweep_one, (void *)area, NULL);
}

static int pg_forget(struct resource *r, struct atoll_error *err)
{
	AUTO_FD area = *r->row.work ? fd_open_absolute(r->row.work, O_RDONLY | O_DIRECTORY) : -EBADF;
	int rc = area < 0 ? 0 : end_keeper(area, err);

	if (area >= 0 && rc >= 0)
		postgres_sweep_markers(area, r->row.work);
	return rc;
}

/* ---- what is there ---- */

int postgres_refuse_lost(const struct resource *r, const char *operation, const char *why, struct atoll_error *err)
{
	return error_set(
		err, ATOLL_STATE, 0, operation, r->row.path,
		"the edits of \"%s\" are lost: %s; atoll rollback %s drops them, the others can be committed by name",
		r->row.path, why, r->sandbox);
}

static int start_keeper(struct resource *r, struct atoll_error *err)
{
	AUTO_FREE char *limit = str_format("%lld", (long long)r->limit_ms);
	AUTO_FREE char *idle_limit = str_format("%lld", (long long)r->idle_limit_ms);
	const char *const arguments[] = { "hold", r->row.work, limit, idle_limit, NULL };
	AUTO_STRBUF why = STRBUF_INIT;
	int rc = postgres_lost(r->work_fd, &why);

	if (rc < 0)
		return error_sys(err, rc, "run", r->row.path, "cannot look into \"%s\"", r->row.work);
	if (rc > 0)
		return postgres_refuse_lost(r, "run", strbuf_str(&why), err);
	rc = limit && idle_limit ? postgres_run(arguments, NULL, NULL, err) : error_oom(err, "run");
	/* A commit that was killed while it was prepared has left the clients waiting. */
	return rc < 0 ? rc : postgres_ask_if_there(r->work_fd, HOLD_RESUME, NULL, err);
}

static int pg_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	AUTO_FD sockets = fd_open_beneath(r->work_fd, HOLD_SOCKETS, O_RDONLY | O_DIRECTORY);
	int rc = sockets < 0 ? error_sys(err, sockets, "run", r->row.path,
					 "the workspace of \"%s\" is gone from \"%s\"", r->row.path, r->row.work)
			     : start_keeper(r, err);

	if (rc < 0)
		return rc;
	*ret = (struct strategy_view){
		.kind = STRATEGY_VIEW_NONE, .lower_fd = -EBADF, .upper_fd = -EBADF, .work_fd = -EBADF
	};
	ret->extra[0] = (struct strategy_mount){ .path = str_format(INSIDE "/%d", r->row.seq),
						 .fd = -EBADF,
						 .read_only = true };
	if (!ret->extra[0].path)
		return error_oom(err, "run");
	ret->extra[0].fd = TAKE_FD(sockets);
	ret->n_extra = 1;
	return 0;
}

/* What would lead to the server itself is not for inside. */
static const char *const unwanted[] = { "PGHOSTADDR",       "PGPASSWORD",   "PGPASSFILE",          "PGSERVICE",
					"PGSERVICEFILE",    "PGSSLMODE",    "PGSSLCERT",           "PGSSLKEY",
					"PGSSLROOTCERT",    "PGSSLCRL",     "PGREQUIRESSL",        "PGREQUIREPEER",
					"PGCHANNELBINDING", "PGGSSENCMODE", "PGTARGETSESSIONATTRS" };

static int pg_environment(struct resource *r, int (*set)(void *arg, const char *assignment), void *arg)
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	int rc = fd_read_file(r->work_fd, ENVIRONMENT, ENVIRONMENT_MAX, &text, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(unwanted) && rc >= 0; i++)
		rc = set(arg, unwanted[i]);
	for (char *line = rc < 0 ? NULL : strtok_r(text, "\n", &save); line && rc >= 0;
	     line = strtok_r(NULL, "\n", &save))
		rc = set(arg, line);
	return rc;
}

/* ---- what was changed ---- */

static struct change *find_change(struct changes *c, const char *label)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].path, label) == 0)
			return &c->v[i];
	return NULL;
}

/* A table that was truncated or rewritten is listed already, and its rows are told beside that. */
static int add_table(struct changes *c, const struct hold_table *t)
{
	AUTO_FREE char *label = str_format("table %s", t->name);
	struct change *listed = label ? find_change(c, label) : NULL;
	AUTO_FREE char *note = str_format("%s%s%lld inserted, %lld updated, %lld deleted", listed ? listed->words : "",
					  listed ? "; " : "", (long long)t->inserted, (long long)t->updated,
					  (long long)t->deleted);

	if (!label || !note)
		return -ENOMEM;
	if (!listed)
		return changes_add_part(c, label, ATOLL_MODIFIED, note) ? 0 : -ENOMEM;
	free(listed->words);
	listed->note = listed->words = TAKE_PTR(note);
	return 0;
}

static int add_all(struct resource *r, struct changes *c, const struct hold_reply *reply)
{
	int rc = reply->defined ? postgres_add_definitions(r, c) : 0;

	for (uint32_t i = 0; i < reply->n_tables && i < HOLD_TABLES_MAX && rc >= 0; i++)
		rc = add_table(c, &reply->tables[i]);
	if (rc >= 0 && reply->more)
		rc = changes_add_part(c, "tables", ATOLL_MODIFIED, "more tables than are listed") ? 0 : -ENOMEM;
	if (rc >= 0 && reply->notified)
		rc = changes_add_part(c, "notifications", ATOLL_MODIFIED, "NOTIFY was used; the commit delivers it")
			     ? 0
			     : -ENOMEM;
	/* A large object, a comment: neither a row of a table nor a definition that is listed. */
	if (rc >= 0 && reply->xid && !reply->n_tables && c->n == 0)
		rc = changes_add_part(c, "transaction", ATOLL_MODIFIED, "something other than rows was changed")
			     ? 0
			     : -ENOMEM;
	return rc;
}

static struct changes *pg_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	CLEANUP(cleanup_changes) struct changes *c = changes_new();
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	AUTO_STRBUF why = STRBUF_INIT;
	int lost = postgres_lost(r->work_fd, &why);
	int rc = 0;

	if (!c || !reply) {
		error_oom(err, "diff");
		return NULL;
	}
	if (lost < 0)
		rc = error_sys(err, lost, "diff", r->row.path, "cannot look into \"%s\"", r->row.work);
	else if (lost > 0)
		rc = changes_add_part(c, "transaction", ATOLL_MODIFIED, strbuf_str(&why)) ? 0 : error_oom(err, "diff");
	else
		rc = postgres_ask_if_there(r->work_fd, HOLD_STATUS, reply, err);
	if (rc >= 0 && add_all(r, c, reply) < 0)
		rc = error_oom(err, "diff");
	return rc < 0 ? NULL : TAKE_PTR(c);
}

static bool pg_holds(struct resource *r)
{
	return faccessat(r->work_fd, HOLD_OPEN, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* There are no files. */
static int pg_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err)
{
	return 0;
}

static void add_time(struct strbuf *out, int64_t ns)
{
	int64_t seconds = ns / 1000000000;

	strbuf_addf(out, "%lld:%02d:%02d", (long long)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
}

static void describe(struct strbuf *out, const struct hold_reply *reply)
{
	strbuf_adds(out, "a transaction, open for ");
	add_time(out, reply->open_ns);
	if (reply->limit_ns) {
		strbuf_adds(out, " and given up in ");
		add_time(out, MAX(reply->limit_ns - reply->open_ns, 0));
	}
	if (reply->clients)
		strbuf_addf(out, ", %u client%s", reply->clients, reply->clients == 1 ? "" : "s");
	strbuf_adds(out, reply->xid ? ", with changes" : ", without changes");
	if (*reply->locks)
		strbuf_addf(out, ", locks %s", reply->locks);
}

static int pg_detail(const struct store_resource *row, struct strbuf *ret, struct strategy_locks *locks)
{
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	AUTO_FD area = fd_open_absolute(row->work, O_RDONLY | O_DIRECTORY);
	int rc = area < 0 || !reply ? 0 : postgres_lost(area, ret);

	if (rc > 0)
		return 2;
	if (area < 0 || !reply || rc < 0 || postgres_ask(area, HOLD_STATUS, reply, NULL) < 0)
		return 0;
	describe(ret, reply);
	snprintf(locks->relations, sizeof locks->relations, "%s", reply->exclusive);
	locks->held_ns = reply->open_ns;
	locks->left_ns = reply->idle_limit_ns ? MAX(reply->idle_limit_ns - reply->idle_ns, 0) : -1;
	return 1;
}

const struct strategy_ops strategy_postgres = {
	.name = "transaction_rollback",
	.alias = "transaction",
	.summary = "one transaction of the database's server; commits last, and cannot be taken back",
	.strength = 15,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_DECIDES | STRATEGY_VOTES,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_POSTGRES),
	.workspace = FILES,
	.resolve = pg_resolve,
	.begin = pg_begin,
	.view = pg_view,
	.environment = pg_environment,
	.detail = pg_detail,
	.changes = pg_changes,
	.rows = postgres_rows,
	.base = pg_base,
	.forget = pg_forget,
	.decide_prepare = postgres_decide_prepare,
	.decide_commit = postgres_decide_commit,
	.decide_outcome = postgres_decide_outcome,
	.decide_end = postgres_decide_end,
	.holds = pg_holds,
	.unchanged = postgres_unchanged,
	.vote_room = postgres_vote_room,
	.vote_prepare = postgres_vote_prepare,
	.vote = postgres_vote,
	.vote_name = postgres_vote_name,
	.vote_sweep = postgres_vote_sweep,
	.vote_end = postgres_vote_end,
};
