/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that holds a transaction is asked for: how it stands, and its end. */
#include "hold/keeper.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"

#define PATIENCE_MS 2000 /* with a client that is inside a statement */
#define MOMENT_MS 500
#define STEP_MS 20

/* ---- files of the area ---- */

int keeper_note(int area, const char *name, const char *text)
{
	AUTO_FD fd = sys_open(area, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? fd : sys_write(fd, text, strlen(text));

	return r < 0 ? r : sys_fsync(fd);
}

void keeper_lose(struct keeper *h, const char *why)
{
	h->lost = true;
	(void)keeper_note(h->area, HOLD_LOST, why);
}

/* ---- how it stands ---- */

static void list_locks(const struct pg_inspection *found, struct hold_reply *ret)
{
	size_t at = 0;

	for (size_t i = 0; i < found->n_locks && at < sizeof ret->locks; i++) {
		int n = snprintf(ret->locks + at, sizeof ret->locks - at, "%s%s (%s)", i ? ", " : "",
				 found->locks[i].relation, found->locks[i].mode);

		at += n < 0 ? 0 : (size_t)n;
	}
}

void keeper_list_exclusive(const struct pg_inspection *found, char *out, size_t size)
{
	size_t at = 0;

	*out = 0;
	for (size_t i = 0; i < found->n_locks && at < size; i++) {
		int n = found->locks[i].exclusive ? snprintf(out + at, size - at, "%s%s (%s)", at ? "\n" : "",
							     found->locks[i].relation, found->locks[i].mode)
						  : 0;

		at += n < 0 ? 0 : (size_t)n;
	}
}

static void add_table(const struct pg_table *t, void *arg)
{
	struct hold_reply *ret = arg;
	struct hold_table *to = &ret->tables[ret->n_tables];

	if (ret->n_tables == HOLD_TABLES_MAX) {
		ret->more = 1;
		return;
	}
	snprintf(to->name, sizeof to->name, "%s", t->name);
	to->inserted = t->inserted;
	to->updated = t->updated;
	to->deleted = t->deleted;
	ret->n_tables++;
}

/* A client that has just been answered may still have something under way: it is given a moment. */
static int inspect(struct keeper *h, struct pg_inspection *ret, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + MOMENT_MS * 1000000LL;
	struct atoll_error busy = { 0 };
	int r;

	while ((r = pg_proxy_inspect(h->proxy, ret, &busy)) == -ATOLL_BUSY && clock_monotonic_ns() < end)
		(void)pg_proxy_step(h->proxy, STEP_MS);
	if (r < 0)
		*err = busy;
	return r;
}

static int tell_changes(struct keeper *h, struct hold_reply *ret, struct atoll_error *err)
{
	bool defined = false;
	int r = pg_proxy_tables(h->proxy, add_table, ret, err);

	if (r >= 0)
		r = pg_proxy_definitions(h->proxy, &defined, err);
	ret->defined = defined;
	return r;
}

static int tell_status(struct keeper *h, struct hold_reply *ret, struct atoll_error *err)
{
	struct pg_inspection found = { 0 };
	struct pg_status status;
	int r;

	pg_proxy_status(h->proxy, &status);
	ret->ended = status.state == PG_ENDED || status.state == PG_LOST;
	ret->clients = (uint32_t)status.clients;
	ret->open_ns = status.open_ns;
	ret->notified = status.notified;
	ret->limit_ns = h->limit_ms * 1000000;
	ret->idle_limit_ns = h->idle_limit_ms * 1000000;
	ret->idle_ns = status.idle_ns;
	if (ret->ended)
		return 0;
	r = inspect(h, &found, err);
	if (r < 0)
		return r;
	ret->xid = found.xid;
	list_locks(&found, ret);
	keeper_list_exclusive(&found, ret->exclusive, sizeof ret->exclusive);
	pg_inspection_release(&found);
	return ret->xid ? tell_changes(h, ret, err) : 0;
}

/* ---- the end ---- */

static int tell_room(struct keeper *h, struct hold_reply *ret, struct atoll_error *err)
{
	struct pg_room found;
	int r = pg_proxy_room(h->proxy, &found, err);

	for (int i = 0; r == -ATOLL_BUSY && i < MOMENT_MS / STEP_MS; i++) {
		(void)pg_proxy_step(h->proxy, STEP_MS);
		r = pg_proxy_room(h->proxy, &found, err);
	}
	if (r < 0)
		return r;
	ret->room = found.room;
	snprintf(ret->place, sizeof ret->place, "%s", found.place);
	snprintf(ret->why, sizeof ret->why, "%s", found.why);
	return 0;
}

/* What the server would refuse to prepare takes the whole transaction along, so it is looked for beforehand. */
static int check_vote(struct keeper *h, struct atoll_error *err)
{
	struct pg_room found;
	int r = pg_proxy_room(h->proxy, &found, err);

	if (r < 0 || found.room)
		return r;
	return error_set(err, ATOLL_REFUSED, 0, "commit", NULL, "the transaction cannot be prepared: %s", found.why);
}

static int check(struct keeper *h, bool votes, struct atoll_error *err)
{
	int r = pg_proxy_hold(h->proxy, PATIENCE_MS, false, err);

	if (r >= 0)
		r = pg_proxy_check(h->proxy, err);
	return r < 0 || !votes ? r : check_vote(h, err);
}

/* The marker of a commit that came to nothing must not land with the next one. */
static int unmark(struct keeper *h, struct atoll_error *err)
{
	int r = h->marked ? pg_proxy_unmark(h->proxy, &h->marker, err) : 0;

	h->marked = h->marked && r < 0;
	return r;
}

static int resume(struct keeper *h, struct atoll_error *err)
{
	int r = unmark(h, err);

	pg_proxy_resume(h->proxy);
	return r;
}

static int mark(struct keeper *h, const char *token, struct atoll_error *err)
{
	char uuid[37];
	int r = unmark(h, err);

	random_uuid(uuid);
	if (r >= 0)
		r = pg_proxy_mark(h->proxy, uuid, &h->marker, err);
	h->marked |= r >= 0;
	return r < 0 ? r : marker_write(h->area, token, &h->marker, err);
}

static int prepare(struct keeper *h, const struct hold_request *q, struct atoll_error *err)
{
	struct atoll_error ignored;
	int r = check(h, q->votes, err);

	if (r >= 0)
		r = mark(h, q->token, err);
	if (r < 0)
		(void)resume(h, &ignored);
	return r;
}

static int commit(struct keeper *h, struct atoll_error *err)
{
	int r = pg_proxy_commit(h->proxy, err);

	if (r == -ATOLL_REFUSED)
		keeper_lose(h, err->message);
	return r;
}

/* Without changes there is nothing that could be lost. A client that is inside a transaction goes on, and so does the transaction. */
static int finish(struct keeper *h)
{
	struct pg_inspection found = { 0 };
	struct atoll_error ignored;
	bool empty;

	if (pg_proxy_hold(h->proxy, PATIENCE_MS, false, &ignored) < 0)
		return 0;
	empty = pg_proxy_inspect(h->proxy, &found, &ignored) >= 0 && found.xid == 0;
	pg_inspection_release(&found);
	if (!empty) {
		pg_proxy_resume(h->proxy);
		return 0;
	}
	(void)pg_proxy_commit(h->proxy, &ignored);
	keeper_end(h);
	return 0;
}

static int vote(struct keeper *h, const char *gid, struct atoll_error *err)
{
	int r = pg_proxy_prepare(h->proxy, gid, err);

	if (r == -ATOLL_REFUSED)
		keeper_lose(h, err->message);
	return r;
}

void keeper_end(struct keeper *h)
{
	h->proxy = pg_proxy_free(h->proxy);
	h->over = true;
	/* Where the edits are lost it stays: that says so even if the reason could not be written down. */
	if (!h->lost)
		(void)sys_unlink(h->area, HOLD_OPEN, 0);
	(void)sys_unlink(h->area, HOLD_CONTROL, 0);
}

int keeper_answer(struct keeper *h, const struct hold_request *q, struct hold_reply *ret, struct atoll_error *err)
{
	int r;

	switch (q->what) {
	case HOLD_STATUS:
		return tell_status(h, ret, err);
	case HOLD_ROOM:
		return tell_room(h, ret, err);
	case HOLD_CHECK:
		r = check(h, q->votes, err);
		pg_proxy_resume(h->proxy);
		return r;
	case HOLD_PREPARE:
		return prepare(h, q, err);
	case HOLD_COMMIT:
		return commit(h, err);
	case HOLD_VOTE:
		return vote(h, q->gid, err);
	case HOLD_RESUME:
		return resume(h, err);
	case HOLD_FINISH:
		return finish(h);
	case HOLD_END:
		keeper_end(h);
		return 0;
	default:
		return error_set(err, ATOLL_INVALID, 0, "database", NULL, "unknown request");
	}
}
