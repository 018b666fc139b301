/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on the directories of originals; exclusion.h says which, and why. */
#include "engine/exclusion.h"
#include "engine/claim.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/sys.h"
#include "engine/protocol.h"

#define ALIAS_DEPTH 8 /* bind mounts of bind mounts that are followed */
#define LOCKS_MAX ((size_t)1 << 22)

/* One directory. flock() belongs to the open file: a second fd of the same directory would exclude the first. */
struct tree_lock {
	int fd;
	uint64_t dev, ino;
	bool alone; /* exclusive; else shared */
};

struct exclusion {
	struct tree_lock *v;
	size_t n;
};

static struct exclusion *free_locks(struct exclusion *e)
{
	for (size_t i = 0; e && i < e->n; i++) {
		/* Closing would not do: a process that another thread forked meanwhile may have the directory open too. */
		(void)flock(e->v[i].fd, LOCK_UN);
		fd_close(e->v[i].fd);
	}
	if (e)
		free(e->v);
	free(e);
	return NULL;
}

static void cleanup_exclusion(struct exclusion **e)
{
	*e = free_locks(*e);
}

/* ---- which directories ---- */

static struct tree_lock *find_lock(struct exclusion *e, const struct tree_stat *st)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->v[i].dev == st->dev && e->v[i].ino == st->ino)
			return &e->v[i];
	return NULL;
}

/* Opens the directory for the lock. One that the user may not read cannot be locked by this user, and is passed over. */
static int add_directory(struct exclusion *e, int dir, const struct tree_stat *st, bool alone)
{
	struct tree_lock *known = find_lock(e, st), *grown;
	AUTO_FD fd = -EBADF;

	if (known) {
		known->alone |= alone;
		return 0;
	}
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? 0 : -errno;
	grown = reallocarray(e->v, e->n + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	e->v = grown;
	e->v[e->n++] = (struct tree_lock){ TAKE_FD(fd), st->dev, st->ino, alone };
	return 0;
}

static int climb(struct exclusion *e, int from, bool alone, int depth);

/* The directories that lie above a bind mount's root in its filesystem. */
static int climb_alias(struct exclusion *e, const struct tree_stat *st, int depth)
{
	AUTO_FD alias = depth < ALIAS_DEPTH ? mount_alias_open(st) : -ENOENT;

	if (alias == -ENOENT)
		return 0;
	return alias < 0 ? alias : climb(e, alias, false, depth + 1);
}

/* Adds a directory and all that lie above it. */
static int climb(struct exclusion *e, int from, bool alone, int depth)
{
	AUTO_FD at = fcntl(from, F_DUPFD_CLOEXEC, 0);
	struct tree_stat st = { 0 }, above = { 0 };
	int r = at < 0 ? -errno : tree_stat(at, "", &st);

	while (r >= 0) {
		int up;

		r = add_directory(e, at, &st, alone);
		alone = false;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (r < 0 || up < 0) {
			/* Not to be searched, or removed meanwhile: nothing above it can be reached. */
			fd_close(up);
			return r < 0 ? r : errno == EACCES || errno == EPERM || errno == ENOENT ? 0 : -errno;
		}
		fd_close(at);
		at = up;
		r = tree_stat(at, "", &above);
		if (r >= 0 && above.dev == st.dev && above.ino == st.ino && above.mnt_id == st.mnt_id)
			return 0;
		if (r >= 0 && st.is_mount_root)
			r = climb_alias(e, &st, depth);
		st = above;
	}
	return r;
}

static bool is_locked(const struct resource *r)
{
	return resource_isolates(r) && !kind_is_remote(r->row.kind) && r->root_fd >= 0;
}

static int collect(struct session *s, struct exclusion **ret)
{
	CLEANUP(cleanup_exclusion) struct exclusion *e = calloc(1, sizeof *e);
	int r = e ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (is_locked(&s->resources[i]))
			r = climb(e, s->resources[i].root_fd, true, 0);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(e);
	return 0;
}

/* ---- one attempt ---- */

/* Filesystems without such locks: nobody can hold one there. */
static bool has_no_locks(int r)
{
	return r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL || r == -ENOLCK;
}

/* -EAGAIN: *ret_blocked is locked by another process, and none is held. */
static int try_all(struct exclusion *e, size_t *ret_blocked)
{
	for (size_t i = 0; i < e->n; i++) {
		int r = sys_flock(e->v[i].fd, (e->v[i].alone ? LOCK_EX : LOCK_SH) | LOCK_NB);

		if (r >= 0 || has_no_locks(r))
			continue;
		for (size_t k = 0; k < i; k++)
			(void)flock(e->v[k].fd, LOCK_UN);
		*ret_blocked = i;
		return r;
	}
	return 0;
}

static bool is_equal(const struct exclusion *a, const struct exclusion *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; i < a->n && same; i++)
		same = a->v[i].dev == b->v[i].dev && a->v[i].ino == b->v[i].ino && a->v[i].alone == b->v[i].alone;
	return same;
}

