/* SPDX-License-Identifier: Apache-2.0 */
/* A result on its way from the process that did the work to the one that asked for it: written to a file in memory, read back. */
#include "engine/engine.h"

#include <string.h>

static void put_int(FILE *f, int64_t v)
{
	fwrite(&v, sizeof v, 1, f);
}

static void put_text(FILE *f, const char *s)
{
	int64_t size = s ? (int64_t)strlen(s) : -1;

	put_int(f, size);
	if (size > 0)
		fwrite(s, 1, (size_t)size, f);
}

static int64_t get_int(FILE *f)
{
	int64_t v = 0;

	return fread(&v, sizeof v, 1, f) == 1 ? v : 0;
}

static char *get_text(FILE *f)
{
	int64_t size = -1;
	char *s;

	if (fread(&size, sizeof size, 1, f) != 1 || size < 0 || size > INT32_MAX)
		return NULL;
	s = malloc((size_t)size + 1);
	if (!s || fread(s, 1, (size_t)size, f) != (size_t)size) {
		free(s);
		return NULL;
	}
	s[size] = 0;
	return s;
}

static void put_resource(FILE *f, const struct atoll_resource_result *r)
{
	put_int(f, r->seq);
	put_text(f, r->path);
	put_int(f, r->outcome);
	put_text(f, r->cause);
	put_int(f, r->workspace_dirty);
	put_int(f, (int64_t)r->added);
	put_int(f, (int64_t)r->modified);
	put_int(f, (int64_t)r->deleted);
	put_int(f, (int64_t)r->meta);
	put_int(f, (int64_t)r->skipped);
	put_int(f, r->kind);
}

static void get_resource(FILE *f, struct atoll_resource_result *r)
{
	r->seq = (int)get_int(f);
	r->path = get_text(f);
	r->outcome = (enum atoll_outcome)get_int(f);
	r->cause = get_text(f);
	r->workspace_dirty = get_int(f);
	r->added = (uint64_t)get_int(f);
	r->modified = (uint64_t)get_int(f);
	r->deleted = (uint64_t)get_int(f);
	r->meta = (uint64_t)get_int(f);
	r->skipped = (uint64_t)get_int(f);
	r->kind = (enum atoll_kind)get_int(f);
}

int result_write(const struct atoll_result *r, int fd)
{
	int copy = dup(fd);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "w");

	if (!f) {
		fd_close(copy);
		return -ENOMEM;
	}
	put_int(f, r->success);
	put_text(f, r->operation);
	put_text(f, r->sandbox);
	put_int(f, r->commit);
	put_text(f, r->message);
	put_text(f, r->started_at);
	put_text(f, r->ended_at);
	put_int(f, r->dry_run);
	put_int(f, r->atomic);
	fwrite(&r->error, sizeof r->error, 1, f);
	put_int(f, (int64_t)r->n_resources);
	for (size_t i = 0; i < r->n_resources; i++)
		put_resource(f, &r->resources[i]);
	put_int(f, (int64_t)r->n_items);
	for (size_t i = 0; i < r->n_items; i++) {
		const struct atoll_item *item = &r->items[i];

		put_int(f, item->kind);
		put_int(f, item->change);
		put_int(f, item->resource);
		put_text(f, item->path);
		put_text(f, item->note);
		put_text(f, item->kept);
	}
	return fclose(f) == 0 ? 0 : -EIO;
}

/* Operations are named by constants, so that callers need not free them. */
static const char *known_operation(const char *name)
{
	static const char *const names[] = { "commit", "undo", "rollback", "recover", "rm" };

	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return names[i];
	return "unknown";
}

static int read_into(struct atoll_result *r, FILE *f)
{
	AUTO_FREE char *operation = NULL;
	size_t n;

	r->success = get_int(f);
	operation = get_text(f);
	r->operation = known_operation(operation);
	r->sandbox = get_text(f);
	r->commit = get_int(f);
	r->message = get_text(f);
	r->started_at = get_text(f);
	r->ended_at = get_text(f);
	r->dry_run = get_int(f);
	r->atomic = get_int(f);
	if (!operation || fread(&r->error, sizeof r->error, 1, f) != 1)
		return -EIO;
	n = (size_t)get_int(f);
	r->resources = calloc(n ? n : 1, sizeof *r->resources);
	if (!r->resources)
		return -ENOMEM;
	while (r->n_resources < n)
		get_resource(f, &r->resources[r->n_resources++]);
	n = (size_t)get_int(f);
	r->items = calloc(n ? n : 1, sizeof *r->items);
	if (!r->items)
		return -ENOMEM;
	for (; r->n_items < n; r->n_items++) {
		struct atoll_item *item = &r->items[r->n_items];

		item->kind = (enum atoll_item_kind)get_int(f);
		item->change = (enum atoll_change_kind)get_int(f);
		item->resource = (int)get_int(f);
		item->path = get_text(f);
		item->note = get_text(f);
		item->kept = get_text(f);
	}
	return ferror(f) ? -EIO : 0;
}

struct atoll_result *result_read(int fd)
{
	int copy = dup(fd);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "r");
	struct atoll_result *r = calloc(1, sizeof *r);

	if (!f || !r || read_into(r, f) < 0)
		r = atoll_result_free(r);
	if (f)
		fclose(f);
	else
		fd_close(copy);
	return r;
}
