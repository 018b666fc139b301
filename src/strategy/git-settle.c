/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting the inside at a commit. The files of the original's checkout are that commit's already, but for what is uncommitted there: of those
 * paths the commit's version is put into the upper layer. So nothing is checked out but what somebody has edited.
 *
 * What that is, git finds by a look at every file that is tracked. It is asked when somebody is about to see the inside, not before: making a
 * sandbox, or committing, takes no longer for many files than for few.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"

#define GITLINK 0160000

static int cannot_write(struct resource *r, int rc, const char *operation, struct atoll_error *err)
{
	return error_sys(err, rc, operation, r->row.path, "cannot prepare the git directory of \"%s\" in \"%s\"",
			 r->row.path, r->row.work);
}

/* ---- branch and HEAD ---- */

/* The branch has no commit inside, whatever the original gets. */
static int hide_ref(int git_fd, const char *ref)
{
	AUTO_FREE char *above = strndup(ref, (size_t)(strrchr(ref, '/') - ref));
	AUTO_FD parent = above ? fd_make_path(git_fd, above) : -ENOMEM;
	const char *name = strrchr(ref, '/') + 1;
	int r = parent < 0 ? parent : tree_remove(parent, name);

	return r < 0 && r != -ENOENT ? r : sys_whiteout(parent, name);
}

static int put_refs(int git_fd, const struct git_state *s, const struct git_id *at)
{
	AUTO_FREE char *head = str_format("ref: %s\n", s->own);
	int r = !head                        ? -ENOMEM
		: git_id_equal(at, &s->root) ? hide_ref(git_fd, s->own)
					     : git_refs_write(git_fd, s->own, at, "atoll-ref");

	return r < 0 ? r : git_put_file(git_fd, "HEAD", head, strlen(head));
}

/* ---- the index ---- */

/* A command inside may have made anything of the index, also a directory. */
static int copy_index(const struct git_repo *repo, int dir_fd, const char *name)
{
	struct tree_copy_report report = { 0 };
	int r = tree_remove(dir_fd, name);

	return r < 0 && r != -ENOENT ? r : tree_copy_entry(repo->dir_fd, "index", dir_fd, name, 0, &report);
}

/* A git that was killed has left its lock, which nobody else takes away here. */
static int remove_next_index(struct resource *r)
{
	int rc = tree_remove(r->work_fd, GIT_INDEX_LOCK);

	if (rc >= 0 || rc == -ENOENT)
		rc = tree_remove(r->work_fd, GIT_INDEX);
	return rc == -ENOENT ? 0 : rc;
}

/* What git finds in its place is a file or nothing: a whiteout that an overlay left over a lock, or a lock of a git that was killed inside, is
 * in nobody's way, since git never locks an index in the upper layer. */
static int install_index(struct resource *r, int git_fd)
{
	AUTO_FD there = fd_open_beneath(git_fd, "index", O_PATH | O_DIRECTORY);
	int rc = there >= 0 ? tree_remove(git_fd, "index") : 0;

	if (rc >= 0)
		rc = sys_rename(r->work_fd, GIT_INDEX, git_fd, "index", 0);
	/* An original without an index has none to copy. */
	return rc == -ENOENT ? 0 : rc;
}

/* Marks are the user's, and stay on entries that are set to the commit's content. */
static int mark_again(const struct git_call *how, const struct git_entries *index, const struct git_entries *set,
		      unsigned mark, const char *option, struct atoll_error *err)
{
	AUTO_STRBUF paths = STRBUF_INIT;
	struct git_call call = *how;

	for (size_t i = 0; i < set->n; i++) {
		const struct git_entry *e = set->v[i].mode ? git_entries_find(index, set->v[i].path) : NULL;

		if (e && (e->marks & mark))
			strbuf_add(&paths, e->path, strlen(e->path) + 1);
	}
	if (paths.failed)
		return error_oom(err, how->operation);
	call.input = strbuf_str(&paths);
	call.input_size = paths.size;
	return paths.size ? git_call(&call, err, (const char *const[]){ "update-index", option, "-z", "--stdin", NULL })
			  : 0;
}

