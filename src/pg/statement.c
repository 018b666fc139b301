/* SPDX-License-Identifier: Apache-2.0 */
#include "pg/statement.h"

#include <string.h>

#include "base/macros.h"

struct parser {
	struct pg_lexer lexer;
	struct pg_token token; /* the one to be looked at */
	struct pg_statement *s;
};

static void advance(struct parser *p)
{
	pg_lexer_next(&p->lexer, &p->token);
}

static bool word(struct parser *p, const char *text)
{
	if (!pg_token_is_word(&p->token, text))
		return false;
	advance(p);
	return true;
}

const char *pg_isolation_name(enum pg_isolation isolation)
{
	static const char *const names[] = { "default", "read uncommitted", "read committed", "repeatable read",
					     "serializable" };

	return names[isolation];
}

static enum pg_isolation parse_level(struct parser *p)
{
	if (word(p, "serializable"))
		return PG_SERIALIZABLE;
	if (word(p, "repeatable"))
		return word(p, "read") ? PG_REPEATABLE_READ : PG_ISOLATION_DEFAULT;
	if (word(p, "read"))
		return word(p, "committed")     ? PG_READ_COMMITTED
		       : word(p, "uncommitted") ? PG_READ_UNCOMMITTED
						: PG_ISOLATION_DEFAULT;
	return PG_ISOLATION_DEFAULT;
}

/* False: something that is no mode; the server shall say so. */
static bool parse_modes(struct parser *p)
{
	while (p->token.kind != PG_TOKEN_END) {
		if (pg_token_is_char(&p->token, ',')) {
			advance(p);
		} else if (word(p, "isolation")) {
			if (!word(p, "level") || (p->s->isolation = parse_level(p)) == PG_ISOLATION_DEFAULT)
				return false;
		} else if (word(p, "read")) {
			if (pg_token_is_word(&p->token, "only"))
				p->s->read_only = 1;
			else if (pg_token_is_word(&p->token, "write"))
				p->s->read_only = 0;
			else
				return false;
			advance(p);
		} else if (word(p, "not")) {
			if (!word(p, "deferrable"))
				return false;
		} else if (!word(p, "deferrable")) {
			return false;
		}
	}
	return true;
}

static void optional_work(struct parser *p)
{
	if (!word(p, "work"))
		word(p, "transaction");
}

static enum pg_statement_kind parse_begin(struct parser *p)
{
	optional_work(p);
	return parse_modes(p) ? PG_BEGIN : PG_PLAIN;
}

static enum pg_statement_kind parse_start(struct parser *p)
{
	return word(p, "transaction") && parse_modes(p) ? PG_BEGIN : PG_PLAIN;
}

/* [AND [NO] CHAIN] and nothing more. */
static bool parse_chain(struct parser *p)
{
	if (word(p, "and")) {
		p->s->chain = !word(p, "no");
		if (!word(p, "chain"))
			return false;
	}
	return p->token.kind == PG_TOKEN_END;
}

static enum pg_statement_kind parse_commit(struct parser *p)
{
	if (word(p, "prepared"))
		return PG_TWO_PHASE;
	optional_work(p);
	return parse_chain(p) ? PG_COMMIT : PG_MALFORMED;
}

/* A name, at the end of the statement. */
static bool parse_name(struct parser *p)
{
	if (p->token.kind != PG_TOKEN_WORD && p->token.kind != PG_TOKEN_QUOTED)
		return false;
	p->s->name = p->token;
	advance(p);
	return true;
}

static enum pg_statement_kind parse_rollback(struct parser *p)
{
	if (word(p, "prepared"))
		return PG_TWO_PHASE;
	optional_work(p);
	if (word(p, "to")) {
		word(p, "savepoint");
		return parse_name(p) ? PG_ROLLBACK_TO : PG_MALFORMED;
	}
	return parse_chain(p) ? PG_ROLLBACK : PG_MALFORMED;
}

static enum pg_statement_kind parse_savepoint(struct parser *p)
{
	return parse_name(p) ? PG_SAVEPOINT : PG_PLAIN;
}

static enum pg_statement_kind parse_release(struct parser *p)
{
	word(p, "savepoint");
	return parse_name(p) ? PG_RELEASE : PG_PLAIN;
}

static void set_key(struct parser *p, const char *key)
{
	snprintf(p->s->key, sizeof(p->s->key), "%s", key);
}

