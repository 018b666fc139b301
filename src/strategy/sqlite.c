/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transaction_rollback for SQLite: a clone of the database is worked on at the original's own path, and its edits land as a part.
 *
 * Row by row where rows can be told by their keys and the schema is the same; else as a whole, if nobody else has written since. The part's
 * directory holds
 *
 *	edits       what leads from the old side to the new one, as a database
 *	old, new    only if it lands as a whole: both sides
 *
 * The clone is somebody else's: it is copied away before it is looked at, and opened as a file that nobody vouches for.
 */
#include "strategy/sqlite-place.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

#define CONFLICTS_TOLD 100

struct sqlite_priv {
	int ended_fd;            /* the part of the op that was ended last, for returned(), which comes next */
	struct sqlite_look look; /* the edits, as they were found last */
	char *state;             /* how the clone looked then; NULL: they were not looked for */
	int kind;                /* an enum sqlite_edits */
	bool by_pages;           /* the clone has few pages that the base has not */
	bool was_alone;          /* nobody else has written to the original from the base's making to the part's move */
	char *seen;              /* how it looked after that; NULL: not known */
};

static void sqlite_release(struct resource *r)
{
	struct sqlite_priv *p = r->priv;

	if (p) {
		fd_close(p->ended_fd);
		sqlite_place_look_end(&p->look);
		free(p->state);
		free(p->seen);
	}
	free(p);
	r->priv = NULL;
}

static struct sqlite_priv *priv_of(struct resource *r, struct atoll_error *err)
{
	struct sqlite_priv *p = r->priv;

	if (p)
		return p;
	p = calloc(1, sizeof *p);
	if (!p) {
		error_oom(err, "database");
		return NULL;
	}
	p->ended_fd = -EBADF;
	r->priv = p;
	return p;
}

static struct sqlite_file file_of(int dirfd, const char *name, const struct resource *r)
{
	return sqlite_place_file(dirfd, name, r->row.path);
}

static struct sqlite_file original_of(const struct resource *r)
{
	return sqlite_place_file(r->root_fd, r->only, r->row.path);
}

/* ---- workspace ---- */

static int begin_one(struct resource *r, const char *name, struct atoll_error *err)
{
	AUTO_PLACE p = { .fd = -EBADF };
	struct sqlite_file original;
	int rc = sqlite_place_open(&p, r, name, err);

	if (rc < 0)
		return rc;
	original = sqlite_place_original(&p);
	rc = sqlite_probe(&original, true, err);
	sqlite_place_drop_looks(&p, NULL);
	if (rc >= 0)
		rc = sqlite_place_clone(&p, err);
	return rc < 0 ? rc : sqlite_place_put(&p, err);
}

/* The workspace of all databases of the directory; of a guest, its place in that of its host. */
static int sqlite_begin(struct resource *r, struct atoll_error *err)
{
	int rc = r->host ? 0 : overlay_begin(r, err);

	if (rc >= 0)
		rc = begin_one(r, r->only, err);
	for (size_t i = 0; i < r->n_siblings && !r->host && rc >= 0; i++)
		rc = begin_one(r, r->siblings[i], err);
	return rc;
}

static int sqlite_can_begin(struct resource *r, struct atoll_error *err)
{
	struct sqlite_file original = original_of(r);

	return sqlite_probe(&original, true, err);
}

/* The base; of a guest the clone too. */
static int sqlite_cost(struct resource *r, struct strategy_cost *ret, struct atoll_error *err)
{
	struct tree_stat st, work;
	bool shares = tree_can_share(r->work_fd, r->work_fd);
	int rc = tree_stat(r->root_fd, r->only, &st);

	if (rc >= 0)
		rc = tree_stat(r->work_fd, "", &work);
	if (rc < 0)
		return error_sys(err, rc, "new", r->row.path, "cannot look at \"%s\"", r->row.path);
	*ret = (struct strategy_cost){ shares ? st.dev != work.dev : r->host ? 2 : 1, st.size };
	ret->bytes *= ret->files;
	return 0;
}

