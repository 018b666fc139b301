/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/settings.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "net/net.h"

#define NOFILE_LEAST 8 /* an ordinary program cannot even be loaded with less */
#define NOFILE_MOST (1 << 30)
#define PIDS_MOST (1 << 22)       /* of the kernel */
#define MEMORY_LEAST (1ULL << 20) /* nothing runs in less */
#define DISK_LEAST (1ULL << 12)
#define SIZE_MOST (1ULL << 60)
#define CPUS_LEAST 10 /* thousandths */
#define CPUS_MOST 4096000
#define DURATION_MOST (365LL * 24 * 3600 * 1000)

/* ---- values ---- */

struct unit {
	const char *name;
	uint64_t factor;
};

/* A decimal number and one of the units (the first is meant where there is none), in parts of that unit. */
static int parse_decimal(const char *text, const struct unit *units, size_t n_units, uint64_t *ret)
{
	size_t whole = strspn(text, "0123456789"), fraction = 0;
	const char *rest = text + whole, *digits = "";
	uint64_t factor = 0, scale = 1, value;

	if (whole == 0 || whole > 15)
		return -EINVAL;
	if (*rest == '.') {
		digits = rest + 1;
		fraction = strspn(digits, "0123456789");
		rest = digits + fraction;
		if (fraction == 0)
			return -EINVAL;
	}
	for (size_t i = 0; i < n_units; i++)
		if (strcmp(rest, units[i].name) == 0 || (i == 0 && !*rest))
			factor = units[i].factor;
	if (factor == 0 || __builtin_mul_overflow(strtoull(text, NULL, 10), factor, &value))
		return -EINVAL;
	for (size_t i = 0; i < MIN(fraction, (size_t)9); i++) {
		scale *= 10;
		value += factor * (uint64_t)(digits[i] - '0') / scale;
	}
	*ret = value;
	return 0;
}

int settings_duration(const char *text, int64_t *ret_ms)
{
	static const struct unit units[] = { { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	uint64_t ms;
	int r = parse_decimal(text, units, ARRAY_SIZE(units), &ms);

	if (r < 0 || ms == 0 || ms > DURATION_MOST)
		return -EINVAL;
	*ret_ms = (int64_t)ms;
	return 0;
}

int settings_size(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "B", 1 }, { "K", 1ULL << 10 }, { "M", 1ULL << 20 }, { "G", 1ULL << 30 }, { "T", 1ULL << 40 },
	};
	uint64_t size;
	int r = parse_decimal(text, units, ARRAY_SIZE(units), &size);

	if (r < 0 || size > SIZE_MOST)
		return -EINVAL;
	*ret = size;
	return 0;
}

int settings_cpus(const char *text, unsigned *ret)
{
	static const struct unit one[] = { { "", 1000 } };
	uint64_t millis;
	int r = parse_decimal(text, one, 1, &millis);

	if (r < 0 || millis < CPUS_LEAST || millis > CPUS_MOST)
		return -EINVAL;
	*ret = (unsigned)millis;
	return 0;
}

int settings_count(const char *text, uint64_t *ret)
{
	size_t n = strspn(text, "0123456789");

	if (n == 0 || n > 15 || text[n] != '\0')
		return -EINVAL;
	*ret = strtoull(text, NULL, 10);
	return 0;
}

int settings_switch(const char *text, bool *ret)
{
	*ret = strcmp(text, "yes") == 0;
	return *ret || strcmp(text, "no") == 0 ? 0 : -EINVAL;
}

/* ---- the table ---- */

static bool is_assignment(const char *value)
{
	return *value != '=' && strchr(value, '=');
}

static bool is_duration(const char *value)
{
	int64_t ms;

	return settings_duration(value, &ms) == 0;
}

static bool is_duration_or_none(const char *value)
{
	return strcmp(value, "none") == 0 || is_duration(value);
}

static bool is_nofile(const char *value)
{
	uint64_t n;

	return settings_count(value, &n) == 0 && n >= NOFILE_LEAST && n <= NOFILE_MOST;
}

static bool is_pids(const char *value)
{
	uint64_t n;

	return settings_count(value, &n) == 0 && n >= 1 && n <= PIDS_MOST;
}

static bool is_memory(const char *value)
{
	uint64_t n;

	return settings_size(value, &n) == 0 && n >= MEMORY_LEAST;
}

static bool is_size(const char *value)
{
	uint64_t n;

	return settings_size(value, &n) == 0;
}

static bool is_disk(const char *value)
{
	uint64_t n;

	return settings_size(value, &n) == 0 && n >= DISK_LEAST;
}

static bool is_cpus(const char *value)
{
	unsigned n;

	return settings_cpus(value, &n) == 0;
}

static bool is_switch(const char *value)
{
	bool on;

	return settings_switch(value, &on) == 0;
}

static bool is_user(const char *value)
{
	return strcmp(value, "root") == 0 || strcmp(value, "self") == 0;
}

static bool is_isolation(const char *value)
{
	return strcmp(value, "full") == 0 || strcmp(value, "best") == 0;
}

