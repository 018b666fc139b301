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

#define GITLINK 0160000

/* What is told, and how many. */
struct report {
	const struct git_work *w;
	const struct part_request *q;
	size_t conflicts, refused;
	int failed;
};

static void tell(struct report *p, enum atoll_item_kind kind, const char *path, const char *why)
{
	if (p->q->tell(p->q->tell_arg, kind, path, why) < 0)
		p->failed = -ENOMEM;
	*(kind == ATOLL_ITEM_CONFLICT ? &p->conflicts : &p->refused) += 1;
}

static int conclude(const struct report *p, struct atoll_error *err)
{
	const char *top = p->w->repo.top;
	size_t n = p->conflicts ? p->conflicts : p->refused;

	if (p->failed < 0)
		return error_oom(err, "commit");
	if (!n)
		return 0;
	return error_set(err, p->conflicts ? ATOLL_CONFLICT : ATOLL_REFUSED, 0, "commit", top,
			 "%zu path%s of the repository \"%s\" cannot be committed; nothing was", n, n == 1 ? "" : "s",
			 top);
}

/* ---- the original's checkout ---- */

/* What was carried in, and not edited since, is what the sandbox has built on. */
static bool was_carried(const struct report *p, const char *path)
{
	const struct change *c = p->w->state.carried ? changes_find(p->q->changes, path) : NULL;

	return c && c->has_before && c->before.ctime < resource_stamp(p->w->r, path);
}

static void check_uncommitted(struct report *p, const struct git_landing *l, const struct git_entries *uncommitted)
{
	for (size_t i = 0; i < uncommitted->n; i++) {
		const char *path = uncommitted->v[i].path;

		if (git_entries_find(&l->to, path) && !was_carried(p, path) && !resource_is_others(p->w->r, path))
			tell(p, ATOLL_ITEM_CONFLICT, path, "has changes in the original that are not committed there");
	}
}

/* Whatever the commit has, the files have: those that land, and those that are in the original already. */
static void check_files(struct report *p, const struct git_landing *l, const struct git_entries *uncommitted)
{
	for (size_t i = 0; i < l->to.n; i++) {
		const struct git_entry *e = &l->to.v[i];
		AUTO_FD there = -EBADF;

		if (!e->mode || e->mode == GITLINK || changes_find(p->q->changes, e->path) ||
		    git_entries_find(uncommitted, e->path) || resource_is_others(p->w->r, e->path))
			continue;
		there = l->from.v[i].mode ? -ENOENT : fd_open_beneath(p->w->r->root_fd, e->path, O_PATH);
		if (there < 0)
			tell(p, ATOLL_ITEM_REFUSED, e->path,
			     "is in the sandbox's commit, but not so in its files; check it out inside");
	}
}

/* Between the plan and now, before there were locks. */
static void check_plan(struct report *p, const struct git_landing *l)
{
	for (size_t i = 0; i < p->q->changes->n; i++) {
		const struct change *c = &p->q->changes->v[i];

		if (c->judged && !git_entries_find(&l->to, c->path))
			tell(p, ATOLL_ITEM_CONFLICT, c->path, "was committed by somebody else just now");
	}
}

/* A submodule is a repository of its own, of which nothing would land but the files; unless it is a resource of its own. */
static int check_submodules(const struct git_work *w, const struct part_request *q, struct atoll_error *err)
{
	struct report p = { .w = w, .q = q };

	for (size_t i = 0; i < w->tracked.n; i++) {
		const struct git_entry *e = &w->tracked.v[i];

		if (e->mode == GITLINK && !resource_is_others(w->r, e->path) &&
		    (git_work_touches(q->changes, e->path) || git_entries_find(&w->base_new, e->path)))
			tell(&p, ATOLL_ITEM_REFUSED, e->path,
			     "is a submodule, and was changed; a submodule can be a resource of its own");
	}
	return conclude(&p, err);
}

