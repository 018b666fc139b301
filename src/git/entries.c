/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tracked entries, from what git prints with -z: paths are bytes, whatever is in them. */
#include "git/git.h"

#include <ctype.h>
#include <string.h>

#include "base/fd.h"

#define RECORD_MAX ((size_t)1 << 30)

void git_entries_release(struct git_entries *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i].path);
	free(e->v);
	*e = (struct git_entries){ 0 };
}

int git_entries_add(struct git_entries *e, const char *path, unsigned mode, const struct git_id *id, int stage)
{
	if (e->n == e->capacity) {
		size_t capacity = e->capacity ? e->capacity * 2 : 64;
		struct git_entry *grown = reallocarray(e->v, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		e->v = grown;
		e->capacity = capacity;
	}
	e->v[e->n] = (struct git_entry){ .path = strdup(path), .mode = mode, .id = *id, .stage = stage };
	return e->v[e->n].path ? (int)(e->n++, 0) : -ENOMEM;
}

int git_entries_copy(const struct git_entries *from, struct git_entries *ret)
{
	int r = 0;

	for (size_t i = 0; i < from->n && r >= 0; i++)
		r = git_entries_add(ret, from->v[i].path, from->v[i].mode, &from->v[i].id, from->v[i].stage);
	return r;
}

static int compare(const void *path, const void *entry)
{
	return strcmp(path, ((const struct git_entry *)entry)->path);
}

static int compare_entries(const void *a, const void *b)
{
	return compare(((const struct git_entry *)a)->path, b);
}

const struct git_entry *git_entries_find(const struct git_entries *e, const char *path)
{
	return e->n ? bsearch(path, e->v, e->n, sizeof *e->v, compare) : NULL;
}

/* The first that is not before a path. */
static size_t first_from(const struct git_entries *e, const char *path, size_t size)
{
	size_t low = 0, high = e->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strncmp(e->v[middle].path, path, size) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool git_entries_clash(const struct git_entries *e, const char *path)
{
	size_t size = strlen(path);
	size_t below = first_from(e, path, size);

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t parent = (size_t)(slash - path), at = first_from(e, path, parent);

		if (at < e->n && strncmp(e->v[at].path, path, parent) == 0 && !e->v[at].path[parent])
			return true;
	}
	for (; below < e->n && strncmp(e->v[below].path, path, size) == 0; below++)
		if (e->v[below].path[size] == '/')
			return true;
	return false;
}

/* One field after the other, each ended by NUL. NULL at the end. */
static const char *next(const char **at, const char *end)
{
	const char *field = *at, *stop = field < end ? memchr(field, 0, (size_t)(end - field)) : NULL;

	if (!stop)
		return NULL;
	*at = stop + 1;
	return field;
}

static int unexpected(const struct git_call *how, const char *what, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAILED, 0, how->operation, how->repo->top,
			 "what git %s says of \"%s\" is not understood", what, how->repo->top);
}

/* "MARK MODE HASH STAGE\tPATH"; the mark is a letter, a small one of what is assumed to be unchanged. */
static int parse_index_line(const char *line, struct git_entries *ret)
{
	const char *tab = strchr(line, '\t');
	char mark = *line;
	unsigned mode;
	struct git_id id;
	int stage, r;

	if (!isalpha((unsigned char)mark) || line[1] != ' ')
		return -EINVAL;
	line += 2;

	if (!tab || sscanf(line, "%o ", &mode) != 1 || line[6] != ' ' || !git_id_parse(line + 7, &id) ||
	    sscanf(line + 7 + strlen(id.hex), " %d", &stage) != 1)
		return -EINVAL;
	r = git_entries_add(ret, tab + 1, mode, &id, stage);
	if (r >= 0)
		ret->v[ret->n - 1].marks = (toupper((unsigned char)mark) == 'S' ? GIT_MARK_SKIP : 0) |
					   (islower((unsigned char)mark) ? GIT_MARK_ASSUME : 0);
	return r;
}

int git_entries_of_index(const struct git_call *how, struct git_entries *ret, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = *how;
	const char *at, *end, *line;
	int r;

	call.output = &out;
	r = git_call(&call, err, (const char *const[]){ "ls-files", "-s", "-v", "-z", NULL });
	at = strbuf_str(&out);
	end = at + out.size;
	while (r >= 0 && (line = next(&at, end))) {
		r = parse_index_line(line, ret);
		if (r < 0)
			return r == -ENOMEM ? error_oom(err, how->operation) : unexpected(how, "ls-files", err);
	}
	return MIN(r, 0);
}

