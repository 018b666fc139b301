/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the entries that commands wrote in the private places of a view. The caller reads them
 * through the tmpfs that contains these places (view.c).
 *
 * An upper layer holds the differences to the host's directory: files, whiteouts for removed
 * entries, and copies of the directories that lead there, which no command wrote. In a place that
 * began empty, commands made all entries except for the mount points.
 *
 * The walk takes time in proportion to the entries. Its order matters, since it stops at a limit:
 * files that a user probably made on purpose come before files that programs write for themselves.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"
#include "tree/tree.h"

#define LIST_MAX (1 << 20)
#define TOP_MAX 2000   /* limit for entries below one name, and for names of a place */
#define ALL_MAX 10000  /* limit for all places together */
#define DEPTH_ROOM 128 /* first allocation for the depth; it grows */

struct place {
	char kind;              /* LAYERS_… */
	const char *dir, *path; /* dir: in the stage */
};

struct walk {
	int layers;
	int64_t since;
	jail_layer_fn fn;
	void *arg;
	char *list; /* the list as read, split into words */
	struct place *places;
	size_t n_places;
	uint64_t n_seen; /* in all places */

	const struct place *place; /* the present place */
	int dir;                   /* fd of it */
	const char *top;
	uint64_t n_seen_at_top;
	bool cut;            /* the walk stopped before the end of the present name */
	struct strbuf path;  /* absolute, of the present entry */
	size_t base;         /* length of the path of the place and the present name */
	uint64_t n_reported; /* entries reported in all */
	uint64_t *before;    /* of each directory above: n_reported on entry */
	bool *is_new;        /* of each directory above: whether commands made it */
	size_t depth, room;
};

static void walk_release(struct walk *w)
{
	free(w->list);
	free(w->places);
	free(w->before);
	free(w->is_new);
	strbuf_release(&w->path);
}

/* ---- the list ---- */

static int read_places(struct walk *w)
{
	size_t size = 0, n = 0;
	int r = fd_read_file(w->layers, LAYERS_LIST, LIST_MAX, &w->list, &size);

	if (r < 0)
		return r;
	for (size_t i = 0; i < size; i++)
		n += w->list[i] == '\0';
	w->places = calloc(n ? n : 1, sizeof(*w->places));
	if (!w->places)
		return -ENOMEM;
	for (char *at = w->list; at < w->list + size && w->n_places < n;) {
		char *end = at + strlen(at) + 1, *space = strchr(at, ' ');

		if (space) {
			*space = '\0';
			w->places[w->n_places++] = (struct place){ .kind = *at, .dir = at, .path = space + 1 };
		}
		at = end;
	}
	return 0;
}

static bool is_mounted_over(const struct walk *w, const char *path)
{
	for (size_t i = 0; i < w->n_places; i++)
		if (w->places[i].kind == LAYERS_POINT && strcmp(w->places[i].path, path) == 0)
			return true;
	return false;
}

/* Whether the view made the directory, as the parent of a mount point. */
static bool leads_to_mount(const struct walk *w, const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < w->n_places; i++) {
		const char *other = w->places[i].path;

		if (w->places[i].kind == LAYERS_POINT && strncmp(other, path, n) == 0 && other[n] == '/')
			return true;
	}
	return false;
}

/* ---- one entry ---- */

static int report(struct walk *w, struct jail_layer_entry *e)
{
	e->place = w->place->path;
	e->is_layer = w->place->kind == LAYERS_OVERLAY;
	e->top = w->top;
	e->path = strbuf_str(&w->path);
	w->n_reported++;
	return w->fn(e, w->arg);
}

static bool is_whiteout(const struct walk *w, const struct tree_stat *st)
{
	return w->place->kind == LAYERS_OVERLAY && S_ISCHR(st->mode);
}

/* Whether commands made a directory of an upper layer, or changed the directory itself, not only
 * entries in it. *ret_emptied: whether they removed the host's entries in it. */
