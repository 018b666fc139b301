/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifying files after the walk that met them. A directory decides what is made of everything below it, and so has its turn during the
 * walk; files decide nothing for each other, and there may be very many.
 */
#include <string.h>

#include "base/fd.h"
#include "base/parallel.h"
#include "strategy/strategy.h"

/* One thread's. What it finds beyond the file itself, below a directory that the file has replaced, stays in its own list. */
struct part {
	const struct later *l;
	struct classify classify;
	struct peer workspace;
	void (*judge)(struct change *c, void *arg);
	void *arg;
	int failed;
	size_t at; /* the file that could not be classified */
};

int later_add(struct later *l, const char *path, bool covered, bool in_opaque)
{
	if (l->n == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 32;
		struct later_file *v = reallocarray(l->v, capacity, sizeof *v);

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->capacity = capacity;
	}
	l->v[l->n] = (struct later_file){ l->classify->changes->n, covered, in_opaque };
	if (!changes_add(l->classify->changes, path, ATOLL_SKIPPED))
		return -ENOMEM;
	l->n++;
	return 0;
}

void later_release(struct later *l)
{
	free(l->v);
	*l = (struct later){ 0 };
}

/* Moves the first of the changes that a thread has just found to the place that is kept for it. */
static void put_in_place(struct part *p, const struct later_file *file, struct change *place, size_t first)
{
	struct changes *found = p->classify.changes;
	char *path = place->path;

	*place = found->v[first];
	free(place->path);
	place->path = path;
	place->in_opaque = file->in_opaque;
	found->n--;
	memmove(&found->v[first], &found->v[first + 1], (found->n - first) * sizeof *found->v);
	if (p->judge)
		p->judge(place, p->arg);
}

static int classify_file(struct part *p, const struct later_file *file)
{
	struct change *place = &p->l->classify->changes->v[file->at], *c = NULL;
	size_t first = p->classify.changes->n;
	struct tree_entry e = { .path = place->path, .name = path_base_name(place->path), .fd = -EBADF };
	int r;

	e.dirfd = peer_dir(&p->workspace, e.path, path_parent_size(e.path));
	r = e.dirfd < 0 ? e.dirfd : tree_stat(e.dirfd, e.name, &e.stat);
	if (r >= 0)
		r = classify_entry(&p->classify, &e, file->covered, NULL, &c);
	if (r >= 0 && c) {
		put_in_place(p, file, place, first);
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	free(place->path);
	place->path = NULL;
	return 0;
}

static void classify_portion(void *arg, size_t number, size_t first, size_t end)
{
	struct part *p = (struct part *)arg + number;

	for (size_t i = first; i < end && p->failed >= 0; i++) {
		p->failed = classify_file(p, &p->l->v[i]);
		p->at = i;
	}
}

static int begin_part(struct part *p, const struct later *l, int workspace_fd)
{
	p->l = l;
	p->classify = *l->classify;
	p->classify.peer = (struct peer){ l->classify->peer.root_fd, NULL, -EBADF };
	p->classify.changes = changes_new();
	p->workspace = (struct peer){ workspace_fd, NULL, -EBADF };
	return p->classify.changes ? 0 : -ENOMEM;
}

/* Takes over what a thread has found beyond its files. */
static int end_part(struct part *p, struct changes *all)
{
	struct changes *found = p->classify.changes;
	int r = 0;

	for (size_t i = 0; found && i < found->n; i++) {
		struct change *added = changes_add(all, found->v[i].path, found->v[i].kind);
		char *path = added ? added->path : NULL;

		if (!added) {
			r = -ENOMEM;
			break;
		}
		*added = found->v[i];
		added->path = path;
	}
	changes_free(found);
	peer_release(&p->classify.peer);
	peer_release(&p->workspace);
	return r;
}

/* Files that are as their originals are no changes. */
static void close_gaps(struct changes *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].path) {
			if (n != i)
				c->v[n] = c->v[i];
			n++;
		}
	c->n = n;
}

int later_classify(struct later *l, int workspace_fd, void (*judge)(struct change *c, void *arg), void *arg,
		   char **ret_path)
{
	struct part parts[PARALLEL_MAX] = { 0 };
	size_t at = l->n;
	int r = 0, rc;

	for (size_t i = 0; i < PARALLEL_MAX && r >= 0; i++) {
		parts[i].judge = judge;
		parts[i].arg = arg;
		r = begin_part(&parts[i], l, workspace_fd);
	}
	if (r >= 0)
		parallel_run(l->n, classify_portion, parts);
	for (size_t i = 0; i < PARALLEL_MAX; i++) {
		if (parts[i].failed < 0 && parts[i].at < at) {
			at = parts[i].at;
			r = parts[i].failed;
		}
		rc = end_part(&parts[i], l->classify->changes);
		r = r < 0 ? r : rc;
	}
	if (at < l->n)
		*ret_path = strdup(l->classify->changes->v[l->v[at].at].path);
	close_gaps(l->classify->changes);
	return r;
}
