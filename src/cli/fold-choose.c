/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "cli/fold.h"

/* ---- order: a directory, then its content; parts of resources that are no files first ---- */

static int compare_paths(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;

	while (*x && *x == *y)
		x++, y++;
	if (*x == *y)
		return 0;
	if (!*x || !*y)
		return *x ? 1 : -1;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return *x < *y ? -1 : 1;
}

static int compare_entries(const void *a, const void *b)
{
	const struct fold_entry *x = a, *y = b;

	if (x->resource != y->resource)
		return x->resource < y->resource ? -1 : 1;
	if ((x->flags ^ y->flags) & PATH_PART)
		return x->flags & PATH_PART ? -1 : 1;
	return compare_paths(x->path, y->path);
}

static bool lies_below(const struct fold_entry *e, const char *dir, size_t size)
{
	return !(e->flags & PATH_PART) && strncmp(e->path, dir, size) == 0 && e->path[size] == '/';
}

/* git tracks no directories: if git ignores all files in a directory, treat the directory as
 * ignored. */
static void ignore_directories(struct fold *f, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		struct fold_entry *e = &f->entries[i];
		size_t size = strlen(e->path), j = i + 1;

		if (e->is_ignored || size == 0 || (e->flags & (PATH_DIR | PATH_PART)) != PATH_DIR)
			continue;
		while (j < n && f->entries[j].is_ignored && lies_below(&f->entries[j], e->path, size))
			j++;
		e->is_ignored = j > i + 1 && (j == n || !lies_below(&f->entries[j], e->path, size));
	}
}

void fold_sort(struct fold *f, size_t n)
{
	if (n > 0)
		qsort(f->entries, n, sizeof(*f->entries), compare_entries);
	ignore_directories(f, n);
}

/* ---- lines ---- */

static void count_entry(struct fold_line *line, const struct fold_entry *e)
{
	changes_count(&line->counts, &(struct atoll_change){ .kind = e->kind });
	line->n++;
	line->n_ignored += e->is_ignored;
	line->has_edits |= e->kind != ATOLL_ADDED && e->kind != ATOLL_SKIPPED && !e->is_ignored;
}

static void count_line(struct fold_line *sum, const struct fold_line *line)
{
	sum->counts.added += line->counts.added;
	sum->counts.modified += line->counts.modified;
	sum->counts.deleted += line->counts.deleted;
	sum->counts.meta += line->counts.meta;
	sum->counts.skipped += line->counts.skipped;
	sum->n += line->n;
	sum->n_ignored += line->n_ignored;
	sum->has_edits |= line->has_edits;
}

struct lines {
	struct fold_line *v;
	size_t n, capacity;
	bool failed;
};

static void lines_release(struct lines *l)
{
	free(l->v);
	*l = (struct lines){ 0 };
}

static void lines_add(struct lines *l, const struct fold_line *line)
{
	if (l->n == l->capacity) {
		size_t capacity = MAX(2 * l->capacity, (size_t)32);
		struct fold_line *v = reallocarray(l->v, capacity, sizeof(*v));

		if (!v) {
			l->failed = true;
			return;
		}
		l->v = v;
		l->capacity = capacity;
	}
	l->v[l->n++] = *line;
}

static struct fold_line line_of_range(const struct fold *f, enum fold_line_kind kind, size_t begin, size_t end,
				      size_t dir)
{
	struct fold_line line = { .kind = kind, .begin = begin, .end = end, .dir = dir };

	for (size_t i = begin; i < end; i++)
		count_entry(&line, &f->entries[i]);
	return line;
}

/* ---- contents of a directory ---- */

#define N_GROUPS (2 * (ATOLL_SKIPPED + 1) * 2)

/* Entries directly in a directory that are in the same group share a line if there is no room
 * for each. */
static unsigned group_of(const struct fold_entry *e)
{
	return 4 * (unsigned)e->kind + (e->flags & PATH_PART ? 2 : 0) + (e->is_ignored ? 1 : 0);
}

/* Returns the part of the path below the directory. */
static const char *inside(const struct fold_entry *e, size_t dir)
{
	return e->path + dir + (dir > 0 && e->path[dir] == '/');
}

/* Returns the end of the entries that lie, one level below `dir`, in the same directory as entry
 * i; i + 1 if entry i is alone there. */
static size_t end_of_subdirectory(const struct fold *f, size_t i, size_t end, size_t dir)
{
	const struct fold_entry *e = &f->entries[i];
	const char *name = inside(e, dir);
	size_t size = (size_t)(name - e->path) + strcspn(name, "/"), j = i + 1;

	if ((e->flags & PATH_PART) || !*name)
		return j;
	while (j < end && lies_below(&f->entries[j], e->path, size))
		j++;
	return j;
}

/*
 * Returns the size of the innermost directory that holds all entries: directories that hold only
 * one directory share a line with it. The entries are sorted, so a prefix that the first and the
 * last share is common to all.
 */
