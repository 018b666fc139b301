/* SPDX-License-Identifier: Apache-2.0 */
/* diff --stat: lines added and removed by file, with bars. Rows are collected first: widths depend on all of them. */
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "cli/changes.h"
#include "cli/output.h"
#include "cli/patch.h"
#include "cli/text.h"

struct row {
	char *name;
	size_t added, removed;
	bool is_binary;
	int64_t old_size, new_size;
};

struct changes_stat {
	struct row *rows;
	size_t n, capacity;
};

struct changes_stat *changes_stat_new(void)
{
	return calloc(1, sizeof(struct changes_stat));
}

struct changes_stat *changes_stat_free(struct changes_stat *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n; i++)
		free(t->rows[i].name);
	free(t->rows);
	free(t);
	return NULL;
}

static int count_lines(struct row *row, const struct atoll_change *c)
{
	AUTO_TEXT old_text = { 0 };
	AUTO_TEXT new_text = { 0 };
	AUTO_PATCH patch = { 0 };
	int r = 0;

	if (S_ISREG(c->old_mode))
		r = text_read(atoll_change_open_old(c), &old_text);
	if (r >= 0 && S_ISREG(c->new_mode))
		r = text_read(atoll_change_open_new(c), &new_text);
	if (r == -ENOMEM)
		return r;
	/* What cannot be read, or is too long, is counted in bytes like a binary file. */
	row->is_binary = r < 0 || old_text.is_binary || new_text.is_binary || old_text.is_large || new_text.is_large;
	if (row->is_binary)
		return 0;
	r = patch_init(&patch, &(struct patch_text){ old_text.data, old_text.size },
		       &(struct patch_text){ new_text.data, new_text.size });
	if (r < 0)
		return r;
	row->added = patch.added;
	row->removed = patch.removed;
	return 0;
}

static char *row_name(const struct atoll_change *c, bool several)
{
	AUTO_STRBUF s = STRBUF_INIT;
	unsigned flags = changes_path_flags(c, several) | PATH_SLASH;

	if (c->old_path) {
		changes_path(&s, "", c->resource_path, c->old_path, flags);
		strbuf_adds(&s, " → ");
	}
	changes_path(&s, "", c->resource_path, c->path, flags);
	return strbuf_take(&s);
}

int changes_stat_add(struct changes_stat *t, const struct atoll_change *c, bool several)
{
	struct row row = { .old_size = c->old_size, .new_size = c->new_size };
	int r = 0;

	if (!t)
		return -ENOMEM;
	if (c->kind != ATOLL_META && c->kind != ATOLL_SKIPPED)
		r = count_lines(&row, c);
	if (r < 0)
		return r;
	if (t->n == t->capacity) {
		size_t capacity = MAX(2 * t->capacity, (size_t)64);
		struct row *rows = reallocarray(t->rows, capacity, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		t->rows = rows;
		t->capacity = capacity;
	}
	row.name = row_name(c, several);
	if (!row.name)
		return -ENOMEM;
	t->rows[t->n++] = row;
	return 0;
}

static int columns(const char *text)
{
	int n = 0;

	while (*text) {
		text += MAX(utf8_sequence(text), (size_t)1);
		n++;
	}
	return n;
}

static int terminal_width(FILE *out)
{
	struct winsize size;

	if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
		return size.ws_col;
	return 80;
}

static void print_bar(FILE *out, bool color, const struct row *row, size_t most, size_t width)
{
	size_t total = row->added + row->removed;
	size_t plus = row->added, minus = row->removed;

	if (most > width) {
		/* At least one sign for what is not nothing. */
		size_t length = MAX(total * width / most, (size_t)(row->added > 0) + (row->removed > 0));

		plus = total > 0 ? MAX(row->added * length / total, (size_t)(row->added > 0)) : 0;
		minus = length - MIN(plus, length);
	}
	fputs(output_color(color && plus > 0, COLOR_GREEN), out);
	for (; plus > 0; plus--)
		putc('+', out);
	fputs(output_color(color && minus > 0, COLOR_RED), out);
	for (; minus > 0; minus--)
		putc('-', out);
	fputs(output_color(color && total > 0, COLOR_RESET), out);
}

static void print_row(FILE *out, bool color, const struct row *row, int name_width, size_t most, size_t bar_width)
{
	fprintf(out, " %s%*s | ", row->name, MAX(name_width - columns(row->name), 0), "");
	if (row->is_binary) {
		fprintf(out, "Bin %" PRId64 " -> %" PRId64 " bytes\n", row->old_size, row->new_size);
		return;
	}
	fprintf(out, "%5zu", row->added + row->removed);
	if (row->added + row->removed > 0)
		putc(' ', out);
	print_bar(out, color, row, most, bar_width);
	putc('\n', out);
}

void changes_stat_print(const struct changes_stat *t, FILE *out, bool color)
{
	size_t added = 0, removed = 0, most = 0;
	int name_width = 0, bar_width;

	for (size_t i = 0; i < t->n; i++) {
		name_width = MAX(name_width, columns(t->rows[i].name));
		most = MAX(most, t->rows[i].added + t->rows[i].removed);
		added += t->rows[i].added;
		removed += t->rows[i].removed;
	}
	name_width = MIN(name_width, 60);
	bar_width = MAX(terminal_width(out) - name_width - 11, 10);
	for (size_t i = 0; i < t->n && !ferror(out); i++)
		print_row(out, color, &t->rows[i], name_width, most, (size_t)bar_width);
	if (t->n > 0)
		fprintf(out, " %zu change%s, %zu line%s added (+), %zu line%s removed (-)\n", t->n,
			t->n == 1 ? "" : "s", added, added == 1 ? "" : "s", removed, removed == 1 ? "" : "s");
}
