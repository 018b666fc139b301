/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the paths that a user gives in the resources. A path that names nothing is an error, never
 * an empty selection. */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>

#include "base/glob.h"
#include "base/similar.h"

/* Removes ".", empty parts and "..", by text. Absolute paths only. */
static char *normalise(const char *path)
{
	AUTO_STRBUF out = STRBUF_INIT;
	const char *at = path;

	while (*at) {
		size_t size = strcspn(at, "/");

		if (size == 2 && memcmp(at, "..", 2) == 0) {
			const char *slash = out.data ? strrchr(out.data, '/') : NULL;

			strbuf_truncate(&out, slash ? (size_t)(slash - out.data) : 0);
		} else if (size && !(size == 1 && *at == '.')) {
			strbuf_addc(&out, '/');
			strbuf_add(&out, at, size);
		}
		at += size;
		at += *at == '/';
	}
	if (!out.size)
		strbuf_addc(&out, '/');
	return strbuf_take(&out);
}

/* The directory part is resolved, as far as it exists; the last part may be a link or may be gone. */
static char *resolve(const char *path)
{
	AUTO_FREE char *clean = normalise(path);
	AUTO_FREE char *head = clean ? strdup(clean) : NULL;

	while (head && strlen(head) > 1) {
		char *slash = strrchr(head, '/');
		AUTO_FREE char *real = NULL;
		size_t cut = (size_t)(slash - head);

		head[cut ? cut : 1] = 0;
		real = realpath(head, NULL);
		if (real)
			return str_format("%s%s", strcmp(real, "/") == 0 ? "" : real, clean + cut);
	}
	return TAKE_PTR(clean);
}

static int add(struct selection *v, const char *path)
{
	char **grown = reallocarray(v->paths, v->n + 1, sizeof *grown);

	if (!grown)
		return -ENOMEM;
	v->paths = grown;
	v->paths[v->n] = strdup(path);
	return v->paths[v->n] ? (int)(v->n++, 0) : -ENOMEM;
}

/* The innermost resource that holds the path; or, for a path above resources, each of them as a whole. */
static int add_absolute(struct session *s, struct selection *v, const char *path)
{
	struct resource *best = NULL;
	size_t at = 0;
	int found = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];

		if (path_is_below(r->row.path, path)) {
			if (add(&v[i], "") < 0)
				return -ENOMEM;
			found = 1;
		}
		if (path_is_below(path, r->row.path) && (!best || strlen(r->row.path) > strlen(best->row.path))) {
			best = r;
			at = i;
		}
	}
	if (best && strcmp(best->row.path, path) != 0) {
		size_t size = strlen(best->root_path) + (strcmp(best->root_path, "/") != 0);

		if (add(&v[at], path + size) < 0)
			return -ENOMEM;
		found = 1;
	} else if (best && best->only && add(&v[at], best->only) < 0) {
		return -ENOMEM;
	}
	return found;
}

int selection_add_full(struct session *s, struct selection *v, const char *path)
{
	AUTO_FREE char *full = resolve(path);

	return full ? add_absolute(s, v, full) : -ENOMEM;
}

/* What is no file is named as it is shown. */
static int add_remote(struct session *s, struct selection *v, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (kind_is_remote(s->resources[i].row.kind) && strcmp(s->resources[i].row.path, name) == 0)
			return add(&v[i], "") < 0 ? -ENOMEM : 1;
	return 0;
}

static int add_wanted(struct session *s, struct selection *v, const char *path)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	AUTO_FREE char *joined = *path == '/' ? strdup(path) : cwd ? str_format("%s/%s", cwd, path) : NULL;
	AUTO_FREE char *full = joined ? resolve(joined) : NULL;
	int found = add_remote(s, v, path);

	if (found == 0 && full)
		found = add_absolute(s, v, full);
	if (found != 0 || *path == '/')
		return found;
	/* Not below the working directory's resource: relative to the first resource then. */
	for (size_t i = 0; i < s->n; i++) {
		AUTO_FREE char *inside = str_format("%s/%s", s->resources[i].root_path, path);
		AUTO_FREE char *clean = inside ? normalise(inside) : NULL;

		if (!clean)
			return -ENOMEM;
		found = add_absolute(s, v, clean);
		if (found != 0)
			return found;
	}
	return 0;
}

