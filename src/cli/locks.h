/* SPDX-License-Identifier: Apache-2.0 */
/* Relations of a database that a sandbox has locked so that everybody else waits: told by every command that could leave it so. */
#ifndef CLI_LOCKS_H
#define CLI_LOCKS_H

#include <atoll/atoll.h>

#include "base/json.h"
#include "cli/commands.h"

void locks_json(struct json *j, const struct atoll_resource_info *r); /* "locks": [{…}], where there are some */
/* Each locked relation as an element of the array of changes: it is none, as what is skipped is none. */
void locks_json_elements(struct json *j, const struct atoll_info *info);
void locks_warn(const struct atoll_info *info);
void locks_warn_of(struct cli *cli, const char *name); /* NULL: the only sandbox */

#endif
