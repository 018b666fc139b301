/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a configuration file holds a credential. The formats differ, but in all of them a
 * word before a credential says that it is one. So this code parses no format, but looks at every
 * word of the text, comments included. A file is harmless only if no word looks like the key of a
 * credential, or like a credential itself.
 */
#include "engine/run.h"

#include <ctype.h>
#include <string.h>

#define LONGEST_WORD 29 /* with letters and digits in it: a longer one may be a token */

/* A word with one of these in it is the key of a credential. In lower case. */
static const char *const parts[] = { "token",   "passw",   "passphrase",  "secret", "apikey",       "api_key",
				     "api-key", "private", "httpheaders", "cookie", "authorization" };
/* So is one of these words, also with underscores in front: "_auth", but not "always-auth" or
 * "auths". "account" is a second password in ~/.netrc. */
static const char *const words[] = { "account", "auth", "key", "otp", "pass", "pwd" };

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static bool is_telling(const char *word)
{
	const char *bare = word + strspn(word, "_");

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(word, parts[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(bare, words[i]) == 0)
			return true;
	return false;
}

static bool is_random(const char *word, size_t size)
{
	bool letter = false, digit = false;

	for (size_t i = 0; i < size; i++) {
		letter |= isalpha((unsigned char)word[i]) != 0;
		digit |= isdigit((unsigned char)word[i]) != 0;
	}
	return size > LONGEST_WORD && letter && digit;
}

static bool is_credential(const char *start, size_t size)
{
	char word[LONGEST_WORD + 35];

	if (is_random(start, size) || size >= sizeof word)
		return true;
	for (size_t i = 0; i < size; i++)
		word[i] = (char)tolower((unsigned char)start[i]);
	word[size] = '\0';
	return is_telling(word);
}

/* "https://user@host", with or without a password: the user may be a token. */
static bool has_user(const char *line)
{
	for (const char *p = line; (p = strstr(p, "://")); p += 3)
		if (memchr(p + 3, '@', strcspn(p + 3, "/ \t\"'")))
			return true;
	return false;
}

/* "//registry.example.org/:_authToken=${NPM_TOKEN}": the value is in the environment. */
static bool refers_to_environment(const char *line)
{
	const char *value = strchr(line, '=');
	size_t size;

	if (!value)
		return false;
	value += 1 + strspn(value + 1, " \t\"");
	size = strncmp(value, "${", 2) == 0 ? strcspn(value, "}") : 0;
	return size > 2 && value[size] == '}' && value[size + 1 + strspn(value + size + 1, " \t\"\r")] == '\0';
}

static bool is_harmless_line(const char *line)
{
	if (has_user(line))
		return false;
	if (refers_to_environment(line))
		return true;
	while (*line) {
		size_t size = 0;

		while (is_word_byte(line[size]))
			size++;
		if (size > 0 && is_credential(line, size))
			return false;
		line += size + (line[size] != '\0');
	}
	return true;
}

bool secret_content_is_harmless(const char *text, size_t size)
{
	AUTO_FREE char *copy = memchr(text, '\0', size) ? NULL : strndup(text, size);
	char *rest = copy, *line;

	if (!copy)
		return false;
	while ((line = strsep(&rest, "\n")))
		if (!is_harmless_line(line))
			return false;
	return true;
}
