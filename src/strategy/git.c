/* SPDX-License-Identifier: Apache-2.0 */
/* git_worktree: making a workspace, and the view of it. */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

static int cannot_make(struct resource *r, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "new", r->row.path, "cannot make the workspace of \"%s\" in \"%s\"", r->row.path,
			 r->row.work);
}

/* ---- making it ---- */

/* On a rollback everything is made anew. What is recorded is exchanged when it is, and says until then what comes along. */
static int remove_old(struct resource *r)
{
	static const char *const names[] = { GIT_UPPER, GIT_WORK,       GIT_OBJECTS, GIT_NEXT,
					     GIT_INDEX, GIT_INDEX_LOCK, GIT_SPARSE,  GIT_DISCARDED };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc >= 0; i++)
		rc = tree_remove(r->work_fd, names[i]);
	return rc;
}

static int make_objects(struct resource *r)
{
	static const char alternates[] = "../" GIT_BASE_OBJECTS "\n";
	AUTO_FD info = fd_make_path(r->work_fd, GIT_OBJECTS "/info");
	AUTO_FD pack = fd_make_path(r->work_fd, GIT_OBJECTS "/pack");

	if (info < 0 || pack < 0)
		return MIN(info, pack);
	return git_put_file(info, "alternates", alternates, sizeof alternates - 1);
}

static int make_private(struct resource *r, const struct git_repo *repo)
{
	struct tree_copy_report report = { 0 };
	AUTO_FD mount_point = -EBADF;
	int rc = remove_old(r);

	if (rc >= 0)
		rc = tree_copy_entry(repo->dir_fd, "", r->work_fd, GIT_UPPER, resource_marks(r), &report);
	if (rc >= 0)
		rc = sys_mkdir(r->work_fd, GIT_WORK, 0700);
	if (rc >= 0)
		rc = mount_point = fd_make_path(r->work_fd, GIT_UPPER "/" GIT_BASE_OBJECTS);
	return rc < 0 ? rc : make_objects(r);
}

/* Chooses a name for the branch inside that the original does not have and that conflicts with none
 * of its refs. With as_is, it is the original's own branch. */
static int choose_branch(struct resource *r, const struct git_repo *repo, const struct git_state *s, char **ret)
{
	static const char *const forms[] = { "refs/heads/atoll/%s", "refs/heads/atoll-%s", "refs/heads/atoll/%s-%.8s",
					     "refs/heads/atoll-%s-%.8s" };
	const struct git_refs refs = { -EBADF, repo->dir_fd };

	if (s->as_is) {
		*ret = strdup(s->branch);
		return *ret ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		AUTO_FREE char *name = str_format(forms[i], r->sandbox ? r->sandbox : r->uuid, r->uuid);
		int rc = name ? git_refs_is_free(&refs, name) : -ENOMEM;

		if (rc < 0)
			return rc;
		if (rc > 0 && git_refs_is_name(name)) {
			*ret = TAKE_PTR(name);
			return 0;
		}
	}
	return -EEXIST;
}

/* What is uncommitted in the original stays out, and whoever makes the sandbox is told. Git looks at every tracked
 * file for that, while the workspace is made. */
struct left_out {
	struct git_running asked;
	struct strbuf said;
};

static void left_out_release(struct left_out *l)
{
	git_running_release(&l->asked);
	strbuf_release(&l->said);
}

static int ask_left_out(const struct git_repo *repo, struct left_out *l, struct atoll_error *err)
{
	const struct git_call call = { .repo = repo, .operation = "new", .output = &l->said };

	return git_entries_uncommitted_start(&call, &l->asked, err);
}

static int count_left_out(struct left_out *l, struct git_state *s, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES uncommitted = { 0 };
	bool staged;
	int rc = git_entries_uncommitted_finish(&l->asked, &uncommitted, &staged, err);

	s->left_out = uncommitted.n;
	return rc;
}

/* What the sandbox was made without, as it was then. */
static int git_detail(const struct store_resource *row, struct strbuf *ret, struct strategy_locks *locks)
{
	AUTO_FD work = row->work ? fd_open_absolute(row->work, O_RDONLY | O_DIRECTORY) : -EBADF;
	struct resource r = { .row = *row, .work_fd = work };
	AUTO_GIT_STATE s = { 0 };

	if (work < 0 || git_state_load(&r, &s, NULL) < 0 || !s.left_out)
		return 0;
	strbuf_addf(ret, "the commit that was checked out, without %zu file%s that %s not committed", s.left_out,
		    s.left_out == 1 ? "" : "s", s.left_out == 1 ? "was" : "were");
	return 1;
}

