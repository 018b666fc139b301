/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the way of a commit, in the original's checkout and index, which are locked by now, and inside. Everything is named, and nothing changed. */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define GITLINK 0160000
/* The object of an empty file. */
#define EMPTY_SHA1 "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
#define EMPTY_SHA256 "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"

/* What is told, and how many. */
struct report {
	const struct git_work *w;
	const struct part_request *q;
	struct git_entries carried; /* staged in the original when the sandbox was made, and brought along */
	size_t conflicts, refused;
	int failed;
};

static void report_release(struct report *p)
{
	git_entries_release(&p->carried);
}

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

/* What was carried in, and not edited since, is what the sandbox has built on; so is that a file was gone. */
static bool was_carried(const struct report *p, const char *path)
{
	const struct change *c = p->w->state.carried ? changes_find(p->q->changes, path) : NULL;

	if (c && !c->has_before)
		return !c->gone && git_entries_find(&p->w->uncommitted, path);
	return c && c->before.ctime < resource_stamp(p->w->r, path);
}

static bool is_entry(const struct git_entry *e, const struct git_entry *of)
{
	if (!e || !of->mode)
		return !e && !of->mode;
	return e->mode == of->mode && git_id_equal(&e->id, &of->id);
}

/* As `git add -N` makes one, too: it holds no content that could be lost. */
static bool is_empty(const struct git_entry *e)
{
	return strcmp(e->id.hex, EMPTY_SHA1) == 0 || strcmp(e->id.hex, EMPTY_SHA256) == 0;
}

static bool is_away(const struct git_work *w, const char *path)
{
	AUTO_FD there = fd_open_beneath(w->r->root_fd, path, O_PATH | O_NOFOLLOW);

	return there == -ENOENT || there == -ENOTDIR;
}

static bool is_directory(const struct git_work *w, const char *path)
{
	AUTO_FD there = fd_open_beneath(w->r->root_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW);

	return there >= 0;
}

/*
 * A path may land over uncommitted work in the original if the commit writes nothing there: the
 * sandbox has no file of its own at the path, and the original's file has the content that lands.
 * That holds for files that were carried in, if nothing else was staged since, and for files that
 * are staged exactly as they land: git fast-forwards over those too. Git refuses to merge over an edit that is not staged, whatever
 * its content, and so do we.
 */
static bool may_land(const struct report *p, const struct git_landing *l, const struct git_entries *index,
		     const char *path)
{
	const struct git_entry *to = git_entries_find(&l->to, path), *from = git_entries_find(&l->from, path);
	const struct git_entry *e = git_entries_find(index, path), *carried = git_entries_find(&p->carried, path);

	if (!to || !from || changes_find(p->q->changes, path))
		return false;
	if (p->w->state.carried && e && !from->mode && is_empty(e))
		return true;
	if (!p->w->state.carried)
		return e && is_entry(e, to);
	return is_entry(e, to) || is_entry(e, from) || (carried && is_entry(e, carried));
}

/* Of the uncommitted paths that may land, puts those into ret whose file in the original does not
 * have the content that lands. */
static int find_others(const struct report *p, const struct git_landing *l, const struct git_entries *index,
		       const struct git_entries *uncommitted, struct git_entries *ret, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES landing = { 0 };
	AUTO_FREE char *own = str_format("%s/carried", p->w->quarantine);
	struct git_call call = git_work_call(p->w);
	int rc = own ? 0 : -ENOMEM;

	for (size_t i = 0; i < uncommitted->n && rc >= 0; i++) {
		const struct git_entry *to = git_entries_find(&l->to, uncommitted->v[i].path);

		if (to && to->mode && may_land(p, l, index, to->path))
			rc = git_entries_add(&landing, to->path, to->mode, &to->id, 0);
	}
	if (rc < 0)
		return error_oom(err, "commit");
	call.index = own;
	return landing.n ? git_entries_edited(&call, &landing, ret, err) : 0;
}

static bool is_as_it_lands(const struct report *p, const struct git_landing *l, const struct git_entries *index,
			   const struct git_entries *others, const char *path)
{
	if (!may_land(p, l, index, path))
		return false;
	if (git_entries_find(&l->to, path)->mode)
		return !git_entries_find(others, path);
	/* A directory that stands in the place of the removed file stays. */
	return is_away(p->w, path) || is_directory(p->w, path);
}

static void check_uncommitted(struct report *p, const struct git_landing *l, const struct git_entries *uncommitted,
			      const struct git_entries *index, const struct git_entries *others)
{
	for (size_t i = 0; i < uncommitted->n; i++) {
		const char *path = uncommitted->v[i].path;

		if (git_entries_find(&l->to, path) && !was_carried(p, path) && !resource_is_others(p->w->r, path) &&
		    !is_as_it_lands(p, l, index, others, path))
			tell(p, ATOLL_ITEM_CONFLICT, path, "has changes in the original that are not committed there");
	}
}

