/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a session, found with capabilities over the user's own files: what a command made unreadable is still shown. They are
 * found in a child where that needs one, and come back through a file in memory.
 */
#include "engine/engine.h"

#include <string.h>

#include "jail/jail.h"

struct gathering {
	struct session *s;
	bool exact;
	struct atoll_error error;
};

static void put_text(FILE *f, const char *text)
{
	int64_t size = text ? (int64_t)strlen(text) : -1;

	fwrite(&size, sizeof size, 1, f);
	if (size > 0)
		fwrite(text, 1, (size_t)size, f);
}

static int get_text(FILE *f, char **ret)
{
	int64_t size;
	char *text;

	*ret = NULL;
	if (fread(&size, sizeof size, 1, f) != 1 || size > INT32_MAX)
		return -EIO;
	if (size < 0)
		return 0;
	text = malloc((size_t)size + 1);
	if (!text)
		return -ENOMEM;
	if (fread(text, 1, (size_t)size, f) != (size_t)size) {
		free(text);
		return -EIO;
	}
	text[size] = 0;
	*ret = text;
	return 0;
}

/* Notes are constants of this program, or words of their own: the child was forked, so that its pointers to the former are ours. */
static void write_changes(FILE *f, const struct changes *c)
{
	uint64_t n = c->n;

	fwrite(&n, sizeof n, 1, f);
	for (size_t i = 0; i < c->n; i++) {
		struct change plain = c->v[i];

		plain.path = plain.old_path = plain.words = NULL;
		fwrite(&plain, sizeof plain, 1, f);
		put_text(f, c->v[i].path);
		put_text(f, c->v[i].old_path);
		put_text(f, c->v[i].words);
	}
}

static struct changes *read_changes(FILE *f)
{
	CLEANUP(cleanup_changes) struct changes *c = changes_new();
	uint64_t n = 0;

	if (!c || fread(&n, sizeof n, 1, f) != 1)
		return NULL;
	for (uint64_t i = 0; i < n; i++) {
		struct change plain;
		AUTO_FREE char *path = NULL;
		AUTO_FREE char *old_path = NULL;
		AUTO_FREE char *words = NULL;
		struct change *added;

		if (fread(&plain, sizeof plain, 1, f) != 1 || get_text(f, &path) < 0 || get_text(f, &old_path) < 0 ||
		    get_text(f, &words) < 0 || !path)
			return NULL;
		added = changes_add(c, path, plain.kind);
		if (!added)
			return NULL;
		plain.path = added->path;
		plain.old_path = TAKE_PTR(old_path);
		if (words)
			plain.note = words;
		plain.words = TAKE_PTR(words);
		*added = plain;
	}
	return TAKE_PTR(c);
}

static int compare_renames(struct resource *r, struct changes *c, struct atoll_error *err)
{
	AUTO_FD workspace = r->ops->workspace ? resource_workspace(r) : -EBADF;

	return changes_compare_renames(r, c, workspace, err);
}

static int find_changes(void *arg, int out)
{
	struct gathering *g = arg;
	int copy = dup(out);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
	int r = 0;

	if (!f) {
		fd_close(copy);
		return error_oom(&g->error, "diff");
	}
	/* Room for the error, which is known last. */
	fwrite(&g->error, sizeof g->error, 1, f);
	for (size_t i = 0; i < g->s->n && r >= 0; i++) {
		CLEANUP(cleanup_changes) struct changes *c = strategy_changes(&g->s->resources[i], g->exact, &g->error);

		if (!c) {
			r = -(int)MAX(g->error.code, ATOLL_FAILED);
			break;
		}
		if (g->exact)
			r = changes_find_renames(&g->s->resources[i], c, &g->error);
		if (g->exact && r >= 0)
			r = compare_renames(&g->s->resources[i], c, &g->error);
		write_changes(f, c);
	}
	if (fclose(f) != 0 && r >= 0)
		r = error_sys(&g->error, errno, "diff", NULL, "cannot hand over the changes");
	if (pwrite(out, &g->error, sizeof g->error, 0) != (ssize_t)sizeof g->error)
		r = -ATOLL_FAILED;
	return r;
}

/* A database connection must not be used in a child: what is recorded is read before. */
static int load_records(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct store_touch unused;
		int r = s->resources[i].ops->base ? s->resources[i].ops->base(&s->resources[i], "", &unused, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_all(struct session *s, int out, struct changes **list, struct atoll_error *err)
{
	int copy = dup(out);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "r");
	int r = 0;

	if (!f) {
		fd_close(copy);
		return error_oom(err, "diff");
	}
	for (size_t i = 0; i < s->n && r >= 0; i++) {
		list[i] = read_changes(f);
		if (!list[i])
			r = error_set(err, ATOLL_FAILED, 0, "diff", s->box.name,
				      "the list of changes did not arrive whole");
	}
	fclose(f);
	return r;
}

int session_changes(struct session *s, bool exact, struct changes ***ret, struct atoll_error *err)
{
	struct gathering g = { .s = s, .exact = exact };
	struct atoll_error lost = { 0 };
	AUTO_FD out = -EBADF;
	struct changes **list = calloc(s->n ? s->n : 1, sizeof *list);
	int r = list ? load_records(s, err) : error_oom(err, "diff");

	if (r >= 0) {
		r = jail_call(find_changes, &g, &out, &lost);
		if (out >= 0 && pread(out, &g.error, sizeof g.error, 0) == (ssize_t)sizeof g.error &&
		    lseek(out, sizeof g.error, SEEK_SET) < 0)
			r = -ATOLL_FAILED;
		if (r < 0 && err)
			*err = g.error.code ? g.error : lost;
	}
	if (r >= 0)
		r = read_all(s, out, list, err);
	if (r < 0) {
		session_changes_free(list, s->n);
		return r;
	}
	*ret = list;
	return 0;
}

void session_changes_free(struct changes **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		changes_free(list[i]);
	free(list);
}
