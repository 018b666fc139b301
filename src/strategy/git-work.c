/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sandbox has made of the repository: what HEAD is inside, and, as a tree, what a commit of everything tracked would be. It is computed
 * from files that a command inside may have written (HEAD, refs, index, objects), by the original's configuration, in a quarantine that is
 * removed afterwards.
 *
 * Uncommitted is what the index inside has and, of the paths it lists, what the upper layer has. A file that merely shines through from
 * the original is not looked at: what somebody edits there meanwhile is theirs.
 *
 * Every question to git is a process, so none is asked twice: what changes() has found out is kept for part_prepare().
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"

void git_work_release(struct git_work *w)
{
	git_pack_release(&w->pack);
	if (w->name)
		tree_remove(w->r->work_fd, w->name);
	git_repo_release(&w->repo);
	git_state_release(&w->state);
	changes_free(w->files);
	free(w->quarantine);
	free(w->name);
	free(w->objects);
	free(w->index);
	free(w->upper);
	git_running_release(&w->history);
	strbuf_release(&w->history_said);
	git_running_release(&w->ahead);
	strbuf_release(&w->ahead_said);
	git_running_release(&w->hashing);
	git_running_release(&w->asked);
	strbuf_release(&w->asked_said);
	git_running_release(&w->landing);
	strbuf_release(&w->hashes);
	git_index_file_release(&w->file);
	strbuf_release(&w->commits);
	git_entries_release(&w->tracked);
	git_entries_release(&w->hidden);
	git_entries_release(&w->carried);
	git_entries_release(&w->uncommitted);
	git_entries_release(&w->staged);
	git_entries_release(&w->discarded);
	git_entries_release(&w->crossed);
	git_entries_release(&w->lost);
	git_entries_release(&w->committed);
	git_entries_release(&w->edited);
	git_entries_release(&w->theirs);
	git_entries_release(&w->base_old);
	git_entries_release(&w->base_new);
	git_entries_release(&w->head_old);
	git_entries_release(&w->head_new);
	git_strays_release(&w->strays);
	free(w->on);
	free(w->torn);
}

struct git_call git_work_call(const struct git_work *w)
{
	return (struct git_call){ .repo = &w->repo, .operation = w->operation, .quarantine = w->objects };
}

int git_work_cannot_read(const struct git_work *w, int rc, const char *what, struct atoll_error *err)
{
	bool damaged = rc == -EINVAL || rc == -ELOOP || rc == -ENOTDIR || rc == -EISDIR || rc == -EFBIG;

	if (damaged)
		return error_set(
			err, ATOLL_REFUSED, 0, w->operation, w->r->row.path,
			"a command inside has damaged %s of \"%s\" in the sandbox (%s); repair that inside, or "
			"roll the sandbox back",
			what, w->r->row.path, strerror(-rc));
	return error_sys(err, rc, w->operation, w->r->row.path, "cannot read %s of \"%s\" in the sandbox", what,
			 w->r->row.path);
}

/* ---- the quarantine ---- */

static int name_places(struct git_work *w)
{
	char unique[37];

	random_uuid(unique);
	w->name = str_format(GIT_QUARANTINE "%s", unique);
	w->quarantine = w->name ? str_format("%s/%s", w->r->row.work, w->name) : NULL;
	w->objects = w->quarantine ? str_format("%s/objects", w->quarantine) : NULL;
	w->index = w->quarantine ? str_format("%s/index", w->quarantine) : NULL;
	w->upper = str_format("%s/%s", w->r->row.work, OVERLAY_UPPER);
	return w->objects && w->index && w->upper ? 0 : -ENOMEM;
}

static int make_quarantine(struct git_work *w)
{
	AUTO_FREE char *below = NULL;
	AUTO_FD from = fd_open_beneath(w->r->work_fd, GIT_OBJECTS, O_RDONLY | O_DIRECTORY);
	AUTO_FD to = -EBADF;
	int rc = from < 0 ? from : name_places(w);

	if (rc < 0)
		return rc;
	below = str_format("%s/objects", w->name);
	to = below ? fd_make_path(w->r->work_fd, below) : -ENOMEM;
	return to < 0 ? to : git_objects_import(from, to);
}

/* ---- history ---- */

/* Two lines, each an object's name. */
static int ask_two(const struct git_work *w, const char *first, const char *second, struct git_id *ret_a,
		   struct git_id *ret_b, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	call.output = &out;
	rc = git_call(&call, err, (const char *const[]){ "rev-parse", first, second, NULL });
	if (rc < 0)
		return rc;
	if (!git_id_parse(strbuf_str(&out), ret_a) || !strchr(out.data, '\n') ||
	    !git_id_parse(strchr(out.data, '\n') + 1, ret_b))
		return error_set(err, ATOLL_FAILED, 0, w->operation, w->r->row.path,
				 "what git says of \"%s\" is not understood", w->r->row.path);
	return 0;
}

