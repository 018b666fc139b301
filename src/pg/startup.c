/* SPDX-License-Identifier: Apache-2.0 */
/* The first words between a client and the proxy. User and database are what they are; settings wait for the client's turn. */
#include <ctype.h>
#include <string.h>

#include "pg/private.h"

#define STARTUP_MAX 10000 /* as the server has it */
#define SSL_REQUEST 80877103
#define GSS_REQUEST 80877104
#define CANCEL_REQUEST 80877102
#define PROTOCOL_3 (3 << 16)

static void fatal(struct pg_client *c, const char *state, const char *message)
{
	struct pg_report report = { .severity = "FATAL", .state = state, .message = message };

	pg_client_fatal(c, &report);
}

static bool is_name(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.')
			return false;
	return *name != 0;
}

/* In some encodings a backslash is the second half of a character, and what is to quote it would not. */
static bool is_safe(const char *value)
{
	bool backslash = false, beyond_ascii = false;

	for (; *value; value++) {
		backslash = backslash || *value == '\\';
		beyond_ascii = beyond_ascii || (unsigned char)*value >= 0x80;
	}
	return !backslash || !beyond_ascii;
}

static void keep(struct pg_client *c, const char *name, const char *value)
{
	char key[PG_NAME_SIZE];
	AUTO_FREE char *sql = pg_settings_sql(name, value);
	size_t n = strlen(name);

	if (!is_name(name) || n >= sizeof(key) || !is_safe(value)) {
		fatal(c, "22023", "invalid name or value of a setting in the startup message");
		return;
	}
	for (size_t i = 0; i <= n; i++)
		key[i] = (char)tolower((unsigned char)name[i]);
	if (pg_transaction_is_fatal_limit(key))
		return;
	if (!sql || pg_settings_put(&c->defaults, key, sql) < 0)
		fatal(c, "53200", "out of memory");
	if (strcmp(key, "application_name") == 0)
		snprintf(c->name, sizeof(c->name), "%s", value);
}

static void keep_pair(struct pg_client *c, char *pair)
{
	char *equals = strchr(pair, '=');

	if (!equals) {
		fatal(c, "42601", "a setting in the startup options has no value");
		return;
	}
	*equals = 0;
	for (char *p = pair; *p; p++)
		if (*p == '-')
			*p = '_';
	keep(c, pair, equals + 1);
}

/* The next word: a backslash takes the meaning from what follows it. */
static char *next_word(const char **at)
{
	AUTO_STRBUF word = STRBUF_INIT;

	while (isspace((unsigned char)**at))
		(*at)++;
	if (!**at)
		return NULL;
	for (; **at && !isspace((unsigned char)**at); (*at)++) {
		if (**at == '\\' && (*at)[1])
			(*at)++;
		strbuf_addc(&word, **at);
	}
	return strbuf_take(&word);
}

/* The server's command line: -c name=value, --name=value */
static void keep_options(struct pg_client *c, const char *options)
{
	AUTO_FREE char *word = NULL;

	while ((word = next_word(&options))) {
		if (strcmp(word, "-c") == 0) {
			free(word);
			word = next_word(&options);
			if (word)
				keep_pair(c, word);
		} else if (strncmp(word, "-c", 2) == 0 || strncmp(word, "--", 2) == 0) {
			keep_pair(c, word + 2);
		}
		free(word);
		word = NULL;
	}
}

/* What the server would report: its own values, but those that the client has just asked for. */
static void report_parameters(struct pg_client *c, const struct pg_message *m)
{
	const struct pg_settings *all = &c->proxy->parameters;

	for (size_t i = 0; i < all->n; i++) {
		struct pg_reader r = pg_reader_of(m);
		const char *name, *value = all->v[i].sql;

		pg_reader_int32(&r);
		while (*(name = pg_reader_string(&r))) {
			const char *wanted = pg_reader_string(&r);

			if (strcasecmp(name, all->v[i].key) == 0)
				value = wanted;
		}
		pg_message_parameter(&c->out, all->v[i].key, value);
	}
}

