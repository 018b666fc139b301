/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a branch of the original, with its index, to the new side and back.
 *
 * The branch says which side it is: forward it moves first, backward last. The index and other refs may be on the
 * other one after a crash; whoever ends the op, on whichever side, makes them follow. What is renamed is written and
 * flushed before; the directories are flushed with those of all other steps (part_touched()).
 *
 * A move that was cut off must be told from one that has not begun, or was refused: then the index and the refs hold
 * what the user has put there since. During the commit itself the lock on the index says so, and BEGUN where other refs
 * land too; every other move makes MOVING first.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

#define PART "part"
#define BEGUN "begun"   /* made while preparing: the first move, forward, may have begun */
#define MOVING "moving" /* made before any other move, after all that may refuse it */
#define NEXT "next"     /* the file that is to become the branch, in the git directory */

struct part {
	struct git_repo repo;
	char *branch, *who, *message;
	struct git_id old, new; /* equal: other refs land alone */
	bool is_first;          /* the branch has no commit on the old side; old is git_root_make()'s */
	struct git_moves moves;
};

static void part_release(struct part *p)
{
	git_moves_release(&p->moves);
	git_repo_release(&p->repo);
	free(p->branch);
	free(p->who);
	free(p->message);
}
#define AUTO_PART CLEANUP(part_release) struct part

/* ---- the record ---- */

int git_part_stage_ref(const struct git_repo *repo, const struct git_id *id, const char *name, struct tree_sync *sync)
{
	AUTO_FD fd = -EBADF;
	int rc = git_refs_stage(repo->dir_fd, id, name, &fd);

	if (rc >= 0)
		rc = tree_sync_add_anywhere(sync, fd, "");
	return rc < 0 ? rc : tree_sync_add_anywhere(sync, repo->dir_fd, "");
}

int git_part_save(struct resource *r, int dir_fd, const struct git_work *w, const struct git_landing *l,
		  const struct git_moves *m, struct tree_sync *sync)
{
	AUTO_FREE char *next = git_index_own_name(r, NEXT);
	AUTO_STRBUF text = STRBUF_INIT;
	int rc = next ? git_index_save(dir_fd, l, sync) : -ENOMEM;

	if (rc >= 0)
		rc = git_moves_save(dir_fd, m, sync);
	if (rc >= 0 && m->n)
		rc = git_stage_file(dir_fd, BEGUN, "", 0, sync);
	strbuf_addf(&text, "%s\n%s\n%s\n%s\n%s\n%s", w->state.branch, l->old.hex, l->new.hex, l->who, l->message,
		    git_id_equal(&l->old, &w->state.root) ? "first\n" : "");
	if (rc >= 0)
		rc = text.failed ? -ENOMEM : git_stage_file(dir_fd, PART, text.data, text.size, sync);
	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_part_stage_ref(&w->repo, &l->new, next, sync);
	r->part_at = rc < 0 ? 0 : 1 + PART_OLD;
	return rc;
}

static int parse_part(char *text, struct part *p)
{
	char *lines[6] = { 0 }, *save = NULL;

	lines[0] = strtok_r(text, "\n", &save);
	for (size_t i = 1; i < ARRAY_SIZE(lines) && lines[i - 1]; i++)
		lines[i] = strtok_r(NULL, "\n", &save);
	if (!lines[4] || !git_refs_is_name(lines[0]) || !git_id_parse(lines[1], &p->old) ||
	    !git_id_parse(lines[2], &p->new))
		return -EINVAL;
	p->branch = strdup(lines[0]);
	p->who = strdup(lines[3]);
	p->message = strdup(lines[4]);
	p->is_first = lines[5] && strcmp(lines[5], "first") == 0;
	return p->branch && p->who && p->message ? 0 : -ENOMEM;
}

