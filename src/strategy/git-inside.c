/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging the original's branch inside, as git merge would do it there: what others have committed meanwhile comes into the sandbox, where it
 * can be looked at, and what lands afterwards is what is there. Only what merges by itself is merged; else nothing is done.
 *
 * Objects come first, then files, then the index, and the branch last: cut off half-way there are edits inside, which merge again.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

#define LANDING "landing"
#define GITLINK 0160000

static int failed(const struct git_work *w, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "commit", w->r->row.path, "cannot merge into the sandbox's \"%s\"", w->r->row.path);
}

/* ---- objects ---- */

/* The private store may hold anything, links too: nothing is written there but by directory fd. */
static int link_pack(const struct git_work *w, const char *hash)
{
	static const char *const ends[] = { "pack", "idx" };
	AUTO_FD from = fd_open_beneath(w->r->work_fd, w->name, O_RDONLY | O_DIRECTORY);
	AUTO_FD to = fd_make_path(w->r->work_fd, GIT_OBJECTS "/pack");
	int rc = MIN(from, to);

	for (size_t i = 0; i < ARRAY_SIZE(ends) && rc >= 0; i++) {
		AUTO_FREE char *old = str_format(LANDING "-%s.%s", hash, ends[i]);
		AUTO_FREE char *new = str_format("pack-%s.%s", hash, ends[i]);

		rc = old && new ? sys_link(from, old, to, new) : -ENOMEM;
		rc = rc == -EEXIST ? 0 : rc;
	}
	return MIN(rc, 0);
}

static int bring_objects(const struct git_work *w, const struct git_id *merged, struct atoll_error *err)
{
	AUTO_FREE char *base = str_format("%s/" LANDING, w->quarantine);
	AUTO_FREE char *revisions = str_format("%s\n^%s\n^%s\n", merged->hex, w->head.hex, w->tip.hex);
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	struct git_id hash;
	int rc;

	if (!base || !revisions)
		return error_oom(err, "commit");
	call.input = revisions;
	call.input_size = strlen(revisions);
	call.output = &out;
	rc = git_call(&call, err, (const char *const[]){ "pack-objects", "-q", "--revs", base, NULL });
	if (rc < 0)
		return rc;
	rc = git_id_parse(strbuf_str(&out), &hash) ? link_pack(w, hash.hex) : -EINVAL;
	return rc < 0 ? failed(w, rc, err) : 0;
}

/* ---- files ---- */

static int remove_file(int upper, const char *path)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	int rc = fd_open_parent(upper, path, &parent, &name);

	return rc < 0 ? rc : sys_unlink(parent, name, 0);
}

/* Whether a sparse checkout leaves the path out: a marked file that is nowhere, or a new one in a directory that is not there for that reason. */
static bool is_left_out(const struct git_work *w, int upper, const char *path)
{
	return (w->hidden.n || git_sparse_is_marked(w, path)) && git_sparse_is_nowhere(w->r, upper, path);
}

/* What the sandbox has touched is brought up to date in its layer, and what neither side has so is put there; everything else shows the
 * original's version already. What a sparse checkout leaves out stays so, with its mark in the index. */
static int collect(const struct git_work *w, int upper, const struct git_entries *to, const struct git_entries *beyond,
		   struct strbuf *paths, struct strbuf *marked, struct git_entries *unseen)
{
	int rc = 0;

	for (size_t i = 0; i < to->n && rc >= 0; i++) {
		const struct git_entry *e = &to->v[i];
		AUTO_FD there = fd_open_beneath(upper, e->path, O_PATH);
		bool touched = there != -ENOENT && there != -ENOTDIR;

		if (e->mode && e->mode != GITLINK && is_left_out(w, upper, e->path)) {
			strbuf_add(marked, e->path, strlen(e->path) + 1);
			continue;
		}
		if (e->mode == GITLINK || resource_is_others(w->r, e->path))
			continue;
		if (!touched && (!e->mode || !git_entries_find(beyond, e->path))) {
			/* Perhaps the original's sparse checkout leaves it out. */
			if (e->mode && git_sparse_is_nowhere(w->r, upper, e->path))
				rc = git_entries_add(unseen, e->path, e->mode, &e->id, 0);
			continue;
		}
		if (touched && there < 0)
			return there;
		rc = !e->mode ? remove_file(upper, e->path) : git_settle_parents(w->r, upper, e->path);
		if (e->mode)
			strbuf_add(paths, e->path, strlen(e->path) + 1);
	}
	return rc < 0 ? rc : paths->failed || marked->failed ? -ENOMEM : 0;
}

