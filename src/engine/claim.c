/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Areas that lie outside of the state directory, and which registry owns them. A copy of a state directory names the
 * same areas there as the directory it was copied from, but has locks of its own. So each such area has a mark, the file
 * "owner": the id of the registry that owns the area, and the path of its state directory. Every session holds a shared
 * flock() on the marks of its sandbox, and pid 1 of a run keeps it; a process that changes a mark holds it alone. Areas in
 * the state directory need no mark: a copy of the directory has copies of them.
 *
 * An area without a mark (made by an older version, or left by a killed "new") belongs to the first registry that opens it.
 */
#include "engine/claim.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys.h"

#define MARK "owner"
#define MARK_SIZE (REGISTRY_ID_SIZE + PATH_MAX + 2)
#define PATIENCE_MS 3000

/* Beside MARK_SIZE there is room for a NUL. */
struct mark {
	char text[MARK_SIZE + 1];
	const char *id, *path; /* "": there is no mark */
};

struct claim {
	char *area;
	int fd;
};

struct claims {
	struct claim *v;
	size_t n;
};

/* ---- the mark ---- */

/* The mark is the id, a newline, the path, and a NUL, because a path may contain newlines. A shorter mark does not
 * truncate the longer one that it overwrites: bytes behind the NUL do not count. */
static int read_mark(int fd, struct mark *ret)
{
	ssize_t n = pread(fd, ret->text, MARK_SIZE, 0);
	char *end;

	ret->id = ret->path = "";
	if (n < 0)
		return -errno;
	ret->text[n] = 0;
	end = strchr(ret->text, '\n');
	if (!end || end == ret->text || end - ret->text >= REGISTRY_ID_SIZE || strlen(ret->text) == (size_t)n)
		return 0;
	*end = 0;
	ret->id = ret->text;
	ret->path = end + 1;
	return 0;
}

/* One call: no process that is killed leaves half a mark. */
static int write_mark(int fd, const char *id, const char *state_dir)
{
	AUTO_FREE char *text = str_format("%s\n%s", id, state_dir);

	return text ? sys_pwrite(fd, text, strlen(text) + 1, 0) : -ENOMEM;
}