/* ":MODE MODE HASH HASH LETTER", then the path. */
static int parse_difference(const char *line, const char *path, struct git_entries *from, struct git_entries *to)
{
	unsigned old_mode, new_mode;
	struct git_id old_id, new_id;
	const char *second;
	int r;

	if (line[0] != ':' || sscanf(line + 1, "%o %o ", &old_mode, &new_mode) != 2 || strlen(line) < 15 ||
	    !git_id_parse(line + 15, &old_id))
		return -EINVAL;
	second = line + 15 + strlen(old_id.hex) + 1;
	if (!git_id_parse(second, &new_id))
		return -EINVAL;
	r = from ? git_entries_add(from, path, old_mode, &old_id, 0) : 0;
	return r < 0 || !to ? r : git_entries_add(to, path, new_mode, &new_id, 0);
}

static int parse_differences(const struct git_call *how, const char *verb, const struct strbuf *out,
			     struct git_entries *ret_from, struct git_entries *ret_to, struct atoll_error *err)
{
	const char *at = strbuf_str(out), *end = at + out->size, *line, *path;

	while ((line = next(&at, end))) {
		int r;

		path = next(&at, end);
		r = path ? parse_difference(line, path, ret_from, ret_to) : -EINVAL;
		if (r < 0)
			return r == -ENOMEM ? error_oom(err, how->operation) : unexpected(how, verb, err);
	}
	return 0;
}

static int list_differences(const struct git_call *how, const char *const argv[], struct git_entries *ret_from,
			    struct git_entries *ret_to, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = *how;
	int r;

	call.output = &out;
	r = git_call(&call, err, argv);
	return r < 0 ? r : parse_differences(how, argv[0], &out, ret_from, ret_to, err);
}

int git_entries_between_start(const struct git_call *how, const struct git_id *from, const struct git_id *to,
			      struct git_running *ret, struct atoll_error *err)
{
	return git_call_start(how, ret, err,
			      (const char *const[]){ "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff",
						     from->hex, to->hex, NULL });
}

int git_entries_between_finish(struct git_running *g, struct git_entries *ret_from, struct git_entries *ret_to,
			       struct atoll_error *err)
{
	int r = git_call_finish(g, err);

	return r < 0 ? r : parse_differences(&g->call, g->verb, g->call.output, ret_from, ret_to, err);
}

int git_entries_between(const struct git_call *how, const struct git_id *from, const struct git_id *to,
			struct git_entries *ret_from, struct git_entries *ret_to, struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = *how;
	struct git_running running;
	int r;

	call.output = &out;
	r = git_entries_between_start(&call, from, to, &running, err);
	return r < 0 ? r : git_entries_between_finish(&running, ret_from, ret_to, err);
}

int git_entries_since(const struct git_call *how, const struct git_id *from, struct git_entries *ret_from,
		      struct git_entries *ret_to, struct atoll_error *err)
{
	return list_differences(how,
				(const char *const[]){ "diff-index", "--cached", "-z", "--raw", "--no-renames",
						       "--no-ext-diff", from->hex, NULL },
				ret_from, ret_to, err);
}

/* 1 if a file of the index is another one, or cannot be told not to be. */
static int refresh(const struct git_call *how, struct atoll_error *err)
{
	struct git_call call = *how;

	call.also = 1;
	return git_call(&call, err, (const char *const[]){ "update-index", "--ignore-submodules", "--refresh", NULL });
}

int git_entries_unlike(const struct git_call *how, struct git_entries *ret, struct atoll_error *err)
{
	int r = refresh(how, err);

	if (r <= 0)
		return r;
	return list_differences(how,
				(const char *const[]){ "diff-files", "-z", "--raw", "--no-renames", "--no-ext-diff",
						       "--ignore-submodules=all", NULL },
				ret, NULL, err);
}

int git_entries_edited(const struct git_call *how, const struct git_entries *list, struct git_entries *ret,
		       struct atoll_error *err)
{
	AUTO_STRBUF info = STRBUF_INIT;
	struct git_call call = *how;
	int r;

