/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit without files that stands for a repository in which nothing has been committed yet. So
 * the first commits of a branch can be compared with something, as all others. No ref names it, and
 * no commit has it as its parent. Its name depends on nothing but the repository's hash function.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "git/git.h"

#define TEXT                                            \
	"tree %s\n"                                     \
	"author Atoll <atoll@localhost> 0 +0000\n"      \
	"committer Atoll <atoll@localhost> 0 +0000\n\n" \
	"The state of a repository before its first commit\n"

static int write_object(const struct git_repo *repo, const char *operation, const char *type, const char *content,
			struct git_id *ret, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = { .repo = repo, .operation = operation, .output = &out };
	int rc;

	call.input = content;
	call.input_size = strlen(content);
	rc = git_call(&call, err, (const char *const[]){ "hash-object", "-t", type, "-w", "--stdin", NULL });
	if (rc >= 0 && !git_id_parse(strbuf_str(&out), ret))
		return error_set(err, ATOLL_FAILED, 0, operation, repo->top,
				 "what git hash-object says of \"%s\" is not understood", repo->top);
	return rc;
}

int git_root_make(const struct git_repo *repo, const char *operation, struct git_id *ret, struct atoll_error *err)
{
	struct git_id tree;
	AUTO_FREE char *text = NULL;
	int rc = write_object(repo, operation, "tree", "", &tree, err);

	if (rc < 0)
		return rc;
	text = str_format(TEXT, tree.hex);
	return text ? write_object(repo, operation, "commit", text, ret, err) : error_oom(err, operation);
}

/* git gc removes objects that no ref names when they are two weeks old. */
int git_root_renew(const struct git_repo *repo, const struct git_id *root, const char *operation,
		   struct atoll_error *err)
{
	AUTO_FREE char *path = str_format("objects/%.2s/%s", root->hex, root->hex + 2);
	struct git_id made;

	if (!path)
		return error_oom(err, operation);
	if (faccessat(repo->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return git_root_make(repo, operation, &made, err);
}