static int load(struct resource *r, int dir_fd, struct part *ret, struct atoll_error *err)
{
	AUTO_FREE char *text = NULL;
	int rc = fd_read_file(dir_fd, PART, 1 << 20, &text, NULL);

	if (rc >= 0)
		rc = parse_part(text, ret);
	if (rc >= 0)
		rc = git_moves_load(dir_fd, &ret->moves);
	if (rc >= 0 && !ret->moves.n && git_id_equal(&ret->old, &ret->new))
		rc = -EINVAL;
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "the record of the commit of \"%s\" cannot be read",
				 r->row.path);
	return git_repo_reopen(r->row.path, "commit", &ret->repo, err);
}

/* ---- locks ---- */

int git_part_lock(struct resource *r, const struct git_repo *repo, const char *branch, const char *operation,
		  struct atoll_error *err)
{
	const char *const locked[] = { "index", "HEAD", branch };

	for (size_t i = 0; i < ARRAY_SIZE(locked); i++) {
		int rc = git_pin_lock(repo, locked[i], r->uuid);

		if (rc == -EEXIST)
			return error_set(err, ATOLL_BUSY, EEXIST, operation, repo->top,
					 "\"%s/%s.lock\" is there: git is at work in \"%s\", or was ended there",
					 repo->dir, locked[i], repo->top);
		if (rc < 0)
			return error_sys(err, rc, operation, repo->top, "cannot lock \"%s\" of \"%s\"", locked[i],
					 repo->top);
	}
	return 0;
}

int git_part_lock_recorded(struct resource *r, int dir_fd, struct atoll_error *err)
{
	AUTO_PART p = { .repo = { .dir_fd = -EBADF } };
	int rc = load(r, dir_fd, &p, err);

	return rc < 0 ? rc : git_part_lock(r, &p.repo, p.branch, "undo", err);
}

static int drop_locks(struct resource *r, const struct git_repo *repo, const char *branch)
{
	const char *const locked[] = { "packed-refs", branch, "HEAD", "index" };
	int first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(locked); i++) {
		int rc = locked[i] ? git_lock_drop(repo->dir_fd, locked[i], r->uuid) : 0;

		first = first < 0 ? first : rc;
	}
	return first;
}

