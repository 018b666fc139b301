/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fold.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/columns.h"
#include "cli/git-ignored.h"
#include "cli/output.h"
#include "cli/text.h"

struct fold *fold_new(void)
{
	return calloc(1, sizeof(struct fold));
}

static void free_words(char **words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(words[i]);
	free(words);
}

struct fold *fold_free(struct fold *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < f->n; i++) {
		free(f->entries[i].path);
		free(f->entries[i].old_path);
		free(f->entries[i].details);
	}
	free(f->entries);
	free_words(f->resources, f->n_resources);
	free_words(f->ignored_dirs, f->n_ignored_dirs);
	free(f->lines);
	free(f);
	return NULL;
}

/* ---- collecting ---- */

static bool add_word(char ***words, size_t *n, const char *word)
{
	char **grown = reallocarray(*words, *n + 1, sizeof(*grown));

	if (!grown)
		return false;
	*words = grown;
	grown[*n] = strdup(word);
	return grown[*n] && ++*n;
}

/* Changes arrive grouped by resource. */
static const char *keep_resource(struct fold *f, const char *path)
{
	if (f->n_resources > 0 && strcmp(f->resources[f->n_resources - 1], path) == 0)
		return f->resources[f->n_resources - 1];
	return add_word(&f->resources, &f->n_resources, path) ? f->resources[f->n_resources - 1] : NULL;
}

static struct fold_entry *next_entry(struct fold *f)
{
	if (f->n == f->capacity) {
		size_t capacity = MAX(2 * f->capacity, (size_t)256);
		struct fold_entry *v = reallocarray(f->entries, capacity, sizeof(*v));

		if (!v)
			return NULL;
		f->entries = v;
		f->capacity = capacity;
	}
	f->entries[f->n] = (struct fold_entry){ 0 };
	return &f->entries[f->n];
}

/* Tools that fill a directory of their own put a .gitignore there that ignores everything. Atoll
 * asks git about the original, where git does not see this file yet. */
static bool ignores_its_directory(const struct atoll_change *c)
{
	const char *slash = strrchr(c->path, '/');
	AUTO_TEXT text = { 0 };
	bool everything = false;

	if (c->kind != ATOLL_ADDED || !S_ISREG(c->new_mode) || c->new_size > 4096 || !slash ||
	    strcmp(slash, "/.gitignore") != 0 || text_read(atoll_change_open_new(c), &text) < 0)
		return false;
	for (char *save = NULL, *line = strtok_r(text.data, "\r\n", &save); line;
	     line = strtok_r(NULL, "\r\n", &save)) {
		if (*line == '!')
			return false;
		everything |= strcmp(line, "*") == 0;
	}
	return everything;
}

static bool is_rewritten(const struct atoll_change *c)
{
	return c->kind == ATOLL_META && c->what == ATOLL_WHAT_TIME && !c->part && S_ISREG(c->new_mode);
}

int fold_add(struct fold *f, const struct atoll_change *c, bool several)
{
	struct fold_entry *e = f ? next_entry(f) : NULL;
	AUTO_STRBUF details = STRBUF_INIT;
	bool is_complete;

	if (!e)
		return -ENOMEM;
	changes_details(&details, c);
	e->resource = c->resource;
	e->resource_path = keep_resource(f, c->resource_path);
	e->path = strdup(strcmp(c->path, ".") == 0 && !c->part ? "" : c->path);
	e->old_path = c->old_path ? strdup(c->old_path) : NULL;
	e->kind = c->kind;
	e->flags = changes_path_flags(c, several) | PATH_SLASH;
	e->is_equal = is_rewritten(c);
	is_complete = e->resource_path && e->path && (e->old_path || !c->old_path);
	if (details.size > 0) {
		e->details = strbuf_take(&details);
		is_complete = is_complete && e->details;
	}
	f->n++;
	if (is_complete && ignores_its_directory(c)) {
		AUTO_FREE char *dir =
			str_format("%s/%.*s/", c->resource_path, (int)(strrchr(c->path, '/') - c->path), c->path);

		is_complete = dir && add_word(&f->ignored_dirs, &f->n_ignored_dirs, dir);
	}
	return is_complete ? 0 : -ENOMEM;
}

/* ---- files that git ignores ---- */

static bool lies_in_ignored(const struct fold *f, const struct fold_entry *e)
{
	size_t top = strlen(e->resource_path);

	for (size_t i = 0; i < f->n_ignored_dirs; i++) {
		const char *dir = f->ignored_dirs[i];
		size_t size = strlen(dir) - 1;

		if (strncmp(dir, e->resource_path, top) == 0 && strncmp(e->path, dir + top + 1, size - top - 1) == 0 &&
		    (e->path[size - top - 1] == '/' || e->path[size - top - 1] == '\0'))
			return true;
	}
	return false;
}

/* The entries from `begin` to `end` belong to one resource. Skips parts of the resource that are
 * no files: git does not know them. */
static void ask_about(struct fold *f, size_t begin, size_t end)
{
	AUTO_FREE const char **paths = reallocarray(NULL, end - begin, sizeof(*paths));
	AUTO_FREE size_t *at = reallocarray(NULL, end - begin, sizeof(*at));
	AUTO_FREE bool *ignored = calloc(end - begin, sizeof(*ignored));
	size_t n = 0;

	if (!paths || !at || !ignored)
		return;
	for (size_t i = begin; i < end; i++) {
		if ((f->entries[i].flags & PATH_PART) || !f->entries[i].path[0])
			continue;
		at[n] = i;
		paths[n++] = f->entries[i].path;
	}
	git_ignored(f->entries[begin].resource_path, paths, n, ignored);
	for (size_t i = 0; i < n; i++)
		f->entries[at[i]].is_ignored = ignored[i] || lies_in_ignored(f, &f->entries[at[i]]);
}

