/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/untrusted.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/macros.h"
#include "engine/settings.h"

/* ---- variables that look like credentials ---- */

/* The name of a credential contains one of these parts. In capitals. */
static const char *const parts[] = { "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY" };
/* Or it contains one of these words between underscores. */
static const char *const words[] = { "AUTH", "COOKIE", "CREDS", "DSN", "KEY",    "PASS",
				     "PAT",  "PIN",    "PSK",   "PWD", "WEBHOOK" };
static const char *const harmless[] = { "PWD", "OLDPWD" };

static bool has_word(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = name; p; p = strchr(p, '_') ? strchr(p, '_') + 1 : NULL)
		if (strncmp(p, word, n) == 0 && (p[n] == '_' || p[n] == '\0'))
			return true;
	return false;
}

/* PGPASSWORD, GITHUB_TOKEN, AWS_ACCESS_KEY_ID, MYSQL_PWD; not PWD, KEYBOARD, GIT_AUTHOR_NAME. */
static bool is_credential_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (strcmp(harmless[i], name) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has_word(name, words[i]))
			return true;
	return false;
}

/* "https://ann:secret@example.org/". */
static bool has_password(const char *value)
{
	for (const char *p = value; (p = strstr(p, "://")); p += 3) {
		size_t n = strcspn(p + 3, "/?# \t\n");
		const char *at = memchr(p + 3, '@', n), *colon = memchr(p + 3, ':', n);

		if (at && colon && colon < at)
			return true;
	}
	return false;
}

bool untrusted_is_credential(const char *assignment)
{
	size_t size = strcspn(assignment, "=");
	char name[256];

	if (has_password(assignment) || size >= sizeof(name))
		return true;
	for (size_t i = 0; i < size; i++)
		name[i] = (char)toupper((unsigned char)assignment[i]);
	name[size] = '\0';
	return is_credential_name(name);
}

/* ---- settings that contradict "untrusted" ---- */

/* Settings that contradict "untrusted", and why. value: the only value that does not; NULL: every
 * value contradicts. */
static const struct {
	const char *name, *value, *why;
} contradictions[] = {
	{ "clear-env", "yes", "an untrusted command gets hardly any variable of yours" },
	{ "isolation", "full", "without namespaces there is no boundary" },
	{ "net", "none", "an untrusted command has no network" },
	{ "publish", NULL, "an untrusted command has no network" },
	{ "rw", NULL, "an untrusted command writes nowhere but in its sandbox" },
	{ "userns", "no", "an untrusted command gets no capability" },
};

static const char *find_contradiction(const struct atoll_setting *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(contradictions); i++)
		if (strcmp(contradictions[i].name, s->name) == 0)
			return contradictions[i].value && strcmp(contradictions[i].value, s->value) == 0
				       ? NULL
				       : contradictions[i].why;
	return NULL;
}

static bool is_variable(const struct atoll_setting *s)
{
	return strcmp(s->name, "env") == 0 || strcmp(s->name, "env-file") == 0;
}

static int check(const struct atoll_setting *s, struct atoll_error *err)
{
	const char *why = find_contradiction(s);

	if (why)
		return error_set(err, ATOLL_INVALID, 0, "run", s->name,
				 "%s \"%s\" and untrusted contradict each other: %s", s->name, s->value, why);
	if (strcmp(s->name, "env") == 0 && untrusted_is_credential(s->value))
		return error_set(
			err, ATOLL_INVALID, 0, "run", s->name,
			"env \"%.*s\" and untrusted contradict each other: the variable looks like a credential",
			(int)strcspn(s->value, "="), s->value);
	return 0;
}

static int origin_of(size_t i, const size_t numbers[ORIGIN_COUNT])
{
	int origin = 0;

	while (origin < ORIGIN_CALLER && i >= numbers[origin])
		i -= numbers[origin++];
	return origin;
}

/* Returns the origin of the last setting "untrusted"; -1 if there is none, or if it is "no". */
static int find_origin(const struct atoll_settings *settings, const size_t numbers[ORIGIN_COUNT])
{
	const struct atoll_setting *s;
	int origin = -1;

	for (size_t i = 0; (s = atoll_settings_get(settings, i)); i++)
		if (strcmp(s->name, "untrusted") == 0)
			origin = strcmp(s->value, "yes") == 0 ? origin_of(i, numbers) : -1;
	return origin;
}

int untrusted_check(const struct atoll_settings *settings, struct atoll_error *err)
{
	const size_t numbers[ORIGIN_COUNT] = { 0, 0, SIZE_MAX };
	const struct atoll_setting *s;
	int r = 0;

	for (size_t i = 0; find_origin(settings, numbers) >= 0 && r == 0 && (s = atoll_settings_get(settings, i)); i++)
		r = check(s, err);
	return r;
}

int untrusted_apply(struct atoll_settings *settings, size_t numbers[ORIGIN_COUNT], bool *ret, struct atoll_error *err)
{
	int origin = find_origin(settings, numbers);
	const struct atoll_setting *s;

	*ret = origin >= 0;
	for (size_t i = 0; *ret && (s = atoll_settings_get(settings, i));) {
		int own = origin_of(i, numbers);
		int r = own >= origin ? check(s, err) : 0;

		if (r < 0)
			return r;
		if (own < origin && (find_contradiction(s) || is_variable(s))) {
			settings_remove(settings, i);
			numbers[own]--;
		} else {
			i++;
		}
	}
	return 0;
}