/* The name of a setting, also of an extension: a.b */
static bool parse_key(struct parser *p)
{
	size_t n = 0;

	for (;;) {
		if (!pg_token_name(&p->token, p->s->key + n, sizeof(p->s->key) - n))
			return false;
		n = strlen(p->s->key);
		advance(p);
		if (!pg_token_is_char(&p->token, '.') || n + 2 > sizeof(p->s->key))
			break;
		p->s->key[n++] = '.';
		advance(p);
	}
	/* For the server, names of settings are case-insensitive, even in quotes. */
	for (char *c = p->s->key; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
	return true;
}

/* Whether the rest of SET is TO DEFAULT, TIME ZONE DEFAULT or LOCAL, or NAMES without a value. */
static bool parse_default(struct parser *p, bool is_zone, bool is_names)
{
	if (is_zone)
		word(p, "zone");
	else if (!word(p, "to") && pg_token_is_char(&p->token, '='))
		advance(p);
	return (word(p, "default") || (is_zone && word(p, "local")) || is_names) && p->token.kind == PG_TOKEN_END;
}

/* Settings that have a syntax of their own. */
static bool parse_special_key(struct parser *p)
{
	static const struct {
		const char *word, *key;
	} special[] = {
		{ "names", "client_encoding" }, { "schema", "search_path" }, { "role", "role" },
		{ "time", "timezone" },         { "xml", "xmloption" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		if (pg_token_is_word(&p->token, special[i].word)) {
			set_key(p, special[i].key);
			return true;
		}
	return false;
}

static enum pg_statement_kind parse_set_transaction(struct parser *p)
{
	if (word(p, "snapshot"))
		return PG_SET_SNAPSHOT;
	return parse_modes(p) ? PG_SET_TRANSACTION : PG_PLAIN;
}

static enum pg_statement_kind parse_set(struct parser *p)
{
	enum pg_statement_kind kind = PG_SET;
	bool is_zone, is_names;

	if (word(p, "constraints"))
		return PG_SET_CONSTRAINTS;
	if (word(p, "local"))
		kind = PG_SET_LOCAL;
	else
		word(p, "session");
	if (word(p, "transaction"))
		return parse_set_transaction(p);
	word(p, "session"); /* of SET LOCAL SESSION AUTHORIZATION */
	if (word(p, "characteristics")) {
		set_key(p, "session characteristics");
		return kind;
	}
	if (word(p, "authorization")) {
		set_key(p, "session_authorization");
		p->s->to_default = parse_default(p, false, false);
		return kind;
	}
	is_zone = pg_token_is_word(&p->token, "time");
	is_names = pg_token_is_word(&p->token, "names");
	if (parse_special_key(p))
		advance(p);
	else if (!parse_key(p))
		return PG_PLAIN;
	p->s->to_default = parse_default(p, is_zone, is_names);
	return kind;
}

static enum pg_statement_kind parse_reset(struct parser *p)
{
	if (word(p, "all"))
		return PG_RESET_ALL;
	if (pg_token_is_word(&p->token, "session")) {
		set_key(p, "session_authorization");
		return PG_RESET;
	}
	return parse_special_key(p) || parse_key(p) ? PG_RESET : PG_PLAIN;
}

static enum pg_statement_kind parse_prepare(struct parser *p)
{
	if (word(p, "transaction"))
		return PG_TWO_PHASE;
	return parse_name(p) ? PG_PREPARE : PG_PLAIN;
}

static enum pg_statement_kind parse_execute(struct parser *p)
{
	return parse_name(p) ? PG_EXECUTE : PG_PLAIN;
}

/* EXPLAIN [options] EXECUTE, CREATE TABLE … AS EXECUTE: the word EXECUTE outside parentheses, before a name. */
static enum pg_statement_kind parse_inner_execute(struct parser *p, enum pg_statement_kind otherwise)
{
	size_t depth = 0;

	for (; p->token.kind != PG_TOKEN_END; advance(p)) {
		if (pg_token_is_char(&p->token, '('))
			depth++;
		else if (pg_token_is_char(&p->token, ')') && depth > 0)
			depth--;
		else if (depth == 0 && pg_token_is_word(&p->token, "execute"))
			break;
	}
	return word(p, "execute") && parse_name(p) ? PG_EXECUTE : otherwise;
}

static enum pg_statement_kind parse_explain(struct parser *p)
{
	return parse_inner_execute(p, PG_PLAIN);
}

static enum pg_statement_kind parse_create(struct parser *p)
{
	enum pg_statement_kind kind = PG_DEFINE;

	while (word(p, "global") || word(p, "local") || word(p, "or") || word(p, "replace"))
		;
	if (word(p, "temp") || word(p, "temporary"))
		kind = PG_DEFINE_TEMPORARY;
	else
		word(p, "unlogged");
	return pg_token_is_word(&p->token, "table") ? parse_inner_execute(p, kind) : kind;
}

static enum pg_statement_kind parse_deallocate(struct parser *p)
{
	word(p, "prepare");
	if (word(p, "all"))
		return PG_DEALLOCATE_ALL;
	return parse_name(p) ? PG_DEALLOCATE : PG_PLAIN;
}

static enum pg_statement_kind parse_discard(struct parser *p)
{
	return word(p, "all") && p->token.kind == PG_TOKEN_END ? PG_DISCARD_ALL : PG_PLAIN;
}

/* DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [{WITH|WITHOUT} HOLD] FOR */
static enum pg_statement_kind parse_declare(struct parser *p)
{
	bool hold = false;

	if (!parse_name(p))
		return PG_PLAIN;
	while (p->token.kind != PG_TOKEN_END && !pg_token_is_word(&p->token, "for")) {
		if (word(p, "with"))
			hold = pg_token_is_word(&p->token, "hold");
		else
			advance(p);
	}
	return hold ? PG_DECLARE_HOLD : PG_DECLARE;
}

/* A string without anything special in it, as the name of a setting. */
static bool parse_key_string(struct parser *p)
{
	const struct pg_token *t = &p->token;
	size_t n = t->size - 2;

	if (t->kind != PG_TOKEN_STRING || *t->text != '\'' || t->size < 3 || n >= sizeof(p->s->key))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = t->text[i + 1];

		if (c == '\'' || c == '\\')
			return false;
		p->s->key[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
	p->s->key[n] = 0;
	advance(p);
	return true;
}

static bool character(struct parser *p, char c)
{
	if (!pg_token_is_char(&p->token, c))
		return false;
	advance(p);
	return true;
}

/* SELECT set_config('name', 'value', local), as pg_dump has it, is a SET by another name. Within more than that it is not seen. */
static enum pg_statement_kind parse_select(struct parser *p)
{
	bool local;

	if (word(p, "pg_catalog") && !character(p, '.'))
		return PG_PLAIN;
	if (word(p, "pg_notify"))
		return PG_NOTIFY;
	if (word(p, "pg_export_snapshot"))
		return PG_SET_SNAPSHOT;
	if (!word(p, "set_config") || !character(p, '(') || !parse_key_string(p) || !character(p, ','))
		return PG_PLAIN;
	if (p->token.kind != PG_TOKEN_STRING)
		return PG_PLAIN;
	advance(p);
	if (!character(p, ',') || p->token.kind != PG_TOKEN_WORD)
		return PG_PLAIN;
	local = pg_token_is_word(&p->token, "true");
	if (!local && !pg_token_is_word(&p->token, "false"))
		return PG_PLAIN;
	advance(p);
	if (!character(p, ')') || p->token.kind != PG_TOKEN_END)
		return PG_PLAIN;
	return local ? PG_SET_LOCAL : PG_SET;
}

static enum pg_statement_kind parse_lock(struct parser *p)
{
	return PG_LOCK;
}

static enum pg_statement_kind parse_notify(struct parser *p)
{
	return PG_NOTIFY;
}

static enum pg_statement_kind parse_listen(struct parser *p)
{
	return PG_LISTEN;
}

static enum pg_statement_kind parse_copy(struct parser *p)
{
	return PG_COPY;
}

static enum pg_statement_kind parse_define(struct parser *p)
{
	return PG_DEFINE;
}

static const struct {
	const char *word;
	enum pg_statement_kind (*parse)(struct parser *p);
} first_words[] = {
	{ "begin", parse_begin },
	{ "start", parse_start },
	{ "commit", parse_commit },
	{ "end", parse_commit },
	{ "rollback", parse_rollback },
	{ "abort", parse_rollback },
	{ "savepoint", parse_savepoint },
	{ "release", parse_release },
	{ "set", parse_set },
	{ "reset", parse_reset },
	{ "prepare", parse_prepare },
	{ "execute", parse_execute },
	{ "explain", parse_explain },
	{ "deallocate", parse_deallocate },
	{ "discard", parse_discard },
	{ "declare", parse_declare },
	{ "lock", parse_lock },
	{ "notify", parse_notify },
	{ "listen", parse_listen },
	{ "unlisten", parse_listen },
	{ "copy", parse_copy },
	{ "create", parse_create },
	{ "alter", parse_define },
	{ "do", parse_define },
	{ "call", parse_define },
	{ "drop", parse_define },
	{ "select", parse_select },
};

static void classify(const struct pg_token *source, const struct pg_lexer *rules, struct pg_statement *ret)
{
	struct parser p = { .lexer = *rules, .s = ret };

	*ret = (struct pg_statement){ .kind = PG_PLAIN, .text = source->text, .size = source->size, .read_only = -1 };
	p.lexer.at = source->text;
	p.lexer.end = source->text + source->size;
	advance(&p);
	for (size_t i = 0; i < ARRAY_SIZE(first_words); i++)
		if (word(&p, first_words[i].word)) {
			ret->kind = first_words[i].parse(&p);
			return;
		}
}

bool pg_statement_next(struct pg_lexer *l, struct pg_statement *ret)
{
	struct pg_token source;
	bool body;

	if (!pg_lexer_statement(l, &source, &body))
		return false;
	classify(&source, l, ret);
	ret->body = body;
	return true;
}