void fold_find_ignored(struct fold *f)
{
	for (size_t i = 0, end; i < f->n; i = end) {
		for (end = i + 1; end < f->n && f->entries[end].resource_path == f->entries[i].resource_path;)
			end++;
		ask_about(f, i, end);
	}
}

/* ---- printing ---- */

static void add_directory(struct strbuf *s, const struct fold *f, const struct fold_line *line)
{
	const struct fold_entry *last = &f->entries[line->end - 1];
	AUTO_FREE char *dir = strndup(last->path, line->dir);

	changes_path(s, "", last->resource_path, dir && *dir ? dir : ".",
		     (last->flags & PATH_SEVERAL) | PATH_DIR | PATH_SLASH);
}

static void add_entry(struct strbuf *s, const struct fold_entry *e)
{
	const char *path = *e->path ? e->path : ".";

	if (e->old_path) {
		changes_path(s, "", e->resource_path, e->old_path, e->flags);
		strbuf_adds(s, " → ");
	}
	changes_path(s, "", e->resource_path, path, e->flags);
}

/* Adds the name of the file or directory of the line. */
static void add_name(struct strbuf *s, const struct fold *f, const struct fold_line *line)
{
	switch (line->kind) {
	case FOLD_ENTRY:
		add_entry(s, &f->entries[line->begin]);
		return;
	case FOLD_EQUAL:
		strbuf_addf(s, "%" PRIu64 " files rewritten with equal content", line->n);
		return;
	case FOLD_FILES:
		strbuf_adds(s, "files in ");
		break;
	case FOLD_REST:
		strbuf_adds(s, line->end > 0 ? "the rest of " : "the rest");
		break;
	case FOLD_DIRECTORY:
		break;
	}
	if (line->end > 0)
		add_directory(s, f, line);
}

static void add_ignored(struct strbuf *s, const struct fold_line *line)
{
	if (line->n_ignored == 0)
		return;
	if (line->n_ignored < line->n)
		strbuf_addf(s, ", %" PRIu64 " of them", line->n_ignored);
	else if (s->size > 0)
		strbuf_addc(s, ',');
	strbuf_addf(s, "%signored by git", s->size > 0 ? " " : "");
}

/* Adds the details or counts behind the name. */
static void add_remark(struct strbuf *s, const struct fold *f, const struct fold_line *line)
{
	AUTO_STRBUF text = STRBUF_INIT;

	if (line->kind == FOLD_EQUAL)
		return;
	if (line->kind == FOLD_ENTRY)
		strbuf_adds(&text, f->entries[line->begin].details ? f->entries[line->begin].details : "");
	else
		changes_count_words(&text, &line->counts);
	add_ignored(&text, line);
	if (text.size == 0)
		return;
	strbuf_addf(s, line->kind == FOLD_ENTRY ? "  (%s)" : "  %s", strbuf_str(&text));
}

/* Returns the letter that all changes of the line have in common, or '*'. */
static char letter_of(const struct fold *f, const struct fold_line *line, enum atoll_change_kind *ret_kind)
{
	const struct changes_counts *c = &line->counts;

	*ret_kind = ATOLL_META;
	if (line->kind == FOLD_ENTRY)
		*ret_kind = f->entries[line->begin].kind;
	else if (c->added == line->n)
		*ret_kind = ATOLL_ADDED;
	else if (c->modified == line->n)
		*ret_kind = ATOLL_MODIFIED;
	else if (c->deleted == line->n)
		*ret_kind = ATOLL_DELETED;
	else if (c->skipped == line->n)
		*ret_kind = ATOLL_SKIPPED;
	else if (c->meta != line->n)
		return '*';
	return atoll_change_kind_letter(*ret_kind);
}

static void print_line(const struct fold *f, const struct fold_line *line, const struct changes_style *style,
		       size_t columns)
{
	AUTO_STRBUF name = STRBUF_INIT, remark = STRBUF_INIT, all = STRBUF_INIT;
	enum atoll_change_kind kind;
	char letter = letter_of(f, line, &kind);
	size_t wide;

	add_name(&name, f, line);
	add_remark(&remark, f, line);
	columns = MAX(columns, (size_t)20) - 3;
	wide = columns_of(strbuf_str(&remark));
	columns_add_shortened(&all, strbuf_str(&name), columns - MIN(wide, columns / 2));
	columns_add_shortened(&all, strbuf_str(&remark), columns - MIN(columns, columns_of(strbuf_str(&all))));
	fprintf(style->out, "%s%c%s  %s\n", letter == '*' ? "" : changes_color(style->color, kind), letter,
		output_color(style->color && letter != '*', COLOR_RESET), strbuf_str(&all));
}

int fold_print(struct fold *f, const struct changes_style *style, size_t rows, size_t columns, bool *ret_folded)
{
	int r;

	fold_find_ignored(f);
	r = fold_choose(f, MAX(rows, (size_t)1));
	*ret_folded = false;
	for (size_t i = 0; i < f->n_lines && r == 0; i++) {
		print_line(f, &f->lines[i], style, columns);
		*ret_folded |= f->lines[i].kind != FOLD_ENTRY;
	}
	return r;
}