static bool is_path(const char *value)
{
	return *value && strlen(value) < PATH_MAX;
}

static int parse_net(const char *value, struct atoll_error *err)
{
	struct net_policy p = { 0 };
	int r = net_policy_parse(&p, value, err);

	net_policy_release(&p);
	return r;
}

static bool is_net(const char *value)
{
	return parse_net(value, NULL) == 0;
}

static bool is_published(const char *value)
{
	struct net_policy p = { 0 };
	bool good = net_policy_publish(&p, value, NULL) == 0;

	net_policy_release(&p);
	return good;
}

/* One that stands for itself, or a path. */
static bool is_profile_name(const char *value)
{
	return strcmp(value, "default") == 0 || strcmp(value, "strict") == 0;
}

static bool is_profile(const char *value)
{
	return is_profile_name(value) || is_path(value);
}

/* Relative to the home directory, and in it. */
static bool is_in_home(const char *value)
{
	return is_path(value) && strcmp(value, "~") != 0 && !strstr(value, "..");
}

/* Those of paths are made absolute when they are given. */
struct kind {
	struct atoll_setting_kind public;
	bool (*check)(const char *value);
	const char *wanted;                                       /* the values that it can have, for messages */
	int (*parse)(const char *value, struct atoll_error *err); /* NULL, or a parser with more exact errors */
};

static const char a_path[] = "it must be a path";
static const char a_duration_or_none[] =
	"it must be none, or a number of seconds, or one with s, m, h or d, above 0 and up to 365d";
static const char a_duration[] = "it must be a number of seconds, or one with s, m, h or d, above 0 and up to 365d";

static const struct kind kinds[] = {
	{ { "clear-env", ATOLL_SETTING_SWITCH, "no" }, is_switch, "it must be yes or no" },
	{ { "cpus", ATOLL_SETTING_ONE }, is_cpus, "it must be a number from 0.01 to 4096" },
	{ { "cwd", ATOLL_SETTING_ONE, "." }, is_path, a_path },
	{ { "db-idle-limit", ATOLL_SETTING_ONE, "1h" }, is_duration_or_none, a_duration_or_none },
	{ { "db-limit", ATOLL_SETTING_ONE }, is_duration, a_duration },
	{ { "disk", ATOLL_SETTING_ONE },
	  is_disk,
	  "it must be a number of bytes, or one with K, M, G or T, from 4K on" },
	{ { "env", ATOLL_SETTING_LIST }, is_assignment, "it must be NAME=VALUE" },
	{ { "env-file", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "hide", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "isolation", ATOLL_SETTING_ONE, "full" }, is_isolation, "it must be full or best" },
	{ { "keep-home", ATOLL_SETTING_LIST }, is_in_home, "it must be a path in the home directory" },
	{ { "keep-landed", ATOLL_SETTING_ONE, "7d" }, is_duration_or_none, a_duration_or_none },
	{ { "keep-landed-size", ATOLL_SETTING_ONE, "10G" },
	  is_size,
	  "it must be a number of bytes, or one with K, M, G or T" },
	{ { "log", ATOLL_SETTING_SWITCH, "no" }, is_switch, "it must be yes or no" },
	{ { "memory", ATOLL_SETTING_ONE },
	  is_memory,
	  "it must be a number of bytes, or one with K, M, G or T, from 1M on" },
	{ { "net", ATOLL_SETTING_ONE, "none" },
	  is_net,
	  "it must be none, host, presets or allow:HOST[:PORT],…",
	  parse_net },
	{ { "nofile", ATOLL_SETTING_ONE }, is_nofile, "it must be a number from 8 to 1073741824" },
	{ { "pids", ATOLL_SETTING_ONE }, is_pids, "it must be a number from 1 to 4194304" },
	{ { "publish", ATOLL_SETTING_LIST }, is_published, "it must be [ADDRESS:][HOSTPORT:]PORT" },
	{ { "ro", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "root", ATOLL_SETTING_ONE, "/" }, is_path, a_path },
	{ { "rw", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "scratch", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "seccomp", ATOLL_SETTING_ONE, "default" }, is_profile, "it must be default, strict or a path" },
	{ { "timeout", ATOLL_SETTING_ONE }, is_duration, a_duration },
	{ { "tmpfs", ATOLL_SETTING_LIST }, is_path, a_path },
	{ { "untrusted", ATOLL_SETTING_SWITCH, "no" }, is_switch, "it must be yes or no" },
	{ { "user", ATOLL_SETTING_ONE, "self" }, is_user, "it must be root or self" },
	{ { "userns", ATOLL_SETTING_SWITCH, "no" }, is_switch, "it must be yes or no" },
};

const struct atoll_setting_kind *atoll_setting_at(size_t i)
{
	return i < ARRAY_SIZE(kinds) ? &kinds[i].public : NULL;
}

const struct atoll_net_preset *atoll_net_preset_at(size_t i)
{
	return net_preset_at(i);
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].public.name, name) == 0)
			return &kinds[i];
	return NULL;
}

