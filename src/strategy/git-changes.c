/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has changed: of the overlay's list what git does not say is as it was, the commits, and the refs. */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define GITLINK 0160000

static bool is_directory(const struct change *c)
{
	return S_ISDIR(c->has_after ? c->after.mode : c->before.mode);
}

/* ---- files ---- */

#define NOT_ON_BRANCH "was edited on another branch inside, and does not land"
#define COMMITTED_SINCE "was taken back to its commit inside, and does not land: the original has committed it since"

#define EDITED_UNTRACKED "was edited inside, where git does not track it, and the original has committed it since"
#define REMOVED_UNTRACKED "was removed inside, where git did not track it, and the original has committed it since"
#define NOT_CARRIED                                                                                       \
	"was taken back to its commit inside, and does not land: the original's index marks the file as " \
	"assume-unchanged or skip-worktree"

/* A path that the sandbox and another process have both removed, and that neither the original's
 * branch nor the sandbox's tree has: the merge of both has nothing there, so nothing lands. */
static bool is_removed_on_both_sides(const struct git_work *w, const struct change *c)
{
	return c->gone && !c->has_after && !git_work_original(w, c->path);
}

static void mark(struct change *c)
{
	c->kind = ATOLL_SKIPPED;
	c->note = NULL;
}

static bool is_marked(const struct change *c)
{
	return c->kind == ATOLL_SKIPPED && !c->note;
}

/* What came along, and is at its commit's version again: an edit of the file alone, since the commit has it already. */
static void mark_reverted(const struct git_work *w, struct change *c)
{
	c->judged = false;
	c->note = w->elsewhere                    ? NOT_ON_BRANCH
		  : git_work_original(w, c->path) ? COMMITTED_SINCE
		  : !w->state.carried             ? NOT_CARRIED
						  : NULL;
	if (c->note)
		c->kind = ATOLL_SKIPPED;
}

/* For a directory that was removed as a whole, mark_removed() marks the directory instead of its
 * files. */
static bool is_crossed(const struct git_work *w, const struct change *c)
{
	return !(c->below && !c->has_after) && git_entries_find(&w->crossed, c->path);
}

/* Whether a command inside has changed mode or owner of a file whose content another process has
 * changed in the original since: the commit must not leave that unsaid. */
static bool has_own_metadata(const struct git_work *w, const struct change *c)
{
	struct store_touch base;

	return c->has_before && c->before.ctime >= resource_stamp(w->r, c->path) &&
	       overlay_base(w->r, c->path, &base, NULL) > 0 && (base.trusted & STORE_TRUST_META) &&
	       (c->after.mode != base.look.mode || c->after.uid != base.look.uid || c->after.gid != base.look.gid);
}

/* Git compares no more of a mode than whether the file is executable, and no owners or attributes. A
 * repository that was taken as it is lands them as any directory does. A commit calls a file of another
 * time modified, and has not compared the contents. */
static bool is_metadata_edit(const struct git_work *w, int upper_fd, const struct change *c)
{
	const unsigned metadata = ATOLL_WHAT_MODE | ATOLL_WHAT_OWNER | ATOLL_WHAT_XATTR;

	return w->state.as_is && !w->elsewhere && (c->what & metadata) && !git_work_original(w, c->path) &&
	       !git_entries_find(&w->hidden, c->path) &&
	       (c->kind == ATOLL_META || (c->kind == ATOLL_MODIFIED &&
					  (git_carried_is_like_original(w, upper_fd, c) || has_own_metadata(w, c))));
}

