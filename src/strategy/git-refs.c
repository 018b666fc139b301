/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches and tags that were made inside, and land when that is asked for. Git moves them, all in one transaction of its own, each only if it still
 * is what it was. One that is there already moves forward only.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define REFS "refs"
#define REFS_MAX ((size_t)64 << 20)

void git_moves_release(struct git_moves *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->v[i].name);
	free(m->v);
	*m = (struct git_moves){ 0 };
}

static int add(struct git_moves *m, const char *name, const struct git_id *old, const struct git_id *new)
{
	struct git_move *grown = reallocarray(m->v, m->n + 1, sizeof *grown);

	if (!grown)
		return -ENOMEM;
	m->v = grown;
	m->v[m->n] = (struct git_move){ strdup(name), *old, *new };
	return m->v[m->n].name ? (int)(m->n++, 0) : -ENOMEM;
}

/* ---- finding them ---- */

bool git_moves_can_land(const struct git_work *w, const char *name)
{
	if (strcmp(name, w->state.own) == 0 || strcmp(name, w->state.branch) == 0)
		return false;
	return strncmp(name, "refs/heads/", 11) == 0 || strncmp(name, "refs/tags/", 10) == 0;
}

struct finding {
	const struct git_work *w;
	struct git_moves *moves;
};

static int find_one(const char *name, const struct git_id *id, void *arg)
{
	const struct finding *f = arg;
	const struct git_refs outside = { -EBADF, f->w->repo.dir_fd };
	struct git_id old = { "" };
	int r = git_moves_can_land(f->w, name) ? git_refs_read(&outside, name, &old) : -EPERM;

	if (r == -EPERM)
		return 0;
	if (r == -ENOENT)
		old = (struct git_id){ "" };
	return r < 0 && r != -ENOENT ? r : add(f->moves, name, &old, id);
}

/* Whether the original has a ref above or below a new one: git cannot have both. 1 or 0. An empty directory does not count: git removes it. */
static int has_beside(const struct git_work *w, const char *name, struct atoll_error *err)
{
	const struct git_refs outside = { -EBADF, w->repo.dir_fd };
	AUTO_FREE char *above = strdup(name);
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	struct git_id id;
	int rc;

	if (!above)
		return error_oom(err, w->operation);
	if (git_refs_is_free(&outside, name) > 0)
		return 0;
	for (char *slash; (slash = strrchr(above, '/')) && slash > above + strlen("refs/heads");) {
		*slash = 0;
		if (git_refs_read(&outside, above, &id) >= 0)
			return 1;
	}
	call.output = &out;
	rc = git_call(&call, err,
		      (const char *const[]){ "for-each-ref", "--count=1", "--format=%(refname)", name, NULL });
	return rc < 0 ? rc : out.size > 0;
}

/* 1: forward, and in nobody's way; 0: not. */
static int is_forward(const struct git_work *w, const struct git_move *m, struct atoll_error *err)
{
	const struct git_refs outside = { -EBADF, w->repo.dir_fd };
	struct git_call call = git_work_call(w);
	AUTO_FREE char *elsewhere = NULL;
	int rc;

	/* Git would move, or make, the one it stands for. */
	if (git_refs_is_symbolic(&outside, m->name) != 0)
		return 0;
	if (!*m->old.hex)
		return 1;
	if (strncmp(m->name, "refs/tags/", 10) == 0 || git_repo_worktree_on(&w->repo, m->name, &elsewhere) != 0)
		return 0;
	call.also = 1;
	rc = git_call(&call, err, (const char *const[]){ "merge-base", "--is-ancestor", m->old.hex, m->new.hex, NULL });
	return rc < 0 ? rc : rc == 0;
}

int git_moves_find(const struct git_work *w, const struct part_request *q, struct git_moves *ret,
		   struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { upper, w->repo.dir_fd, resource_marks(w->r) };
	struct finding f = { w, ret };
	size_t refused = 0;
	int rc = upper < 0 ? upper : git_refs_differing(&inside, find_one, &f);

	if (rc < 0)
		return error_sys(err, rc, w->operation, w->r->row.path, "cannot read the refs of \"%s\" in the sandbox",
				 w->r->row.path);
	for (size_t i = 0; i < ret->n; i++) {
		const struct git_move *m = &ret->v[i];
		int beside = *m->old.hex ? 0 : has_beside(w, m->name, err);

		rc = beside ? beside : is_forward(w, m, err);
		if (rc < 0)
			return rc;
		if (rc && !beside)
			continue;
		refused++;
		if (q->tell(q->tell_arg, ATOLL_ITEM_CONFLICT, m->name,
			    beside ? "cannot be there beside a ref of the original, which is above or below it"
				   : "is there already, and would not move forward, or is symbolic, or checked out elsewhere") <
		    0)
			return error_oom(err, w->operation);
	}
	return refused ? error_set(err, ATOLL_CONFLICT, 0, w->operation, w->repo.top,
				   "%zu ref%s of \"%s\" cannot land; nothing was committed", refused,
				   refused == 1 ? "" : "s", w->repo.top)
		       : 0;
}

