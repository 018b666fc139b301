/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds files that only the original has and that the user commits or removes there while the
 * sandbox builds on them.
 *
 * At first git tracks such a file neither in the base commit of the sandbox nor inside: it is
 * untracked or ignored. In one case the user commits it in the original after a command inside has
 * edited or removed it: both sides have changed it, although no commit of the sandbox says so. In
 * the other case a command inside commits the file unchanged, so the upper layer has no copy of it,
 * and the user then removes it in the original: the inside does not show it any more, although no
 * command inside has removed it.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

/* ---- committed in the original ---- */

/* Whether the original's branch added the file since the base, and the sandbox's tree lacks it. */
static bool is_added_there(const struct git_work *w, const char *path)
{
	const struct git_entry *there = git_work_original(w, path), *here = git_entries_find(&w->head_new, path);

	return there && there->mode && here && !here->mode && !git_entries_find(&w->base_new, path) &&
	       !git_entries_find(&w->hidden, path);
}

static bool is_file(const struct change *c)
{
	return c->kind != ATOLL_SKIPPED && !S_ISDIR(c->has_after ? c->after.mode : c->before.mode);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct git_entry *)a)->path, ((const struct git_entry *)b)->path);
}

/* An entry of mode 0 is a file that was removed inside. */
static int collect_crossed(const struct git_work *w, struct git_entries *ret)
{
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	int rc = MIN(upper, 0);

	for (size_t i = 0; i < w->files->n && rc >= 0; i++) {
		const struct change *c = &w->files->v[i];

		if (!is_file(c) || !is_added_there(w, c->path))
			continue;
		/* Removing a directory inside does not remove a file that the original put there
		 * afterwards. A sparse checkout inside removes directories too. */
		if (c->below && !c->has_after && (w->hidden.n || c->before.ctime >= resource_stamp(w->r, c->path)))
			continue;
		if (c->has_after && (git_entries_find(&w->tracked, c->path) ||
				     git_carried_is_like_original(w, upper, c) || git_as_is_edits_file(w, upper, c)))
			continue;
		if (!c->has_after && c->gone)
			continue;
		rc = git_entries_add(ret, c->path, c->has_after ? c->after.mode : 0, &w->head, 0);
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, compare_paths);
	return rc;
}

static bool has_removed(const struct git_entries *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (!list->v[i].mode)
			return true;
	return false;
}

int git_outside_find_crossed(struct git_work *w, struct atoll_error *err)
{
	AUTO_GIT_ENTRIES found = { 0 }, began = { 0 };
	const struct git_call call = git_work_call(w);
	int rc = collect_crossed(w, &found);

	if (rc < 0)
		return error_sys(err, rc, w->operation, w->r->row.path, "cannot look at the files of \"%s\"",
				 w->r->row.path);
	/* A reset to an older commit inside also removes files that the sandbox began with. */
	if (has_removed(&found) && !git_id_equal(&w->base, &w->state.base))
		rc = git_entries_between(&call, &w->base, &w->state.base, NULL, &began, err);
	for (size_t i = 0; i < found.n && rc >= 0; i++) {
		const struct git_entry *e = &found.v[i], *then = git_entries_find(&began, e->path);

		if ((e->mode || !(then && then->mode)) && git_entries_add(&w->crossed, e->path, e->mode, &e->id, 0) < 0)
			rc = error_oom(err, w->operation);
	}
	return rc;
}

/* ---- removed in the original ---- */

static bool is_listed(const char *path, const void *entries)
{
	return git_entries_find(entries, path) != NULL;
}

/* Whether no command made or removed an entry in the file's directory of the upper layer since that
 * time. The directory's timestamp is the only trace of a file that a command made and removed
 * again. */
static bool is_quiet_since(int upper_fd, const char *path, int64_t when)
{
	AUTO_FREE char *dir = strdup(path);

	while (dir && *dir) {
		char *slash = strrchr(dir, '/');
		AUTO_FD there = -EBADF;
		struct tree_stat st;

		dir[slash ? slash - dir : 0] = 0;
		there = fd_open_beneath(upper_fd, dir, O_RDONLY | O_DIRECTORY);
		if (there >= 0)
			return tree_stat(there, "", &st) >= 0 && st.ctime < when;
		if (there != -ENOENT)
			return false;
	}
	return false;
}

int git_outside_find_removed(const struct git_work *w, const struct git_entries *vanished, struct git_entries *ret)
{
	const struct git_index_filter listed = { is_listed, vanished };
	AUTO_FD upper = fd_open_beneath(w->r->work_fd, OVERLAY_UPPER, O_RDONLY | O_DIRECTORY);
	struct git_index_file index = { .data = w->file.data, .size = w->file.size };
	struct tree_stat area;
	int rc = upper < 0 ? upper : tree_stat(w->r->work_fd, "", &area);

	/* An index that only git can read gives no timestamps. */
	if (rc < 0 || !index.data || git_index_file_parse(&index, strlen(w->tip.hex), &listed) < 0)
		return MIN(rc, 0);
	for (size_t i = 0; i < index.entries.n && rc >= 0; i++) {
		const struct git_entry *e = &index.entries.v[i];
		bool older = e->look.ctime < area.btime; /* than the sandbox; btime 0: unknown */

		/* An entry without timestamps is one whose file git has not looked at. */
		if (e->look.ctime && git_entries_find(vanished, e->path) &&
		    (older || is_quiet_since(upper, e->path, e->look.ctime)))
			rc = git_entries_add(ret, e->path, e->mode, &e->id, 0);
	}
	git_entries_release(&index.entries);
	return rc;
}
