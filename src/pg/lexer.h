/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one SQL statement ends and the next begins, by the server's own rules for strings, quoted names, dollar quotes, nested
 * comments, parentheses and function bodies (BEGIN ATOMIC … END). It understands no grammar: what is malformed is passed on for the
 * server to refuse, and a quote that is never closed reaches to the end.
 *
 * A COMMIT that the server sees and the lexer does not would end the transaction behind everybody's back. So whatever could be read in
 * two ways is marked as ambiguous or as a body, and the caller refuses the one and has the server itself check the other. The text
 * must be in an encoding in which bytes below 128 are always ASCII.
 */
#ifndef PG_LEXER_H
#define PG_LEXER_H

#include <stdbool.h>
#include <stddef.h>

enum pg_token_kind {
	PG_TOKEN_END,
	PG_TOKEN_WORD,   /* a keyword or a plain name */
	PG_TOKEN_QUOTED, /* "a name" */
	PG_TOKEN_STRING, /* of any kind */
	PG_TOKEN_NUMBER,
	PG_TOKEN_OTHER, /* one character: punctuation, operators, parameters */
};

struct pg_token {
	enum pg_token_kind kind;
	const char *text; /* within the source */
	size_t size;
};

struct pg_lexer {
	const char *at, *end;
	bool backslashes; /* plain strings have escapes: standard_conforming_strings is off */
	bool ambiguous;   /* set, never cleared: versions of the server differ in where a token ends */
};

void pg_lexer_next(struct pg_lexer *l, struct pg_token *ret);
bool pg_token_is_word(const struct pg_token *t, const char *lower_case);
bool pg_token_is_char(const struct pg_token *t, char c);
/* The name a token stands for: lower case unless quoted. False if it is none, or longer than size - 1. */
bool pg_token_name(const struct pg_token *t, char *buffer, size_t size);

/* The next statement, without what is around it: text is its first token, size reaches to the semicolon or to the end. False: there
 * is none left. *ret_body: it has a body of statements, whose end only the server's grammar knows for certain. */
bool pg_lexer_statement(struct pg_lexer *l, struct pg_token *ret, bool *ret_body);

#endif
