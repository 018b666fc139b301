/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the candidate that is nearest to a misspelt word:
 *
 *	struct similar s = similar_to("brihgt");
 *	for (...)
 *		similar_try(&s, candidate);
 *	if (s.best)
 *		… did you mean s.best?
 *
 * The distance counts letters added, left out, replaced and exchanged with their neighbour. A word
 * of three to seven letters may have one mistake, a longer one up to three; a candidate that
 * differs in more is another word, and is never the best. Nothing is near a word of one or two
 * letters. The struct borrows the candidates.
 */
#ifndef BASE_SIMILAR_H
#define BASE_SIMILAR_H

#include <stddef.h>

struct similar {
	const char *word, *best; /* best is NULL until a candidate is near enough */
	size_t limit;            /* a better candidate has a distance below this */
};

struct similar similar_to(const char *word);
void similar_try(struct similar *s, const char *candidate);

#endif