static bool judge_directory(const struct walk *w, const struct tree_stat *st, int fd, bool *ret_emptied)
{
	struct stat host;

	*ret_emptied = false;
	if (w->place->kind != LAYERS_OVERLAY)
		return !leads_to_mount(w, strbuf_str(&w->path));
	if (lstat(strbuf_str(&w->path), &host) < 0 || !S_ISDIR(host.st_mode))
		return true;
	*ret_emptied = fd >= 0 && tree_is_opaque(fd, tree_overlay_marks()) > 0;
	return host.st_mode != st->mode || host.st_uid != st->uid || host.st_gid != st->gid;
}

static int push(struct walk *w, bool is_new)
{
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : DEPTH_ROOM;
		uint64_t *before = reallocarray(w->before, room, sizeof(*before));
		bool *made = reallocarray(w->is_new, room, sizeof(*made));

		w->before = before ? before : w->before;
		w->is_new = made ? made : w->is_new;
		if (!before || !made)
			return -ENOMEM;
		w->room = room;
	}
	w->before[w->depth] = w->n_reported;
	w->is_new[w->depth++] = is_new;
	return TREE_WALK_GO;
}

static int enter(struct walk *w, const struct tree_entry *t)
{
	bool emptied, is_new = judge_directory(w, &t->stat, t->fd, &emptied);
	bool is_late = t->stat.ctime >= w->since;
	int r = 0;

	if (emptied && is_late)
		r = report(w, &(struct jail_layer_entry){ .is_directory = true, .is_removed = true });
	if (r < 0 || t->fd >= 0)
		return r < 0 ? r : push(w, is_new && is_late);
	/* The owner has no permission to read this directory, so the walk skips its entries. */
	r = is_late ? report(w, &(struct jail_layer_entry){ .is_directory = true, .at_top = w->depth == 0 }) : 0;
	return r < 0 ? r : TREE_WALK_SKIP;
}

/* A directory that a command moved keeps its old entries, which are not new. */
static int leave(struct walk *w)
{
	w->depth--;
	if (!w->is_new[w->depth] || w->before[w->depth] != w->n_reported || w->cut)
		return TREE_WALK_GO;
	return report(w, &(struct jail_layer_entry){ .is_directory = true, .at_top = w->depth == 0 });
}

static int visit(const struct tree_entry *t, void *arg)
{
	struct walk *w = arg;
	int r;

	strbuf_truncate(&w->path, w->base);
	if (*t->path) {
		strbuf_addc(&w->path, '/');
		strbuf_adds(&w->path, t->path);
	}
	if (w->path.failed)
		return -ENOMEM;
	if (t->leaving)
		return leave(w);
	if (is_mounted_over(w, strbuf_str(&w->path)))
		return TREE_WALK_SKIP;
	if (w->n_seen_at_top >= TOP_MAX || w->n_seen >= ALL_MAX) {
		w->cut = true;
		return TREE_WALK_STOP;
	}
	w->n_seen_at_top++;
	w->n_seen++;
	if (S_ISDIR(t->stat.mode))
		return enter(w, t);
	if (w->since > 0 && t->stat.ctime < w->since)
		return TREE_WALK_GO;
	r = report(w, &(struct jail_layer_entry){ .is_removed = is_whiteout(w, &t->stat), .at_top = w->depth == 0 });
	return r < 0 ? r : TREE_WALK_GO;
}

static int report_rest(struct walk *w, size_t path_size)
{
	strbuf_truncate(&w->path, path_size);
	return report(w, &(struct jail_layer_entry){ .is_directory = true, .is_rest = true });
}

/* ---- a place ---- */

bool jail_layer_is_cache(const char *top)
{
	static const char *const names[] = { ".cache", ".ccache", ".npm", ".node-gyp", ".pnpm-store" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(top, names[i]) == 0)
			return true;
	return false;
}

