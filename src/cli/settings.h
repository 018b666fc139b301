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

static inline void cleanup_settings(struct atoll_settings **s)
{
	*s = atoll_settings_free(*s);
}
#define AUTO_SETTINGS CLEANUP(cleanup_settings) struct atoll_settings

#endif