static bool git_divides(const struct store_resource *row)
{
	AUTO_FD work = row->work ? fd_open_absolute(row->work, O_RDONLY | O_DIRECTORY) : -EBADF;
	struct resource r = { .row = *row, .work_fd = work };
	AUTO_GIT_STATE s = { 0 };

	return work >= 0 && git_state_load(&r, &s, NULL) >= 0 && s.as_is;
}

static int begin_in(struct resource *r, const struct git_repo *repo, struct git_state *s, struct left_out *left_out,
		    struct atoll_error *err)
{
	int rc = overlay_begin(r, err);

	if (rc < 0)
		return rc;
	rc = make_private(r, repo);
	if (rc >= 0)
		rc = choose_branch(r, repo, s, &s->own);
	if (rc < 0)
		return cannot_make(r, rc, err);
	rc = *s->root.hex ? 0 : git_pin(r, repo, "base", &s->base, "new", err);
	if (rc >= 0 && !s->carried)
		rc = count_left_out(left_out, s, err);
	if (rc >= 0 && !s->carried)
		rc = git_carried_save_marked(r, repo, &s->base, "new", err);
	s->unsettled = true;
	if (rc >= 0 && s->carried)
		rc = git_settle_carried(r, repo, s, "new", err);
	return rc < 0 ? rc : git_state_save(r, s, err);
}

static int git_begin(struct resource *r, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_STATE s = { 0 }, before = { 0 };
	CLEANUP(left_out_release) struct left_out left_out = { .said = STRBUF_INIT };
	struct atoll_error ignored = { 0 };
	int rc = git_repo_open(r->row.path, &repo, err);

	(void)git_state_load(r, &before, &ignored);
	s.as_is = r->as_is || before.as_is;
	s.carried = r->carry_dirty || s.as_is || before.carried;
	if (rc >= 0 && !s.carried)
		rc = ask_left_out(&repo, &left_out, err);
	if (rc >= 0)
		rc = git_repo_check_calm(&repo, "new", err);
	if (rc >= 0)
		rc = git_repo_check_index(&repo, "new", err);
	if (rc >= 0)
		rc = git_repo_branch(&repo, "new", s.as_is, &s.branch, &s.base, err);
	if (rc >= 0 && !*s.base.hex) {
		rc = git_root_make(&repo, "new", &s.root, err);
		s.base = s.root;
	}
	return rc < 0 ? rc : begin_in(r, &repo, &s, &left_out, err);
}

/* ---- seeing it ---- */

static int add_mount(struct strategy_view *v, struct strategy_mount m, const char *root, const char *below)
{
	m.path = str_format("%s/%s", root, below);
	v->extra[v->n_extra] = m;
	v->n_extra++;
	if (!m.path)
		return -ENOMEM;
	return m.fd < 0 ? m.fd : m.overlay ? MIN(0, MIN(m.upper_fd, m.work_fd)) : 0;
}

static int add_mounts(struct resource *r, struct strategy_view *v)
{
	const int flags = O_RDONLY | O_DIRECTORY;
	struct strategy_mount dir = { .overlay = true,
				      .fd = fd_open_beneath(r->root_fd, ".git", flags),
				      .upper_fd = fd_open_beneath(r->work_fd, GIT_UPPER, flags),
				      .work_fd = fd_open_beneath(r->work_fd, GIT_WORK, flags) };
	struct strategy_mount own = { .fd = fd_open_beneath(r->work_fd, GIT_OBJECTS, flags) };
	struct strategy_mount base = { .fd = fd_open_beneath(r->root_fd, ".git/objects", flags), .read_only = true };
	int first = add_mount(v, dir, r->root_path, ".git");
	int second = add_mount(v, own, r->root_path, ".git/objects");
	int third = add_mount(v, base, r->root_path, ".git/" GIT_BASE_OBJECTS);

	return MIN(first, MIN(second, third));
}

static void view_release(struct strategy_view *v)
{
	fd_close(v->upper_fd);
	fd_close(v->work_fd);
	if (v->masked)
		fd_close(v->mask_fd);
	for (size_t i = 0; i < v->n_extra; i++) {
		free(v->extra[i].path);
		fd_close(v->extra[i].fd);
		if (v->extra[i].overlay) {
			fd_close(v->extra[i].upper_fd);
			fd_close(v->extra[i].work_fd);
		}
	}
}