/* Whether the branch has no commit inside because the original had none, and nothing was committed since. */
static bool is_before_first(const struct git_work *w, int rc)
{
	const struct git_id *root = &w->state.root;

	return rc == -ENOENT && *root->hex && w->on && strcmp(w->on, w->state.branch) == 0 &&
	       (git_id_equal(&w->state.base, root) || git_id_equal(&w->head, root));
}

static bool is_root(const struct git_work *w, const struct git_id *id)
{
	return *w->state.root.hex && git_id_equal(id, &w->state.root);
}

/* What HEAD is inside, as the files there say it. What was edited on a branch without a commit, or
 * without a HEAD that can be read, is compared with the base. */
static int read_tip(struct git_work *w, const struct git_refs *inside, struct atoll_error *err)
{
	int rc = git_refs_head(inside, &w->on, &w->tip);

	w->headless = rc < 0;
	if (rc >= 0 && w->on)
		rc = git_refs_read(inside, w->on, &w->tip);
	if (rc == -ENOMEM)
		return error_oom(err, w->operation);
	w->unborn = rc < 0 && !is_before_first(w, rc);
	if (rc < 0)
		w->tip = w->unborn ? w->state.base : w->state.root;
	w->elsewhere = w->unborn || !w->on || (strcmp(w->on, w->state.own) != 0 && strcmp(w->on, w->state.branch) != 0);
	w->busy = git_repo_operation(inside->upper_fd);
	return 0;
}

static int read_head(struct git_work *w, struct atoll_error *err)
{
	const struct git_refs outside = { -EBADF, w->repo.dir_fd };
	int rc = git_refs_read(&outside, w->state.branch, &w->head);

	if (rc == -ENOENT)
		w->head = *w->state.root.hex ? w->state.root : w->state.base;
	else if (rc < 0)
		return error_sys(err, rc, w->operation, w->repo.top, "cannot read \"%s\" of \"%s\"", w->state.branch,
				 w->repo.top);
	return 0;
}

/* "MARK HASH TREE\tSHORT\tSUBJECT", of a commit made inside (>) or of one where those begin (-). */
static bool read_commit(struct git_work *w, const char *line, bool first)
{
	const char *tree = strchr(line, ' '), *text = strchr(line, '\t');
	struct git_id id, its_tree;

	if (!tree || !text || !git_id_parse(line + 1, &id) || !git_id_parse(tree + 1, &its_tree))
		return false;
	if (line[0] == '-') {
		if (git_id_equal(&id, &w->head))
			w->base = id;
		return true;
	}
	strbuf_addf(&w->commits, "%s\n", text + 1);
	w->n_commits++;
	if (first)
		w->tip_tree = its_tree;
	return !first || git_id_equal(&id, &w->tip);
}

static int start_history(struct git_work *w, struct atoll_error *err)
{
	AUTO_FREE char *without = str_format("^%s", w->head.hex);
	struct git_call call = git_work_call(w);

	if (!without)
		return error_oom(err, w->operation);
	strbuf_truncate(&w->history_said, 0);
	call.output = &w->history_said;
	return git_call_start(&call, &w->history, err,
			      (const char *const[]){ "log", "--no-show-signature", "--boundary", GIT_COMMITS_SHOWN,
						     "--format=%m%H %T%x09%h%x09%s", w->tip.hex, without, NULL });
}

/* Reads the commits and their base from git's answer. Returns 1 if the answer is enough: HEAD
 * inside descends from the original's branch, as is usual. */
static int read_history(struct git_work *w, struct atoll_error *err)
{
	char *save = NULL;
	bool first = true;

	strbuf_truncate(&w->commits, 0);
	w->n_commits = 0;
	w->base = (struct git_id){ "" };
	if (git_call_finish(&w->history, NULL) < 0)
		return 0;
	for (char *line = w->history_said.size ? strtok_r(w->history_said.data, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save), first = false)
		if (!read_commit(w, line, first))
			return 0;
	return w->commits.failed ? error_oom(err, w->operation) : *w->base.hex && w->n_commits < GIT_COMMITS_MAX;
}

static int peel_tip(struct git_work *w, struct atoll_error *err)
{
	AUTO_FREE char *commit = str_format("%s^{commit}", w->tip.hex), *tree = str_format("%s^{tree}", w->tip.hex);
	struct atoll_error said = { 0 };

	if (!commit || !tree)
		return error_oom(err, w->operation);
	if (ask_two(w, commit, tree, &w->tip, &w->tip_tree, &said) < 0)
		return error_set(err, ATOLL_REFUSED, 0, w->operation, w->r->row.path,
				 "HEAD of \"%s\" in the sandbox is no commit that can be read: %s", w->r->row.path,
				 said.message);
	return 0;
}