/* Whether, now that they are locked, those are the directories still: 1, 0, or a negative code. */
static int is_in_place(struct session *s, const struct exclusion *e, struct atoll_error *err)
{
	CLEANUP(cleanup_exclusion) struct exclusion *now = NULL;
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (is_locked(&s->resources[i]))
			r = resource_check_root(&s->resources[i], err);
	if (r < 0)
		return r;
	r = collect(s, &now);
	return r < 0 ? error_sys(err, r, "lock", s->box.name, "cannot lock the originals of \"%s\"", s->box.name)
		     : is_equal(e, now);
}

/* ---- who is in the way ---- */

/* A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF". */
static bool is_holder(const char *line, const struct tree_lock *lock, pid_t *ret)
{
	unsigned int major, minor;
	unsigned long long ino;
	char how[8];
	int pid;

	if (sscanf(line, "%*s FLOCK %*s %7s %d %x:%x:%llu", how, &pid, &major, &minor, &ino) != 5)
		return false;
	/* A subvolume of btrfs has a device number of its own, which this list does not use. */
	if (pid <= 0 || ino != lock->ino || (makedev(major, minor) != lock->dev && gnu_dev_major(lock->dev) != 0))
		return false;
	*ret = pid;
	return lock->alone || strcmp(how, "WRITE") == 0;
}

static pid_t find_holder(const struct tree_lock *lock)
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	pid_t pid = 0;

	if (fd_read_file(AT_FDCWD, "/proc/locks", LOCKS_MAX, &text, NULL) < 0)
		return 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (is_holder(line, lock, &pid))
			return pid;
	return 0;
}

static int busy(struct session *s, const struct tree_lock *lock, struct atoll_error *err)
{
	AUTO_FREE char *path = NULL, *file = NULL, *program = NULL;
	pid_t pid = find_holder(lock);

	if (fd_path(lock->fd, &path) < 0)
		path = NULL;
	file = str_format("/proc/%d/comm", (int)pid);
	if (!pid || !file || fd_read_file(AT_FDCWD, file, PATH_MAX, &program, NULL) < 0)
		return error_set(
			err, ATOLL_BUSY, 0, "lock", s->box.name,
			"the directory \"%s\" is locked by another process, so that the originals of \"%s\" cannot be changed now",
			path ? path : "?", s->box.name);
	program[strcspn(program, "\n")] = 0;
	return error_set(
		err, ATOLL_BUSY, 0, "lock", s->box.name,
		"the directory \"%s\" is locked by process %d (%s), so that the originals of \"%s\" cannot be changed now",
		path ? path : "?", (int)pid, program, s->box.name);
}

/* ---- waiting ---- */

/* Up to 4 ms, never twice the same: two that collided do not collide again. */
static void nap(void)
{
	uint32_t random = 0;

	random_bytes(&random, sizeof random);
	nanosleep(&(struct timespec){ 0, 500000 + random % 3500000 }, NULL);
}

/* One attempt: 1 with the locks in s->exclusion, 0 to try again, or a negative code. last: there is no further one, and 0 is no answer. */
static int attempt(struct session *s, bool last, struct atoll_error *err)
{
	CLEANUP(cleanup_exclusion) struct exclusion *e = NULL;
	size_t blocked = 0;
	int r = collect(s, &e);

	if (e)
		r = try_all(e, &blocked);
	if (e && r == -EAGAIN)
		return last ? busy(s, &e->v[blocked], err) : 0;
	if (!e || r < 0)
		return error_sys(err, r, "lock", s->box.name, "cannot lock the originals of \"%s\"", s->box.name);
	r = is_in_place(s, e, err);
	if (r > 0)
		s->exclusion = TAKE_PTR(e);
	return r;
}

static int wait_for_locks(struct session *s, int64_t end, struct atoll_error *err)
{
	bool paused = false;
	int r;

	while ((r = attempt(s, clock_monotonic_ns() >= end, err)) == 0) {
		/* Whoever has the locks may need the database to end, and to fork while nobody has it open. */
		if (!paused)
			session_pause(s);
		paused = true;
		nap();
	}
	if (r >= 0 && paused)
		r = session_resume(s, err);
	return MIN(r, 0);
}

