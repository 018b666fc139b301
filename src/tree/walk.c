/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one walk. Iterative: a list of levels, each with the names of one directory, beside the chain of open
 * directories. A directory's names are read before anything in it is visited, so that entries may be removed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/stop.h"
#include "tree/private.h"

#define DENTS_SIZE (64 * 1024)
/* How often an entry may change its type under our eyes before we give up on it. */
#define MAX_TRIES 16

struct level {
	char *names;   /* each with its type (DT_…) before it, ended by NUL */
	size_t size;   /* of names */
	size_t next;   /* unsorted: offset of the next name; sorted: its index */
	char **sorted; /* into names; NULL if order does not matter */
	size_t n;
	size_t path; /* length of the directory's own path */
	size_t name; /* where its own name begins in that path */
	struct tree_stat stat;
};

struct walk {
	unsigned flags;
	tree_walk_fn fn;
	void *arg;
	int rootfd;
	uint64_t mnt_id;
	bool moves_atime;   /* O_NOATIME was refused: it is for the owner only */
	struct strbuf path; /* of the entry being visited */
	struct tree_chain chain;
	struct level *levels;
	size_t n, capacity; /* n is chain.n as well */
	char *dents;
};

static void level_release(struct level *l)
{
	free(l->sorted);
	free(l->names);
}

static void walk_release(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++)
		level_release(&w->levels[i]);
	free(w->levels);
	free(w->dents);
	strbuf_release(&w->path);
	tree_chain_release(&w->chain);
}

