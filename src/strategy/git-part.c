/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing what lands in a repository. From here until the end the original's index, HEAD and branch are locked, by git's own lock files.
 * Everything that could be in the way is looked for now: somebody's uncommitted work, a branch that moved on, an operation in progress.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

/* ---- preparing ---- */

static int check_branch(struct resource *r, const struct git_repo *repo, const struct git_state *s,
			struct atoll_error *err)
{
	AUTO_FREE char *branch = NULL;
	struct git_id id;
	int rc = git_repo_check_calm(repo, "commit", err);

	if (rc >= 0)
		rc = git_repo_branch(repo, "commit", *s->root.hex, &branch, &id, err);
	if (rc < 0)
		return rc;
	if (strcmp(branch, s->branch) != 0)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", r->row.path,
			"\"%s\" was on \"%s\" when the sandbox began, and is on \"%s\" now; check the first one out",
			r->row.path, s->branch + strlen("refs/heads/"), branch + strlen("refs/heads/"));
	return 0;
}

static int drop_stray(const struct tree_entry *e, void *arg)
{
	const struct git_work *kept = arg;

	if (strncmp(e->name, GIT_QUARANTINE, strlen(GIT_QUARANTINE)) == 0 &&
	    !(kept && strcmp(e->name, kept->name) == 0))
		(void)tree_remove(e->dirfd, e->name);
	return TREE_WALK_SKIP;
}

static int begin_part(struct resource *r, bool dry, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_STATE s = { 0 };
	int rc = git_repo_reopen(r->row.path, "commit", &repo, err);

	if (rc >= 0)
		rc = git_state_load(r, &s, err);
	/* Nobody else is at work in the area: what is there is left from somebody who was killed. */
	if (rc >= 0 && !dry)
		(void)tree_walk(r->work_fd, TREE_WALK_NO_ROOT, drop_stray, r->kept, NULL);
	if (rc >= 0 && !dry)
		rc = git_part_lock(r, &repo, s.branch, "commit", err);
	/* If it has moved on, and cannot be merged here, it can be inside. */
	if (rc >= 0 && !dry)
		rc = git_settle_branch(r, &repo, "commit", err);
	return rc < 0 ? rc : check_branch(r, &repo, &s, err);
}

static int put_on_record(struct resource *r, int dir_fd, const struct git_work *w, const struct git_landing *l,
			 const struct git_moves *m, struct tree_sync *sync, struct atoll_error *err)
{
	int rc = git_part_save(r, dir_fd, w, l, m, sync);

	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_stale_save(dir_fd, w, &l->to, sync);
	/* Where other refs land alone the inside stays where it is. */
	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_pin_stage(r, &w->repo, &l->new, sync);
	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_settle_stage_discarded(r, w, sync);
	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_state_stage_next(r, &l->new, sync);
	return rc < 0 ? error_sys(err, rc, "commit", r->row.path, "cannot stage the commit of \"%s\"", r->row.path) : 1;
}

/* ---- objects ---- */

/* Goes on while the record is written and flushed: git_part_prepared() waits for it. */
static int start_landing(struct git_work *w, struct git_landing *l, struct atoll_error *err)
{
	int rc = git_call_finish(&w->pack.running, err);

	if (rc >= 0)
		rc = git_landing_identify(w, l, err);
	return rc < 0 ? rc : git_objects_land_start(&w->repo, w->pack.fd, &w->landing, err);
}

int git_part_prepared(struct resource *r, struct atoll_error *err)
{
	return git_work_finish(r, err);
}

/* ---- all of it ---- */

/* The branch, or nothing of it if only other refs are to land. What is in the way is looked for while git packs. */
static int make_landing(struct git_work *w, const struct part_request *q, const struct git_moves *m,
			struct git_landing *l, struct atoll_error *err)
{
	bool none = git_work_has_nothing(w);
	int rc = none ? git_landing_none(w, l, err) : git_landing_make(w, q, l, err);

	/* Check for a merge conflict first: its message names the obstacle to git merge inside. */
	if (rc >= 0)
		rc = git_check_crossed(w, q, err);
	if (rc >= 0 && !q->dry)
		rc = git_pack_start(w, &l->new, &l->old, m, err);
	return rc < 0 || none ? rc : git_check_landing(w, l, q, err);
}

static int prepare(struct git_work *w, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	AUTO_GIT_LANDING l = { 0 };
	AUTO_GIT_MOVES m = { 0 };
	int rc = q->refs ? git_moves_find(w, q, &m, err) : 0;

	if (rc >= 0 && git_work_has_nothing(w) && !m.n)
		rc = git_check_crossed(w, q, err);
	if (rc < 0 || (git_work_has_nothing(w) && !m.n))
		return rc;
	rc = make_landing(w, q, &m, &l, err);
	if (rc >= 0 && q->dry)
		rc = git_landing_identify(w, &l, err);
	if (rc < 0 || q->dry)
		return rc < 0 ? rc : 1;
	rc = start_landing(w, &l, err);
	return rc < 0 ? rc : put_on_record(w->r, dir_fd, w, &l, &m, q->sync, err);
}