/* ---- others that were cut off ---- */

static bool overlap(const struct session *a, const struct session *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++) {
			const char *one = a->resources[i].row.path, *two = b->resources[k].row.path;

			if (!kind_is_remote(a->resources[i].row.kind) && !kind_is_remote(b->resources[k].row.kind) &&
			    (path_is_below(one, two) || path_is_below(two, one)))
				return true;
		}
	return false;
}

static int note_recovered(struct atoll_result *result, const char *name, struct atoll_error *err)
{
	AUTO_FREE char *note =
		str_format("the sandbox \"%s\", whose commit or undo was cut off, was recovered first", name);

	return note && result_add(result, ATOLL_ITEM_NOTE, 0, "", note) ? 0 : error_oom(err, "recover");
}

static bool is_cut_off(struct session *s)
{
	struct store_op op = { 0 };
	int r = store_op_unfinished(s->store, s->box.id, &op, NULL);
	bool cut = r < 0 || (r > 0 && op.phase == STORE_PREPARED);

	store_op_release(&op);
	return cut;
}

/* Recovers one sandbox whose op was cut off. Paths that recovery leaves and names, for whoever asks that sandbox, settle it too. */
static int recover_other(struct session *s, const char *name, struct atoll_result *result, struct atoll_error *err)
{
	struct session other = { .lock_fd = -EBADF };
	struct atoll_result *ignored = NULL;
	struct atoll_error why = { 0 };
	int r = session_open_raw(s->a, name, 0, false, &other, &why);

	/* Another process is recovering it, or it is gone. */
	if (r == -ATOLL_BUSY || r == -ATOLL_NOT_FOUND)
		return 0;
	if (r >= 0 && is_cut_off(&other)) {
		(void)recover_session(&other, &ignored, &why);
		atoll_result_free(ignored);
		r = !is_cut_off(&other) ? note_recovered(result, name, err) : -(int)why.code;
	}
	session_release(&other);
	if (r < 0 && r == -(int)why.code)
		return error_set(
			err, ATOLL_BUSY, why.sys_errno, "recover", name,
			"the sandbox \"%s\" overlaps with \"%s\" and must be recovered first, which failed: %s", name,
			s->box.name, why.message);
	return r;
}

/* The name of a sandbox of this registry whose commit or undo was cut off half-way in one of our trees: 1, 0 or a negative code. */
static int find_cut_off(struct session *s, char **ret, struct atoll_error *err)
{
	struct store_sandbox *list = NULL;
	size_t n = 0;
	int r = store_sandbox_list_prepared(s->store, &list, &n, err);

	if (r >= 0 && n > 0 && !*s->registry)
		r = owner_registry(s->a, s->store, s->registry, err);

	for (size_t i = 0; i < n; i++) {
		struct session other = { .lock_fd = -EBADF };

		if (r >= 0 && !*ret && list[i].id != s->box.id && session_peek(s->a, list[i].name, &other, NULL) >= 0) {
			/* What a copy of the state directory has taken over is recovered there. */
			if (overlap(s, &other) && !claim_is_lost(&other, s->registry))
				*ret = TAKE_PTR(list[i].name);
			session_release(&other);
		}
		store_sandbox_release(&list[i]);
	}
	free(list);
	return r < 0 ? r : *ret != NULL;
}

int exclusion_take(struct session *s, int wait_ms, struct atoll_result *result, struct atoll_error *err)
{
	int64_t now = clock_monotonic_ns();
	int64_t end = wait_ms < 0 ? INT64_MAX : now + (int64_t)MAX(wait_ms, EXCLUSION_WAIT_MS) * 1000000;

	while (!s->exclusion) {
		AUTO_FREE char *name = NULL;
		int r = wait_for_locks(s, end, err);

		if (r >= 0 && result)
			r = find_cut_off(s, &name, err);
		if (r > 0) {
			exclusion_release(s);
			r = recover_other(s, name, result, err);
			if (r >= 0 && clock_monotonic_ns() >= end)
				return error_set(
					err, ATOLL_BUSY, 0, "lock", s->box.name,
					"the sandbox \"%s\", which overlaps with \"%s\", is being recovered by another process",
					name, s->box.name);
			nap();
		}
		if (r < 0)
			return r;
	}
	return 0;
}

void exclusion_release(struct session *s)
{
	s->exclusion = free_locks(s->exclusion);
}
