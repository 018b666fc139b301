/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The git directories of submodules, below .git/modules. A submodule is a repository of its own, and
 * nothing of its history lands. A command inside may have made commits and refs there that changed
 * no file of the checkout: without these names, no list would have them.
 *
 * The index of a submodule is not looked at: `git status` writes it too.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define MODULES "modules"
#define FILE_MAX ((size_t)64 << 20)

struct modules {
	const struct git_refs *inside;
	int (*each)(const char *name, void *arg);
	void *arg;
};

static bool has_entry(int dir_fd, const char *path)
{
	AUTO_FD fd = fd_open_beneath(dir_fd, path, O_PATH | O_NOFOLLOW);

	return fd >= 0;
}

/* path: in the git directory. The upper layer alone may lack HEAD. 1, 0 or -ENOMEM. */
static int is_git_directory(const struct git_refs *inside, const char *path)
{
	AUTO_FREE char *head = str_format("%s/HEAD", path);

	if (!head)
		return -ENOMEM;
	return has_entry(inside->upper_fd, head) || has_entry(inside->lower_fd, head);
}

/* Whether a command inside has written the file with another content, or has removed it. */
static bool is_file_changed(const struct git_refs *g, const char *path)
{
	AUTO_FREE char *now = NULL, *then = NULL;
	int rc = fd_read_file(g->upper_fd, path, FILE_MAX, &now, NULL);

	if (rc < 0)
		return rc != -ENOENT && rc != -ENOTDIR;
	return fd_read_file(g->lower_fd, path, FILE_MAX, &then, NULL) < 0 || strcmp(now, then) != 0;
}

static int note_ref(const char *name, const struct git_id *id, void *arg)
{
	*(bool *)arg = true;
	return 0;
}

/* The log of HEAD also has the commits of a detached HEAD that was left. A directory that cannot be
 * read was written inside. 1, 0 or -ENOMEM. */
static int is_changed(const struct git_refs *inside, const char *path)
{
	AUTO_FD upper = fd_open_beneath(inside->upper_fd, path, O_RDONLY | O_DIRECTORY);
	AUTO_FD lower = fd_open_beneath(inside->lower_fd, path, O_RDONLY | O_DIRECTORY);
	const struct git_refs g = { upper, lower, inside->marks };
	bool changed = false;
	int rc;

	if (upper < 0 || lower < 0 || is_file_changed(&g, "HEAD") || is_file_changed(&g, "logs/HEAD"))
		return 1;
	rc = git_refs_differing(&g, note_ref, &changed);
	if (rc >= 0)
		rc = git_refs_removed(&g, note_ref, &changed);
	return rc == -ENOMEM ? rc : rc < 0 || changed;
}

/* In a git directory, only those of its own submodules are of interest. 1, 0 or -ENOMEM. */
static int is_internal(const struct git_refs *inside, const char *path, const char *name)
{
	AUTO_FREE char *parent = strndup(path, path_parent_size(path));

	if (!parent)
		return -ENOMEM;
	return strcmp(name, MODULES) == 0 ? 0 : is_git_directory(inside, parent);
}

static int visit(const struct tree_entry *e, void *arg)
{
	const struct modules *m = arg;
	AUTO_FREE char *path = str_format(MODULES "/%s", e->path);
	int rc = path ? 0 : -ENOMEM;

	if (rc >= 0 && S_ISDIR(e->stat.mode))
		rc = is_internal(m->inside, path, e->name);
	if (rc != 0 || !S_ISDIR(e->stat.mode))
		return rc < 0 ? rc : TREE_WALK_SKIP;
	rc = is_git_directory(m->inside, path);
	if (rc > 0)
		rc = is_changed(m->inside, path);
	if (rc > 0)
		rc = m->each(e->path, m->arg);
	return rc < 0 ? rc : TREE_WALK_GO;
}

int git_modules_changed(const struct git_refs *inside, int (*each)(const char *name, void *arg), void *arg)
{
	struct modules m = { inside, each, arg };
	AUTO_FD dir = fd_open_beneath(inside->upper_fd, MODULES, O_RDONLY | O_DIRECTORY);

	return dir < 0 ? 0 : tree_walk(dir, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, visit, &m, NULL);
}