/* What is new in the commit, and in no checkout, is marked where the original's sparse checkout leaves it out: it would pass for deleted. */
static int find_left_out(struct resource *r, const struct git_call *how, const struct git_entries *index,
			 const struct git_entries *set, struct git_entries *ret, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; i < set->n; i++) {
		const struct git_entry *e = &set->v[i];

		if (e->mode && e->mode != GITLINK && !git_entries_find(index, e->path) &&
		    git_sparse_is_nowhere(r, upper, e->path) && git_entries_add(ret, e->path, e->mode, &e->id, 0) < 0)
			return error_oom(err, how->operation);
	}
	return git_sparse_leaves_out(r, how, GIT_SPARSE, ret, err);
}

/* Sets the entries that differ, one by one: git read-tree refuses where a marked file of the checkout differs from its entry. */
static int set_entries(struct resource *r, const struct git_call *how, const struct git_entries *set,
		       struct atoll_error *err)
{
	AUTO_STRBUF info = STRBUF_INIT;
	AUTO_GIT_ENTRIES index = { 0 }, left_out = { 0 };
	struct git_call call = *how;
	int rc = git_entries_of_index(how, &index, err);

	git_entries_format(set, set->n ? strlen(set->v[0].id.hex) : 0, &info);
	if (info.failed)
		return error_oom(err, how->operation);
	call.input = strbuf_str(&info);
	call.input_size = info.size;
	if (rc >= 0)
		rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	if (rc >= 0)
		rc = mark_again(how, &index, set, GIT_MARK_SKIP, "--skip-worktree", err);
	if (rc >= 0)
		rc = find_left_out(r, how, &index, set, &left_out, err);
	if (rc >= 0)
		rc = mark_again(how, &left_out, &left_out, GIT_MARK_SKIP, "--skip-worktree", err);
	return rc < 0 ? rc : mark_again(how, &index, set, GIT_MARK_ASSUME, "--assume-unchanged", err);
}

/* The original's, with what it knows of the files, and the commit's entries. Whether it has those already is asked of the copy: whoever
 * goes on in the original meanwhile has staged something else, which would pass for the sandbox's edits. */
static int make_index(struct resource *r, const struct git_call *how, const struct git_id *at, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES committed = { 0 };
	int rc = remove_next_index(r);

	if (rc >= 0)
		rc = copy_index(how->repo, r->work_fd, GIT_INDEX);
	if (rc == -ENOENT)
		return git_call(how, err, (const char *const[]){ "read-tree", at->hex, NULL });
	if (rc < 0)
		return cannot_write(r, rc, how->operation, err);
	rc = git_entries_since(how, at, &committed, NULL, err);
	return rc < 0 || !committed.n ? rc : set_entries(r, how, &committed, err);
}

int git_settle_stage_discarded(struct resource *r, const struct git_work *w, struct tree_sync *sync)
{
	AUTO_STRBUF text = STRBUF_INIT;
	int rc = tree_remove(r->work_fd, GIT_DISCARDED); /* left by a commit that failed */

	if ((rc < 0 && rc != -ENOENT) || !w->discarded.n)
		return rc == -ENOENT ? 0 : rc;
	git_entries_format(&w->discarded, strlen(w->tip.hex), &text);
	return text.failed ? -ENOMEM : git_stage_file(r->work_fd, GIT_DISCARDED, text.data, text.size, sync);
}

int git_settle_format_beside(const struct git_entries *discarded, const struct git_entries *others, struct strbuf *ret)
{
	AUTO_GIT_ENTRIES beside = { 0 };
	int rc = 0;

	for (size_t i = 0; i < discarded->n && rc >= 0; i++) {
		const struct git_entry *e = &discarded->v[i];

		if (!git_entries_find(others, e->path) && !git_entries_clash(others, e->path))
			rc = git_entries_add(&beside, e->path, e->mode, &e->id, 0);
	}
	git_entries_format(&beside, beside.n ? strlen(beside.v[0].id.hex) : 0, ret);
	return rc < 0 ? rc : ret->failed ? -ENOMEM : 0;
}

