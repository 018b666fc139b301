/* SPDX-License-Identifier: Apache-2.0 */
#include "pg/settings.h"

#include <string.h>

#define SESSION_END ", false)" /* the end of each statement that pg_settings_sql() makes */

static void setting_release(struct pg_setting *s)
{
	free(s->key);
	free(s->sql);
}

static void truncate_to(struct pg_settings *s, size_t n)
{
	while (s->n > n)
		setting_release(&s->v[--s->n]);
}

void pg_settings_clear(struct pg_settings *s)
{
	truncate_to(s, 0);
	free(s->v);
	*s = (struct pg_settings){ 0 };
}

static struct pg_setting *find(const struct pg_settings *s, const char *key)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].key, key) == 0)
			return &s->v[i];
	return NULL;
}

const char *pg_settings_find(const struct pg_settings *s, const char *key)
{
	const struct pg_setting *found = find(s, key);

	return found ? found->sql : NULL;
}

static int add(struct pg_settings *s, const char *key, const char *sql, size_t sql_size, struct pg_setting **ret)
{
	struct pg_setting *v, one = { .key = strdup(key), .sql = sql ? strndup(sql, sql_size) : NULL };
	size_t capacity = s->capacity ? s->capacity * 2 : 8;

	if (!one.key || (sql && !one.sql))
		goto oom;
	if (s->n == s->capacity) {
		v = reallocarray(s->v, capacity, sizeof(*v));
		if (!v)
			goto oom;
		s->v = v;
		s->capacity = capacity;
	}
	s->v[s->n] = one;
	*ret = &s->v[s->n++];
	return 0;
oom:
	setting_release(&one);
	return -ENOMEM;
}

static void take_out(struct pg_settings *s, const char *key)
{
	struct pg_setting *old = find(s, key);

	if (!old)
		return;
	setting_release(old);
	memmove(old, old + 1, (size_t)(s->v + s->n - old - 1) * sizeof(*old));
	s->n--;
}

int pg_settings_put(struct pg_settings *s, const char *key, const char *sql)
{
	struct pg_setting *made;

	take_out(s, key);
	return add(s, key, sql, strlen(sql), &made);
}

/* RELEASE ends the savepoint and those made after it; what was set since stays. */
static void remove_marks(struct pg_settings *log, size_t from)
{
	size_t to = from;

	for (size_t i = from; i < log->n; i++) {
		if (log->v[i].mark)
			setting_release(&log->v[i]);
		else
			log->v[to++] = log->v[i];
	}
	log->n = to;
}

static int note_mark(struct pg_settings *log, const struct pg_statement *s)
{
	char name[PG_NAME_SIZE];
	struct pg_setting *made;

	if (log->n == 0 && s->kind != PG_SAVEPOINT)
		return 0;
	if (!pg_token_name(&s->name, name, sizeof(name)))
		return 0;
	if (s->kind == PG_SAVEPOINT) {
		int r = add(log, name, NULL, 0, &made);

		if (r == 0)
			made->mark = true;
		return r;
	}
	for (size_t i = log->n; i-- > 0;)
		if (log->v[i].mark && strcmp(log->v[i].key, name) == 0) {
			if (s->kind == PG_RELEASE)
				remove_marks(log, i);
			else
				truncate_to(log, i + 1);
			break;
		}
	return 0;
}

/* What is to be said again later must mean the same then: whatever standard_conforming_strings and client_encoding are. */
static bool is_plain(const struct pg_statement *s)
{
	for (size_t i = 0; i < s->size; i++)
		if (s->text[i] == '\\' || (unsigned char)s->text[i] >= 0x80)
			return false;
	return true;
}

int pg_settings_note(struct pg_settings *log, const struct pg_statement *s)
{
	struct pg_setting *made;
	bool set = s->kind == PG_SET || s->kind == PG_SET_LOCAL;
	int r;

	if (s->kind == PG_SAVEPOINT || s->kind == PG_ROLLBACK_TO || s->kind == PG_RELEASE)
		return note_mark(log, s);
	if ((!set && s->kind != PG_RESET && s->kind != PG_RESET_ALL) || !is_plain(s))
		return 0;
	r = add(log, s->kind == PG_RESET_ALL ? "all" : s->key, set && !s->to_default ? s->text : NULL, s->size, &made);
	if (r == 0)
		made->local = s->kind == PG_SET_LOCAL;
	return r;
}

/* Whether it is the role or user as which the session acts. Which other settings the session may
 * change depends on these two. */
