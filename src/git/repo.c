/* SPDX-License-Identifier: Apache-2.0 */
/* Which repository can be a resource, and in which state. */
#include "git/git.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

void git_repo_release(struct git_repo *r)
{
	free(r->top);
	free(r->dir);
	r->dir_fd = fd_close(r->dir_fd);
	r->top = r->dir = NULL;
}

bool git_id_equal(const struct git_id *a, const struct git_id *b)
{
	return strcmp(a->hex, b->hex) == 0;
}

int git_id_parse(const char *text, struct git_id *ret)
{
	size_t n = strspn(text, "0123456789abcdef");

	if (n != 40 && n != 64)
		return 0;
	memcpy(ret->hex, text, n);
	ret->hex[n] = 0;
	return 1;
}

static int refuse(struct atoll_error *err, const char *operation, const char *path, const char *why)
{
	return error_set(err, ATOLL_REFUSED, 0, operation, path, "\"%s\" %s", path, why);
}

int git_repo_reopen(const char *path, const char *operation, struct git_repo *ret, struct atoll_error *err)
{
	AUTO_GIT_REPO repo = { strdup(path), str_format("%s/.git", path), -EBADF };

	if (!repo.top || !repo.dir)
		return error_oom(err, operation);
	repo.dir_fd = open(repo.dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (repo.dir_fd < 0)
		return error_sys(err, errno, operation, path, "cannot open the git directory of \"%s\"", path);
	*ret = repo;
	repo = (struct git_repo){ .dir_fd = -EBADF };
	return 0;
}

/* Git itself is the judge of whether it is a repository, and of whose it is. */
static int ask_git(const char *path, char **ret_lines, struct atoll_error *err)
{
	const char *const argv[] = { "-C",
				     path,
				     "rev-parse",
				     "--is-bare-repository",
				     "--is-inside-work-tree",
				     "--path-format=absolute",
				     "--show-toplevel",
				     NULL };
	AUTO_STRBUF out = STRBUF_INIT;
	struct atoll_error said = { 0 };
	struct git_call call = { .operation = "new", .output = &out };
	int r = git_call(&call, &said, argv);

	if (r < 0 && (strstr(said.message, "dubious ownership") || strstr(said.message, "safe.directory")))
		return refuse(err, "new", path,
			      "belongs to somebody else; git refuses to use it (see safe.directory in git's manual)");
	if (r < 0 && strstr(said.message, "not a git repository"))
		return refuse(err, "new", path, "is not a git repository; use --dir for a directory");
	if (r < 0 && strncmp(strbuf_str(&out), "true\n", 5) == 0)
		return refuse(err, "new", path, "is a bare repository; it has no files to work on");
	if (r < 0 && strstr(said.message, "in a work tree"))
		return refuse(err, "new", path, "is inside a git directory, not a checkout");
	if (r < 0) {
		if (err)
			*err = said;
		return r;
	}
	*ret_lines = strbuf_take(&out);
	return *ret_lines ? 0 : error_oom(err, "new");
}

static int check_answer(const char *path, char *lines, struct atoll_error *err)
{
	char *inside = strchr(lines, '\n'), *top = inside ? strchr(inside + 1, '\n') : NULL;
	size_t size = top ? strlen(top + 1) : 0;

	if (strncmp(lines, "true", 4) == 0)
		return refuse(err, "new", path, "is a bare repository; it has no files to work on");
	if (!top || strncmp(inside + 1, "true", 4) != 0)
		return refuse(err, "new", path, "is inside a git directory, not a checkout");
	top++;
	if (size && top[size - 1] == '\n')
		top[size - 1] = 0;
	if (strcmp(top, path) != 0)
		return error_set(err, ATOLL_REFUSED, 0, "new", path,
				 "\"%s\" lies in the repository \"%s\"; name that directory", path, top);
	return 0;
}

/* The git directory is to be an ordinary one, of a form that is known. */
static int check_form(const char *path, struct atoll_error *err)
{
	static const char *const real[] = { "objects", "refs" };
	AUTO_FREE char *dir = str_format("%s/.git", path);
	AUTO_FREE char *config = NULL;
	AUTO_FD fd = -EBADF;
	struct stat st;
	int r;

	if (!dir)
		return error_oom(err, "new");
	if (lstat(dir, &st) < 0)
		return error_sys(err, errno, "new", path, "cannot look at the git directory of \"%s\"", path);
	if (!S_ISDIR(st.st_mode))
		return refuse(
			err, "new", path,
			"has its git directory elsewhere (a linked worktree or submodule); name the main checkout");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "new", path, "cannot open the git directory of \"%s\"", path);
	for (size_t i = 0; i < ARRAY_SIZE(real); i++)
		if (fstatat(fd, real[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return refuse(err, "new", path, "has objects or refs that are no directories of its own");
	r = fd_read_file(fd, "config", 1 << 20, &config, NULL);
	if (r < 0)
		return error_sys(err, r, "new", path, "cannot read the configuration of \"%s\"", path);
	if (strcasestr(config, "refstorage"))
		return refuse(err, "new", path, "keeps its refs in another format than files, which is not supported");
	if (strcasestr(config, "partialclone"))
		return refuse(err, "new", path, "is a partial clone: objects it lacks could not be fetched");
	return 0;
}

int git_repo_open(const char *path, struct git_repo *ret, struct atoll_error *err)
{
	AUTO_FREE char *lines = NULL;
	int r = ask_git(path, &lines, err);

	if (r >= 0)
		r = check_answer(path, lines, err);
	if (r >= 0)
		r = check_form(path, err);
	return r < 0 ? r : git_repo_reopen(path, "new", ret, err);
}

const char *git_repo_operation(int dir_fd)
{
	static const struct {
		const char *file, *what;
	} states[] = {
		{ "MERGE_HEAD", "a merge" },
		{ "rebase-merge", "a rebase" },
		{ "rebase-apply", "a rebase" },
		{ "CHERRY_PICK_HEAD", "a cherry-pick" },
		{ "REVERT_HEAD", "a revert" },
		{ "BISECT_LOG", "a bisection" },
		{ "sequencer", "a cherry-pick or revert of several commits" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		AUTO_FD there = fd_open_beneath(dir_fd, states[i].file, O_PATH | O_NOFOLLOW);
		struct stat st;

		/* In an upper layer a whiteout stands for a file that was removed there. */
		if (there >= 0 && !(fstat(there, &st) == 0 && S_ISCHR(st.st_mode)))
			return states[i].what;
	}
	return NULL;
}

int git_repo_check_calm(const struct git_repo *r, const char *operation, struct atoll_error *err)
{
	const char *what = git_repo_operation(r->dir_fd);

	return what ? error_set(err, ATOLL_REFUSED, 0, operation, r->top,
				"%s is in progress in \"%s\"; finish or abort it first", what, r->top)
		    : 0;
}

/* The other part of a split index lies beside it, and for a while when it is no longer one. Whether it is, git has to read the index for. */
static bool has_shared_index(const struct git_repo *r)
{
	int fd = openat(r->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool found = !d;

	if (!d)
		fd_close(fd);
	while (d && !found && (e = readdir(d)))
		found = strncmp(e->d_name, "sharedindex.", 12) == 0;
	if (d)
		closedir(d);
	return found;
}

int git_repo_check_index(const struct git_repo *r, const char *operation, struct atoll_error *err)
{
	AUTO_STRBUF asked = STRBUF_INIT, shared = STRBUF_INIT;
	struct git_call call = { .repo = r, .operation = operation, .output = &asked, .also = 1 };
	int rc = git_call(&call, err, (const char *const[]){ "config", "--type=bool", "core.splitIndex", NULL });

	call.output = &shared;
	call.also = 0;
	if (rc >= 0 && has_shared_index(r))
		rc = git_call(&call, err, (const char *const[]){ "rev-parse", "--shared-index-path", NULL });
	if (rc < 0)
		return rc;
	if (strncmp(strbuf_str(&asked), "true", 4) != 0 && !shared.size)
		return 0;
	return refuse(err, operation, r->top,
		      "has a split index, or asks for one; set core.splitIndex to false, and run git update-index "
		      "--no-split-index");
}

int git_repo_worktree_on(const struct git_repo *r, const char *branch, char **ret)
{
	int fd = openat(r->dir_fd, "worktrees", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int found = 0;

	if (!d) {
		fd_close(fd);
		return fd < 0 && errno == ENOENT ? 0 : -errno;
	}
	while (!found && (e = readdir(d))) {
		AUTO_FREE char *name = str_format("worktrees/%s", e->d_name);
		AUTO_FD tree = e->d_name[0] == '.' || !name ? -EBADF
							    : fd_open_beneath(r->dir_fd, name, O_RDONLY | O_DIRECTORY);
		AUTO_FREE char *ref = NULL;
		struct git_id id;

		if (tree < 0 || git_refs_head(&(struct git_refs){ -EBADF, tree }, &ref, &id) < 0)
			continue;
		found = ref && strcmp(ref, branch) == 0;
		if (found)
			*ret = strdup(e->d_name);
	}
	closedir(d);
	return found;
}

int git_repo_branch(const struct git_repo *r, const char *operation, bool may_be_unborn, char **ret_branch,
		    struct git_id *ret, struct atoll_error *err)
{
	const struct git_refs refs = { -EBADF, r->dir_fd };
	AUTO_FREE char *branch = NULL, *other = NULL;
	struct git_id id;
	int rc = git_refs_head(&refs, &branch, &id);

	if (rc < 0)
		return error_sys(err, rc, operation, r->top, "cannot read HEAD of \"%s\"", r->top);
	if (!branch || strncmp(branch, "refs/heads/", 11) != 0)
		return refuse(err, operation, r->top, "has a detached HEAD; check out a branch first");
	rc = git_refs_read(&refs, branch, &id);
	if (rc == -ENOENT && !may_be_unborn)
		return refuse(err, operation, r->top, "has no commit yet; make one first");
	if (rc == -ENOENT)
		id = (struct git_id){ "" };
	else if (rc < 0)
		return error_sys(err, rc, operation, r->top, "cannot read \"%s\" of \"%s\"", branch, r->top);
	if (git_refs_is_symbolic(&refs, branch) != 0)
		return error_set(err, ATOLL_REFUSED, 0, operation, r->top,
				 "the branch \"%s\" of \"%s\" stands for another one; check that one out",
				 branch + strlen("refs/heads/"), r->top);
	if (git_repo_worktree_on(r, branch, &other) > 0)
		return error_set(err, ATOLL_REFUSED, 0, operation, r->top,
				 "the branch of \"%s\" is checked out in its worktree \"%s\" too", r->top,
				 other ? other : "");
	*ret_branch = TAKE_PTR(branch);
	*ret = id;
	return 0;
}
