/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the workspace that fell behind. Going to an older commit inside puts older versions of files into the upper layer; they are not edits and do
 * not land. When a commit that contains newer versions lands, the inside stands at that commit, and the older versions would pass for edits that take
 * the newer ones back. So would files pass for deleted that a sparse checkout inside has removed. A whole commit puts them aside with the
 * layer, and an undo brings them back; a partial one leaves them. Either way they get the commit's version before the next diff or run.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

#define STALE "stale"
#define STALE_MAX ((size_t)1 << 30)

/* ---- the record ---- */

int git_stale_save(int dir_fd, const struct git_work *w, const struct git_entries *landing, struct tree_sync *sync)
{
	AUTO_GIT_ENTRIES stale = { 0 };
	AUTO_STRBUF text = STRBUF_INIT;
	int r = 0;

	/* If the original's branch has not moved on, every path that differs from it lands. In a
	 * repository taken as it is, an uncommitted edit lands as a file, so `landing` lacks it. */
	for (size_t i = 0; i < w->head_old.n && r >= 0 && !git_id_equal(&w->base, &w->head); i++) {
		const struct git_entry *e = &w->head_old.v[i];

		if (!git_entries_find(landing, e->path) && !resource_is_others(w->r, e->path) &&
		    !git_as_is_is_edited(w, e->path))
			r = git_entries_add(&stale, e->path, e->mode, &e->id, 0);
	}
	for (size_t i = 0; i < w->hidden.n && r >= 0; i++) {
		const struct git_entry *e = &w->hidden.v[i];

		if (!git_entries_find(landing, e->path) && !git_entries_find(&w->head_old, e->path))
			r = git_entries_add(&stale, e->path, e->mode, &e->id, 0);
	}
	if (r < 0 || !stale.n)
		return r;
	git_entries_format(&stale, strlen(w->head.hex), &text);
	return text.failed ? -ENOMEM : git_stage_file(dir_fd, STALE, text.data, text.size, sync);
}

void git_stale_drop(int dir_fd)
{
	if (sys_unlink(dir_fd, STALE, 0) >= 0)
		(void)sys_fsync(dir_fd);
}

/* ---- renewing them ---- */

struct cover {
	int to_fd;
	int64_t since; /* when the sandbox last removed something */
};

/* A file that another process has written there since was never seen inside. */
static int cover_entry(const struct tree_entry *e, void *arg)
{
	const struct cover *c = arg;
	int r = !S_ISDIR(e->stat.mode) && e->stat.mtime >= c->since ? 0 : sys_whiteout(c->to_fd, e->name);

	return r < 0 ? r : TREE_WALK_SKIP;
}

/* Puts a directory with a whiteout for each entry of the original's in the place of that directory's whiteout, at once: what
 * else was removed with the directory stays so. -errno. */
static int open_whiteout(struct resource *r, int parent, const char *name, const char *path, const struct tree_stat *st)
{
	struct tree_copy_report report = { 0 };
	AUTO_FD from = fd_open_beneath(r->root_fd, path, O_RDONLY | O_DIRECTORY);
	AUTO_FD to = -EBADF;
	int rc;

	if (from < 0)
		return from == -ENOENT || from == -ENOTDIR ? sys_unlink(parent, name, 0) : from;
	rc = tree_remove(r->work_fd, GIT_SPARSE);
	if (rc >= 0)
		rc = tree_copy_entry(from, "", r->work_fd, GIT_SPARSE, TREE_COPY_KEEP_SET_ID | resource_marks(r),
				     &report);
	to = rc < 0 ? rc : fd_open_beneath(r->work_fd, GIT_SPARSE, O_RDONLY | O_DIRECTORY);
	rc = to < 0 ? to : tree_walk(from, TREE_WALK_NO_ROOT, cover_entry, &(struct cover){ to, st->ctime }, NULL);
	if (rc >= 0)
		rc = sys_rename(r->work_fd, GIT_SPARSE, parent, name, RENAME_EXCHANGE);
	return rc < 0 ? rc : tree_remove(r->work_fd, GIT_SPARSE);
}

/* Opens the whiteouts of the directories above the path: they hide the file with all the directory. -errno. */
static int unhide(struct resource *r, int upper, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *above = strndup(path, (size_t)(slash - path));
		AUTO_FD parent = -EBADF;
		struct tree_stat st;
		const char *name;
		int rc = above ? fd_open_parent(upper, above, &parent, &name) : -ENOMEM;

		if (rc >= 0)
			rc = tree_stat(parent, name, &st);
		if (rc >= 0 && S_ISCHR(st.mode))
			rc = open_whiteout(r, parent, name, above, &st);
		else if (rc >= 0 && !S_ISDIR(st.mode))
			return 0;
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
	}
	return 0;
}