/* Records how the caller spelt all paths added since. */
static int note_given(struct selection *v, size_t n, const char *given)
{
	for (size_t i = 0; i < n; i++) {
		const char **words = reallocarray(v[i].given, v[i].n + 1, sizeof *words);

		if (!words)
			return -ENOMEM;
		v[i].given = words;
		while (v[i].n_given < v[i].n)
			words[v[i].n_given++] = given;
	}
	return 0;
}

/* A file or database whose name is literally the pattern takes precedence over the pattern. */
static int add_any(struct session *s, struct selection *v, const char *path)
{
	struct stat st;
	int found = glob_is_pattern(path) && lstat(path, &st) < 0 ? add_remote(s, v, path) : add_wanted(s, v, path);

	return found != 0 || !glob_is_pattern(path) ? found : selection_add_pattern(s, v, path);
}

/* ---- looking up ---- */

static int compare_words(const void *a, const void *b)
{
	return path_compare(*(const char *const *)a, *(const char *const *)b);
}

/* A user may tick tens of thousands of paths, and Atoll looks up each change among them. */
static int sort_paths(struct selection *v)
{
	if (v->n == 0)
		return 0;
	v->sorted = reallocarray(NULL, v->n, sizeof *v->sorted);
	if (!v->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++)
		v->sorted[i] = v->paths[i];
	qsort(v->sorted, v->n, sizeof *v->sorted, compare_words);
	return 0;
}

/* The order of path_compare() between a path and the first `size` bytes of another one. */
static int compare_beginning(const char *path, const char *other, size_t size)
{
	unsigned char x, y;
	size_t i = 0;

	while (i < size && path[i] == other[i])
		i++;
	x = (unsigned char)path[i];
	y = i < size ? (unsigned char)other[i] : 0;
	if (x == y)
		return 0;
	if (!x || !y)
		return x ? 1 : -1;
	if (x == '/' || y == '/')
		return x == '/' ? -1 : 1;
	return x < y ? -1 : 1;
}

/* Returns the index of the first selected path that does not sort before the first `size` bytes of
 * path. */
static size_t find_place(const struct selection *v, const char *path, size_t size)
{
	size_t low = 0, high = v->sorted ? v->n : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_beginning(v->sorted[middle], path, size) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Looks for the path itself, then for each directory above it. */
static const char *find_above(const struct selection *v, const char *path)
{
	for (size_t size = strlen(path);; size--) {
		size_t at = find_place(v, path, size);

		if (at < v->n && compare_beginning(v->sorted[at], path, size) == 0)
			return v->sorted[at];
		while (size > 0 && path[size - 1] != '/')
			size--;
		if (size == 0)
			return !*v->sorted[0] ? v->sorted[0] : NULL;
	}
}

const char *selection_cover(const struct selection *v, const char *path)
{
	const char *found = v->sorted ? find_above(v, path) : NULL;

	if (found)
		return found;
	for (size_t i = 0; i < v->n_patterns; i++)
		if (glob_covers(v->patterns[i], path))
			return v->patterns[i];
	return NULL;
}

bool selection_has_below(const struct selection *v, const struct changes *changes, const char *top)
{
	size_t at = find_place(v, top, strlen(top));

	return (v->sorted && at < v->n && path_is_below(v->sorted[at], top)) ||
	       selection_has_pattern_below(v, changes, top);
}

/* Resources lie at resolved paths, so the path of a change contains no link to follow. Resolving it
 * would be wrong: a directory in the sandbox may be a link in the original. */
static int add_exact(struct session *s, struct selection *v, const char *path)
{
	AUTO_FREE char *clean = normalise(path);
	int found = add_remote(s, v, path);

	if (found != 0)
		return found;
	return clean ? add_absolute(s, v, clean) : -ENOMEM;
}

int selection_for(const struct atoll_selection *wanted, struct session *s, struct selection **ret,
		  struct atoll_error *err)
{
	struct selection *v = calloc(s->n ? s->n : 1, sizeof *v);

	if (!v)
		return error_oom(err, "select");
	for (size_t i = 0; i < s->n; i++)
		v[i].all = !wanted || wanted->n_paths == 0;
	for (size_t i = 0; wanted && i < wanted->n_paths; i++) {
		const char *path = wanted->paths[i];
		int found = path && *path ? (wanted->exact ? add_exact(s, v, path) : add_any(s, v, path)) : -EINVAL;

		if (found > 0 && note_given(v, s->n, path) < 0)
			found = -ENOMEM;
		if (found > 0)
			continue;
		selection_free(v, s->n);
		if (found == -ENOMEM)
			return error_oom(err, "select");
		if (found == -EINVAL)
			return error_set(err, ATOLL_INVALID, 0, "select", NULL, "a path is empty");
		return error_set(err, ATOLL_NOT_FOUND, 0, "select", path,
				 "\"%s\" lies in no resource of the sandbox \"%s\"", path, s->box.name);
	}
	for (size_t i = 0; i < s->n; i++) {
		if (sort_paths(&v[i]) == 0)
			continue;
		selection_free(v, s->n);
		return error_oom(err, "select");
	}
	*ret = v;
	return 0;
}

static void free_words(char **words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(words[i]);
	free(words);
}

void selection_free(struct selection *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free_words(v[i].paths, v[i].n);
		free_words(v[i].patterns, v[i].n_patterns);
		free(v[i].given);
		free(v[i].sorted);
	}
	free(v);
}

