/* SPDX-License-Identifier: Apache-2.0 */
/* One change in the manner of git's patches. Text can be applied with patch -p1; the rest is there to be read. */
#include <string.h>
#include <sys/stat.h>

#include "cli/changes.h"
#include "cli/output.h"
#include "cli/patch.h"
#include "cli/quote.h"
#include "cli/text.h"

struct names {
	struct strbuf old_name, new_name; /* "a/…", "b/…", quoted where needed */
};

static void names_release(struct names *n)
{
	strbuf_release(&n->old_name);
	strbuf_release(&n->new_name);
}

static void names_init(struct names *n, const struct changes_printer *p, const struct atoll_change *c)
{
	unsigned flags = changes_path_flags(c, p->several);

	changes_path(&n->old_name, "a/", c->resource_path, c->old_path ? c->old_path : c->path, flags);
	changes_path(&n->new_name, "b/", c->resource_path, c->path, flags);
}

static void print_target(const struct changes_printer *p, const char *label, char *target)
{
	AUTO_FREE char *owned = target;
	AUTO_STRBUF quoted = STRBUF_INIT;

	if (!owned)
		return;
	quote_name(&quoted, "", owned, "");
	fprintf(p->style.out, "%s target %s\n", label, strbuf_str(&quoted));
}

static void print_modes(const struct changes_printer *p, const struct atoll_change *c)
{
	FILE *out = p->style.out;

	if (!c->old_mode && c->new_mode)
		fprintf(out, "new file mode %06o\n", c->new_mode);
	else if (c->old_mode && !c->new_mode)
		fprintf(out, "deleted file mode %06o\n", c->old_mode);
	else if (c->old_mode != c->new_mode)
		fprintf(out, "old mode %06o\nnew mode %06o\n", c->old_mode, c->new_mode);
	if (c->what & ATOLL_WHAT_OWNER)
		fprintf(out, "old owner %u:%u\nnew owner %u:%u\n", c->old_uid, c->old_gid, c->new_uid, c->new_gid);
	if (c->what & ATOLL_WHAT_XATTR)
		fputs("extended attributes differ\n", out);
	if (c->kind == ATOLL_META && (c->what & ATOLL_WHAT_TIME))
		fputs("times differ\n", out);
	if (c->what & ATOLL_WHAT_LINKS)
		fputs("hard links differ\n", out);
}

static void print_rename(const struct changes_printer *p, const struct atoll_change *c)
{
	AUTO_STRBUF names = STRBUF_INIT;
	unsigned flags = changes_path_flags(c, p->several);

	strbuf_adds(&names, "rename from ");
	changes_path(&names, "", c->resource_path, c->old_path, flags);
	strbuf_adds(&names, "\nrename to ");
	changes_path(&names, "", c->resource_path, c->path, flags);
	fprintf(p->style.out, "%s\n", strbuf_str(&names));
}

static void print_header(const struct changes_printer *p, const struct atoll_change *c, const struct names *n)
{
	fprintf(p->style.out, "%sdiff --atoll %s %s%s\n", output_color(p->style.color, COLOR_BOLD),
		strbuf_str(&n->old_name), strbuf_str(&n->new_name), output_color(p->style.color, COLOR_RESET));
	print_modes(p, c);
	if (c->old_path)
		print_rename(p, c);
	if (S_ISLNK(c->old_mode))
		print_target(p, "old", atoll_change_old_target(c));
	if (S_ISLNK(c->new_mode))
		print_target(p, "new", atoll_change_new_target(c));
	if (c->note) {
		AUTO_STRBUF note = STRBUF_INIT;

		quote_prose(&note, c->note);
		fprintf(p->style.out, "note: %s\n", strbuf_str(&note));
	}
}

/* A name with a blank is followed by a tab, so that patch(1) knows where it ends. */
static const char *name_end(const char *name)
{
	return strchr(name, ' ') && name[0] != '"' ? "\t" : "";
}

static int print_text(const struct changes_printer *p, const char *old_name, const char *new_name,
		      const struct text *old_text, const struct text *new_text)
{
	AUTO_PATCH patch = { 0 };
	bool color = p->style.color;
	struct patch_style style = {
		.removed = output_color(color, COLOR_RED),
		.added = output_color(color, COLOR_GREEN),
		.hunk = output_color(color, COLOR_CYAN),
		.reset = output_color(color, COLOR_RESET),
		.escape = p->style.escape,
	};
	int r;

	r = patch_init(&patch, &(struct patch_text){ old_text->data, old_text->size },
		       &(struct patch_text){ new_text->data, new_text->size });
	if (r < 0)
		return r;
	if (patch.added + patch.removed == 0)
		return 0;
	fprintf(p->style.out, "--- %s%s\n+++ %s%s\n", old_name, name_end(old_name), new_name, name_end(new_name));
	patch_print(&patch, p->style.out, &style);
	return 0;
}

