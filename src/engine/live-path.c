/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path to the workspace for programs outside. A copy has one. An overlay is mounted in a namespace alone: the way there leads through
 * the root of a process inside, which the kernel shows to the same user as /proc/PID/root. Not that of pid 1, which hides itself.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/process.h"
#include "engine/keeper.h"
#include "engine/slot.h"

#define PATIENCE_NS 3000000000LL

struct search {
	const char *path; /* inside */
	char *found;
};

static bool try_slot(int slot, const struct slot_note *note, void *arg)
{
	struct search *s = arg;
	AUTO_FREE pid_t *children = NULL;
	struct stat st;
	size_t n;

	(void)slot;
	/* The process that waits there is the next command. */
	if (note->kind == SLOT_SERVER)
		return false;
	if (!slot_is_alive(note) || note->kind == SLOT_PLAIN || process_children((pid_t)note->pid, &children, &n) < 0 ||
	    n == 0)
		return false;
	s->found = str_format("/proc/%d/root%s", (int)children[0], s->path);
	if (s->found && stat(s->found, &st) == 0)
		return true;
	free(s->found);
	s->found = NULL;
	return false;
}

static char *find_live(struct atoll *a, const char *uuid, const char *path)
{
	AUTO_FD fd = lock_open(a, uuid);
	struct search s = { .path = path };

	if (fd >= 0)
		slot_each(fd, try_slot, &s);
	return s.found;
}

/* The program of one that was just started may not be there yet. */
static char *wait_live(struct atoll *a, const char *uuid, const char *path)
{
	int64_t end = clock_monotonic_ns() + PATIENCE_NS;
	char *found;

	while (!(found = find_live(a, uuid, path)) && clock_monotonic_ns() < end)
		usleep(1000);
	return found;
}

/* Whether one that holds the path tells more of where it is than another: the inner one, but no guest, which lies in another's workspace. */
static bool is_nearer(const struct resource *r, const struct resource *than)
{
	bool guest = r->ops->capabilities & STRATEGY_GUEST;
	bool other = than && (than->ops->capabilities & STRATEGY_GUEST);

	return !than || (guest != other ? other : strlen(r->row.path) > strlen(than->row.path));
}

/* The resource that a path lies in; *ret_rest is what follows its root, with a slash before it or empty. */
static struct resource *find_resource(struct session *s, const char *path, char **ret_rest)
{
	struct resource *best = NULL;

	if (!path || *path != '/') {
		*ret_rest = path && *path ? str_format("/%s", path) : strdup("");
		return s->n > 0 ? &s->resources[0] : NULL;
	}
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];

		if (path_is_below(path, r->row.path) && is_nearer(r, best))
			best = r;
	}
	if (best)
		*ret_rest = strdup(path + strlen(best->row.path));
	return best;
}

/* Of the resource; NULL if it is not there. */
static int find_root(struct session *s, const struct resource *r, int idle_ms, char **ret, struct atoll_error *err)
{
	int k;

	if (!(r->ops->capabilities & STRATEGY_OVERLAY)) {
		*ret = r->ops->workspace ? str_format("%s/%s", r->row.work, r->ops->workspace) : strdup(r->row.path);
		return 0;
	}
	*ret = find_live(s->a, s->box.uuid, r->row.path);
	if (*ret)
		return 0;
	k = keeper_hold(s->a, s->box.name, NULL, false, idle_ms, err);
	if (k == 0)
		*ret = wait_live(s->a, s->box.uuid, r->row.path);
	return k;
}

/* Whoever opens it will follow what links are there, from the root of the host: the command may have made them. 0, -EXDEV or another -errno. */
static int stays_inside(const char *root, const char *rest)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	AUTO_FD dir = open(root, O_PATH | O_CLOEXEC);
	AUTO_FD fd = -EBADF;

	if (dir < 0)
		return -errno;
	rest += strspn(rest, "/");
	if (!*rest)
		return 0;
	fd = (int)syscall(SYS_openat2, dir, rest, &how, sizeof how);
	return fd < 0 ? -errno : 0;
}

static int find_path(struct session *s, const char *path, int idle_ms, char **ret, struct atoll_error *err)
{
	AUTO_FREE char *rest = NULL;
	AUTO_FREE char *inside = NULL;
	AUTO_FREE char *root = NULL;
	struct resource *r = find_resource(s, path, &rest);
	int k;

	if (!r)
		return error_set(err, ATOLL_NOT_FOUND, 0, "path", path,
				 "\"%s\" lies in no resource of the sandbox \"%s\"", path ? path : "", s->box.name);
	inside = rest ? str_format("%s%s", r->row.path, rest) : NULL;
	if (!inside)
		return error_oom(err, "path");
	k = find_root(s, r, idle_ms, &root, err);
	if (k < 0)
		return k;
	k = root ? stays_inside(root, rest) : -ENOENT;
	if (k == -EXDEV)
		return error_set(err, ATOLL_REFUSED, EXDEV, "path", path,
				 "\"%s\" leads out of the sandbox \"%s\", by a link or by \"..\"", inside, s->box.name);
	if (k < 0)
		return error_set(err, ATOLL_NOT_FOUND, -k, "path", path, "there is no \"%s\" in the sandbox \"%s\"",
				 inside, s->box.name);
	*ret = str_format("%s%s", root, rest);
	return *ret ? 0 : error_oom(err, "path");
}

int atoll_path(struct atoll *a, const char *name, const char *path, int idle_ms, char **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct session s = { .lock_fd = -EBADF };
	char *found = NULL;
	int r;

	if (!a || !ret)
		return error_set(err, ATOLL_INVALID, 0, "path", name, "no place was given for the path");
	r = session_peek(a, name, &s, err);
	if (r < 0)
		return r;
	session_pause(&s);
	r = find_path(&s, path, idle_ms, &found, err);
	session_release(&s);
	if (r < 0) {
		free(found);
		return r;
	}
	*ret = found;
	return 0;
}
