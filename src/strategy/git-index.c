/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The original's index, changed by whoever holds its lock: the entries that differ between two commits are set, and nothing else, so that what
 * somebody has staged besides stays staged. A copy is changed, by git, and renamed to its place.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

#define INDEX_OLD "index-old"
#define INDEX_NEW "index-new"
#define INDEX_SKIP "index-skip"              /* paths that are marked so, each ended by NUL */
#define INDEX_ASSUME "index-assume"          /* likewise */
enum { RENEW_ENTRIES = 1, RENEW_LOOKS = 2 }; /* LOOKS: what is known of their files */
#define ENTRIES_MAX ((size_t)1 << 30)

/* ---- the record ---- */

char *git_index_own_name(const struct resource *r, const char *what)
{
	return str_format("atoll-%s.%s", r->uuid, what);
}

static int save_entries(int dir_fd, const char *name, const struct git_entries *e, size_t hex_size,
			struct tree_sync *sync)
{
	AUTO_STRBUF text = STRBUF_INIT;

	git_entries_format(e, hex_size, &text);
	return text.failed ? -ENOMEM : git_stage_file(dir_fd, name, strbuf_str(&text), text.size, sync);
}

int git_index_landed(int dir_fd, struct git_entries *ret)
{
	return git_entries_load(dir_fd, INDEX_NEW, ret);
}

static bool is_in_index(const struct git_entries *index, const struct git_entry *wanted)
{
	const struct git_entry *e = git_entries_find(index, wanted->path);

	if (!wanted->mode)
		return !e;
	return e && e->mode == wanted->mode && e->stage == 0 && git_id_equal(&wanted->id, &e->id);
}

static bool is_listed(const char *path, const void *entries)
{
	return git_entries_find(entries, path) != NULL || git_entries_clash(entries, path);
}

static int read_index(const struct git_repo *repo, const char *name, const struct git_entries *paths, size_t hex_size,
		      struct git_index_file *ret)
{
	const struct git_index_filter listed = { is_listed, paths };
	int rc = git_index_file_load(repo->dir_fd, name, ret);

	return rc < 0 ? rc : git_index_file_parse(ret, hex_size, &listed);
}

int git_index_load(const struct git_repo *repo, const struct git_entries *paths, size_t hex_size, const char *operation,
		   struct git_index_file *ret, struct atoll_error *err)
{
	struct git_call call = { .repo = repo, .operation = operation };
	int rc = read_index(repo, "index", paths, hex_size, ret);

	if (rc == -ENOMEM)
		return error_oom(err, operation);
	return rc < 0 ? git_entries_of_index(&call, &ret->entries, err) : 0;
}

/* What goes back is what was there: with what is carried in, staged contents that no commit has. */
int git_index_note(const struct git_index_file *f, struct git_landing *l)
{
	for (size_t i = 0; i < l->to.n; i++) {
		const char *path = l->to.v[i].path;
		const struct git_entry *e = git_entries_find(&f->entries, path);
		int rc = git_entries_add(&l->index, path, e ? e->mode : 0, e ? &e->id : &l->to.v[i].id, 0);

		if (rc < 0)
			return rc;
		l->index.v[i].marks = e ? e->marks : l->to.v[i].marks;
	}
	return 0;
}

static int save_marked(int dir_fd, const char *name, const struct git_entries *e, unsigned mark, struct tree_sync *sync)
{
	AUTO_STRBUF paths = STRBUF_INIT;

	for (size_t i = 0; i < e->n; i++)
		if (e->v[i].marks & mark)
			strbuf_add(&paths, e->v[i].path, strlen(e->v[i].path) + 1);
	if (paths.failed)
		return -ENOMEM;
	return paths.size ? git_stage_file(dir_fd, name, paths.data, paths.size, sync) : 0;
}

int git_index_save(int dir_fd, const struct git_landing *l, struct tree_sync *sync)
{
	size_t hex_size = strlen(l->new.hex);
	int r = save_marked(dir_fd, INDEX_SKIP, &l->index, GIT_MARK_SKIP, sync);

	if (r >= 0)
		r = save_marked(dir_fd, INDEX_ASSUME, &l->index, GIT_MARK_ASSUME, sync);
	if (r >= 0)
		r = save_entries(dir_fd, INDEX_OLD, &l->index, hex_size, sync);
	return r < 0 ? r : save_entries(dir_fd, INDEX_NEW, &l->to, hex_size, sync);
}

/* ---- changing it ---- */

static int put_in_place(int dir_fd, const char *name)
{
	AUTO_FD fd = fd_open_beneath(dir_fd, name, O_RDONLY);
	int rc = fd < 0 ? fd : sys_fsync(fd);

	return rc < 0 ? rc : sys_rename(dir_fd, name, dir_fd, "index", 0);
}

