/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite databases that lie in a directory or repository and were not named as databases. Nobody uses one: then it is a file like any other. But
 * under a program that has it open, or with a log beside it that belongs to another version of it, it must not be exchanged: that program would
 * go on writing to a file that nobody sees any more, and the next one would apply the log to a database it was not made for.
 *
 * A program that opens it after this was looked at is kept out by the lease that is taken later on (conflict.c), until it is exchanged.
 */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "database/sqlite.h"

struct watcher {
	struct op *op;
	struct resource *r;
	const struct changes *changes;
	struct peer original;
	struct atoll_error *err;
};

const char *live_judge(int fd, int dirfd, const char *name)
{
	if (!sqlite_live_is_database(fd))
		return NULL;
	return sqlite_live_is_locked(fd, dirfd, name) || step_is_open_elsewhere(fd) ? LIVE_NOTE : NULL;
}

/* Whether the log beside a database comes or goes with it. */
static bool lands_with_log(const struct watcher *w, const char *path)
{
	AUTO_FREE char *log = str_format("%s-wal", path);
	const struct change *c = log ? changes_find(w->changes, log) : NULL;

	return c && c->kind != ATOLL_SKIPPED;
}

static int refuse(struct watcher *w, const char *path, const char *what)
{
	AUTO_FREE char *why = str_format("is a SQLite database %s; atoll new takes it as --db sqlite:%s/%s", what,
					 w->r->root_path, path);

	if (!why || op_tell(w->op, ATOLL_ITEM_REFUSED, w->r, path, why) < 0)
		return error_oom(w->err, "commit");
	return 0;
}

/* What cannot be opened is judged when its turn comes. */
static int watch(struct watcher *w, const char *path)
{
	int dir = peer_dir(&w->original, path, path_parent_size(path));
	const char *name = path_base_name(path);
	AUTO_FD fd = dir < 0 ? dir : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || !sqlite_live_is_database(fd))
		return 0;
	if (live_judge(fd, dir, name))
		return refuse(w, path, "that somebody has open");
	if (sqlite_live_has_log(dir, name) && !lands_with_log(w, path))
		return refuse(w, path, "with a log (-wal) that is not written back");
	return 0;
}

static bool is_file(const struct change *c)
{
	return (c->has_before && S_ISREG(c->before.mode)) || (c->has_after && S_ISREG(c->after.mode));
}

/* A log or journal that comes, goes or changes does so under the database beside it, changed or not. */
static int watch_change(struct watcher *w, const struct change *c)
{
	size_t stem = sqlite_live_stem(c->path);
	AUTO_FREE char *database = stem ? strndup(c->path, stem) : NULL;
	int r = 0;

	if (stem && !database)
		return error_oom(w->err, "commit");
	if (database && !changes_find(w->changes, database))
		r = watch(w, database);
	if (r >= 0 && c->has_before && S_ISREG(c->before.mode) && sqlite_live_is_likely(c->before.size))
		r = watch(w, c->path);
	return r;
}

int live_check(struct op *op, size_t index, struct atoll_error *err)
{
	struct resource *res = &op->s->resources[index];
	struct watcher w = { op, res, op->changes[index], { res->root_fd, NULL, -EBADF }, err };
	sigset_t before;
	int r = 0;

	step_leases_begin(&before);
	for (size_t i = 0; i < w.changes->n && r >= 0; i++) {
		const struct change *c = &w.changes->v[i];

		if (!c->part && !c->gone && c->kind != ATOLL_SKIPPED && is_file(c) &&
		    selection_has(&op->selections[index], c->path))
			r = watch_change(&w, c);
	}
	step_leases_end(&before);
	peer_release(&w.original);
	return r;
}
