/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the directories that lead to an area outside of the state directory. The state database
 * has the path of the area on record. Another user who may write to a directory of that path could
 * put another directory there, and a removal would empty that one. Two rules prevent this:
 *
 *   - Every directory above ".atoll-UID" belongs to root or to this user, and no other user may
 *     write to it. A sticky directory like /var/tmp is fine: only the owner of an entry can rename
 *     it there.
 *
 *   - Atoll opens ".atoll-UID" and the two levels below it one by one without following links. They
 *     belong to this user, and no other user may write to them. So the entries in them, among them
 *     the random name of the sandbox, are this user's own.
 *
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>

#define LEVELS 3 /* place, sandbox, resource */

/* ---- the directories above a place ---- */

/* Replaces *at by the next directory of the path and advances *name behind it. Returns 0 at the end
 * of the path or where the directory does not exist. */
static int step_down(int *at, char **name)
{
	size_t size = strcspn(*name, "/");
	char behind = (*name)[size];
	int next;

	if (size == 0)
		return 0;
	(*name)[size] = '\0';
	next = fd_open_beneath(*at, *name, O_PATH | O_DIRECTORY);
	(*name)[size] = behind;
	if (next < 0)
		return is_absent(next) ? 0 : next;
	fd_close(*at);
	*at = next;
	*name += size;
	return 1;
}

int area_find_unsafe(const char *dir, char **ret)
{
	AUTO_FREE char *way = strdup(dir);
	AUTO_FD at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = !way ? -ENOMEM : at < 0 ? -errno : tree_is_guarded(at);
	char *end = way;

	while (r > 0) {
		end += strspn(end, "/");
		r = step_down(&at, &end);
		if (r <= 0)
			return r;
		r = tree_is_guarded(at);
	}
	if (r < 0)
		return r;
	*end = '\0';
	*ret = *way ? TAKE_PTR(way) : strdup("/");
	return *ret ? 1 : -ENOMEM;
}

/* ---- areas ---- */

static bool is_outside(const struct atoll *a, const char *area)
{
	return area && *area == '/' && !path_is_below(area, a->state_dir);
}

/* Returns the directory that contains the ".atoll-UID" of an area. */
static char *above_of(const char *area)
{
	size_t size = strlen(area);

	for (int i = 0; i < LEVELS && size > 0; i++) {
		const char *slash = memrchr(area, '/', size);

		size = slash ? (size_t)(slash - area) : 0;
	}
	return size > 0 ? strndup(area, size) : strdup("/");
}

static int check_way(const struct atoll *a, const struct resource *r, const char *area, struct atoll_error *err)
{
	AUTO_FREE char *above = is_outside(a, area) ? above_of(area) : NULL;
	AUTO_FREE char *unsafe = NULL;
	int rc = !is_outside(a, area) ? 0 : above ? area_find_unsafe(above, &unsafe) : -ENOMEM;

	if (rc < 0)
		return error_sys(err, rc, "open", r->row.path,
				 "cannot look at the directories above the workspace \"%s\"", area);
	if (rc == 0)
		return 0;
	return error_set(
		err, ATOLL_REFUSED, 0, "open", r->row.path,
		"the workspace \"%s\" of \"%s\" lies below \"%s\", which belongs to another user or can be written by others, "
		"who could have exchanged it: nothing was touched; make that directory yours or root's (chown) and take the "
		"right to write from others (chmod go-w), see that the workspace is what it should be, and try again",
		area, r->row.path, unsafe);
}

int area_check_ways(const struct session *s, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		const struct resource *res = &s->resources[i];
		bool same = res->row.work && res->row.stage && strcmp(res->row.work, res->row.stage) == 0;

		r = check_way(s->a, res, res->row.work, err);
		if (r >= 0 && !same)
			r = check_way(s->a, res, res->row.stage, err);
	}
	return r;
}

int area_check_sandbox(struct atoll *a, const char *name, struct atoll_error *err)
{
	struct atoll_error ignored;
	struct session s = { .lock_fd = -EBADF };
	int r;

	/* The operation itself reports any other error. */
	if (session_peek(a, name, &s, &ignored) < 0)
		return 0;
	r = area_check_ways(&s, err);
	session_release(&s);
	return r;
}

/* Checks that fd belongs to this user alone. Closes fd on failure too. */
static int require_own(int fd)
{
	AUTO_FD owned = fd;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_uid != geteuid() || (st.st_mode & 022) ? -EPERM : TAKE_FD(owned);
}

int area_open_level(int dir, const char *name)
{
	return require_own(fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY));
}

int area_open(const char *area)
{
	AUTO_FREE char *above = above_of(area);
	AUTO_FD at = above ? fd_open_absolute(above, O_PATH | O_DIRECTORY) : -ENOMEM;
	const char *name = above ? area + (above[1] ? strlen(above) : 0) : area;

	for (int i = 0; i < LEVELS && at >= 0; i++) {
		AUTO_FREE char *level = NULL;
		AUTO_FD up = TAKE_FD(at);

		name += strspn(name, "/");
		level = strndup(name, strcspn(name, "/"));
		at = !level ? -ENOMEM : *level ? area_open_level(up, level) : -EINVAL;
		name += strcspn(name, "/");
	}
	return at >= 0 ? TAKE_FD(at) : at;
}
