/* SPDX-License-Identifier: Apache-2.0 */
#include "base/similar.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define WORD_MAX 4096 /* longer words are not compared: filling the rows would take long */

/* With more mistakes than these, most of the candidates found are other words, e.g. "web2" for
 * "box". */
#define MISTAKES_MOST 3
#define LETTERS_LEAST 3
#define LETTERS_PER_MISTAKE 4

struct similar similar_to(const char *word)
{
	size_t letters = strlen(word);
	size_t mistakes = MIN(MAX(letters / LETTERS_PER_MISTAKE, (size_t)1), (size_t)MISTAKES_MOST);

	return (struct similar){ .word = word, .limit = letters < LETTERS_LEAST ? 1 : mistakes + 1 };
}

/* Fills one row of the edit distances between prefixes of both words. Returns false if all
 * distances of the row have reached the limit. */
static bool fill_row(const char *word, const char *candidate, size_t row, size_t *rows[3], size_t limit)
{
	size_t *now = rows[0], *before = rows[1], *older = rows[2], least = row;

	now[0] = row;
	for (size_t i = 1; word[i - 1]; i++) {
		bool same = word[i - 1] == candidate[row - 1];

		now[i] = MIN(MIN(now[i - 1], before[i]) + 1, before[i - 1] + !same);
		if (i > 1 && row > 1 && word[i - 1] == candidate[row - 2] && word[i - 2] == candidate[row - 1])
			now[i] = MIN(now[i], older[i - 2] + 1);
		least = MIN(least, now[i]);
	}
	return least < limit;
}

static size_t distance(const struct similar *s, const char *candidate)
{
	size_t n = strlen(s->word), far = s->limit;
	AUTO_FREE size_t *cells = reallocarray(NULL, 3 * (n + 1), sizeof *cells);
	size_t *rows[3] = { cells, cells + n + 1, cells + 2 * (n + 1) };

	if (!cells)
		return far;
	for (size_t i = 0; i <= n; i++)
		rows[0][i] = rows[1][i] = i;
	for (size_t row = 1; candidate[row - 1]; row++) {
		size_t *oldest = rows[2];

		rows[2] = rows[1];
		rows[1] = rows[0];
		rows[0] = oldest;
		if (!fill_row(s->word, candidate, row, rows, s->limit))
			return far;
	}
	return rows[0][n];
}

void similar_try(struct similar *s, const char *candidate)
{
	size_t a = strlen(s->word), b = strlen(candidate), found;

	if ((a > b ? a - b : b - a) >= s->limit || MAX(a, b) > WORD_MAX)
		return;
	found = distance(s, candidate);
	if (found >= s->limit)
		return;
	s->limit = found;
	s->best = candidate;
}