/* ---- the original's index ---- */

/* What is staged where a directory lands, or below what lands as a file, is in nobody's way in the checkout: there it may be gone. Git would drop it
 * from the index without a word. */
static int check_clashes(struct report *p, const struct git_landing *l, const struct git_entries *index)
{
	AUTO_GIT_ENTRIES landing = { 0 };

	for (size_t i = 0; i < l->to.n; i++)
		if (l->to.v[i].mode &&
		    git_entries_add(&landing, l->to.v[i].path, l->to.v[i].mode, &l->to.v[i].id, 0) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < index->n; i++) {
		const char *path = index->v[i].path;

		if (!git_entries_find(&l->to, path) && git_entries_clash(&landing, path))
			tell(p, ATOLL_ITEM_CONFLICT, path,
			     "is staged in the original, and cannot be there beside what lands");
	}
	return 0;
}

/* ---- the files ---- */

/* Whatever the commit has, the files have: those that land, and those that are in the original already. */
static void check_files(struct report *p, const struct git_landing *l, const struct git_entries *uncommitted)
{
	for (size_t i = 0; i < l->to.n; i++) {
		const struct git_entry *e = &l->to.v[i];
		AUTO_FD there = -EBADF;

		if (!e->mode || e->mode == GITLINK || (e->marks & GIT_MARK_SKIP) ||
		    changes_find(p->q->changes, e->path) || git_entries_find(uncommitted, e->path) ||
		    resource_is_others(p->w->r, e->path))
			continue;
		there = l->from.v[i].mode ? -ENOENT : fd_open_beneath(p->w->r->root_fd, e->path, O_PATH);
		if (there < 0 || is_directory(p->w, e->path))
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
int git_check_submodules(const struct git_work *w, const struct part_request *q, struct atoll_error *err)
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

int git_check_crossed(const struct git_work *w, const struct part_request *q, struct atoll_error *err)
{
	struct report p = { .w = w, .q = q };
	const char *branch = git_work_original_name(w);

	for (size_t i = 0; i < w->crossed.n; i++) {
		const struct git_entry *e = &w->crossed.v[i];
		AUTO_FREE char *why = str_format(
			e->mode ? "was edited in the sandbox, where git does not track it, and the original has committed it since; "
				  "git add and commit it inside, and run git merge %s there"
				: "was removed in the sandbox, where git did not track it, and the original has committed it since; "
				  "run git merge %s inside, and remove it there",
			branch);

		if (!why)
			return error_oom(err, "commit");
		tell(&p, ATOLL_ITEM_CONFLICT, e->path, why);
	}
	return conclude(&p, err);
}

/* ---- somebody's uncommitted work ---- */

static bool is_staged(const struct git_entry *committed, const struct git_entry *e)
{
	if (!committed->mode || !e)
		return committed->mode || e;
	return committed->mode != e->mode || !git_id_equal(&committed->id, &e->id);
}

/* By times and sizes alone; where those do not say it, its content is to be looked at. */
static bool is_untouched(const struct git_work *w, const struct git_index_file *f, const struct git_entry *e)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	struct tree_stat st;

	if (e->mode == GITLINK)
		return true;
	/* Of a marked file the index knows nothing. One that is not checked out, as in a sparse checkout, holds no edit. */
	if (e->marks)
		return (e->marks & GIT_MARK_SKIP) && is_away(w, e->path);
	return fd_open_parent(w->r->root_fd, e->path, &parent, &name) >= 0 && tree_stat(parent, name, &st) >= 0 &&
	       git_index_file_knows(f, e, &st) && e->look.ino == (uint32_t)st.ino;
}

/* Whether git hash-object can hash the file: it follows links, and reads one path per line. */
static bool is_hashable(const struct git_work *w, const struct git_entry *e)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	struct tree_stat st;

	if (e->mode == GITLINK || strpbrk(e->path, "\"\n") ||
	    fd_open_parent(w->r->root_fd, e->path, &parent, &name) < 0 || tree_stat(parent, name, &st) < 0)
		return false;
	return S_ISREG(st.mode) && git_mode_is(e->mode, st.mode);
}

/* Takes the entries off the list whose file has their content. Most often this is all of them,
 * because git wrote the file in the same moment as its index; then one process is enough instead of
 * two. */