/* Orders names in a home directory: the user's own files, then settings, then caches. */
static int rank(const char *name)
{
	return *name != '.' ? 0 : !jail_layer_is_cache(name) ? 1 : 2;
}

static int compare(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return rank(x) != rank(y) ? rank(x) - rank(y) : strcmp(x, y);
}

struct names {
	char **v;
	size_t n;
	bool more;
};

static void names_release(struct names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i]);
	free(n->v);
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int add_name(struct names *names, const char *name)
{
	if (names->n >= TOP_MAX) {
		names->more = true;
		return 0;
	}
	if (names->n % 64 == 0) {
		char **v = reallocarray(names->v, names->n + 64, sizeof(*v));

		if (!v)
			return -ENOMEM;
		names->v = v;
	}
	names->v[names->n] = strdup(name);
	if (!names->v[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

static int read_names(int dir, struct names *names)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct dirent64))));
	ssize_t n;
	int r = 0;

	while (r == 0 && !names->more && (n = getdents64(dir, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n && r == 0;) {
			const struct dirent64 *d = (const void *)(buffer + at);

			r = is_dot(d->d_name) ? 0 : add_name(names, d->d_name);
			at += d->d_reclen;
		}
	}
	if (names->n > 1)
		qsort(names->v, names->n, sizeof(*names->v), compare);
	return r;
}

/* w->path is the path of the name. */
static int walk_name(struct walk *w, const char *name)
{
	AUTO_FD fd = openat(w->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Without a time to compare, the types of files are enough. */
	unsigned flags = TREE_WALK_LEAVING | (w->since > 0 ? 0 : TREE_WALK_TYPES);
	struct tree_entry one = { .dirfd = w->dir, .name = name, .path = "", .fd = -EBADF };
	int r;

	w->top = name;
	w->n_seen_at_top = 0;
	w->cut = false;
	w->depth = 0;
	w->base = w->path.size;
	if (fd >= 0) {
		r = tree_walk(fd, flags, visit, w, NULL);
	} else {
		r = tree_stat(w->dir, name, &one.stat);
		r = r == -ENOENT ? 0 : r == 0 ? visit(&one, w) : r;
	}
	return r >= 0 && w->cut ? report_rest(w, w->base) : r;
}

static int walk_names(struct walk *w, struct names *names)
{
	size_t size = strlen(w->place->path);
	int r = read_names(w->dir, names);

	strbuf_truncate(&w->path, 0);
	strbuf_adds(&w->path, w->place->path);
	for (size_t i = 0; i < names->n && r >= 0; i++) {
		if (w->n_seen >= ALL_MAX) {
			names->more = true;
			break;
		}
		strbuf_set_child(&w->path, size, names->v[i]);
		if (w->path.failed)
			return -ENOMEM;
		/* Skip mount points before the walk: /dev has many, and most runs leave nothing
		 * else. */
		if (!is_mounted_over(w, strbuf_str(&w->path)))
			r = walk_name(w, names->v[i]);
	}
	w->top = "";
	return r >= 0 && names->more ? report_rest(w, size) : r;
}

static int walk_place(struct walk *w)
{
	CLEANUP(names_release) struct names names = { 0 };
	AUTO_FD dir = openat(w->layers, w->place->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* The view has no such layer if it could not mount it. */
	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	w->dir = dir;
	return walk_names(w, &names);
}

int jail_layers_walk(int layers, int64_t since, jail_layer_fn fn, void *arg)
{
	static const char kinds[] = { LAYERS_OVERLAY, LAYERS_EMPTY, LAYERS_DEVICES };
	CLEANUP(walk_release) struct walk w = { .layers = layers, .since = since, .fn = fn, .arg = arg };
	int r = read_places(&w);

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (size_t i = 0; i < w.n_places && r >= 0; i++) {
			w.place = &w.places[i];
			if (w.place->kind == kinds[k])
				r = walk_place(&w);
		}
	}
	return r;
}