/* ---- the record ---- */

int git_moves_save(int dir_fd, const struct git_moves *m, struct tree_sync *sync)
{
	AUTO_STRBUF text = STRBUF_INIT;

	for (size_t i = 0; i < m->n; i++)
		strbuf_addf(&text, "%s %s %s\n", m->v[i].name, *m->v[i].old.hex ? m->v[i].old.hex : "-",
			    m->v[i].new.hex);
	if (text.failed)
		return -ENOMEM;
	return m->n ? git_stage_file(dir_fd, REFS, text.data, text.size, sync) : 0;
}

static int parse_line(char *line, struct git_moves *ret)
{
	char *old = strchr(line, ' '), *new = old ? strchr(old + 1, ' ') : NULL;
	struct git_id from = { "" }, to;

	if (!new)
		return -EINVAL;
	*old++ = 0;
	*new ++ = 0;
	if (!git_refs_is_name(line) || (strcmp(old, "-") != 0 && !git_id_parse(old, &from)) || !git_id_parse(new, &to))
		return -EINVAL;
	return add(ret, line, &from, &to);
}

int git_moves_load(int dir_fd, struct git_moves *ret)
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	int r = fd_read_file(dir_fd, REFS, REFS_MAX, &text, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (char *line = strtok_r(text, "\n", &save); line && r >= 0; line = strtok_r(NULL, "\n", &save))
		r = parse_line(line, ret);
	return r;
}

/* ---- moving them ---- */

int git_moves_side(const struct git_repo *repo, const struct git_move *m)
{
	const struct git_refs refs = { -EBADF, repo->dir_fd };
	struct git_id now = { "" };
	int r = git_refs_read(&refs, m->name, &now);

	if (r == -ENOENT)
		now = (struct git_id){ "" };
	else if (r < 0)
		return r;
	return git_id_equal(&now, &m->new) ? PART_NEW : git_id_equal(&now, &m->old) ? PART_OLD : PART_FOREIGN;
}

int git_moves_check(const struct git_repo *repo, const struct git_moves *m, struct atoll_error *err)
{
	for (size_t i = 0; i < m->n; i++) {
		int side = git_moves_side(repo, &m->v[i]);

		if (side < 0)
			return error_sys(err, side, "commit", repo->top, "cannot read \"%s\" of \"%s\"", m->v[i].name,
					 repo->top);
		if (side == PART_FOREIGN)
			return error_set(err, ATOLL_CONFLICT, 0, "commit", repo->top,
					 "\"%s\" of \"%s\" was changed by somebody else", m->v[i].name, repo->top);
	}
	return 0;
}

/* A checkout whose branch goes, or goes back, would no longer be of its commit. */
int git_moves_check_unused(const struct git_repo *repo, const struct git_moves *m, struct atoll_error *err)
{
	const struct git_refs refs = { -EBADF, repo->dir_fd };
	AUTO_FREE char *here = NULL;
	struct git_id id;
	int rc = git_refs_head(&refs, &here, &id);

	if (rc < 0)
		return error_sys(err, rc, "undo", repo->top, "cannot read HEAD of \"%s\"", repo->top);
	for (size_t i = 0; i < m->n; i++) {
		AUTO_FREE char *where = NULL;
		bool used = here && strcmp(here, m->v[i].name) == 0;

		if (!used && git_repo_worktree_on(repo, m->v[i].name, &where) == 0)
			continue;
		return error_set(err, ATOLL_CONFLICT, 0, "undo", repo->top,
				 "\"%s\" landed with the commit and is checked out in \"%s\" now", m->v[i].name,
				 used || !where ? repo->top : where);
	}
	return 0;
}

/* Each that stands on the other side; git looks once more, under its own locks. */
int git_moves_do(const struct git_repo *repo, const struct git_moves *m, bool forward, struct atoll_error *err)
{
	static const char zero[] = "0000000000000000000000000000000000000000000000000000000000000000";
	AUTO_STRBUF input = STRBUF_INIT;
	struct git_call call = { .repo = repo, .operation = forward ? "commit" : "undo" };

	for (size_t i = 0; i < m->n; i++) {
		const struct git_id *from = forward ? &m->v[i].old : &m->v[i].new;
		const struct git_id *to = forward ? &m->v[i].new : &m->v[i].old;
		int size = (int)strlen(m->v[i].new.hex);

		if (git_moves_side(repo, &m->v[i]) != (forward ? PART_OLD : PART_NEW))
			continue;
		if (*to->hex)
			strbuf_addf(&input, "update %s %s %s\n", m->v[i].name, to->hex,
				    *from->hex ? from->hex : zero + 64 - size);
		else
			strbuf_addf(&input, "delete %s %s\n", m->v[i].name, from->hex);
	}
	if (input.failed)
		return error_oom(err, call.operation);
	call.input = strbuf_str(&input);
	call.input_size = input.size;
	return input.size ? git_call(&call, err, (const char *const[]){ "update-ref", "--stdin", "-m", "atoll", NULL })
			  : 0;
}