static int ready_one(const struct resource *r, const char *name, struct atoll_error *err)
{
	AUTO_PLACE p = { .fd = -EBADF };
	int rc = sqlite_place_open(&p, r, name, err);

	return rc < 0 ? rc : sqlite_place_ready(&p, err);
}

/* A guest is seen with its host. One view shows all databases of a directory. */
static int sqlite_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	int rc = r->host ? 0 : ready_one(r, r->only, err);

	for (size_t i = 0; i < r->n_siblings && !r->host && rc >= 0; i++)
		rc = ready_one(r, r->siblings[i], err);
	if (rc < 0)
		return rc;
	if (!r->host)
		return overlay_view(r, ret, err);
	*ret = (struct strategy_view){
		.kind = STRATEGY_VIEW_NONE, .lower_fd = -EBADF, .upper_fd = -EBADF, .work_fd = -EBADF
	};
	return 0;
}

static int sqlite_base(struct resource *r, const char *path, struct store_touch *ret, struct atoll_error *err)
{
	return 0;
}

/* ---- what was edited ---- */

/* Writes the edits as "edits" into the look's directory, beside the copy of the clone, "new": an enum sqlite_edits. */
static int find_edits(const struct sqlite_place *p, const struct sqlite_look *s, bool *ret_by_pages,
		      struct atoll_error *err)
{
	const struct resource *r = p->r;
	AUTO_FD seat = sqlite_place_seat(p);
	struct sqlite_file clone = file_of(seat, r->only, r), new = file_of(s->fd, "new", r),
			   base = file_of(p->fd, SQLITE_BASE, r), edits = file_of(s->fd, "edits", r);
	AUTO_FREE char *label = str_format("the copy of %s in the sandbox", r->row.path);
	struct sqlite_find how = { .view = p->label, .is_layered = sqlite_place_is_layered(r) };
	int rc;

	if (r->host && (seat == -ENOENT || seat == -ENOTDIR || seat == -ELOOP))
		return SQLITE_EDITS_GONE;
	if (seat < 0)
		return error_sys(err, seat, "diff", r->row.path, "the workspace of \"%s\" is gone from \"%s\"",
				 r->row.path, r->row.work);
	if (label)
		clone.label = new.label = label;
	rc = sqlite_edits_find(&base, &clone, &new, &edits, &how, err);
	*ret_by_pages = how.by_pages;
	return rc;
}

static void forget_edits(struct sqlite_priv *priv)
{
	sqlite_place_look_end(&priv->look);
	free(priv->state);
	priv->state = NULL;
}

/* The edits, in the directory of the resource's look: found again only if the clone was written to since. An enum sqlite_edits. */
static int look_for_edits(struct sqlite_priv *priv, const struct sqlite_place *p, struct atoll_error *err)
{
	AUTO_FREE char *state = sqlite_place_state(p);
	int rc;

	if (!state)
		return error_oom(err, "diff");
	if (priv->state && strcmp(priv->state, state) == 0)
		return priv->kind;
	forget_edits(priv);
	rc = sqlite_place_look(&priv->look, p, err);
	if (rc >= 0)
		rc = find_edits(p, &priv->look, &priv->by_pages, err);
	if (rc < 0) {
		forget_edits(priv);
		return rc;
	}
	priv->kind = rc;
	priv->state = TAKE_PTR(state);
	return rc;
}

static int add_change(void *arg, enum sqlite_what what, const char *object, const char *note)
{
	static const enum atoll_change_kind kinds[] = {
		[SQLITE_ADDED] = ATOLL_ADDED, [SQLITE_MODIFIED] = ATOLL_MODIFIED, [SQLITE_DELETED] = ATOLL_DELETED
	};

	return changes_add_part(arg, object, kinds[what], note) ? 0 : -ATOLL_FAILED;
}