static int level_add_name(struct level *l, size_t *capacity, unsigned char type, const char *name)
{
	size_t size = strlen(name) + 2;

	if (l->size + size > *capacity) {
		size_t wanted = MAX(*capacity * 2, (size_t)1024);
		char *names = realloc(l->names, wanted);

		if (!names)
			return -ENOMEM;
		l->names = names;
		*capacity = wanted;
	}
	l->names[l->size] = (char)type;
	memcpy(l->names + l->size + 1, name, size - 1);
	l->size += size;
	l->n++;
	return 0;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int level_read(struct level *l, int fd, char *dents)
{
	size_t capacity = 0;

	for (;;) {
		ssize_t got = getdents64(fd, dents, DENTS_SIZE);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == ENOENT ? 0 : -errno; /* removed meanwhile: empty */
		if (got == 0)
			return 0;
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *d = (const void *)(dents + at);
			int r = is_dot(d->d_name) ? 0 : level_add_name(l, &capacity, d->d_type, d->d_name);

			if (r < 0)
				return r;
			at += d->d_reclen;
		}
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int level_sort(struct level *l)
{
	char *at = l->names;

	if (l->n == 0)
		return 0;
	l->sorted = calloc(l->n, sizeof(*l->sorted));
	if (!l->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++, at += strlen(at) + 1)
		l->sorted[i] = ++at;
	qsort(l->sorted, l->n, sizeof(*l->sorted), compare_names);
	return 0;
}

static const char *level_next(struct level *l, bool sorted)
{
	const char *name;

	if (sorted)
		return l->next < l->n ? l->sorted[l->next++] : NULL;
	if (l->next >= l->size)
		return NULL;
	name = l->names + l->next + 1;
	l->next += strlen(name) + 2;
	return name;
}

/* Takes over the fd, an open directory whose path is the present one, and reads it. */
static int walk_enter(struct walk *w, int fd, const struct tree_stat *st)
{
	const char *slash = w->path.size ? memrchr(w->path.data, '/', w->path.size) : NULL;
	struct level l = { .path = w->path.size, .stat = *st };
	int r = 0;

	l.name = slash ? (size_t)(slash - w->path.data) + 1 : 0;
	if (w->n == w->capacity) {
		size_t capacity = w->capacity ? w->capacity * 2 : 16;
		struct level *levels = reallocarray(w->levels, capacity, sizeof(*levels));

		if (!levels) {
			fd_close(fd);
			return -ENOMEM;
		}
		w->levels = levels;
		w->capacity = capacity;
	}
	r = level_read(&l, fd, w->dents);
	if (r >= 0 && (w->flags & TREE_WALK_SORTED))
		r = level_sort(&l);
	if (r < 0) {
		level_release(&l);
		fd_close(fd);
		return r;
	}
	r = tree_chain_push(&w->chain, fd, st->dev, st->ino);
	if (r < 0) {
		level_release(&l);
		return r;
	}
	w->levels[w->n++] = l;
	return 0;
}

/* The second visit, and back to the directory above. */
static int walk_leave(struct walk *w)
{
	struct level *l = &w->levels[w->n - 1];
	int dirfd = w->rootfd, r = TREE_WALK_GO;
	bool is_root = w->n == 1;

	strbuf_truncate(&w->path, l->path);
	if (!is_root) {
		dirfd = tree_chain_parent(&w->chain);
		if (dirfd < 0)
			return dirfd;
	}
	if ((w->flags & TREE_WALK_LEAVING) && !(is_root && (w->flags & TREE_WALK_NO_ROOT))) {
		struct tree_entry entry = {
			.dirfd = dirfd,
			.name = strbuf_str(&w->path) + l->name,
			.path = strbuf_str(&w->path),
			.stat = l->stat,
			.leaving = true,
			.fd = tree_chain_top(&w->chain),
		};

		r = w->fn(&entry, w->arg);
		if (r < 0)
			return r;
	}
	tree_chain_pop(&w->chain);
	level_release(l);
	w->n--;
	return r;
}

static int open_dir(struct walk *w, int dirfd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	const char *path = name[0] ? name : ".";
	int fd = -1;

	if (!w->moves_atime) {
		fd = openat(dirfd, path, flags | O_NOATIME);
		w->moves_atime = fd < 0 && errno == EPERM;
	}
	if (w->moves_atime)
		fd = openat(dirfd, path, flags);
	return fd < 0 ? -errno : fd;
}

/*
 * Stats an entry and, if it is a directory of this mount, opens it: what is reported is then what was opened. 0 with
 * *ret_fd an fd, or the -errno of the open, or -EBADF; -ENOENT if there is no such entry any more.
 */
static int look(struct walk *w, int dirfd, const char *name, struct tree_stat *st, int *ret_fd)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		AUTO_FD fd = -EBADF;
		int r = tree_stat(dirfd, name, st);

		if (r < 0)
			return r;
		*ret_fd = -EBADF;
		if (!S_ISDIR(st->mode) || st->mnt_id != w->mnt_id)
			return 0;
		fd = open_dir(w, dirfd, name);
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			continue;
		if (fd >= 0) {
			r = tree_stat(fd, "", st);
			if (r < 0)
				return r;
			if (st->mnt_id != w->mnt_id)
				continue;
		}
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	return -EAGAIN;
}

/* Whether the directory itself has told all there is to be known of an entry. */
static bool is_told(const struct walk *w, const char *name, struct tree_stat *st)
{
	unsigned char type = *name ? (unsigned char)name[-1] : DT_DIR;

	if (type == DT_DIR || type == DT_UNKNOWN)
		return false;
	if (!(w->flags & TREE_WALK_TYPES) && !((w->flags & TREE_WALK_FILES) && type == DT_REG))
		return false;
	*st = (struct tree_stat){ .mode = DTTOIF(type) };
	return true;
}

/* The first visit of the entry whose path is the present one. */
static int walk_visit(struct walk *w, int dirfd, const char *name)
{
	struct tree_entry entry = { .dirfd = dirfd, .name = name, .path = strbuf_str(&w->path) };
	AUTO_FD fd = -EBADF;
	int r = stop_check();

	if (r < 0)
		return r;
	r = is_told(w, name, &entry.stat) ? 0 : look(w, dirfd, name, &entry.stat, &fd);
	if (r == -ENOENT)
		return TREE_WALK_GO;
	/* Only for want of permission is there anything a callback could do; with an error that may be gone the next time it would have
	 * taken the directory for an unreadable one, and then been led into it. */
	if (r >= 0 && fd < 0 && fd != -EBADF && fd != -EACCES && fd != -EPERM)
		r = fd;
	if (r < 0)
		return r;
	entry.fd = fd >= 0 ? fd : -EBADF;
	r = TREE_WALK_GO;
	if (w->path.size > 0 || !(w->flags & TREE_WALK_NO_ROOT))
		r = w->fn(&entry, w->arg);
	if (r != TREE_WALK_GO || !S_ISDIR(entry.stat.mode))
		return r;
	if (fd < 0 && entry.stat.mnt_id == w->mnt_id) { /* the callback may have made it readable */
		r = look(w, dirfd, name, &entry.stat, &fd);
		if (r < 0 || !S_ISDIR(entry.stat.mode))
			return r == -ENOENT ? TREE_WALK_GO : r;
	}
	if (entry.stat.mnt_id != w->mnt_id)
		return -EXDEV;
	return fd < 0 ? fd : walk_enter(w, TAKE_FD(fd), &entry.stat);
}

static int walk_all(struct walk *w)
{
	int r = walk_visit(w, w->rootfd, "");

	while (r >= 0 && r != TREE_WALK_STOP && w->n > 0) {
		struct level *l = &w->levels[w->n - 1];
		const char *name = level_next(l, w->flags & TREE_WALK_SORTED);

		if (!name) {
			r = walk_leave(w);
			continue;
		}
		strbuf_set_child(&w->path, l->path, name);
		r = w->path.failed ? -ENOMEM : walk_visit(w, tree_chain_top(&w->chain), name);
	}
	return MIN(r, 0);
}

int tree_walk(int rootfd, unsigned flags, tree_walk_fn fn, void *arg, char **ret_path)
{
	CLEANUP(walk_release) struct walk w = { .flags = flags, .fn = fn, .arg = arg, .rootfd = rootfd };
	struct tree_stat st;
	int r;

	if (ret_path)
		*ret_path = NULL;
	w.dents = malloc(DENTS_SIZE);
	if (!w.dents)
		return -ENOMEM;
	r = tree_stat(rootfd, "", &st);
	if (r < 0)
		return r;
	w.mnt_id = st.mnt_id;
	r = walk_all(&w);
	if (r < 0 && ret_path)
		*ret_path = strdup(strbuf_str(&w.path));
	return r;
}
