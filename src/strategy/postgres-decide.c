/* SPDX-License-Identifier: Apache-2.0 */
/* How a PostgreSQL database takes part in a commit: as the one that decides, or, where there are several, by a vote. */
#include "strategy/postgres.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

/* ---- the decision ---- */

static int request(struct resource *r, const struct hold_request *q, struct atoll_error *err)
{
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);

	return reply ? postgres_request(r->work_fd, q, reply, err) : error_oom(err, "commit");
}

static int refuse_if_lost(struct resource *r, struct atoll_error *err)
{
	AUTO_STRBUF why = STRBUF_INIT;
	int rc = postgres_lost(r->work_fd, &why);

	return rc > 0 ? postgres_refuse_lost(r, "commit", strbuf_str(&why), err) : 0;
}

static int prepare(struct resource *r, const char *token, bool votes, struct atoll_error *err)
{
	struct hold_request q = { .what = token ? HOLD_PREPARE : HOLD_CHECK, .votes = votes };
	int rc = refuse_if_lost(r, err);

	snprintf(q.token, sizeof q.token, "%s", token ? token : "");
	return rc < 0 ? rc : request(r, &q, err);
}

int postgres_decide_prepare(struct resource *r, const char *token, struct atoll_error *err)
{
	return prepare(r, token, false, err);
}

/* "committed" or "rolled back", by the marker in the op's directory. */
static int ask_server(struct resource *r, const char *token, struct atoll_error *err)
{
	const char *const arguments[] = { "outcome", r->row.work, token, NULL };
	AUTO_STRBUF answer = STRBUF_INIT;
	int rc = postgres_run(arguments, NULL, &answer, err);

	if (rc < 0)
		return error_set(
			err, ATOLL_IN_DOUBT, 0, "recover", r->row.path,
			"how the commit of \"%s\" ended cannot be told now (%s); it is asked again by the next command, or atoll recover",
			r->row.path, err->message);
	return strcmp(strbuf_str(&answer), "committed") == 0;
}

int postgres_decide_commit(struct resource *r, const char *token, struct atoll_error *err)
{
	struct atoll_error why = { 0 };
	int rc = request(r, &(struct hold_request){ .what = HOLD_COMMIT }, &why);

	if (rc == 0 || rc == -ATOLL_REFUSED) {
		if (rc < 0 && err)
			*err = why;
		return rc;
	}
	/* The keeper was killed, or lost the server, perhaps in between: only the server knows. */
	rc = ask_server(r, token, err);
	if (rc > 0)
		return 0;
	return rc < 0 ? rc
		      : error_set(err, ATOLL_FAILED, 0, "commit", r->row.path, "\"%s\" was not committed: %s",
				  r->row.path, why.message);
}

/* Who holds the transaction still has not ended it, and nobody will ask him to while this sandbox is locked. */
static bool is_held(struct resource *r)
{
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	struct atoll_error ignored;

	return reply && postgres_ask(r->work_fd, HOLD_STATUS, reply, &ignored) == 0 && !reply->ended;
}

int postgres_decide_outcome(struct resource *r, const char *token, struct atoll_error *err)
{
	return is_held(r) ? 0 : ask_server(r, token, err);
}

int postgres_decide_end(struct resource *r, const char *token, bool committed, struct atoll_error *err)
{
	struct atoll_error ignored;
	int rc;

	/* Where nobody holds it any more, or the server is gone, there is nothing to go on with. */
	if (!committed) {
		(void)postgres_ask_if_there(r->work_fd, HOLD_RESUME, NULL, &ignored);
		return 0;
	}
	rc = postgres_forget_edits(r->work_fd, err);
	if (rc >= 0)
		postgres_sweep_markers(r->work_fd, r->row.work);
	return rc;
}

void postgres_unchanged(struct resource *r)
{
	struct atoll_error ignored;

	(void)postgres_ask_if_there(r->work_fd, HOLD_FINISH, NULL, &ignored);
}

/* ---- the vote: it is prepared on the server ---- */

/* Its name there: the sandbox's and the op's, both of which are random, and which resource it is. Whoever has the journal knows it. */
static void name_vote(const struct resource *r, const char *token, char gid[HOLD_GID_SIZE])
{
	snprintf(gid, HOLD_GID_SIZE, "atoll-%s-%d-%s", r->uuid, r->row.seq, token);
}