static int list_edits(struct resource *r, const struct sqlite_place *p, struct changes *c, struct atoll_error *err)
{
	struct sqlite_priv *priv = priv_of(r, err);
	struct sqlite_file edits;
	int kind = priv ? look_for_edits(priv, p, err) : -ATOLL_FAILED;

	if (kind < 0)
		return kind;
	if (kind == SQLITE_EDITS_GONE)
		return changes_add_part(c, r->only, ATOLL_DELETED, "the database was removed; that does not land")
			       ? 0
			       : error_oom(err, "diff");
	edits = file_of(priv->look.fd, "edits", r);
	return kind == SQLITE_EDITS_NONE ? 0 : sqlite_edits_summary(&edits, add_change, c, err);
}

static struct changes *sqlite_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	CLEANUP(cleanup_changes) struct changes *c = changes_new();
	AUTO_PLACE p = { .fd = -EBADF };

	if (!c) {
		error_oom(err, "diff");
		return NULL;
	}
	if (sqlite_place_open(&p, r, r->only, err) < 0)
		return NULL;
	if (!sqlite_place_is_untouched(&p) && list_edits(r, &p, c, err) < 0)
		return NULL;
	return TAKE_PTR(c);
}

static int sqlite_rows(struct resource *r, const char *label, atoll_row_fn fn, void *arg, struct atoll_error *err)
{
	static const char table[] = "table ";
	struct sqlite_priv *priv = priv_of(r, err);
	AUTO_PLACE p = { .fd = -EBADF };
	struct sqlite_file edits;
	int rc = priv ? 0 : -ATOLL_FAILED;

	if (rc < 0 || strncmp(label, table, strlen(table)) != 0)
		return rc;
	rc = sqlite_place_open(&p, r, r->only, err);
	if (rc >= 0)
		rc = look_for_edits(priv, &p, err);
	if (rc < 0 || rc == SQLITE_EDITS_GONE)
		return MIN(rc, 0);
	edits = file_of(priv->look.fd, "edits", r);
	return sqlite_edits_rows(&edits, label + strlen(table), fn, arg, err);
}

/* ---- the part ---- */

struct teller {
	const struct part_request *q;
	size_t n;
};

static int tell_conflict(void *arg, const char *object, const char *why)
{
	struct teller *t = arg;

	if (++t->n > CONFLICTS_TOLD)
		return 1;
	return t->q->tell(t->q->tell_arg, ATOLL_ITEM_CONFLICT, object, why);
}

/* Both sides as images: of the original, which must be what the edits were made on, and of the clone. */
static int prepare_whole(const struct sqlite_place *p, const struct sqlite_look *s, int dir_fd,
			 const struct sqlite_tell *tell, struct atoll_error *err)
{
	const struct resource *r = p->r;
	struct sqlite_file original = original_of(r), base = file_of(p->fd, SQLITE_BASE, r),
			   old = file_of(dir_fd, "old", r), new = file_of(s->fd, "new", r);
	int rc = sqlite_clone(&original, &old, err);

	if (rc >= 0)
		rc = sqlite_adapt(&old, &original, err);
	if (rc >= 0)
		rc = sqlite_same(&old, &base, tell, err);
	if (rc == 0)
		return error_set(
			err, ATOLL_CONFLICT, 0, "commit", r->row.path,
			"the database \"%s\" was changed by somebody else, and these edits land only as a whole",
			r->row.path);
	if (rc >= 0)
		rc = sqlite_adapt(&new, &original, err);
	if (rc < 0 || dir_fd == s->fd)
		return rc;
	rc = sqlite_place_carry(s->fd, "new", dir_fd, "new");
	return rc < 0 ? error_sys(err, rc, "commit", r->row.path, "cannot stage the changes of \"%s\"", r->row.path)
		      : 0;
}