static int copy_aside(int dir_fd, const char *name)
{
	struct tree_copy_report report = { 0 };
	int rc = sys_unlink(dir_fd, name, 0);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	return tree_copy_entry(dir_fd, "index", dir_fd, name, 0, &report);
}

/* What is known of the files of these entries is brought up to date: of those alone, however many there are. A file that differs is
 * somebody's edit, and stays one. */
static int refresh(const struct git_call *how, const char *entries, size_t size, struct atoll_error *err)
{
	AUTO_STRBUF paths = STRBUF_INIT;
	struct git_call call = *how;

	for (const char *at = entries; at < entries + size; at += strlen(at) + 1) {
		const char *path = strchr(at, '\t');

		if (path && at[0] != '0')
			strbuf_add(&paths, path + 1, strlen(path));
	}
	if (paths.failed)
		return error_oom(err, how->operation);
	if (!paths.size)
		return 0;
	call.input = paths.data;
	call.input_size = paths.size;
	call.also = 1;
	return git_call(&call, err,
			(const char *const[]){ "-c", "core.preloadIndex=false", "add", "--refresh",
					       "--pathspec-from-file=-", "--pathspec-file-nul", NULL });
}

/* The entries of one side as they are found by path: whether it has this one. */
static bool has_entry(const char *entries, size_t size, const char *wanted)
{
	for (const char *at = entries; at < entries + size; at += strlen(at) + 1) {
		const char *path = strchr(at, '\t');

		if (path && at[0] != '0' && strcmp(path + 1, wanted) == 0)
			return true;
	}
	return false;
}

/* An entry that was set anew has lost its mark, which is the user's. */
static int mark_again(const struct git_call *how, int dir_fd, const char *name, const char *option, const char *entries,
		      size_t size, struct atoll_error *err)
{
	AUTO_FREE char *marked = NULL;
	AUTO_STRBUF paths = STRBUF_INIT;
	struct git_call call = *how;
	size_t marked_size = 0;
	int rc = fd_read_file(dir_fd, name, ENTRIES_MAX, &marked, &marked_size);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return error_sys(err, rc, how->operation, how->repo->top,
				 "the record of the commit of \"%s\" cannot be read", how->repo->top);
	for (const char *at = marked; at < marked + marked_size; at += strlen(at) + 1)
		if (has_entry(entries, size, at))
			strbuf_add(&paths, at, strlen(at) + 1);
	if (paths.failed)
		return error_oom(err, how->operation);
	call.input = strbuf_str(&paths);
	call.input_size = paths.size;
	return paths.size ? git_call(&call, err, (const char *const[]){ "update-index", option, "-z", "--stdin", NULL })
			  : 0;
}

