/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways of running a command. */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <fcntl.h>

#include "engine/engine.h"

int run_plain(struct session *s, const struct atoll_run_options *options, const char *cwd, struct atoll_run_result *ret,
	      struct atoll_error *err);

#endif
