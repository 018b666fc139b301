/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit that is to be the branch's tip: what HEAD is inside, with a commit of what is uncommitted there on top; and, where the original's
 * branch has moved on, a merge of the two. Files that both sides changed are merged by a person, or by git, inside: what lands is
 * what was seen there.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

void git_landing_release(struct git_landing *l)
{
	git_entries_release(&l->from);
	git_entries_release(&l->to);
	git_entries_release(&l->index);
	free(l->who);
	free(l->message);
	*l = (struct git_landing){ 0 };
}

/* ---- who commits ---- */

int git_landing_ask(struct git_work *w, struct atoll_error *err)
{
	const struct git_call call = { .repo = &w->repo, .operation = w->operation, .output = &w->asked_said };

	if (w->asked.started || w->asked_said.size)
		return 0;
	return git_call_start(&call, &w->asked, err, (const char *const[]){ "var", "GIT_COMMITTER_IDENT", NULL });
}

int git_landing_identify(struct git_work *w, struct git_landing *l, struct atoll_error *err)
{
	char *end;

	if (l->who || (!w->asked.started && !w->asked_said.size))
		return 0;
	if (w->asked.started && git_call_finish(&w->asked, NULL) < 0)
		return error_set(err, ATOLL_REFUSED, 0, w->operation, w->repo.top,
				 "git does not know who commits to \"%s\"; set user.name and user.email there",
				 w->repo.top);
	end = strrchr(strbuf_str(&w->asked_said), '>');
	l->who = end ? strndup(w->asked_said.data, (size_t)(end + 1 - w->asked_said.data)) : strdup("");
	return l->who ? 0 : error_oom(err, w->operation);
}

/* Where something is committed here it has to be known first. */
static int find_identity(struct git_work *w, struct git_landing *l, bool now, struct atoll_error *err)
{
	int rc = git_landing_ask(w, err);

	return rc < 0 || !now ? rc : git_landing_identify(w, l, err);
}

/* ---- the commit ---- */

static int make_commit(const struct git_work *w, const struct git_id *tree, const struct git_id *first,
		       const struct git_id *second, const char *message, struct git_id *ret, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	call.output = &out;
	call.input = message;
	call.input_size = strlen(message);
	if (second)
		rc = git_call(&call, err,
			      (const char *const[]){ "commit-tree", tree->hex, "-p", first->hex, "-p", second->hex,
						     NULL });
	else
		rc = git_call(&call, err, (const char *const[]){ "commit-tree", tree->hex, "-p", first->hex, NULL });
	if (rc >= 0 && !git_id_parse(strbuf_str(&out), ret))
		return error_set(err, ATOLL_FAILED, 0, w->operation, w->repo.top,
				 "what git commit-tree says of \"%s\" is not understood", w->repo.top);
	return rc;
}

/* malloc'ed */
static char *default_message(const struct git_work *w, const char *given)
{
	return given && *given ? strdup(given) : str_format("Changes made in the sandbox %s", w->r->sandbox);
}

static const char *branch_name(const struct git_work *w)
{
	return w->state.branch + strlen("refs/heads/");
}

static int tell_conflict(const struct git_work *w, const struct part_request *q, const char *path)
{
	AUTO_FREE char *why =
		str_format("was changed on both sides; run git merge %s in the sandbox and resolve it there",
			   git_work_original_name(w));

	return why ? q->tell(q->tell_arg, ATOLL_ITEM_CONFLICT, path, why) : -ENOMEM;
}

/* Advice to remove the files that only the original's branch has added, malloc'ed; "" if there are
 * none. The inside shows these files, and git merge takes them for untracked files in its way. */
static char *name_added(const struct git_work *w)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	const char *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < w->head_old.n; i++) {
		const char *path = w->head_old.v[i].path;

		if (!w->head_old.v[i].mode || w->head_new.v[i].mode || git_entries_find(&w->base_new, path) ||
		    git_sparse_is_nowhere(w->r, upper, path))
			continue;
		first = n++ ? first : path;
	}
	if (!n)
		return strdup("");
	return n == 1 ? str_format("; remove \"%s\" inside before git merge: \"%s\" has added it since", first,
				   branch_name(w))
		      : str_format("; remove \"%s\" and %zu more inside before git merge: \"%s\" has added them since",
				   first, n - 1, branch_name(w));
}

static int conflicts(const struct git_work *w, size_t n, struct atoll_error *err)
{
	AUTO_FREE char *added = name_added(w);

	if (!added)
		return error_oom(err, w->operation);
	return error_set(
		err, ATOLL_CONFLICT, 0, w->operation, w->repo.top,
		"%zu path%s changed on both sides, in the sandbox and on \"%s\" of \"%s\"; nothing was committed%s", n,
		n == 1 ? " was" : "s were", branch_name(w), w->repo.top, added);
}

/* The tree, and after it the paths that could not be merged. */
static int tell_unmerged(const struct git_work *w, const struct part_request *q, const struct strbuf *out,
			 struct atoll_error *err)
{
	const char *end = out->data + out->size;
	size_t n = 0;

	for (const char *at = out->data + strlen(out->data) + 1; at < end && *at; at += strlen(at) + 1, n++)
		if (tell_conflict(w, q, at) < 0)
			return error_oom(err, w->operation);
	return conflicts(w, n, err);
}

