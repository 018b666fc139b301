/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of strategies, and the wrappers the engine calls. */
#include "strategy/strategies.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#define STRATEGY_MAX 16

const struct strategy_ops *strategy_all[STRATEGY_MAX + 1] = { &strategy_git,  &strategy_overlay, &strategy_snapshot,
							      &strategy_copy, &strategy_sqlite,  &strategy_postgres,
							      &strategy_none };

static bool is_called(const struct strategy_ops *ops, const char *name)
{
	return strcmp(ops->name, name) == 0 || (ops->alias && strcmp(ops->alias, name) == 0);
}

static const struct strategy_ops *find(const char *name, unsigned kinds)
{
	for (size_t i = 0; strategy_all[i]; i++)
		if ((strategy_all[i]->kinds & kinds) && is_called(strategy_all[i], name))
			return strategy_all[i];
	return NULL;
}

const struct strategy_ops *strategy_find(const char *name, enum atoll_kind kind)
{
	return find(name, STRATEGY_SERVES(kind));
}

bool strategy_is_known(const char *name)
{
	return find(name, ~0u);
}

static bool is_complete(const struct strategy_ops *ops)
{
	const unsigned isolated = STRATEGY_UNDO_BEFORE | STRATEGY_UNDO_AFTER | STRATEGY_LAYERED | STRATEGY_PART |
				  STRATEGY_DECIDES | STRATEGY_VOTES;

	if (!ops->name || !ops->summary || !ops->kinds || !ops->begin || !ops->view)
		return false;
	if ((ops->capabilities & STRATEGY_DECIDES) &&
	    (!ops->decide_prepare || !ops->decide_commit || !ops->decide_outcome ||
	     (ops->capabilities & (STRATEGY_UNDO_AFTER | STRATEGY_PART))))
		return false;
	if ((ops->capabilities & STRATEGY_VOTES) && (!(ops->capabilities & STRATEGY_DECIDES) || !ops->vote_room ||
						     !ops->vote_prepare || !ops->vote || !ops->vote_end))
		return false;
	if ((ops->capabilities & STRATEGY_PART) && (!ops->part_prepare || !ops->part_side || !ops->part_move))
		return false;
	return ops->capabilities & STRATEGY_ISOLATES ? ops->changes && ops->base && ops->workspace
						     : !(ops->capabilities & isolated);
}

int strategy_register(const struct strategy_ops *ops)
{
	size_t n = 0, at = 0;

	if (!is_complete(ops))
		return -EINVAL;
	if (find(ops->name, ops->kinds) || (ops->alias && find(ops->alias, ops->kinds)))
		return -EEXIST;
	for (; strategy_all[n]; n++) {
		if (strategy_all[n]->strength == ops->strength)
			return -EEXIST;
		at += strategy_all[n]->strength > ops->strength;
	}
	if (n == STRATEGY_MAX)
		return -ENOSPC;
	memmove(&strategy_all[at + 1], &strategy_all[at], (n - at) * sizeof(strategy_all[0]));
	strategy_all[at] = ops;
	return 0;
}

void strategy_names(struct strbuf *out)
{
	/* One name may stand for several, of which each serves other kinds. */
	for (size_t i = 0; strategy_all[i]; i++)
		if (find(strategy_all[i]->name, ~0u) == strategy_all[i])
			strbuf_addf(out, "%s%s", i ? ", " : "", strategy_all[i]->name);
}