bool git_part_left(struct resource *r)
{
	AUTO_GIT_STATE s = { 0 };
	AUTO_FD dir = fd_open_beneath(r->root_fd, ".git", O_RDONLY | O_DIRECTORY);
	AUTO_FREE char *making = git_index_own_name(r, "lock");

	if (dir < 0)
		return false;
	/* The first one may not have got its name yet. */
	if (making && faccessat(dir, making, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	if (git_lock_is_held(dir, "index", r->uuid) > 0 || git_lock_is_held(dir, "HEAD", r->uuid) > 0)
		return true;
	return git_state_load(r, &s, NULL) >= 0 && git_lock_is_held(dir, s.branch, r->uuid) > 0;
}

/* ---- the ref ---- */

/* What somebody else has put on top, for the report. */
static void name_foreign(const struct part *p, const struct git_id *now, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	AUTO_FREE char *range = str_format("%s..%s", p->new.hex, now->hex);
	struct git_call call = { .repo = &p->repo, .operation = "undo", .output = &out };
	struct atoll_error ignored = { 0 };
	int rc = range ? git_call(&call, &ignored,
				  (const char *const[]){ "log", "--no-show-signature", "--max-count=3",
							 "--format=%h \"%s\",", range, NULL })
		       : -ATOLL_FAILED;

	for (size_t i = 0; i < out.size; i++)
		if (out.data[i] == '\n')
			out.data[i] = i + 1 == out.size ? 0 : ' ';
	if (rc >= 0 && out.size > 2)
		out.data[out.size - 2] = 0;
	error_set(err, ATOLL_CONFLICT, 0, "undo", p->repo.top,
		  rc >= 0 && out.size ? "has commits on top of it that are not the sandbox's: %s"
				      : "was moved by somebody else, to %s",
		  rc >= 0 && out.size ? strbuf_str(&out) : now->hex);
}

static int read_ref(const struct part *p, struct git_id *ret, struct atoll_error *err)
{
	const struct git_refs refs = { -EBADF, p->repo.dir_fd };
	int rc = git_refs_read(&refs, p->branch, ret);

	if (rc == -ENOENT) {
		*ret = (struct git_id){ "" };
		return 0;
	}
	return rc < 0 ? error_sys(err, rc, "commit", p->repo.top, "cannot read \"%s\" of \"%s\"", p->branch,
				  p->repo.top)
		      : 0;
}

/* Where the branch stays, the first of the others says it. */
static int side_of_moves(const struct part *p, struct atoll_error *err)
{
	int side = git_moves_side(&p->repo, &p->moves.v[0]);

	if (side < 0)
		return error_sys(err, side, "commit", p->repo.top, "cannot read \"%s\" of \"%s\"", p->moves.v[0].name,
				 p->repo.top);
	if (side == PART_FOREIGN)
		error_set(err, ATOLL_CONFLICT, 0, "undo", p->repo.top, "was changed by somebody else: %s",
			  p->moves.v[0].name);
	return side;
}

static int side_of(const struct part *p, struct atoll_error *err)
{
	struct git_id now;
	int rc;

	if (git_id_equal(&p->old, &p->new))
		return side_of_moves(p, err);
	rc = read_ref(p, &now, err);
	if (rc < 0)
		return rc;
	if (git_id_equal(&now, &p->new))
		return PART_NEW;
	if (p->is_first ? !*now.hex : git_id_equal(&now, &p->old))
		return PART_OLD;
	if (*now.hex)
		name_foreign(p, &now, err);
	else
		error_set(err, ATOLL_CONFLICT, 0, "undo", p->repo.top, "was removed by somebody else: %s", p->branch);
	return PART_FOREIGN;
}

int git_part_side(struct resource *r, int dir_fd, struct atoll_error *err)
{
	AUTO_PART p = { .repo = { .dir_fd = -EBADF } };
	int rc = load(r, dir_fd, &p, err);

	return rc < 0 ? rc : side_of(&p, err);
}

/* Going forward for the first time the file is there, and durable. */
static int put_ref(struct resource *r, const struct part *p, bool forward, const struct git_id *to)
{
	AUTO_FREE char *next = git_index_own_name(r, NEXT), *tmp = git_index_own_name(r, "ref");
	AUTO_FD fd = -EBADF, parent = -EBADF;
	int rc = !next || !tmp ? -ENOMEM : forward ? git_refs_put(p->repo.dir_fd, p->branch, next, &parent) : -ENOENT;

	if (rc != -ENOENT)
		return rc;
	rc = git_refs_stage(p->repo.dir_fd, to, tmp, &fd);
	if (rc >= 0)
		rc = sys_fsync(fd);
	return rc < 0 ? rc : git_refs_put(p->repo.dir_fd, p->branch, tmp, &parent);
}

/* Undoes the first commits of a branch. drop_locks() drops the lock if this process is killed. */
static int remove_ref(struct resource *r, const struct part *p)
{
	AUTO_FREE char *tmp = git_index_own_name(r, "ref");
	int rc = tmp ? git_pin_lock(&p->repo, "packed-refs", r->uuid) : -ENOMEM, dropped;

	if (rc < 0)
		return rc;
	rc = git_refs_remove(p->repo.dir_fd, p->branch, tmp);
	dropped = git_lock_drop(p->repo.dir_fd, "packed-refs", r->uuid);
	return rc < 0 ? rc : dropped;
}

static int set_ref(struct resource *r, const struct part *p, bool forward, struct atoll_error *err)
{
	const struct git_id old = p->is_first ? (struct git_id){ "" } : p->old;
	const struct git_id *from = forward ? &old : &p->new, *to = forward ? &p->new : &old;
	const char *message = forward ? p->message : "atoll: undo";
	int rc = *to->hex ? put_ref(r, p, forward, to) : remove_ref(r, p);

	if (rc >= 0)
		rc = git_refs_log(p->repo.dir_fd, p->branch, from, to, p->who, message, !*from->hex);
	if (rc >= 0)
		rc = git_refs_log(p->repo.dir_fd, "HEAD", from, to, p->who, message, !*from->hex);
	return rc < 0 ? error_sys(err, rc, "commit", p->repo.top, "cannot move \"%s\" of \"%s\"", p->branch,
				  p->repo.top)
		      : 0;
}

/* ---- both ---- */

/* The checkout must still be of this branch, and nothing of somebody's in the way. */
static int check_way_back(int dir_fd, const struct part *p, struct atoll_error *err)
{
	AUTO_FREE char *branch = NULL;
	struct git_id id;
	int rc = git_repo_check_calm(&p->repo, "undo", err);

	if (rc >= 0)
		rc = git_repo_branch(&p->repo, "undo", false, &branch, &id, err);
	if (rc < 0)
		return rc;
	if (strcmp(branch, p->branch) != 0)
		return error_set(err, ATOLL_CONFLICT, 0, "undo", p->repo.top,
				 "\"%s\" is on another branch now than the commit was made to: \"%s\"", p->repo.top,
				 p->branch + strlen("refs/heads/"));
	return git_index_check(dir_fd, &p->repo, strlen(p->new.hex), err);
}

static int move_forward(struct resource *r, int dir_fd, const struct part *p, struct atoll_error *err)
{
	int rc = 0;

	if (!git_id_equal(&p->old, &p->new)) {
		rc = set_ref(r, p, true, err);
		if (rc >= 0)
			rc = git_index_set(r, dir_fd, &p->repo, true, err);
	}
	return rc < 0 ? rc : git_moves_do(&p->repo, &p->moves, true, err);
}

static int move_backward(struct resource *r, int dir_fd, const struct part *p, struct atoll_error *err)
{
	int rc = git_moves_do(&p->repo, &p->moves, false, err);

	if (rc < 0 || git_id_equal(&p->old, &p->new))
		return rc;
	rc = git_index_set(r, dir_fd, &p->repo, false, err);
	return rc < 0 ? rc : set_ref(r, p, false, err);
}

static bool is_marked(int dir_fd, const char *mark)
{
	return faccessat(dir_fd, mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether this move brings one to its end, on either side, that was begun before. */
static bool was_cut_off(int dir_fd, bool forward)
{
	return is_marked(dir_fd, MOVING) || (!forward && is_marked(dir_fd, BEGUN));
}

/* The move of the commit itself, in the process that has prepared it under the locks. */
static bool is_first(const struct resource *r, bool forward)
{
	return forward && r->part_at == 1 + PART_OLD;
}

static int mark_move(int dir_fd)
{
	AUTO_FD fd = sys_open(dir_fd, MOVING, O_WRONLY | O_CREAT, 0600);

	return fd < 0 ? fd : sys_fsync(dir_fd);
}

/* stays: the record is kept for an undo. A mark that a power cut brought back would then make an undo that is refused
 * overwrite the user's index and refs. */
static int unmark_move(int dir_fd, bool stays)
{
	bool moving = sys_unlink(dir_fd, MOVING, 0) == 0, begun = sys_unlink(dir_fd, BEGUN, 0) == 0;

	return stays && (moving || begun) ? sys_fsync(dir_fd) : 0;
}

/* What was begun is brought to its end, with what is ours; before anything is begun nobody else's may be in the way. */
static int check_way(int dir_fd, const struct part *p, bool forward, struct atoll_error *err)
{
	int rc = forward || git_id_equal(&p->old, &p->new) ? 0 : check_way_back(dir_fd, p, err);

	if (rc < 0 || was_cut_off(dir_fd, forward))
		return rc;
	rc = forward ? 0 : git_moves_check_unused(&p->repo, &p->moves, err);
	return rc < 0 ? rc : git_moves_check(&p->repo, &p->moves, err);
}

static int move(struct resource *r, int dir_fd, const struct part *p, bool forward, struct atoll_error *err)
{
	int rc = check_way(dir_fd, p, forward, err);
	bool first = is_first(r, forward);

	if (rc < 0)
		return rc;
	sys_fault_mark("git-move");
	r->part_at = 0;
	rc = first ? 0 : mark_move(dir_fd);
	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot write to \"%s\"", r->row.stage);
	rc = forward ? move_forward(r, dir_fd, p, err) : move_backward(r, dir_fd, p, err);
	if (rc >= 0)
		r->part_at = 1 + (forward ? PART_NEW : PART_OLD);
	return rc;
}

int git_part_move(struct resource *r, int dir_fd, bool forward, struct atoll_error *err)
{
	AUTO_PART p = { .repo = { .dir_fd = -EBADF } };
	int rc = load(r, dir_fd, &p, err);

	if (rc >= 0)
		rc = git_part_lock(r, &p.repo, p.branch, forward ? "commit" : "undo", err);
	if (rc >= 0)
		rc = side_of(&p, err);
	if (rc < 0)
		return rc;
	if (rc == PART_FOREIGN)
		return -ATOLL_CONFLICT;
	return rc == (forward ? PART_NEW : PART_OLD) ? 0 : move(r, dir_fd, &p, forward, err);
}

/* Git flushes the refs that it moves, but not their names. */
static int touch_parent(const struct part *p, const char *ref, struct tree_sync *sync)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	int rc = fd_open_parent(p->repo.dir_fd, ref, &parent, &name);

	/* Nothing was renamed there, and git has packed or removed the ref. */
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	return rc < 0 ? rc : tree_sync_add_anywhere(sync, parent, "");
}

int git_part_touched(struct resource *r, int dir_fd, struct tree_sync *sync)
{
	AUTO_PART p = { .repo = { .dir_fd = -EBADF } };
	struct atoll_error ignored = { 0 };
	AUTO_FD packs = -EBADF;
	int rc = load(r, dir_fd, &p, &ignored) < 0 ? -EIO : 0;

	if (rc < 0)
		return rc;
	/* Git flushes a pack, but not its name. What leads elsewhere is not followed. */
	packs = fd_open_beneath(p.repo.dir_fd, "objects/pack", O_RDONLY | O_DIRECTORY);
	if (packs >= 0)
		rc = tree_sync_add_anywhere(sync, packs, "");
	for (size_t i = 0; i < p.moves.n && rc >= 0; i++)
		rc = touch_parent(&p, p.moves.v[i].name, sync);
	if (rc >= 0 && !git_id_equal(&p.old, &p.new))
		rc = touch_parent(&p, p.branch, sync);
	return rc < 0 ? rc : tree_sync_add_anywhere(sync, p.repo.dir_fd, "");
}

/* ---- the end ---- */

static void remove_own(struct resource *r, const struct git_repo *repo)
{
	static const char *const names[] = { "index", "index.lock", "ref", "lock", NEXT };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *name = git_index_own_name(r, names[i]);

		if (name)
			sys_unlink(repo->dir_fd, name, 0);
	}
}

static int end_in(struct resource *r, const struct git_repo *repo, const char *branch, struct atoll_error *err)
{
	int rc;

	remove_own(r, repo);
	rc = drop_locks(r, repo, branch);
	return rc < 0 ? error_sys(err, rc, "commit", repo->top, "cannot unlock \"%s\"", repo->top) : 0;
}

static int end_unrecorded(struct resource *r, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_STATE s = { 0 };
	struct atoll_error ignored = { 0 };
	struct git_id id;
	int rc = git_repo_reopen(r->row.path, "commit", &repo, err);

	if (rc < 0)
		return rc;
	/* Without it the branch is the one that cannot have been left meanwhile, for HEAD was locked. */
	if (git_state_load(r, &s, &ignored) < 0)
		(void)git_refs_head(&(struct git_refs){ -EBADF, repo.dir_fd }, &s.branch, &id);
	if (r->work_fd >= 0)
		sys_unlink(r->work_fd, GIT_NEXT, 0);
	git_pin_unstage(r, &repo);
	return end_in(r, &repo, s.branch, err);
}

static int follow_index(struct resource *r, int dir_fd, const struct part *p, bool forward, struct atoll_error *err)
{
	int rc = git_id_equal(&p->old, &p->new) ? 0 : git_index_is_behind(dir_fd, &p->repo, forward, err);

	if (rc <= 0)
		return rc;
	rc = git_part_lock(r, &p->repo, p->branch, "recover", err);
	if (rc >= 0)
		rc = git_index_set(r, dir_fd, &p->repo, forward, err);
	if (rc < 0)
		return rc;
	rc = sys_fsync(p->repo.dir_fd);
	return rc < 0 ? error_sys(err, rc, "recover", p->repo.top, "cannot write the index of \"%s\"", p->repo.top) : 0;
}

/* While a commit is under way, the commit that is to be the tip is on record; an undo has none. */
static bool is_committing(const struct resource *r)
{
	return r->work_fd >= 0 && faccessat(r->work_fd, GIT_NEXT, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether the index may be on the other side because a move was cut off. The lock was held since before the commit was
 * prepared, so nobody else has changed the index under it; an undo takes it before it looks whether it may move. */
static bool index_was_cut_off(struct resource *r, int dir_fd, const struct part *p)
{
	if (is_marked(dir_fd, MOVING))
		return true;
	return (r->work_fd < 0 || is_committing(r)) && git_lock_is_held(p->repo.dir_fd, "index", r->uuid) > 0;
}

/* The index and the other refs follow the branch. Without a move that was cut off they are the user's. */
static int complete(struct resource *r, int dir_fd, const struct part *p, int side, struct atoll_error *err)
{
	bool known = r->part_at == 1 + side;
	int rc = 0;

	/* Another process has moved the branch: nothing is left to complete. */
	if (side != PART_NEW && side != PART_OLD)
		known = true;
	if (!known && index_was_cut_off(r, dir_fd, p))
		rc = follow_index(r, dir_fd, p, side == PART_NEW, err);
	if (rc >= 0 && !known && (is_marked(dir_fd, MOVING) || is_marked(dir_fd, BEGUN)))
		rc = git_moves_do(&p->repo, &p->moves, side == PART_NEW, err);
	if (rc < 0)
		return rc;
	rc = unmark_move(dir_fd, side != PART_OLD);
	return rc < 0 ? error_sys(err, rc, "recover", r->row.path, "cannot write to \"%s\"", r->row.stage) : 0;
}

/* A commit that failed leaves the workspace as it is; its own files, and those that come back to it, follow the commit otherwise. An undo that
 * failed changes nothing: the workspace may hold newer edits. */
static int end_workspace(struct resource *r, int dir_fd, const struct part *p, int side, struct atoll_error *err)
{
	bool committing = is_committing(r);
	int rc = 0;

	if (side == PART_OLD)
		git_index_refresh(r, dir_fd, &p->repo);
	if (side == PART_OLD && committing) {
		git_stale_drop(dir_fd);
		git_pin_unstage(r, &p->repo);
		sys_unlink(r->work_fd, GIT_NEXT, 0);
		return 0;
	}
	/* What landed is in the workspace again: below it is what the branch went back to. */
	if (side == PART_OLD && r->work_fd >= 0 && !git_id_equal(&p->old, &p->new))
		rc = git_state_set_under(r, &p->old, err);
	if (rc < 0)
		return rc;
	return (side == PART_NEW && committing) || (side == PART_OLD && !committing)
		       ? git_stale_renew(r, dir_fd, &p->repo, err)
		       : 0;
}

int git_part_end(struct resource *r, int dir_fd, struct atoll_error *err)
{
	AUTO_PART p = { .repo = { .dir_fd = -EBADF } };
	struct atoll_error ignored = { 0 };
	int side, rc;

	/* Of a commit that failed: git removes what it has not brought to an end. */
	(void)git_work_finish(r, &ignored);
	if (dir_fd < 0 || load(r, dir_fd, &p, &ignored) < 0)
		return end_unrecorded(r, err);
	side = side_of(&p, &ignored);
	/* The commit failed before it moved the branch, and another process has moved that. */
	if (side == PART_FOREIGN && is_first(r, true)) {
		r->part_at = 0;
		return end_unrecorded(r, err);
	}
	rc = complete(r, dir_fd, &p, side, err);
	if (rc >= 0)
		rc = end_workspace(r, dir_fd, &p, side, err);
	r->part_at = 0;
	return rc < 0 ? rc : end_in(r, &p.repo, p.branch, err);
}
