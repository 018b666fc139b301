/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that --dir, --file, --git, --db and --resource name, for atoll new and for atoll
 * run without a name. */
#ifndef CLI_RESOURCES_H
#define CLI_RESOURCES_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/*
 * Reads the resources from the options, in the order given: fills *ret, which the caller frees and
 * whose strings belong to o, and *ret_n. Returns 0, or the exit status after printing a usage
 * error.
 */
int resources_of_options(struct cli *cli, const struct options *o, struct atoll_resource_spec **ret, size_t *ret_n);

#endif