/* Marks what is not the sandbox's doing, as SKIPPED. Returns whether there is any. */
static bool mark_unchanged(const struct git_work *w, struct changes *list)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	bool any = false;

	for (size_t i = 0; i < list->n; i++) {
		struct change *c = &list->v[i];

		if (is_directory(c) || c->kind == ATOLL_SKIPPED)
			continue;
		if (is_crossed(w, c)) {
			c->kind = ATOLL_SKIPPED;
			c->note = c->has_after ? EDITED_UNTRACKED : REMOVED_UNTRACKED;
			continue;
		}
		if (w->elsewhere && git_entries_find(&w->base_new, c->path) && !git_entries_find(&w->hidden, c->path)) {
			c->kind = ATOLL_SKIPPED;
			c->note = NOT_ON_BRANCH;
			continue;
		}
		if (!is_removed_on_both_sides(w, c) && !git_entries_find(&w->hidden, c->path) &&
		    git_work_lands(w, c, &c->judged)) {
			c->judged &= !w->state.carried || git_carried_is_for_commits(w, c->path);
			continue;
		}
		if (is_metadata_edit(w, upper, c) || git_as_is_edits_file(w, upper, c)) {
			c->judged = false;
			continue;
		}
		if (git_carried_is_reverted(w, upper, c)) {
			mark_reverted(w, c);
			continue;
		}
		mark(c);
		any = true;
	}
	return any;
}

/* Whether a new directory, the i-th change, holds such files, and nothing else. */
static bool has_marked_alone_below(const struct changes *list, size_t i)
{
	bool marked = false;

	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, list->v[i].path); k++) {
		if (is_marked(&list->v[k]))
			marked = true;
		else if (!is_directory(&list->v[k]))
			return false;
	}
	return marked;
}

static bool is_parent_of_marked(const struct changes *list, size_t i)
{
	size_t size = strlen(list->v[i].path);

	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, list->v[i].path); k++)
		if (is_marked(&list->v[k]) && path_parent_size(list->v[k].path) == size)
			return true;
	return false;
}

static bool has_hidden_below(const struct git_work *w, const struct changes *list, size_t i)
{
	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, list->v[i].path); k++)
		if (is_marked(&list->v[k]) && git_entries_find(&w->hidden, list->v[k].path))
			return true;
	return false;
}

static bool has_marked_below(const struct changes *list, size_t i)
{
	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, list->v[i].path); k++)
		if (is_marked(&list->v[k]))
			return true;
	return false;
}

/* Whether another process has put the entry there, or changed it, since the sandbox began. */
static bool is_newer(const struct git_work *w, const struct change *c)
{
	return c->before.ctime >= (is_directory(c) ? resource_dir_stamp(w->r, c->path) : resource_stamp(w->r, c->path));
}

/* Git removes a directory that a sparse checkout inside leaves out, with the ignored files in it. Below the i-th change, such
 * a directory, each file goes by itself that git has removed inside or a commit has deleted. The hidden files stay, and so
 * does what is untracked and newer, or in a directory that is: the sandbox has never seen it so. */
static void split_hidden(const struct git_work *w, struct changes *list, size_t i)
{
	const char *top = list->v[i].path, *newer = NULL;

	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, top); k++) {
		struct change *c = &list->v[k];

		if (newer && !path_is_below(c->path, newer))
			newer = NULL;
		if (!newer && is_directory(c) && is_newer(w, c))
			newer = c->path;
		if (!is_marked(c) && !git_work_original(w, c->path) && (newer || is_newer(w, c)))
			mark(c);
	}
	for (size_t k = i; k < list->n && path_is_below(list->v[k].path, top); k++)
		if (is_directory(&list->v[k]) && has_marked_below(list, k))
			mark(&list->v[k]);
}

/* A directory that is not there inside was removed, with what was in it; or it was there before anything was put into it that stays. Of one that is
 * both, nothing can be said. */
static int mark_removed(struct git_work *w, struct changes *list, size_t i)
{
	struct change *c = &list->v[i];
	bool stays = false, goes = false;

	/* The directory held files that git did not track inside. */
	for (size_t k = 0; k < w->crossed.n && !goes; k++)
		goes = path_is_below(w->crossed.v[k].path, c->path);

	for (size_t k = i + 1; k < list->n && path_is_below(list->v[k].path, c->path); k++)
		if (!is_directory(&list->v[k]))
			*(is_marked(&list->v[k]) ? &stays : &goes) = true;
	if (!stays)
		return 0;
	mark(c);
	if (!goes || w->torn)
		return 0;
	w->torn = strdup(c->path);
	return w->torn ? 0 : -ENOMEM;
}

