/* SPDX-License-Identifier: Apache-2.0 */
#include "pg/lexer.h"

#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_name(char c)
{
	return is_name_start(c) || is_digit(c) || c == '$';
}

static char ahead(const struct pg_lexer *l, size_t n)
{
	return (char)((size_t)(l->end - l->at) > n ? l->at[n] : 0);
}

static void skip_line(struct pg_lexer *l)
{
	while (l->at < l->end && *l->at != '\n' && *l->at != '\r')
		l->at++;
}

static void skip_comment(struct pg_lexer *l)
{
	size_t depth = 0;

	do {
		if (ahead(l, 0) == '/' && ahead(l, 1) == '*') {
			depth++;
			l->at += 2;
		} else if (ahead(l, 0) == '*' && ahead(l, 1) == '/') {
			depth--;
			l->at += 2;
		} else {
			l->at++;
		}
	} while (depth > 0 && l->at < l->end);
}

static void skip_blank(struct pg_lexer *l)
{
	while (l->at < l->end) {
		if (is_space(*l->at))
			l->at++;
		else if (*l->at == '-' && ahead(l, 1) == '-')
			skip_line(l);
		else if (*l->at == '/' && ahead(l, 1) == '*')
			skip_comment(l);
		else
			return;
	}
}

/* From the opening quote to behind the closing one; a doubled quote is part of it. */
static void skip_quoted(struct pg_lexer *l, char quote, bool backslashes)
{
	l->at++;
	while (l->at < l->end) {
		bool two = (*l->at == '\\' && backslashes) || (*l->at == quote && ahead(l, 1) == quote);
		bool last = *l->at == quote && !two;

		l->at += two && l->end - l->at > 1 ? 2 : 1;
		if (last)
			return;
	}
}

/* A string goes on in the same manner after white space that contains a line end. */
static bool goes_on(struct pg_lexer *l)
{
	struct pg_lexer look = *l;
	bool line = false;

	while (look.at < look.end) {
		if (is_space(*look.at)) {
			line = line || *look.at == '\n' || *look.at == '\r';
			look.at++;
		} else if (*look.at == '-' && ahead(&look, 1) == '-') {
			skip_line(&look);
		} else {
			break;
		}
	}
	if (!line || ahead(&look, 0) != '\'')
		return false;
	*l = look;
	return true;
}

static void skip_string(struct pg_lexer *l, bool backslashes)
{
	do
		skip_quoted(l, '\'', backslashes);
	while (goes_on(l));
}

/* Of bits there is neither escape nor doubled quote. Whether a quote that follows goes on with it or begins another kind of string is not for
 * us to say. */
static void skip_bits(struct pg_lexer *l)
{
	const char *close = memchr(l->at + 1, '\'', (size_t)(l->end - l->at - 1));
	struct pg_lexer look = *l;

	l->at = look.at = close ? close + 1 : l->end;
	skip_blank(&look);
	if (ahead(&look, 0) == '\'')
		l->ambiguous = true;
}

/* $tag$ … $tag$; false if it is not one. */
static bool skip_dollar(struct pg_lexer *l)
{
	const char *open = l->at, *p = l->at + 1, *found;
	size_t size;

	if (p < l->end && is_name_start(*p))
		while (p < l->end && is_name(*p) && *p != '$')
			p++;
	if (p == l->end || *p != '$')
		return false;
	size = (size_t)(p + 1 - open);
	found = memmem(p + 1, (size_t)(l->end - p - 1), open, size);
	l->at = found ? found + size : l->end;
	return true;
}

static enum pg_token_kind skip_word(struct pg_lexer *l)
{
	const char *start = l->at;
	size_t size;

	while (l->at < l->end && is_name(*l->at))
		l->at++;
	size = (size_t)(l->at - start);
	if (size == 1 && (*start | 0x20) == 'e' && ahead(l, 0) == '\'') {
		skip_string(l, true);
		return PG_TOKEN_STRING;
	}
	if (size == 1 && strchr("bBxX", *start) && ahead(l, 0) == '\'') {
		skip_bits(l);
		return PG_TOKEN_STRING;
	}
	if (size == 1 && (*start | 0x20) == 'u' && ahead(l, 0) == '&' && (ahead(l, 1) == '\'' || ahead(l, 1) == '"')) {
		bool name = ahead(l, 1) == '"';

		l->at++;
		if (name)
			skip_quoted(l, '"', false);
		else
			skip_string(l, false);
		return name ? PG_TOKEN_QUOTED : PG_TOKEN_STRING;
	}
	return PG_TOKEN_WORD;
}