/* Newer minor versions and their options are not spoken; who asks for one is told. */
static void negotiate(struct pg_client *c, int32_t version, const struct pg_names *unknown)
{
	size_t begun;

	if (version == PROTOCOL_3 && unknown->n == 0)
		return;
	begun = pg_message_begin(&c->out, 'v');
	pg_message_add_int32(&c->out, PROTOCOL_3);
	pg_message_add_int32(&c->out, (int32_t)unknown->n);
	for (size_t i = 0; i < unknown->n; i++)
		pg_message_add_string(&c->out, unknown->v[i]);
	pg_message_end(&c->out, begun);
}

/* What says how to connect, not what to set: some clients (postgres.js) send all of a URL's parameters. */
static bool is_about_connecting(const char *name)
{
	static const char *const names[] = { "user",
					     "database",
					     "host",
					     "hostaddr",
					     "port",
					     "dbname",
					     "sslmode",
					     "channel_binding",
					     "connect_timeout",
					     "gssencmode" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void keep_parameter(struct pg_client *c, const char *name, const char *value, struct pg_names *unknown)
{
	if (is_about_connecting(name))
		return;
	if (strcmp(name, "options") == 0)
		keep_options(c, value);
	else if (strncmp(name, "_pq_.", 5) == 0)
		(void)pg_names_add(unknown, name);
	else if (strcmp(name, "replication") != 0)
		keep(c, name, value);
	else if (strcmp(value, "false") != 0 && strcmp(value, "off") != 0 && strcmp(value, "0") != 0)
		fatal(c, "0A000", "replication is not available inside a sandbox");
}

static void welcome(struct pg_client *c, const struct pg_message *m, int32_t version, const struct pg_names *unknown)
{
	size_t begun;

	negotiate(c, version, unknown);
	begun = pg_message_begin(&c->out, 'R');
	pg_message_add_int32(&c->out, 0);
	pg_message_end(&c->out, begun);
	report_parameters(c, m);
	begun = pg_message_begin(&c->out, 'K');
	pg_message_add_int32(&c->out, c->id);
	pg_message_add_int32(&c->out, c->key);
	pg_message_end(&c->out, begun);
	pg_message_ready(&c->out, 'I');
	c->started = true;
}

static void start(struct pg_client *c, const struct pg_message *m, int32_t version)
{
	CLEANUP(pg_names_clear) struct pg_names unknown = { 0 };
	struct pg_reader r = pg_reader_of(m);
	const char *name;

	pg_reader_int32(&r);
	while (*(name = pg_reader_string(&r)) && !c->closing)
		keep_parameter(c, name, pg_reader_string(&r), &unknown);
	if (r.bad || r.at != r.end)
		fatal(c, "08P01", "invalid startup packet layout");
	if (c->closing)
		return;
	if (c->proxy->state == PG_LOST)
		pg_proxy_tell_lost(c);
	else if (pg_settings_copy(&c->settings, &c->defaults) < 0)
		fatal(c, "53200", "out of memory");
	else
		welcome(c, m, version, &unknown);
}

static void answer(struct pg_client *c, const struct pg_message *m)
{
	struct pg_reader r = pg_reader_of(m);
	int32_t code = pg_reader_int32(&r), id, key;

	if (code == SSL_REQUEST || code == GSS_REQUEST) {
		pg_message_add_byte(&c->out, 'N');
	} else if (code == CANCEL_REQUEST) {
		id = pg_reader_int32(&r);
		key = pg_reader_int32(&r);
		c->closing = true;
		if (!r.bad)
			pg_cancel_request(c->proxy, id, key);
	} else if (code >> 16 == 3) {
		start(c, m, code);
	} else {
		fatal(c, "0A000", "unsupported frontend protocol: this is a server of version 3");
	}
}

int pg_startup(struct pg_client *c)
{
	struct pg_message m;
	int r = pg_message_peek_startup(&c->in, STARTUP_MAX, &m);

	if (r < 0)
		fatal(c, "08P01", "invalid length of startup packet");
	if (r <= 0)
		return 0;
	answer(c, &m);
	pg_message_consume(&c->in, &m);
	return 1;
}
