/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways of running a command. */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <fcntl.h>

#include "engine/engine.h"
#include "engine/run-options.h"

int run_plain(struct session *s, char *const *argv, const struct run_options *o, struct atoll_run_result *ret,
	      struct atoll_error *err);

#endif