/* Directories are there because of what is in them: one that holds nothing of the sandbox's goes, as do times that only moved. */
static int mark_directories(struct git_work *w, struct changes *list)
{
	for (size_t i = 0; i < list->n && w->hidden.n; i++)
		if (list->v[i].kind == ATOLL_DELETED && is_directory(&list->v[i]) && has_hidden_below(w, list, i))
			split_hidden(w, list, i);
	for (size_t i = list->n; i-- > 0;) {
		struct change *c = &list->v[i];
		bool arrives = c->kind == ATOLL_ADDED || c->kind == ATOLL_TYPE;
		bool only_times = !(c->what & ~(unsigned)ATOLL_WHAT_TIME);

		if (!is_directory(c) || is_marked(c))
			continue;
		if (c->kind == ATOLL_DELETED) {
			if (mark_removed(w, list, i) < 0)
				return -ENOMEM;
			continue;
		}
		if (arrives ? has_marked_alone_below(list, i) : only_times && is_parent_of_marked(list, i))
			mark(c);
	}
	return 0;
}

/* Whether a file that is as the commit inside has it goes with the layer, so that the inside shows the
 * original's file: the original's commit has the same version. If the file stayed, a later edit of it
 * would overwrite what the user has edited since the file was written inside, because the landing
 * renews the time by which Atoll knows the user's edits. */
static bool may_go(const struct git_work *w, const struct changes *list, size_t i)
{
	const char *path = list->v[i].path;

	return w->state.as_is && !w->elsewhere && !is_directory(&list->v[i]) && list->v[i].has_before &&
	       list->v[i].has_after && !git_work_original(w, path) && !git_entries_find(&w->hidden, path);
}

/* Where the inside stays at its commit, so do its files: nothing is said of them. The whiteout of a hidden file, or of its
 * directory, stays too: the index inside still has the file's mark, and git takes that away where it sees the file. */
static void keep_marked(const struct git_work *w, struct changes *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct change *c = &list->v[i];

		if (!is_marked(c) || may_go(w, list, i))
			continue;
		if (!c->has_after && (git_entries_find(&w->hidden, c->path) || has_hidden_below(w, list, i)))
			c->has_after = c->after.mode != 0;
		c->note = "is as it was in the commit";
		c->implied = true;
	}
}

/* What would arrive with a directory stays in the list, to be left behind; everything else simply is no change. */
static void drop_marked(struct changes *list)
{
	const char *arriving = NULL; /* the new directory one is in */
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct change *c = &list->v[i];

		if (arriving && !path_is_below(c->path, arriving))
			arriving = NULL;
		if (is_marked(c) && !arriving) {
			free(c->path);
			free(c->old_path);
			free(c->words);
			continue;
		}
		if (is_marked(c))
			c->note = "is as it was in the commit";
		list->v[kept] = *c;
		if (!arriving && is_directory(c) && (c->kind == ATOLL_ADDED || c->kind == ATOLL_TYPE))
			arriving = c->path;
		kept++;
	}
	list->n = kept;
}

/* ---- commits and refs ---- */

static int add_more(const struct git_work *w, struct changes *list, enum atoll_change_kind kind,
		    struct atoll_error *err)
{
	return changes_add_part(list, "commits", kind, "more were made inside than are listed")
		       ? 0
		       : error_oom(err, w->operation);
}

