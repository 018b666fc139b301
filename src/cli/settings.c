/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/strbuf.h"

static bool is_setting(const char *name)
{
	for (size_t i = 0; atoll_setting_at(i); i++)
		if (strcmp(atoll_setting_at(i)->name, name) == 0)
			return true;
	return false;
}

int settings_of_options(const struct options *o, struct atoll_settings **ret, struct atoll_error *err)
{
	AUTO_SETTINGS *settings = NULL;

	for (size_t i = 0; i < o->n_uses; i++) {
		const char *name = o->uses[i].spec->name, *value = o->uses[i].value;
		int r = is_setting(name) ? atoll_settings_add(&settings, name, value ? value : "yes", NULL, err) : 0;

		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(settings);
	return 0;
}

int settings_of_config(const struct options *o, struct atoll_settings **ret, struct atoll_error *err)
{
	AUTO_SETTINGS *settings = NULL;
	int r = atoll_settings_read_standard(&settings, err);

	for (size_t i = 0; i < o->n_uses && r >= 0; i++)
		if (strcmp(o->uses[i].spec->name, "config") == 0)
			r = atoll_settings_read(&settings, o->uses[i].value, err);
	if (r >= 0)
		*ret = TAKE_PTR(settings);
	return r;
}

bool settings_keep_landed(const struct atoll_settings *config, const struct atoll_settings *own)
{
	const struct atoll_settings *const lists[] = { config, own };
	const struct atoll_setting *s;
	bool keep = true;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t k = 0; (s = atoll_settings_get(lists[i], k)); k++)
			if (strcmp(s->name, "keep-landed") == 0)
				keep = strcmp(s->value, "none") != 0;
	return keep;
}

static size_t count(const struct atoll_settings *settings)
{
	size_t n = 0;

	while (atoll_settings_get(settings, n))
		n++;
	return n;
}

void settings_resources_release(struct settings_resources *r)
{
	for (size_t i = 0; i < r->n_paths; i++)
		free(r->paths[i]);
	free(r->paths);
	free(r->v);
}

/* The path of a part of the home directory; NULL if it is in another place. */
static char *find_in_home(const char *value)
{
	const char *home = getenv("HOME");
	size_t size = home ? strlen(home) : 0;

	if (!home || *home != '/')
		return NULL;
	if (*value == '/')
		return strncmp(value, home, size) == 0 && value[size] == '/' ? strdup(value) : NULL;
	return str_format("%s/%s", home, strncmp(value, "~/", 2) == 0 ? value + 2 : value);
}

static bool is_held(const struct settings_resources *r, const char *path)
{
	AUTO_FREE char *real = realpath(path, NULL);

	for (size_t i = 0; i < r->n && real; i++) {
		AUTO_FREE char *top = realpath(r->v[i].path, NULL);
		size_t size = top ? strlen(top) : 0;

		if (top && strncmp(real, top, size) == 0 && (real[size] == '/' || real[size] == '\0'))
			return true;
	}
	return false;
}

static int add_kept(struct settings_resources *r, const char *value, bool of_config, struct atoll_error *err)
{
	AUTO_FREE char *path = find_in_home(value);
	struct stat st;

	if (!path)
		return error_set(err, ATOLL_INVALID, 0, "new", value, "keep-home \"%s\" does not lie in $HOME", value);
	if (of_config && (is_held(r, path) || access(path, F_OK) < 0))
		return 0;
	if (stat(path, &st) < 0)
		return error_sys(err, errno, "new", path, "keep-home \"%s\" cannot be looked at", path);
	r->v[r->n++] = (struct atoll_resource_spec){ .kind = S_ISDIR(st.st_mode) ? ATOLL_KIND_DIR : ATOLL_KIND_FILE,
						     .path = path };
	r->paths[r->n_paths++] = TAKE_PTR(path);
	return 0;
}

int settings_kept_home(const struct atoll_settings *config, const struct atoll_settings *own,
		       const struct atoll_resource_spec *first, size_t n_first, struct settings_resources *ret,
		       struct atoll_error *err)
{
	const struct atoll_settings *const lists[] = { config, own };
	size_t most = count(config) + count(own) + n_first + 1;
	int r = 0;

	ret->v = calloc(most, sizeof(*ret->v));
	ret->paths = calloc(most, sizeof(*ret->paths));
	if (!ret->v || !ret->paths)
		return error_oom(err, "new");
	while (ret->n < n_first) {
		ret->v[ret->n] = first[ret->n];
		ret->n++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct atoll_setting *s;

		for (size_t k = 0; (s = atoll_settings_get(lists[i], k)) && r >= 0; k++)
			if (strcmp(s->name, "keep-home") == 0)
				r = add_kept(ret, s->value, lists[i] == config, err);
	}
	return r;
}