static int bring_files(const struct git_work *w, const struct git_entries *to, const struct git_entries *beyond,
		       struct atoll_error *err)
{
	AUTO_FREE char *prefix = str_format("--prefix=%s/", w->upper), *place = str_format("%s/sparse", w->name);
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_STRBUF info = STRBUF_INIT, paths = STRBUF_INIT, marked = STRBUF_INIT;
	AUTO_GIT_ENTRIES unseen = { 0 };
	struct git_call call = git_work_call(w);
	int rc = !prefix || !place ? -ENOMEM
		 : upper < 0       ? upper
				   : collect(w, upper, to, beyond, &paths, &marked, &unseen);

	git_entries_format(to, strlen(w->tip.hex), &info);
	if (rc >= 0)
		rc = git_settle_format_beside(&w->discarded, to, &info);
	if (rc < 0 || info.failed)
		return failed(w, rc < 0 ? rc : -ENOMEM, err);
	call.index = w->index;
	call.input = strbuf_str(&info);
	call.input_size = info.size;
	rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	call.input = NULL;
	call.input_size = 0;
	if (rc >= 0)
		rc = git_sparse_leaves_out(w->r, &call, place, &unseen, err);
	for (size_t i = 0; i < unseen.n; i++)
		if (unseen.v[i].marks)
			strbuf_add(&marked, unseen.v[i].path, strlen(unseen.v[i].path) + 1);
	if (rc >= 0 && marked.failed)
		return failed(w, -ENOMEM, err);
	call.input = strbuf_str(&marked);
	call.input_size = marked.size;
	if (rc >= 0 && marked.size)
		rc = git_call(&call, err,
			      (const char *const[]){ "update-index", "--skip-worktree", "-z", "--stdin", NULL });
	call.input = strbuf_str(&paths);
	call.input_size = paths.size;
	if (rc >= 0 && paths.size)
		rc = git_call(&call, err,
			      (const char *const[]){ "checkout-index", "-f", "-q", "-z", "--stdin", prefix, NULL });
	return rc;
}

/* ---- index and branch ---- */

static int bring_refs(const struct git_work *w, const struct git_id *merged)
{
	AUTO_FD git = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { git, w->repo.dir_fd, resource_marks(w->r) };
	AUTO_FREE char *ref = NULL, *head = NULL, *path = str_format("%s/index", w->name), *index = NULL;
	struct git_id id;
	size_t size = 0;
	int rc = !path ? -ENOMEM : git < 0 ? git : fd_read_file(w->r->work_fd, path, (size_t)1 << 30, &index, &size);

	if (rc >= 0)
		rc = git_put_file(git, "index", index, size);
	if (rc >= 0)
		rc = git_refs_head(&inside, &ref, &id);
	if (rc < 0)
		return rc;
	/* A branch of the original's own is not moved, not even inside. */
	if (ref && strncmp(ref, "refs/heads/", 11) == 0 && strcmp(ref, w->state.branch) != 0)
		return git_refs_write(git, ref, merged, "atoll-ref");
	head = str_format("ref: %s\n", w->state.own);
	rc = head ? git_refs_write(git, w->state.own, merged, "atoll-ref") : -ENOMEM;
	return rc < 0 ? rc : git_put_file(git, "HEAD", head, strlen(head));
}

static int bring(struct git_work *w, const struct git_id *merged, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES to = { 0 }, beyond = { 0 };
	const struct git_call call = git_work_call(w);
	int rc = git_entries_between(&call, &w->tree, merged, NULL, &to, err);

	if (rc >= 0)
		rc = git_entries_between(&call, &w->head, merged, NULL, &beyond, err);
	if (rc >= 0)
		rc = git_tree_need_index(w, err);
	if (rc >= 0)
		rc = bring_objects(w, merged, err);
	if (rc >= 0)
		rc = bring_files(w, &to, &beyond, err);
	if (rc >= 0)
		rc = git_state_set_under(w->r, &w->head, err);
	if (rc < 0)
		return rc;
	rc = bring_refs(w, merged);
	return rc < 0 ? failed(w, rc, err) : 0;
}

int git_merge(struct resource *r, const char *message, struct atoll_error *err)
{
	AUTO_GIT_WORK w = { .repo = { .dir_fd = -EBADF } };
	struct git_id merged;
	int rc = git_work_make(r, "commit", false, &w, err);

	if (rc < 0)
		return rc;
	/* Leave alone what a commit would refuse anyway, and edits that are to stay uncommitted. */
	if ((w.state.as_is && !git_work_is_clean(&w)) || w.lost_index || w.unmerged || w.unrelated || w.elsewhere ||
	    w.strays.on_own || w.torn || w.crossed.n || w.staged.n || git_work_is_in_the_middle(&w) ||
	    git_id_equal(&w.base, &w.head))
		return 0;
	rc = git_landing_merge(&w, message, &merged, err);
	return rc <= 0 ? rc : bring(&w, &merged, err);
}