static int drop_same(const struct git_work *w, struct git_entries *doubtful)
{
	AUTO_GIT_ENTRIES left = { 0 };
	AUTO_STRBUF paths = STRBUF_INIT, hashes = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	const char *line;
	int rc = 0;

	for (size_t i = 0; i < doubtful->n; i++)
		if (is_hashable(w, &doubtful->v[i]))
			strbuf_addf(&paths, "%s\n", doubtful->v[i].path);
		else
			return 0;
	call.input = paths.data;
	call.input_size = paths.size;
	call.output = &hashes;
	if (paths.failed ||
	    git_call(&call, NULL, (const char *const[]){ "-C", w->repo.top, "hash-object", "--stdin-paths", NULL }) < 0)
		return paths.failed ? -ENOMEM : 0;
	line = strbuf_str(&hashes);
	for (size_t i = 0; i < doubtful->n && rc >= 0; i++) {
		const struct git_entry *e = &doubtful->v[i];
		struct git_id id;

		if (!line || !git_id_parse(line, &id) || !git_id_equal(&id, &e->id))
			rc = git_entries_add(&left, e->path, e->mode, &e->id, 0);
		line = line ? strchr(line, '\n') : NULL;
		line = line ? line + 1 : NULL;
	}
	if (rc >= 0) {
		struct git_entries old = *doubtful;

		*doubtful = left;
		left = old;
	}
	return rc;
}

static int merge_sorted(struct git_entries *into, const struct git_entries *more)
{
	AUTO_GIT_ENTRIES both = { 0 };
	size_t i = 0, k = 0;
	int rc = 0;

	while (rc >= 0 && (i < into->n || k < more->n)) {
		bool first = k == more->n || (i < into->n && strcmp(into->v[i].path, more->v[k].path) < 0);
		const struct git_entry *e = first ? &into->v[i++] : &more->v[k++];

		rc = git_entries_add(&both, e->path, e->mode, &e->id, 0);
	}
	if (rc >= 0) {
		struct git_entries old = *into;

		*into = both;
		both = old;
	}
	return rc;
}

/* What differs from the commit in the index, or from the index in the checkout, of the paths that land: by the rules of git status, which would look
 * at all the others too. */
static int find_uncommitted(const struct git_work *w, const struct git_landing *l, const struct git_index_file *f,
			    struct git_entries *ret, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES doubtful = { 0 }, edited = { 0 };
	AUTO_FREE char *index = str_format("%s/uncommitted", w->quarantine);
	struct git_call call = git_work_call(w);
	int rc = index ? 0 : -ENOMEM;

	for (size_t i = 0; i < l->from.n && rc >= 0; i++) {
		const struct git_entry *committed = &l->from.v[i];
		const struct git_entry *e = git_entries_find(&f->entries, committed->path);

		if (is_staged(committed, e))
			rc = git_entries_add(ret, committed->path, committed->mode, &committed->id, 0);
		else if (e && !is_untouched(w, f, e))
			rc = git_entries_add(&doubtful, e->path, e->mode, &e->id, 0);
	}
	if (rc >= 0 && doubtful.n)
		rc = drop_same(w, &doubtful);
	if (rc < 0)
		return error_oom(err, w->operation);
	call.index = index;
	rc = doubtful.n ? git_entries_edited(&call, &doubtful, &edited, err) : 0;
	if (rc < 0)
		return rc;
	return merge_sorted(ret, &edited) < 0 ? error_oom(err, w->operation) : 0;
}

static int refuse_unmerged(const struct git_work *w, const struct git_index_file *f, struct atoll_error *err)
{
	for (size_t i = 0; i < f->entries.n; i++)
		if (f->entries.v[i].stage)
			return error_set(err, ATOLL_REFUSED, 0, "commit", w->repo.top,
					 "\"%s\" has unmerged paths; resolve them first", w->repo.top);
	return 0;
}

/* ---- all of it ---- */

int git_check_landing(const struct git_work *w, struct git_landing *l, const struct part_request *q,
		      struct atoll_error *err)
{
	AUTO_GIT_INDEX_FILE index = { 0 };
	AUTO_GIT_ENTRIES uncommitted = { 0 }, others = { 0 };
	CLEANUP(report_release) struct report p = { .w = w, .q = q };
	int rc = git_index_load(&w->repo, &l->to, strlen(l->new.hex), "commit", &index, err);

	if (rc >= 0)
		rc = refuse_unmerged(w, &index, err);
	if (rc >= 0)
		rc = find_uncommitted(w, l, &index, &uncommitted, err);
	if (rc >= 0)
		rc = git_sparse_mark(w, l, &index.entries, err);
	if (rc >= 0 && git_carried_load_staged(w->r, &p.carried) < 0)
		return error_set(err, ATOLL_FAILED, 0, "commit", w->repo.top,
				 "the record of what was staged in \"%s\" cannot be read", w->repo.top);
	if (rc >= 0)
		rc = find_others(&p, l, &index.entries, &uncommitted, &others, err);
	if (rc < 0)
		return rc;
	check_uncommitted(&p, l, &uncommitted, &index.entries, &others);
	if (check_clashes(&p, l, &index.entries) < 0)
		return error_oom(err, "commit");
	check_files(&p, l, &uncommitted);
	check_plan(&p, l);
	rc = conclude(&p, err);
	if (rc < 0)
		return rc;
	return git_index_note(&index, l) < 0 ? error_oom(err, "commit") : 0;
}
