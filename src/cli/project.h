/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the sandbox of atoll run without a name: over the named resources, or else over the
 * project around the current directory. */
#ifndef CLI_PROJECT_H
#define CLI_PROJECT_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/*
 * Makes the sandbox. Inside a git working tree its resource is the whole working tree, as a
 * repository that is taken as it is. If that is not possible, the resource is the same directory,
 * after a notice that says why. Elsewhere the resource is the current directory. If that is the
 * home directory, or if Atoll would have to copy many files, Atoll asks the user first; if it
 * cannot ask, or the user declines, the result is ATOLL_REFUSED. If the user named resources, Atoll
 * does not ask, and takes them as atoll new does.
 */
struct project_request {
	const struct atoll_resource_spec *given; /* resources that the user named */
	size_t n_given;
	const char *strategy; /* NULL, or the strategy to isolate the directory with */
	bool yes;             /* do not ask */
	bool allow_system;    /* as in struct atoll_resource_spec */
	const struct atoll_settings *config, *own;
};
int project_new(struct cli *cli, const struct project_request *request, struct atoll_info **ret,
		struct atoll_error *err);

#endif