static size_t common_directory(const struct fold *f, size_t begin, size_t end)
{
	const char *first = f->entries[begin].path, *last = f->entries[end - 1].path;
	size_t size = 0;

	if (f->entries[begin].flags & PATH_PART)
		return 0;
	for (size_t i = 1; first[i - 1] && first[i - 1] == last[i - 1]; i++)
		if (last[i] == '/' && (first[i] == '/' || first[i] == '\0'))
			size = i;
	return size;
}

struct contents {
	struct lines lines;
	struct fold_line groups[N_GROUPS];
	size_t first[N_GROUPS]; /* index of the first entry of the group */
};

static void add_direct(const struct fold *f, struct contents *c, const struct fold_line *line, size_t i)
{
	unsigned group = group_of(&f->entries[i]);
	bool is_own = f->entries[i].path[0] && strlen(f->entries[i].path) == line->dir;
	struct fold_line entry = line_of_range(f, FOLD_ENTRY, i, i + 1, line->dir);

	if (is_own) {
		lines_add(&c->lines, &entry);
		return;
	}
	if (c->groups[group].n == 0)
		c->first[group] = i;
	c->groups[group].kind = FOLD_FILES;
	c->groups[group].begin = line->begin;
	c->groups[group].end = line->end;
	c->groups[group].dir = line->dir;
	c->groups[group].group = group;
	count_entry(&c->groups[group], &f->entries[i]);
}

static void add_groups(const struct fold *f, struct contents *c, size_t dir)
{
	for (size_t group = 0; group < N_GROUPS; group++) {
		struct fold_line entry;

		if (c->groups[group].n > 1)
			lines_add(&c->lines, &c->groups[group]);
		if (c->groups[group].n != 1)
			continue;
		entry = line_of_range(f, FOLD_ENTRY, c->first[group], c->first[group] + 1, dir);
		lines_add(&c->lines, &entry);
	}
}

static void open_directory(const struct fold *f, const struct fold_line *line, struct lines *ret)
{
	struct contents c = { 0 };

	for (size_t i = line->begin, end; i < line->end; i = end) {
		struct fold_line directory;

		end = end_of_subdirectory(f, i, line->end, line->dir);
		if (end == i + 1) {
			add_direct(f, &c, line, i);
			continue;
		}
		directory = line_of_range(f, FOLD_DIRECTORY, i, end, common_directory(f, i, end));
		lines_add(&c.lines, &directory);
	}
	add_groups(f, &c, line->dir);
	*ret = c.lines;
}

static void open_files(const struct fold *f, const struct fold_line *line, struct lines *ret)
{
	for (size_t i = line->begin, end; i < line->end; i = end) {
		struct fold_line entry;

		end = end_of_subdirectory(f, i, line->end, line->dir);
		if (end > i + 1 || group_of(&f->entries[i]) != line->group ||
		    (f->entries[i].path[0] && strlen(f->entries[i].path) == line->dir))
			continue;
		entry = line_of_range(f, FOLD_ENTRY, i, end, line->dir);
		lines_add(ret, &entry);
	}
}

/* ---- choosing ---- */

static bool can_open(const struct fold_line *line)
{
	return (line->kind == FOLD_DIRECTORY || line->kind == FOLD_FILES) && line->n > 1 &&
	       (line->is_top || line->n_ignored < line->n);
}

static void open_line(const struct fold *f, const struct fold_line *line, struct lines *ret)
{
	if (line->kind == FOLD_FILES)
		open_files(f, line, ret);
	else
		open_directory(f, line, ret);
}

/* Replaces line `at` by the lines in `with`. */
static void replace(struct lines *all, size_t at, const struct lines *with)
{
	size_t behind = all->n - at - 1;

	for (size_t i = 1; i < with->n; i++)
		lines_add(all, &(struct fold_line){ 0 });
	if (all->failed || with->failed) {
		all->failed = true;
		return;
	}
	memmove(all->v + at + with->n, all->v + at + 1, behind * sizeof(*all->v));
	if (with->n)
		memcpy(all->v + at, with->v, with->n * sizeof(*all->v));
}

static size_t lines_inside(const struct fold *f, struct fold_line *line)
{
	CLEANUP(lines_release) struct lines opened = { 0 };

	if (line->opens == 0) {
		open_line(f, line, &opened);
		line->opens = opened.failed ? SIZE_MAX : opened.n;
	}
	return line->opens;
}

/* Opens the best line for which there is room. Returns false if there is none. */
static bool open_best(const struct fold *f, struct lines *all, size_t rows)
{
	CLEANUP(lines_release) struct lines opened = { 0 };
	struct fold_line *best = NULL;

	for (size_t i = 0; i < all->n; i++) {
		struct fold_line *line = &all->v[i];

		if (!can_open(line) || all->n - 1 + lines_inside(f, line) > rows)
			continue;
		if (!best || (line->has_edits && !best->has_edits) ||
		    (line->has_edits == best->has_edits && line->opens < best->opens))
			best = line;
	}
	if (!best)
		return false;
	open_line(f, best, &opened);
	replace(all, (size_t)(best - all->v), &opened);
	return !all->failed;
}

/* The order of the lines: single entries first, edited ones before new ones; ignored entries
 * last. */
