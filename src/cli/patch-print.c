/* SPDX-License-Identifier: Apache-2.0 */
/* A patch as unified diff. */
#include <string.h>

#include "base/utf8.h"
#include "cli/patch.h"

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

struct position {
	size_t a, b;
};

static bool at_change(const struct patch *p, struct position at)
{
	return (at.a < p->old_side.n && p->old_side.lines[at.a].changed) ||
	       (at.b < p->new_side.n && p->new_side.lines[at.b].changed);
}

static bool at_end(const struct patch *p, struct position at)
{
	return at.a >= p->old_side.n && at.b >= p->new_side.n;
}

/* Past the changed lines here; both sides then stand at equal lines or at the end. */
static struct position skip_changes(const struct patch *p, struct position at)
{
	while (at.a < p->old_side.n && p->old_side.lines[at.a].changed)
		at.a++;
	while (at.b < p->new_side.n && p->new_side.lines[at.b].changed)
		at.b++;
	return at;
}

/* Where the hunk ends whose first change is at `at`: behind the last change near enough to share its context. */
static struct position find_hunk_end(const struct patch *p, struct position at)
{
	for (;;) {
		struct position end = skip_changes(p, at);
		size_t equal = 0;

		at = end;
		while (!at_end(p, at) && !at_change(p, at) && equal <= 2 * PATCH_CONTEXT) {
			at.a++;
			at.b++;
			equal++;
		}
		if (at_end(p, at) || equal > 2 * PATCH_CONTEXT)
			return end;
	}
}

static void print_hunk(const struct printer *pr, struct position start, struct position end)
{
	const struct patch *p = pr->p;
	struct position at = start;

	fprintf(pr->out, "%s@@ -", pr->hunk);
	print_range(pr->out, start.a, end.a - start.a);
	fputs(" +", pr->out);
	print_range(pr->out, start.b, end.b - start.b);
	fprintf(pr->out, " @@%s\n", *pr->hunk ? pr->reset : "");
	while (at.a < end.a || at.b < end.b) {
		for (; at.a < end.a && p->old_side.lines[at.a].changed; at.a++)
			print_line(pr, '-', pr->removed, &p->old_side.lines[at.a]);
		for (; at.b < end.b && p->new_side.lines[at.b].changed; at.b++)
			print_line(pr, '+', pr->added, &p->new_side.lines[at.b]);
		for (; at.a < end.a && !at_change(p, at); at.a++, at.b++)
			print_line(pr, ' ', "", &p->old_side.lines[at.a]);
	}
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

void patch_print(const struct patch *p, FILE *out, const struct patch_style *style)
{
	struct printer pr = { p,
			      out,
			      or_empty(style->removed),
			      or_empty(style->added),
			      or_empty(style->hunk),
			      or_empty(style->reset),
			      style->escape };
	struct position at = { 0, 0 };

	while (!at_end(p, at)) {
		struct position start, end;
		size_t context;

		if (!at_change(p, at)) {
			at.a++;
			at.b++;
			continue;
		}
		end = find_hunk_end(p, at);
		context = MIN(at.a, (size_t)PATCH_CONTEXT);
		start = (struct position){ at.a - context, at.b - context };
		at = end;
		context = MIN(p->old_side.n - end.a, (size_t)PATCH_CONTEXT);
		print_hunk(&pr, start, (struct position){ end.a + context, end.b + context });
		if (ferror(out))
			return;
	}
}