static int check(const struct git_work *w, struct git_landing *l, const struct part_request *q, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES uncommitted = { 0 };
	struct report p = { .w = w, .q = q };
	struct git_call call = { .repo = &w->repo, .operation = "commit" };
	bool staged;
	int rc = git_entries_uncommitted(&call, &uncommitted, &staged, err);

	if (rc < 0)
		return rc;
	l->clean = uncommitted.n == 0;
	check_uncommitted(&p, l, &uncommitted);
	check_files(&p, l, &uncommitted);
	check_plan(&p, l);
	rc = conclude(&p, err);
	return rc < 0 ? rc : git_index_read(&w->repo, l, err);
}

/* ---- preparing ---- */

static int check_branch(struct resource *r, const struct git_repo *repo, const struct git_state *s,
			struct atoll_error *err)
{
	AUTO_FREE char *branch = NULL;
	struct git_id id;
	int rc = git_repo_check_calm(repo, "commit", err);

	if (rc >= 0)
		rc = git_repo_branch(repo, "commit", &branch, &id, err);
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
	if (strncmp(e->name, GIT_QUARANTINE, strlen(GIT_QUARANTINE)) == 0)
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
		(void)tree_walk(r->work_fd, TREE_WALK_NO_ROOT, drop_stray, NULL, NULL);
	if (rc >= 0 && !dry)
		rc = git_part_lock(r, &repo, s.branch, "commit", err);
	return rc < 0 ? rc : check_branch(r, &repo, &s, err);
}

static int put_on_record(struct resource *r, int dir_fd, const struct git_work *w, const struct git_landing *l,
			 const struct git_moves *m, struct atoll_error *err)
{
	AUTO_FREE char *next = str_format("%s%s\n", l->new.hex, l->clean ? " clean" : "");
	int rc = next ? git_part_save(dir_fd, &w->state, l, m) : -ENOMEM;

	/* Where other refs land alone the inside stays where it is. */
	if (rc >= 0 && !git_id_equal(&l->old, &l->new))
		rc = git_put_file(r->work_fd, GIT_NEXT, next, strlen(next));
	return rc < 0 ? error_sys(err, rc, "commit", r->row.path, "cannot stage the commit of \"%s\"", r->row.path) : 1;
}

static int land_objects(const struct git_work *w, const struct git_landing *l, const struct git_moves *m,
			struct atoll_error *err)
{
	AUTO_STRBUF revisions = STRBUF_INIT;

	strbuf_addf(&revisions, "%s\n^%s\n", l->new.hex, l->old.hex);
	for (size_t i = 0; i < m->n; i++)
		strbuf_addf(&revisions, "%s\n", m->v[i].new.hex);
	if (revisions.failed)
		return error_oom(err, "commit");
	return git_objects_land(&w->repo, w->objects, revisions.data, err);
}

/* The branch, or nothing of it if only other refs are to land. */
static int make_landing(struct git_work *w, const struct part_request *q, struct git_landing *l,
			struct atoll_error *err)
{
	int rc;

	if (git_work_has_nothing(w))
		return git_landing_none(w, l, err);
	rc = git_landing_make(w, q, l, err);
	return rc < 0 ? rc : check(w, l, q, err);
}

static int prepare(struct git_work *w, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	AUTO_GIT_LANDING l = { 0 };
	AUTO_GIT_MOVES m = { 0 };
	int rc = q->refs ? git_moves_find(w, q, &m, err) : 0;

	if (rc < 0 || (git_work_has_nothing(w) && !m.n))
		return rc;
	rc = make_landing(w, q, &l, err);
	if (rc < 0 || q->dry)
		return rc < 0 ? rc : 1;
	rc = land_objects(w, &l, &m, err);
	return rc < 0 ? rc : put_on_record(w->r, dir_fd, w, &l, &m, err);
}

int git_part_prepare(struct resource *r, int dir_fd, const struct part_request *q, struct atoll_error *err)
{
	AUTO_GIT_WORK w = { .repo = { .dir_fd = -EBADF } };
	int rc = begin_part(r, q->dry, err);

	if (rc >= 0)
		rc = git_work_make(r, "commit", false, &w, err);
	if (rc < 0)
		return rc;
	if (w.unmerged)
		return error_set(err, ATOLL_REFUSED, 0, "commit", w.unmerged,
				 "\"%s\" is not merged in the sandbox; resolve it inside, and git add it", w.unmerged);
	rc = check_submodules(&w, q, err);
	return rc < 0 ? rc : prepare(&w, dir_fd, q, err);
}
