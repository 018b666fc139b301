/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hunks of a patch, and the text in which only some of them are applied.
 *
 *	AUTO_PATCH_HUNKS hunks = { 0 };
 *	patch_hunks_find(&patch, &hunks);
 *	hunks.v[0].chosen = true;
 *	patch_hunks_print(&patch, &hunks.v[0], stdout, &style);
 *	patch_hunks_apply(&patch, &hunks, &text);
 *
 * The hunks hold line numbers of the patch, which must outlive them. Each choice of hunks makes
 * a valid text: bytes, line ends and a missing newline at the end are those of the old or the new
 * text.
 */
#ifndef CLI_PATCH_HUNKS_H
#define CLI_PATCH_HUNKS_H

#include "base/strbuf.h"
#include "cli/patch.h"

/* The lines from a to a_end of the old text become the lines from b to b_end of the new one. The
 * first and the last of these lines have changed; between them may be unchanged ones. */
struct patch_hunk {
	size_t a, a_end, b, b_end;
	bool chosen;
};

struct patch_hunks {
	struct patch_hunk *v;
	size_t n;
};

/* Replaces *hunk by the first hunk behind it; { 0 } stands before the first. Returns false if there
 * is none. Changes that are at most two contexts apart belong to one hunk. */
bool patch_hunks_next(const struct patch *p, struct patch_hunk *hunk);

/* Finds all hunks; none is chosen. Returns 0 or -ENOMEM. */
int patch_hunks_find(const struct patch *p, struct patch_hunks *ret);
void patch_hunks_release(struct patch_hunks *h);

/* Splits a hunk where unchanged lines lie between its changes. The parts stand in its place, chosen
 * as it was. Returns the number of parts, 1 if it cannot be split, or -ENOMEM. */
int patch_hunks_split(const struct patch *p, struct patch_hunks *h, size_t i);
bool patch_hunks_can_split(const struct patch *p, const struct patch_hunk *hunk);

size_t patch_hunks_chosen(const struct patch_hunks *h); /* their number */

/* In patch-print.c: prints one hunk with its context, which ends at the next change. */
void patch_hunks_print(const struct patch *p, const struct patch_hunk *hunk, FILE *out,
		       const struct patch_style *style);

/* Adds the old text with the chosen hunks applied; s->failed tells a lack of memory. */
void patch_hunks_apply(const struct patch *p, const struct patch_hunks *h, struct strbuf *s);

#define AUTO_PATCH_HUNKS CLEANUP(patch_hunks_release) struct patch_hunks

#endif