/* A commit does not land a new file that was staged inside and then removed. The file stays staged
 * in the new index, unless the commit has an entry in its place. */
static int stage_discarded(struct resource *r, const struct git_call *how, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES recorded = { 0 }, index = { 0 };
	AUTO_STRBUF info = STRBUF_INIT;
	struct git_call call = *how;
	int rc = git_entries_load(r->work_fd, GIT_DISCARDED, &recorded);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return cannot_write(r, rc, how->operation, err);
	rc = git_entries_of_index(how, &index, err);
	if (rc >= 0 && git_settle_format_beside(&recorded, &index, &info) < 0)
		return error_oom(err, how->operation);
	if (rc < 0 || !info.size)
		return rc;
	call.input = info.data;
	call.input_size = info.size;
	return git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
}

/* ---- files ---- */

/* A foreign edit may have taken them away. */
int git_settle_parents(struct resource *r, int upper_fd, const char *path)
{
	struct tree_copy_report report = { 0 };

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *part = strndup(path, (size_t)(slash - path));
		AUTO_FD there = part ? fd_open_beneath(upper_fd, part, O_PATH | O_DIRECTORY) : -ENOMEM;
		AUTO_FD from = -EBADF, to = -EBADF;
		const char *name;
		int rc;

		if (there >= 0)
			continue;
		if (there != -ENOENT)
			return there == -ENOTDIR ? 0 : there;
		rc = fd_open_parent(upper_fd, part, &to, &name);
		if (rc < 0)
			return rc;
		from = fd_open_beneath(r->root_fd, part, O_RDONLY | O_DIRECTORY);
		rc = from >= 0 ? tree_copy_entry(from, "", to, name, TREE_COPY_KEEP_SET_ID | resource_marks(r), &report)
			       : sys_mkdir(to, name, 0777);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What was put into a directory has moved its times, which are not the sandbox's doing. */
static int restore_times(struct resource *r, int upper_fd, const char *path)
{
	AUTO_FREE char *dir = strdup(path);

	while (dir && *dir) {
		char *slash = strrchr(dir, '/');
		AUTO_FD from = -EBADF, to = -EBADF;
		struct tree_stat st;
		int rc;

		dir[slash ? slash - dir : 0] = 0;
		from = fd_open_beneath(r->root_fd, dir, O_RDONLY | O_DIRECTORY);
		to = fd_open_beneath(upper_fd, dir, O_RDONLY | O_DIRECTORY);
		if (from < 0 || to < 0)
			continue;
		rc = tree_stat(from, "", &st);
		if (rc >= 0) {
			const struct timespec times[2] = { tree_atime(&st), tree_mtime(&st) };

			rc = sys_utimens(to, "", times);
		}
		if (rc < 0)
			return rc;
	}
	return dir ? 0 : -ENOMEM;
}

/* Whether the original's shows there: what the sandbox has, or has removed, is its own, and what belongs to another resource is no business of
 * this one, wherever it stands. */
static bool is_shown(struct resource *r, int upper_fd, const char *path)
{
	return !resource_is_others(r, path) &&
	       git_refs_layer(&(struct git_refs){ upper_fd, r->root_fd, resource_marks(r) }, path) == r->root_fd;
}

static int check_out(struct resource *r, const struct git_repo *repo, const struct git_entries *list, const char *index,
		     const char *operation, struct atoll_error *err)
{
	AUTO_FREE char *prefix = str_format("--prefix=%s/%s/", r->row.work, OVERLAY_UPPER);
	AUTO_FD upper = fd_open_beneath(r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_STRBUF paths = STRBUF_INIT;
	int rc = prefix ? MIN(upper, 0) : -ENOMEM;

	for (size_t i = 0; i < list->n && rc >= 0; i++) {
		if (!list->v[i].mode || list->v[i].mode == GITLINK || !is_shown(r, upper, list->v[i].path))
			continue;
		rc = git_settle_parents(r, upper, list->v[i].path);
		strbuf_add(&paths, list->v[i].path, strlen(list->v[i].path) + 1);
	}
	if (rc >= 0 && paths.size) {
		struct git_call call = { .repo = repo,
					 .operation = operation,
					 .index = index,
					 .input = paths.data,
					 .input_size = paths.size };

		rc = git_call(&call, err,
			      (const char *const[]){ "checkout-index", "-f", "-q", "-z", "--stdin", prefix, NULL });
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < list->n && rc >= 0; i++)
		rc = restore_times(r, upper, list->v[i].path);
	return rc < 0 ? cannot_write(r, rc, operation, err) : 0;
}

/* Leaves those that are uncommitted too. */
static int intersect(struct git_entries *list, const struct git_entries *uncommitted)
{
	AUTO_GIT_ENTRIES both = { 0 }, all = *list;
	int rc = 0;

	for (size_t i = 0; i < all.n && rc >= 0; i++)
		if (git_entries_find(uncommitted, all.v[i].path))
			rc = git_entries_add(&both, all.v[i].path, all.v[i].mode, &all.v[i].id, 0);
	*list = both;
	both = (struct git_entries){ 0 };
	return rc;
}

/* What the index inside has, and is uncommitted in the original: as others have committed it, it is seen inside. */
static int find_uncommitted(const struct git_repo *repo, const struct git_state *s, const struct git_call *inside,
			    struct git_entries *ret, struct atoll_error *err)
{
	const struct git_refs refs = { -EBADF, repo->dir_fd };
	struct git_call outside = { .repo = repo, .operation = inside->operation };
	AUTO_GIT_ENTRIES uncommitted = { 0 };
	AUTO_FREE char *branch = NULL;
	struct git_id head = { "" };
	bool staged;
	int rc = git_entries_unlike(inside, ret, err);

	if (rc < 0 || !ret->n)
		return rc;
	rc = git_refs_head(&refs, &branch, &head);
	if (rc >= 0 && branch)
		rc = git_refs_read(&refs, branch, &head);
	if (rc >= 0 && git_id_equal(&head, &s->base))
		return 0;
	rc = git_entries_uncommitted(&outside, &uncommitted, &staged, err);
	if (rc < 0)
		return rc;
	return intersect(ret, &uncommitted) < 0 ? error_oom(err, inside->operation) : 0;
}

/* Of what is uncommitted in the original, what the index inside lists. One that cannot be read shows nothing: a command inside has made it so. */
static int keep_listed(const struct git_call *inside, struct git_entries *list)
{
	AUTO_GIT_ENTRIES index = { 0 }, both = { 0 }, all = *list;
	int rc = git_entries_of_index(inside, &index, NULL) < 0 ? 0 : 1;

	for (size_t i = 0; i < all.n && rc > 0; i++) {
		const struct git_entry *e = git_entries_find(&index, all.v[i].path);

		if (e && !e->stage && git_entries_add(&both, e->path, e->mode, &e->id, 0) < 0)
			rc = -ENOMEM;
	}
	*list = both;
	both = (struct git_entries){ 0 };
	return MIN(rc, 0);
}

int git_settle_files(struct resource *r, const struct git_repo *repo, const struct git_state *s, const char *operation,
		     struct atoll_error *err)
{
	struct git_call call = { .repo = repo, .operation = operation };
	AUTO_FREE char *index = str_format("%s/%s/index", r->row.work, GIT_UPPER);
	AUTO_GIT_ENTRIES list = { 0 };
	bool staged;
	int rc = index ? 0 : error_oom(err, operation);

	if (rc >= 0 && !s->carried)
		rc = git_entries_uncommitted(&call, &list, &staged, err);
	if (rc < 0 || !list.n)
		return rc;
	call.index = index;
	rc = keep_listed(&call, &list);
	return rc < 0 ? error_oom(err, operation) : check_out(r, repo, &list, index, operation, err);
}

/* ---- now or later ---- */

/* What comes along is what is there now; without an index nothing does. */
int git_settle_carried(struct resource *r, const struct git_repo *repo, struct git_state *s, const char *operation,
		       struct atoll_error *err)
{
	AUTO_FD git = fd_open_beneath(r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_FREE char *index = NULL;
	struct git_call call = { .repo = repo, .operation = operation };
	int rc = git < 0 ? git : put_refs(git, s, &s->base);

	if (rc >= 0)
		rc = copy_index(repo, git, "index");
	s->unsettled = rc == -ENOENT;
	if (rc < 0)
		return rc == -ENOENT ? 0 : cannot_write(r, rc, operation, err);
	index = str_format("%s/%s/index", r->row.work, GIT_UPPER);
	call.index = index;
	return index ? git_carried_save(r, &call, &s->base, err) : error_oom(err, operation);
}

/* Whether HEAD inside names the ref. */
static bool is_on(const struct git_refs *inside, const char *ref)
{
	AUTO_FREE char *on = NULL;
	struct git_id id;

	return git_refs_head(inside, &on, &id) >= 0 && on && strcmp(on, ref) == 0;
}

/* A view that is kept standing shows a new value of a file it has seen, not another file of that name. One write of the same size: whoever reads it
 * sees the old value or the new one. -ENOENT: there is no such file. */
static int write_in_place(int git_fd, const char *name, const struct git_id *id)
{
	AUTO_FREE char *text = str_format("%s\n", id->hex);
	AUTO_FD fd = fd_open_beneath(git_fd, name, O_RDWR | O_NOFOLLOW);
	struct tree_stat st;
	int r = !text ? -ENOMEM : fd < 0 ? -ENOENT : tree_stat(fd, "", &st);

	if (r >= 0 && (!S_ISREG(st.mode) || st.size != strlen(text)))
		r = -ENOENT;
	return r < 0 ? r : sys_write(fd, text, strlen(text));
}

static int put_copy(int git_fd, const char *name, const struct git_id *id)
{
	int rc = write_in_place(git_fd, name, id);

	return rc == -ENOENT ? git_refs_write(git_fd, name, id, "atoll-ref") : rc;
}

/* HEAD inside is on the copy of the original's branch. If the original's branch has moved on, its commit
 * gets a name of its own inside. git pack-refs inside may have removed the directory of that name. If a
 * command inside has put something else there, it stays, and the commit has no name. */
static int show_original(const struct git_refs *inside, const struct git_id *now, const struct git_id *copy)
{
	static const char name[] = "refs/" GIT_ORIGINAL;
	AUTO_FD refs = -EBADF;
	struct git_id shown;
	int rc = git_refs_read(inside, name, &shown);

	if (rc == -ENOMEM || git_id_equal(rc < 0 ? copy : &shown, now))
		return rc == -ENOMEM ? rc : 0;
	rc = put_copy(inside->upper_fd, name, now);
	if (rc == -ENOTDIR) {
		refs = fd_open_beneath(inside->upper_fd, "refs", O_RDONLY | O_DIRECTORY);
		rc = refs < 0 ? refs : sys_unlink(refs, "atoll", 0);
		rc = rc < 0 ? rc : put_copy(inside->upper_fd, name, now);
	}
	return rc == -ENOTDIR || rc == -EISDIR || rc == -ENOTEMPTY || rc == -EEXIST || rc == -ELOOP ? 0 : MIN(rc, 0);
}

/* 1 if the copy was set and the state is to be saved. -errno. */
static int show_branch(const struct resource *r, const struct git_repo *repo, int git_fd, struct git_state *s,
		       bool leave)
{
	const struct git_refs inside = { git_fd, repo->dir_fd, resource_marks(r) }, outside = { -EBADF, repo->dir_fd };
	struct git_id now, shown;
	int rc = git_refs_read(&outside, s->branch, &now);

	if (rc >= 0)
		rc = git_refs_read(&inside, s->branch, &shown);
	/* Removed there, or inside; or nothing that can be read. */
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	if (!leave && is_on(&inside, s->branch))
		return show_original(&inside, &now, &shown);
	if (!leave && *s->seen.hex && (!git_id_equal(&shown, &s->seen) || git_id_equal(&now, &s->seen)))
		return 0;
	rc = put_copy(git_fd, s->branch, &now);
	s->seen = now;
	return rc < 0 ? rc : 1;
}

int git_settle_branch(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err)
{
	AUTO_FD git = fd_open_beneath(r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_GIT_STATE s = { 0 };
	int rc = git_state_load(r, &s, err);

	if (rc < 0)
		return rc;
	if (!git_id_equal(&s.base, &s.root))
		git_pin_renew(r, repo, &s.base, operation);
	rc = git < 0 ? git : show_branch(r, repo, git, &s, false);
	if (rc < 0)
		return cannot_write(r, rc, operation, err);
	return rc ? git_state_save(r, &s, err) : 0;
}

/* HEAD leaves the copy of the original's branch only when what was committed on that has landed. */
static int settle_refs(const struct resource *r, const struct git_repo *repo, int git_fd, struct git_state *s)
{
	const struct git_refs inside = { git_fd, repo->dir_fd, resource_marks(r) };
	int rc = show_branch(r, repo, git_fd, s, is_on(&inside, s->branch));

	return rc < 0 ? rc : put_refs(git_fd, s, &s->base);
}

static int settle(struct resource *r, const struct git_repo *repo, int git_fd, struct git_state *s,
		  const char *operation, struct atoll_error *err)
{
	AUTO_FREE char *index = str_format("%s/%s", r->row.work, GIT_INDEX);
	struct git_call call = { .repo = repo, .operation = operation, .index = index };
	AUTO_GIT_ENTRIES list = { 0 };
	int rc = index ? make_index(r, &call, &s->base, err) : error_oom(err, operation);

	if (rc >= 0 && !s->carried)
		rc = find_uncommitted(repo, s, &call, &list, err);
	if (rc >= 0)
		rc = check_out(r, repo, &list, index, operation, err);
	if (rc >= 0)
		rc = stage_discarded(r, &call, err);
	if (rc < 0)
		return rc;
	rc = settle_refs(r, repo, git_fd, s);
	if (rc >= 0)
		rc = install_index(r, git_fd);
	if (rc >= 0)
		rc = git_carried_drop(r);
	if (rc < 0)
		return cannot_write(r, rc, operation, err);
	/* After install_index(), because both use the file GIT_INDEX of the area. */
	if (s->as_is)
		rc = git_carried_renew(r, repo, &s->base, operation, err);
	if (rc < 0)
		return rc;
	s->unsettled = s->outdated = s->restaged = false;
	return git_state_save(r, s, err);
}

/* HEAD inside, with a branch that has no commit yet as the commit that stands for none. */
static int read_inside(const struct git_refs *inside, const struct git_state *s, struct git_id *ret)
{
	AUTO_FREE char *on = NULL;
	int rc = git_refs_head(inside, &on, ret);

	if (rc >= 0 && on)
		rc = git_refs_read(inside, on, ret);
	if (rc == -ENOENT && *s->root.hex) {
		*ret = s->root;
		rc = 0;
	}
	return rc;
}

/* Collects the commit's entries at the paths that are staged. A new file that a command inside has
 * staged and then removed is nowhere but in the index: it stays there. */
static int collect_staged(struct resource *r, const struct git_call *how, const struct git_id *at,
			  struct git_entries *ret, struct atoll_error *err)
{
	AUTO_FD upper = fd_open_beneath(r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_GIT_ENTRIES old = { 0 }, new = { 0 }, carried = { 0 }, uncommitted = { 0 };
	int rc = upper < 0 ? upper : git_carried_load(r, &carried, &uncommitted);

	if (rc < 0)
		return cannot_write(r, rc, how->operation, err);
	rc = git_entries_since(how, at, &old, &new, err);
	for (size_t i = 0; i < new.n &&rc >= 0; i++) {
		const struct git_entry *e = &new.v[i], *came = git_entries_find(&carried, e->path);
		bool added = e->mode && e->mode != GITLINK && !old.v[i].mode;
		bool own = !came || came->mode != e->mode || !git_id_equal(&came->id, &e->id);

		if (added && own && git_sparse_is_nowhere(r, upper, e->path))
			continue;
		if (git_entries_add(ret, e->path, old.v[i].mode, &old.v[i].id, 0) < 0)
			return error_oom(err, how->operation);
	}
	return rc;
}

/* Makes the next index from the one inside, whose marks and file times belong to the files inside. */
static int make_unstaged_index(struct resource *r, const struct git_refs *inside, const struct git_call *how,
			       const struct git_id *at, struct atoll_error *err)
{
	struct tree_copy_report report = { 0 };
	AUTO_GIT_ENTRIES staged = { 0 };
	int rc = remove_next_index(r), layer = git_refs_layer(inside, "index");

	if (rc >= 0)
		rc = layer < 0 ? layer : tree_copy_entry(layer, "index", r->work_fd, GIT_INDEX, 0, &report);
	if (rc == -ENOENT)
		return git_call(how, err, (const char *const[]){ "read-tree", at->hex, NULL });
	if (rc < 0)
		return cannot_write(r, rc, how->operation, err);
	rc = collect_staged(r, how, at, &staged, err);
	return rc < 0 || !staged.n ? rc : set_entries(r, how, &staged, err);
}

/* The files that landed have the content that a command inside had staged. HEAD, branches and files
 * inside stay: the files of the workspace belong to the commit that HEAD names. */
static int restage(struct resource *r, const struct git_repo *repo, int git_fd, struct git_state *s,
		   const char *operation, struct atoll_error *err)
{
	const struct git_refs inside = { git_fd, repo->dir_fd, resource_marks(r) };
	AUTO_FREE char *index = str_format("%s/%s", r->row.work, GIT_INDEX);
	struct git_call call = { .repo = repo, .operation = operation, .index = index };
	struct git_id at;
	int rc = index ? read_inside(&inside, s, &at) : -ENOMEM;

	if (rc < 0)
		return cannot_write(r, rc, operation, err);
	rc = make_unstaged_index(r, &inside, &call, &at, err);
	if (rc < 0)
		return rc;
	rc = install_index(r, git_fd);
	if (rc >= 0)
		rc = git_carried_drop(r);
	if (rc < 0)
		return cannot_write(r, rc, operation, err);
	rc = git_carried_renew(r, repo, &s->base, operation, err);
	if (rc < 0)
		return rc;
	s->outdated = s->restaged = false;
	return git_state_save(r, s, err);
}

/* Two that are about to see it may come together; the second finds it done. */
int git_settle_now(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err)
{
	AUTO_FD git = fd_open_beneath(r->work_fd, GIT_UPPER, O_RDONLY | O_DIRECTORY);
	AUTO_GIT_STATE first = { 0 }, s = { 0 };
	int rc = git_state_load(r, &first, err);

	if (rc < 0 || !(first.unsettled || first.outdated || first.restaged))
		return rc;
	if (git < 0)
		return cannot_write(r, git, operation, err);
	while ((rc = flock(git, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (rc < 0)
		return cannot_write(r, -errno, operation, err);
	rc = git_state_load(r, &s, err);
	if (rc < 0 || !(s.unsettled || s.outdated || s.restaged))
		return rc;
	if (s.unsettled || s.restaged)
		return s.unsettled ? settle(r, repo, git, &s, operation, err)
				   : restage(r, repo, git, &s, operation, err);
	rc = git_carried_renew(r, repo, &s.base, operation, err);
	s.outdated = false;
	return rc < 0 ? rc : git_state_save(r, &s, err);
}