static const char *short_name(const char *ref)
{
	return strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref;
}

/* What is on another branch inside lands on that branch, or not at all. */
static int refuse_elsewhere(const struct git_work *w, struct atoll_error *err)
{
	const char *top = w->repo.top, *own = short_name(w->state.own), *branch = short_name(w->state.branch);

	if (w->unborn && strcmp(w->on, w->state.own) == 0)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", top,
			"the branch \"%s\" of \"%s\" in the sandbox leads to no commit; run git reset --soft %.12s inside, or roll the sandbox back",
			own, top, w->state.base.hex);
	if (w->unborn)
		return error_set(err, ATOLL_REFUSED, 0, "commit", top,
				 "HEAD of \"%s\" in the sandbox leads to no commit; check out \"%s\" inside", top, own);
	if (!w->on)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", top,
			"HEAD of \"%s\" is detached in the sandbox, and what was done there would land on no branch; merge it into \"%s\" inside",
			top, own);
	if (!git_work_is_clean(w))
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", top,
			"\"%s\" has uncommitted edits on the branch \"%s\" in the sandbox, which do not land on \"%s\"; commit them inside, or check out \"%s\" there",
			top, short_name(w->on), branch, own);
	return error_set(
		err, ATOLL_REFUSED, 0, "commit", top,
		"\"%s\" is on the branch \"%s\" in the sandbox, whose commits do not land on \"%s\"; commit with other refs, or merge it into \"%s\" inside",
		top, short_name(w->on), branch, own);
}

int git_part_check_inside(const struct git_work *w, bool refs, bool files_alone, struct atoll_error *err)
{
	if (w->headless)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->repo.top,
			"HEAD of \"%s\" in the sandbox is missing or damaged; make it a file with the line \"ref: %s\" inside, or roll the sandbox back",
			w->repo.top, w->state.own);
	if (w->lost_index)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->repo.top,
			"the index of \"%s\" in the sandbox is missing or cannot be read; remove it, and run git reset, inside (if it was split there, run git update-index --no-split-index)",
			w->repo.top);
	if (w->unmerged)
		return error_set(err, ATOLL_REFUSED, 0, "commit", w->unmerged,
				 "\"%s\" is not merged in the sandbox; resolve it inside, and git add it", w->unmerged);
	if (w->staged.n && !files_alone)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->staged.v[0].path,
			"\"%s\" is staged in the sandbox, while its file is as it was; check it out, or unstage it, inside (git restore %s, git restore --staged %s)",
			w->staged.v[0].path, w->staged.v[0].path, w->staged.v[0].path);
	if (git_work_is_lost_elsewhere(w, refs))
		return refuse_elsewhere(w, err);
	if (w->strays.on_own)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->repo.top,
			"\"%s\" has commits on \"%s\" in the sandbox, where another branch is checked out; check that out, or merge it, inside",
			w->repo.top, short_name(w->state.own));
	if (w->unrelated)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->repo.top,
			"what was committed in the sandbox has no history in common with \"%s\" of \"%s\"; put it on top of that inside (git reset --soft %.12s, git commit), or roll the sandbox back",
			short_name(w->state.branch), w->repo.top, w->head.hex);
	if (w->torn)
		return error_set(
			err, ATOLL_REFUSED, 0, "commit", w->torn,
			"\"%s\" was removed in the sandbox, and the original has committed files in it since; run git merge %s inside",
			w->torn, git_work_original_name(w));
	if (git_work_is_in_the_middle(w))
		return error_set(err, ATOLL_REFUSED, 0, "commit", w->repo.top,
				 "%s is in progress in the sandbox's \"%s\"; finish or abort it inside", w->busy,
				 w->repo.top);
	return 0;
}

int git_part_prepare(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	AUTO_GIT_WORK w = { .repo = { .dir_fd = -EBADF } };
	struct part_request request = *q;
	int rc = begin_part(r, q->dry, err), landed;

	if (rc >= 0)
		rc = git_work_take(r, "commit", &w, err);
	if (rc < 0)
		return rc;
	request.refs |= w.state.as_is;
	rc = git_part_check_inside(&w, request.refs, false, err);
	if (rc < 0)
		return rc;
	rc = git_check_submodules(&w, &request, err);
	if (rc >= 0)
		rc = prepare(&w, dir_fd, &request, err);
	if (rc > 0 && w.landing.started)
		git_work_keep(&w);
	/* It failed since, or could not be kept. A git that is ended here would leave a part of a pack. */
	landed = w.landing.started ? git_call_finish(&w.landing, rc < 0 ? NULL : err) : 0;
	return rc < 0 ? rc : landed < 0 ? landed : rc;
}
