/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings of a run mean, in the form in which it is needed. */
#ifndef ENGINE_RUN_OPTIONS_H
#define ENGINE_RUN_OPTIONS_H

#include "engine/engine.h"
#include "jail/jail.h"

struct run_options {
	char *cwd;  /* absolute */
	char **env; /* ended by NULL */
	int64_t timeout_ms;
	struct jail_limits limits;
};

/* From the options, and what is kept with the sandbox. */
int run_options_make(const struct atoll_run_options *options, const struct store_sandbox *box, struct run_options *ret,
		     struct atoll_error *err);
void run_options_release(struct run_options *o);

/* environment.c: the environment of the command, ended by NULL: the caller's (or with clear only the few variables without which hardly
 * anything works), without those that steer the dynamic loader; then the files, then the single variables. PWD is cwd, unless that is NULL. */
int environment_make(bool clear, const char *const *files, const char *const *single, const char *cwd, char ***ret,
		     struct atoll_error *err);
void environment_free(char **env);

#endif
