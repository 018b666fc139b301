/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of a selection. The selection keeps them apart from paths, since the name of a file may
 * contain a star. */
#include <string.h>

#include "base/glob.h"
#include "engine/engine.h"

/* A pattern without a slash matches names at any depth, as in a .gitignore. */
static char *anchor(const char *dir, const char *pattern)
{
	return str_format("%s/%s%s", dir, strchr(pattern, '/') ? "" : "**/", pattern);
}

/* Adds the pattern to the resource that contains its directory. A resource that is a single file is
 * matched by its name. */
static int add_in(struct session *s, struct selection *v, const char *full)
{
	int found = selection_add_full(s, v, full);

	for (size_t i = 0; i < s->n && found >= 0; i++) {
		struct resource *r = &s->resources[i];
		char **paths;

		if (!r->only || !glob_covers(full, r->row.path))
			continue;
		paths = reallocarray(v[i].paths, v[i].n + 1, sizeof *paths);
		if (!paths)
			return -ENOMEM;
		v[i].paths = paths;
		paths[v[i].n] = strdup(r->only);
		if (!paths[v[i].n])
			return -ENOMEM;
		v[i].n++;
		found = 1;
	}
	return found;
}

/* Like a path, a pattern is relative to the working directory or, if no resource contains that, to
 * every resource. */
static int find_pattern(struct session *s, struct selection *v, const char *pattern)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	AUTO_FREE char *full = *pattern == '/' ? strdup(pattern) : cwd ? anchor(cwd, pattern) : NULL;
	int found = full ? add_in(s, v, full) : 0;

	if (found != 0 || *pattern == '/')
		return found;
	for (size_t i = 0; i < s->n; i++) {
		AUTO_FREE char *inside = anchor(s->resources[i].root_path, pattern);
		int r = inside ? add_in(s, v, inside) : -ENOMEM;

		if (r < 0)
			return r;
		found |= r;
	}
	return found;
}

int selection_add_pattern(struct session *s, struct selection *v, const char *pattern)
{
	struct selection *found = calloc(s->n ? s->n : 1, sizeof *found);
	int r = found ? find_pattern(s, found, pattern) : -ENOMEM;

	for (size_t i = 0; i < s->n && r > 0; i++) {
		char **grown = reallocarray(v[i].patterns, v[i].n_patterns + found[i].n + 1, sizeof *grown);

		if (!grown) {
			r = -ENOMEM;
			break;
		}
		v[i].patterns = grown;
		while (found[i].n)
			grown[v[i].n_patterns++] = found[i].paths[--found[i].n];
	}
	selection_free(found, s->n);
	return r;
}

bool selection_has_pattern_below(const struct selection *v, const struct changes *changes, const char *top)
{
	const struct change *at = v->n_patterns ? changes_find(changes, top) : NULL;

	for (; at && at < changes->v + changes->n && path_is_below(at->path, top); at++)
		for (size_t k = 0; k < v->n_patterns; k++)
			if (!at->part && glob_covers(v->patterns[k], at->path))
				return true;
	return false;
}

static bool matches_any(const char *pattern, const struct changes *changes)
{
	for (size_t i = 0; changes && i < changes->n; i++)
		if (!changes->v[i].part && glob_covers(pattern, changes->v[i].path))
			return true;
	return false;
}

/* Whether the pattern matches in any resource. The caller may have meant it for one of several. */
static bool is_of_use(const struct selection *selections, struct session *s, struct changes *const *changes,
		      const char *pattern)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < selections[i].n_patterns; k++)
			if (strcmp(selections[i].patterns[k], pattern) == 0 && matches_any(pattern, changes[i]))
				return true;
	return false;
}

int selection_check_patterns(const struct selection *selections, struct session *s, struct changes *const *changes,
			     const char *operation, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < selections[i].n_patterns; k++)
			if (!is_of_use(selections, s, changes, selections[i].patterns[k]))
				return error_set(err, ATOLL_NOT_FOUND, 0, operation, selections[i].patterns[k],
						 "no change in the sandbox \"%s\" matches \"%s\"", s->box.name,
						 selections[i].patterns[k]);
	return 0;
}
