/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was uncommitted in the original when a sandbox was made with it. The inside begins with it, staged or not, so that `git status` says the same
 * inside as outside. But it is the work of the owner of the original, not of the sandboxed command: it lands only if the command commits or edits it.
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

static int save(struct resource *r, const char *name, const struct git_entries *e, size_t hex_size)
{
	AUTO_STRBUF text = STRBUF_INIT;

	git_entries_format(e, hex_size, &text);
	return text.failed ? -ENOMEM : git_put_file(r->work_fd, name, strbuf_str(&text), text.size);
}

int git_carried_save(struct resource *r, const struct git_call *how, const struct git_id *base, struct atoll_error *err)
{
	const struct git_call outside = { .repo = how->repo, .operation = how->operation };
	AUTO_GIT_ENTRIES staged = { 0 }, uncommitted = { 0 };
	bool any;
	int rc = git_entries_since(how, base, NULL, &staged, err);

	if (rc >= 0)
		rc = git_entries_uncommitted(&outside, &uncommitted, &any, err);
	if (rc < 0)
		return rc;
	rc = staged.n ? save(r, GIT_CARRIED, &staged, strlen(base->hex)) : git_carried_drop(r);
	if (rc >= 0)
		rc = save(r, GIT_UNCOMMITTED, &uncommitted, strlen(base->hex));
	return rc < 0 ? error_sys(err, rc, how->operation, r->row.path, "cannot write to \"%s\"", r->row.work) : 0;
}

static int load(struct resource *r, const char *name, struct git_entries *ret)
{
	int rc = git_entries_load(r->work_fd, name, ret);

	return rc == -ENOENT ? 0 : rc;
}

int git_carried_load(struct resource *r, struct git_entries *ret_staged, struct git_entries *ret_uncommitted)
{
	int rc = load(r, GIT_CARRIED, ret_staged);

	return rc < 0 ? rc : load(r, GIT_UNCOMMITTED, ret_uncommitted);
}

/* ---- what a command inside has written over it ---- */

static bool has_same_content(const struct resource *r, int upper_fd, const struct change *c)
{
	AUTO_FD inside = -EBADF, outside = -EBADF;
	const char *inside_name, *outside_name;

	if (S_ISLNK(c->after.mode))
		return !(c->what & ATOLL_WHAT_TARGET);
	if (!(c->what & ATOLL_WHAT_CONTENT))
		return true;
	return c->before.size == c->after.size && fd_open_parent(upper_fd, c->path, &inside, &inside_name) >= 0 &&
	       fd_open_parent(r->root_fd, c->path, &outside, &outside_name) >= 0 &&
	       tree_same_content(inside, inside_name, outside, outside_name) > 0;
}

static bool is_like_original(const struct git_work *w, int upper_fd, const struct change *c)
{
	return c->has_before && c->has_after && !S_ISDIR(c->after.mode) &&
	       !((c->before.mode ^ c->after.mode) & (S_IFMT | S_IXUSR)) && has_same_content(w->r, upper_fd, c);
}

bool git_carried_is_same(const struct git_work *w, int upper_fd, const struct change *c)
{
	return w->state.carried && c->kind != ATOLL_DELETED && c->has_before &&
	       c->before.ctime < resource_stamp(w->r, c->path) && is_like_original(w, upper_fd, c);
}

/* Not so if the index inside has another commit's entry by now: then the work that came along has landed, or something else was committed. */
static bool came_along(const struct git_work *w, const char *path)
{
	const struct git_entry *then = git_entries_find(&w->uncommitted, path),
			       *now = git_entries_find(&w->tracked, path);

	return then && now &&
	       (git_entries_find(&w->carried, path) || (then->mode == now->mode && git_id_equal(&then->id, &now->id)));
}

bool git_carried_is_reverted(const struct git_work *w, int upper_fd, const struct change *c)
{
	return c->has_after && c->kind != ATOLL_DELETED && !git_entries_find(&w->base_new, c->path) &&
	       came_along(w, c->path) && !is_like_original(w, upper_fd, c);
}