	git_entries_format(list, list->n ? strlen(list->v[0].id.hex) : 0, &info);
	if (info.failed)
		return error_oom(err, how->operation);
	call.input = strbuf_str(&info);
	call.input_size = info.size;
	r = git_call(&call, err, (const char *const[]){ "update-index", "-z", "--index-info", NULL });
	return r < 0 ? r : git_entries_unlike(how, ret, err);
}

static const char *skip_fields(const char *line, int n)
{
	for (; n > 0 && line; n--) {
		line = strchr(line, ' ');
		line = line ? line + 1 : NULL;
	}
	return line;
}

/* "1 XY SUB MODE-HEAD MODE-INDEX MODE-FILE HASH-HEAD HASH-INDEX PATH"; what is unmerged has a side more:
 * "u XY SUB MODE-BASE MODE-HEAD MODE-OTHER MODE-FILE HASH-BASE HASH-HEAD HASH-OTHER PATH". */
static int parse_status(const char *line, struct git_entries *ret, bool *ret_staged)
{
	bool unmerged = line[0] == 'u';
	const char *mode_field = skip_fields(line, unmerged ? 4 : 3), *field = skip_fields(line, unmerged ? 8 : 6);
	unsigned mode;
	struct git_id id;

	if ((line[0] != '1' && !unmerged) || !mode_field || sscanf(mode_field, "%o ", &mode) != 1 || !field ||
	    !git_id_parse(field, &id))
		return -EINVAL;
	field = skip_fields(field, 2);
	*ret_staged |= line[2] != '.';
	return field ? git_entries_add(ret, field, mode, &id, 0) : -EINVAL;
}

int git_entries_uncommitted_start(const struct git_call *how, struct git_running *ret, struct atoll_error *err)
{
	return git_call_start(how, ret, err,
			      (const char *const[]){ "status", "--porcelain=v2", "-z", "--untracked-files=no",
						     "--no-renames", "--ignore-submodules=all", NULL });
}

int git_entries_uncommitted_finish(struct git_running *g, struct git_entries *ret, bool *ret_staged,
				   struct atoll_error *err)
{
	const char *at, *end, *line;
	int r = git_call_finish(g, err);

	*ret_staged = false;
	at = strbuf_str(g->call.output);
	end = at + g->call.output->size;
	while (r >= 0 && (line = next(&at, end))) {
		/* What the user's configuration has it say besides, of stashes and branches. */
		if (line[0] == '#')
			continue;
		r = parse_status(line, ret, ret_staged);
		if (r < 0)
			return r == -ENOMEM ? error_oom(err, g->call.operation) : unexpected(&g->call, "status", err);
	}
	/* What is unmerged comes last. */
	if (r >= 0 && ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, compare_entries);
	return MIN(r, 0);
}

int git_entries_uncommitted(const struct git_call *how, struct git_entries *ret, bool *ret_staged,
			    struct atoll_error *err)
{
	AUTO_STRBUF out = STRBUF_INIT;
	struct git_call call = *how;
	struct git_running running;
	int r;

	call.output = &out;
	r = git_entries_uncommitted_start(&call, &running, err);
	return r < 0 ? r : git_entries_uncommitted_finish(&running, ret, ret_staged, err);
}

void git_entries_format(const struct git_entries *e, size_t hex_size, struct strbuf *out)
{
	for (size_t i = 0; i < e->n; i++) {
		if (e->v[i].mode)
			strbuf_addf(out, "%o %s\t%s", e->v[i].mode, e->v[i].id.hex, e->v[i].path);
		else
			strbuf_addf(out, "0 %0*d\t%s", (int)hex_size, 0, e->v[i].path);
		strbuf_addc(out, 0);
	}
}

int git_entries_parse(const char *text, size_t size, struct git_entries *ret)
{
	int r = 0;

	for (const char *at = text; at < text + size && r >= 0; at += strlen(at) + 1) {
		const char *path = strchr(at, '\t'), *hash = strchr(at, ' ');
		struct git_id id;
		unsigned mode;

		if (!path || !hash || sscanf(at, "%o ", &mode) != 1 || !git_id_parse(hash + 1, &id))
			return -EINVAL;
		r = git_entries_add(ret, path + 1, mode, &id, 0);
	}
	return r;
}

int git_entries_load(int dir_fd, const char *name, struct git_entries *ret)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	int r = fd_read_file(dir_fd, name, RECORD_MAX, &text, &size);

	return r < 0 ? r : git_entries_parse(text, size, ret);
}