/* Why rows alone do not do it is worth knowing: others must not have written meanwhile. */
static int tell_reason(const struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	struct sqlite_file edits = file_of(dir_fd, "edits", r);
	AUTO_FREE char *reason = NULL;
	AUTO_FREE char *note = NULL;
	int rc = sqlite_edits_reason(&edits, &reason, err);

	if (rc < 0 || !reason)
		return rc;
	note = str_format("lands as a whole: %s", reason);
	return note && q->tell(q->tell_arg, ATOLL_ITEM_NOTE, r->only, note) >= 0 ? 0 : error_oom(err, "commit");
}

/* Who asked for foreign changes to be overwritten learns that rows are not. */
static int tell_kept(const struct resource *r, const struct part_request *q)
{
	return q->ours ? q->tell(q->tell_arg, ATOLL_ITEM_CONFLICT, r->only,
				 "rows of a database are never overwritten; change them back in the original, or discard the edits")
		       : 0;
}

/* Into the op's directory; what was looked at is then looked at anew. */
static int stage_edits(const struct resource *r, struct sqlite_priv *priv, int dir_fd, struct atoll_error *err)
{
	int rc = dir_fd == priv->look.fd ? 0 : sqlite_place_carry(priv->look.fd, "edits", dir_fd, "edits");

	return rc < 0 ? error_sys(err, rc, "commit", r->row.path, "cannot stage the changes of \"%s\"", r->row.path)
		      : 0;
}

static int prepare_in(const struct sqlite_place *p, struct sqlite_priv *priv, int dir_fd, const struct part_request *q,
		      struct atoll_error *err)
{
	const struct resource *r = p->r;
	struct sqlite_file original = original_of(r), edits = file_of(dir_fd, "edits", r);
	struct teller teller = { .q = q };
	struct sqlite_tell tell = { tell_conflict, &teller };
	int rc = stage_edits(r, priv, dir_fd, err);

	if (rc < 0)
		return rc;
	if (priv->kind == SQLITE_EDITS_ROWS) {
		rc = sqlite_edits_check(&original, &edits, true, &tell, err);
	} else {
		rc = prepare_whole(p, &priv->look, dir_fd, &tell, err);
		if (rc >= 0)
			rc = tell_reason(r, dir_fd, q, err);
	}
	if (rc == -ATOLL_CONFLICT && tell_kept(r, q) < 0)
		return error_oom(err, "commit");
	return rc < 0 ? rc : 1;
}

static int prepare(const struct sqlite_place *p, struct sqlite_priv *priv, int dir_fd, const struct part_request *q,
		   struct atoll_error *err)
{
	const struct resource *r = p->r;
	struct sqlite_file original = original_of(r);
	int rc = sqlite_probe(&original, true, err);

	if (rc >= 0)
		rc = look_for_edits(priv, p, err);
	if (rc == SQLITE_EDITS_GONE)
		return error_set(err, ATOLL_REFUSED, 0, "commit", r->row.path,
				 "the database \"%s\" was removed in the sandbox: that does not land", r->row.path);
	if (rc <= 0)
		return rc;
	rc = prepare_in(p, priv, q->dry ? priv->look.fd : dir_fd, q, err);
	forget_edits(priv);
	return rc;
}

static int sqlite_part_prepare(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	struct sqlite_priv *priv = priv_of(r, err);
	AUTO_PLACE p = { .fd = -EBADF };
	int rc = priv ? sqlite_place_open(&p, r, r->only, err) : -ATOLL_FAILED;

	if (rc < 0)
		return rc;
	sqlite_place_drop_looks(&p, priv->state ? priv->look.name : NULL);
	rc = prepare(&p, priv, dir_fd, q, err);
	if (rc > 0 && !q->dry && sys_fsync(dir_fd) < 0)
		rc = error_sys(err, EIO, "commit", r->row.path, "cannot make the changes of \"%s\" durable",
			       r->row.path);
	return rc;
}