static bool is_identity(const struct pg_setting *s)
{
	return !s->mark && (strcmp(s->key, "role") == 0 || strcmp(s->key, "session_authorization") == 0);
}

static bool has_identity(const struct pg_settings *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_identity(&s->v[i]))
			return true;
	return false;
}

static int reset(struct pg_settings *settings, const struct pg_settings *defaults, const char *key)
{
	const struct pg_setting *was = find(defaults, key);

	if (was)
		return pg_settings_put(settings, key, was->sql);
	take_out(settings, key);
	return 0;
}

/* RESET ALL leaves the session's identity as it is. */
static int reset_all(struct pg_settings *settings, const struct pg_settings *defaults)
{
	int r = 0;

	for (size_t i = settings->n; i-- > 0;)
		if (!is_identity(&settings->v[i]))
			take_out(settings, settings->v[i].key);
	for (size_t i = 0; i < defaults->n && r == 0; i++)
		if (!is_identity(&defaults->v[i]))
			r = pg_settings_put(settings, defaults->v[i].key, defaults->v[i].sql);
	return r;
}

static int commit_one(struct pg_settings *settings, const struct pg_settings *defaults, const struct pg_setting *s)
{
	if (s->mark || s->local)
		return 0;
	if (!s->sql && strcmp(s->key, "all") == 0)
		return reset_all(settings, defaults);
	/* Each SET SESSION AUTHORIZATION ends the role that was set before it. */
	if (strcmp(s->key, "session_authorization") == 0)
		take_out(settings, "role");
	return s->sql ? pg_settings_put(settings, s->key, s->sql) : reset(settings, defaults, s->key);
}

int pg_settings_commit(struct pg_settings *settings, const struct pg_settings *defaults, struct pg_settings *log)
{
	int r = 0;

	for (size_t i = 0; i < log->n && r == 0; i++)
		r = commit_one(settings, defaults, &log->v[i]);
	truncate_to(log, 0);
	return r;
}

int pg_settings_copy(struct pg_settings *to, const struct pg_settings *from)
{
	truncate_to(to, 0);
	for (size_t i = 0; i < from->n; i++) {
		int r = pg_settings_put(to, from->v[i].key, from->v[i].sql);

		if (r < 0)
			return r;
	}
	return 0;
}

static void add_reset(struct strbuf *sql, const char *key)
{
	if (strcmp(key, "session characteristics") == 0) {
		strbuf_adds(sql, "RESET default_transaction_isolation; RESET default_transaction_read_only; "
				 "RESET default_transaction_deferrable; ");
	} else if (strcmp(key, "session_authorization") == 0) {
		strbuf_adds(sql, "RESET SESSION AUTHORIZATION; ");
	} else {
		/* Quoted, because it is what a client wrote; a dot separates an extension's name. */
		strbuf_adds(sql, "RESET \"");
		for (const char *p = key; *p; p++) {
			if (*p == '"')
				strbuf_addc(sql, '"');
			if (*p == '.')
				strbuf_adds(sql, "\".\"");
			else
				strbuf_addc(sql, *p);
		}
		strbuf_adds(sql, "\"; ");
	}
}

static void add_set(struct strbuf *sql, const char *set)
{
	strbuf_adds(sql, set);
	strbuf_adds(sql, "; "); /* a comment cannot be at its end: a statement ends with its last token */
}

void pg_settings_all(const struct pg_settings *s, struct strbuf *ret_sql)
{
	for (size_t i = 0; i < s->n; i++)
		if (!is_identity(&s->v[i]))
			add_set(ret_sql, s->v[i].sql);
}

/* Whether the list has this setting, with the same SQL text. */
static bool has(const struct pg_settings *s, const struct pg_setting *one)
{
	const struct pg_setting *there = find(s, one->key);

	return there && strcmp(there->sql, one->sql) == 0;
}

static bool has_identity_of(const struct pg_settings *s, const struct pg_settings *other)
{
	for (size_t i = 0; i < other->n; i++)
		if (is_identity(&other->v[i]) && !has(s, &other->v[i]))
			return false;
	return true;
}

static void add_identity(struct strbuf *sql, const struct pg_settings *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_identity(&s->v[i]))
			add_set(sql, s->v[i].sql);
}

/* One role may set a parameter that another role may not even reset (log_statement). The role of
 * the connection may do both: the proxy goes back to that role, changes the settings, and sets the
 * client's identity last. */
static const char back_to_own_identity[] = "RESET SESSION AUTHORIZATION; RESET \"role\"; ";

