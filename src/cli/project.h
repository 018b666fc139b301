/* SPDX-License-Identifier: Apache-2.0 */
/* What atoll run without a name works on: the resources that were named, or else the project around the current directory. */
#ifndef CLI_PROJECT_H
#define CLI_PROJECT_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/*
 * Makes the sandbox. Inside a git working tree its resource is the whole of it, as a repository that is taken as it is; where that is not
 * possible, the same directory, after a notice that says why. Elsewhere it is the current directory. If that is the home directory, or if
 * much would have to be copied, the user is asked first; where nobody can be asked, or the answer is no, ATOLL_REFUSED. Where resources
 * were named nothing is asked, and they are taken as atoll new takes them.
 */
struct project_request {
	const struct atoll_resource_spec *given; /* resources that were named */
	size_t n_given;
	const char *strategy; /* NULL, or what is to isolate the directory */
	bool yes;             /* ask nothing */
	const struct atoll_settings *config, *own;
};
int project_new(struct cli *cli, const struct project_request *request, struct atoll_info **ret,
		struct atoll_error *err);

#endif