static int rank(const struct fold_line *line)
{
	if (line->kind == FOLD_EQUAL)
		return 5;
	if (line->n_ignored == line->n)
		return 6;
	if (line->kind == FOLD_REST)
		return 4;
	if (line->kind == FOLD_ENTRY)
		return line->has_edits ? 0 : 1;
	return line->has_edits ? 2 : 3;
}

static int compare_lines(const void *a, const void *b)
{
	const struct fold_line *x = a, *y = b;

	if (rank(x) != rank(y))
		return rank(x) < rank(y) ? -1 : 1;
	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return x->begin == y->begin ? 0 : x->begin < y->begin ? -1 : 1;
}

static int compare_begins(const void *a, const void *b)
{
	const struct fold_line *x = a, *y = b;

	return x->begin == y->begin ? 0 : x->begin < y->begin ? -1 : 1;
}

/* Called when no line can be opened any more: fills the remaining rows with the first lines of
 * one directory and a line for the rest of it. */
static void open_partly(const struct fold *f, struct lines *all, size_t rows)
{
	CLEANUP(lines_release) struct lines opened = { 0 };
	struct fold_line *best = NULL;
	struct fold_line rest;
	size_t shown = rows - MIN(rows, all->n);

	for (size_t i = 0; i < all->n; i++) {
		struct fold_line *line = &all->v[i];

		if (can_open(line) && (line->has_edits || line->is_top) &&
		    (!best || (line->has_edits && !best->has_edits) ||
		     (line->has_edits == best->has_edits && line->n > best->n)))
			best = line;
	}
	if (!best || shown == 0)
		return;
	open_line(f, best, &opened);
	if (opened.failed || opened.n <= shown)
		return;
	qsort(opened.v, opened.n, sizeof(*opened.v), compare_lines);
	rest = (struct fold_line){
		.kind = FOLD_REST, .begin = best->begin, .end = best->end, .dir = best->dir, .group = best->kind
	};
	for (size_t i = shown; i < opened.n; i++)
		count_line(&rest, &opened.v[i]);
	opened.v[shown] = rest;
	opened.n = shown + 1;
	replace(all, (size_t)(best - all->v), &opened);
}

/* ---- the list as a whole ---- */

/* Moves files that were rewritten with equal content behind all other entries; they share one
 * line. Returns the number of the other entries. */
static size_t set_equal_apart(struct fold *f, struct fold_line *ret)
{
	size_t n_equal = 0, others = 0;
	struct fold_entry *kept;

	*ret = (struct fold_line){ .kind = FOLD_EQUAL };
	for (size_t i = 0; i < f->n; i++)
		n_equal += f->entries[i].is_equal;
	kept = n_equal > 1 ? reallocarray(NULL, n_equal, sizeof(*kept)) : NULL;
	if (!kept)
		return f->n;
	for (size_t i = 0, equal = 0; i < f->n; i++) {
		if (f->entries[i].is_equal) {
			count_entry(ret, &f->entries[i]);
			kept[equal++] = f->entries[i];
		} else {
			f->entries[others++] = f->entries[i];
		}
	}
	memcpy(f->entries + others, kept, n_equal * sizeof(*kept));
	free(kept);
	return others;
}

static void add_resources(const struct fold *f, size_t n, struct lines *all)
{
	for (size_t i = 0, end; i < n; i = end) {
		struct fold_line line;

		for (end = i + 1; end < n && f->entries[end].resource == f->entries[i].resource;)
			end++;
		line = line_of_range(f, end == i + 1 ? FOLD_ENTRY : FOLD_DIRECTORY, i, end,
				     common_directory(f, i, end));
		line.is_top = true;
		lines_add(all, &line);
	}
}

/* If there are more resources than rows, the last resources share one row. */
static void cut(struct lines *all, size_t rows)
{
	struct fold_line rest = { .kind = FOLD_REST };

	if (all->n <= rows || rows == 0)
		return;
	for (size_t i = rows - 1; i < all->n; i++)
		count_line(&rest, &all->v[i]);
	all->v[rows - 1] = rest;
	all->n = rows;
}

int fold_choose(struct fold *f, size_t rows)
{
	struct lines all = { 0 };
	struct fold_line equal;
	size_t n = set_equal_apart(f, &equal);
	bool is_folded = equal.n > 0;

	fold_sort(f, n);
	rows -= MIN(rows, (size_t)is_folded);
	add_resources(f, n, &all);
	while (!all.failed && open_best(f, &all, rows))
		;
	if (!all.failed)
		open_partly(f, &all, rows);
	if (equal.n > 0)
		lines_add(&all, &equal);
	for (size_t i = 0; i < all.n; i++)
		is_folded |= all.v[i].kind != FOLD_ENTRY;
	if (all.n > 0)
		qsort(all.v, all.n, sizeof(*all.v), is_folded ? compare_lines : compare_begins);
	cut(&all, rows + (equal.n > 0));
	f->lines = all.v;
	f->n_lines = all.n;
	return all.failed ? -ENOMEM : 0;
}
