/* SPDX-License-Identifier: Apache-2.0 */
/* Showing changes to callers of the library. */
#include "engine/protocol.h"
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>

struct shown {
	struct resource *r;
	const struct change *c; /* &change */
	struct change change;
	int workspace_fd;
};

/* Shows a rename as one change: its old state is that of the deleted file.
 * changes_compare_renames() has already recorded what else differs. */
static void fill_renamed(struct shown *shown, const struct changes *changes)
{
	const struct change *old = changes_find(changes, shown->change.old_path);
	struct change *c = &shown->change;

	if (!old || !old->renamed)
		return;
	c->kind = ATOLL_RENAMED;
	c->has_before = true;
	c->before = old->before;
}

static void fill(const struct shown *shown, struct atoll_change *ret)
{
	const struct change *c = shown->c;

	*ret = (struct atoll_change){
		.resource = shown->r->row.seq,
		.resource_path = c->part ? shown->r->row.path : shown->r->root_path,
		.path = *c->path ? c->path : ".",
		.part = c->part,
		.old_path = c->old_path,
		.kind = c->kind,
		.what = c->what,
		.note = c->gone ? "the original was removed by somebody else" : c->note,
		.priv = shown,
	};
	if (c->part)
		return;
	if (c->has_before) {
		ret->old_mode = c->before.mode;
		ret->old_uid = c->before.uid;
		ret->old_gid = c->before.gid;
		ret->old_size = (int64_t)c->before.size;
	}
	if (c->has_after) {
		ret->new_mode = c->after.mode;
		ret->new_uid = c->after.uid;
		ret->new_gid = c->after.gid;
		ret->new_size = (int64_t)c->after.size;
	}
}

/* A selection includes a rename if it includes either of its paths. */
static bool is_wanted(const struct resource *r, const struct selection *selection, const struct change *c)
{
	if (c->part)
		return part_is_selected(r, selection);
	return selection_has(selection, c->path) || (c->old_path && selection_has(selection, c->old_path));
}

static int show_resource(struct resource *r, const struct changes *changes, const struct selection *selection,
			 atoll_change_fn fn, void *arg)
{
	AUTO_FD workspace = r->ops->workspace ? resource_workspace(r) : -EBADF;

	for (size_t i = 0; i < changes->n; i++) {
		struct shown shown = { .r = r, .change = changes->v[i], .workspace_fd = workspace };
		struct atoll_change change;

		if (changes->v[i].implied || changes->v[i].renamed || !is_wanted(r, selection, &changes->v[i]))
			continue;
		shown.c = &shown.change;
		if (shown.change.old_path)
			fill_renamed(&shown, changes);
		fill(&shown, &change);
		if (fn(&change, arg))
			return 1;
	}
	return 0;
}

/* ---- resources within resources ---- */

static bool has_shown(const struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (!c->v[i].implied)
			return true;
	return false;
}

static bool lies_in(const struct resource *inner, const struct resource *outer)
{
	return inner != outer && !outer->only && !kind_is_remote(inner->row.kind) && !kind_is_remote(outer->row.kind) &&
	       path_is_below(inner->row.path, outer->row.path);
}

/* The innermost that it lies in. */
static const struct resource *holder_of(const struct session *s, const struct resource *r)
{
	const struct resource *best = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (lies_in(r, &s->resources[i]) &&
		    (!best || strlen(s->resources[i].row.path) > strlen(best->row.path)))
			best = &s->resources[i];
	return best;
}

/* What was changed below a resource and is another one's is listed there; here it is said whose it is. */
static int show_nested(struct session *s, size_t outer, struct changes *const *changes,
		       const struct selection *selection, atoll_change_fn fn, void *arg)
{
	struct resource *r = &s->resources[outer];

	for (size_t i = 0; i < s->n; i++) {
		const struct resource *inner = &s->resources[i];
		struct shown shown = { .r = r, .workspace_fd = -EBADF };
		struct atoll_change change;
		AUTO_FREE char *note = NULL;

		if (!lies_in(inner, r) || !has_shown(changes[i]) || holder_of(s, inner) != r)
			continue;
		note = str_format("is resource %d of the sandbox, %s, and lands with that", inner->row.seq,
				  inner->ops->name);
		shown.change.path = inner->row.path + strlen(r->row.path) + 1;
		shown.change.kind = ATOLL_SKIPPED;
		shown.change.note = note;
		shown.c = &shown.change;
		if (!selection_has(selection, shown.change.path))
			continue;
		fill(&shown, &change);
		if (fn(&change, arg))
			return 1;
	}
	return 0;
}

