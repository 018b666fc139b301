/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/refs-words.h"

#include <inttypes.h>
#include <string.h>

#define OTHERS_MAX 4 /* maximum number of named branches and tags */

void refs_words_release(struct refs_words *words)
{
	strbuf_release(&words->branch);
	strbuf_release(&words->others);
}

/* Returns the rest of the text behind the prefix; NULL if the text does not begin with it. */
static const char *behind(const char *text, const char *prefix)
{
	size_t size = strlen(prefix);

	return strncmp(text, prefix, size) == 0 ? text + size : NULL;
}

static void see_ref(struct refs_words *w, const struct atoll_change *change, const char *what, const char *name)
{
	w->n_others++;
	if (w->n_others > OTHERS_MAX)
		return;
	strbuf_addf(&w->others, ", %s%s ", change->kind == ATOLL_ADDED ? "new " : "", what);
	strbuf_add_quoted(&w->others, name);
	strbuf_adds(&w->others, change->kind == ATOLL_ADDED ? "" : " moves on");
}

void refs_words_see(const struct atoll_change *change, void *arg)
{
	const char *branch = behind(change->path, "refs/heads/"), *tag = behind(change->path, "refs/tags/");
	const char *note = change->note ? change->note : "";
	struct refs_words *w = arg;

	if (!change->part || (change->kind != ATOLL_ADDED && change->kind != ATOLL_MODIFIED))
		return;
	if (behind(change->path, "commit ") && !strstr(note, "; made inside on refs/")) {
		w->commits++;
	} else if (branch && behind(note, "moves to ")) {
		strbuf_truncate(&w->branch, 0);
		strbuf_add_quoted(&w->branch, branch);
	} else if (branch) {
		see_ref(w, change, "branch", branch);
	} else if (tag) {
		see_ref(w, change, "tag", tag);
	}
}

void refs_words_add(const struct refs_words *w, const char *separator, struct strbuf *ret)
{
	const char *others = strbuf_str(&w->others);

	if (!w->commits && !w->n_others)
		return;
	strbuf_adds(ret, separator);
	if (w->commits)
		strbuf_addf(ret, "%" PRIu64 " commit%s%s%s", w->commits, w->commits == 1 ? "" : "s",
			    w->branch.size ? " on " : "", strbuf_str(&w->branch));
	strbuf_adds(ret, w->commits ? others : others + strlen(", "));
	if (w->n_others > OTHERS_MAX)
		strbuf_addf(ret, " and %zu more", w->n_others - OTHERS_MAX);
}