static int merge(const struct git_work *w, const struct git_id *own, const struct part_request *q, struct git_id *ret,
		 struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	call.output = &out;
	call.also = 1;
	rc = git_call(&call, err,
		      (const char *const[]){ "-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", "-z",
					     "--name-only", "--no-messages", w->head.hex, own->hex, NULL });
	if (rc == 1)
		return tell_unmerged(w, q, &out, err);
	if (rc >= 0 && !git_id_parse(strbuf_str(&out), ret))
		return error_set(err, ATOLL_FAILED, 0, w->operation, w->repo.top,
				 "what git merge-tree says of \"%s\" is not understood", w->repo.top);
	return rc;
}

/* What git could merge within a file is in neither checkout. */
static int check_merged(const struct git_work *w, const struct git_landing *l, const struct part_request *q,
			struct atoll_error *err)
{
	AUTO_GIT_ENTRIES other = { 0 };
	const struct git_call call = git_work_call(w);
	size_t n = 0;
	/* With as_is, edits inside stay uncommitted: compare them as files of the checkout. */
	int rc = git_entries_between(&call, &l->new, w->state.as_is ? &w->tip_tree : &w->tree, NULL, &other, err);

	for (size_t i = 0; i < other.n && rc >= 0; i++) {
		if (!git_entries_find(&l->to, other.v[i].path))
			continue;
		n++;
		if (tell_conflict(w, q, other.v[i].path) < 0)
			return error_oom(err, w->operation);
	}
	return rc < 0 ? rc : n ? conflicts(w, n, err) : 0;
}

static int find_tip(const struct git_work *w, const struct part_request *q, const char *message, struct git_landing *l,
		    struct atoll_error *err)
{
	struct git_id own = w->tip, tree;
	int rc = 0;

	if (git_work_commits_edits(w))
		rc = make_commit(w, &w->tree, &w->tip, NULL, message, &own, err);
	l->new = own;
	if (rc < 0 || git_id_equal(&w->base, &w->head))
		return rc;
	rc = merge(w, &own, q, &tree, err);
	return rc < 0 ? rc : make_commit(w, &tree, &w->head, &own, message, &l->new, err);
}

/* Where the original's branch has not moved on it is known already. */
static int find_difference(const struct git_work *w, struct git_landing *l, struct atoll_error *err)
{
	const struct git_call call = git_work_call(w);

	if (!git_id_equal(&w->base, &w->head) || (w->state.as_is && !git_work_is_clean(w)))
		return git_entries_between(&call, &l->old, &l->new, &l->from, &l->to, err);
	if (git_entries_copy(&w->base_old, &l->from) < 0 || git_entries_copy(&w->base_new, &l->to) < 0)
		return error_oom(err, w->operation);
	return 0;
}

int git_landing_make(struct git_work *w, const struct part_request *q, struct git_landing *ret, struct atoll_error *err)
{
	AUTO_FREE char *message = default_message(w, q->message);
	int rc;

	if (!message)
		return error_oom(err, w->operation);
	rc = find_identity(w, ret, git_work_commits_edits(w) || !git_id_equal(&w->base, &w->head), err);
	ret->old = w->head;
	if (rc >= 0)
		rc = find_tip(w, q, message, ret, err);
	if (rc >= 0)
		rc = find_difference(w, ret, err);
	if (rc >= 0 && !git_id_equal(&w->base, &w->head))
		rc = check_merged(w, ret, q, err);
	ret->message = str_format("atoll: commit %s: %.*s", w->r->sandbox, (int)strcspn(message, "\n"), message);
	return rc < 0 ? rc : ret->message ? 0 : error_oom(err, w->operation);
}

static int ignore(void *arg, enum atoll_item_kind kind, const char *path, const char *why)
{
	return 0;
}

int git_landing_merge(struct git_work *w, const char *message, struct git_id *ret, struct atoll_error *err)
{
	const struct part_request quiet = { .tell = ignore };
	AUTO_FREE char *edits = default_message(w, message);
	AUTO_FREE char *title = str_format("Merge branch '%s' into the sandbox %s", branch_name(w), w->r->sandbox);
	AUTO_GIT_LANDING unused = { 0 };
	struct atoll_error said = { 0 };
	struct git_id own = w->tip, tree;
	int rc = edits && title ? find_identity(w, &unused, true, err) : error_oom(err, w->operation);

	if (rc >= 0 && !git_work_is_clean(w))
		rc = make_commit(w, &w->tree, &w->tip, NULL, edits, &own, err);
	if (rc < 0)
		return rc;
	rc = merge(w, &own, &quiet, &tree, &said);
	if (rc == -ATOLL_CONFLICT)
		return 0;
	if (rc < 0 && err)
		*err = said;
	if (rc >= 0)
		rc = make_commit(w, &tree, &own, &w->head, title, ret, err);
	return rc < 0 ? rc : 1;
}

int git_landing_none(const struct git_work *w, struct git_landing *ret, struct atoll_error *err)
{
	ret->old = ret->new = w->head;
	ret->who = strdup("-");
	ret->message = strdup("-");
	return ret->who && ret->message ? 0 : error_oom(err, w->operation);
}