int atoll_changes(struct atoll *a, const char *name, const struct atoll_selection *selection, atoll_change_fn fn,
		  void *arg, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct session s = { .lock_fd = -EBADF };
	struct selection *selected = NULL;
	struct changes **changes = NULL;
	struct atoll_error local = { 0 };
	int r = a && fn ? sandbox_open(a, name, LOCK_LOOK, 0, &s, &local)
			: error_set(&local, ATOLL_INVALID, 0, "diff", NULL, "no handle or no function was given");

	if (r >= 0)
		r = selection_for(selection, &s, &selected, &local);
	if (r >= 0)
		r = session_changes(&s, true, &changes, &local);
	if (r >= 0)
		r = selection_check(selected, &s, changes, &local);
	if (r >= 0)
		r = selection_check_patterns(selected, &s, changes, "diff", &local);
	session_pause(&s);
	for (size_t i = 0; i < s.n && r == 0; i++) {
		r = show_resource(&s.resources[i], changes[i], &selected[i], fn, arg);
		if (r == 0)
			r = show_nested(&s, i, changes, &selected[i], fn, arg);
	}
	session_changes_free(changes, s.n);
	selection_free(selected, s.n);
	session_release(&s);
	if (r < 0 && err)
		*err = local;
	return MIN(r, 0);
}

static int open_content(int root_fd, const char *path)
{
	AUTO_FD node = root_fd < 0 ? -ENOENT : fd_open_beneath(root_fd, path, O_PATH);
	struct stat st;

	if (node < 0)
		return -ENOENT;
	if (fstat(node, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	return fd_reopen(node, O_RDONLY | O_CLOEXEC);
}

static char *read_target(int root_fd, const char *path)
{
	AUTO_FD node = root_fd < 0 ? -ENOENT : fd_open_beneath(root_fd, path, O_PATH);
	char *target = NULL;

	return node >= 0 && fd_readlink(node, "", &target) >= 0 ? target : NULL;
}

int atoll_change_open_old(const struct atoll_change *change)
{
	const struct shown *shown = change->priv;

	if (!shown->c->has_before)
		return -ENOENT;
	return open_content(shown->r->root_fd, shown->c->old_path ? shown->c->old_path : shown->c->path);
}

int atoll_change_open_new(const struct atoll_change *change)
{
	const struct shown *shown = change->priv;

	return shown->c->has_after ? open_content(shown->workspace_fd, shown->c->path) : -ENOENT;
}

char *atoll_change_old_target(const struct atoll_change *change)
{
	const struct shown *shown = change->priv;

	return shown->c->has_before ? read_target(shown->r->root_fd, shown->c->path) : NULL;
}

char *atoll_change_new_target(const struct atoll_change *change)
{
	const struct shown *shown = change->priv;

	return shown->c->has_after ? read_target(shown->workspace_fd, shown->c->path) : NULL;
}

int atoll_change_rows(const struct atoll_change *change, atoll_row_fn fn, void *arg, struct atoll_error *err)
{
	const struct shown *shown = change->priv;
	int r = 0;

	if (shown->c->part && shown->r->ops->rows)
		r = shown->r->ops->rows(shown->r, shown->c->path, fn, arg, err);
	return MIN(r, 0);
}

const char *atoll_change_kind_name(enum atoll_change_kind kind)
{
	static const char *const names[] = { "added",   "modified", "deleted", "type changed", "metadata changed",
					     "renamed", "skipped" };

	return (unsigned)kind < ARRAY_SIZE(names) ? names[kind] : "unknown";
}

char atoll_change_kind_letter(enum atoll_change_kind kind)
{
	static const char letters[] = "AMDTmRS";

	return (unsigned)kind < sizeof letters - 1 ? letters[kind] : '?';
}

const char *atoll_strategy_name(size_t i)
{
	for (size_t k = 0; strategy_all[k]; k++)
		if (k == i)
			return strategy_all[k]->name;
	return NULL;
}

const char *atoll_strategy_summary(size_t i)
{
	return atoll_strategy_name(i) ? strategy_all[i]->summary : NULL;
}
