/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was staged in the original when a sandbox was made with its uncommitted work. The index inside begins with it, so that `git status` says
 * the same inside as outside. But the owner of the original staged it, not the sandboxed command: it lands only if the command commits or edits it.
 */
#include "strategy/git.h"

#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

int git_carried_drop(struct resource *r)
{
	int rc = sys_unlink(r->work_fd, GIT_CARRIED, 0);

	return rc == -ENOENT ? 0 : rc;
}

int git_carried_save(struct resource *r, const struct git_call *how, const struct git_id *base, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES staged = { 0 };
	AUTO_STRBUF text = STRBUF_INIT;
	int rc = git_entries_since(how, base, NULL, &staged, err);

	if (rc < 0)
		return rc;
	git_entries_format(&staged, strlen(base->hex), &text);
	rc = text.failed ? -ENOMEM
	     : staged.n  ? git_put_file(r->work_fd, GIT_CARRIED, text.data, text.size)
			 : git_carried_drop(r);
	return rc < 0 ? error_sys(err, rc, how->operation, r->row.path, "cannot write to \"%s\"", r->row.work) : 0;
}

int git_carried_load(struct resource *r, struct git_entries *ret)
{
	int rc = git_entries_load(r->work_fd, GIT_CARRIED, ret);

	return rc == -ENOENT ? 0 : rc;
}

/* ---- what a command inside has written over it ---- */

static bool has_same_content(const struct resource *r, int upper_fd, const struct change *c)
{
	AUTO_FD inside = -EBADF, outside = -EBADF;
	const char *ours, *theirs;

	if (S_ISLNK(c->after.mode))
		return !(c->what & ATOLL_WHAT_TARGET);
	if (!(c->what & ATOLL_WHAT_CONTENT))
		return true;
	return c->before.size == c->after.size && fd_open_parent(upper_fd, c->path, &inside, &ours) >= 0 &&
	       fd_open_parent(r->root_fd, c->path, &outside, &theirs) >= 0 &&
	       tree_same_content(inside, ours, outside, theirs) > 0;
}

bool git_carried_is_same(const struct git_work *w, int upper_fd, const struct change *c)
{
	return w->state.carried && c->has_before && c->has_after && c->kind != ATOLL_DELETED &&
	       !((c->before.mode ^ c->after.mode) & (S_IFMT | S_IXUSR)) && !S_ISDIR(c->after.mode) &&
	       c->before.ctime < resource_stamp(w->r, c->path) && has_same_content(w->r, upper_fd, c);
}
