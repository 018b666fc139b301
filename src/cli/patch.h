/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two texts by lines, and its form as a unified diff.
 *
 *	struct patch p;
 *	patch_init(&p, &(struct patch_text){ old, old_size }, &(struct patch_text){ new, new_size });
 *	patch_print(&p, stdout, &(struct patch_style){ 0 });
 *	patch_release(&p);
 *
 * Myers' algorithm in linear space. Its cost is bounded: a stretch that would need more than PATCH_COST_LIMIT edits is
 * shown as replaced as a whole, which is as true, only longer. The texts are borrowed and must outlive the patch.
 */
#ifndef CLI_PATCH_H
#define CLI_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"

#define PATCH_COST_LIMIT 4096
#define PATCH_CONTEXT 3

struct patch_text {
	const char *data;
	size_t size;
};

struct patch_line {
	const char *data;
	size_t size;    /* with its newline; the last one may lack it */
	uint32_t class; /* equal lines of both texts have equal classes */
	bool changed;
};

struct patch_side {
	struct patch_line *lines;
	size_t n;
};

struct patch {
	struct patch_side old_side, new_side;
	size_t added, removed; /* lines */
};

struct patch_style {
	const char *removed, *added, *hunk, *reset; /* put around the lines; NULL is "" */
	bool escape;                                /* for a terminal: write control characters except tab as letters */
};

/* 0 or -ENOMEM, or -EFBIG beyond 2^31 lines. On failure there is nothing to release. */
int patch_init(struct patch *p, const struct patch_text *old_text, const struct patch_text *new_text);
void patch_release(struct patch *p);

/* The hunks alone, nothing if the texts are equal. Errors stay with the stream. */
void patch_print(const struct patch *p, FILE *out, const struct patch_style *style);

#define AUTO_PATCH CLEANUP(patch_release) struct patch

#endif
