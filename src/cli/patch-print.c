/* SPDX-License-Identifier: Apache-2.0 */
/* A patch as unified diff. */
#include <string.h>

#include "base/utf8.h"
#include "cli/patch-hunks.h"

struct printer {
	const struct patch *p;
	FILE *out;
	const char *removed, *added, *hunk, *reset;
	bool escape;
};

/*
 * Writes the characters that a terminal would obey as letters: ^[ for a control character, <U+202E>
 * for a C1 control or a change of writing direction, <9B> for a byte that is not UTF-8 (an 8-bit
 * terminal takes some of these bytes for C1 controls).
 */
static void put_escaped(FILE *out, const char *data, size_t size)
{
	while (size > 0) {
		char text[5] = { 0 }; /* the data may end within a sequence, and without a NUL */
		uint32_t c = 0;
		size_t n;

		memcpy(text, data, MIN(size, sizeof(text) - 1));
		n = utf8_decode(text, &c);
		if (*text == '\t' || utf8_printable(text) > 0)
			fwrite(data, 1, n, out);
		else if ((unsigned char)*text < 0x20 || *text == 0x7f)
			fprintf(out, "^%c", *text ^ 0x40);
		else if (n > 0)
			fprintf(out, "<U+%04X>", (unsigned)c);
		else
			fprintf(out, "<%02X>", (unsigned)(unsigned char)*text);
		n = MAX(n, (size_t)1);
		data += n;
		size -= n;
	}
}

static void print_line(const struct printer *pr, char sign, const char *color, const struct patch_line *line)
{
	bool ended = line->size > 0 && line->data[line->size - 1] == '\n';
	size_t size = line->size - ended;

	fputs(color, pr->out);
	putc(sign, pr->out);
	if (pr->escape)
		put_escaped(pr->out, line->data, size);
	else
		fwrite(line->data, 1, size, pr->out);
	if (*color)
		fputs(pr->reset, pr->out);
	putc('\n', pr->out);
	if (!ended)
		fputs("\\ No newline at end of file\n", pr->out);
}

/* "12,3": one line goes without its count, and an empty range stands behind the line before it. */
static void print_range(FILE *out, size_t start, size_t count)
{
	fprintf(out, "%zu", count > 0 ? start + 1 : start);
	if (count != 1)
		fprintf(out, ",%zu", count);
}

/* Prints a header and all lines of the range, which includes context. */
static void print_lines(const struct printer *pr, const struct patch_hunk *range)
{
	const struct patch_side *old_side = &pr->p->old_side, *new_side = &pr->p->new_side;
	size_t a = range->a, b = range->b;

	fprintf(pr->out, "%s@@ -", pr->hunk);
	print_range(pr->out, range->a, range->a_end - range->a);
	fputs(" +", pr->out);
	print_range(pr->out, range->b, range->b_end - range->b);
	fprintf(pr->out, " @@%s\n", *pr->hunk ? pr->reset : "");
	while (a < range->a_end || b < range->b_end) {
		for (; a < range->a_end && old_side->lines[a].changed; a++)
			print_line(pr, '-', pr->removed, &old_side->lines[a]);
		for (; b < range->b_end && new_side->lines[b].changed; b++)
			print_line(pr, '+', pr->added, &new_side->lines[b]);
		for (; a < range->a_end && !old_side->lines[a].changed && !new_side->lines[b].changed; a++, b++)
			print_line(pr, ' ', "", &old_side->lines[a]);
	}
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static bool is_equal_line(const struct patch *p, size_t a, size_t b)
{
	return a < p->old_side.n && b < p->new_side.n && !p->old_side.lines[a].changed && !p->new_side.lines[b].changed;
}

/* The context of a hunk ends at the next change, which belongs to another part of a split hunk. */
void patch_hunks_print(const struct patch *p, const struct patch_hunk *hunk, FILE *out, const struct patch_style *style)
{
	const struct printer pr = { p,
				    out,
				    or_empty(style->removed),
				    or_empty(style->added),
				    or_empty(style->hunk),
				    or_empty(style->reset),
				    style->escape };
	struct patch_hunk range = *hunk;

	for (int n = 0; n < PATCH_CONTEXT && range.a > 0 && range.b > 0 && is_equal_line(p, range.a - 1, range.b - 1);
	     n++)
		range.a--, range.b--;
	for (int n = 0; n < PATCH_CONTEXT && is_equal_line(p, range.a_end, range.b_end); n++)
		range.a_end++, range.b_end++;
	print_lines(&pr, &range);
}

void patch_print(const struct patch *p, FILE *out, const struct patch_style *style)
{
	struct patch_hunk hunk = { 0 };

	while (!ferror(out) && patch_hunks_next(p, &hunk))
		patch_hunks_print(p, &hunk, out, style);
}
