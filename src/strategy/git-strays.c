/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits that were made inside and that HEAD inside does not have: on other branches, on the sandbox's own branch while another one is checked out,
 * of a detached HEAD, of worktrees, in the stash. Each is named, so that none is lost without a word.
 *
 * What a user gave up by a command that says so is not among them: a branch that was deleted, a commit that was amended, rebased or reset away.
 * A detached HEAD that was left for a branch is, also in a worktree: no command was given to drop
 * its commits, and only the log of that HEAD knows them.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define LOG_MAX ((size_t)64 << 20)
#define LEFT "checkout: moving from "

void git_strays_release(struct git_strays *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].root);
		free(s->v[i].hash);
		free(s->v[i].subject);
	}
	free(s->v);
	*s = (struct git_strays){ 0 };
}

/* ---- where commits may be ---- */

struct root {
	char *name;
	struct git_id id;
};
struct roots {
	const struct git_work *w;
	const struct git_refs *inside;
	struct root *v;
	size_t n;
	/* How many of v, at its start, are HEAD or the sandbox's own branch: they decide whether a
	 * commit is refused. */
	size_t first;
};

static void roots_release(struct roots *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].name);
	free(r->v);
}

static int add_root(struct roots *r, const char *name, const struct git_id *id)
{
	struct root *grown;

	for (size_t i = 0; i < r->n; i++)
		if (git_id_equal(&r->v[i].id, id))
			return 0;
	grown = reallocarray(r->v, r->n + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	r->v = grown;
	r->v[r->n] = (struct root){ strdup(name), *id };
	return r->v[r->n].name ? (int)(r->n++, 0) : -ENOMEM;
}

static int add_ref(const char *name, const struct git_id *id, void *arg)
{
	struct roots *r = arg;
	const struct git_work *w = r->w;

	/* What HEAD is on lands, or was added before. */
	if (strncmp(name, "refs/atoll/", 11) == 0 || (w->on && !w->unborn && strcmp(name, w->on) == 0))
		return 0;
	if (strcmp(name, w->state.branch) == 0 && git_id_equal(id, &w->state.seen))
		return 0;
	return strcmp(name, w->state.own) == 0 ? 0 : add_root(r, name, id);
}

/* The next line of a log that is "OLD NEW WHO TIME ZONE\tMESSAGE": 1, 0 at the end. */
static int next_line(char **at, struct git_id *ret_old, struct git_id *ret_new, const char **ret_message)
{
	while (**at) {
		char *line = *at, *end = line + strcspn(line, "\n"), *tab;

		*at = *end ? end + 1 : end;
		*end = 0;
		tab = strchr(line, '\t');
		if (!git_id_parse(line, ret_old) || line[strlen(ret_old->hex)] != ' ' ||
		    !git_id_parse(line + strlen(ret_old->hex) + 1, ret_new))
			continue;
		*ret_message = tab ? tab + 1 : "";
		return 1;
	}
	return 0;
}

/* What was added to a log inside: the upper layer's copy begins with what the original's was. 0 and *ret NULL if nothing was. */
static int read_log(const struct git_refs *g, const char *path, char **ret_text, char **ret_new)
{
	AUTO_FREE char *lower = NULL;
	size_t same = 0, line = 0;
	int r = fd_read_file(g->upper_fd, path, LOG_MAX, ret_text, NULL);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (fd_read_file(g->lower_fd, path, LOG_MAX, &lower, NULL) < 0)
		lower = NULL;
	for (; lower && lower[same] && lower[same] == (*ret_text)[same]; same++)
		if (lower[same] == '\n')
			line = same + 1;
	*ret_new = *ret_text + line;
	return 0;
}

/* Commits that were checked out by themselves, not by a branch, and then left. log: of HEAD, or of a worktree's. */
static int add_left(struct roots *r, const char *log, const char *name)
{
	AUTO_FREE char *text = NULL;
	char *at = NULL;
	const char *message;
	struct git_id old, new, from;
	int rc = read_log(r->inside, log, &text, &at);

	while (rc >= 0 && at && next_line(&at, &old, &new, &message))
		if (strncmp(message, LEFT, strlen(LEFT)) == 0 && git_id_parse(message + strlen(LEFT), &from))
			rc = add_root(r, name, &old);
	return rc;
}

/* All but the latest one are in the log of the ref alone. */
static int add_stashes(struct roots *r)
{
	AUTO_FREE char *text = NULL;
	char *at = NULL;
	const char *message;
	struct git_id old, new;
	int rc = read_log(r->inside, "logs/refs/stash", &text, &at);

	while (rc >= 0 && at && next_line(&at, &old, &new, &message))
		rc = add_root(r, "refs/stash", &new);
	return rc;
}

static int visit_worktree(const struct tree_entry *e, void *arg)
{
	struct roots *r = arg;
	AUTO_FD dir = S_ISDIR(e->stat.mode) ? fd_open_beneath(e->dirfd, e->name, O_RDONLY | O_DIRECTORY) : -EBADF;
	AUTO_FREE char *on = NULL, *name = str_format("HEAD of the worktree %s", e->name);
	AUTO_FREE char *left = str_format("HEAD of the worktree %s, when it was detached", e->name);
	AUTO_FREE char *log = str_format("worktrees/%s/logs/HEAD", e->name);
	struct git_id id;
	int rc = name && left && log ? 0 : -ENOMEM;

	if (rc >= 0 && dir >= 0 && git_refs_head(&(struct git_refs){ -EBADF, dir }, &on, &id) >= 0 && !on)
		rc = add_root(r, name, &id);
	if (rc >= 0)
		rc = add_left(r, log, left);
	return rc < 0 ? rc : TREE_WALK_SKIP;
}

static int add_worktrees(struct roots *r)
{
	AUTO_FD dir = fd_open_beneath(r->inside->upper_fd, "worktrees", O_RDONLY | O_DIRECTORY);

	return dir < 0 ? 0 : tree_walk(dir, TREE_WALK_NO_ROOT, visit_worktree, r, NULL);
}

/* Whether HEAD inside has the commit, so that nothing of it is left behind. */
static bool is_in_head(const struct git_work *w, const struct git_id *id)
{
	struct git_call call = git_work_call(w);

	call.also = 1;
	return git_call(&call, NULL,
			(const char *const[]){ "merge-base", "--is-ancestor", id->hex, w->tip.hex, NULL }) == 0;
}

static int collect(struct roots *r)
{
	const struct git_work *w = r->w;
	struct git_id own;
	int rc = w->elsewhere && !w->unborn ? add_root(r, "HEAD", &w->tip) : 0;

	/* Before the others: what several hold is said of the first. */
	if (rc >= 0 && !(w->on && strcmp(w->on, w->state.own) == 0) &&
	    git_refs_read(r->inside, w->state.own, &own) >= 0 && !git_id_equal(&own, &w->state.base) &&
	    !is_in_head(w, &own))
		rc = add_root(r, w->state.own, &own);
	r->first = r->n;
	if (rc >= 0)
		rc = git_refs_differing(r->inside, add_ref, r);
	if (rc >= 0)
		rc = add_stashes(r);
	if (rc >= 0)
		rc = add_worktrees(r);
	return rc < 0 ? rc : add_left(r, "logs/HEAD", "HEAD, when it was detached");
}

/* ---- which there are ---- */

static const char *name_of(const struct roots *r, const struct git_id *id)
{
	for (size_t i = 0; i < r->n; i++)
		if (git_id_equal(&r->v[i].id, id))
			return r->v[i].name;
	return NULL;
}

/* "ROOT\tSHORT\tSUBJECT" */
static int add_stray(struct git_work *w, const struct roots *r, char *line)
{
	char *hash = strchr(line, '\t'), *subject = hash ? strchr(hash + 1, '\t') : NULL;
	struct git_stray *grown, *s;
	struct git_id id;
	const char *name = subject && git_id_parse(line, &id) ? name_of(r, &id) : NULL;

	if (!name)
		return 0;
	*hash++ = 0;
	*subject++ = 0;
	grown = reallocarray(w->strays.v, w->strays.n + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	w->strays.v = grown;
	s = &grown[w->strays.n++];
	*s = (struct git_stray){ strdup(name), strdup(hash), strdup(subject) };
	w->strays.on_head += strcmp(name, "HEAD") == 0;
	w->strays.on_own += strcmp(name, w->state.own) == 0;
	return s->root && s->hash && s->subject ? 0 : -ENOMEM;
}

/* Lists the commits of the roots from..to-1 that no root before them holds. */
static int list(struct git_work *w, const struct roots *r, size_t from, size_t to, struct atoll_error *err)
{
	AUTO_STRBUF ids = STRBUF_INIT, out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	size_t before = w->strays.n;
	char *save = NULL;
	int rc = 0;

	for (size_t i = 0; i < to; i++)
		strbuf_addf(&ids, "%s%s\n", i < from ? "^" : "", r->v[i].id.hex);
	if (!w->elsewhere)
		strbuf_addf(&ids, "^%s\n", w->tip.hex);
	if (ids.failed)
		return error_oom(err, w->operation);
	call.input = ids.data;
	call.input_size = ids.size;
	call.output = &out;
	/* Whether git can read all of that or not, the refs themselves are listed. */
	if (git_call(&call, NULL,
		     (const char *const[]){ "log", "--no-show-signature", "--ignore-missing", GIT_COMMITS_SHOWN,
					    "--format=%S%x09%h%x09%s", "--stdin", "--not", "--all", NULL }) < 0)
		return 0;
	for (char *line = out.size ? strtok_r(out.data, "\n", &save) : NULL; line && rc >= 0;
	     line = strtok_r(NULL, "\n", &save))
		rc = add_stray(w, r, line);
	w->strays.more |= w->strays.n - before >= GIT_COMMITS_MAX;
	return rc < 0 ? error_oom(err, w->operation) : 0;
}

int git_strays_find(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	CLEANUP(roots_release) struct roots r = { .w = w, .inside = inside };
	int rc = collect(&r);

	if (rc < 0)
		return git_work_cannot_read(w, rc, "the refs", err);
	/* One git call for HEAD and one for the sandbox's own branch: however many commits other
	 * refs have, the limit on their number does not hide commits of these two. */
	for (size_t i = 0; i < r.first && rc >= 0; i++)
		rc = list(w, &r, i, i + 1, err);
	return rc < 0 || r.first == r.n ? rc : list(w, &r, r.first, r.n, err);
}