/* The first commits have nothing in common with a commit that no command made. */
static int start_at_root(struct git_work *w)
{
	w->base = w->state.root;
	if (is_root(w, &w->tip)) {
		strbuf_truncate(&w->commits, 0);
		w->n_commits = 0;
	}
	return 0;
}

static int ask_base(struct git_work *w, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = git_work_call(w);
	int rc;

	if (is_root(w, &w->head) || is_root(w, &w->tip))
		return start_at_root(w);
	call.output = &out;
	call.also = 1;
	rc = git_call(&call, err, (const char *const[]){ "merge-base", w->head.hex, w->tip.hex, NULL });
	if (rc < 0)
		return rc;
	w->unrelated = !git_id_parse(strbuf_str(&out), &w->base);
	if (w->unrelated)
		w->base = w->state.base;
	return 0;
}

/* Tip, its tree, what it has in common with the original's branch, and the commits between. */
static int find_history(struct git_work *w, struct atoll_error *err)
{
	const struct git_id named = w->tip;
	int rc = w->history.started ? read_history(w, err) : 0;

	if (rc != 0)
		return MIN(rc, 0);
	rc = peel_tip(w, err);
	/* Of another branch only what is not committed there is an edit. */
	if (w->elsewhere)
		w->base = w->tip;
	if (w->elsewhere)
		return rc;
	if (rc < 0)
		return rc;
	/* A tag, say. */
	if (!git_id_equal(&named, &w->tip))
		rc = start_history(w, err);
	if (rc >= 0 && w->history.started)
		rc = read_history(w, err);
	if (rc >= 0 && git_id_equal(&w->head, &w->tip))
		w->base = w->head;
	else if (rc >= 0)
		rc = ask_base(w, err);
	return MIN(rc, 0);
}

/* ---- against the original ---- */

static int compare(struct git_work *w, struct atoll_error *err)
{
	const struct git_call call = git_work_call(w);
	int rc = w->compared ? 0 : git_entries_between(&call, &w->base, &w->tree, &w->base_old, &w->base_new, err);

	if (rc < 0 || git_id_equal(&w->base, &w->head))
		return rc;
	return git_entries_between(&call, &w->head, &w->tree, &w->head_old, &w->head_new, err);
}

/* Where the file differs from both the base and HEAD inside, it says what lands: the staged entry was an earlier version of it. Elsewhere the
 * staged entry is all there is of that work. */
static int drop_written(struct git_work *w, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES edited = { 0 };
	const struct git_call call = git_work_call(w);
	bool moved = w->staged.n && !git_id_equal(&w->base, &w->tip);
	int rc = moved ? git_entries_between(&call, &w->tip, &w->tree, NULL, &edited, err) : 0;
	size_t kept = 0;

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < w->staged.n; i++) {
		const char *path = w->staged.v[i].path;

		if (git_entries_find(&w->base_new, path) && (!moved || git_entries_find(&edited, path)))
			free(w->staged.v[i].path);
		else
			w->staged.v[kept++] = w->staged.v[i];
	}
	w->staged.n = kept;
	return 0;
}

const char *git_work_original_name(const struct git_work *w)
{
	return w->on && strcmp(w->on, w->state.branch) == 0 ? GIT_ORIGINAL : w->state.branch + strlen("refs/heads/");
}

const struct git_entry *git_work_original(const struct git_work *w, const char *path)
{
	bool moved = !git_id_equal(&w->base, &w->head);

	return git_entries_find(moved ? &w->head_old : &w->base_old, path);
}

bool git_work_is_in_the_middle(const struct git_work *w)
{
	return w->busy && strcmp(w->busy, "a bisection") != 0;
}

/* Whether neither the tree nor the base has a path that does not differ between them. If a command inside has removed
 * a file that its index lists, the tree does not have it. */
static bool is_untracked(const struct git_work *w, const struct change *c)
{
	return !c->has_after || !git_entries_find(&w->tracked, c->path);
}

bool git_work_lands(const struct git_work *w, const struct change *c, bool *ret_judged)
{
	const struct git_entry *before = git_work_original(w, c->path), *to = git_entries_find(&w->base_new, c->path);

	*ret_judged = false;
	if (w->elsewhere)
		return !before && is_untracked(w, c);
	*ret_judged = before && (before->mode || c->gone);
	/* An edit inside may take a file back to the version of the base, which the original's branch
	 * has left, as a commit made inside has. */
	if (!to && before && w->state.as_is && git_entries_find(&w->edited, c->path))
		return true;
	/* A file that both sides have removed from git is an ordinary untracked file. */
	if (to)
		return before || !to->mode;
	*ret_judged = false;
	/* What the original's branch has, and inside is as it was before that, is not the sandbox's doing: nor is that it is not there yet. */
	return !before && is_untracked(w, c);
}