static bool has_marks(int dir_fd)
{
	return faccessat(dir_fd, INDEX_SKIP, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	       faccessat(dir_fd, INDEX_ASSUME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Entries and what is known of their files in one go: git takes them from the files, and what it has made of them is looked at. 1, or 0 if
 * that is not what is wanted (a file was edited just now, a filter is not exact): then nothing of it may be used. */
static int stage_files(const struct git_call *how, const char *name, int dir_fd, const char *entries, size_t size)
{
	AUTO_GIT_ENTRIES wanted = { 0 };
	AUTO_GIT_INDEX_FILE made = { 0 };
	AUTO_STRBUF paths = STRBUF_INIT;
	struct git_call call = *how;

	if (has_marks(dir_fd) || git_entries_parse(entries, size, &wanted) < 0 || !wanted.n)
		return 0;
	for (size_t i = 0; i < wanted.n; i++)
		strbuf_add(&paths, wanted.v[i].path, strlen(wanted.v[i].path) + 1);
	call.input = strbuf_str(&paths);
	call.input_size = paths.size;
	if (paths.failed ||
	    git_call(&call, NULL, (const char *const[]){ "update-index", "--add", "--remove", "-z", "--stdin", NULL }) <
		    0)
		return 0;
	if (read_index(how->repo, name, &wanted, strlen(wanted.v[0].id.hex), &made) < 0)
		return 0;
	for (size_t i = 0; i < wanted.n; i++)
		if (!is_in_index(&made.entries, &wanted.v[i]))
			return 0;
	return 1;
}

static int set_entries(const struct git_call *how, int dir_fd, const char *entries, size_t size, unsigned what,
		       struct atoll_error *err)
{
	struct git_call call = *how;
	bool set = what & RENEW_ENTRIES;
	int rc = 0;

	call.input = entries;
	call.input_size = size;
	if (size && set)
		rc = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	if (rc < 0)
		return rc;
	if (what & RENEW_LOOKS)
		(void)refresh(&call, entries, size, NULL); /* without it git looks at the files once more */
	if (set)
		rc = mark_again(&call, dir_fd, INDEX_SKIP, "--skip-worktree", entries, size, err);
	if (rc >= 0 && set)
		rc = mark_again(&call, dir_fd, INDEX_ASSUME, "--assume-unchanged", entries, size, err);
	return rc;
}

static int renew_index(struct resource *r, int dir_fd, const struct git_repo *repo, const char *entries, size_t size,
		       unsigned what, struct atoll_error *err)
{
	AUTO_FREE char *name = git_index_own_name(r, "index"),
		       *path = name ? str_format("%s/%s", repo->dir, name) : NULL;
	struct git_call call = { .repo = repo, .operation = "commit", .index = path };
	bool staged = false;
	int rc = path ? copy_aside(repo->dir_fd, name) : -ENOMEM;

	/* A repository without commits may have no index either. */
	if (rc == -ENOENT)
		rc = 0;
	if (rc >= 0 && what == (RENEW_ENTRIES | RENEW_LOOKS)) {
		staged = stage_files(&call, name, dir_fd, entries, size) > 0;
		rc = staged ? 0 : copy_aside(repo->dir_fd, name);
		rc = rc == -ENOENT ? 0 : rc;
	}
	if (rc < 0)
		return error_sys(err, rc, "commit", repo->top, "cannot copy the index of \"%s\"", repo->top);
	rc = staged ? 0 : set_entries(&call, dir_fd, entries, size, what, err);
	if (rc < 0)
		return rc;
	rc = put_in_place(repo->dir_fd, name);
	return rc < 0 ? error_sys(err, rc, "commit", repo->top, "cannot write the index of \"%s\"", repo->top) : 0;
}

int git_index_set(struct resource *r, int dir_fd, const struct git_repo *repo, bool forward, struct atoll_error *err)
{
	AUTO_FREE char *entries = NULL;
	size_t size = 0;
	int rc = fd_read_file(dir_fd, forward ? INDEX_NEW : INDEX_OLD, ENTRIES_MAX, &entries, &size);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "the record of the commit of \"%s\" cannot be read",
				 r->row.path);
	/* Going back the files come after the index. */
	return renew_index(r, dir_fd, repo, entries, size, forward ? RENEW_ENTRIES | RENEW_LOOKS : RENEW_ENTRIES, err);
}

int git_index_check(int dir_fd, const struct git_repo *repo, size_t hex_size, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES old = { 0 }, new = { 0 };
	AUTO_GIT_INDEX_FILE index = { 0 };
	int rc = git_entries_load(dir_fd, INDEX_OLD, &old);

	if (rc >= 0)
		rc = git_entries_load(dir_fd, INDEX_NEW, &new);
	if (rc < 0)
		return error_sys(err, rc, "undo", repo->top, "the record of the commit of \"%s\" cannot be read",
				 repo->top);
	rc = git_index_load(repo, &new, hex_size, "undo", &index, err);
	for (size_t i = 0; i < new.n &&i < old.n &&rc >= 0; i++)
		if (!is_in_index(&index.entries, &old.v[i]) && !is_in_index(&index.entries, &new.v[i]))
			return error_set(err, ATOLL_CONFLICT, 0, "undo", repo->top,
					 "\"%s\" of \"%s\" has something else staged since the commit", new.v[i].path,
					 repo->top);
	return rc;
}

int git_index_is_behind(int dir_fd, const struct git_repo *repo, bool forward, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES wanted = { 0 }, other = { 0 };
	AUTO_GIT_INDEX_FILE index = { 0 };
	int rc = git_entries_load(dir_fd, forward ? INDEX_NEW : INDEX_OLD, &wanted);

	if (rc >= 0)
		rc = git_entries_load(dir_fd, forward ? INDEX_OLD : INDEX_NEW, &other);
	if (rc < 0)
		return error_sys(err, rc, "recover", repo->top, "the record of the commit of \"%s\" cannot be read",
				 repo->top);
	if (!wanted.n || !other.n)
		return 0;
	rc = git_index_load(repo, &wanted, strlen(wanted.v[0].id.hex), "recover", &index, err);
	for (size_t i = 0; i < wanted.n && i < other.n && rc >= 0; i++)
		if (!is_in_index(&index.entries, &wanted.v[i]) && is_in_index(&index.entries, &other.v[i]))
			return 1;
	return MIN(rc, 0);
}

void git_index_refresh(struct resource *r, int dir_fd, const struct git_repo *repo)
{
	AUTO_FREE char *entries = NULL;
	size_t size = 0;

	if (git_lock_is_held(repo->dir_fd, "index", r->uuid) > 0 &&
	    fd_read_file(dir_fd, INDEX_OLD, ENTRIES_MAX, &entries, &size) >= 0)
		(void)renew_index(r, dir_fd, repo, entries, size, RENEW_LOOKS, NULL);
}
