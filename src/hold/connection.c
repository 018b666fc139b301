/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/hold.h"

#include <libpq-fe.h>
#include <string.h>

#include "base/error.h"

static void free_options(PQconninfoOption **o)
{
	PQconninfoFree(*o);
}
#define AUTO_OPTIONS CLEANUP(free_options) PQconninfoOption

static const char *value_of(const PQconninfoOption *list, const char *keyword)
{
	for (; list && list->keyword; list++)
		if (strcmp(list->keyword, keyword) == 0)
			return list->val && *list->val ? list->val : NULL;
	return NULL;
}

static bool is_parameter(const char *given, const char *name, size_t size)
{
	for (const char *at = strstr(given, name); at; at = strstr(at + 1, name))
		if (at[size] == '=' && (at == given || strchr(" ?&", at[-1])) && !strchr(at, '@'))
			return true;
	return false;
}

/* Returns the parameter that libpq does not know, or NULL. The name that libpq quotes may be a piece
 * of a password that was not escaped: it is given only if the string has no password among its
 * parameters and no "@", which ends a password, behind the name. */
static char *unknown_parameter(const char *given, const char *why)
{
	const char *name = why ? strchr(why, '"') : NULL;
	size_t size = name ? strspn(name + 1, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
	AUTO_FREE char *copy = size && name[1 + size] == '"' ? strndup(name + 1, size) : NULL;

	return copy && !strstr(given, "password") && is_parameter(given, copy, size) ? TAKE_PTR(copy) : NULL;
}

/* What libpq says of a string may hold the string, and with it a password. */
static int parse(const char *conninfo, PQconninfoOption **ret, struct atoll_error *err)
{
	char *why = NULL;
	AUTO_FREE char *unknown = NULL;

	*ret = PQconninfoParse(conninfo, &why);
	unknown = *ret ? NULL : unknown_parameter(conninfo, why);
	PQfreemem(why);
	if (*ret)
		return 0;
	if (unknown)
		return error_set(err, ATOLL_INVALID, 0, "new", NULL,
				 "the connection string has an unknown parameter \"%s\"", unknown);
	return error_set(err, ATOLL_INVALID, 0, "new", NULL,
			 "what was given is no connection string; give postgresql://USER@HOST:PORT/DATABASE");
}

static void add_option(struct strbuf *out, const char *keyword, const char *value)
{
	strbuf_addf(out, "%s%s='", out->size ? " " : "", keyword);
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\')
			strbuf_addc(out, '\\');
		strbuf_addc(out, *value);
	}
	strbuf_addc(out, '\'');
}

/* libpq's defaults: the service's own entries first, then the environment, then what is built in. A service that the connection string names
 * comes before one that the environment names. */
static PQconninfoOption *find_defaults(const char *service)
{
	const char *before = getenv("PGSERVICE");
	AUTO_FREE char *kept = before ? strdup(before) : NULL;
	PQconninfoOption *defaults;

	if (!service)
		return PQconndefaults();
	if ((before && !kept) || setenv("PGSERVICE", service, 1) < 0)
		return NULL;
	defaults = PQconndefaults();
	if (kept)
		(void)setenv("PGSERVICE", kept, 1);
	else
		(void)unsetenv("PGSERVICE");
	return defaults;
}

bool connection_names_service(const char *given)
{
	AUTO_OPTIONS *options = NULL;
	struct atoll_error ignored;

	return getenv("PGSERVICE") || (parse(given, &options, &ignored) == 0 && value_of(options, "service"));
}

/* Already resolved, or not to be kept. */
static bool is_left_out(const char *keyword)
{
	return strcmp(keyword, "replication") == 0 || strcmp(keyword, "service") == 0 ||
	       strcmp(keyword, "servicefile") == 0;
}

/* A directory of sockets is not among libpq's defaults, but where it looks. */
int connection_resolve(const char *given, char **ret, struct atoll_error *err)
{
	AUTO_OPTIONS *defaults = NULL;
	AUTO_OPTIONS *options = NULL;
	AUTO_STRBUF out = STRBUF_INIT;
	int r = parse(given, &options, err);

	if (r < 0)
		return r;
	defaults = find_defaults(value_of(options, "service"));
	if (!defaults)
		return error_oom(err, "new");
	for (const PQconninfoOption *o = options; o->keyword; o++) {
		const char *value = o->val && *o->val ? o->val : value_of(defaults, o->keyword);

		if (value && !is_left_out(o->keyword))
			add_option(&out, o->keyword, value);
	}
	if (!value_of(options, "connect_timeout") && !value_of(defaults, "connect_timeout"))
		add_option(&out, "connect_timeout", "10");
	*ret = strbuf_take(&out);
	return *ret ? 0 : error_oom(err, "new");
}

static void add_encoded(struct strbuf *out, const char *text)
{
	for (; *text; text++) {
		bool plain = (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'z') ||
			     (*text >= 'A' && *text <= 'Z') || strchr("-._~/", *text);

		if (plain)
			strbuf_addc(out, *text);
		else
			strbuf_addf(out, "%%%02X", (unsigned char)*text);
	}
}

static const char *or_else(const char *a, const char *b)
{
	return a ? a : b;
}

int connection_name(const char *conninfo, char **ret, struct atoll_error *err)
{
	AUTO_OPTIONS *o = NULL;
	AUTO_STRBUF out = STRBUF_INIT;
	const char *user, *host, *port;
	int r = parse(conninfo, &o, err);

	if (r < 0)
		return r;
	user = value_of(o, "user");
	host = or_else(value_of(o, "host"), or_else(value_of(o, "hostaddr"), ""));
	port = or_else(value_of(o, "port"), "5432");
	strbuf_adds(&out, "postgresql://");
	add_encoded(&out, or_else(user, ""));
	strbuf_adds(&out, "@");
	if (*host != '/')
		add_encoded(&out, host);
	strbuf_addf(&out, "%s%s/", *host && *host != '/' ? ":" : "", *host && *host != '/' ? port : "");
	add_encoded(&out, or_else(value_of(o, "dbname"), or_else(user, "")));
	if (*host == '/') {
		strbuf_adds(&out, "?host=");
		add_encoded(&out, host);
		strbuf_addf(&out, "&port=%s", port);
	}
	*ret = strbuf_take(&out);
	return *ret ? 0 : error_oom(err, "new");
}

int connection_environment(const char *conninfo, const char *dir, char **ret, struct atoll_error *err)
{
	AUTO_OPTIONS *o = NULL;
	AUTO_STRBUF out = STRBUF_INIT;
	const char *user, *database, *application;
	int r = parse(conninfo, &o, err);

	if (r < 0)
		return r;
	user = or_else(value_of(o, "user"), "");
	database = or_else(value_of(o, "dbname"), user);
	application = or_else(value_of(o, "application_name"), "");
	if (strchr(user, '\n') || strchr(database, '\n') || strchr(application, '\n'))
		return error_set(err, ATOLL_INVALID, 0, "new", NULL,
				 "a name of a role, database or application holds a newline");
	if (*application)
		strbuf_addf(&out, "PGAPPNAME=%s\n", application);
	strbuf_addf(&out, "PGHOST=%s\nPGPORT=5432\nPGUSER=%s\nPGDATABASE=%s\nDATABASE_URL=postgresql:///", dir, user,
		    database);
	add_encoded(&out, database);
	strbuf_addf(&out, "?host=%s&user=", dir);
	add_encoded(&out, user);
	*ret = strbuf_take(&out);
	return *ret ? 0 : error_oom(err, "new");
}