bool git_work_touches(const struct changes *changes, const char *path)
{
	for (size_t i = 0; i < changes->n; i++)
		if (!changes->v[i].part && !changes->v[i].implied && path_is_below(changes->v[i].path, path))
			return true;
	return false;
}

static int make(struct git_work *w, bool exact, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { upper, w->repo.dir_fd, resource_marks(w->r) };
	int rc;

	w->files = overlay_changes(w->r, exact, err);
	if (!w->files)
		return -(int)MAX(err->code, ATOLL_FAILED);
	changes_sort(w->files);
	rc = upper < 0 ? upper : make_quarantine(w);
	if (rc < 0)
		return git_work_cannot_read(w, rc, "the objects", err);
	rc = read_head(w, err);
	if (rc >= 0)
		rc = read_tip(w, &inside, err);
	/* Starts git before reading the index, so that it works meanwhile. */
	if (rc >= 0 && !w->elsewhere && !git_id_equal(&w->head, &w->tip))
		rc = start_history(w, err);
	if (rc >= 0)
		rc = git_tree_read(w, &inside, err);
	if (rc >= 0)
		rc = find_history(w, err);
	if (rc >= 0)
		rc = git_tree_make(w, err);
	git_running_release(&w->ahead);
	git_running_release(&w->hashing);
	if (rc >= 0)
		rc = compare(w, err);
	if (rc >= 0)
		rc = drop_written(w, err);
	if (rc >= 0)
		rc = git_outside_find_crossed(w, err);
	if (rc >= 0 && w->state.carried)
		rc = git_carried_find(w, err);
	if (rc >= 0)
		rc = git_as_is_find(w, err);
	return rc < 0 ? rc : git_strays_find(w, &inside, err);
}

int git_work_make(struct resource *r, const char *operation, bool exact, struct git_work *ret, struct atoll_error *err)
{
	int rc;

	*ret = (struct git_work){ .r = r, .operation = operation, .repo = { .dir_fd = -EBADF } };
	rc = git_repo_reopen(r->row.path, operation, &ret->repo, err);
	if (rc >= 0)
		rc = git_settle_now(r, &ret->repo, operation, err);
	if (rc >= 0)
		rc = git_state_load(r, &ret->state, err);
	if (rc >= 0 && *ret->state.root.hex)
		rc = git_root_renew(&ret->repo, &ret->state.root, operation, err);
	return rc < 0 ? rc : make(ret, exact, err);
}

/* ---- kept from one call to the next ---- */

/* Running calls of git point into the struct, which the caller has copied to another place. */
static void repoint(struct git_work *w)
{
	w->asked.call.repo = w->pack.running.call.repo = w->landing.call.repo = &w->repo;
	w->asked.call.output = &w->asked_said;
}

void git_work_keep(struct git_work *w)
{
	struct git_work *kept = malloc(sizeof *kept);

	git_work_forget(w->r);
	if (!kept)
		return;
	*kept = *w;
	repoint(kept);
	w->r->kept = kept;
	*w = (struct git_work){ .repo = { .dir_fd = -EBADF } };
}

void git_work_forget(struct resource *r)
{
	struct git_work *kept = r->kept;

	r->kept = NULL;
	if (kept)
		git_work_release(kept);
	free(kept);
}

int git_work_finish(struct resource *r, struct atoll_error *err)
{
	struct git_work *kept = r->kept;
	int rc = kept && kept->landing.started ? git_call_finish(&kept->landing, err) : 0;

	git_work_forget(r);
	return rc;
}

/* Of what it was made from only the original's branch can have moved: the sandbox is locked, and nothing runs in it. */
int git_work_take(struct resource *r, const char *operation, struct git_work *ret, struct atoll_error *err)
{
	struct git_work *kept = r->kept;
	struct git_id head;
	char *torn;
	int rc;

	if (!kept)
		return git_work_make(r, operation, false, ret, err);
	r->kept = NULL;
	*ret = *kept;
	repoint(ret);
	free(kept);
	ret->operation = operation;
	head = ret->head;
	if (read_head(ret, err) >= 0 && git_id_equal(&head, &ret->head))
		return 0;
	torn = TAKE_PTR(ret->torn);
	git_work_release(ret);
	rc = git_work_make(r, operation, false, ret, err);
	ret->torn = torn;
	return rc;
}