static int add_commits(struct git_work *w, struct changes *list, struct atoll_error *err)
{
	char *save = NULL;

	for (char *line = w->commits.size ? strtok_r(w->commits.data, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *tab = strchr(line, '\t');
		AUTO_FREE char *label = tab ? str_format("commit %.*s", (int)(tab - line), line) : NULL;

		if (tab && (!label || !changes_add_part(list, label, ATOLL_ADDED, tab + 1)))
			return error_oom(err, w->operation);
	}
	return w->n_commits < GIT_COMMITS_MAX ? 0 : add_more(w, list, ATOLL_ADDED, err);
}

static int add_branch(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	const char *note = !git_work_commits_edits(w) ? "moves to what was committed inside"
			   : git_id_equal(&w->base, &w->tip)
				   ? "moves to a commit of what was edited inside"
				   : "moves to what was committed inside, and a commit of what was edited since";

	return changes_add_part(list, w->state.branch, ATOLL_MODIFIED, note) ? 0 : error_oom(err, w->operation);
}

/* What lands on the branch while no file does: what is committed or staged inside, and whose file is as it was or not there. On another branch it is
 * uncommitted, and does not land. */
static bool is_index_only(const struct git_work *w, const struct changes *list, size_t i)
{
	const char *path = w->base_new.v[i].path;

	return (w->elsewhere || git_as_is_is_committed(w, &w->base_new.v[i])) && w->base_new.v[i].mode != GITLINK &&
	       w->base_old.v[i].mode != GITLINK && !changes_find(list, path) &&
	       (w->elsewhere || git_work_original(w, path)) && !resource_is_others(w->r, path);
}

static struct change *add_entry(const struct git_work *w, struct changes *list, size_t i)
{
	bool added = !w->base_old.v[i].mode, removed = !w->base_new.v[i].mode;
	AUTO_FREE char *label = str_format("index %s", w->base_new.v[i].path);

	if (!label)
		return NULL;
	if (w->elsewhere)
		return changes_add_part(list, label, ATOLL_SKIPPED, NOT_ON_BRANCH);
	return changes_add_part(list, label,
				added     ? ATOLL_ADDED
				: removed ? ATOLL_DELETED
					  : ATOLL_MODIFIED,
				"was committed or staged inside; its file was not changed");
}

/* The list is sorted until something is added to it. */
static int add_index_only(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	AUTO_FREE bool *found = w->base_new.n ? calloc(w->base_new.n, sizeof *found) : NULL;

	if (!w->base_new.n)
		return 0;
	for (size_t i = 0; i < w->base_new.n && found; i++)
		found[i] = is_index_only(w, list, i);
	for (size_t i = 0; i < w->base_new.n && found; i++)
		if (found[i] && !add_entry(w, list, i))
			return error_oom(err, w->operation);
	return found ? 0 : error_oom(err, w->operation);
}

static int add_entries(const struct git_work *w, struct changes *list, const struct git_entries *entries,
		       const char *note, bool blocking, struct atoll_error *err)
{
	for (size_t i = 0; i < entries->n; i++) {
		AUTO_FREE char *label = str_format("index %s", entries->v[i].path);
		struct change *c = label ? changes_add_part(list, label, ATOLL_SKIPPED, note) : NULL;

		if (!c)
			return error_oom(err, w->operation);
		c->blocking = blocking;
		c->note_fact = strlen("was staged inside");
	}
	return 0;
}

/* What is staged and is lost with the index. Where the file was not removed, the loss may not be meant, and a commit is refused. */
static int add_staged(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	int rc = add_entries(w, list, &w->staged, "was staged inside, while its file is as it was", true, err);

	return rc < 0 ? rc
		      : add_entries(w, list, &w->discarded, "was staged inside, and its file removed since", false,
				    err);
}

/* Submodules with changed files cannot land, and the part says so. */
static int add_touched_submodules(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	for (size_t i = 0; i < w->tracked.n; i++) {
		AUTO_FREE char *label = NULL;

		if (w->tracked.v[i].mode != GITLINK || !git_work_touches(list, w->tracked.v[i].path))
			continue;
		label = str_format("submodule %s", w->tracked.v[i].path);
		if (!label ||
		    !changes_add_part(list, label, ATOLL_MODIFIED, "cannot land; make it a resource of its own"))
			return error_oom(err, w->operation);
	}
	return 0;
}

#define MADE_IN_SUBMODULE "has commits or refs that were made inside"

static int add_submodule(const char *name, void *arg)
{
	AUTO_FREE char *label = str_format("submodule %s", name);
	struct changes *list = arg;
	struct change *c;

	for (size_t i = 0; i < list->n && label; i++)
		if (list->v[i].part && strcmp(list->v[i].path, label) == 0)
			return 0;
	c = label ? changes_add_part(list, label, ATOLL_SKIPPED, MADE_IN_SUBMODULE ", and stay there") : NULL;
	if (!c)
		return -ENOMEM;
	c->note_fact = strlen(MADE_IN_SUBMODULE);
	return 0;
}

static int add_submodules(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { upper, w->repo.dir_fd, resource_marks(w->r) };
	int rc = add_touched_submodules(w, list, err);

	if (rc < 0)
		return rc;
	rc = upper < 0 ? upper : git_modules_changed(&inside, add_submodule, list);
	return rc < 0 ? git_work_cannot_read(w, rc, "the submodules", err) : 0;
}

/* Each with the ref that holds it: with that it lands, if it is asked for. */
static int add_strays(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	for (size_t i = 0; i < w->strays.n; i++) {
		const struct git_stray *s = &w->strays.v[i];
		const char *root = strcmp(s->root, "HEAD") == 0 && w->on ? w->on : s->root;
		bool lands = git_moves_can_land(w, root);
		AUTO_FREE char *label = str_format("commit %s", s->hash);
		bool always = lands && w->state.as_is;
		AUTO_FREE char *note = str_format("%s; made inside on %s%s", s->subject, root,
						  always  ? ""
						  : lands ? ", and lands with --refs only"
							  : ", and stays there");
		struct change *c = label && note
					   ? changes_add_part(list, label, always ? ATOLL_ADDED : ATOLL_SKIPPED, note)
					   : NULL;

		if (!c)
			return error_oom(err, w->operation);
		if (always)
			continue;
		c->on_request = lands;
		c->note_fact = (size_t)(strrchr(note, ',') - note);
	}
	return w->strays.more ? add_more(w, list, ATOLL_SKIPPED, err) : 0;
}

/* Says why a commit would leave something behind that somebody wants to land; part_prepare() refuses it then. */
static int add_blocking(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	AUTO_FREE char *note = NULL;
	const char *label = "HEAD";
	struct change *c;

	if (w->headless) {
		note = str_format("is missing or damaged inside: make it a file with the line \"ref: %s\" there",
				  w->state.own);
	} else if (w->lost_index) {
		label = "index";
		note = str_format("is missing or cannot be read: remove it, and run git reset, inside");
	} else if (w->elsewhere && git_work_is_lost_elsewhere(w, w->state.as_is)) {
		note = str_format("is %s%s inside: what was done there does not land on %s", w->on ? "on " : "detached",
				  w->on ? w->on : "", w->state.branch);
	} else if (w->strays.on_own) {
		label = w->state.own;
		note = str_format("has commits that HEAD inside does not have: check it out, or merge it, inside");
	} else if (w->unrelated) {
		note = str_format("has no history in common with %s: what was committed inside does not land",
				  w->state.branch);
	} else if (w->torn) {
		label = w->torn;
		note = str_format(
			"was removed inside, and the original has committed files in it since: run git merge %s inside",
			git_work_original_name(w));
	} else if (w->crossed.n) {
		label = w->state.branch;
		note = str_format(
			"has committed files that were edited or removed inside, where git does not track them: run git add and git commit for the edited ones, and git merge %s, inside",
			git_work_original_name(w));
	} else if (git_work_is_in_the_middle(w)) {
		note = str_format("%s is in progress inside, and is to be finished or aborted there", w->busy);
	} else {
		return 0;
	}
	c = note ? changes_add_part(list, label, ATOLL_SKIPPED, note) : NULL;
	if (!c)
		return error_oom(err, w->operation);
	c->blocking = true;
	return 0;
}

struct refs_made {
	const struct git_work *w;
	struct changes *list;
};

static bool has_strays(const struct git_work *w, const char *name)
{
	for (size_t i = 0; i < w->strays.n; i++)
		if (strcmp(w->strays.v[i].root, name) == 0)
			return true;
	return false;
}

static int add_ref(const char *name, const struct git_id *id, void *arg)
{
	const struct refs_made *m = arg;
	const struct git_refs outside = { -EBADF, m->w->repo.dir_fd };
	bool lands = git_moves_can_land(m->w, name), moves;
	struct git_id old;
	struct change *c;

	/* Those of a bisection go with it. */
	if (strcmp(name, m->w->state.own) == 0 || strncmp(name, "refs/atoll/", 11) == 0 ||
	    strncmp(name, "refs/bisect/", 12) == 0)
		return 0;
	/* The copy of the original's branch is one that was made inside only if it has commits of its own. */
	if (strcmp(name, m->w->state.branch) == 0 && !has_strays(m->w, name))
		return 0;
	moves = lands && git_refs_read(&outside, name, &old) >= 0;
	if (lands && m->w->state.as_is)
		return changes_add_part(m->list, name, moves ? ATOLL_MODIFIED : ATOLL_ADDED,
					moves ? "was moved to commits made inside" : "was made inside")
			       ? 0
			       : -ENOMEM;
	c = changes_add_part(m->list, name, ATOLL_SKIPPED,
			     lands ? "was made inside, and lands with --refs only"
				   : "was made inside, and stays there");
	if (!c)
		return -ENOMEM;
	c->on_request = lands;
	c->note_fact = strlen("was made inside");
	if (moves)
		c->what = ATOLL_WHAT_CONTENT;
	return 0;
}

static int add_removed(const char *name, const struct git_id *id, void *arg)
{
	const struct refs_made *m = arg;
	struct change *c;

	/* Or the original got a branch since whose name is a parent of the sandbox's own branch:
	 * the inside cannot show it, and no command has deleted it. */
	if (strncmp(name, "refs/atoll/", 11) == 0 || path_is_below(m->w->state.own, name))
		return 0;
	c = changes_add_part(m->list, name, ATOLL_SKIPPED, "was deleted inside, and stays in the original");
	if (!c)
		return -ENOMEM;
	c->note_fact = strlen("was deleted inside");
	return 0;
}

static int add_refs(const struct git_work *w, struct changes *list, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	const struct git_refs inside = { upper, w->repo.dir_fd, resource_marks(w->r) };
	struct refs_made m = { w, list };
	int rc = upper < 0 ? upper : git_refs_differing(&inside, add_ref, &m);

	if (rc >= 0)
		rc = git_refs_removed(&inside, add_removed, &m);
	return rc < 0 ? git_work_cannot_read(w, rc, "the refs", err) : 0;
}

struct changes *git_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	AUTO_GIT_WORK w = { .repo = { .dir_fd = -EBADF } };
	CLEANUP(cleanup_changes) struct changes *list = NULL;
	int rc = git_work_make(r, "diff", exact, &w, err);

	if (rc < 0)
		return NULL;
	list = TAKE_PTR(w.files);
	rc = mark_unchanged(&w, list) ? mark_directories(&w, list) : 0;
	if (rc < 0) {
		error_oom(err, "diff");
		return NULL;
	}
	if (w.elsewhere || git_work_has_nothing(&w))
		keep_marked(&w, list);
	drop_marked(list);
	rc = git_judge(&w, list, err);
	if (rc >= 0)
		rc = add_index_only(&w, list, err);
	if (rc >= 0)
		rc = add_staged(&w, list, err);
	if (rc < 0)
		return NULL;
	rc = w.elsewhere || w.unrelated || git_work_has_nothing(&w) ? 0 : add_branch(&w, list, err);
	if (rc >= 0)
		rc = add_commits(&w, list, err);
	if (rc >= 0)
		rc = add_blocking(&w, list, err);
	if (rc >= 0)
		rc = add_strays(&w, list, err);
	if (rc >= 0)
		rc = add_submodules(&w, list, err);
	if (rc >= 0)
		rc = add_refs(&w, list, err);
	if (rc >= 0)
		rc = git_as_is_add_private(&w, list, err);
	if (rc < 0)
		return NULL;
	git_work_keep(&w);
	return TAKE_PTR(list);
}