void pg_settings_switch(const struct pg_settings *from, const struct pg_settings *to, struct strbuf *ret_sql)
{
	bool same = has_identity_of(from, to) && has_identity_of(to, from);
	AUTO_STRBUF sql = STRBUF_INIT;

	for (size_t i = 0; i < from->n; i++)
		if (!is_identity(&from->v[i]) && !find(to, from->v[i].key))
			add_reset(&sql, from->v[i].key);
	for (size_t i = 0; i < to->n; i++)
		if (!is_identity(&to->v[i]) && !has(from, &to->v[i]))
			add_set(&sql, to->v[i].sql);
	if (sql.size == 0 && same)
		return;
	if (has_identity(from))
		strbuf_adds(ret_sql, back_to_own_identity);
	strbuf_add(ret_sql, strbuf_str(&sql), sql.size);
	add_identity(ret_sql, to);
	ret_sql->failed = ret_sql->failed || sql.failed;
}

/* By what the session's settings will be once the log is committed. */
int pg_settings_end_local(const struct pg_settings *settings, const struct pg_settings *defaults,
			  const struct pg_settings *log, struct strbuf *ret_sql)
{
	CLEANUP(pg_settings_clear) struct pg_settings after = { 0 };
	bool any = false, identity;
	int r = 0;

	for (size_t i = 0; i < log->n; i++)
		any = any || log->v[i].local;
	if (!any)
		return 0;
	r = pg_settings_copy(&after, settings);
	for (size_t i = 0; i < log->n && r == 0; i++)
		r = commit_one(&after, defaults, &log->v[i]);
	identity = has_identity(log) || has_identity(&after);
	if (identity)
		strbuf_adds(ret_sql, back_to_own_identity);
	for (size_t i = 0; i < log->n && r == 0; i++) {
		const char *sql = log->v[i].local ? pg_settings_find(&after, log->v[i].key) : NULL;

		if (is_identity(&log->v[i]))
			continue;
		if (sql)
			add_set(ret_sql, sql);
		else if (log->v[i].local)
			add_reset(ret_sql, log->v[i].key);
	}
	if (identity)
		add_identity(ret_sql, &after);
	return r;
}

static void add_quoted(struct strbuf *sql, char quote, const char *text)
{
	strbuf_addc(sql, quote);
	for (; *text; text++) {
		if (*text == quote)
			strbuf_addc(sql, quote);
		strbuf_addc(sql, *text);
	}
	strbuf_addc(sql, quote);
}

static void add_savepoint(struct strbuf *sql, const char *command, const char *name)
{
	strbuf_adds(sql, command);
	add_quoted(sql, '"', name);
	strbuf_adds(sql, "; ");
}

void pg_settings_releases(const struct pg_settings *log, struct strbuf *ret_sql)
{
	for (size_t i = log->n; i-- > 0;)
		if (log->v[i].mark)
			add_savepoint(ret_sql, "RELEASE SAVEPOINT ", log->v[i].key);
}

void pg_settings_rollbacks(const struct pg_settings *log, struct strbuf *ret_sql)
{
	for (size_t i = log->n; i-- > 0;)
		if (log->v[i].mark) {
			add_savepoint(ret_sql, "ROLLBACK TO SAVEPOINT ", log->v[i].key);
			add_savepoint(ret_sql, "RELEASE SAVEPOINT ", log->v[i].key);
		}
}

/* By set_config(), which takes the value as a string, as the server takes those of a startup message: SET would make one name of a list. */
char *pg_settings_sql(const char *name, const char *value)
{
	AUTO_STRBUF sql = STRBUF_INIT;
	bool escape = strchr(value, '\\') != NULL;

	strbuf_adds(&sql, "SELECT pg_catalog.set_config(");
	add_quoted(&sql, '\'', name);
	strbuf_adds(&sql, escape ? ", E" : ", ");
	if (escape) {
		AUTO_STRBUF twice = STRBUF_INIT;

		for (; *value; value++) {
			if (*value == '\\')
				strbuf_addc(&twice, '\\');
			strbuf_addc(&twice, *value);
		}
		add_quoted(&sql, '\'', strbuf_str(&twice));
	} else {
		add_quoted(&sql, '\'', value);
	}
	strbuf_adds(&sql, SESSION_END);
	return strbuf_take(&sql);
}

char *pg_settings_local_sql(const char *sql)
{
	return str_format("%.*s, true)", (int)(strlen(sql) - strlen(SESSION_END)), sql);
}
