/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <fnmatch.h>
#include <string.h>

#include "base/macros.h"

bool glob_is_pattern(const char *word)
{
	return strpbrk(word, "*?") != NULL;
}

static const char *skip_slashes(const char *text)
{
	return text + strspn(text, "/");
}

static bool is_any_depth(const char *component)
{
	return strncmp(component, "**", 2) == 0 && (component[2] == '/' || component[2] == '\0');
}

static bool component_matches(const char *pattern, size_t pattern_size, const char *name, size_t name_size)
{
	AUTO_FREE char *p = NULL, *n = NULL;

	if (pattern_size == name_size && memcmp(pattern, name, name_size) == 0)
		return true;
	if (!memchr(pattern, '*', pattern_size) && !memchr(pattern, '?', pattern_size) &&
	    !memchr(pattern, '[', pattern_size))
		return false;
	p = strndup(pattern, pattern_size);
	n = strndup(name, name_size);
	return p && n && fnmatch(p, n, FNM_NOESCAPE) == 0;
}

/* Only the latest ** needs to be tried with more components: the later one can match every
 * component that an earlier one could match. */
bool glob_covers(const char *pattern, const char *path)
{
	const char *again_pattern = NULL, *again_path = NULL;

	pattern = skip_slashes(pattern);
	path = skip_slashes(path);
	for (;;) {
		size_t pattern_size = strcspn(pattern, "/"), name_size = strcspn(path, "/");

		if (*path && is_any_depth(pattern)) {
			pattern = skip_slashes(pattern + pattern_size);
			if (!*pattern)
				return true;
			again_pattern = pattern;
			again_path = path;
		} else if (*path && pattern_size && component_matches(pattern, pattern_size, path, name_size)) {
			pattern = skip_slashes(pattern + pattern_size);
			path = skip_slashes(path + name_size);
			if (!*pattern)
				return true;
		} else if (again_path && *again_path) {
			again_path = skip_slashes(again_path + strcspn(again_path, "/"));
			pattern = again_pattern;
			path = again_path;
		} else {
			return false;
		}
	}
}