static bool has_path(char *const *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

bool resource_is_claimed(const struct resource *r, const char *path)
{
	return has_path(r->claimed, r->n_claimed, path);
}

enum tree_marks resource_marks(const struct resource *r)
{
	if (r->host)
		return resource_marks(r->host);
	if (!(r->ops->capabilities & STRATEGY_OVERLAY))
		return TREE_MARKS_NONE;
	assert(r->marks != TREE_MARKS_NONE);
	return r->marks;
}

bool resource_excludes(const struct resource *r, const char *path)
{
	return has_path(r->excluded, r->n_excluded, path) || resource_is_claimed(r, path);
}

bool resource_is_others(const struct resource *r, const char *path)
{
	for (size_t i = 0; i < r->n_excluded; i++)
		if (path_is_below(path, r->excluded[i]))
			return true;
	return resource_is_claimed(r, path);
}

const char *resource_excluded_below(const struct resource *r, const char *path)
{
	for (size_t i = 0; i < r->n_excluded; i++)
		if (path_is_below(r->excluded[i], path))
			return r->excluded[i];
	for (size_t i = 0; i < r->n_claimed; i++)
		if (path_is_below(r->claimed[i], path))
			return r->claimed[i];
	return NULL;
}

static int compare_stamp(const void *path, const void *stamp)
{
	return strcmp(path, ((const struct store_stamp *)stamp)->path);
}

/* The latest stamp of the path or of a directory above it; INT64_MIN if there is none. */
static int64_t latest_stamp(const struct resource *r, const char *path)
{
	AUTO_FREE char *at = r->n_stamps ? strdup(path) : NULL;
	int64_t stamp = INT64_MIN;

	/* The path itself, then each directory above it. */
	while (at) {
		const struct store_stamp *found = bsearch(at, r->stamps, r->n_stamps, sizeof *r->stamps, compare_stamp);
		char *slash = strrchr(at, '/');

		if (found)
			stamp = MAX(stamp, found->stamp);
		if (!*at)
			break;
		*(slash ? slash : at) = 0;
	}
	return stamp;
}

/* A path never begins with a slash, so no path is taken for an inode. */
char *resource_inode_key(const struct tree_id *id)
{
	AUTO_STRBUF key = STRBUF_INIT;

	strbuf_addc(&key, '/');
	for (size_t i = 0; i < id->size; i++)
		strbuf_addf(&key, "%02x", id->data[i]);
	return strbuf_take(&key);
}

bool resource_ctime_is_own(const struct resource *r, const struct tree_id *id, int64_t ctime)
{
	AUTO_FREE char *key = r->n_stamps ? resource_inode_key(id) : NULL;
	const struct store_stamp *found = key ? bsearch(key, r->stamps, r->n_stamps, sizeof *r->stamps, compare_stamp)
					      : NULL;

	return found && found->stamp == ctime;
}

int64_t resource_stamp(const struct resource *r, const char *path)
{
	return MAX(r->row.stamp, latest_stamp(r, path));
}

int64_t resource_dir_stamp(const struct resource *r, const char *path)
{
	AUTO_FREE char *self = r->n_stamps ? str_format("%s/.", path) : NULL;

	return self ? resource_stamp(r, *path ? self : self + 1) : r->row.stamp;
}

int64_t resource_own_stamp(const struct resource *r, const char *path, bool directory)
{
	AUTO_FREE char *self = r->n_stamps && directory ? str_format("%s/.", path) : NULL;

	return latest_stamp(r, !self ? path : *path ? self : self + 1);
}

int resource_look(int dirfd, const char *name, const struct tree_stat *st, struct store_look *ret)
{
	struct tree_id id;
	int rc = tree_identify(dirfd, name, st, &id);

	if (rc < 0)
		return rc;
	*ret = store_look_of(st, &id);
	return 0;
}

/* A file resource is its parent directory, of which one name counts. */
static bool is_sibling(const struct resource *r, const char *path)
{
	for (size_t i = 0; i < r->n_siblings; i++)
		if (path_is_below(path, r->siblings[i]))
			return true;
	return false;
}

/* Whether to list a change as skipped. Entries of a directory that was added or removed as a whole
 * are not listed, nor are new times of the directory that contains the file. */
static bool is_beside(const struct change *c, const struct resource *r)
{
	return !c->below && !c->gone && !r->follows_sibling && !is_sibling(r, c->path) &&
	       (*c->path || (c->kind == ATOLL_META && (c->what & ~ATOLL_WHAT_TIME)));
}

static void keep_only(struct changes *c, const struct resource *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct change change = c->v[i];

		if (change.part || path_is_below(change.path, r->only)) {
			c->v[kept++] = change;
			continue;
		}
		if (is_beside(&change, r)) {
			change.kind = ATOLL_SKIPPED;
			change.note = "lies outside the file resource";
			c->v[kept++] = change;
			continue;
		}
		free(change.path);
		free(change.old_path);
		free(change.words);
	}
	c->n = kept;
}