bool settings_is_path(const char *name, const char *value)
{
	const struct kind *kind = find_kind(name);

	return kind && (kind->check == is_path || (kind->check == is_profile && !is_profile_name(value)));
}

/* ---- the list ---- */

struct atoll_settings {
	struct atoll_setting *v; /* its strings are owned */
	size_t n;
};

static void release(struct atoll_setting *s)
{
	free((char *)s->name);
	free((char *)s->value);
	free((char *)s->source);
}

struct atoll_settings *atoll_settings_free(struct atoll_settings *settings)
{
	if (!settings)
		return NULL;
	for (size_t i = 0; i < settings->n; i++)
		release(&settings->v[i]);
	free(settings->v);
	free(settings);
	return NULL;
}

const struct atoll_setting *atoll_settings_get(const struct atoll_settings *settings, size_t i)
{
	return settings && i < settings->n ? &settings->v[i] : NULL;
}

void settings_remove(struct atoll_settings *settings, size_t i)
{
	release(&settings->v[i]);
	settings->n--;
	memmove(&settings->v[i], &settings->v[i + 1], (settings->n - i) * sizeof settings->v[i]);
}

static int check(const char *name, const char *value, const char *source, struct atoll_error *err)
{
	const struct kind *kind = name ? find_kind(name) : NULL;
	const char *before = source ? source : "", *between = source ? ": " : "";
	struct atoll_error why;

	if (!kind)
		return error_set(err, ATOLL_INVALID, 0, "settings", name,
				 "%s%sthere is no setting \"%s\"; atoll run --help lists those there are", before,
				 between, name ? name : "");
	if (value && kind->check(value))
		return 0;
	if (value && kind->parse && kind->parse(value, &why) < 0)
		return error_set(err, ATOLL_INVALID, 0, "settings", name, "%s%s%s: %s", before, between, name,
				 why.message);
	return error_set(err, ATOLL_INVALID, 0, "settings", name, "%s%s%s \"%s\" is not possible: %s", before, between,
			 name, value ? value : "", kind->wanted);
}

/* Stored settings are used from another directory later. */
static char *make_absolute(const char *path)
{
	AUTO_FREE char *cwd = NULL;

	if (*path == '/' || strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0)
		return strdup(path);
	cwd = getcwd(NULL, 0);
	return cwd ? str_format("%s/%s", cwd, path) : NULL;
}

int atoll_settings_add(struct atoll_settings **settings, const char *name, const char *value, const char *source,
		       struct atoll_error *err)
{
	struct atoll_setting s = { 0 }, *grown;
	int r = settings ? check(name, value, source, err)
			 : error_set(err, ATOLL_INVALID, 0, "settings", name, "no place was given for the settings");

	if (r < 0)
		return r;
	if (!*settings)
		*settings = calloc(1, sizeof **settings);
	if (!*settings)
		return error_oom(err, "settings");
	grown = reallocarray((*settings)->v, (*settings)->n + 1, sizeof s);
	if (!grown)
		return error_oom(err, "settings");
	(*settings)->v = grown;
	s.name = strdup(name);
	s.value = settings_is_path(name, value) ? make_absolute(value) : strdup(value);
	s.source = source ? strdup(source) : NULL;
	if (!s.name || !s.value || (source && !s.source)) {
		release(&s);
		return error_oom(err, "settings");
	}
	grown[(*settings)->n++] = s;
	return 0;
}

int settings_append(struct atoll_settings **settings, const struct atoll_settings *more, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; more && i < more->n && r >= 0; i++)
		r = atoll_settings_add(settings, more->v[i].name, more->v[i].value, more->v[i].source, err);
	return r;
}

/* ---- as text ---- */

int settings_encode(const struct atoll_settings *settings, char **ret)
{
	AUTO_STRBUF s = STRBUF_INIT;

	*ret = NULL;
	if (!settings || settings->n == 0)
		return 0;
	for (size_t i = 0; i < settings->n; i++) {
		strbuf_addf(&s, "%s=", settings->v[i].name);
		for (const char *p = settings->v[i].value; *p; p++) {
			if (*p == '\\' || *p == '\n')
				strbuf_addc(&s, '\\');
			strbuf_addc(&s, *p == '\n' ? 'n' : *p);
		}
		strbuf_addc(&s, '\n');
	}
	*ret = strbuf_take(&s);
	return *ret ? 0 : -ENOMEM;
}

static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && text[1]) {
			text++;
			*to++ = *text == 'n' ? '\n' : *text;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

int settings_decode(struct atoll_settings **settings, const char *text, const char *source, struct atoll_error *err)
{
	AUTO_FREE char *copy = strdup(text ? text : "");
	int r = 0;

	if (!copy)
		return error_oom(err, "settings");
	for (char *line = copy, *next; *line && r >= 0; line = next) {
		char *value = strchr(line, '=');

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (!value || value >= next)
			return error_set(err, ATOLL_CORRUPT, 0, "settings", source, "the settings of %s are damaged",
					 source);
		*value++ = '\0';
		unescape(value);
		r = atoll_settings_add(settings, line, value, source, err);
	}
	return r;
}