int postgres_vote_room(struct resource *r, struct strategy_room *ret, struct atoll_error *err)
{
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	int rc = refuse_if_lost(r, err);

	if (rc >= 0)
		rc = reply ? postgres_ask(r->work_fd, HOLD_ROOM, reply, err) : error_oom(err, "commit");
	if (rc < 0)
		return rc;
	*ret = (struct strategy_room){ .room = reply->room };
	snprintf(ret->place, sizeof ret->place, "postgresql %.50s", reply->place);
	snprintf(ret->why, sizeof ret->why, "%s", reply->why);
	return 0;
}

int postgres_vote_prepare(struct resource *r, const char *token, struct atoll_error *err)
{
	return prepare(r, token, true, err);
}

int postgres_vote(struct resource *r, const char *token, struct atoll_error *err)
{
	struct hold_request q = { .what = HOLD_VOTE };

	name_vote(r, token, q.gid);
	return request(r, &q, err);
}

void postgres_vote_name(const struct resource *r, const char *token, struct strbuf *ret)
{
	char gid[HOLD_GID_SIZE];

	name_vote(r, token, gid);
	strbuf_addf(ret, "\"%s\" (pg_prepared_xacts)", gid);
}

/* Where it was prepared nobody has its edits any more. What the server said when it refused is the better reason. */
static int note_lost(struct resource *r, struct atoll_error *err)
{
	static const char why[] = "it was prepared for a commit that did not land";
	AUTO_FD fd = sys_open(r->work_fd, HOLD_LOST, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int rc = fd == -EEXIST ? 0 : fd < 0 ? fd : sys_write(fd, why, sizeof why - 1);

	if (rc >= 0 && fd >= 0)
		rc = sys_fsync(fd);
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot note that the edits of \"%s\" are lost",
				 r->row.path);
	rc = postgres_ask_if_there(r->work_fd, HOLD_END, NULL, err);
	return rc < 0 ? rc : 1;
}

static int otherwise(const struct resource *r, const char *gid, bool committed, struct atoll_error *err)
{
	return error_set(err, ATOLL_CONFLICT, 0, "commit", r->row.path,
			 "somebody else has %s the prepared transaction \"%s\" of \"%s\"",
			 committed ? "rolled back" : "committed", gid, r->row.path);
}

int postgres_vote_end(struct resource *r, const char *token, bool committed, struct atoll_error *err)
{
	char gid[HOLD_GID_SIZE];
	const char *const arguments[] = {
		"end-vote", r->row.work, token, gid, committed ? "commit" : "rollback", NULL
	};
	AUTO_STRBUF answer = STRBUF_INIT;
	int rc;

	name_vote(r, token, gid);
	if (!committed && is_held(r))
		return 0;
	rc = postgres_run(arguments, NULL, &answer, err);
	if (rc < 0)
		return error_set(err, ATOLL_IN_DOUBT, err->sys_errno, "commit", r->row.path,
				 "%s; if it is prepared there, as \"%s\", it is to be %s", err->message, gid,
				 committed ? "committed" : "rolled back");
	if (strcmp(strbuf_str(&answer), "done") != 0)
		return otherwise(r, gid, committed, err);
	return committed ? 0 : note_lost(r, err);
}

static int sweep_one(struct resource *r, const char *gid, bool committed, struct atoll_error *err)
{
	const char *const arguments[] = { "end-waiting", r->row.work, gid, committed ? "commit" : "rollback", NULL };

	return postgres_run(arguments, NULL, NULL, err);
}

int postgres_vote_sweep(struct resource *r, int (*over)(void *arg, const char *token), void *arg,
			struct atoll_error *err)
{
	char prefix[HOLD_GID_SIZE];
	const char *const arguments[] = { "waiting", r->row.work, prefix, NULL };
	AUTO_STRBUF answer = STRBUF_INIT;
	AUTO_FREE char *gids = NULL;
	char *save = NULL;
	int rc;

	name_vote(r, "", prefix);
	rc = postgres_run(arguments, NULL, &answer, err);
	gids = rc < 0 ? NULL : strbuf_take(&answer);
	for (char *gid = gids ? strtok_r(gids, "\n", &save) : NULL; gid && rc >= 0; gid = strtok_r(NULL, "\n", &save)) {
		int ended = strncmp(gid, prefix, strlen(prefix)) == 0 ? over(arg, gid + strlen(prefix)) : -1;

		if (ended >= 0)
			rc = sweep_one(r, gid, ended, err);
	}
	return rc;
}