/* Whether a guest lies directly in the directory: then its times move with whatever comes and goes beside the guest's file. */
static bool holds_guest(const struct resource *r, const char *dir)
{
	size_t size = strlen(dir);

	for (size_t i = 0; i < r->n_claimed; i++)
		if (path_parent_size(r->claimed[i]) == size && path_is_below(r->claimed[i], dir))
			return true;
	return false;
}

/* Whether a commit leaves this directory's time alone: the directory holds a file of another resource, or another process has changed the
 * original's directory since the sandbox began. */
static bool is_left_to_others(const struct change *c, const struct resource *r)
{
	return c->kind == ATOLL_META && c->what == ATOLL_WHAT_TIME && !c->implied && !c->part &&
	       S_ISDIR(c->after.mode) &&
	       (holds_guest(r, c->path) || (c->has_before && c->before.ctime >= resource_dir_stamp(r, c->path)));
}

static void drop_times_of_others(struct changes *c, const struct resource *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct change change = c->v[i];

		if (is_left_to_others(&change, r)) {
			free(change.path);
			free(change.old_path);
			free(change.words);
			continue;
		}
		c->v[kept++] = change;
	}
	c->n = kept;
}

/* Whether the FIFO, socket or device at the path came there after the sandbox began. Its ctime moves when others write to it, so that its
 * identity counts where that is known. */
static bool came_meanwhile(struct resource *r, struct change *c, struct peer *original)
{
	struct store_touch base;
	struct store_look now;

	if (r->ops->base && r->ops->base(r, c->path, &base, NULL) > 0 && (base.trusted & STORE_TRUST_IDENTITY))
		return change_look(c, original, &now) < 0 || !tree_id_equal(&now.id, &base.look.id);
	return c->before.ctime >= resource_stamp(r, c->path);
}

/* No change overrides a FIFO, socket or device that took the place of something: not even that its original was deleted inside. */
static void skip_usurped(struct changes *list, struct resource *r)
{
	struct peer original = { r->root_fd, NULL, -EBADF };

	for (size_t i = 0; i < list->n; i++) {
		struct change *c = &list->v[i];

		if (!c->has_before || !tree_is_special(c->before.mode) || c->part || c->below || c->in_opaque ||
		    (c->kind != ATOLL_SKIPPED && c->kind != ATOLL_DELETED) || !came_meanwhile(r, c, &original))
			continue;
		c->usurped = true;
		if (c->kind == ATOLL_SKIPPED)
			continue;
		c->kind = ATOLL_SKIPPED;
		c->note = CHANGE_NOTE_SPECIAL;
		c->has_after = c->after.mode != 0;
	}
	peer_release(&original);
}

struct changes *strategy_changes(struct resource *r, bool exact, struct atoll_error *err)
{
	struct changes *c;

	if (!r->ops->changes)
		c = changes_new();
	else
		c = r->ops->changes(r, exact, err);
	if (!c) {
		if (!r->ops->changes)
			error_oom(err, "diff");
		return NULL;
	}
	changes_sort(c);
	drop_times_of_others(c, r);
	skip_usurped(c, r);
	if (!r->only)
		return c;
	keep_only(c, r);
	if (changes_settle_links(c) < 0) {
		error_oom(err, "diff");
		return changes_free(c);
	}
	return c;
}
