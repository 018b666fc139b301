/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refs read as data. What lies in an upper directory may have been written by anybody: names are checked, links are not followed, sizes and
 * depths are bounded, and nothing in it is ever run or taken for configuration.
 */
#include "git/git.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "tree/tree.h"

#define REF_MAX 4096
#define PACKED_MAX ((size_t)256 << 20)
#define SYMBOLIC_MAX 5

/* ---- names ---- */

static bool is_component(const char *name, size_t size)
{
	if (size == 0 || name[0] == '.' || name[size - 1] == '.')
		return false;
	if (size >= 5 && memcmp(name + size - 5, ".lock", 5) == 0)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)name[i] <= ' ' || strchr("~^:?*[\\\177", name[i]) ||
		    (i && name[i] == '.' && name[i - 1] == '.') || (i && name[i] == '{' && name[i - 1] == '@'))
			return false;
	return true;
}

bool git_refs_is_name(const char *name)
{
	if (strncmp(name, "refs/", 5) != 0 || strlen(name) > 1024)
		return false;
	for (;;) {
		size_t size = strcspn(name, "/");

		if (!is_component(name, size))
			return false;
		if (!name[size])
			return true;
		name += size + 1;
	}
}

/* ---- two directories as one ---- */

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

static bool is_opaque(const struct git_refs *g, const char *path)
{
	AUTO_FD dir = fd_open_beneath(g->upper_fd, path, O_RDONLY | O_DIRECTORY);

	/* Without marks, a path that the upper layer hides would show the lower one's. */
	assert(g->marks != TREE_MARKS_NONE);
	return dir >= 0 && tree_is_opaque(dir, g->marks) > 0;
}

int git_refs_layer(const struct git_refs *g, const char *path)
{
	bool hidden = false;

	if (g->upper_fd < 0)
		return g->lower_fd;
	for (const char *end = path;; end++) {
		AUTO_FREE char *part = NULL;
		AUTO_FD fd = -EBADF;
		struct tree_stat st;
		int r;

		end += strcspn(end, "/");
		part = strndup(path, (size_t)(end - path));
		if (!part)
			return -ENOMEM;
		fd = fd_open_beneath(g->upper_fd, part, O_PATH);
		if (fd == -ENOENT || fd == -ENOTDIR)
			return hidden ? -ENOENT : g->lower_fd;
		r = fd < 0 ? fd : tree_stat(fd, "", &st);
		if (r < 0)
			return r;
		if (is_whiteout(&st))
			return -ENOENT;
		if (!*end)
			return g->upper_fd;
		/* A file hides the directory that the lower one has there. */
		if (!S_ISDIR(st.mode))
			return -ENOENT;
		hidden |= is_opaque(g, part);
	}
}

int git_refs_file(const struct git_refs *g, const char *path, size_t max, char **ret, size_t *ret_size)
{
	int fd = git_refs_layer(g, path);
	int r = fd < 0 ? fd : fd_read_file(fd, path, max, ret, ret_size);

	return r == -ENOTDIR || r == -EISDIR ? -ENOENT : r;
}

/* ---- values ---- */

/* "ref: NAME" or a hash, and nothing else. */
static int parse_value(const char *text, char **ret_ref, struct git_id *ret)
{
	size_t size = strcspn(text, "\n");
	const char *rest;

	if (strncmp(text, "ref:", 4) == 0) {
		const char *name = text + 4 + strspn(text + 4, " \t");
		AUTO_FREE char *copy = strndup(name, size - (size_t)(name - text));

		if (!copy)
			return -ENOMEM;
		if (!git_refs_is_name(copy))
			return -EINVAL;
		*ret_ref = TAKE_PTR(copy);
		return 0;
	}
	if (!git_id_parse(text, ret))
		return -EINVAL;
	rest = text + strlen(ret->hex);
	if (rest[strspn(rest, " \t\r\n")])
		return -EINVAL;
	*ret_ref = NULL;
	return 0;
}

/* The content of packed-refs, "" if there is none. */
static int read_packed(const struct git_refs *g, char **ret)
{
	int r = git_refs_file(g, "packed-refs", PACKED_MAX, ret, NULL);

	if (r != -ENOENT)
		return r;
	*ret = strdup("");
	return *ret ? 0 : -ENOMEM;
}

/* The next ref of it: 1, 0 at the end. *name is not ended. */
static int next_packed(const char **at, struct git_id *ret, const char **ret_name, size_t *ret_size)
{
	while (**at) {
		const char *line = *at;
		size_t size = strcspn(line, "\n"), hex;

		*at = line + size + (line[size] != 0);
		if (line[0] == '#' || line[0] == '^' || !git_id_parse(line, ret))
			continue;
		hex = strlen(ret->hex);
		if (size <= hex + 1 || line[hex] != ' ')
			continue;
		*ret_name = line + hex + 1;
		*ret_size = size - hex - 1;
		return 1;
	}
	return 0;
}