bool selection_has(const struct selection *v, const char *path)
{
	return v->all || selection_cover(v, path);
}

/* ---- misspelt paths ---- */

static bool is_there(int root_fd, const char *path)
{
	AUTO_FD node = fd_open_beneath(root_fd, path, O_PATH);

	/* A path that cannot be looked up may exist. */
	return node >= 0 || (node != -ENOENT && node != -ENOTDIR && node != -ELOOP && node != -EBADF);
}

static bool names_something(const struct resource *r, const struct changes *changes, const char *path)
{
	AUTO_FD workspace = -EBADF;

	if (!*path || (r->only && strcmp(path, r->only) == 0) || changes_find(changes, path) ||
	    is_there(r->root_fd, path))
		return true;
	workspace = r->ops->workspace ? resource_workspace(r) : -EBADF;
	return is_there(workspace, path);
}

/* Returns the changed path that is spelt most like this one, relative to the working directory if
 * possible, or NULL if there is none. */
static char *nearest_change(const struct resource *r, const struct changes *changes, const char *path)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	AUTO_FREE char *full = NULL;
	struct similar near = similar_to(path);

	for (size_t i = 0; i < changes->n; i++)
		if (!changes->v[i].implied && !changes->v[i].part)
			similar_try(&near, changes->v[i].path);
	if (!near.best)
		return NULL;
	full = str_format("%s%s%s", r->root_path, strcmp(r->root_path, "/") == 0 ? "" : "/", near.best);
	if (full && cwd && strcmp(full, cwd) != 0 && strcmp(cwd, "/") != 0 && path_is_below(full, cwd))
		return strdup(full + strlen(cwd) + 1);
	return TAKE_PTR(full);
}

static int misspelt(const struct session *s, const struct resource *r, const struct changes *changes, const char *path,
		    const char *given, struct atoll_error *err)
{
	AUTO_FREE char *near = nearest_change(r, changes, path);

	return error_set(
		err, ATOLL_NOT_FOUND, 0, "select", given,
		"\"%s\" is no path of the sandbox \"%s\": it is neither in the original nor among the changes%s%s%s",
		given, s->box.name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

int selection_check(const struct selection *selections, struct session *s, struct changes *const *changes,
		    struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < selections[i].n; k++) {
			const struct resource *r = &s->resources[i];
			const char *path = selections[i].paths[k];

			if (!names_something(r, changes[i], path))
				return misspelt(s, r, changes[i], path, selections[i].given[k], err);
		}
	return 0;
}