/* 1e, 0x1f and 1_000 are one token for some versions and two for others. That matters only where a quote would follow directly. */
static void skip_number(struct pg_lexer *l)
{
	bool letters = false;

	while (l->at < l->end && (is_digit(*l->at) || is_name_start(*l->at) || *l->at == '.')) {
		letters = letters || is_name_start(*l->at);
		l->at++;
	}
	if (letters && l->at < l->end && strchr("$'&", *l->at))
		l->ambiguous = true;
}

static enum pg_token_kind skip_token(struct pg_lexer *l)
{
	char c = *l->at;

	if (is_name_start(c))
		return skip_word(l);
	if (c == '\'') {
		skip_string(l, l->backslashes);
		return PG_TOKEN_STRING;
	}
	if (c == '"') {
		skip_quoted(l, '"', false);
		return PG_TOKEN_QUOTED;
	}
	if (c == '$' && skip_dollar(l))
		return PG_TOKEN_STRING;
	if (is_digit(c)) {
		skip_number(l);
		return PG_TOKEN_NUMBER;
	}
	l->at++;
	return PG_TOKEN_OTHER;
}

void pg_lexer_next(struct pg_lexer *l, struct pg_token *ret)
{
	skip_blank(l);
	*ret = (struct pg_token){ .kind = PG_TOKEN_END, .text = l->at };
	if (l->at >= l->end)
		return;
	ret->kind = skip_token(l);
	ret->size = (size_t)(l->at - ret->text);
}

bool pg_token_is_word(const struct pg_token *t, const char *lower_case)
{
	return t->kind == PG_TOKEN_WORD && strlen(lower_case) == t->size &&
	       strncasecmp(t->text, lower_case, t->size) == 0;
}

bool pg_token_is_char(const struct pg_token *t, char c)
{
	return t->kind == PG_TOKEN_OTHER && *t->text == c;
}

static bool unquote(const struct pg_token *t, char *buffer, size_t size)
{
	const char *end = t->text + t->size - 1;
	size_t n = 0;

	if (*t->text != '"' || t->size < 2 || *end != '"')
		return false;
	for (const char *p = t->text + 1; p < end; p++) {
		if (*p == '"')
			p++;
		if (n + 1 >= size)
			return false;
		buffer[n++] = *p;
	}
	buffer[n] = 0;
	return true;
}

bool pg_token_name(const struct pg_token *t, char *buffer, size_t size)
{
	if (t->kind == PG_TOKEN_QUOTED)
		return unquote(t, buffer, size);
	if (t->kind != PG_TOKEN_WORD || t->size >= size)
		return false;
	for (size_t i = 0; i < t->size; i++)
		buffer[i] = (char)(t->text[i] >= 'A' && t->text[i] <= 'Z' ? t->text[i] + ('a' - 'A') : t->text[i]);
	buffer[t->size] = 0;
	return true;
}

/* How deep inside parentheses and function bodies. A body counts only in CREATE [OR REPLACE] FUNCTION or PROCEDURE: elsewhere BEGIN and END
 * are statements. */
struct depth {
	size_t words; /* seen so far, up to the one that decides */
	bool create, routine, begin, body;
	size_t parentheses, begun;
};

static void count_head(struct depth *d, const struct pg_token *t)
{
	d->words++;
	if (d->words == 1)
		d->create = pg_token_is_word(t, "create");
	else if (d->create && (pg_token_is_word(t, "function") || pg_token_is_word(t, "procedure")))
		d->routine = d->words == 2 || d->words == 4;
}

static void count_body(struct depth *d, const struct pg_token *t)
{
	if (d->begin && pg_token_is_word(t, "atomic")) {
		d->begun++;
		d->body = true;
	} else if (d->begun > 0 && pg_token_is_word(t, "case")) {
		d->begun++;
	} else if (d->begun > 0 && pg_token_is_word(t, "end")) {
		d->begun--;
	}
	d->begin = pg_token_is_word(t, "begin");
}

static void count(struct depth *d, const struct pg_token *t)
{
	if (d->words < 4)
		count_head(d, t);
	if (pg_token_is_char(t, '('))
		d->parentheses++;
	else if (pg_token_is_char(t, ')') && d->parentheses > 0)
		d->parentheses--;
	if (d->routine && (d->parentheses == 0 || d->begun > 0))
		count_body(d, t);
}

bool pg_lexer_statement(struct pg_lexer *l, struct pg_token *ret, bool *ret_body)
{
	struct depth d = { 0 };
	struct pg_token t;

	do
		pg_lexer_next(l, &t);
	while (pg_token_is_char(&t, ';'));
	if (t.kind == PG_TOKEN_END)
		return false;
	*ret = t;
	while (t.kind != PG_TOKEN_END && !(pg_token_is_char(&t, ';') && d.parentheses == 0 && d.begun == 0)) {
		count(&d, &t);
		ret->size = (size_t)(t.text + t.size - ret->text);
		pg_lexer_next(l, &t);
	}
	*ret_body = d.body;
	return true;
}
