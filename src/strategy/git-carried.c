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