static int git_view(struct resource *r, struct strategy_view *ret, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	struct strategy_view v = { 0 };
	int rc = git_repo_reopen(r->row.path, "run", &repo, err);

	if (rc >= 0)
		rc = git_settle_now(r, &repo, "run", err);
	if (rc >= 0)
		rc = git_settle_branch(r, &repo, "run", err);
	if (rc >= 0)
		rc = overlay_view(r, &v, err);
	if (rc < 0)
		return rc;
	rc = add_mounts(r, &v);
	if (rc < 0) {
		view_release(&v);
		return error_sys(err, rc, "run", r->row.path, "the git directory of \"%s\" cannot be shown",
				 r->row.path);
	}
	*ret = v;
	return 0;
}

/* ---- after a commit ---- */

static int land_at(struct resource *r, const struct git_repo *repo, const struct git_id *id, struct atoll_error *err)
{
	int rc = git_pin_staged(r, repo, "tip", id, "commit", err);

	if (rc < 0)
		return rc;
	rc = git_state_take_next(r);
	return rc < 0 ? cannot_make(r, rc, err) : 0;
}

/* The inside follows: it stands at the commit that landed. */
static int git_landed(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_STATE s = { 0 }, next = { 0 };
	int rc = git_repo_reopen(r->row.path, "commit", &repo, err);

	if (rc >= 0)
		rc = git_state_load(r, &s, err);
	if (rc < 0)
		return rc;
	rc = git_state_load_next(r, &next);
	if (rc == -ENOENT && s.as_is)
		return git_as_is_landed(r, &repo, &s, err);
	if (rc == -ENOENT)
		return git_settle_files(r, &repo, &s, "commit", err);
	return rc < 0 ? cannot_make(r, rc, err) : land_at(r, &repo, &next.base, err);
}

/* Files that had landed are as they were before. */
static int git_returned(struct resource *r, const struct store_step *steps, size_t n, struct atoll_error *err)
{
	AUTO_GIT_STATE s = { 0 };
	struct atoll_error ignored;
	int rc = overlay_returned(r, steps, n, err);

	/* Where the state is gone from the area, nothing is outdated. */
	if (rc < 0 || git_state_load(r, &s, &ignored) < 0 || !s.as_is || s.outdated)
		return rc;
	s.outdated = true;
	return git_state_save(r, &s, err);
}

/* ---- leaving the original ---- */

static int git_forget(struct resource *r, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	struct atoll_error ignored;
	int rc;

	/* One that is gone has nothing of ours. */
	if (git_repo_reopen(r->row.path, "rm", &repo, &ignored) < 0)
		return 0;
	rc = git_unpin(r, &repo, "rm", err);
	/* One that is removed in doubt holds its locks still. */
	return rc < 0 ? rc : git_part_end(r, -EBADF, err);
}

static void git_release(struct resource *r)
{
	git_work_forget(r);
	overlay_release(r);
}

const struct strategy_ops strategy_git = {
	.name = "git_worktree",
	.summary = "an overlay with a git directory of its own; lands as a commit on the original's branch",
	.strength = 60,
	.capabilities = STRATEGY_ISOLATES | STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER | STRATEGY_LAYERED |
			STRATEGY_OVERLAY | STRATEGY_PART,
	.kinds = STRATEGY_SERVES(ATOLL_KIND_GIT),
	.workspace = OVERLAY_UPPER,
	.part_name = ".git",
	.begin = git_begin,
	.view = git_view,
	.detail = git_detail,
	.divides = git_divides,
	.ran = overlay_ran,
	.changes = git_changes,
	.base = overlay_base,
	.origin = overlay_origin,
	.merge = git_merge,
	.landed = git_landed,
	.returned = git_returned,
	.returning = overlay_returning,
	.forget = git_forget,
	.release = git_release,
	.files_alone = git_files_alone,
	.part_prepare = git_part_prepare,
	.part_prepared = git_part_prepared,
	.part_side = git_part_side,
	.part_move = git_part_move,
	.part_lock = git_part_lock_recorded,
	.part_same = git_judge_landed,
	.part_touched = git_part_touched,
	.part_end = git_part_end,
	.part_left = git_part_left,
};
