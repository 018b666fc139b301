/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/words.h"

#include <errno.h>
#include <string.h>

#include "base/strbuf.h"

void words_release(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct words){ 0 };
}

static int add(struct words *w, struct strbuf *word)
{
	char **grown = reallocarray(w->v, w->n + 2, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	w->v = grown;
	grown[w->n] = word->size ? strbuf_take(word) : strdup("");
	grown[w->n + 1] = NULL;
	return grown[w->n] && ++w->n ? 0 : -ENOMEM;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Adds the character that an escape in double quotes stands for. `at` points behind the backslash.
 * Returns the position after the escape; NULL at the end of the text. */
static const char *add_escape(struct strbuf *s, const char *at)
{
	static const char letters[] = "abtnvfr"; /* of 0x07 to 0x0d */
	const char *letter = *at ? strchr(letters, *at) : NULL;

	if (!*at)
		return NULL;
	if (letter) {
		strbuf_addc(s, (char)('\a' + (letter - letters)));
		return at + 1;
	}
	if (*at <= '3' && is_octal(at[0]) && is_octal(at[1]) && is_octal(at[2])) {
		strbuf_addc(s, (char)(((at[0] - '0') << 6) | ((at[1] - '0') << 3) | (at[2] - '0')));
		return at + 3;
	}
	strbuf_addc(s, *at);
	return at + 1;
}

static const char *add_double_quoted(struct strbuf *s, const char *at)
{
	for (at++; *at && *at != '"';) {
		if (*at != '\\') {
			strbuf_addc(s, *at++);
			continue;
		}
		at = add_escape(s, at + 1);
		if (!at)
			return NULL;
	}
	return *at ? at + 1 : NULL;
}

static const char *add_single_quoted(struct strbuf *s, const char *at)
{
	const char *end = strchr(at + 1, '\'');

	if (end)
		strbuf_add(s, at + 1, (size_t)(end - at) - 1);
	return end ? end + 1 : NULL;
}

/* Adds one word. Returns the position after it, or NULL if it does not end. */
static const char *add_word(struct strbuf *s, const char *at)
{
	while (at && *at && !strchr(" \t\r\n", *at)) {
		if (*at == '"') {
			at = add_double_quoted(s, at);
		} else if (*at == '\'') {
			at = add_single_quoted(s, at);
		} else {
			at += *at == '\\';
			if (!*at)
				return NULL;
			strbuf_addc(s, *at++);
		}
	}
	return at;
}

int words_split(const char *line, struct words *ret)
{
	AUTO_WORDS w = { 0 };

	*ret = w;
	for (const char *at = line + strspn(line, " \t\r\n"); *at; at += strspn(at, " \t\r\n")) {
		AUTO_STRBUF word = STRBUF_INIT;

		at = add_word(&word, at);
		if (!at)
			return -EINVAL;
		if (word.failed || add(&w, &word) < 0)
			return -ENOMEM;
	}
	*ret = w;
	w = (struct words){ 0 };
	return 0;
}

char *words_unquote(const char *text, const char **ret_end)
{
	AUTO_STRBUF name = STRBUF_INIT;

	*ret_end = add_double_quoted(&name, text);
	return *ret_end && name.size ? strbuf_take(&name) : NULL;
}