static int find_packed(const struct git_refs *g, const char *name, struct git_id *ret)
{
	AUTO_FREE char *text = NULL;
	const char *at, *found;
	size_t size;
	int r = read_packed(g, &text);

	for (at = text; r >= 0 && next_packed(&at, ret, &found, &size);)
		if (strlen(name) == size && memcmp(name, found, size) == 0)
			return 0;
	return r < 0 ? r : -ENOENT;
}

int git_refs_head(const struct git_refs *g, char **ret_ref, struct git_id *ret)
{
	AUTO_FREE char *text = NULL;
	int r = git_refs_file(g, "HEAD", REF_MAX, &text, NULL);

	return r < 0 ? r : parse_value(text, ret_ref, ret);
}

int git_refs_read(const struct git_refs *g, const char *name, struct git_id *ret)
{
	AUTO_FREE char *at = strdup(name);

	for (int i = 0; at && i < SYMBOLIC_MAX; i++) {
		AUTO_FREE char *text = NULL, *next = NULL;
		int r = git_refs_is_name(at) ? git_refs_file(g, at, REF_MAX, &text, NULL) : -EINVAL;

		if (r == -ENOENT || (r == -EINVAL && git_refs_is_name(at))) /* a directory where others are */
			return find_packed(g, at, ret);
		if (r >= 0)
			r = parse_value(text, &next, ret);
		if (r < 0 || !next)
			return r;
		free(at);
		at = TAKE_PTR(next);
	}
	return at ? -ELOOP : -ENOMEM;
}

int git_refs_is_symbolic(const struct git_refs *g, const char *name)
{
	AUTO_FREE char *text = NULL;
	int r = git_refs_file(g, name, REF_MAX, &text, NULL);

	if (r == -ENOENT || r == -EINVAL)
		return 0;
	return r < 0 ? r : strncmp(text, "ref:", 4) == 0;
}

static int packed_is_free(const struct git_refs *g, const char *name)
{
	AUTO_FREE char *text = NULL;
	const char *at, *found;
	size_t size, own = strlen(name);
	struct git_id id;
	int r = read_packed(g, &text);

	for (at = text; r >= 0 && next_packed(&at, &id, &found, &size);)
		if (memcmp(found, name, MIN(size, own)) == 0 &&
		    (size == own || (size < own ? name[size] : found[own]) == '/'))
			return 0;
	return r < 0 ? r : 1;
}

int git_refs_is_free(const struct git_refs *g, const char *name)
{
	AUTO_FREE char *part = strdup(name);
	const size_t top = strlen("refs/heads");

	if (!part)
		return -ENOMEM;
	while (strlen(part) > top) {
		int layer = git_refs_layer(g, part);
		struct tree_stat st;
		AUTO_FD fd = layer < 0 ? layer : fd_open_beneath(layer, part, O_PATH);

		if (fd >= 0 && tree_stat(fd, "", &st) < 0)
			return -EIO;
		/* A directory above it is fine; at its own place something may be below. */
		if (fd >= 0 && (!S_ISDIR(st.mode) || strcmp(part, name) == 0))
			return 0;
		if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR)
			return fd;
		*strrchr(part, '/') = 0;
	}
	return packed_is_free(g, name);
}

/* ---- what differs ---- */

struct differing {
	const struct git_refs *g;
	int (*each)(const char *name, const struct git_id *id, void *arg);
	void *arg;
};

static int tell_if_new(const struct differing *d, const char *name, const struct git_id *id)
{
	const struct git_refs below = { -EBADF, d->g->lower_fd };
	struct git_id old;
	int r = git_refs_read(&below, name, &old);

	if (r < 0 && r != -ENOENT && r != -EINVAL)
		return r;
	return r >= 0 && git_id_equal(&old, id) ? 0 : d->each(name, id, d->arg);
}

static int visit_loose(const struct tree_entry *e, void *arg)
{
	const struct differing *d = arg;
	AUTO_FREE char *name = str_format("refs/%s", e->path);
	struct git_id id;
	int r = 0;

	if (!name)
		return -ENOMEM;
	if (S_ISREG(e->stat.mode) && git_refs_is_name(name) && git_refs_read(d->g, name, &id) >= 0)
		r = tell_if_new(d, name, &id);
	return r < 0 ? r : TREE_WALK_GO;
}

static int visit_packed(const struct differing *d)
{
	AUTO_FREE char *text = NULL;
	const char *at, *found;
	struct git_id id;
	size_t size;
	int r = fd_read_file(d->g->upper_fd, "packed-refs", PACKED_MAX, &text, NULL);

	if (r < 0)
		return r == -ENOENT || r == -EINVAL ? 0 : r;
	for (at = text; r >= 0 && next_packed(&at, &id, &found, &size);) {
		AUTO_FREE char *name = strndup(found, size);
		AUTO_FD loose = -EBADF;

		if (!name)
			return -ENOMEM;
		loose = fd_open_beneath(d->g->upper_fd, name, O_PATH);
		if (loose < 0 && git_refs_is_name(name)) /* the others were told already */
			r = tell_if_new(d, name, &id);
	}
	return r;
}

