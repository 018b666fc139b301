/* SPDX-License-Identifier: Apache-2.0 */
/* Describes how the changes move the branches of repositories: "2 commits on main, new branch
 * feature". */
#ifndef CLI_REFS_WORDS_H
#define CLI_REFS_WORDS_H

#include <atoll/atoll.h>

#include "base/strbuf.h"

struct refs_words {
	uint64_t commits;     /* number of commits that land on a checked out branch */
	struct strbuf branch; /* its name; "" before the first; of several repositories, the last one's */
	struct strbuf others; /* ", new branch feature" */
	size_t n_others;
};

/* Call this for each change; arg is the struct refs_words. */
void refs_words_see(const struct atoll_change *change, void *arg);
/* Adds the separator and the phrase, or nothing if no branch or tag changes. */
void refs_words_add(const struct refs_words *words, const char *separator, struct strbuf *ret);
void refs_words_release(struct refs_words *words);

#define AUTO_REFS_WORDS CLEANUP(refs_words_release) struct refs_words

#endif
