/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include <string.h>

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