/* 1 if the workspace has a file at the path, or hides the original's; 0 if that shows, or a directory has its place. -errno. */
static int is_in(struct resource *r, int upper, const char *path)
{
	AUTO_FD there = -EBADF;
	struct tree_stat st;
	int layer = git_refs_layer(&(struct git_refs){ upper, r->root_fd, resource_marks(r) }, path), rc;

	if (layer == -ENOENT) {
		rc = unhide(r, upper, path);
		return rc < 0 ? rc : 1;
	}
	if (layer != upper)
		return MIN(layer, 0);
	there = fd_open_beneath(upper, path, O_PATH | O_NOFOLLOW);
	rc = there < 0 ? there : tree_stat(there, "", &st);
	return rc < 0 ? rc : !S_ISDIR(st.mode);
}

static int remove_file(int upper, const char *path)
{
	AUTO_FD parent = -EBADF;
	const char *name;
	int r = fd_open_parent(upper, path, &parent, &name);

	if (r >= 0)
		r = sys_unlink(parent, name, 0);
	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

struct renewal {
	struct strbuf info, paths;
	bool any;
};

static void renewal_release(struct renewal *n)
{
	strbuf_release(&n->info);
	strbuf_release(&n->paths);
}

/* What the workspace has of the recorded paths, each "MODE HASH\tPATH". Where the commit has no such file, its older version goes. What a whiteout
 * of a directory had hidden shows the original's version, which is the commit's. */
static int collect(struct resource *r, int upper, const char *text, size_t size, struct renewal *n)
{
	int rc = 0;

	for (const char *at = text; at < text + size && rc >= 0; at += strlen(at) + 1) {
		const char *path = strchr(at, '\t');

		rc = path ? is_in(r, upper, path + 1) : -EINVAL;
		if (rc <= 0)
			continue;
		n->any = true;
		rc = at[0] == '0' ? remove_file(upper, path + 1) : git_settle_parents(r, upper, path + 1);
		if (rc >= 0 && at[0] != '0') {
			strbuf_add(&n->info, at, strlen(at) + 1);
			strbuf_add(&n->paths, path + 1, strlen(path));
		}
	}
	return rc < 0 ? rc : n->info.failed || n->paths.failed ? -ENOMEM : 0;
}

static int check_out(struct resource *r, const struct git_repo *repo, const struct strbuf *info,
		     const struct strbuf *paths, struct atoll_error *err)
{
	AUTO_FREE char *prefix = str_format("--prefix=%s/" OVERLAY_UPPER "/", r->row.work);
	AUTO_FREE char *index = str_format("%s/" GIT_INDEX, r->row.work);
	struct git_call call = { .repo = repo, .operation = "undo", .index = index };
	int rc;

	if (!prefix || !index)
		return error_oom(err, "undo");
	(void)tree_remove(r->work_fd, GIT_INDEX_LOCK);
	(void)tree_remove(r->work_fd, GIT_INDEX);
	call.input = info->data;
	call.input_size = info->size;
	rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	call.input = paths->data;
	call.input_size = paths->size;
	if (rc >= 0)
		rc = git_call(&call, err,
			      (const char *const[]){ "checkout-index", "-f", "-q", "-z", "--stdin", prefix, NULL });
	(void)tree_remove(r->work_fd, GIT_INDEX);
	return rc;
}

int git_stale_renew(struct resource *r, int dir_fd, const struct git_repo *repo, struct atoll_error *err)
{
	AUTO_FREE char *text = NULL;
	CLEANUP(renewal_release) struct renewal n = { STRBUF_INIT, STRBUF_INIT, false };
	AUTO_FD upper = r->work_fd < 0 ? r->work_fd
				       : fd_open_beneath(r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	size_t size = 0;
	int rc = fd_read_file(dir_fd, STALE, STALE_MAX, &text, &size);

	if (rc == -ENOENT || upper == -ENOENT || upper == -EBADF)
		return 0;
	if (rc >= 0)
		rc = upper < 0 ? upper : collect(r, upper, text, size, &n);
	if (rc < 0)
		return error_sys(err, rc, "undo", r->row.path, "cannot renew the files of \"%s\" in \"%s\"",
				 r->row.path, r->row.work);
	rc = n.paths.size ? check_out(r, repo, &n.info, &n.paths, err) : 0;
	/* From now on what is there may be a newer edit. A fresh layer has nothing of it: an undo will want the record. */
	if (rc >= 0 && n.any)
		git_stale_drop(dir_fd);
	return rc;
}