static bool is_whole(int dir_fd)
{
	return faccessat(dir_fd, "new", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int keep_first(void *arg, const char *object, const char *why)
{
	strbuf_addf(arg, "%s: %s", object, why);
	return 1;
}

/* Says which row it is about. Called if it stands on neither side. */
static int tell_foreign(struct resource *r, int dir_fd, struct atoll_error *err)
{
	struct sqlite_file original = original_of(r), edits = file_of(dir_fd, "edits", r);
	AUTO_STRBUF first = STRBUF_INIT;
	struct sqlite_tell tell = { keep_first, &first };
	struct atoll_error ignored = { 0 };

	if (!is_whole(dir_fd))
		(void)sqlite_edits_check(&original, &edits, false, &tell, &ignored);
	if (first.size)
		(void)error_set(err, ATOLL_CONFLICT, 0, "undo", r->row.path, "%s", strbuf_str(&first));
	return PART_FOREIGN;
}

static int sqlite_part_side(struct resource *r, int dir_fd, struct atoll_error *err)
{
	static const int sides[] = {
		[SQLITE_OLD] = PART_OLD, [SQLITE_NEW] = PART_NEW, [SQLITE_NEITHER] = PART_FOREIGN
	};
	struct sqlite_file original = original_of(r), old = file_of(dir_fd, "old", r), new = file_of(dir_fd, "new", r),
			   edits = file_of(dir_fd, "edits", r);
	int side = is_whole(dir_fd) ? sqlite_image_side(&original, &old, &new, err)
				    : sqlite_edits_side(&original, &edits, err);

	if (side == SQLITE_NEITHER)
		return tell_foreign(r, dir_fd, err);
	return side < 0 ? side : sides[side];
}

static int move_rows(struct resource *r, struct sqlite_priv *priv, int dir_fd, bool forward, struct atoll_error *err)
{
	struct sqlite_file original = original_of(r), edits = file_of(dir_fd, "edits", r);
	AUTO_PLACE p = { .fd = -EBADF };
	AUTO_FREE char *seen = NULL;
	struct sqlite_alone alone = { 0 };
	int rc = sqlite_place_open(&p, r, r->only, err);

	if (rc < 0)
		return rc;
	alone.stamp_fd = sqlite_place_stamp_fd(&p);
	alone.seen = seen = sqlite_place_seen(&p);
	rc = sqlite_edits_move_alone(&original, &edits, forward, &alone, err);
	priv->was_alone = rc >= 0 && alone.was;
	free(priv->seen);
	priv->seen = alone.now;
	return rc;
}

static int sqlite_part_move(struct resource *r, int dir_fd, bool forward, struct atoll_error *err)
{
	struct sqlite_file original = original_of(r), old = file_of(dir_fd, "old", r), new = file_of(dir_fd, "new", r);
	struct sqlite_priv *priv = priv_of(r, err);

	if (!priv)
		return -ATOLL_FAILED;
	priv->was_alone = false;
	if (is_whole(dir_fd))
		return sqlite_image_move(&original, forward ? &old : &new, forward ? &new : &old, NULL, err);
	return move_rows(r, priv, dir_fd, forward, err);
}

static int sqlite_part_end(struct resource *r, int dir_fd, struct atoll_error *err)
{
	struct sqlite_priv *p = priv_of(r, err);

	if (!p)
		return -ATOLL_FAILED;
	fd_close(p->ended_fd);
	p->ended_fd = dir_fd < 0 ? -EBADF : fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	return 0;
}

/* ---- afterwards ---- */

static const struct store_step *find_part(const struct resource *r, const struct store_step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (steps[i].resource == r->row.id && steps[i].kind == STORE_STEP_PART && !steps[i].dropped)
			return &steps[i];
	return NULL;
}

/* Where nobody else wrote, the base is then what the original is. */
static int move_base(const struct sqlite_place *p, bool forward, struct atoll_error *err)
{
	const struct sqlite_priv *priv = p->r->priv;
	int rc;

	if (!priv || priv->ended_fd < 0)
		return error_set(err, ATOLL_FAILED, 0, "commit", p->r->row.path, "the undo data of \"%s\" is gone",
				 p->r->row.path);
	rc = sqlite_place_move_base(p, priv->ended_fd, forward, err);
	if (rc >= 0 && priv->was_alone && sqlite_place_note_seen(p, priv->seen) < 0)
		return error_sys(err, EIO, "commit", p->r->row.path, "cannot note how \"%s\" looks", p->r->row.path);
	return rc;
}

/* Base and clone would differ from a fresh copy of the original in nothing. */
static bool can_go_on(const struct resource *r)
{
	const struct sqlite_priv *priv = r->priv;

	return priv && priv->was_alone && priv->by_pages && priv->ended_fd >= 0 && !is_whole(priv->ended_fd);
}

/* What has landed has landed, also if somebody locks or removes the original right after it: then the clone stays, without what others
 * did. */
static int sqlite_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	struct atoll_error ignored = { 0 };
	AUTO_PLACE p = { .fd = -EBADF };
	int rc;

	if (!find_part(r, steps, n))
		return 0;
	rc = sqlite_place_open(&p, r, r->only, err);
	if (rc < 0)
		return rc;
	if (can_go_on(r)) {
		rc = move_base(&p, true, err);
		if (rc >= 0)
			(void)sqlite_place_note_untouched(&p);
		return rc;
	}
	if (sqlite_place_clone(&p, &ignored) < 0)
		return move_base(&p, true, err);
	return sqlite_place_put(&p, err);
}

static void sqlite_moved(struct resource *r)
{
	AUTO_PLACE p = { .fd = -EBADF };
	struct atoll_error ignored = { 0 };

	if (sqlite_place_open(&p, r, r->only, &ignored) >= 0)
		(void)sqlite_place_note_untouched(&p);
}

/* The part's directory is removed afterwards, perhaps only a piece of it the first time: without its edits this was done already. */
static int sqlite_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	const struct sqlite_priv *p = r->priv;
	AUTO_PLACE place = { .fd = -EBADF };
	int rc;

	if (!find_part(r, steps, n) || !p || p->ended_fd < 0 ||
	    faccessat(p->ended_fd, "edits", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	rc = sqlite_place_open(&place, r, r->only, err);
	if (rc >= 0)
		rc = move_base(&place, false, err);
	if (rc < 0)
		return rc;
	rc = sys_rename(p->ended_fd, "edits", p->ended_fd, "edits.returned", 0);
	if (rc >= 0)
		rc = sys_fsync(p->ended_fd);
	return rc < 0 ? error_sys(err, rc, "undo", r->row.path, "cannot note that the edits of \"%s\" are back",
				  r->row.path)
		      : 0;
}

const struct strategy_ops strategy_sqlite = {
	.name = "transaction_rollback",
	.alias = "transaction",
	.summary = "a clone of the database; its rows land in one transaction, checked for conflicts",
	.strength = 20,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER | STRATEGY_OVERLAY |
			STRATEGY_PART | STRATEGY_GUEST,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_SQLITE),
	.workspace = OVERLAY_UPPER,
	.companions = sqlite_place_beside,
	.begin = sqlite_begin,
	.can_begin = sqlite_can_begin,
	.cost = sqlite_cost,
	.view = sqlite_view,
	.changes = sqlite_changes,
	.rows = sqlite_rows,
	.base = sqlite_base,
	.landed = sqlite_landed,
	.returned = sqlite_returned,
	.moved = sqlite_moved,
	.release = sqlite_release,
	.part_prepare = sqlite_part_prepare,
	.part_side = sqlite_part_side,
	.part_move = sqlite_part_move,
	.part_end = sqlite_part_end,
};