int git_refs_differing(const struct git_refs *g, int (*each)(const char *name, const struct git_id *id, void *arg),
		       void *arg)
{
	struct differing d = { g, each, arg };
	AUTO_FD fd = fd_open_beneath(g->upper_fd, "refs", O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? fd : tree_walk(fd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, visit_loose, &d, NULL);

	if (r == -ENOENT || r == -ENOTDIR)
		r = 0;
	return r < 0 ? r : visit_packed(&d);
}

/* ---- what was removed ---- */

/* Names one that the lower one has and the two together do not. */
static int tell_if_gone(const struct differing *d, const char *name)
{
	const struct git_refs below = { -EBADF, d->g->lower_fd };
	struct git_id id;

	if (!git_refs_is_name(name) || git_refs_read(d->g, name, &id) != -ENOENT ||
	    git_refs_read(&below, name, &id) < 0)
		return 0;
	return d->each(name, &id, d->arg);
}

static bool is_loose_below(const struct differing *d, const char *name)
{
	AUTO_FD fd = fd_open_beneath(d->g->lower_fd, name, O_PATH | O_NOFOLLOW);
	struct tree_stat st;

	return fd >= 0 && tree_stat(fd, "", &st) >= 0 && S_ISREG(st.mode);
}

struct hidden_refs {
	const struct differing *d;
	const char *above;
};

static int visit_hidden(const struct tree_entry *e, void *arg)
{
	const struct hidden_refs *h = arg;
	AUTO_FREE char *name = str_format("%s/%s", h->above, e->path);
	int r = !name ? -ENOMEM : S_ISREG(e->stat.mode) ? tell_if_gone(h->d, name) : 0;

	return r < 0 ? r : TREE_WALK_GO;
}

/* What the upper one has, or has removed, may be a directory of refs below: git removes one with its last ref, and makes a ref of its name. */
static int tell_hidden(const struct differing *d, const char *name)
{
	AUTO_FD below = fd_open_beneath(d->g->lower_fd, name, O_RDONLY | O_DIRECTORY);
	struct hidden_refs h = { d, name };

	return below < 0 ? 0 : tree_walk(below, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, visit_hidden, &h, NULL);
}

static int visit_upper(const struct tree_entry *e, void *arg)
{
	const struct differing *d = arg;
	AUTO_FREE char *name = str_format("refs/%s", e->path);
	int r = name ? 0 : -ENOMEM;

	if (r >= 0 && (is_whiteout(&e->stat) || S_ISDIR(e->stat.mode)) && is_loose_below(d, name))
		r = tell_if_gone(d, name);
	if (r >= 0 && (!S_ISDIR(e->stat.mode) || is_opaque(d->g, name)))
		r = tell_hidden(d, name);
	return r < 0 ? r : TREE_WALK_GO;
}

static int look_at_packed(int dir_fd, struct tree_stat *ret)
{
	AUTO_FD fd = fd_open_beneath(dir_fd, "packed-refs", O_PATH | O_NOFOLLOW);

	return fd < 0 ? fd : tree_stat(fd, "", ret);
}

/* Both are sorted. A lower file that was written after the upper one may have names that the upper one never had. */
static int visit_unpacked(const struct differing *d)
{
	const struct git_refs below = { -EBADF, d->g->lower_fd };
	AUTO_FREE char *old = NULL, *now = NULL;
	const char *at_old, *at_now, *name, *found = NULL;
	struct tree_stat upper, lower;
	struct git_id id;
	size_t size, found_size = 0;
	int r, more;

	if (look_at_packed(d->g->upper_fd, &upper) < 0 || look_at_packed(d->g->lower_fd, &lower) < 0 ||
	    lower.ctime >= upper.ctime)
		return 0;
	r = read_packed(&below, &old);
	if (r >= 0)
		r = read_packed(d->g, &now);
	at_now = now;
	more = r < 0 ? 0 : next_packed(&at_now, &id, &found, &found_size);
	for (at_old = old; r >= 0 && next_packed(&at_old, &id, &name, &size);) {
		AUTO_FREE char *copy = strndup(name, size);

		if (!copy)
			return -ENOMEM;
		while (more && (strncmp(found, copy, found_size) < 0 ||
				(strncmp(found, copy, found_size) == 0 && size > found_size)))
			more = next_packed(&at_now, &id, &found, &found_size);
		/* The loose ones were told already. */
		if ((!more || found_size != size || memcmp(found, copy, size) != 0) && !is_loose_below(d, copy))
			r = tell_if_gone(d, copy);
	}
	return r;
}

int git_refs_removed(const struct git_refs *g, int (*each)(const char *name, const struct git_id *id, void *arg),
		     void *arg)
{
	struct differing d = { g, each, arg };
	AUTO_FD fd = fd_open_beneath(g->upper_fd, "refs", O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? fd : tree_walk(fd, TREE_WALK_NO_ROOT | TREE_WALK_SORTED, visit_upper, &d, NULL);

	if (r == -ENOENT || r == -ENOTDIR)
		r = 0;
	return r < 0 ? r : visit_unpacked(&d);
}