static int print_content(const struct changes_printer *p, const struct atoll_change *c, const struct names *n)
{
	const char *old_name = S_ISREG(c->old_mode) ? strbuf_str(&n->old_name) : "/dev/null";
	const char *new_name = S_ISREG(c->new_mode) ? strbuf_str(&n->new_name) : "/dev/null";
	AUTO_TEXT old_text = { 0 };
	AUTO_TEXT new_text = { 0 };
	int r = 0;

	if (S_ISREG(c->old_mode))
		r = text_read(atoll_change_open_old(c), &old_text);
	if (r >= 0 && S_ISREG(c->new_mode) && !old_text.is_binary)
		r = text_read(atoll_change_open_new(c), &new_text);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		fprintf(p->style.out, "Files %s and %s cannot be read: %s\n", old_name, new_name, strerror(-r));
	else if (old_text.is_binary || new_text.is_binary)
		fprintf(p->style.out, "Binary files %s and %s differ\n", old_name, new_name);
	else if (old_text.is_large || new_text.is_large)
		fprintf(p->style.out, "Files %s and %s differ and are too large to show\n", old_name, new_name);
	else
		return print_text(p, old_name, new_name, &old_text, &new_text);
	return 0;
}

/* What is no file has no lines: what there is to say of it. */
static void print_part(const struct changes_printer *p, const struct atoll_change *c)
{
	AUTO_STRBUF line = STRBUF_INIT;

	changes_path(&line, "", c->resource_path, c->path, changes_path_flags(c, p->several));
	if (c->note) {
		strbuf_adds(&line, ": ");
		quote_prose(&line, c->note);
	}
	fprintf(p->style.out, "%s%s%s\n", output_color(p->style.color, COLOR_BOLD), strbuf_str(&line),
		output_color(p->style.color, COLOR_RESET));
}

/* The key, and what is not the same on both sides. A value that would fill the screen is cut. */
#define VALUE_MAX 400

static void add_values(struct strbuf *s, const struct atoll_row *row, const char *const *values)
{
	for (size_t i = 0; i < row->n_columns; i++) {
		bool same = row->old_values && row->new_values && strcmp(row->old_values[i], row->new_values[i]) == 0;
		AUTO_FREE char *value = strndup(values[i], VALUE_MAX);

		if (same && !row->keys[i])
			continue;
		strbuf_addc(s, ' ');
		quote_prose(s, row->columns[i]);
		strbuf_addc(s, '=');
		quote_prose(s, value ? value : "");
		strbuf_adds(s, strlen(values[i]) > VALUE_MAX ? "…" : "");
	}
}

static int print_row(const struct atoll_row *row, void *arg)
{
	const struct changes_printer *p = arg;
	const char *const *sides[] = { row->old_values, row->new_values };

	for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
		AUTO_STRBUF line = STRBUF_INIT;

		if (!sides[i])
			continue;
		quote_prose(&line, row->table);
		add_values(&line, row, sides[i]);
		fprintf(p->style.out, "%s%c%s%s\n", output_color(p->style.color, i ? COLOR_GREEN : COLOR_RED),
			i ? '+' : '-', strbuf_str(&line), output_color(p->style.color, COLOR_RESET));
	}
	return ferror(p->style.out);
}

static void print_rows(struct changes_printer *p, const struct atoll_change *c)
{
	struct atoll_error err = { 0 };
	AUTO_STRBUF why = STRBUF_INIT;

	if (atoll_change_rows(c, print_row, p, &err) == 0)
		return;
	quote_prose(&why, err.message);
	fprintf(p->style.out, "not all rows are shown: %s\n", strbuf_str(&why));
}

int changes_patch_print(struct changes_printer *p, const struct atoll_change *c)
{
	CLEANUP(names_release) struct names n = { 0 };

	if (c->part) {
		print_part(p, c);
		print_rows(p, c);
		return 0;
	}
	names_init(&n, p, c);
	if (n.old_name.failed || n.new_name.failed)
		return -ENOMEM;
	print_header(p, c, &n);
	if (c->kind == ATOLL_SKIPPED || c->kind == ATOLL_META || !(S_ISREG(c->old_mode) || S_ISREG(c->new_mode)))
		return 0;
	return print_content(p, c, &n);
}
