/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are settings of the library: they have its names. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <atoll/atoll.h>

#include "cli/options.h"

/* The settings among the options, in the order given. */
int settings_of_options(const struct options *o, struct atoll_settings **ret, struct atoll_error *err);

/* Those of the standard config files, and of --config. */
int settings_of_config(const struct options *o, struct atoll_settings **ret, struct atoll_error *err);

/* Returns whether a sandbox that was made for a run is kept for its undo record: true unless
 * keep-landed is "none". */
bool settings_keep_landed(const struct atoll_settings *config, const struct atoll_settings *own);

/* Resources, with those parts of the home directory that --keep-home and config files name. */
struct settings_resources {
	struct atoll_resource_spec *v;
	size_t n;
	char **paths; /* owned */
	size_t n_paths;
};
/* After the first ones. What a config file names may be absent, or lie in one of those already. */
int settings_kept_home(const struct atoll_settings *config, const struct atoll_settings *own,
		       const struct atoll_resource_spec *first, size_t n_first, struct settings_resources *ret,
		       struct atoll_error *err);
void settings_resources_release(struct settings_resources *r);

static inline void cleanup_settings(struct atoll_settings **s)
{
	*s = atoll_settings_free(*s);
}
#define AUTO_SETTINGS CLEANUP(cleanup_settings) struct atoll_settings

#endif