/* -EPERM: the area is another user's. -ENOENT: the area is gone, or the mark if none is to be made. */
static int open_mark(const char *area, bool make)
{
	AUTO_FD dir = area_open(area);
	int fd;

	if (dir < 0)
		return dir;
	fd = openat(dir, MARK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == EROFS)
		fd = openat(dir, MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT && make ? sys_open(dir, MARK, O_RDWR | O_CREAT | O_NOFOLLOW, 0600) : -errno;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static bool is_held(int r)
{
	return r == -EWOULDBLOCK || r == -EAGAIN;
}

/* ---- the areas of a sandbox ---- */

static bool is_outside(const struct atoll *a, const char *area)
{
	return area && *area == '/' && !path_is_below(area, a->state_dir);
}

static struct claim *find_claim(const struct claims *claims, const char *area)
{
	for (size_t i = 0; claims && i < claims->n; i++)
		if (strcmp(claims->v[i].area, area) == 0)
			return &claims->v[i];
	return NULL;
}

/* Takes over fd, also if it fails. */
static int add_claim(struct claims **claims, const char *area, int fd)
{
	AUTO_FREE char *copy = strdup(area);
	AUTO_FD owned = fd;
	struct claim *grown;

	if (!*claims)
		*claims = calloc(1, sizeof **claims);
	grown = *claims ? reallocarray((*claims)->v, (*claims)->n + 1, sizeof *grown) : NULL;
	if (grown)
		(*claims)->v = grown;
	if (!grown || !copy)
		return -ENOMEM;
	grown[(*claims)->n++] = (struct claim){ TAKE_PTR(copy), TAKE_FD(owned) };
	return 0;
}

static struct claims *free_claims(struct claims *claims)
{
	for (size_t i = 0; claims && i < claims->n; i++) {
		/* A process that another thread forked may have it open too. */
		(void)flock(claims->v[i].fd, LOCK_UN);
		fd_close(claims->v[i].fd);
		free(claims->v[i].area);
	}
	if (claims)
		free(claims->v);
	free(claims);
	return NULL;
}

void claim_release(struct session *s)
{
	s->claims = free_claims(s->claims);
	free(s->lost_to);
	s->lost_to = NULL;
}

size_t claim_fds(const struct session *s, const int **ret)
{
	size_t n = s->claims ? s->claims->n : 0;
	int *fds = n ? reallocarray(NULL, n, sizeof *fds) : NULL;

	for (size_t i = 0; fds && i < n; i++)
		fds[i] = s->claims->v[i].fd;
	*ret = fds;
	return fds ? n : 0;
}

/* ---- a session ---- */

/* Whether the mark is to be written: there is none, or the state directory was moved since. */
static bool is_stale(const struct mark *m, const char *id, const char *state_dir)
{
	return !*m->id || (strcmp(m->id, id) == 0 && strcmp(m->path, state_dir) != 0);
}

/* Ends with the shared lock and what the mark says then. A lock cannot be raised in one step: what was read before counts no more. */
static int share_mark(int fd, const char *id, const char *state_dir, struct mark *ret)
{
	int64_t end = clock_monotonic_ns() + (int64_t)PATIENCE_MS * 1000000;
	bool failed = false, tried = false;

	for (;; nap()) {
		int r = sys_flock(fd, LOCK_SH | LOCK_NB);

		if (r == 0)
			r = read_mark(fd, ret);
		if (r == 0 && (failed || !is_stale(ret, id, state_dir) || (*ret->id && tried)))
			return 0;
		tried = true;
		if (r == 0)
			r = sys_flock(fd, LOCK_EX | LOCK_NB);
		if (r == 0)
			r = read_mark(fd, ret);
		/* Without a mark it works as before there were any. */
		if (r == 0 && is_stale(ret, id, state_dir))
			failed = write_mark(fd, id, state_dir) < 0;
		if (r < 0 && !is_held(r))
			return r;
		if (clock_monotonic_ns() >= end)
			return -EBUSY;
	}
}

static int tell_failed(const struct resource *r, const char *area, int rc, struct atoll_error *err)
{
	if (rc == -EBUSY)
		return error_set(err, ATOLL_BUSY, 0, "open", r->row.path,
				 "the workspace \"%s\" of \"%s\" is just being taken over by another state directory",
				 area, r->row.path);
	if (rc == -EPERM)
		return error_set(err, ATOLL_REFUSED, EPERM, "open", r->row.path,
				 "the workspace \"%s\" of \"%s\" belongs to another user, or others may write to it",
				 area, r->row.path);
	return error_sys(err, rc, "open", r->row.path, "cannot see which state directory owns the workspace \"%s\"",
			 area);
}

static int take_one(struct session *s, struct resource *res, const char *area, struct atoll_error *err)
{
	AUTO_FD fd = -EBADF;
	struct mark m;
	int r;

	if (!is_outside(s->a, area) || find_claim(s->claims, area))
		return 0;
	fd = open_mark(area, true);
	if (is_absent(fd) || fd == -EROFS || fd == -ENOSPC || fd == -EDQUOT)
		return 0;
	r = fd < 0 ? fd : share_mark(fd, s->registry, s->a->state_dir, &m);
	if (r < 0)
		return tell_failed(res, area, r, err);
	if (*m.id && strcmp(m.id, s->registry) != 0) {
		res->lost = true;
		if (!s->lost_to)
			s->lost_to = strdup(m.path);
		return s->lost_to ? 0 : error_oom(err, "open");
	}
	return add_claim(&s->claims, area, TAKE_FD(fd)) < 0 ? error_oom(err, "open") : 0;
}

static bool has_outside(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_outside(s->a, s->resources[i].row.work) || is_outside(s->a, s->resources[i].row.stage))
			return true;
	return false;
}

int claim_take(struct session *s, struct atoll_error *err)
{
	int r = 0;

	if (!has_outside(s))
		return 0;
	if (!*s->registry)
		r = owner_registry(s->a, s->store, s->registry, err);
	for (size_t i = 0; i < s->n && r >= 0; i++) {
		r = take_one(s, &s->resources[i], s->resources[i].row.work, err);
		if (r >= 0)
			r = take_one(s, &s->resources[i], s->resources[i].row.stage, err);
	}
	return r;
}

int claim_refuse(const struct session *s, struct atoll_error *err)
{
	const char *advice;

	if (!s->lost_to)
		return 0;
	advice = owner_is_there(s->lost_to) ? "use it there, or remove it here with --force, which keeps its files"
					    : "which is no longer there: take it back with atoll recover --adopt";
	return error_set(err, ATOLL_REFUSED, 0, "open", s->box.name,
			 "the sandbox \"%s\" is owned by the copy of the state directory at \"%s\"; %s", s->box.name,
			 s->lost_to, advice);
}

bool claim_is_lost(struct session *s, const char *registry)
{
	for (size_t i = 0; i < s->n && !s->lost_to; i++) {
		const char *const areas[] = { s->resources[i].row.work, s->resources[i].row.stage };

		for (size_t k = 0; k < ARRAY_SIZE(areas) && !s->lost_to; k++) {
			AUTO_FD fd = is_outside(s->a, areas[k]) ? open_mark(areas[k], false) : -EBADF;
			struct mark m;

			if (fd >= 0 && read_mark(fd, &m) >= 0 && *m.id && strcmp(m.id, registry) != 0)
				s->lost_to = strdup(m.path);
		}
	}
	return s->lost_to;
}

bool claim_may_remove(struct session *s, const char *area)
{
	AUTO_FD fd = is_outside(s->a, area) ? open_mark(area, false) : -EBADF;
	struct mark m;

	if (fd < 0 || read_mark(fd, &m) < 0 || !*m.id)
		return true;
	return (*s->registry || owner_registry(s->a, s->store, s->registry, NULL) >= 0) &&
	       strcmp(m.id, s->registry) == 0;
}

/* ---- taking over ---- */

struct takeover {
	struct atoll *a;
	const char *registry; /* of which no area is to be taken */
	struct claims *claims;
};

/* The other one must not be in use, nor be where its mark says. */
static int lock_alone(const struct takeover *t, int fd, const char *area, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + (int64_t)PATIENCE_MS * 1000000;
	struct mark m;
	int r, known;

	while (is_held(r = sys_flock(fd, LOCK_EX | LOCK_NB)) && clock_monotonic_ns() < end)
		nap();
	known = read_mark(fd, &m);
	if (is_held(r))
		return error_set(
			err, ATOLL_BUSY, 0, "recover", area,
			"the workspace \"%s\" is in use through another copy of the state directory, last at \"%s\"",
			area, known < 0 ? "" : m.path);
	if (r < 0 || known < 0)
		return error_sys(err, r < 0 ? r : known, "recover", area, "cannot lock the workspace \"%s\"", area);
	if (*m.id && owner_is_elsewhere(t->a, m.path, m.id))
		return error_set(
			err, ATOLL_REFUSED, 0, "recover", t->a->state_dir,
			"the workspace \"%s\" is owned by the state directory \"%s\", which is there; use that one, "
			"and remove \"%s\"",
			area, m.path, t->a->state_dir);
	return 0;
}

static int lock_area(struct takeover *t, const char *area, struct atoll_error *err)
{
	AUTO_FD fd = -EBADF;
	struct mark m;
	int r;

	if (!is_outside(t->a, area) || find_claim(t->claims, area))
		return 0;
	fd = open_mark(area, true);
	if (is_absent(fd))
		return 0;
	r = fd < 0 ? fd : read_mark(fd, &m);
	if (r < 0)
		return error_sys(err, r, "recover", area, "cannot take over the workspace \"%s\"", area);
	if (*t->registry && (!*m.id || strcmp(m.id, t->registry) == 0))
		return 0;
	r = lock_alone(t, fd, area, err);
	if (r < 0)
		return r;
	return add_claim(&t->claims, area, TAKE_FD(fd)) < 0 ? error_oom(err, "recover") : 0;
}

static int lock_areas_of(struct takeover *t, struct store *store, int64_t box, struct atoll_error *err)
{
	struct store_resource *rows = NULL;
	size_t n = 0;
	int r = store_resource_list(store, box, &rows, &n, err);

	for (size_t i = 0; i < n; i++) {
		if (r >= 0)
			r = lock_area(t, rows[i].work, err);
		if (r >= 0)
			r = lock_area(t, rows[i].stage, err);
		store_resource_release(&rows[i]);
	}
	free(rows);
	return r;
}

int claim_lock_all(struct atoll *a, struct store *store, const char *registry, struct claims **ret,
		   struct atoll_error *err)
{
	struct takeover t = { .a = a, .registry = registry };
	struct store_sandbox *boxes = NULL;
	size_t n = 0;
	int r = store_sandbox_list(store, &boxes, &n, err);

	fd_raise_limit();
	for (size_t i = 0; i < n; i++) {
		if (r >= 0)
			r = lock_areas_of(&t, store, boxes[i].id, err);
		store_sandbox_release(&boxes[i]);
	}
	free(boxes);
	*ret = t.claims;
	return r;
}

int claim_mark_all(struct atoll *a, const struct claims *claims, const char *registry, struct atoll_error *err)
{
	for (size_t i = 0; claims && i < claims->n; i++) {
		int r = write_mark(claims->v[i].fd, registry, a->state_dir);

		if (r >= 0)
			r = sys_fsync(claims->v[i].fd);
		if (r < 0)
			return error_sys(err, r, "recover", claims->v[i].area, "cannot take over the workspace \"%s\"",
					 claims->v[i].area);
	}
	return 0;
}

struct claims *claim_unlock_all(struct claims *claims)
{
	return free_claims(claims);
}
